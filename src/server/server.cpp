#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "base/log.h"
#include "server/api/errors.h"
#include "server/api/routes.h"
#include "server/http/http_server.h"

namespace foresay::server {
namespace {

// Signal handlers can reach nothing but globals; these two exist for them alone.
std::atomic<int> g_signals{0};
std::atomic<int> g_wake_fd{-1};

extern "C" void on_signal(int) {
    const int saved = errno;
    if (g_signals.fetch_add(1) > 0) {
        constexpr char kMessage[] = "Received second interrupt, terminating immediately.\n";
        (void)!::write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
        ::_exit(1);
    }
    const char byte = 1;
    (void)!::write(g_wake_fd.load(), &byte, 1);
    errno = saved;
}

std::vector<std::string> split_hosts(const std::string& list) {
    std::vector<std::string> hosts;
    size_t begin = 0;
    while (begin <= list.size()) {
        const size_t end = std::min(list.find(',', begin), list.size());
        if (end > begin) {
            hosts.push_back(list.substr(begin, end - begin));
        }
        begin = end + 1;
    }
    return hosts;
}

Result<http::HttpOptions> http_options(const ServerOptions& options) {
    http::HttpOptions http;
    http.hosts = split_hosts(options.host);
    http.port = options.port;
    if (http.hosts.empty()) {
        return error(Code::kInvalidArgument, "no host to listen on", "--host");
    }
    if (options.port < 0 || options.port > 65535) {
        return error(Code::kInvalidArgument, fmt::format("port {} is outside 0..65535", options.port), "--port");
    }
    if (options.port == 0 && http.hosts.size() > 1) {
        return error(Code::kInvalidArgument, "port 0 needs a single host", "--port");
    }
    for (const std::string& host : http.hosts) {
        if (host.ends_with(".sock")) {
            return error(Code::kUnsupported, fmt::format("UNIX socket '{}': not supported yet", host), "--host");
        }
    }
    http.max_body_bytes = options.max_body_bytes;
    http.max_header_bytes = options.max_header_bytes;
    http.max_unsent_bytes = options.max_unsent_bytes;
    http.max_connections = options.max_connections;
    http.head_timeout_s = options.head_timeout_s;
    http.keep_alive_s = options.keep_alive_s;
    http.timeout_s = std::max(options.timeout_s, 1);
    http.error_body = [](int status, const std::string& message) {
        return error_body(make_api_error(status, message));
    };
    return http;
}

std::string url(const http::Endpoint& endpoint) {
    const bool is_v6 = endpoint.host.find(':') != std::string::npos;
    return is_v6 ? fmt::format("http://[{}]:{}", endpoint.host, endpoint.port)
                 : fmt::format("http://{}:{}", endpoint.host, endpoint.port);
}

class ServerImpl final : public Server {
  public:
    explicit ServerImpl(const ServerOptions& options) : options_(options), router_(std::make_shared<Router>(options)) {}

    ~ServerImpl() override { shut_down(0); }

    /// A server that anyone on the network can use should be meant that way.
    void warn_if_open() const {
        if (!options_.api_keys.empty()) {
            return;
        }
        for (const std::string& host : split_hosts(options_.host)) {
            if (host != "localhost" && host != "::1" && !host.starts_with("127.")) {
                log::warn(
                    "srv  {:>12}: {} is reachable from other machines and no --api-key is set: anyone there can use "
                    "this server",
                    "start", host);
            }
        }
        if (options_.cors_origins == "*") {
            log::warn("srv  {:>12}: any web page may use this server (--cors-origins '*') and no --api-key is set",
                      "start");
        }
    }

    Status start() {
        warn_if_open();
        FORESAY_TRY(const http::HttpOptions http, http_options(options_));
        FORESAY_TRY(http_, http::HttpServer::create(http, [router = router_](auto request, auto writer) {
                        router->handle(std::move(request), std::move(writer));
                    }));
        for (const http::Endpoint& endpoint : http_->endpoints()) {
            log::info("srv  {:>12}: bound to {}, answers 503 until the model is loaded", "start", url(endpoint));
        }
        return ok();
    }

    void set_engine(std::shared_ptr<engine::Engine> engine) override {
        engine_ = engine;
        auto app = App::make(options_, std::move(engine));
        std::promise<void> done;
        http_->post([this, &app, &done] {
            router_->set_connections([http = http_.get()] { return http->n_connections(); });
            router_->set_app(std::move(app));
            done.set_value();
        });
        done.get_future().wait();
        log::info("srv  {:>12}: model loaded", "start");
        for (const http::Endpoint& endpoint : http_->endpoints()) {
            log::info("srv  {:>12}: listening on {}", "start", url(endpoint));
        }
    }

    int port() const override { return http_->endpoints().front().port; }

    int run_until_signal() override {
        int pipe[2] = {-1, -1};
        if (::pipe(pipe) != 0) {
            log::error("cannot create a pipe for signals: {}", std::strerror(errno));
            return 1;
        }
        g_wake_fd = pipe[1];
        struct sigaction action = {};
        action.sa_handler = on_signal;
        sigemptyset(&action.sa_mask);
        action.sa_flags = SA_RESTART;
        sigaction(SIGINT, &action, nullptr);
        sigaction(SIGTERM, &action, nullptr);
        pollfd wait{pipe[0], POLLIN, 0};
        while (::poll(&wait, 1, -1) < 0 && errno == EINTR) {
        }
        log::info("srv  {:>12}: received a signal, finishing what runs (a second one ends at once)", "run");
        shut_down(options_.shutdown_grace_s);
        // The handlers and the pipe stay: a second signal may still come while the caller tears down.
        return 0;
    }

    int run(std::stop_token stop) override {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, stop, [] { return false; });
        shut_down(options_.shutdown_grace_s);
        return 0;
    }

  private:
    /// Order matters: the engine ends its tasks with what they have, then the replies are written, then nobody is left
    /// to use workers.
    void shut_down(int grace_s) {
        if (engine_) {
            engine_->shutdown();
        }
        if (http_) {
            http_->stop(grace_s);
        }
        if (router_) {
            router_->stop_workers();
        }
    }

    ServerOptions options_;
    std::shared_ptr<engine::Engine> engine_;
    std::shared_ptr<Router> router_;
    std::unique_ptr<http::HttpServer> http_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::create(const ServerOptions& options) {
    auto server = std::make_unique<ServerImpl>(options);
    FORESAY_CHECK_OK(server->start());
    return std::unique_ptr<Server>(std::move(server));
}

}  // namespace foresay::server
