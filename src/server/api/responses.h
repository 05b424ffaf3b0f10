// POST /v1/responses (OpenAI's newer form), basic: text and function tools, no stored conversations.
// Source: shared/spec/server-api.md, section 7.3.
#pragma once

#include <memory>
#include <string>

#include "chat/output.h"
#include "server/api/openai.h"

namespace foresay::server {

/// The body of /v1/chat/completions that says the same. Errors: invalid_argument naming the field.
Result<Json> chat_body_of_responses(std::string_view body);

std::unique_ptr<ReplyStyle> make_responses_style(std::shared_ptr<const FormatContext> context,
                                                 chat::OutputOptions output);

}  // namespace foresay::server
