// Strings and numbers of a schema.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "grammar/gbnf.h"
#include "grammar/schema/compiler.h"
#include "grammar/schema/numbers.h"
#include "grammar/schema/pattern.h"
#include "grammar/schema/text.h"

namespace foresay::grammar {
namespace {

Error fail(const std::string& path, const std::string& message) {
    return error(Code::kInvalidArgument, fmt::format("at {}: {}", path, message));
}

/// RFC 3339. Days by month; 29 February in leap years only. Years from 1000.
constexpr std::string_view kDate =
    R"(([1-9] [0-9]{3} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8])) | ([1-9] [0-9] ("0" [48] | [2468] [048] | [13579] [26]) | ([2468] [048] | [13579] [26]) "00") "-02-29"))";
constexpr std::string_view kTime =
    R"((([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,6})? ("Z" | [-+] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])))";
constexpr std::string_view kUuid =
    R"(([0-9a-fA-F]{8} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{12}))";

std::string format_body(std::string_view format) {
    if (format == "date") {
        return std::string(kDate);
    }
    if (format == "time") {
        return std::string(kTime);
    }
    if (format == "date-time") {
        return std::string(kDate).append(" \"T\" ").append(kTime);
    }
    return format.substr(0, 4) == "uuid" ? std::string(kUuid) : std::string();
}

/// The bound as an integer: rounded towards the inside (up for a minimum), and then no longer exclusive. None: beyond
/// 64 bits, so that no integer of interest is cut off.
std::optional<int64_t> integer_bound(const Json& value, bool is_min, bool* was_rounded) {
    int64_t whole = 0;
    const char* end = value.text.data() + value.text.size();
    const auto [last, code] = std::from_chars(value.text.data(), end, whole);
    if (code == std::errc() && last == end) {
        return whole;
    }
    const double number = std::strtod(value.text.c_str(), nullptr);
    const double rounded = is_min ? std::ceil(number) : std::floor(number);
    constexpr double kLimit = 9.0e18;
    if (!(rounded > -kLimit && rounded < kLimit)) {
        return std::nullopt;
    }
    *was_rounded = rounded != number;
    return static_cast<int64_t>(rounded);
}

}  // namespace

Result<std::optional<uint32_t>> Compiler::count_of(const Json& schema, std::string_view key, const std::string& path) {
    const Json* value = schema.find(key);
    if (value == nullptr) {
        return std::optional<uint32_t>();
    }
    const double number = value->is_number() ? std::strtod(value->text.c_str(), nullptr) : -1.0;
    if (!(number >= 0.0) || number != std::floor(number)) {
        return fail(path,
                    fmt::format("{} must be a whole number from 0 on, not {}", key, to_text(*value).substr(0, 64)));
    }
    if (number > kMaxRepetition) {
        return fail(path, fmt::format("{} above {} is not supported", key, kMaxRepetition));
    }
    return std::optional(static_cast<uint32_t>(number));
}

Result<Compiler::Atom> Compiler::visit_string(const Json& schema, const std::string& path) {
    const auto ignore = [this, &path](const std::string& what) { note(fmt::format("{} at {}", what, path)); };
    const bool has_length = schema.find("minLength") != nullptr || schema.find("maxLength") != nullptr;
    FORESAY_TRY(const auto min, count_of(schema, "minLength", path));
    FORESAY_TRY(const auto max, count_of(schema, "maxLength", path));
    if (max && min.value_or(0) > *max) {
        return Atom();
    }
    const Json* format = schema.find("format");
    if (const Json* pattern = schema.find("pattern"); pattern != nullptr) {
        if (!pattern->is(Json::Type::kString)) {
            return fail(path, fmt::format("pattern must be a string, not {}", pattern->type_name()));
        }
        auto body = pattern_to_gbnf(pattern->text);
        if (!body.has_value()) {
            return fail(path, body.error().message);
        }
        if (has_length) {
            ignore("minLength or maxLength beside pattern");
        }
        if (format != nullptr) {
            ignore("format beside pattern");
        }
        return Atom(rule("pattern", *body));
    }
    if (format != nullptr && format->is(Json::Type::kString)) {
        const std::string body = format_body(format->text);
        if (!body.empty()) {
            if (has_length) {
                ignore("minLength or maxLength beside format");
            }
            return Atom(rule(format->text, std::string("\"\\\"\" ").append(body).append(" \"\\\"\"")));
        }
        ignore(fmt::format("format '{}'", format->text.substr(0, 32)));
    }
    if (!has_length) {
        return Atom(basic("string"));
    }
    std::string body = "\"\\\"\" ";
    body.append(basic("char")).append(repetition(min.value_or(0), max.value_or(kUnbounded))).append(" \"\\\"\"");
    return Atom(rule("string", max && *max == 0 ? std::string(R"("\"\"")") : body));
}

Result<Compiler::Atom> Compiler::visit_number(const Json& schema, bool is_integer, const std::string& path) {
    Bounds bounds;
    bool is_bounded = false;
    for (const char* key : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
        const Json* value = schema.find(key);
        const bool is_exclusive = key[0] == 'e';
        if (value == nullptr || (is_exclusive && value->is(Json::Type::kBool))) {
            continue;  // a boolean is draft 4's form, read below
        }
        if (!value->is_number()) {
            return fail(path, fmt::format("{} must be a number, not {}", key, value->type_name()));
        }
        const bool is_min = std::string_view(key).find("in") != std::string_view::npos;
        bool was_rounded = false;
        const auto bound = integer_bound(*value, is_min, &was_rounded);
        if (!bound) {
            continue;
        }
        if (was_rounded && !is_integer) {
            note(fmt::format("{} that is no integer, of a number, at {}", key, path));
            continue;
        }
        is_bounded = true;
        const Json* draft4 = schema.find(is_min ? "exclusiveMinimum" : "exclusiveMaximum");
        const bool is_draft4 = draft4 != nullptr && draft4->is(Json::Type::kBool) && draft4->boolean;
        const bool is_open = (is_exclusive || is_draft4) && !was_rounded;
        std::optional<int64_t>& known = is_min ? bounds.min : bounds.max;
        bool& is_known_open = is_min ? bounds.is_min_exclusive : bounds.is_max_exclusive;
        if (!known || (is_min ? *bound > *known : *bound < *known)) {
            known = bound;
            is_known_open = is_open;
        } else if (*bound == *known) {
            is_known_open = is_known_open || is_open;
        }
    }
    if (!is_bounded) {
        return Atom(is_integer ? rule("integer", R"("-"? ("0" | [1-9] [0-9]{0,15}))") : basic("number"));
    }
    const std::string body = is_integer ? integers_gbnf(bounds) : decimals_gbnf(bounds);
    return body.empty() ? Atom() : Atom(rule(is_integer ? "integer" : "number", body));
}

}  // namespace foresay::grammar
