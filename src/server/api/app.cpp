#include "server/api/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "server/api/chat_request.h"

namespace foresay::server {

namespace {

std::string token_text(const vocab::Vocab& vocab, vocab::TokenId id) {
    return id == vocab::kNoToken ? std::string() : vocab.piece(id, true);
}

/// A template that can't be used costs the chat routes only.
void load_template(const ServerOptions& options, App* app) {
    const vocab::Vocab& vocab = *app->parse.vocab;
    chat::Source source;
    source.model_template = vocab.chat_template();
    const auto named = vocab.named_chat_templates();
    source.named.assign(named.begin(), named.end());
    source.chosen = options.chat_template;
    source.jinja = options.jinja;
    source.bos_token = token_text(vocab, vocab.bos());
    source.eos_token = token_text(vocab, vocab.eos());
    source.adds_bos = vocab.adds_bos();
    Result<Json> kwargs = parse_ordered(options.chat_template_kwargs.empty() ? "{}" : options.chat_template_kwargs);
    if (kwargs) {
        source.kwargs = std::move(*kwargs);
    } else {
        log::warn("srv  {:>12}: chat_template_kwargs is ignored: {}", "start", kwargs.error().to_string());
    }
    Result<chat::Templates> templates = chat::Templates::create(std::move(source));
    if (templates) {
        app->templates = std::make_shared<const chat::Templates>(std::move(*templates));
    } else {
        app->template_error = templates.error().to_string();
        log::warn("srv  {:>12}: no chat: the template can't be used: {}", "start", app->template_error);
    }
    app->chat.jinja = options.jinja;
    app->chat.prefill_assistant = options.prefill_assistant;
    app->chat.parse_replies = !options.skip_chat_parsing;
    app->chat.reasoning_format = reasoning_format_of(options.reasoning_format).value_or(app->chat.reasoning_format);
    app->chat.reasoning_effort = options.reasoning_effort;
    app->chat.reasoning_budget = options.reasoning_budget;
    app->chat.reasoning_budget_message = options.reasoning_budget_message;
    app->chat.thinking = options.thinking;
}

}  // namespace

std::shared_ptr<App> App::make(const ServerOptions& options, std::shared_ptr<engine::Engine> engine) {
    auto app = std::make_shared<App>();
    const engine::ModelInfo& info = engine->info();
    app->options = options;
    app->parse.vocab = engine->vocab();
    app->parse.sampling = options.sampling_defaults;
    app->parse.n_predict = options.n_predict;
    app->parse.n_keep = engine->options().n_keep;
    app->parse.stop = options.stop;
    app->parse.cache_prompt = options.cache_prompt;
    app->parse.n_cache_reuse = options.n_cache_reuse;
    app->parse.embd_normalize = options.embd_normalize;
    app->parse.sse_ping_interval_s = std::max(options.sse_ping_interval_s, 0);
    app->parse.n_slots = info.n_parallel;
    app->parse.max_prompts = static_cast<size_t>(std::max(options.max_queued, 0) + std::max(info.n_parallel, 1));
    app->format.vocab = engine->vocab();
    app->format.model_name = info.name;
    app->format.spec_types = info.spec_types;
    app->format.spec = engine->options().spec;
    app->format.spec.n_max = info.spec_n_max;  // n-gram types have lengths of their own
    app->start_unix_s =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    load_template(options, app.get());
    app->engine = std::move(engine);
    return app;
}

std::vector<std::shared_ptr<Ticket>> take_tickets(const std::shared_ptr<App>& app, size_t n, ApiError* busy) {
    std::vector<std::shared_ptr<Ticket>> tickets;
    const int64_t before = app->counters.tasks_in_flight.fetch_add(static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) {
        tickets.push_back(std::make_shared<Ticket>(app));
    }
    if (before > 0 && before + static_cast<int64_t>(n) > static_cast<int64_t>(app->parse.max_prompts)) {
        *busy = make_api_error(429, fmt::format("too many requests: {} are running or waiting", before));
        busy->retry_after_s = 1;
        ++app->counters.requests_refused_total;
        tickets.clear();
    }
    return tickets;
}

}  // namespace foresay::server
