// The body of a chat request: messages and what the template is told besides, checked field by field. Pure; must not
// know templates' languages, engines or sockets. Source: shared/spec/server-api.md, sections 5 (chat routes) and 7.2.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/chat_options.h"
#include "server/api/json.h"

namespace foresay::server {

struct ChatRequest {
    Json messages;  ///< contents are strings (parts joined) or null; keys in the client's order
    Json tools;     ///< null: none
    std::string tool_choice = "auto";
    Json kwargs = Json::object();  ///< chat_template_kwargs, checked
    bool add_generation_prompt = true;
    std::string prefill;  ///< text of a last assistant message that is to be continued; its message is taken out
    bool enable_thinking = true;
    std::string reasoning_format = "auto";
    Json schema;  ///< of response_format or json_schema; null: none. {} is any object
};

/// body: as the client sent it (order of keys matters to templates). Errors: invalid_argument with the messages of the
/// spec's table.
Result<ChatRequest> parse_chat(std::string_view body, const ChatOptions& options);

}  // namespace foresay::server
