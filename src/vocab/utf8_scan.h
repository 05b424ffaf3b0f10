// Strict UTF-8, one character at a time: complete, incomplete, or never going to be valid.
// Shared by validation and by Utf8Stream, so that both agree on what a valid character is.
#pragma once

#include <cstddef>
#include <string_view>

namespace foresay::vocab {

/// What a text begins with. bytes: of the character, or of the part to replace or to keep waiting for.
struct Scan {
    enum State { kComplete, kIncomplete, kInvalid } state = kInvalid;

    size_t bytes = 1;
};

/// text: not empty. An invalid part is the longest prefix that could have begun a character (Unicode 15, section 3.9,
/// "maximal subpart"), so the count of U+FFFD doesn't depend on how a stream was cut.
Scan scan_utf8(std::string_view text);

}  // namespace foresay::vocab
