// POST /v1/chat/completions: how its answers look. Source: shared/spec/server-api.md, sections 6.3 and 7.2.
#pragma once

#include <memory>

#include "chat/output.h"
#include "server/api/openai.h"

namespace foresay::server {

std::unique_ptr<ReplyStyle> make_chat_style(std::shared_ptr<const FormatContext> context, const ReplyOptions& reply,
                                            chat::OutputOptions output);

}  // namespace foresay::server
