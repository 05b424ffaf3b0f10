// POST /tokenize and /detokenize. Pure functions of the body. Source: shared/spec/server-api.md, section 8.
#pragma once

#include <string>

#include "server/api/app.h"
#include "server/http/http_types.h"

namespace foresay::server {

http::HttpReply tokenize(const App& app, const std::string& body);
http::HttpReply detokenize(const App& app, const std::string& body);

}  // namespace foresay::server
