// What clients send as messages and tools, checked and brought into the shape that a template takes.
#pragma once

#include <string>

#include "base/result.h"
#include "chat/chat.h"

namespace foresay::chat {

/// Checks messages: a list of objects with a role, content (text or parts) and tool calls. Content parts of text are
/// joined by newlines; null content becomes "". Errors: invalid_argument in the words of the peer (server-api.md,
/// section 5).
Result<Json> checked_messages(const Json& messages);

/// Checks that tools are a list of functions with names. Null and an empty list are no tools (null).
Result<Json> checked_tools(const Json& tools);

/// Messages (checked) in the form that a template with these abilities takes: arguments of calls as objects or as text,
/// content as parts, system text in front of the first user message, calls and results as text.
/// tools: what to tell a template that knows no tools; then *tools becomes null.
Json adapted(Json messages, Json* tools, const Abilities& abilities, bool knows_developer);

}  // namespace foresay::chat
