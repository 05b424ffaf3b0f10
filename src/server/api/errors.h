// From Error to the JSON body and status that llama-server's clients know. Source: shared/spec/server-api.md,
// section 5.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "server/http/http_types.h"

namespace foresay::server {

struct ApiError {
    int status = 500;
    std::string type = "server_error";
    std::string message;
    int64_t n_prompt_tokens = -1;  ///< both are written when not negative (exceed_context_size_error)
    int64_t n_ctx = -1;
    int retry_after_s = 0;  ///< header Retry-After when above 0
};

/// The one table from codes to status and type. capacity is the prompt that doesn't fit the slot's context.
ApiError to_api_error(const Error& error);
/// The usual type of a status: 400 invalid_request_error, 401 authentication_error, ...
ApiError make_api_error(int status, std::string message);

/// {"error":{"code":...,"message":...,"type":...}}
std::string error_body(const ApiError& error);
http::HttpReply error_reply(const ApiError& error);

}  // namespace foresay::server
