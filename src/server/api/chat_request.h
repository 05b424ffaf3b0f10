// The body of a chat request, checked field by field: what the template is told, and how the reply is to be read. What
// messages and tools must look like is checked where they are rendered (chat/messages.h). Pure; must not know engines
// or sockets. Source: shared/spec/server-api.md, sections 5 (chat routes) and 7.2.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/chat.h"
#include "server/api/chat_options.h"
#include "server/api/json.h"

namespace foresay::server {

struct ChatRequest {
    chat::Request chat;
    /// Those that may be called: all, or the one that tool_choice names. Null: none.
    Json callable;
    chat::ReasoningFormat reasoning_format = chat::ReasoningFormat::kAuto;
    bool parse_calls = true;
    int32_t reasoning_budget = -1;  ///< most thinking tokens; -1: no limit
    std::string reasoning_budget_message;
};

/// "none", "auto", "deepseek", "deepseek-legacy".
std::optional<chat::ReasoningFormat> reasoning_format_of(std::string_view name);
const char* name_of(chat::ReasoningFormat format);

/// body: as the client sent it (order of keys matters to templates). Errors: invalid_argument with the messages of the
/// spec's table.
Result<ChatRequest> parse_chat(std::string_view body, const ChatOptions& options);

}  // namespace foresay::server
