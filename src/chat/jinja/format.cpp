// str.format and the % operator, within the sandbox: fields look into values as templates do, widths are bounded.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "chat/jinja/render.h"
#include "chat/jinja/text.h"
#include "vocab/utf8.h"

namespace foresay::jinja {
namespace {

constexpr int kMaxWidth = 1000;

struct Spec {
    char32_t fill = ' ';
    char align = 0;  ///< < > ^ or 0
    bool plus = false;
    bool alternate = false;
    bool comma = false;
    int width = 0;
    int precision = -1;
    char type = 0;
};

Result<int> bounded_number(std::string_view text, size_t* pos) {
    int number = 0;
    while (*pos < text.size() && text[*pos] >= '0' && text[*pos] <= '9') {
        number = number * 10 + (text[*pos] - '0');
        if (number > kMaxWidth) {
            return type_error(fmt::format("a width or precision in a format is above {}", kMaxWidth));
        }
        ++*pos;
    }
    return number;
}

Result<Spec> parse_spec(std::string_view text) {
    Spec spec;
    size_t pos = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^'; };
    if (!text.empty()) {
        size_t bytes = 0;
        const uint32_t first = text_at(text, 0, &bytes);
        if (bytes < text.size() && is_align(text[bytes])) {
            spec.fill = first;
            spec.align = text[bytes];
            pos = bytes + 1;
        } else if (is_align(text[0])) {
            spec.align = text[0];
            pos = 1;
        }
    }
    const auto take = [&](char c) {
        const bool found = pos < text.size() && text[pos] == c;
        pos += found ? 1 : 0;
        return found;
    };
    spec.plus = take('+');
    spec.alternate = take('#');
    if (take('0') && spec.align == 0) {
        spec.fill = '0';
        spec.align = '=';
    }
    FORESAY_TRY(spec.width, bounded_number(text, &pos));
    spec.comma = take(',');
    if (take('.')) {
        FORESAY_TRY(spec.precision, bounded_number(text, &pos));
    }
    if (pos + 1 == text.size()) {
        spec.type = text[pos++];
    }
    if (pos != text.size()) {
        return type_error(fmt::format("'{}' isn't a format that is supported", text));
    }
    return spec;
}

/// Commas between thousands.
std::string grouped(std::string_view number) {
    const size_t begin = number.empty() || number[0] != '-' ? 0 : 1;
    const size_t end = std::min(number.find_first_not_of("0123456789", begin), number.size());
    std::string out;
    for (size_t i = 0; i < number.size(); ++i) {
        if (i > begin && i < end && (end - i) % 3 == 0) {
            out.push_back(',');
        }
        out.push_back(number[i]);
    }
    return out;
}

Result<std::string> format_number(const Value& value, const Spec& spec) {
    std::string text;
    if (value.is_integer() && (spec.type == 0 || spec.type == 'd' || spec.type == 'i' || spec.type == 'n')) {
        text = fmt::format("{}", value.as_integer());
    } else if (value.is_integer() && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b')) {
        const int64_t v = value.as_integer();
        const uint64_t magnitude = v < 0 ? ~static_cast<uint64_t>(v) + 1 : static_cast<uint64_t>(v);
        text = spec.type == 'x'   ? fmt::format("{:x}", magnitude)
               : spec.type == 'X' ? fmt::format("{:X}", magnitude)
               : spec.type == 'o' ? fmt::format("{:o}", magnitude)
                                  : fmt::format("{:b}", magnitude);
        const std::string_view prefix = !spec.alternate    ? ""
                                        : spec.type == 'x' ? "0x"
                                        : spec.type == 'X' ? "0X"
                                        : spec.type == 'o' ? "0o"
                                                           : "0b";
        text = fmt::format("{}{}{}", v < 0 ? "-" : "", prefix, text);
    } else {
        const double number = value.as_float();
        const int precision = spec.precision < 0 ? 6 : spec.precision;
        switch (spec.type) {
            case 0:
                text = spec.precision < 0 ? float_repr(number) : fmt::format("{:.{}g}", number, std::max(precision, 1));
                break;
            case 'f':
            case 'F':
                text = fmt::format("{:.{}f}", number, precision);
                break;
            case 'e':
                text = fmt::format("{:.{}e}", number, precision);
                break;
            case 'g':
                text = fmt::format("{:.{}g}", number, std::max(precision, 1));
                break;
            case '%':
                text = fmt::format("{:.{}f}%", number * 100, precision);
                break;
            default:
                return type_error(fmt::format("unknown format code '{}' for a number", spec.type));
        }
    }
    if (spec.comma) {
        text = grouped(text);
    }
    return spec.plus && text[0] != '-' ? fmt::format("+{}", text) : text;
}

std::string padded(std::string text, const Spec& spec, bool is_number) {
    const int64_t length = text_length(text);
    if (length >= spec.width) {
        return text;
    }
    const auto n = static_cast<size_t>(spec.width - length);
    std::string fill;
    vocab::append_utf8(static_cast<uint32_t>(spec.fill), &fill);
    const auto pad = [&](size_t times) {
        std::string out;
        for (size_t i = 0; i < times; ++i) {
            out += fill;
        }
        return out;
    };
    const char align = spec.align != 0 ? spec.align : is_number ? '>' : '<';
    if (align == '=' && is_number) {
        const size_t sign = text[0] == '-' || text[0] == '+' ? 1 : 0;
        return fmt::format("{}{}{}", text.substr(0, sign), pad(n), text.substr(sign));
    }
    if (align == '^') {
        return fmt::format("{}{}{}", pad(n / 2), text, pad(n - n / 2));
    }
    return align == '<' || align == '=' ? fmt::format("{}{}", text, pad(n)) : fmt::format("{}{}", pad(n), text);
}

Result<std::string> format_value(Render& render, const Value& value, std::string_view spec_text) {
    if (spec_text.empty()) {
        return render.str(value);
    }
    FORESAY_TRY(const Spec spec, parse_spec(spec_text));
    if (value.is_number() && !(value.kind() == Kind::kBool && spec.type == 0)) {
        FORESAY_TRY(std::string text, format_number(value, spec));
        return padded(std::move(text), spec, true);
    }
    if ((spec.type != 0 && spec.type != 's') || !value.is_text()) {
        return type_error(fmt::format("unsupported format string '{}' for '{}'", spec_text, type_name(value)));
    }
    std::string text = value.as_text();
    if (spec.precision >= 0) {
        text.resize(text_offset(text, spec.precision));
    }
    return padded(std::move(text), spec, false);
}

/// Finds the value of "0", "name", "0.attribute", "name[key]".
Result<Value> field_value(Render& render, std::string_view field, const Args& args, size_t* next_index) {
    const size_t name_end = std::min(field.find_first_of(".["), field.size());
    const std::string_view name = field.substr(0, name_end);
    Value value;
    size_t index = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = !name.empty() && parsed.ec == std::errc() && parsed.ptr == name.data() + name.size();
    if (name.empty() || is_index) {
        index = name.empty() ? (*next_index)++ : index;
        if (index >= args.positional.size()) {
            return type_error(fmt::format("format() has no argument {}", index));
        }
        value = args.positional[index];
    } else {
        const auto found =
            std::find_if(args.named.begin(), args.named.end(), [&](const auto& named) { return named.first == name; });
        if (found == args.named.end()) {
            return type_error(fmt::format("format() has no argument '{}'", name));
        }
        value = found->second;
    }
    for (size_t pos = name_end; pos < field.size();) {
        if (field[pos] == '.') {
            const size_t end = std::min(field.find_first_of(".[", pos + 1), field.size());
            FORESAY_TRY(value, render.attribute(value, field.substr(pos + 1, end - pos - 1)));
            pos = end;
            continue;
        }
        const size_t end = field.find(']', pos);
        if (end == std::string_view::npos) {
            return type_error("format(): a '[' isn't closed");
        }
        const std::string_view key = field.substr(pos + 1, end - pos - 1);
        int64_t number = 0;
        const auto result = std::from_chars(key.data(), key.data() + key.size(), number);
        const bool is_number = !key.empty() && result.ec == std::errc() && result.ptr == key.data() + key.size();
        FORESAY_TRY(value, render.item(value, is_number ? Value(number) : Value::constant(std::string(key))));
        pos = end + 1;
    }
    if (value.is_undefined()) {
        return Render::undefined_error(value);
    }
    return value;
}

}  // namespace

Result<std::string> format_braces(Render& render, std::string_view text, const Args& args) {
    std::string out;
    size_t next_index = 0;
    for (size_t pos = 0; pos < text.size();) {
        const char c = text[pos];
        FORESAY_CHECK_OK(render.check_text(out.size()));
        if (c != '{' && c != '}') {
            const size_t end = std::min(text.find_first_of("{}", pos), text.size());
            out.append(text.substr(pos, end - pos));
            pos = end;
            continue;
        }
        if (pos + 1 < text.size() && text[pos + 1] == c) {
            out += c;
            pos += 2;
            continue;
        }
        const size_t end = text.find('}', pos);
        if (c == '}' || end == std::string_view::npos) {
            return type_error(fmt::format("format(): a single '{}' in the string", c));
        }
        std::string_view field = text.substr(pos + 1, end - pos - 1);
        if (field.find('{') != std::string_view::npos) {
            return error(Code::kUnsupported, "format(): fields within fields aren't supported");
        }
        pos = end + 1;
        std::string_view spec;
        if (const size_t colon = field.find(':'); colon != std::string_view::npos) {
            spec = field.substr(colon + 1);
            field = field.substr(0, colon);
        }
        char conversion = 0;
        if (field.size() >= 2 && field[field.size() - 2] == '!') {
            conversion = field.back();
            field.remove_suffix(2);
        }
        FORESAY_TRY(Value value, field_value(render, field, args, &next_index));
        if (conversion != 0) {
            std::string shown;
            if (conversion == 'r') {
                FORESAY_CHECK_OK(append_repr(value, render.max_text(), &shown));
            } else if (conversion == 's') {
                FORESAY_CHECK_OK(append_str(value, render.max_text(), &shown));
            } else {
                return type_error(fmt::format("format(): unknown conversion '!{}'", conversion));
            }
            FORESAY_TRY(value, render.text(std::move(shown)));
        }
        FORESAY_TRY(const std::string part, format_value(render, value, spec));
        out += part;
    }
    FORESAY_CHECK_OK(render.check_text(out.size()));
    return out;
}

Result<std::string> format_percent(Render& render, std::string_view text, const Value& arguments) {
    std::vector<Value> values;
    if (arguments.is_list() && arguments.as_list().form == List::Form::kTuple) {
        values = arguments.as_list().items;
    } else {
        values.push_back(arguments);
    }
    std::string out;
    size_t used = 0;
    for (size_t pos = 0; pos < text.size();) {
        FORESAY_CHECK_OK(render.check_text(out.size()));
        if (text[pos] != '%') {
            const size_t end = std::min(text.find('%', pos), text.size());
            out.append(text.substr(pos, end - pos));
            pos = end;
            continue;
        }
        ++pos;
        if (pos < text.size() && text[pos] == '%') {
            out += '%';
            ++pos;
            continue;
        }
        Value value;
        bool has_value = false;
        if (pos < text.size() && text[pos] == '(') {
            const size_t end = text.find(')', pos);
            if (end == std::string_view::npos || !arguments.is_dict()) {
                return type_error("%: a named field needs a dict and a closing ')'");
            }
            const Value* found = arguments.as_dict().find(text.substr(pos + 1, end - pos - 1));
            if (found == nullptr) {
                return type_error(fmt::format("%: there is no key '{}'", text.substr(pos + 1, end - pos - 1)));
            }
            value = *found;
            has_value = true;
            pos = end + 1;
        }
        Spec spec;
        spec.align = '>';
        for (; pos < text.size() && (text[pos] == '-' || text[pos] == '0' || text[pos] == '+'); ++pos) {
            if (text[pos] == '-') {
                spec.align = '<';
            } else if (text[pos] == '0') {
                spec.fill = '0';
                spec.align = '=';
            } else {
                spec.plus = true;
            }
        }
        FORESAY_TRY(spec.width, bounded_number(text, &pos));
        if (pos < text.size() && text[pos] == '.') {
            ++pos;
            FORESAY_TRY(spec.precision, bounded_number(text, &pos));
        }
        const char type = pos < text.size() ? text[pos++] : '\0';
        if (!has_value) {
            if (used >= values.size()) {
                return type_error("%: not enough arguments for the format string");
            }
            value = values[used++];
        }
        std::string part;
        if (type == 's' || type == 'r') {
            if (type == 's') {
                FORESAY_TRY(part, render.str(value));
            } else {
                FORESAY_CHECK_OK(append_repr(value, render.max_text(), &part));
            }
            if (spec.precision >= 0) {
                part.resize(text_offset(part, spec.precision));
            }
            part = padded(std::move(part), spec, false);
        } else if (type != '\0' && std::string_view("difFeEgxXo").find(type) != std::string_view::npos) {
            if (!value.is_number()) {
                return type_error(fmt::format("%{} format: a number is required, not {}", type, type_name(value)));
            }
            spec.type = type;
            const bool is_whole = type == 'd' || type == 'i';
            const Value number = is_whole && value.kind() == Kind::kFloat && std::abs(value.as_float()) < 9e18
                                     ? Value(static_cast<int64_t>(value.as_float()))
                                     : value;
            FORESAY_TRY(part, format_number(number, spec));
            part = padded(std::move(part), spec, true);
        } else {
            return type_error(fmt::format("%: unsupported format character '{}'", type));
        }
        out += part;
    }
    if (used < values.size() && !arguments.is_dict()) {
        return type_error("%: not all arguments converted during string formatting");
    }
    FORESAY_CHECK_OK(render.check_text(out.size()));
    return out;
}

}  // namespace foresay::jinja
