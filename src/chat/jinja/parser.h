// Tokens to the tree. Internal to jinja.
#pragma once

#include <string_view>

#include "base/result.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/template.h"

namespace foresay::jinja {

/// source: valid UTF-8. Errors: invalid_argument (syntax) or unsupported (a construct of jinja2 that chat templates
/// don't get here), with line and column in `where`.
Result<Body> parse(std::string_view source, const ParseOptions& options);

}  // namespace foresay::jinja
