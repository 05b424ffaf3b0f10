// JSON text to values and back, with the guards that hostile input needs. Internal to server: nlohmann stays out of
// public headers. Source: shared/spec/dependencies.md, section 2 (edges to guard).
#pragma once

#include <nlohmann/json_fwd.hpp>  // the library's own forward declarations
#include <string>
#include <string_view>

#include "base/result.h"

namespace foresay::server {

/// Requests: sorted keys. (The ordered kind looks each key up linearly: a body of 100,000 keys would take minutes to
/// parse.)
using JsonIn = nlohmann::json;
/// Replies: keys in insertion order.
using Json = nlohmann::ordered_json;

/// Deepest nesting of a request. Copying or writing a value of a million levels overflows the stack.
inline constexpr int kMaxJsonDepth = 64;

/// Parses a request body into *out. Errors: invalid_argument, message with line and column; nesting too deep; no
/// object.
Status parse_object(std::string_view text, JsonIn* out);

/// The same with the keys in the client's order, as templates want them. Errors: also an object of over 1000 keys, or
/// 100,000 in all: the ordered kind looks each up one by one.
Result<Json> parse_ordered(std::string_view text);

/// One line of JSON; invalid UTF-8 becomes U+FFFD.
std::string dump(const Json& value);

}  // namespace foresay::server
