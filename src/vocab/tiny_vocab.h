// Small vocabularies made in memory, for tests and fuzzing. Test use only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "vocab/byte_map.h"
#include "vocab/vocab.h"

namespace foresay::vocab {

/// What goes into the file; tests change a valid one to make it bad.
struct TinyVocab {
    std::string model = "gpt2";
    std::string pre = "gpt-2";
    std::string name = "tiny";
    std::vector<std::string> tokens;
    std::vector<int32_t> types;
    std::vector<float> scores;
    std::vector<std::string> merges;
    std::vector<std::pair<std::string, uint32_t>> ids;  ///< "bos_token_id", value
    std::vector<std::pair<std::string, bool>> flags;    ///< "add_bos_token", value
    std::function<void(gguf::Writer*)> extra;           ///< further keys

    void add(std::string text, int32_t type = 1, float score = 0) {
        tokens.push_back(std::move(text));
        types.push_back(type);
        scores.push_back(score);
    }

    /// A merge and, where it is missing, its result.
    void add_merge(const std::string& left, const std::string& right) {
        merges.push_back(left + " " + right);
        for (const std::string& token : tokens) {
            if (token == left + right) {
                return;
            }
        }
        add(left + right);
    }

    std::vector<std::byte> bytes() const {
        gguf::Writer writer;
        writer.set("general.architecture", "llama");
        writer.set("general.name", name);
        writer.set("tokenizer.ggml.model", model);
        if (!pre.empty()) {
            writer.set("tokenizer.ggml.pre", pre);
        }
        writer.set("tokenizer.ggml.tokens", tokens);
        writer.set("tokenizer.ggml.token_type", types);
        if (!scores.empty()) {
            writer.set("tokenizer.ggml.scores", scores);
        }
        if (model != "llama") {
            writer.set("tokenizer.ggml.merges", merges);
        }
        for (const auto& [key, id] : ids) {
            writer.set("tokenizer.ggml." + key, id);
        }
        for (const auto& [key, flag] : flags) {
            writer.set("tokenizer.ggml." + key, flag);
        }
        if (extra) {
            extra(&writer);
        }
        return writer.to_bytes();
    }

    /// The bytes are dropped after loading: a Vocab must not keep views into the file.
    Result<std::shared_ptr<const Vocab>> load() const {
        const std::vector<std::byte> file_bytes = bytes();
        FORESAY_TRY(const std::shared_ptr<const gguf::File> file, gguf::File::from_bytes(file_bytes));
        return Vocab::load(*file);
    }
};

/// Byte-level BPE: 256 byte symbols (ids 0-255), then specials, then a few merges.
inline TinyVocab tiny_bpe() {
    TinyVocab tiny;
    for (int byte = 0; byte < 256; ++byte) {
        tiny.add(std::string(byte_map_symbol(static_cast<unsigned char>(byte))));
    }
    tiny.add("<|endoftext|>", 3);  // 256
    tiny.add("<|im_start|>", 3);   // 257
    tiny.add("<|im_end|>", 3);     // 258
    tiny.add("<tool>", 4);         // 259, user-defined
    tiny.add("<tool>x", 4);        // 260, longer than the one before
    tiny.ids = {{"bos_token_id", 256}, {"eos_token_id", 256}};
    for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{{"h", "e"},
                                                                                      {"l", "l"},
                                                                                      {"he", "ll"},
                                                                                      {"hell", "o"},
                                                                                      {"\xC4\xA0", "w"},
                                                                                      {"o", "r"},
                                                                                      {"a", "a"},
                                                                                      {"aa", "aa"}}) {
        tiny.add_merge(left, right);
    }
    return tiny;
}

/// SPM: unk, BOS, EOS, 256 byte tokens (3-258), then pieces with scores.
inline TinyVocab tiny_spm() {
    TinyVocab tiny;
    tiny.model = "llama";
    tiny.pre = "";
    tiny.add("<unk>", 2);
    tiny.add("<s>", 3);
    tiny.add("</s>", 3);
    for (int byte = 0; byte < 256; ++byte) {
        constexpr const char* kHex = "0123456789ABCDEF";
        tiny.add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", 6);
    }
    float score = -1;
    for (const char* piece : {"\xE2\x96\x81", "h", "e", "l", "o", "w", "r", "d", "a", "\xC3\xA9", "ll", "he",
                              "\xE2\x96\x81w", "aa", "lo", "hell", "hello", "\xE2\x96\x81hello", "aaaa"}) {
        tiny.add(piece, 1, score--);
    }
    tiny.add("<tool>", 4);
    return tiny;
}

/// The Gemma 4 kind: raw UTF-8 merges, U+2581 for blanks, byte tokens.
inline TinyVocab tiny_gemma4() {
    TinyVocab tiny;
    tiny.model = "gemma4";
    tiny.pre = "";
    tiny.add("<pad>", 3);
    tiny.add("<eos>", 3);
    tiny.add("<bos>", 3);
    for (int byte = 0; byte < 256; ++byte) {
        constexpr const char* kHex = "0123456789ABCDEF";
        tiny.add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", 6);
    }
    for (const char* piece : {"\xE2\x96\x81", "h", "e", "l", "o", "\n", "\n\n", "\xC3\xA9"}) {
        tiny.add(piece);
    }
    for (const auto& [left, right] :
         std::vector<std::pair<std::string, std::string>>{{"\n", "\n"},
                                                          {"h", "e"},
                                                          {"l", "l"},
                                                          {"\xE2\x96\x81", "he"},
                                                          {"\xE2\x96\x81he", "ll"},
                                                          {"\xE2\x96\x81", "\xE2\x96\x81"}}) {
        tiny.add_merge(left, right);
    }
    tiny.ids = {{"bos_token_id", 2}, {"eos_token_id", 1}};
    return tiny;
}

}  // namespace foresay::vocab
