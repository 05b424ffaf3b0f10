// Triggers of a lazy grammar: what in the text wakes it. Owns finding one; must not know how a grammar is matched.
// Patterns are PCRE2's. They see the text so far, at most its last 16 KiB, and a search has a limit of work: a pattern
// that exceeds it hasn't matched.
// Source: shared/spec/sampling.md, section 5 (lazy).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vocab/vocab.h"

namespace foresay::grammar {

using vocab::TokenId;

struct Trigger {
    enum class Kind {
        kToken,       ///< the grammar reads from `token` on
        kWord,        ///< ... from the first byte of `value`
        kPattern,     ///< ... from the first group of the match that isn't empty, or from the match's beginning
        kPatternFull  ///< the same, where the pattern matches all of the text so far
    };

    Kind kind = Kind::kWord;
    std::string value;
    TokenId token = vocab::kNoToken;
    bool operator==(const Trigger&) const = default;
};

/// A checked list. Immutable.
class Triggers {
  public:
    /// Errors: invalid_argument for an empty list or word, a word above 1024 bytes, more than 64 triggers, a token
    /// outside the vocabulary, a pattern with an error in it (named with its place).
    static Result<Triggers> create(std::vector<Trigger> triggers, int32_t n_tokens);

    bool has_token(TokenId id) const;
    /// Where the first word begins in the text (the earliest end wins); npos when there is none.
    size_t find_word(std::string_view text) const;
    /// From where the grammar reads by the first pattern that matches; npos: none does. is_whole: nothing of the text
    /// so far was cut off in front.
    size_t find_pattern(std::string_view text, bool is_whole) const;

    /// So many bytes at the end of a text without a trigger may be the beginning of one.
    size_t tail_size() const { return patterns_.empty() ? word_tail_size_ : kPatternTail; }

    /// The same, for words only.
    size_t word_tail_size() const { return word_tail_size_; }

  private:
    static constexpr size_t kPatternTail = size_t{16} << 10;
    struct Pattern;

    std::vector<TokenId> tokens_;
    std::vector<std::string> words_;
    std::vector<std::shared_ptr<const Pattern>> patterns_;
    size_t word_tail_size_ = 0;
};

}  // namespace foresay::grammar
