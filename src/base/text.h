// Small questions about text that several modules ask.
#pragma once

#include <cstddef>
#include <string_view>

namespace foresay {

/// Bytes at the end of `text` that may still become `mark`: the longest beginning of the mark, not the whole of it,
/// that the text ends with. 0: none.
size_t begun_at_end(std::string_view text, std::string_view mark);

}  // namespace foresay
