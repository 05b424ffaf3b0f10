// BPE on ids: every merge of a checked table joins two tokens to a token, so texts are looked up for single characters
// only.
#include "vocab/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "vocab/byte_map.h"
#include "vocab/utf8.h"
#include "vocab/word_cache.h"

namespace foresay::vocab {

namespace {

// Positions are 32 bits wide; a longer word is cut, which changes a token per GiB at most.
constexpr size_t kMaxWordBytes = size_t{1} << 30;

/// The same text with every surrogate (three bytes) as U+E000 (three bytes, also neither letter, number, mark nor
/// blank): PCRE2 must not see surrogates, and offsets must stay.
std::string hide_surrogates(std::string_view text) {
    std::string out(text);
    for (size_t pos = 0; pos < out.size();) {
        const Decoded decoded = decode_utf8(out, pos);
        if (decoded.cp >= 0xD800 && decoded.cp < 0xE000) {
            out.replace(pos, 3, "\xEE\x80\x80");
        }
        pos += decoded.bytes;
    }
    return out;
}

bool is_all_newlines(std::string_view word) {
    return word.find_first_not_of('\n') == std::string_view::npos;
}

}  // namespace

uint64_t MergeTable::key_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t MergeTable::home(uint64_t key) const {
    // Fibonacci hashing: ids are small and dense, so the product's high bits are the mixed ones.
    return static_cast<size_t>((key ^ (key >> 29)) * 0x9E3779B97F4A7C15ULL >> 20) & (slots_.size() - 1);
}

Result<MergeTable> MergeTable::create(const std::vector<std::string_view>& merges, const TokenTable& tokens) {
    MergeTable table;
    table.slots_.resize(std::bit_ceil(merges.size() + merges.size() / 3 + 1));
    std::string joined;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const auto bad = [&](std::string_view what) {
            return error(Code::kBadFile, fmt::format("merge {} '{}': {}", rank, merges[rank].substr(0, 100), what),
                         "tokenizer.ggml.merges");
        };
        // A left part may begin with a blank of its own.
        const size_t blank = merges[rank].find(' ', 1);
        if (blank == std::string_view::npos) {
            return bad("not two parts separated by a blank");
        }
        const std::string_view left_text = merges[rank].substr(0, blank);
        const std::string_view right_text = merges[rank].substr(blank + 1);
        const TokenId left = tokens.find(left_text);
        const TokenId right = tokens.find(right_text);
        joined.assign(left_text).append(right_text);
        const TokenId result = tokens.find(joined);
        if (left == kNoToken || right == kNoToken || result == kNoToken) {
            return bad(left == kNoToken    ? "the left part isn't a token"
                       : right == kNoToken ? "the right part isn't a token"
                                           : "the joined text isn't a token");
        }
        const uint64_t key = key_of(left, right);
        size_t slot = table.home(key);
        while (table.slots_[slot].key != kEmpty && table.slots_[slot].key != key) {
            slot = (slot + 1) & (table.slots_.size() - 1);
        }
        if (table.slots_[slot].key == kEmpty) {  // of duplicates the first counts
            table.slots_[slot] = {key, {static_cast<uint32_t>(rank), result}};
        }
    }
    return table;
}

Merge MergeTable::find(TokenId left, TokenId right) const {
    if (left == kNoToken || right == kNoToken) {
        return {};
    }
    const uint64_t key = key_of(left, right);
    for (size_t slot = home(key); slots_[slot].key != kEmpty; slot = (slot + 1) & (slots_.size() - 1)) {
        if (slots_[slot].key == key) {
            return slots_[slot].merge;
        }
    }
    return {};
}

BpeVocab::BpeVocab(Content content, uint8_t pre_flags, MergeTable merges,
                   std::unique_ptr<const PreTokenizer> pre_tokenizer)
    : CommonVocab(std::move(content)),
      pre_flags_(pre_flags),
      merges_(std::move(merges)),
      pre_tokenizer_(std::move(pre_tokenizer)),
      blank_words_(tokens()),
      byte_tokens_(tokens().byte_tokens()) {
    for (size_t byte = 0; byte < byte_symbols_.size(); ++byte) {
        byte_symbols_[byte] = tokens().find(byte_map_symbol(static_cast<unsigned char>(byte)));
    }
    const std::vector<TokenId> newline = encode("\n", false, false);
    set_newline(newline.empty() ? special().pad : newline.front());
}

