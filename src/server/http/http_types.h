// A request and the way to answer it, without a word of Boost: all that the routes and the API code see of HTTP.
// Must not know routes, JSON or the engine. Read next: http_server.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foresay::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
    std::string method;  ///< "GET", "POST", ... as sent
    std::string path;    ///< without the query, percent-decoded
    std::string query;   ///< after '?', as sent
    Headers headers;     ///< in the order sent
    std::string body;
    std::string remote;  ///< address of the client, for the log

    /// The first header of that name (case-insensitive); empty when absent.
    std::string_view header(std::string_view name) const;
    /// The value of a query parameter; empty when absent.
    std::string query_value(std::string_view name) const;
};

struct HttpReply {
    int status = 200;
    std::string content_type = "application/json; charset=utf-8";
    std::string body;
    Headers headers;
};

/// Answers one request: send(), or begin_stream() write()... end_stream(). Threads: I/O thread only; others go through
/// post(). Calls after the client has gone, or after the end, do nothing.
class ResponseWriter {
  public:
    virtual ~ResponseWriter() = default;

    /// Runs the function on the I/O thread, in the order of the calls. Threads: any.
    virtual void post(std::function<void()> task) = 0;
    /// The whole reply. A status of 400 or more closes the connection after it.
    virtual void send(HttpReply reply) = 0;
    /// Status 200 and headers go out now; the body follows in pieces. ping: sent after ping_s seconds of silence (0:
    /// never).
    virtual void begin_stream(HttpReply head, int ping_s, std::string ping) = 0;
    /// One piece, flushed at once. A reader that falls too far behind counts as gone.
    virtual void write(std::string piece) = 0;
    virtual void end_stream() = 0;
    /// Called once, on the I/O thread, if the client goes before the reply is complete (or has gone already). A client
    /// that has closed its sending side counts as gone: over TCP it can't be told from one that has left.
    virtual void on_gone(std::function<void()> callback) = 0;
    virtual bool is_gone() const = 0;
};

/// Called on the I/O thread; must not block. The request lives as long as someone holds it.
using Handler = std::function<void(std::shared_ptr<const HttpRequest>, std::shared_ptr<ResponseWriter>)>;

/// "%41b+" -> "Ab+" ('+' stays); malformed escapes stay as they are.
std::string percent_decode(std::string_view text);
/// The usual words of a status code; "Unknown" for others.
std::string_view status_text(int status);

}  // namespace foresay::http
