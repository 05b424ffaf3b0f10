// SPM works on bytes: invalid UTF-8 goes through byte tokens and comes back unchanged.
#include "vocab/spm.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "vocab/utf8.h"
#include "vocab/word_cache.h"

namespace foresay::vocab {

namespace {

// Positions are 32 bits wide; a longer text is cut, which changes a token per GiB at most.
constexpr size_t kMaxWordBytes = size_t{1} << 30;

/// Orders floats as integers, the highest first. Total, also with NaN in a hostile file.
uint32_t priority_of(float score) {
    const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // -0 and 0 are one score
    const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
    return std::min(~ascending, Merge::kNone - 1);
}

}  // namespace

SpmVocab::SpmVocab(Content content)
    : CommonVocab(std::move(content)), byte_tokens_(tokens().byte_tokens()), blank_words_(tokens()) {
    priorities_.reserve(static_cast<size_t>(n_tokens()));
    for (TokenId id = 0; id < n_tokens(); ++id) {
        priorities_.push_back(priority_of(tokens().score(id)));
    }
    const TokenId newline = byte_token('\n');
    set_newline(newline != kNoToken ? newline : special().pad);
}

TokenId SpmVocab::byte_token(unsigned char byte) const {
    if (byte_tokens_[byte] != kNoToken) {
        return byte_tokens_[byte];
    }
    const char text = static_cast<char>(byte);
    return tokens().find({&text, 1});
}

void SpmVocab::emit(const Symbol& symbol, std::string_view text, std::vector<TokenId>* out) const {
    if (symbol.id != kNoToken) {
        out->push_back(symbol.id);
        return;
    }
    for (const char c : text.substr(symbol.begin, symbol.bytes)) {
        const TokenId id = byte_token(static_cast<unsigned char>(c));
        const TokenId known = id != kNoToken ? id : special().unk;
        if (known != kNoToken) {
            out->push_back(known);
        }
    }
}

void SpmVocab::encode_word(std::string_view text, MergeQueue* queue, std::vector<TokenId>* out) const {
    queue->symbols.clear();
    for (size_t pos = 0; pos < text.size();) {
        const size_t bytes = std::min(utf8_length_by_lead(static_cast<unsigned char>(text[pos])), text.size() - pos);
        queue->symbols.push_back(
            {static_cast<uint32_t>(pos), static_cast<uint32_t>(bytes), tokens().find(text.substr(pos, bytes))});
        pos += bytes;
    }
    queue->run([&](const Symbol& left, const Symbol& right) {
        const TokenId id = tokens().find(text.substr(left.begin, size_t{left.bytes} + right.bytes));
        return id == kNoToken ? Merge{} : Merge{priorities_[static_cast<size_t>(id)], id};
    });
    for (const Symbol& symbol : queue->symbols) {
        emit(symbol, text, out);
    }
}

void SpmVocab::encode_fragment(std::string_view raw, FragmentPlace place, std::vector<TokenId>* out) const {
    std::string escaped = settings().add_space_prefix && place.after_special ? std::string(kMetaspace) : std::string();
    escaped += replace_all(raw, " ", kMetaspace);
    MergeQueue queue;
    WordCache cache(escaped.size());
    for (size_t begin = 0; begin < escaped.size();) {
        const std::string_view rest = std::string_view(escaped).substr(begin, kMaxWordBytes);
        const std::string_view word = rest.substr(0, blank_words_.first_word(rest));
        cache.append(word, out, [&](std::string_view part) { encode_word(part, &queue, out); });
        begin += word.size();
    }
}

}  // namespace foresay::vocab
