// The HTTP server as the command line sees it: options, life cycle, exit code. Owns nothing of HTTP or JSON itself:
// http/ moves bytes, api/ turns JSON into engine requests and results into replies. Must not know kernels or models.
// Source: shared/spec/server-api.md, sections 1 to 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "sampling/sampler.h"

namespace foresay::server {

/// What the flags of `foresay serve` say about the HTTP side. Limits are high enough not to meet a normal client.
struct ServerOptions {
    std::string host = "127.0.0.1";     ///< several, comma-separated, are allowed
    int port = 8080;                    ///< 0: a free one (one host only); Server::port() tells which
    std::vector<std::string> api_keys;  ///< empty: open
    std::string api_prefix;             ///< in front of all routes: "/api"; empty: none
    int timeout_s = 3600;               ///< longest time one read or write may take
    bool metrics = true;                ///< GET /metrics
    bool page = true;                   ///< the page at /
    bool slots = true;                  ///< GET /slots
    bool props = false;                 ///< POST /props
    std::string slot_save_path;         ///< folder of slot files; empty: no slot actions
    std::string cors_origins;           ///< empty: no CORS headers; "*", "localhost" or one origin (server-api.md 3.2)
    bool cors_credentials = true;
    std::string cors_methods = "GET, POST, DELETE, OPTIONS";
    std::string cors_headers = "*";

    size_t max_body_bytes = size_t{64} << 20;    ///< above: 413
    size_t max_header_bytes = size_t{16} << 10;  ///< above: 431
    size_t max_unsent_bytes = size_t{4} << 20;   ///< a stream whose reader is so far behind is cancelled
    int max_connections = 1024;                  ///< above: 503 with Retry-After
    int max_queued = 256;                        ///< tasks waiting for a slot; above: 429 with Retry-After
    int head_timeout_s = 30;                     ///< a request's head must be complete by then
    int keep_alive_s = 5;                        ///< idle time between requests of one connection
    int shutdown_grace_s = 3;                    ///< running replies get so long after a signal
    int sse_ping_interval_s = 30;                ///< comment line after so long a silence in a stream; -1: never

    // Defaults of requests (the "srv" column of server-api.md 4.2).
    sampling::Params sampling_defaults;
    int32_t n_predict = -1;
    int32_t n_cache_reuse = 0;
    std::vector<std::string> stop;
    std::string chat_template;  ///< a built-in format's name or a template's text; empty: the model's own, else ChatML
    bool cache_prompt = true;
    bool jinja = true;  ///< false: built-in formats only, and requests can't have tools
    bool prefill_assistant = true;
    bool skip_chat_parsing = false;         ///< thoughts and calls stay in the content
    std::optional<bool> thinking;           ///< absent: the template's default
    std::string chat_template_kwargs;       ///< a JSON object; empty: none
    std::string reasoning_format = "auto";  ///< none, auto, deepseek, deepseek-legacy
    std::string reasoning_effort;           ///< empty: the template's default
    int32_t reasoning_budget = -1;          ///< most thinking tokens of a reply; -1: no limit
    std::string reasoning_budget_message;   ///< said where the budget ends thoughts
    int32_t embd_normalize = 2;             ///< of POST /embedding
};

/// The server. It binds and answers (503 `Loading model`) from create() on, and serves from set_engine() on.
///
///     FORESAY_TRY(auto server, Server::create(options));      // before the model is loaded
///     FORESAY_TRY(auto engine, engine::Engine::create(...));  // a failure here: log it, return 1
///     server->set_engine(std::move(engine));                  // logs `model loaded`, `listening on http://HOST:PORT`
///     return server->run_until_signal();                      // exit code
class Server {
  public:
    /// Opens the sockets and starts the I/O thread. Errors: invalid_argument (port outside 0..65535, several hosts with
    /// port 0), io `couldn't bind HTTP server socket, hostname: H, port: P`.
    static Result<std::unique_ptr<Server>> create(const ServerOptions& options);
    virtual ~Server() = default;  ///< stops at once if still running

    /// From 503 to serving. Once. Threads: any.
    virtual void set_engine(std::shared_ptr<engine::Engine> engine) = 0;
    /// The (first) real port. Threads: any.
    virtual int port() const = 0;
    /// Serves until SIGINT or SIGTERM, then finishes what runs and returns 0; a second signal ends the process with 1.
    /// Before this call signals have their default action (nothing is half-written while a model loads).
    virtual int run_until_signal() = 0;
    /// The same, until the token is stopped; installs no signal handlers.
    virtual int run(std::stop_token stop) = 0;
};

}  // namespace foresay::server
