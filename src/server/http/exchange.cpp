#include "server/http/exchange.h"

#include <fmt/format.h>

#include <utility>

namespace foresay::http {

bool Outbox::set_reply(HttpReply reply) {
    if (state_ != State::kOpen) {
        return false;
    }
    reply_ = std::move(reply);
    state_ = State::kReply;
    return true;
}

bool Outbox::set_stream(HttpReply head, int ping_s, std::string ping) {
    if (state_ != State::kOpen) {
        return false;
    }
    reply_ = std::move(head);
    ping_s_ = ping_s;
    ping_ = std::move(ping);
    state_ = State::kStream;
    return true;
}

bool Outbox::add(std::string_view piece) {
    if (state_ != State::kStream) {
        return true;
    }
    if (pending_.size() + in_flight_ + piece.size() > max_unsent_bytes_) {
        return false;
    }
    pending_ += piece;
    return true;
}

bool Outbox::end() {
    if (state_ != State::kStream) {
        return false;
    }
    state_ = State::kEnded;
    return true;
}

std::string Outbox::take() {
    in_flight_ = pending_.size();
    return std::exchange(pending_, {});
}

std::string format_head(const HttpReply& reply, const HeadOptions& options) {
    std::string head = fmt::format("HTTP/1.{} {} {}\r\n", options.http_minor, reply.status, status_text(reply.status));
    const auto add = [&head](std::string_view name, std::string_view value) {
        head += name;
        head += ": ";
        for (const char c : value) {
            // A value may echo what the client sent (Origin): it must not be able to start a header of its own.
            head += c == '\r' || c == '\n' ? ' ' : c;
        }
        head += "\r\n";
    };
    add("Server", options.server_name);
    if (!reply.content_type.empty()) {
        add("Content-Type", reply.content_type);
    }
    for (const auto& [name, value] : reply.headers) {
        add(name, value);
    }
    if (options.chunked) {
        add("Transfer-Encoding", "chunked");
    } else if (!options.stream) {
        add("Content-Length", fmt::format("{}", reply.body.size()));
    }
    if (options.close) {
        add("Connection", "close");
    } else if (options.http_minor == 0) {
        add("Connection", "keep-alive");
    }
    return head + "\r\n";
}

std::string format_chunk(std::string_view data) {
    return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

}  // namespace foresay::http
