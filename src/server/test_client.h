// A small HTTP client over raw sockets, and a fixture with a server on a free port. Only tests include it.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "server/fake_engine.h"
#include "server/server.h"

namespace foresay::server {

struct Reply {
    int status = 0;  ///< 0: the connection ended without one
    std::string head;
    std::string body;

    nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }

    /// Value of a header, lower-case name; empty when absent.
    std::string header(const std::string& name) const {
        std::string lower = head;
        std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
        const size_t at = lower.find("\r\n" + name + ": ");
        if (at == std::string::npos) {
            return {};
        }
        const size_t begin = at + name.size() + 4;
        return head.substr(begin, head.find("\r\n", begin) - begin);
    }
};

class TestClient {
  public:
    explicit TestClient(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const timeval limit{20, 0};  // a test that hangs must fail, not stall
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        is_connected = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    }

    ~TestClient() { close(); }

    TestClient(const TestClient&) = delete;
    TestClient& operator=(const TestClient&) = delete;

    void close() {
        if (fd_ >= 0) {
            ::close(fd_);
            fd_ = -1;
        }
    }

    /// Ends the connection with RST instead of FIN.
    void reset() {
        const linger hard{1, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
        close();
    }

    bool send(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (n <= 0) {
                return false;
            }
            bytes.remove_prefix(static_cast<size_t>(n));
        }
        return true;
    }

    /// Reads until the text has come (and keeps it), or the connection ends.
    bool read_until(std::string_view text) {
        while (buffer_.find(text) == std::string::npos) {
            if (!read_more()) {
                return false;
            }
        }
        return true;
    }

    std::string read_to_end() {
        while (read_more()) {
        }
        return std::exchange(buffer_, {});
    }

    Reply read_reply(bool head_only = false) {
        Reply reply;
        if (!read_until("\r\n\r\n")) {
            return reply;
        }
        const size_t end = buffer_.find("\r\n\r\n") + 4;
        reply.head = buffer_.substr(0, end);
        buffer_.erase(0, end);
        reply.status = std::stoi(reply.head.substr(9, 3));
        if (head_only) {
            return reply;
        }
        if (!reply.header("content-length").empty()) {
            const size_t size = std::stoul(reply.header("content-length"));
            while (buffer_.size() < size && read_more()) {
            }
            reply.body = buffer_.substr(0, size);
            buffer_.erase(0, reply.body.size());
        } else if (reply.header("transfer-encoding") == "chunked") {
            read_chunks(&reply.body);
        } else {
            reply.body = read_to_end();
        }
        return reply;
    }

    bool is_connected = false;

  private:
    bool read_more() {
        char bytes[8192];
        const ssize_t n = ::recv(fd_, bytes, sizeof(bytes), 0);
        if (n > 0) {
            buffer_.append(bytes, static_cast<size_t>(n));
        }
        return n > 0;
    }

    void read_chunks(std::string* body) {
        for (;;) {
            while (buffer_.find("\r\n") == std::string::npos) {
                if (!read_more()) {
                    return;
                }
            }
            const size_t line = buffer_.find("\r\n");
            const size_t size = std::stoul(buffer_.substr(0, line), nullptr, 16);
            while (buffer_.size() < line + 2 + size + 2) {
                if (!read_more()) {
                    return;
                }
            }
            body->append(buffer_, line + 2, size);
            buffer_.erase(0, line + 2 + size + 2);
            if (size == 0) {
                return;
            }
        }
    }

    int fd_;
    std::string buffer_;
};

inline std::string request_text(const std::string& method, const std::string& path, const std::string& body = {},
                                const std::string& headers = {}) {
    return method + " " + path + " HTTP/1.1\r\nHost: test\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// The JSON values of a stream's events; checks the framing of each.
inline std::vector<nlohmann::json> events_of(std::string_view stream) {
    std::vector<nlohmann::json> events;
    while (!stream.empty()) {
        const size_t end = stream.find("\n\n");
        EXPECT_NE(end, std::string_view::npos) << stream;
        if (end == std::string_view::npos) {
            break;
        }
        const std::string_view event = stream.substr(0, end);
        stream.remove_prefix(end + 2);
        if (event == ":") {
            continue;
        }
        EXPECT_TRUE(event.starts_with("data: ")) << event;
        EXPECT_EQ(event.find('\n'), std::string_view::npos) << event;
        events.push_back(nlohmann::json::parse(event.substr(6), nullptr, false));
        EXPECT_FALSE(events.back().is_discarded()) << event;
    }
    return events;
}

class ServerFixture : public ::testing::Test {
  protected:
    static constexpr const char* kKnownText =
        "Gr\xC3\xBC\xC3\x9F"
        "e, \xE4\xB8\x96!\n";  // two- and three-byte characters

    void SetUp() override {
        log::Options quiet;
        quiet.level = log::Level::kOff;
        log::configure(quiet);
        options.port = 0;
        script_for = [](const engine::Request&) { return script_of(kKnownText); };
    }

    /// Starts the server with `options`; ready: with the engine.
    void start(bool ready = true) {
        auto created = Server::create(options);
        ASSERT_TRUE(created.has_value()) << created.error().to_string();
        server = std::move(*created);
        engine = std::make_shared<FakeEngine>([this](const engine::Request& request) { return script_for(request); });
        if (ready) {
            server->set_engine(engine);
        }
    }

    Reply request(const std::string& method, const std::string& path, const std::string& body = {},
                  const std::string& headers = {}) const {
        TestClient client(server->port());
        client.send(request_text(method, path, body, headers));
        return client.read_reply(method == "HEAD");
    }

    Reply get(const std::string& path) const { return request("GET", path); }

    Reply post(const std::string& path, const std::string& body) const { return request("POST", path, body); }

    void expect_known_answer() const {
        const Reply reply = post("/completion", R"({"prompt":"Hi"})");
        ASSERT_EQ(reply.status, 200) << reply.body;
        EXPECT_EQ(reply.json()["content"], kKnownText);
        EXPECT_EQ(get("/health").body, R"({"status":"ok"})");
    }

    ServerOptions options;
    FakeEngine::ScriptFor script_for;
    std::shared_ptr<FakeEngine> engine;
    std::unique_ptr<Server> server;
};

}  // namespace foresay::server
