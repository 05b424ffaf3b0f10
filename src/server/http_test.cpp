// The HTTP layer against rude clients: sizes, deadlines, pipelining, garbage, caps. Over real loopback sockets.
#include <string>
#include <thread>
#include <vector>

#include "server/test_client.h"

namespace foresay::server {
namespace {

using HttpTest = ServerFixture;

TEST_F(HttpTest, PipelinedRequestsAreAnsweredInOrder) {
    start();
    TestClient client(server->port());
    client.send(request_text("GET", "/health") + request_text("POST", "/completion", R"({"prompt":"Hi"})") +
                request_text("GET", "/slots"));
    EXPECT_EQ(client.read_reply().body, R"({"status":"ok"})");
    EXPECT_EQ(client.read_reply().json()["content"], kKnownText);
    EXPECT_TRUE(client.read_reply().json().is_array());
}

TEST_F(HttpTest, PipelinedInputDuringAStreamIsNoDisconnect) {
    script_for = [](const engine::Request&) {
        Script script = script_of("abc");
        script.hold_at = 1;
        return script;
    };
    start();
    TestClient client(server->port());
    client.send(request_text("POST", "/completion", R"({"prompt":"Hi","stream":true})"));
    ASSERT_TRUE(client.read_until("\"content\":\"a\""));
    client.send(request_text("GET", "/health"));
    engine->release();
    EXPECT_EQ(client.read_reply().status, 200);
    EXPECT_EQ(client.read_reply().body, R"({"status":"ok"})");
    EXPECT_EQ(engine->n_cancelled(), 0);
}

TEST_F(HttpTest, OversizeBodiesAre413) {
    options.max_body_bytes = 1000;
    start();
    const Reply with_length = post("/completion", std::string(5000, ' '));
    EXPECT_EQ(with_length.status, 413);
    EXPECT_EQ(with_length.json()["error"]["code"], 413);
    TestClient client(server->port());
    client.send("POST /completion HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 50 && client.send("64\r\n" + std::string(100, ' ') + "\r\n"); ++i) {
    }
    EXPECT_EQ(client.read_reply().status, 413);
    expect_known_answer();
}

TEST_F(HttpTest, ChunkedBodiesWork) {
    start();
    TestClient client(server->port());
    client.send(
        "POST /completion HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: "
        "chunked\r\n\r\n8\r\n{\"prompt\r\n7\r\n\":\"Hi\"}\r\n0\r\n\r\n");
    EXPECT_EQ(client.read_reply().json()["content"], kKnownText);
}

TEST_F(HttpTest, EndlessHeaderIsCutOff) {
    start();
    TestClient client(server->port());
    client.send("GET /health HTTP/1.1\r\nX-Long: ");
    const std::string piece(4096, 'a');
    for (int i = 0; i < 1000 && client.send(piece); ++i) {
    }
    const Reply reply = client.read_reply();
    EXPECT_TRUE(reply.status == 431 || reply.status == 0) << reply.head;  // 0: reset before the reply was read
    expect_known_answer();
}

TEST_F(HttpTest, GarbageIsRefused) {
    start();
    for (const char* bytes :
         {"\r\n\r\n\r\n", "NONSENSE\r\n\r\n", "GET /health HTTP/9.9\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\x00\x01",
          "POST /completion HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
          "POST /completion HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          "POST /completion HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"}) {
        TestClient client(server->port());
        client.send(std::string(bytes) + "\r\n\r\n");
        const Reply reply = client.read_reply();
        EXPECT_TRUE(reply.status == 400 || reply.status == 0) << bytes << "\n" << reply.head << reply.body;
    }
    expect_known_answer();
}

TEST_F(HttpTest, SlowAndIdleClientsHoldUpNobody) {
    start();
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 32; ++i) {
        clients.push_back(std::make_unique<TestClient>(server->port()));
        clients.back()->send(i % 2 == 0 ? "GET /hea"
                                        : "POST /completion HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{");
    }
    expect_known_answer();
    for (auto& client : clients) {
        client->send("x");
    }
    expect_known_answer();
}

TEST_F(HttpTest, AHeadThatNeverEndsMeetsItsDeadline) {
    options.head_timeout_s = 1;
    start();
    TestClient client(server->port());
    client.send("GET /health HTTP/1.1\r\nX: ");
    EXPECT_EQ(client.read_to_end(), "");  // closed by the server
}

TEST_F(HttpTest, ABodyThatNeverComesMeetsItsDeadline) {
    options.timeout_s = 1;
    start();
    TestClient client(server->port());
    client.send("POST /completion HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{");
    EXPECT_EQ(client.read_to_end(), "");  // closed by the server
    expect_known_answer();
}

TEST_F(HttpTest, AConnectionWithoutRequestsIsClosed) {
    options.keep_alive_s = 1;
    start();
    TestClient client(server->port());
    client.send(request_text("GET", "/health"));
    EXPECT_EQ(client.read_reply().status, 200);
    EXPECT_EQ(client.read_to_end(), "");
    options.head_timeout_s = 1;
    start();
    EXPECT_EQ(TestClient(server->port()).read_to_end(), "");  // not one byte
}

TEST_F(HttpTest, AReaderThatStopsMeetsItsDeadline) {
    options.timeout_s = 1;
    options.max_unsent_bytes = size_t{64} << 20;  // not this limit
    script_for = [](const engine::Request&) { return script_that_fills_sockets(); };
    start();
    TestClient client(server->port());
    client.send(request_text("POST", "/completion", R"({"prompt":"L","stream":true})"));
    EXPECT_TRUE(engine->wait_for_cancelled(1));
}

TEST_F(HttpTest, HeadGetsTheHeadersOnly) {
    start();
    TestClient client(server->port());
    client.send("HEAD /health HTTP/1.1\r\nHost: t\r\n\r\nGET /health HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    const std::string all = client.read_to_end();
    EXPECT_EQ(all.find(R"({"status":"ok"})"), all.rfind(R"({"status":"ok"})"));
    EXPECT_NE(all.find("Content-Length: 15"), std::string::npos);
    EXPECT_EQ(request("HEAD", "/nothing").status, 404);
}

TEST_F(HttpTest, OldClientsWithoutKeepAliveAreServed) {
    start();
    TestClient plain(server->port());
    plain.send("GET /health HTTP/1.0\r\n\r\n");
    const std::string reply = plain.read_to_end();
    EXPECT_TRUE(reply.starts_with("HTTP/1.0 200 OK\r\n")) << reply;
    const std::string body = R"({"prompt":"Hi","stream":true})";
    TestClient streamed(server->port());
    streamed.send("POST /completion HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    const std::string stream = streamed.read_to_end();
    EXPECT_EQ(stream.find("chunked"), std::string::npos);
    EXPECT_FALSE(events_of(stream.substr(stream.find("\r\n\r\n") + 4)).empty());
}

TEST_F(HttpTest, ExpectContinueIsAnswered) {
    start();
    TestClient client(server->port());
    client.send("POST /tokenize HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n");
    EXPECT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
    EXPECT_EQ(client.read_reply(true).status, 100);
    client.send(R"({"content":"a"})");
    EXPECT_EQ(client.read_reply().body, R"({"tokens":[97]})");
}

TEST_F(HttpTest, ConnectionsAboveTheCapAreTurnedAway) {
    options.max_connections = 2;
    start();
    TestClient first(server->port());
    TestClient second(server->port());
    first.send(request_text("GET", "/health"));
    EXPECT_EQ(first.read_reply().status, 200);
    second.send(request_text("GET", "/health"));
    EXPECT_EQ(second.read_reply().status, 200);
    TestClient third(server->port());
    const Reply reply = third.read_reply();
    EXPECT_EQ(reply.status, 503);
    EXPECT_FALSE(reply.header("retry-after").empty());
}

TEST_F(HttpTest, ManyClientsComeAndGo) {
    start();
    std::vector<std::thread> threads;
    std::atomic<int> n_right{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([this, t, &n_right] {
            for (int i = 0; i < 25; ++i) {
                const bool streamed = i % 2 == 0;
                TestClient client(server->port());
                client.send(request_text("POST", "/completion",
                                         streamed ? R"({"prompt":"Hi","stream":true})" : R"({"prompt":"Hi"})"));
                if ((i + t) % 5 == 0) {
                    client.reset();
                    ++n_right;
                } else {
                    n_right += client.read_reply().body.find("\"stop\":true") != std::string::npos ? 1 : 0;
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(n_right, 100);
    EXPECT_TRUE(engine->wait_for_idle());
    expect_known_answer();
}

}  // namespace
}  // namespace foresay::server
