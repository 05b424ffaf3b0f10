// Regular expressions of `pattern` to GBNF. Must not know schemas.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace foresay::grammar {

/// The grammar of the JSON string (quotes included) whose value the expression finds something in; without ^ or $ any
/// characters may stand before or behind, as JSON Schema says. Supported: characters, escapes, classes, ., groups, |,
/// the quantifiers, ^ and $ at the ends of the whole. Errors: invalid_argument naming the construct and its place.
Result<std::string> pattern_to_gbnf(std::string_view pattern);

}  // namespace foresay::grammar
