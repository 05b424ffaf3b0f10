// JSON as a tree that keeps the order of members: a schema's properties come out in the order in which they stand.
// (The library's ordered kind looks each key up linearly, so that hostile objects take quadratic time.)
// Must not know schemas.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace foresay::grammar {

struct Member;

struct Json {
    enum class Type { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

    Type type = Type::kNull;
    bool boolean = false;
    std::string text;  ///< of strings the value, of numbers the literal
    std::vector<Json> items;
    std::vector<Member> members;  ///< each key once: the last one of equal ones holds

    static Json of_string(std::string text);
    static Json of_array(std::vector<Json> items);
    static Json of_bool(bool value);

    bool is(Type wanted) const { return type == wanted; }

    bool is_number() const { return type == Type::kInteger || type == Type::kNumber; }

    /// The member, or null when there is none or this is no object.
    const Json* find(std::string_view key) const;
    Json* find(std::string_view key);
    /// Adds or replaces.
    void set(std::string_view key, Json value);
    void erase(std::string_view key);
    /// "string", "integer", ...
    std::string_view type_name() const;
};

/// A struct of its own and not a pair: clang 14 takes no vector of pairs with a type that isn't complete.
struct Member {
    Member(std::string key, Json value) : first(std::move(key)), second(std::move(value)) {}

    std::string first;
    Json second;
};

/// Errors: invalid_argument: no JSON (line and column), deeper than 64 levels, above 1 MiB.
Result<Json> parse_json(std::string_view text);

/// Compact JSON; equal texts for values that are written alike.
std::string to_text(const Json& value);

}  // namespace foresay::grammar
