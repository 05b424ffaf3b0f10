#include "server/api/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "server/api/chat_routes.h"
#include "server/api/completion_routes.h"
#include "server/api/embedding_job.h"
#include "server/api/errors.h"
#include "server/api/format_info.h"
#include "server/api/json.h"
#include "server/api/slot_actions.h"
#include "server/api/text_tools.h"
#include "server/page/page.h"

namespace foresay::server {
namespace {

// Two: one long prompt being tokenised must not hold up the short one behind it.
constexpr int kWorkers = 2;

constexpr std::array<std::string_view, 9> kLaterRoutes{

    "/v1/chat/completions/control",

    "/rerank",
    "/reranking",
    "/v1/rerank",
    "/v1/reranking",

    "/lora-adapters",
    "/v1/streams/lookup",
    "/v1/audio/transcriptions",
    "/v1/systemone"};

/// Of what a client sent, for the log: 128 bytes at most, others than printable ASCII as \xNN, so that no terminal or
/// log reader takes them for its own.
std::string log_text(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, 128)) {
        if (c > ' ' && c < '\x7f') {
            out += c;
        } else {
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    return out;
}

/// Adds the CORS headers to whatever is answered, and writes the log line.
class RoutedWriter final : public http::ResponseWriter {
  public:
    RoutedWriter(std::shared_ptr<http::ResponseWriter> inner, http::Headers headers, const http::HttpRequest& request)
        : inner_(std::move(inner)),
          headers_(std::move(headers)),
          line_(fmt::format("{} {} {}", log_text(request.method), log_text(request.path), request.remote)),
          is_quiet_(request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS") {}

    void post(std::function<void()> task) override { inner_->post(std::move(task)); }

    void send(http::HttpReply reply) override {
        log_line(reply.status);
        reply.headers.insert(reply.headers.end(), headers_.begin(), headers_.end());
        inner_->send(std::move(reply));
    }

    void begin_stream(http::HttpReply head, int ping_s, std::string ping) override {
        log_line(head.status);
        head.headers.insert(head.headers.end(), headers_.begin(), headers_.end());
        inner_->begin_stream(std::move(head), ping_s, std::move(ping));
    }

    void write(std::string piece) override { inner_->write(std::move(piece)); }

    void end_stream() override { inner_->end_stream(); }

    void on_gone(std::function<void()> callback) override { inner_->on_gone(std::move(callback)); }

    bool is_gone() const override { return inner_->is_gone(); }

  private:
    void log_line(int status) const {
        // Health checks and scrapes come every few seconds: debug, unless something is wrong with them.
        if (is_quiet_ && status < 500) {
            log::debug("srv  {:>12}: done request: {} {}", "log_server_r", line_, status);
        } else {
            log::info("srv  {:>12}: done request: {} {}", "log_server_r", line_, status);
        }
    }

    std::shared_ptr<http::ResponseWriter> inner_;
    http::Headers headers_;
    std::string line_;
    bool is_quiet_;
};

bool is_public(std::string_view path) {
    return path == "/health" || path == "/v1/health" || path == "/" || path == "/index.html";
}

bool is_later_route(std::string_view path) {
    return std::any_of(kLaterRoutes.begin(), kLaterRoutes.end(), [path](std::string_view route) {
        return route.back() == '/' ? path.starts_with(route) : path == route;
    });
}

/// Takes the same time wherever the first difference is.
bool equals_in_constant_time(std::string_view a, std::string_view b) {
    unsigned difference = a.size() == b.size() ? 0U : 1U;
    for (size_t i = 0; i < a.size(); ++i) {
        const char other = b.empty() ? '\0' : b[i % b.size()];
        difference |= static_cast<unsigned char>(a[i] ^ other);
    }
    return difference == 0U;
}

bool is_loopback_origin(std::string_view origin) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (!origin.starts_with(scheme)) {
            continue;
        }
        const std::string_view rest = origin.substr(scheme.size());
        for (const std::string_view host : {"localhost", "127.0.0.1", "[::1]"}) {
            if (!rest.starts_with(host)) {
                continue;
            }
            const std::string_view port = rest.substr(host.size());
            if (port.empty() ||
                (port.size() > 1 && port[0] == ':' &&
                 std::all_of(port.begin() + 1, port.end(), [](char c) { return c >= '0' && c <= '9'; }))) {
                return true;
            }
        }
    }
    return false;
}

void send_json(http::ResponseWriter& writer, const Json& value) {
    http::HttpReply reply;
    reply.body = dump(value);
    writer.send(std::move(reply));
}

void send_error(http::ResponseWriter& writer, int status, std::string message) {
    writer.send(error_reply(make_api_error(status, std::move(message))));
}

void send_not_found(http::ResponseWriter& writer) {
    send_error(writer, 404, "File Not Found");
}

void send_disabled(http::ResponseWriter& writer, std::string_view what, std::string_view flag) {
    send_error(writer, 501, fmt::format("This server does not support {}. Start it with `{}`", what, flag));
}

}  // namespace

