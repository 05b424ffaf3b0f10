// The text of a reply's head, and what waits to be written for one request. Internal to http/; free of Boost and of
// sockets, so that its rules (states, the cap on unsent bytes, when a client counts as gone) are plain code. I/O thread
// only.
#pragma once

#include <functional>
#include <string>

#include "server/http/http_types.h"

namespace foresay::http {

/// The state of one reply. The session writes what it holds; the handler's side fills it.
class Outbox {
  public:
    enum class State { kOpen, kReply, kStream, kEnded };

    explicit Outbox(size_t max_unsent_bytes) : max_unsent_bytes_(max_unsent_bytes) {}

    bool set_reply(HttpReply reply);
    bool set_stream(HttpReply head, int ping_s, std::string ping);
    /// false when the reader is too far behind: the caller treats the client as gone.
    bool add(std::string_view piece);
    bool end();

    State state() const { return state_; }

    HttpReply& reply() { return reply_; }

    int ping_s() const { return ping_s_; }

    const std::string& ping() const { return ping_; }

    bool has_pieces() const { return !pending_.empty(); }

    /// Everything that waits; it counts as unsent until sent() is called.
    std::string take();

    void sent() { in_flight_ = 0; }

  private:
    State state_ = State::kOpen;
    HttpReply reply_;
    int ping_s_ = 0;
    std::string ping_;
    std::string pending_;
    size_t in_flight_ = 0;
    size_t max_unsent_bytes_;
};

/// The head of a reply, up to and including the empty line.
struct HeadOptions {
    std::string server_name;
    int http_minor = 1;
    bool close = false;
    bool chunked = false;  ///< else Content-Length, unless stream
    bool stream = false;
};

std::string format_head(const HttpReply& reply, const HeadOptions& options);
/// One chunk of chunked coding.
std::string format_chunk(std::string_view data);

}  // namespace foresay::http
