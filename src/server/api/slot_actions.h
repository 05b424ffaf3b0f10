// POST /slots/{id}?action=save|restore|erase. Source: shared/spec/server-api.md, section 10.8.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/api/app.h"
#include "server/http/http_types.h"

namespace foresay::server {

/// A name that stays in its folder: no separators, no "..", no control characters, at most 255 bytes of UTF-8, no blank
/// at either end, no dot at the end or the beginning.
bool is_safe_filename(std::string_view name);

/// Answers by itself, when the engine has done it. id: what stands in the path. I/O thread.
void answer_slot_action(const std::shared_ptr<App>& app, const std::string& id, const http::HttpRequest& request,
                        const std::shared_ptr<http::ResponseWriter>& writer);

}  // namespace foresay::server
