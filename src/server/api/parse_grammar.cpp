#include "server/api/parse_grammar.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "grammar/schema.h"
#include "server/api/raw_json.h"

namespace foresay::server {
namespace {

/// schema: JSON text. "{}" stands for any object here, not for any value (server-api.md 4.2).
std::string_view with_default(std::string_view schema) {
    const bool is_empty = nlohmann::json::parse(schema.begin(), schema.end(), nullptr, false).empty() &&
                          schema.find('{') != std::string_view::npos;
    return is_empty ? std::string_view(R"({"type":"object"})") : schema;
}

void take_schema(Fields& fields, const std::string& spelt, std::string_view schema, sampling::Params* params) {
    auto compiled = grammar::schema_to_gbnf(with_default(schema));
    if (!compiled.has_value()) {
        fields.fail(spelt, fmt::format("\"json_schema\": JSON schema conversion failed: {}", compiled.error().message));
        return;
    }
    for (const std::string& what : compiled->ignored) {
        log::warn("{}: ignored: {}", spelt, what);
    }
    params->grammar = std::move(compiled->gbnf);
}

/// The schema that a response_format asks for, as text; none: free text.
std::optional<std::string_view> schema_of_format(Fields& fields, const std::string& spelt, const JsonIn& format,
                                                 std::string_view raw) {
    if (!format.is_object()) {
        fields.fail(spelt, fmt::format("type must be object, but is {}", format.type_name()));
        return std::nullopt;
    }
    const JsonIn type = format.value("type", JsonIn("text"));
    if (type == "text") {
        return std::nullopt;
    }
    if (type == "json_object") {
        const std::string_view schema = raw_member(raw, "schema");
        return schema.empty() || schema == "null" ? std::string_view("{}") : schema;
    }
    if (type == "json_schema") {
        const std::string_view schema = raw_member(raw_member(raw, "json_schema"), "schema");
        if (schema.empty()) {
            fields.fail(spelt, R"("json_schema" with "schema" is missing)");
            return std::nullopt;
        }
        return schema;
    }
    const std::string got = type.is_string() ? type.get<std::string>() : type.dump();
    fields.fail(error(Code::kInvalidArgument,
                      fmt::format("response_format type must be one of \"text\", \"json_object\" or \"json_schema\", "
                                  "but got: {}",
                                  got.substr(0, 64))));
    return std::nullopt;
}

/// {"type": 0 or "token", "token": ID} and {"type": 1 or "word", "value": TEXT}.
bool parse_trigger(Fields& fields, const std::string& spelt, const JsonIn& value, grammar::Trigger* out) {
    if (!value.is_object()) {
        fields.fail(spelt, "must be a list of objects");
        return false;
    }
    const JsonIn type = value.value("type", JsonIn());
    const JsonIn text = value.value("value", JsonIn(""));
    if (type == 0 || type == "token") {
        const JsonIn token = value.value("token", JsonIn());
        if (!token.is_number_integer() || token.get<int64_t>() < 0 ||
            token.get<int64_t>() > std::numeric_limits<int32_t>::max()) {
            fields.fail(spelt, "a token trigger needs \"token\", an id");
            return false;
        }
        *out = {grammar::Trigger::Kind::kToken, text.is_string() ? text.get<std::string>() : "",
                token.get<vocab::TokenId>()};
        return true;
    }
    if (type == 1 || type == "word") {
        if (!text.is_string()) {
            fields.fail(spelt, "a word trigger needs \"value\", a text");
            return false;
        }
        *out = {grammar::Trigger::Kind::kWord, text.get<std::string>(), vocab::kNoToken};
        return true;
    }
    if (type == 2 || type == 3 || type == "pattern" || type == "pattern_full") {
        if (!text.is_string()) {
            fields.fail(spelt, "a pattern trigger needs \"value\", a regular expression");
            return false;
        }
        const bool is_full = type == 3 || type == "pattern_full";
        *out = {is_full ? grammar::Trigger::Kind::kPatternFull : grammar::Trigger::Kind::kPattern,
                text.get<std::string>(), vocab::kNoToken};
        return true;
    }
    fields.fail(spelt, fmt::format("unknown type {} of a trigger", type.dump().substr(0, 64)));
    return false;
}

void parse_triggers(Fields& fields, sampling::Params* params) {
    fields.boolean({"grammar_lazy"}, &params->grammar_lazy);
    std::string spelt;
    const JsonIn* list = fields.find({"grammar_triggers"}, &spelt);
    if (list == nullptr || fields.failed()) {
        return;
    }
    if (!list->is_array()) {
        fields.fail(spelt, "must be a list");
        return;
    }
    params->grammar_triggers.clear();
    for (const JsonIn& value : *list) {
        grammar::Trigger trigger;
        if (!parse_trigger(fields, spelt, value, &trigger)) {
            return;
        }
        params->grammar_triggers.push_back(std::move(trigger));
    }
}

/// The schema of a request as text, with the name of its field.
std::optional<std::string_view> raw_schema(Fields& fields, std::string_view body, std::string* spelt) {
    if (fields.find({"json_schema"}, spelt) != nullptr) {
        return raw_member(body, "json_schema");
    }
    if (const JsonIn* format = fields.find({"response_format"}, spelt); format != nullptr) {
        return schema_of_format(fields, *spelt, *format, raw_member(body, "response_format"));
    }
    return std::nullopt;
}

}  // namespace

Result<std::optional<std::string>> asked_schema(const JsonIn& object, std::string_view body) {
    Fields fields(object);
    std::string spelt;
    const std::optional<std::string_view> raw = raw_schema(fields, body, &spelt);
    FORESAY_CHECK_OK(fields.status());
    return raw ? std::optional<std::string>(with_default(*raw)) : std::nullopt;
}

void parse_grammar(Fields& fields, std::string_view body, GrammarRule rule, sampling::Params* params) {
    parse_triggers(fields, params);
    std::string spelt;
    std::string schema_spelt;
    const std::optional<std::string_view> raw = raw_schema(fields, body, &schema_spelt);
    const JsonIn* grammar = fields.find({"grammar"}, &spelt);
    if (grammar != nullptr && !(grammar->is_string() && !grammar->get_ref<const std::string&>().empty())) {
        grammar = nullptr;  // what isn't a text is ignored, as the peer does
    }
    if (fields.failed()) {
        return;
    }
    if (grammar != nullptr && raw && rule == GrammarRule::kRefuseBoth) {
        fields.fail(error(Code::kInvalidArgument, "Cannot use both json_schema and grammar"));
    } else if (grammar != nullptr) {
        params->grammar = grammar->get<std::string>();
    } else if (raw) {
        take_schema(fields, schema_spelt, *raw, params);
    }
}

}  // namespace foresay::server
