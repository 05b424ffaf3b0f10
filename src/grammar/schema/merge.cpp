#include "grammar/schema/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace foresay::grammar {
namespace {

Json all_of(const Json& a, const Json& b) {
    Json both;
    both.type = Json::Type::kObject;
    both.set("allOf", Json::of_array({a, b}));
    return both;
}

bool is_false(const Json& schema) {
    return schema.is(Json::Type::kBool) && !schema.boolean;
}

bool is_true(const Json& schema) {
    return (schema.is(Json::Type::kBool) && schema.boolean) ||
           (schema.is(Json::Type::kObject) && schema.members.empty());
}

std::vector<Json> as_list(const Json& value) {
    return value.is(Json::Type::kArray) ? value.items : std::vector<Json>{value};
}

/// Types that both allow; an integer is a number.
Json common_types(const Json& a, const Json& b) {
    std::vector<Json> types;
    const auto add = [&types](const Json& type) {
        if (std::none_of(types.begin(), types.end(), [&](const Json& known) { return known.text == type.text; })) {
            types.push_back(type);
        }
    };
    for (const Json& x : as_list(a)) {
        for (const Json& y : as_list(b)) {
            if (x.text == y.text || (x.text == "integer" && y.text == "number")) {
                add(x);
            } else if (x.text == "number" && y.text == "integer") {
                add(y);
            }
        }
    }
    return types.size() == 1 ? types.front() : Json::of_array(std::move(types));
}

Json common_values(const Json& a, const Json& b) {
    std::vector<Json> values;
    for (const Json& x : as_list(a)) {
        for (const Json& y : as_list(b)) {
            if (to_text(x) == to_text(y)) {
                values.push_back(x);
                break;
            }
        }
    }
    return Json::of_array(std::move(values));
}

double number_of(const Json& value) {
    return value.is_number() ? std::strtod(value.text.c_str(), nullptr) : 0.0;
}

/// additionalProperties of an object for a property that it doesn't name: null: anything goes.
const Json* extra_schema(const Json& schema) {
    const Json* extra = schema.find("additionalProperties");
    return extra == nullptr || is_true(*extra) ? nullptr : extra;
}

/// Properties of both; one that only one of them names must also please the other's additionalProperties.
Json merged_properties(const Json& a, const Json& b) {
    static const Json kNone = [] {
        Json none;
        none.type = Json::Type::kObject;
        return none;
    }();
    const Json* pa = a.find("properties");
    const Json* pb = b.find("properties");
    const Json& of_a = pa != nullptr ? *pa : kNone;
    const Json& of_b = pb != nullptr ? *pb : kNone;
    Json out = kNone;
    const auto add = [&out](const std::string& name, const Json& schema, const Json* extra) {
        if (extra == nullptr) {
            out.members.emplace_back(name, schema);
        } else {
            out.members.emplace_back(name, is_false(*extra) ? Json::of_bool(false) : all_of(schema, *extra));
        }
    };
    for (const auto& [name, schema] : of_a.members) {
        if (const Json* other = of_b.find(name); other != nullptr) {
            out.members.emplace_back(name, all_of(schema, *other));
        } else {
            add(name, schema, extra_schema(b));
        }
    }
    for (const auto& [name, schema] : of_b.members) {
        if (of_a.find(name) == nullptr) {
            add(name, schema, extra_schema(a));
        }
    }
    return out;
}

Result<Json> both_any_of(const Json& a, const Json& b) {
    constexpr size_t kMost = 256;
    if (a.items.size() * b.items.size() > kMost) {
        return error(Code::kInvalidArgument, fmt::format("more than {} combinations of alternatives", kMost));
    }
    std::vector<Json> choices;
    for (const Json& x : a.items) {
        for (const Json& y : b.items) {
            choices.push_back(all_of(x, y));
        }
    }
    return Json::of_array(std::move(choices));
}

/// What both say about one keyword. None: a's value holds.
Result<std::optional<Json>> combined(std::string_view key, const Json& x, const Json& y) {
    const auto ends_with = [key](std::string_view tail) {
        return key.size() >= tail.size() && key.substr(key.size() - tail.size()) == tail;
    };
    if (key == "type") {
        return std::optional(common_types(x, y));
    }
    if (key == "enum") {
        return std::optional(common_values(x, y));
    }
    if (key == "required" && x.is(Json::Type::kArray) && y.is(Json::Type::kArray)) {
        Json list = x;
        for (const Json& name : y.items) {
            if (std::none_of(x.items.begin(), x.items.end(),
                             [&](const Json& known) { return known.text == name.text; })) {
                list.items.push_back(name);
            }
        }
        return std::optional(std::move(list));
    }
    if (key == "anyOf" || key == "oneOf") {
        FORESAY_TRY(Json list, both_any_of(x, y));
        return std::optional(std::move(list));
    }
    if (key == "additionalProperties" || key == "items") {
        return std::optional(is_false(x) || is_false(y) ? Json::of_bool(false) : all_of(x, y));
    }
    if (key == "prefixItems" && x.is(Json::Type::kArray) && y.is(Json::Type::kArray)) {
        Json list = x.items.size() < y.items.size() ? y : x;
        for (size_t i = 0; i < std::min(x.items.size(), y.items.size()); ++i) {
            list.items[i] = all_of(x.items[i], y.items[i]);
        }
        return std::optional(std::move(list));
    }
    if (key.substr(0, 3) == "min" || ends_with("Minimum")) {
        return std::optional(number_of(x) >= number_of(y) ? x : y);
    }
    if (key.substr(0, 3) == "max" || ends_with("Maximum")) {
        return std::optional(number_of(x) <= number_of(y) ? x : y);
    }
    return std::optional<Json>();
}

}  // namespace

Result<Json> merged(const Json& a, const Json& b) {
    if (is_false(a) || is_false(b)) {
        return Json::of_bool(false);
    }
    if (is_true(a) || is_true(b)) {
        return is_true(a) ? b : a;
    }
    Json out = a;
    for (const auto& [key, value] : b.members) {
        const Json* known = a.find(key);
        if (known == nullptr) {
            out.set(key, value);
            continue;
        }
        if (key == "const") {
            if (to_text(*known) != to_text(value)) {
                return Json::of_bool(false);
            }
            continue;
        }
        FORESAY_TRY(std::optional<Json> both, combined(key, *known, value));
        if (both) {
            if ((key == "type" || key == "enum") && both->is(Json::Type::kArray) && both->items.empty()) {
                return Json::of_bool(false);
            }
            out.set(key, std::move(*both));
        }
    }
    if (a.find("properties") != nullptr || b.find("properties") != nullptr) {
        out.set("properties", merged_properties(a, b));
    }
    return out;
}

}  // namespace foresay::grammar
