// Python's view of text, for values of templates: code points instead of bytes, its blanks, cases and number forms.
// Text is valid UTF-8 throughout (checked where it enters: Template::parse, from_json).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace foresay::jinja {

/// str.isspace() of one code point.
bool is_space(uint32_t cp);

/// Number of code points.
int64_t text_length(std::string_view text);
/// Byte offset of code point `index` (0..length); text.size() for length and above.
size_t text_offset(std::string_view text, int64_t index);
/// The code point at byte `pos`; *bytes is its length.
uint32_t text_at(std::string_view text, size_t pos, size_t* bytes);

enum class Side { kLeft, kRight, kBoth };

/// str.strip() and its kin. chars: code points to take off; blanks where null.
std::string_view strip(std::string_view text, Side side, const std::string_view* chars = nullptr);

/// Simple case mapping (one code point to one; Python maps a few, like U+00DF, to two).
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// First letter of every word upper, the rest lower, as str.title().
std::string to_title(std::string_view text);
/// First character upper, the rest lower, as str.capitalize().
std::string to_capitalized(std::string_view text);

/// True if every code point has the class and there is at least one, as str.isalpha() and so on.
enum class TextClass { kAlpha, kDigit, kAlnum, kSpace, kUpper, kLower };
bool has_class(std::string_view text, TextClass text_class);

/// repr() of a string: quotes chosen and characters escaped as Python does.
std::string text_repr(std::string_view text);
/// repr() of a float: shortest digits that read back, "1.0", "1e-05", "1e+16", "inf", "nan".
std::string float_repr(double value);

}  // namespace foresay::jinja