void BpeVocab::encode_fragment(std::string_view raw, FragmentPlace /*place*/, std::vector<TokenId>* out) const {
    std::string escaped;
    if (settings().escape_spaces) {
        escaped = replace_all(raw, " ", kMetaspace);
        raw = escaped;
    }
    if (is_valid_utf8(raw)) {
        encode_text(raw, false, out);
        return;
    }
    const Repaired repaired = repair_utf8(raw);
    encode_text(repaired.text, repaired.has_surrogates, out);
}

void BpeVocab::encode_text(std::string_view text, bool has_surrogates, std::vector<TokenId>* out) const {
    MergeQueue queue;
    WordCache cache(text.size());
    const bool cut_at_blanks = settings().escape_spaces && (pre_flags_ & kMetaspaceWords) == 0;
    for (const Word& word : pre_tokenizer_->split(has_surrogates ? hide_surrogates(text) : text)) {
        for (size_t begin = word.begin; begin < word.end;) {
            std::string_view part = text.substr(begin, std::min(kMaxWordBytes, word.end - begin));
            part = cut_at_blanks ? part.substr(0, blank_words_.first_word(part)) : part;
            cache.append(part, out, [&](std::string_view fresh) { encode_word(fresh, &queue, out); });
            begin += part.size();
        }
    }
}

void BpeVocab::encode_word(std::string_view word, MergeQueue* queue, std::vector<TokenId>* out) const {
    if (settings().byte_level) {
        encode_byte_word(word, queue, out);
        return;
    }
    if ((pre_flags_ & kNewlineWords) != 0 && is_all_newlines(word)) {
        const TokenId id = tokens().find(word);
        if (id != kNoToken) {
            out->push_back(id);
            return;
        }
    } else if ((pre_flags_ & kMetaspaceWords) != 0) {
        encode_metaspace_line(word, queue, out);
        return;
    }
    encode_raw_word(word, queue, out);
}

void BpeVocab::merge(MergeQueue* queue) const {
    queue->run([this](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); });
}

void BpeVocab::encode_byte_word(std::string_view word, MergeQueue* queue, std::vector<TokenId>* out) const {
    if ((pre_flags_ & kIgnoreMerges) != 0 && word.size() <= tokens().max_text_bytes()) {
        const TokenId id = tokens().find(byte_map_encode(word));
        if (id != kNoToken) {
            out->push_back(id);
            return;
        }
    }
    queue->symbols.clear();
    for (size_t pos = 0; pos < word.size(); ++pos) {
        queue->symbols.push_back({static_cast<uint32_t>(pos), 1, byte_symbols_[static_cast<unsigned char>(word[pos])]});
    }
    merge(queue);
    for (const Symbol& symbol : queue->symbols) {
        const TokenId id = symbol.id != kNoToken ? symbol.id : special().unk;
        if (id != kNoToken) {
            out->push_back(id);
        }
    }
}

void BpeVocab::encode_raw_word(std::string_view word, MergeQueue* queue, std::vector<TokenId>* out) const {
    queue->symbols.clear();
    for (size_t pos = 0; pos < word.size();) {
        const size_t bytes = std::min(utf8_length_by_lead(static_cast<unsigned char>(word[pos])), word.size() - pos);
        queue->symbols.push_back(
            {static_cast<uint32_t>(pos), static_cast<uint32_t>(bytes), tokens().find(word.substr(pos, bytes))});
        pos += bytes;
    }
    merge(queue);
    for (const Symbol& symbol : queue->symbols) {
        if (symbol.id != kNoToken) {
            out->push_back(symbol.id);
            continue;
        }
        for (const char c : word.substr(symbol.begin, symbol.bytes)) {
            const TokenId id = byte_tokens_[static_cast<unsigned char>(c)];
            if (id != kNoToken) {
                out->push_back(id);  // the reference drops bytes without a token; no file in use lacks one
            }
        }
    }
}

void BpeVocab::encode_metaspace_line(std::string_view line, MergeQueue* queue, std::vector<TokenId>* out) const {
    std::string marked;
    if (line.substr(0, kMetaspace.size()) != kMetaspace) {
        marked = std::string(kMetaspace).append(line);
        line = marked;
    }
    for (size_t begin = 0; begin < line.size();) {
        const size_t end = std::min(line.find(kMetaspace, begin + 1), line.size());
        encode_raw_word(line.substr(begin, end - begin), queue, out);
        begin = end;
    }
}

}  // namespace foresay::vocab