Router::Router(const ServerOptions& options) : options_(options), workers_(std::make_unique<WorkQueue>(kWorkers)) {}

http::Headers Router::cors_headers(const http::HttpRequest& request) const {
    http::Headers headers;
    const std::string& mode = options_.cors_origins;
    if (mode.empty()) {
        return headers;
    }
    const std::string_view origin = request.header("Origin");
    if (mode == "*" && options_.cors_credentials) {
        headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
    } else if (mode != "localhost") {
        headers.emplace_back("Access-Control-Allow-Origin", mode);
    } else if (is_loopback_origin(origin)) {
        headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
    }
    if (!headers.empty() && options_.cors_credentials) {
        headers.emplace_back("Access-Control-Allow-Credentials", "true");
    }
    if (request.method == "OPTIONS") {
        headers.emplace_back("Access-Control-Allow-Methods", options_.cors_methods);
        headers.emplace_back("Access-Control-Allow-Headers", options_.cors_headers);
    }
    return headers;
}

bool Router::has_key(const http::HttpRequest& request) const {
    if (options_.api_keys.empty()) {
        return true;
    }
    std::string_view given = request.header("Authorization");
    if (given.empty()) {
        given = request.header("X-Api-Key");
    }
    constexpr std::string_view kBearer = "Bearer ";
    if (given.starts_with(kBearer)) {
        given.remove_prefix(kBearer.size());
    }
    bool found = false;
    for (const std::string& key : options_.api_keys) {
        found = equals_in_constant_time(given, key) || found;  // every key is compared
    }
    return found && !given.empty();
}

void Router::handle(Request request, Writer inner) {
    auto writer = std::make_shared<RoutedWriter>(std::move(inner), cors_headers(*request), *request);
    if (request->method == "OPTIONS") {
        http::HttpReply reply;
        reply.content_type = "text/plain";
        writer->send(std::move(reply));
        return;
    }
    if (app_ == nullptr) {
        ApiError loading = make_api_error(503, "Loading model");
        loading.retry_after_s = 1;
        writer->send(error_reply(loading));
        return;
    }
    std::string path = request->path;
    if (!options_.api_prefix.empty()) {
        path = path.starts_with(options_.api_prefix) ? path.substr(options_.api_prefix.size()) : std::string();
    }
    if (!is_public(path) && !has_key(*request)) {
        send_error(*writer, 401, "Invalid API Key");
        return;
    }
    if (request->method == "GET" || request->method == "HEAD") {
        get(path, request, writer);
    } else if (request->method == "POST") {
        post(path, request, writer);
    } else {
        send_not_found(*writer);
    }
}

void Router::get(const std::string& path, const Request& request, const Writer& writer) {
    if (path == "/health" || path == "/v1/health") {
        send_json(*writer, Json{{"status", "ok"}});
    } else if (path == "/" || path == "/index.html") {
        get_page(writer);
    } else if (path == "/props") {
        send_json(*writer, format_props(*app_));
    } else if (path == "/models" || path == "/v1/models") {
        send_json(*writer, format_models(*app_));
    } else if (path == "/slots") {
        get_slots(request, writer);
    } else if (path == "/lora-adapters") {
        send_json(*writer, Json::array());  // none are loaded
    } else if (path == "/metrics") {
        if (!options_.metrics) {
            send_disabled(*writer, "metrics endpoint", "--metrics");
            return;
        }
        http::HttpReply reply;
        reply.content_type = "text/plain; version=0.0.4";
        reply.headers.emplace_back("Process-Start-Time-Unix", fmt::format("{}", app_->start_unix_s));
        reply.body = metrics_.render(*app_, n_connections_ ? n_connections_() : 0);
        writer->send(std::move(reply));
    } else {
        send_not_found(*writer);
    }
}

void Router::get_page(const Writer& writer) const {
    if (!options_.page) {
        send_not_found(*writer);
        return;
    }
    http::HttpReply reply;
    reply.content_type = "text/html; charset=utf-8";
    // The page is whole in itself: whatever a model writes into it can load nothing and talk to nobody else.
    reply.headers = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src "
         "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cache-Control", "no-cache"}};
    reply.body = page_html();
    writer->send(std::move(reply));
}

