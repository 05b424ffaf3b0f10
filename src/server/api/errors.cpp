#include "server/api/errors.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/json.h"

namespace foresay::server {
namespace {

const char* type_of_status(int status) {
    switch (status) {
        case 401:
            return "authentication_error";
        case 403:
            return "permission_error";
        case 404:
            return "not_found_error";
        case 429:
            return "rate_limit_error";
        case 501:
            return "not_supported_error";
        case 503:
            return "unavailable_error";
        default:
            return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

int status_of_code(Code code) {
    switch (code) {
        case Code::kInvalidArgument:
        case Code::kCapacity:
            return 400;
        case Code::kNotFound:
            return 404;
        case Code::kUnsupported:
            return 501;
        case Code::kCancelled:
        case Code::kTimeout:
            return 503;
        case Code::kBadFile:
        case Code::kOutOfMemory:
        case Code::kIo:
        case Code::kInternal:
            break;
    }
    return 500;
}

}  // namespace

ApiError make_api_error(int status, std::string message) {
    ApiError result;
    result.status = status;
    result.type = type_of_status(status);
    result.message = std::move(message);
    return result;
}

ApiError to_api_error(const Error& error) {
    ApiError result = make_api_error(status_of_code(error.code), error.to_string());
    if (error.code == Code::kCapacity) {
        result.type = "exceed_context_size_error";
    }
    return result;
}

std::string error_body(const ApiError& error) {
    Json inner = {{"code", error.status}, {"message", error.message}, {"type", error.type}};
    if (error.n_prompt_tokens >= 0) {
        inner["n_prompt_tokens"] = error.n_prompt_tokens;
    }
    if (error.n_ctx >= 0) {
        inner["n_ctx"] = error.n_ctx;
    }
    return dump(Json{{"error", std::move(inner)}});
}

http::HttpReply error_reply(const ApiError& error) {
    http::HttpReply reply;
    reply.status = error.status;
    reply.body = error_body(error);
    if (error.retry_after_s > 0) {
        reply.headers.emplace_back("Retry-After", fmt::format("{}", error.retry_after_s));
    }
    return reply;
}

}  // namespace foresay::server
