// Template text to tokens, with jinja2's whitespace rules under trim_blocks and lstrip_blocks. Internal to jinja.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/jinja/ast.h"

namespace foresay::jinja {

struct Token {
    enum class Kind : uint8_t {
        kText,         ///< text between tags, whitespace control applied
        kOutputBegin,  ///< {{
        kOutputEnd,
        kTagBegin,  ///< {%
        kTagEnd,
        kName,
        kString,   ///< text: the value, escapes resolved
        kInteger,  ///< text: the digits as written
        kFloat,
        kOperator,  ///< text: the operator
        kEnd
    };

    Kind kind = Kind::kEnd;
    std::string text;
    Position position;
};

/// source: valid UTF-8. Errors: invalid_argument with line and column in `where`.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace foresay::jinja
