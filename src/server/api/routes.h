// Which request goes where, in the order: CORS, OPTIONS, readiness, key, route. Must not know sockets.
// Source: shared/spec/server-api.md, sections 2 and 3.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/api/app.h"
#include "server/api/completion_job.h"
#include "server/http/http_types.h"
#include "server/metrics.h"
#include "server/work_queue.h"

namespace foresay::server {

class Router {
  public:
    explicit Router(const ServerOptions& options);

    /// From 503 to serving. I/O thread.
    void set_app(std::shared_ptr<App> app) { app_ = std::move(app); }

    /// For /metrics.
    void set_connections(std::function<size_t()> n_connections) { n_connections_ = std::move(n_connections); }

    /// Answers, now or later. I/O thread.
    void handle(std::shared_ptr<const http::HttpRequest> request, std::shared_ptr<http::ResponseWriter> writer);

    /// Waits for the work that runs; later requests that need a worker get no answer.
    void stop_workers() { workers_ = nullptr; }

  private:
    using Writer = std::shared_ptr<http::ResponseWriter>;
    using Request = std::shared_ptr<const http::HttpRequest>;

    http::Headers cors_headers(const http::HttpRequest& request) const;
    bool has_key(const http::HttpRequest& request) const;
    void get(const std::string& path, const Request& request, const Writer& writer);
    void post(const std::string& path, const Request& request, const Writer& writer);
    void get_page(const Writer& writer) const;
    void get_slots(const Request& request, const Writer& writer);
    void embed(const Request& request, const Writer& writer, bool is_openai);
    void complete(const Request& request, const Writer& writer, CompletionJob::Parse parse);
    /// Runs on a worker: body in, reply out.
    void answer_by_worker(const Request& request, const Writer& writer,
                          http::HttpReply (*answer)(const App& app, const std::string& body));

    ServerOptions options_;
    std::shared_ptr<App> app_;
    std::function<size_t()> n_connections_;
    MetricsPage metrics_;
    std::unique_ptr<WorkQueue> workers_;
};

}  // namespace foresay::server
