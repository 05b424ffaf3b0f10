// GPT-2's spelling of bytes as printable code points, and back. Source: shared/spec/tokenizers.md, section 4.1, step 3.
#pragma once

#include <string>
#include <string_view>

namespace foresay::vocab {

/// The UTF-8 text (one or two bytes) that stands for `byte`.
std::string_view byte_map_symbol(unsigned char byte);
std::string byte_map_encode(std::string_view bytes);
/// The inverse; code points outside the map stay as they are, and so do bytes that aren't UTF-8.
std::string byte_map_decode(std::string_view text);

}  // namespace foresay::vocab