void Router::get_slots(const Request& request, const Writer& writer) {
    if (!options_.slots) {
        send_disabled(*writer, "slots endpoint", "--slots");
        return;
    }
    if (!request->query_value("fail_on_no_slot").empty()) {
        const auto slots = app_->engine->slots();
        if (std::all_of(slots.begin(), slots.end(), [](const engine::SlotSnapshot& s) { return s.is_processing; })) {
            send_error(*writer, 503, "no slot available");
            return;
        }
    }
    send_json(*writer, format_slots(*app_));
}

void Router::post(const std::string& path, const Request& request, const Writer& writer) {
    if (path == "/completion" || path == "/completions") {
        complete(request, writer, native_completion);
    } else if (path == "/v1/completions") {
        complete(request, writer, text_completion);
    } else if (path == "/embedding" || path == "/embeddings") {
        embed(request, writer, false);
    } else if (path == "/v1/embeddings") {
        embed(request, writer, true);
    } else if (path == "/chat/completions" || path == "/v1/chat/completions") {
        complete(request, writer, chat_completion);
    } else if (path == "/responses" || path == "/v1/responses") {
        complete(request, writer, responses_completion);
    } else if (path == "/v1/messages") {
        complete(request, writer, messages_completion);
    } else if (path == "/chat/completions/input_tokens" || path == "/v1/chat/completions/input_tokens") {
        answer_by_worker(request, writer, count_chat_tokens);
    } else if (path == "/responses/input_tokens" || path == "/v1/responses/input_tokens") {
        answer_by_worker(request, writer, count_responses_tokens);
    } else if (path == "/v1/messages/count_tokens") {
        answer_by_worker(request, writer, count_messages_tokens);
    } else if (path == "/apply-template") {
        answer_by_worker(request, writer, apply_template);
    } else if (path == "/infill") {
        complete(request, writer, infill);
    } else if (path.starts_with("/slots/")) {
        if (options_.slot_save_path.empty()) {
            send_disabled(*writer, "slots actions", "--slot-save-path");
        } else {
            answer_slot_action(app_, path.substr(7), *request, writer);
        }
    } else if (path == "/tokenize") {
        answer_by_worker(request, writer, tokenize);
    } else if (path == "/detokenize") {
        answer_by_worker(request, writer, detokenize);
    } else if (path == "/props") {
        if (options_.props) {
            send_json(*writer, Json{{"success", true}});  // changes nothing, as in the peer
        } else {
            send_disabled(*writer, "changing global properties", "--props");
        }
    } else if (is_later_route(path)) {
        send_error(*writer, 501,
                   fmt::format("{} is not yet available in this version of Foresay", path.substr(0, 128)));
    } else {
        send_not_found(*writer);
    }
}

void Router::embed(const Request& request, const Writer& writer, bool is_openai) {
    if (!app_->engine->options().embeddings) {
        send_disabled(*writer, "embeddings", "--embeddings");
        return;
    }
    auto job = std::make_shared<EmbeddingJob>(app_, writer, is_openai);
    workers_->push([job, request, writer] {
        try {
            job->submit(request->body);
        } catch (const std::exception& e) {
            log::error("internal error in a request: {}", e.what());
            writer->post([writer] { send_error(*writer, 500, "internal error"); });
        }
    });
}

void Router::complete(const Request& request, const Writer& writer, CompletionJob::Parse parse) {
    auto job = std::make_shared<CompletionJob>(app_, writer);
    job->attach();
    workers_->push([job, request, writer, parse] {
        try {
            job->submit(request->body, parse);
        } catch (const std::bad_alloc&) {
            writer->post([writer] { send_error(*writer, 500, "out of memory while reading the request"); });
        } catch (const std::exception& e) {
            log::error("internal error in a request: {}", e.what());
            writer->post([writer] { send_error(*writer, 500, "internal error"); });
        }
    });
}

void Router::answer_by_worker(const Request& request, const Writer& writer,
                              http::HttpReply (*answer)(const App& app, const std::string& body)) {
    workers_->push([app = app_, request, writer, answer] {
        http::HttpReply reply;
        try {
            reply = answer(*app, request->body);
        } catch (const std::exception& e) {
            log::error("internal error in a request: {}", e.what());
            reply = error_reply(make_api_error(500, "internal error"));
        }
        writer->post([writer, reply = std::move(reply)]() mutable { writer->send(std::move(reply)); });
    });
}

}  // namespace foresay::server
