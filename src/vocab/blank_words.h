// Where a text with escaped blanks (U+2581) can be cut without changing any merge: keeps merge queues small and words
// cacheable.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "vocab/token_table.h"

namespace foresay::vocab {

/// A merge across "x U+2581" needs a token that holds both, so a place before U+2581 is safe to cut unless some token
/// has U+2581 behind the same last byte of x. Few vocabularies have such tokens (Gemma: one, `>U+2581</`).
class BlankWords {
  public:
    explicit BlankWords(const TokenTable& tokens);

    /// Bytes of the first word of text (not empty): up to a safe place before a U+2581 that follows another character.
    size_t first_word(std::string_view text) const;

  private:
    std::array<bool, 256> joins_blank_{};  ///< by the byte before U+2581
};

}  // namespace foresay::vocab
