// POST /v1/messages (Anthropic's form), basic: its body as a chat body, its answers. Source: shared/spec/server-api.md,
// section 7.4.
#pragma once

#include <memory>
#include <string>

#include "chat/output.h"
#include "server/api/openai.h"

namespace foresay::server {

/// The body of /v1/chat/completions that says the same. Errors: invalid_argument naming the field.
Result<Json> chat_body_of_messages(std::string_view body);

std::unique_ptr<ReplyStyle> make_messages_style(std::shared_ptr<const FormatContext> context,
                                                chat::OutputOptions output);

}  // namespace foresay::server
