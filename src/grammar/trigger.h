// Triggers of a lazy grammar: what in the text wakes it. Owns finding one; must not know how a grammar is matched.
// Source: shared/spec/sampling.md, section 5 (lazy).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vocab/vocab.h"

namespace foresay::grammar {

using vocab::TokenId;

struct Trigger {
    enum class Kind { kToken, kWord };

    Kind kind = Kind::kWord;
    std::string value;                ///< kWord: the grammar reads from its first byte on
    TokenId token = vocab::kNoToken;  ///< kToken: the grammar reads from this token on
    bool operator==(const Trigger&) const = default;
};

/// A checked list. Immutable.
class Triggers {
  public:
    /// Errors: invalid_argument for an empty list or word, a word above 1024 bytes, more than 64 triggers, a token
    /// outside the vocabulary.
    static Result<Triggers> create(std::vector<Trigger> triggers, int32_t n_tokens);

    bool has_token(TokenId id) const;
    /// Where the first word begins in the text (the earliest end wins); npos when there is none.
    size_t find_word(std::string_view text) const;

    /// So many bytes at the end of a text without a trigger may be the beginning of one.
    size_t tail_size() const { return tail_size_; }

  private:
    std::vector<TokenId> tokens_;
    std::vector<std::string> words_;
    size_t tail_size_ = 0;
};

}  // namespace foresay::grammar
