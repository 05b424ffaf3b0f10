// What the server says about itself: /props, /slots, /models. Internal to server/api. Source:
// shared/spec/server-api.md, sections 9, 10.1.
#pragma once

#include "server/api/app.h"
#include "server/api/json.h"

namespace foresay::server {

Json format_props(const App& app);
Json format_slots(const App& app);
Json format_models(const App& app);

}  // namespace foresay::server
