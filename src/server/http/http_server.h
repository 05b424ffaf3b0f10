// The HTTP/1.1 server: sockets, deadlines, size limits, keep-alive, pipelining, chunked streams, vanished clients.
// One I/O thread. Must not know routes, JSON or the engine. http_server.cpp is the only file that sees Boost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/http/http_types.h"

namespace foresay::http {

struct HttpOptions {
    std::vector<std::string> hosts{"127.0.0.1"};
    int port = 8080;
    size_t max_body_bytes = size_t{64} << 20;
    size_t max_header_bytes = size_t{16} << 10;
    size_t max_unsent_bytes = size_t{4} << 20;
    int max_connections = 1024;
    int max_requests_per_connection = 100;
    int head_timeout_s = 30;
    int keep_alive_s = 5;
    int timeout_s = 3600;
    std::string server_name = "Foresay";
    /// Body of a reply that the HTTP layer gives by itself (400, 413, 431, 503); JSON.
    std::function<std::string(int status, const std::string& message)> error_body;
};

struct Endpoint {
    std::string host;
    int port = 0;
};

class HttpServer {
  public:
    /// Binds, listens and starts the I/O thread. Errors: io, `couldn't bind HTTP server socket, hostname: H, port: P`.
    static Result<std::unique_ptr<HttpServer>> create(const HttpOptions& options, Handler handler);
    virtual ~HttpServer() = default;  ///< stop(0)

    /// Real addresses, in the order of the options.
    virtual const std::vector<Endpoint>& endpoints() const = 0;
    /// Runs the function on the I/O thread. Threads: any.
    virtual void post(std::function<void()> task) = 0;
    /// Accepts no more and closes idle connections; replies that run may end within grace_s seconds. Returns when all
    /// is closed. Threads: any but the I/O thread.
    virtual void stop(int grace_s) = 0;
    virtual size_t n_connections() const = 0;  ///< threads: any
};

}  // namespace foresay::http
