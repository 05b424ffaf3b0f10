// generation_settings of replies, /props and /slots. Internal to server/api. Source: shared/spec/server-api.md,
// section 4.7.
#pragma once

#include "engine/engine.h"
#include "server/api/format_completion.h"
#include "server/api/json.h"
#include "server/api/parse_completion.h"

namespace foresay::server {

/// The reduced form of /slots and /props leaves the long ones out.
enum class SettingsForm { kFull, kReduced };

/// result: its seed and speculation settings are what was in force; null: the request's own, else the server's.
Json format_settings(const engine::Request& request, const ReplyOptions& reply, const engine::Final* result,
                     const FormatContext& context, SettingsForm form);

}  // namespace foresay::server
