#include "grammar/schema/text.h"

#include <fmt/format.h>

namespace foresay::grammar {
namespace {

std::string escaped(uint32_t code_point) {
    if (code_point < 0x80) {
        const char c = static_cast<char>(code_point);
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
            return {c};
        }
        return fmt::format("\\x{:02X}", code_point);
    }
    return code_point < 0x10000 ? fmt::format("\\u{:04X}", code_point) : fmt::format("\\U{:08X}", code_point);
}

bool contains(const std::vector<CodeRange>& set, uint32_t code_point) {
    for (const CodeRange& range : set) {
        if (range.low <= code_point && code_point <= range.high) {
            return true;
        }
    }
    return false;
}

/// A control character, the quote or the backslash inside a JSON string.
std::string json_escape(uint32_t code_point) {
    switch (code_point) {
        case '"':
            return R"("\\\"")";
        case '\\':
            return R"("\\\\")";
        case '\b':
            return R"("\\b")";
        case '\f':
            return R"("\\f")";
        case '\n':
            return R"("\\n")";
        case '\r':
            return R"("\\r")";
        case '\t':
            return R"("\\t")";
        default:
            break;
    }
    const char* digits = "0123456789abcdef";
    const uint32_t last = code_point % 16;
    const std::string low = last < 10 ? std::string(1, digits[last])
                                      : fmt::format("[{}{}]", digits[last], static_cast<char>(digits[last] - 32));
    return last < 10 ? fmt::format(R"("\\u00{}{}")", code_point / 16, low)
                     : fmt::format(R"("\\u00{}" {})", code_point / 16, low);
}

}  // namespace

std::string gbnf_literal(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (byte < 0x20 || byte == 0x7F) {
            out += fmt::format("\\x{:02X}", byte);
        } else {
            out += c;
        }
    }
    return out + '"';
}

std::string gbnf_class(const std::vector<CodeRange>& ranges) {
    std::string out = "[";
    for (const CodeRange& range : ranges) {
        out += escaped(range.low);
        if (range.high > range.low) {
            out += range.high > range.low + 1 ? "-" : "";
            out += escaped(range.high);
        }
    }
    return out + "]";
}

std::vector<CodeRange> without(const std::vector<CodeRange>& set, const std::vector<CodeRange>& removed) {
    // A and not B = not (not A or B)
    std::vector<CodeRange> outside = complement(normalised(set));
    outside.insert(outside.end(), removed.begin(), removed.end());
    return complement(normalised(std::move(outside)));
}

std::string json_char(const std::vector<CodeRange>& set) {
    const std::vector<CodeRange> raw = without(set, {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
    std::vector<std::string> choices;
    if (!raw.empty()) {
        choices.push_back(gbnf_class(raw));
    }
    for (uint32_t c = 0; c <= '\\'; ++c) {
        if ((c < 0x20 || c == '"' || c == '\\') && contains(set, c)) {
            choices.push_back(json_escape(c));
        }
    }
    if (choices.empty()) {
        return {};
    }
    return choice(choices);
}

std::string choice(const std::vector<std::string>& choices) {
    if (choices.size() == 1) {
        return choices.front();
    }
    std::string out = "(";
    for (size_t i = 0; i < choices.size(); ++i) {
        out += i == 0 ? "" : " | ";
        out += choices[i];
    }
    return out + ")";
}

std::string repetition(uint32_t min, uint32_t max) {
    if (max == kUnbounded) {
        return min == 0 ? "*" : min == 1 ? "+" : fmt::format("{{{},}}", min);
    }
    if (min == max) {
        return min == 1 ? "" : fmt::format("{{{}}}", min);
    }
    return min == 0 && max == 1 ? "?" : fmt::format("{{{},{}}}", min, max);
}

}  // namespace foresay::grammar
