#include "chat/jinja/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <charconv>
#include <cmath>

#include "vocab/utf8.h"

namespace foresay::jinja {
namespace {

utf8proc_category_t category(uint32_t cp) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(cp));
}

bool is_letter(uint32_t cp) {
    switch (category(cp)) {
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO:
            return true;
        default:
            return false;
    }
}

bool is_cased(uint32_t cp) {
    const utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

/// str.isprintable() of one code point.
bool is_printable(uint32_t cp) {
    switch (category(cp)) {
        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_CC:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_CS:
        case UTF8PROC_CATEGORY_CO:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP:
            return false;
        case UTF8PROC_CATEGORY_ZS:
            return cp == ' ';
        default:
            return true;
    }
}

uint32_t upper(uint32_t cp) {
    return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(cp)));
}

uint32_t lower(uint32_t cp) {
    return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(cp)));
}

template <typename Map>
std::string mapped(std::string_view text, Map map) {
    std::string out;
    out.reserve(text.size());
    for (size_t pos = 0, bytes = 0; pos < text.size(); pos += bytes) {
        vocab::append_utf8(map(text_at(text, pos, &bytes)), &out);
    }
    return out;
}

bool contains(std::string_view chars, uint32_t cp) {
    for (size_t pos = 0, bytes = 0; pos < chars.size(); pos += bytes) {
        if (text_at(chars, pos, &bytes) == cp) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool is_space(uint32_t cp) {
    return (cp >= 9 && cp <= 13) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000;
}

int64_t text_length(std::string_view text) {
    int64_t n = 0;
    for (const char c : text) {
        n += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
    }
    return n;
}

size_t text_offset(std::string_view text, int64_t index) {
    size_t pos = 0;
    for (; pos < text.size(); ++pos) {
        if ((static_cast<unsigned char>(text[pos]) & 0xC0U) != 0x80U && index-- <= 0) {
            return pos;
        }
    }
    return text.size();
}

uint32_t text_at(std::string_view text, size_t pos, size_t* bytes) {
    const auto lead = static_cast<unsigned char>(text[pos]);
    if (lead < 0x80) {
        *bytes = 1;
        return lead;
    }
    const vocab::Decoded decoded = vocab::decode_utf8(text, pos);
    *bytes = decoded.bytes;
    return decoded.cp;
}

std::string_view strip(std::string_view text, Side side, const std::string_view* chars) {
    const auto taken = [&](uint32_t cp) { return chars == nullptr ? is_space(cp) : contains(*chars, cp); };
    if (side != Side::kRight) {
        for (size_t bytes = 0; !text.empty() && taken(text_at(text, 0, &bytes));) {
            text.remove_prefix(bytes);
        }
    }
    while (side != Side::kLeft && !text.empty()) {
        size_t start = text.size() - 1;
        while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80U) {
            --start;
        }
        size_t bytes = 0;
        if (!taken(text_at(text, start, &bytes))) {
            break;
        }
        text = text.substr(0, start);
    }
    return text;
}

std::string to_upper(std::string_view text) {
    return mapped(text, upper);
}

std::string to_lower(std::string_view text) {
    return mapped(text, lower);
}

std::string to_title(std::string_view text) {
    bool after_cased = false;
    return mapped(text, [&](uint32_t cp) {
        const uint32_t out = after_cased ? lower(cp) : upper(cp);
        after_cased = is_cased(cp);
        return out;
    });
}

std::string to_capitalized(std::string_view text) {
    bool first = true;
    return mapped(text, [&](uint32_t cp) {
        const uint32_t out = first ? upper(cp) : lower(cp);
        first = false;
        return out;
    });
}

bool has_class(std::string_view text, TextClass text_class) {
    bool seen_cased = false;
    for (size_t pos = 0, bytes = 0; pos < text.size(); pos += bytes) {
        const uint32_t cp = text_at(text, pos, &bytes);
        const bool digit = category(cp) == UTF8PROC_CATEGORY_ND;
        switch (text_class) {
            case TextClass::kAlpha:
            case TextClass::kDigit:
            case TextClass::kAlnum:
            case TextClass::kSpace: {
                const bool alpha = is_letter(cp);
                const bool fits = text_class == TextClass::kAlpha   ? alpha
                                  : text_class == TextClass::kDigit ? digit
                                  : text_class == TextClass::kAlnum ? alpha || digit
                                                                    : is_space(cp);
                if (!fits) {
                    return false;
                }
                break;
            }
            case TextClass::kUpper:
            case TextClass::kLower: {
                // Characters without case are allowed beside at least one that has it.
                const auto wanted = text_class == TextClass::kUpper ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL;
                if (is_cased(cp) && category(cp) != wanted) {
                    return false;
                }
                seen_cased = seen_cased || category(cp) == wanted;
                break;
            }
        }
    }
    const bool by_case = text_class == TextClass::kUpper || text_class == TextClass::kLower;
    return by_case ? seen_cased : !text.empty();
}

std::string text_repr(std::string_view text) {
    const bool has_single = text.find('\'') != std::string_view::npos;
    const bool has_double = text.find('"') != std::string_view::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    std::string out(1, quote);
    for (size_t pos = 0, bytes = 0; pos < text.size(); pos += bytes) {
        const uint32_t cp = text_at(text, pos, &bytes);
        if (cp == static_cast<unsigned char>(quote) || cp == '\\') {
            out += '\\';
            out += static_cast<char>(cp);
        } else if (cp == '\n') {
            out += "\\n";
        } else if (cp == '\r') {
            out += "\\r";
        } else if (cp == '\t') {
            out += "\\t";
        } else if (is_printable(cp)) {
            out.append(text.substr(pos, bytes));
        } else if (cp < 0x100) {
            out += fmt::format("\\x{:02x}", cp);
        } else if (cp < 0x10000) {
            out += fmt::format("\\u{:04x}", cp);
        } else {
            out += fmt::format("\\U{:08x}", cp);
        }
    }
    out += quote;
    return out;
}

std::string float_repr(double value) {
    if (std::isnan(value)) {
        return "nan";
    }
    if (std::isinf(value)) {
        return value < 0 ? "-inf" : "inf";
    }
    char buffer[64];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
    const std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
    const size_t e = shortest.find('e');
    int exponent = 0;
    const std::string_view exponent_text = shortest.substr(e + (shortest[e + 1] == '+' ? 2 : 1));
    std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
    if (exponent < -4 || exponent >= 16) {
        return std::string(shortest);  // "1e-05" and "1.5e+16" look alike in both languages
    }
    const auto fixed_end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
    std::string fixed(buffer, fixed_end);
    if (fixed.find('.') == std::string::npos) {
        fixed += ".0";
    }
    return fixed;
}

}  // namespace foresay::jinja
