#include "server/api/completion_routes.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/infill.h"
#include "server/api/openai.h"
#include "server/api/reply_style.h"

namespace foresay::server {
namespace {

std::shared_ptr<const FormatContext> format_of(const std::shared_ptr<App>& app) {
    return {app, &app->format};
}

}  // namespace

Result<CompletionRequest> native_completion(const std::string& body, const std::shared_ptr<App>& app) {
    FORESAY_TRY(CompletionRequest request, parse_completion(body, app->parse));
    request.style = make_native_style(format_of(app));
    return request;
}

Result<CompletionRequest> text_completion(const std::string& body, const std::shared_ptr<App>& app) {
    JsonIn object;
    FORESAY_CHECK_OK(parse_object(body, &object));
    FORESAY_TRY(CompletionRequest request, parse_text_completion(object, body, app->parse));
    request.style = make_text_style(format_of(app), request.reply);
    return request;
}

Result<CompletionRequest> infill(const std::string& body, const std::shared_ptr<App>& app) {
    JsonIn object;
    FORESAY_CHECK_OK(parse_object(body, &object));
    FORESAY_TRY(CompletionRequest request, parse_infill(object, body, app->parse, vocab::fim_tokens(*app->parse.vocab),
                                                        app->engine->info().n_ctx_slot));
    request.style = make_native_style(format_of(app));
    return request;
}

}  // namespace foresay::server
