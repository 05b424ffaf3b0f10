// Any bytes on a connection, against the real server over a fake engine: whatever comes, each answer is HTTP, the
// connection ends, and the next well-formed request is served. An input may hold several requests, cut anywhere.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "base/log.h"
#include "server/fake_engine.h"
#include "server/server.h"

namespace {

using foresay::server::FakeEngine;
using foresay::server::Server;
using foresay::server::ServerOptions;

std::unique_ptr<Server> make_server() {
    foresay::log::Options quiet;
    quiet.level = foresay::log::Level::kOff;
    foresay::log::configure(quiet);
    ServerOptions options;
    options.port = 0;
    options.props = true;
    options.slot_save_path = "/tmp";
    options.cors_origins = "*";
    options.max_body_bytes = 1U << 16U;
    options.head_timeout_s = 2;
    auto server = Server::create(options);
    FORESAY_ASSERT(server.has_value());
    auto engine =
        std::make_shared<FakeEngine>([](const foresay::engine::Request&) { return foresay::server::script_of("Hi"); });
    (*server)->set_engine(std::move(engine));
    return std::move(*server);
}

/// Sends the bytes, ends the sending side, and reads what comes until the server closes. Aborts when it doesn't within
/// 10 s: longer than any limit of the server that a silent client meets.
std::string exchange(int port, std::string_view bytes, bool ends) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FORESAY_ASSERT(fd >= 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    FORESAY_ASSERT(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    while (!bytes.empty()) {
        const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n <= 0) {
            break;  // refused in the middle: what it said can still be read
        }
        bytes.remove_prefix(static_cast<size_t>(n));
    }
    if (ends) {
        ::shutdown(fd, SHUT_WR);
    }
    std::string answer;
    for (;;) {
        pollfd waiting{fd, POLLIN, 0};
        const int ready = ::poll(&waiting, 1, 10'000);
        FORESAY_ASSERT(ready > 0 && "the server neither answers nor closes");
        char buffer[4096];
        const ssize_t n = ::recv(fd, buffer, sizeof(buffer), 0);
        if (n <= 0) {
            break;
        }
        answer.append(buffer, static_cast<size_t>(n));
    }
    const linger hard{1, 0};  // no TIME_WAIT: thousands of connections a second would use up the ports
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    ::close(fd);
    return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static Server* server = make_server().release();  // lives as long as the process: its threads must not end first
    static unsigned count = 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const std::string answer = exchange(server->port(), bytes, true);
    FORESAY_ASSERT(answer.empty() || std::string_view(answer).substr(0, 7) == "HTTP/1.");
    if (++count % 64 == 0) {
        const std::string health =
            exchange(server->port(), "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false);
        FORESAY_ASSERT(health.find("{\"status\":\"ok\"}") != std::string::npos);
    }
    return 0;
}
