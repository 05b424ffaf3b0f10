// What the server's flags say about chats. Source: shared/spec/server-api.md, section 7.2.
#pragma once

#include <optional>
#include <string>

#include "chat/output.h"

namespace foresay::server {

struct ChatOptions {
    bool jinja = true;              ///< --no-jinja: no tools
    bool prefill_assistant = true;  ///< a last message of the assistant is continued
    bool parse_replies = true;      ///< --skip-chat-parsing: calls and thoughts stay in the content
    chat::ReasoningFormat reasoning_format = chat::ReasoningFormat::kAuto;
    std::optional<bool> thinking;  ///< --reasoning on|off
    std::string reasoning_effort;  ///< empty: the template's own
    int32_t reasoning_budget = -1;
    std::string reasoning_budget_message;
};

}  // namespace foresay::server
