// Chat formats that need no template: what --no-jinja and --chat-template NAME give.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/chat.h"

namespace foresay::chat {

/// Names in alphabetical order.
std::vector<std::string_view> builtin_names();
bool is_builtin(std::string_view name);

/// The built-in format that a model's template looks like, by its control tokens; empty if none.
std::string_view builtin_for(std::string_view model_template);

/// The messages (checked, roles system, user and assistant; others count as user) in a built-in format.
/// Errors: not_found if there is no such format.
Result<std::string> format_builtin(std::string_view name, const Json& messages, bool add_generation_prompt);

}  // namespace foresay::chat
