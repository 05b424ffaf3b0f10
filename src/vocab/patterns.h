// The table of pre-tokenizers: tokenizer.ggml.pre -> regex list and flags. Data only.
// Patterns come from here, never from a file: no hostile regex. Source: shared/spec/tokenizers.md, sections 4.2
// and 4.3.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace foresay::vocab {

/// One pass over all current segments.
struct SplitStep {
    enum Kind {
        kRegex,           ///< matches and gaps become segments
        kTrailingSpace,   ///< `\s+$`; by hand, as a regex it is quadratic in a run of blanks inside a segment
        kDigitsInThrees,  ///< runs of \p{N} become segments, cut into threes from the right
        kAsciiDigitCuts,  ///< `(?=([0-9]{3})+(?![0-9]))`: cuts before each group of three; by hand for the same reason
        kBlankChunks,     ///< segments of over 512 blanks without a newline are cut every 512 code points
    };

    Kind kind = kRegex;
    const char* pattern =
        nullptr;  ///< PCRE2 syntax; `\s` and `\S` are rewritten to Unicode's White_Space before compiling
};

enum PreFlag : uint8_t {
    kIgnoreMerges = 1 << 0,  ///< a whole word that is a token needs no merging
    kAddBos = 1 << 1,
    kKeepSpaces = 1 << 2,    ///< clean_spaces is off
    kEscapeSpaces = 1 << 3,  ///< blanks become U+2581 and words stay raw UTF-8 (Gemma 4 and kin)
    kNoBosDefault = 1 << 4,
    kForceBos = 1 << 5,        ///< add_bos whatever the file says
    kNewlineWords = 1 << 6,    ///< a word of newlines that is a token is emitted as it is
    kMetaspaceWords = 1 << 7,  ///< mmbert: words begin with U+2581 and are cut before each further one
};

struct PreType {
    std::string_view name;
    std::span<const SplitStep> steps;
    uint8_t flags = 0;
};

/// nullptr for a name that isn't known.
const PreType* find_pre_type(std::string_view name);
/// All of them, for tests and tools.
std::span<const PreType> pre_types();

}  // namespace foresay::vocab
