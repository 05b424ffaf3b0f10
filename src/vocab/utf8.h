// UTF-8 as the tokenizers see it: lenient decoding, symbol lengths and the repair of text for the BPE path.
// Must not know vocabularies. Source: shared/spec/tokenizers.md, section 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace foresay::vocab {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  ///< U+FFFD
inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";    ///< U+2581, the visible blank of SentencePiece

/// Bytes of the character that `lead` starts, by the lead byte alone (1 for continuation bytes); callers clip to the
/// text.
inline size_t utf8_length_by_lead(unsigned char lead) {
    return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/// A decoded code point and the bytes it took; cp is U+FFFD and bytes is 1 where the text is invalid.
struct Decoded {
    uint32_t cp = 0xFFFD;
    size_t bytes = 1;
    bool valid = false;
};

/// Decodes at `pos` (below text.size()). As lenient as the reference: overlong forms and surrogates pass,
/// but code points above U+10FFFF don't (the reference aborts on them).
Decoded decode_utf8(std::string_view text, size_t pos);

/// Appends cp (at most 0x1FFFFF), surrogates included.
void append_utf8(uint32_t cp, std::string* out);

/// Text in which every byte that isn't UTF-8 has become U+FFFD and every overlong form its shortest one.
/// has_surrogates: three-byte surrogates were kept; PCRE2 must not see those.
struct Repaired {
    std::string text;
    bool has_surrogates = false;
};

/// Strict UTF-8 (no overlongs, no surrogates): such text needs no repair.
bool is_valid_utf8(std::string_view text);
Repaired repair_utf8(std::string_view text);

/// Replaces every occurrence of `from` (not empty) by `to`.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace foresay::vocab
