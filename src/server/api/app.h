// What the routes share once a model is loaded: the engine, the defaults, the counters. Internal to server.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/chat.h"
#include "engine/engine.h"
#include "server/api/chat_options.h"
#include "server/api/errors.h"
#include "server/api/format_completion.h"
#include "server/api/parse_completion.h"
#include "server/server.h"

namespace foresay::server {

/// Counters that the engine doesn't keep. I/O thread only, but for the atomic.
struct Counters {
    std::atomic<int64_t> tasks_in_flight{0};  ///< given to the engine and not ended; bounds the queue
    uint64_t requests_total = 0;
    std::atomic<uint64_t> requests_refused_total{0};  ///< 429
    uint64_t requests_cancelled_total = 0;            ///< the client went away
    uint64_t prompt_tokens_cached_total = 0;
    // For the rates of /metrics, which are over the window since the last scrape.
    uint64_t prompt_tokens = 0;
    double prompt_ms = 0.0;
    uint64_t predicted_steps = 0;  ///< tokens but the first of each answer
    double predicted_ms = 0.0;
};

struct App {
    ServerOptions options;
    std::shared_ptr<engine::Engine> engine;
    ParseContext parse;
    FormatContext format;
    Counters counters;
    int64_t start_unix_s = 0;
    ChatOptions chat;
    std::shared_ptr<const chat::Templates> templates;  ///< null: the template can't be used
    std::string template_error;

    static std::shared_ptr<App> make(const ServerOptions& options, std::shared_ptr<engine::Engine> engine);
};

/// One task's place in the queue, given back when the engine lets its sink go, however the task ended.
class Ticket {
  public:
    explicit Ticket(std::shared_ptr<App> app) : app_(std::move(app)) {}

    ~Ticket() { app_->counters.tasks_in_flight.fetch_sub(1); }

    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

  private:
    std::shared_ptr<App> app_;
};

/// n places, or an empty list and *busy filled: 429 with Retry-After. A request that is alone always gets its places.
std::vector<std::shared_ptr<Ticket>> take_tickets(const std::shared_ptr<App>& app, size_t n, ApiError* busy);

}  // namespace foresay::server
