// Two schemas as one that asks for both. Must not know references: they are resolved before.
#pragma once

#include <string>

#include "base/result.h"
#include "grammar/schema/json_tree.h"

namespace foresay::grammar {

/// a and b are schemas without $ref and allOf. `false` where both can't hold. Keywords of which only one can be kept
/// (pattern, format, ...) are a's. Errors: more combinations of anyOf than 256.
Result<Json> merged(const Json& a, const Json& b);

}  // namespace foresay::grammar
