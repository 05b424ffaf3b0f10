// The tokenizers on arbitrary text and on hostile metadata. The first byte chooses the target, the rest is the input.
// Read next: src/vocab/vocab.h.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "base/log.h"
#include "vocab/pretokenize.h"
#include "vocab/tiny_vocab.h"
#include "vocab/utf8.h"
#include "vocab/vocab.h"

namespace {

using namespace foresay;
using vocab::TinyVocab;
using vocab::TokenId;
using vocab::Vocab;

std::shared_ptr<const Vocab> must_load(const TinyVocab& tiny) {
    auto loaded = tiny.load();
    FORESAY_ASSERT(loaded.has_value());
    return *loaded;
}

TinyVocab with_pre(TinyVocab tiny, std::string pre) {
    tiny.pre = std::move(pre);
    return tiny;
}

/// One vocabulary per path through the code: each kind, several pre-tokenizers, blanks stripped on both sides (phi-3).
const std::vector<std::shared_ptr<const Vocab>>& vocabularies() {
    static const std::vector<std::shared_ptr<const Vocab>> all = [] {
        log::configure({.level = log::Level::kOff});
        TinyVocab phi3 = vocab::tiny_spm();
        phi3.name = "phi-3";
        return std::vector<std::shared_ptr<const Vocab>>{
            must_load(vocab::tiny_bpe()),
            must_load(with_pre(vocab::tiny_bpe(), "llama-bpe")),
            must_load(with_pre(vocab::tiny_bpe(), "deepseek-llm")),
            must_load(with_pre(vocab::tiny_bpe(), "gpt-4o")),
            must_load(with_pre(vocab::tiny_bpe(), "superbpe")),
            must_load(with_pre(vocab::tiny_bpe(), "jais-2")),
            must_load(vocab::tiny_gemma4()),
            must_load(with_pre(vocab::tiny_bpe(), "default")),
            must_load(vocab::tiny_spm()),
            must_load(phi3),
        };
    }();
    return all;
}

std::string pieces(const Vocab& vocab, const std::vector<TokenId>& ids) {
    std::string text;
    for (const TokenId id : ids) {
        FORESAY_ASSERT(id >= 0 && id < vocab.n_tokens());
        text += vocab.piece(id, true);
    }
    return text;
}

/// `raw`: any bytes. Nothing may crash, streams must be valid UTF-8, and valid text must come back.
void check_text(const Vocab& vocab, std::string_view raw, bool parse_special) {
    const std::vector<TokenId> ids = vocab.encode(raw, true, parse_special);
    vocab.decode(ids, true, true);
    vocab.decode(ids, false, false);
    vocab::Utf8Stream stream;
    std::string sent;
    for (const TokenId id : ids) {
        sent += stream.push(vocab.piece(id, false));
        FORESAY_ASSERT(vocab::is_valid_utf8(sent));
    }
    sent += stream.finish();
    FORESAY_ASSERT(vocab::is_valid_utf8(sent));
    if (vocab.kind() == vocab::Kind::kBpe) {
        const std::string text = vocab::is_valid_utf8(raw) ? std::string(raw) : vocab::repair_utf8(raw).text;
        const std::string back = pieces(vocab, vocab.encode(raw, false, parse_special));
        // A special token can cut an invalid sequence in two, and U+2581 comes back as a blank in the Gemma 4 kind.
        if (vocab::is_valid_utf8(raw) && text.find(vocab::kMetaspace) == std::string::npos) {
            FORESAY_ASSERT(back == text);
        }
        return;
    }
    // SPM is lossless, but for U+2581, the blanks around special tokens, and a blank behind a cut-off sequence (symbols
    // are as long as their first byte says, so that one takes in the bytes of the escaped blank; the reference does the
    // same).
    const bool splits_cleanly = vocab::is_valid_utf8(raw) || raw.find(' ') == std::string_view::npos;
    if (splits_cleanly && raw.find(vocab::kMetaspace) == std::string_view::npos &&
        raw.find('<') == std::string_view::npos) {
        const std::vector<TokenId> plain = vocab.encode(raw, false, parse_special);
        FORESAY_ASSERT(vocab.decode(plain, false, true) == raw);
    }
}

/// Streams must not depend on the cuts.
void check_stream(std::string_view raw) {
    vocab::Utf8Stream whole;
    std::string expected = whole.push(raw);
    expected += whole.finish();
    vocab::Utf8Stream bytes;
    std::string out;
    for (const char c : raw) {
        out += bytes.push({&c, 1});
    }
    out += bytes.finish();
    FORESAY_ASSERT(out == expected);
    FORESAY_ASSERT(!vocab::is_valid_utf8(raw) || out == raw);
}

/// Tokens, types, merges and ids from the input, in a file that is well-formed as GGUF; then text through whatever
/// loads.
void check_metadata(std::span<const uint8_t> input) {
    size_t pos = 0;
    const auto next = [&]() -> uint8_t { return pos < input.size() ? input[pos++] : uint8_t{0}; };
    const auto string = [&](size_t limit) {
        std::string text;
        for (size_t n = next() % limit; n > 0 && pos < input.size(); --n) {
            text.push_back(static_cast<char>(next()));
        }
        return text;
    };
    const uint8_t choice = next();
    TinyVocab tiny = (choice & 3) == 0   ? vocab::tiny_spm()
                     : (choice & 3) == 1 ? vocab::tiny_gemma4()
                                         : vocab::tiny_bpe();
    if ((choice & 4) != 0) {
        tiny.tokens.clear();
        tiny.types.clear();
        tiny.scores.clear();
        tiny.merges.clear();
    }
    if (const auto pre_types = vocab::pre_types(); (choice & 8) != 0) {
        tiny.pre = pre_types[next() % pre_types.size()].name;
    }
    tiny.ids.clear();
    const std::string name = string(16);
    for (int guard = 0; pos < input.size() && guard < 200; ++guard) {
        switch (next() % 7) {
            case 0:
                tiny.add(string(12), next() % 8, static_cast<float>(static_cast<int8_t>(next())));
                break;
            case 1:
                tiny.merges.push_back(string(8) + " " + string(8));
                break;
            case 2:
                tiny.types.push_back(static_cast<int32_t>(next()) - 100);
                break;
            case 3:
                tiny.scores.push_back(static_cast<float>(next()));
                break;
            case 4:
                tiny.ids.emplace_back(next() % 2 == 0 ? "bos_token_id" : "eos_token_id", next() * 0x01010101U);
                break;
            case 5:
                tiny.add("<" + string(6) + ">", 2 + next() % 5);
                break;
            case 6:
                if (!tiny.types.empty()) {
                    tiny.types[next() % tiny.types.size()] = next() % 8;
                }
                break;
        }
        if (tiny.ids.size() > 1 && tiny.ids[0].first == tiny.ids[1].first) {
            tiny.ids.pop_back();  // the writer takes a key once
        }
        if (tiny.ids.size() > 2) {
            tiny.ids.resize(2);
        }
    }
    tiny.name = name;
    tiny.flags = {{"add_bos_token", (choice & 16) != 0}, {"add_eos_token", (choice & 32) != 0}};
    const auto loaded = tiny.load();
    if (!loaded.has_value()) {
        FORESAY_ASSERT(!loaded.error().message.empty());
        return;
    }
    const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
    for (const bool parse_special : {false, true}) {
        const std::vector<TokenId> ids = (*loaded)->encode(text, true, parse_special);
        pieces(**loaded, ids);
        (*loaded)->decode(ids, parse_special, !parse_special);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto& all = vocabularies();
    if (size == 0) {
        return 0;
    }
    const size_t target = data[0] % (all.size() + 3);
    const std::string_view raw(reinterpret_cast<const char*>(data + 1), size - 1);
    if (target < all.size()) {
        check_text(*all[target], raw, (data[0] & 0x80) != 0);
    } else if (target == all.size()) {
        check_stream(raw);
    } else if (target == all.size() + 1) {
        check_metadata({data + 1, size - 1});
    } else {
        const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
        const auto file = gguf::File::from_bytes(bytes);
        if (file.has_value()) {
            const auto loaded = Vocab::load(**file);
            FORESAY_ASSERT(loaded.has_value() || !loaded.error().message.empty());
        }
    }
    return 0;
}
