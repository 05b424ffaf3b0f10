// The chat routes: messages through the model's template to a completion, and its text back as a chat answer. Run on a
// worker. Source: shared/spec/server-api.md, sections 7 and 8.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "server/api/app.h"
#include "server/api/parse_completion.h"
#include "server/http/http_types.h"

namespace foresay::server {

/// POST /v1/chat/completions.
Result<CompletionRequest> chat_completion(const std::string& body, const std::shared_ptr<App>& app);
/// POST /v1/messages.
Result<CompletionRequest> messages_completion(const std::string& body, const std::shared_ptr<App>& app);
/// POST /v1/responses.
Result<CompletionRequest> responses_completion(const std::string& body, const std::shared_ptr<App>& app);

/// POST /apply-template.
http::HttpReply apply_template(const App& app, const std::string& body);
/// POST /v1/chat/completions/input_tokens, /v1/responses/input_tokens and /v1/messages/count_tokens.
http::HttpReply count_chat_tokens(const App& app, const std::string& body);
http::HttpReply count_responses_tokens(const App& app, const std::string& body);
http::HttpReply count_messages_tokens(const App& app, const std::string& body);

}  // namespace foresay::server
