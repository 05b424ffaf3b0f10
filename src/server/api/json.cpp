#include "server/api/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace foresay::server {
namespace {

/// Keeps nothing but the message of the first error: with exceptions off the plain parser gives none.
class ErrorFinder final : public nlohmann::json_sax<JsonIn> {
  public:
    bool null() override { return true; }

    bool boolean(bool) override { return true; }

    bool number_integer(number_integer_t) override { return true; }

    bool number_unsigned(number_unsigned_t) override { return true; }

    bool number_float(number_float_t, const string_t&) override { return true; }

    bool string(string_t&) override { return true; }

    bool binary(binary_t&) override { return true; }

    bool start_object(std::size_t) override { return true; }

    bool key(string_t&) override { return true; }

    bool end_object() override { return true; }

    bool start_array(std::size_t) override { return true; }

    bool end_array() override { return true; }

    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
        message = e.what();
        return false;
    }

    std::string message;
};

/// Deepest nesting of brackets outside strings. Right for valid JSON; for other text the parser has the last word.
int nesting(std::string_view text) {
    int depth = 0;
    int deepest = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') {
                ++i;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            deepest = std::max(deepest, ++depth);
        } else if (c == ']' || c == '}') {
            --depth;
        }
    }
    return deepest;
}

constexpr size_t kMaxOrderedKeys = 1000;
constexpr size_t kMaxKeys = 100'000;

bool has_too_many_keys(const JsonIn& value) {
    if (value.is_object() && value.size() > kMaxOrderedKeys) {
        return true;
    }
    return value.is_structured() && std::any_of(value.begin(), value.end(), has_too_many_keys);
}

/// Keys of valid JSON, equal ones too: colons outside strings.
size_t count_keys(std::string_view text) {
    size_t n = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
        if (in_string && text[i] == '\\') {
            ++i;
        } else if (text[i] == '"') {
            in_string = !in_string;
        } else if (!in_string && text[i] == ':') {
            ++n;
        }
    }
    return n;
}

}  // namespace

Status parse_object(std::string_view text, JsonIn* out) {
    if (nesting(text) > kMaxJsonDepth) {
        return error(Code::kInvalidArgument, fmt::format("JSON is nested deeper than {} levels", kMaxJsonDepth));
    }
    *out = JsonIn::parse(text.begin(), text.end(), nullptr, false);
    if (out->is_discarded()) {
        ErrorFinder finder;
        JsonIn::sax_parse(text.begin(), text.end(), &finder);
        // The library prefixes its own code: "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
        const size_t bracket = finder.message.find("] ");
        std::string message = bracket == std::string::npos ? "parse error" : finder.message.substr(bracket + 2);
        // The message quotes what was read last, which may be most of the body.
        constexpr size_t kLongest = 400;
        if (message.size() > kLongest) {
            message = message.substr(0, kLongest) + "...";
        }
        return error(Code::kInvalidArgument, std::move(message));
    }
    if (!out->is_object()) {
        return error(Code::kInvalidArgument,
                     fmt::format("type error: request body must be an object, but is {}", out->type_name()));
    }
    return ok();
}

Result<Json> parse_ordered(std::string_view text) {
    JsonIn checked;
    FORESAY_CHECK_OK(parse_object(text, &checked));
    if (has_too_many_keys(checked) || count_keys(text) > kMaxKeys) {
        return error(Code::kInvalidArgument,
                     fmt::format("more than {} keys in an object or {} in all", kMaxOrderedKeys, kMaxKeys));
    }
    return Json::parse(text.begin(), text.end(), nullptr, false);
}

std::string dump(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace foresay::server
