// The tokens of a vocabulary: texts, attributes, scores, and the way back from a text to its id.
// Owns its texts (the GGUF mapping may go away). Must not know algorithms. Source: shared/spec/tokenizers.md,
// sections 1.2, 1.5.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vocab/vocab.h"

namespace foresay::vocab {

/// Attribute bits of a token. kLstrip and kRstrip are set by name rules only, never by the file.
enum Attribute : uint8_t {
    kNormal = 1 << 0,
    kUnknown = 1 << 1,
    kControl = 1 << 2,
    kUserDefined = 1 << 3,
    kUnused = 1 << 4,
    kByte = 1 << 5,
    kLstrip = 1 << 6,
    kRstrip = 1 << 7,
};

class TokenTable {
  public:
    /// Reads tokenizer.ggml.tokens, .scores and .token_type. Errors: bad_file for a missing or empty token list, arrays
    /// shorter than it, duplicate texts and absurd sizes.
    static Result<TokenTable> read(const gguf::File& file);

    int32_t size() const { return static_cast<int32_t>(texts_.size()); }

    bool contains(TokenId id) const { return id >= 0 && id < size(); }

    /// Empty outside the vocabulary.
    std::string_view text(TokenId id) const {
        return contains(id) ? texts_[static_cast<size_t>(id)] : std::string_view();
    }

    float score(TokenId id) const { return scores_.empty() ? 0.0F : scores_[static_cast<size_t>(id)]; }

    /// 0 outside the vocabulary.
    uint8_t attributes(TokenId id) const { return contains(id) ? attributes_[static_cast<size_t>(id)] : uint8_t{0}; }

    bool has(TokenId id, uint8_t mask) const { return (attributes(id) & mask) != 0; }

    void set_attributes(TokenId id, uint8_t bits) { attributes_[static_cast<size_t>(id)] = bits; }

    void add_attributes(TokenId id, uint8_t bits) { attributes_[static_cast<size_t>(id)] |= bits; }

    void clear_attributes(TokenId id, uint8_t bits) {
        attributes_[static_cast<size_t>(id)] &= static_cast<uint8_t>(~bits);
    }

    /// The id of a text (exact bytes, any type), or kNoToken. Cost: one hash and about one comparison.
    TokenId find(std::string_view text) const;

    /// The longest text: longer candidates need no look-up.
    size_t max_text_bytes() const { return max_text_bytes_; }

    /// The value of a `<0xHH>` token (upper-case hex), or -1.
    static int parse_byte_text(std::string_view text);
    /// Per byte the id of its `<0xHH>` token, or kNoToken.
    std::array<TokenId, 256> byte_tokens() const;

  private:
    Status index_texts();

    std::unique_ptr<std::string>
        arena_;  ///< all texts, back to back; behind a pointer so that moves keep the views valid
    std::vector<std::string_view> texts_;
    std::vector<float> scores_;  ///< empty when the file has none
    std::vector<uint8_t> attributes_;
    std::vector<TokenId> slots_;  ///< open addressing, a power of two, at most half full
    size_t max_text_bytes_ = 0;
};

}  // namespace foresay::vocab
