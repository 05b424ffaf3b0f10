// Life cycle, routes, authentication, CORS, and what the server says about itself.
#include <algorithm>
#include <csignal>
#include <sstream>
#include <string>
#include <vector>

#include "server/test_client.h"

namespace foresay::server {
namespace {

using ServerTest = ServerFixture;

TEST_F(ServerTest, AnswersLoadingUntilTheEngineIsThere) {
    start(false);
    for (const char* path : {"/health", "/v1/health", "/props", "/nothing"}) {
        const Reply reply = get(path);
        EXPECT_EQ(reply.status, 503) << path;
        EXPECT_EQ(reply.json()["error"]["message"], "Loading model");
        EXPECT_EQ(reply.json()["error"]["type"], "unavailable_error");
    }
    EXPECT_EQ(request("OPTIONS", "/nothing").status, 200);
    server->set_engine(engine);
    const Reply ready = get("/health");
    EXPECT_EQ(ready.status, 200);
    EXPECT_EQ(ready.body, R"({"status":"ok"})");
    EXPECT_EQ(ready.header("content-type"), "application/json; charset=utf-8");
    EXPECT_EQ(get("/v1/health").status, 200);
}

TEST_F(ServerTest, ATakenPortIsAnError) {
    start();
    ServerOptions second = options;
    second.port = server->port();
    const auto result = Server::create(second);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().message,
              "couldn't bind HTTP server socket, hostname: 127.0.0.1, port: " + std::to_string(second.port));
}

TEST_F(ServerTest, BadAddressesAreErrors) {
    for (const int port : {-1, 65536, 99999}) {
        options.port = port;
        EXPECT_FALSE(Server::create(options).has_value()) << port;
    }
    options.port = 0;
    options.host = "127.0.0.1,127.0.0.2";
    EXPECT_FALSE(Server::create(options).has_value());
    options.host = "";
    EXPECT_FALSE(Server::create(options).has_value());
    options.host = "no.such.host.invalid";
    EXPECT_FALSE(Server::create(options).has_value());
}

TEST_F(ServerTest, WrongMethodsAndUnknownPathsAre404) {
    start();
    EXPECT_EQ(get("/completion").status, 404);
    EXPECT_EQ(get("/nothing").status, 404);
    EXPECT_EQ(get("/api/tags").status, 404);
    EXPECT_EQ(request("DELETE", "/health").status, 404);
    EXPECT_EQ(request("PUT", "/completion", "{}").status, 404);
    EXPECT_EQ(post("/slots", "{}").status, 404);
    EXPECT_EQ(get("/%2e%2e/etc/passwd").status, 404);
    EXPECT_EQ(get("/nothing").json()["error"]["message"], "File Not Found");
}

TEST_F(ServerTest, DisabledEndpointsNameTheirFlag) {
    options.metrics = false;
    options.slots = false;
    start();
    EXPECT_EQ(get("/metrics").status, 501);
    EXPECT_EQ(get("/metrics").json()["error"]["message"],
              "This server does not support metrics endpoint. Start it with `--metrics`");
    EXPECT_EQ(get("/slots").status, 501);
}

TEST_F(ServerTest, MetricsTellDraftersRulesAndPositions) {
    start();
    const std::string text = get("/metrics").body;
    for (const char* line :
         {"llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position=\"0\"} 3",
          "llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position=\"1\"} 2",
          "foresay:drafts_total{drafter=\"draft-simple\",rule=\"strict\"} 2",
          "foresay:draft_tokens_total{drafter=\"draft-simple\",rule=\"strict\"} 8",
          "foresay:draft_accepted_tokens_total{drafter=\"draft-simple\",rule=\"relaxed\"} 4",
          "foresay:draft_relaxed_total{drafter=\"draft-simple\",rule=\"relaxed\"} 3", "foresay:sched_growths_total 3",
          "foresay:slots 2", "llamacpp:prompt_tokens_cached_total 0"}) {
        EXPECT_NE(text.find(std::string(line) + "\n"), std::string::npos) << line;
    }
}

TEST_F(ServerTest, SlotActionsAnswerWithTheirCounts) {
    options.slot_save_path = "/saves";
    start();
    const auto saved = post("/slots/1?action=save", R"({"filename":"x.bin"})").json();
    EXPECT_EQ(saved["id_slot"], 1);
    EXPECT_EQ(saved["filename"], "x.bin");
    EXPECT_EQ(saved["n_saved"], 7);
    EXPECT_EQ(saved["n_written"], 100);
    EXPECT_EQ(saved["timings"]["save_ms"], 0.5);
    EXPECT_EQ(engine->slot_paths_.back(), "/saves/x.bin");
    const auto restored = post("/slots/0?action=restore", R"({"filename":"x.bin"})").json();
    EXPECT_EQ(restored["n_restored"], 7);
    EXPECT_EQ(restored["n_read"], 100);
    EXPECT_EQ(post("/slots/0?action=erase", "").json()["n_erased"], 7);
    const Reply missing = post("/slots/0?action=restore", R"({"filename":"missing"})");
    EXPECT_EQ(missing.status, 400);
    EXPECT_NE(missing.body.find("Unable to restore slot"), std::string::npos);
}

TEST_F(ServerTest, SlotFilesStayInTheirFolder) {
    options.slot_save_path = "/saves";
    start();
    const std::vector<std::string> names = {
        "",   ".",  "..",   "../x",      "a/b",   "/etc/passwd",        "a\\\\b", " x", "x ",
        "x.", ".x", "a..b", "a\\u0000b", "a\\nb", std::string(256, 'x')};
    for (const std::string& name : names) {
        const Reply reply = post("/slots/0?action=save", R"({"filename":")" + name + R"("})");
        EXPECT_EQ(reply.status, 400) << name;
        EXPECT_EQ(reply.json()["error"]["message"], "Invalid filename") << name;
    }
    EXPECT_TRUE(engine->slot_paths_.empty());
    for (const char* path : {"/slots/2?action=erase", "/slots/-1?action=erase", "/slots/x?action=erase",
                             "/slots/?action=erase", "/slots/0x?action=erase", "/slots/99999999999?action=erase"}) {
        EXPECT_EQ(post(path, "{}").json()["error"]["message"], "Invalid slot ID") << path;
    }
    EXPECT_EQ(post("/slots/0", "{}").json()["error"]["message"], "Invalid action");
    EXPECT_EQ(post("/slots/0?action=copy", "{}").json()["error"]["message"], "Invalid action");
    EXPECT_EQ(post("/slots/0?action=save", "{}").json()["error"]["message"], "key 'filename' not found");
    EXPECT_EQ(post("/slots/0?action=save", R"({"filename":5})").status, 400);
    EXPECT_EQ(post("/slots/0?action=save", "nonsense").status, 400);
}

TEST_F(ServerTest, KeysAreAsked) {
    options.api_keys = {"first", "second"};
    start();
    EXPECT_EQ(get("/health").status, 200);
    EXPECT_EQ(get("/v1/health").status, 200);
    EXPECT_EQ(get("/props").status, 401);
    EXPECT_EQ(get("/props").json()["error"]["type"], "authentication_error");
    EXPECT_EQ(get("/props").json()["error"]["message"], "Invalid API Key");
    EXPECT_EQ(get("/nothing").status, 401);
    for (const char* header : {"Authorization: Bearer first\r\n", "Authorization: second\r\n", "X-Api-Key: first\r\n",
                               "x-api-key: Bearer second\r\n"}) {
        EXPECT_EQ(request("GET", "/props", "", header).status, 200) << header;
        EXPECT_EQ(request("GET", "/nothing", "", header).status, 404) << header;
    }
    for (const char* header : {"Authorization: Bearer firs\r\n", "Authorization: Bearer firstfirst\r\n",
                               "X-Api-Key: \r\n", "Authorization: Bearer wrong\r\nX-Api-Key: first\r\n"}) {
        EXPECT_EQ(request("GET", "/props", "", header).status, 401) << header;
    }
    EXPECT_EQ(request("OPTIONS", "/props").status, 200);
}

TEST_F(ServerTest, CorsIsOffUnlessAsked) {
    start();
    EXPECT_EQ(request("GET", "/health", "", "Origin: http://evil.example\r\n").header("access-control-allow-origin"),
              "");
}

TEST_F(ServerTest, CorsLocalhostEchoesOnlyLoopback) {
    options.cors_origins = "localhost";
    start();
    for (const char* origin :
         {"http://localhost", "https://localhost:8080", "http://127.0.0.1:3000", "http://[::1]:1"}) {
        EXPECT_EQ(request("GET", "/health", "", std::string("Origin: ") + origin + "\r\n")
                      .header("access-control-allow-origin"),
                  origin);
    }
    for (const char* origin :
         {"http://notlocalhost", "http://localhost.evil.com", "http://localhost:", "http://localhost:80a", "null"}) {
        EXPECT_EQ(request("GET", "/health", "", std::string("Origin: ") + origin + "\r\n")
                      .header("access-control-allow-origin"),
                  "")
            << origin;
    }
}

TEST_F(ServerTest, CorsStarEchoesTheOrigin) {
    options.cors_origins = "*";
    start();
    const Reply reply = request("OPTIONS", "/any", "", "Origin: http://a.example\r\n");
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.header("access-control-allow-origin"), "http://a.example");
    EXPECT_EQ(reply.header("access-control-allow-credentials"), "true");
    EXPECT_EQ(reply.header("access-control-allow-methods"), "GET, POST, DELETE, OPTIONS");
    EXPECT_EQ(reply.header("access-control-allow-headers"), "*");
}

TEST_F(ServerTest, ApiPrefixGoesInFront) {
    options.api_prefix = "/llm";
    start();
    EXPECT_EQ(get("/llm/health").status, 200);
    EXPECT_EQ(get("/health").status, 404);
}

TEST_F(ServerTest, PropsShape) {
    options.n_predict = 77;
    start();
    const auto j = get("/props").json();
    EXPECT_EQ(j["total_slots"], 2);
    EXPECT_EQ(j["model_path"], "/models/fake.gguf");
    EXPECT_EQ(j["default_generation_settings"]["n_ctx"], 64);
    EXPECT_EQ(j["default_generation_settings"]["params"]["n_predict"], 77);
    EXPECT_EQ(j["default_generation_settings"]["params"]["speculative.types"], "draft-simple");
    EXPECT_FALSE(j["default_generation_settings"]["params"].contains("stop"));
    EXPECT_EQ(j["bos_token"], "<s>");
    EXPECT_EQ(j["eos_token"], "</s>");
    EXPECT_EQ(j["speculative"]["active"], true);
    EXPECT_EQ(j["speculative"]["n_max"], 8);
    for (const char* key : {"model_alias", "modalities", "endpoint_slots", "endpoint_props", "endpoint_metrics",
                            "chat_template", "chat_template_caps", "build_info", "is_sleeping"}) {
        EXPECT_TRUE(j.contains(key)) << key;
    }
}

TEST_F(ServerTest, ModelsShape) {
    start();
    for (const char* path : {"/models", "/v1/models"}) {
        const auto j = get(path).json();
        EXPECT_EQ(j["object"], "list");
        ASSERT_EQ(j["data"].size(), 1U);
        EXPECT_EQ(j["data"][0]["id"], "fake");
        EXPECT_EQ(j["data"][0]["meta"]["n_vocab"], 260);
        EXPECT_EQ(j["models"][0]["details"]["format"], "gguf");
    }
}

TEST_F(ServerTest, SlotsShape) {
    script_for = [](const engine::Request&) {
        Script script = script_of("abc");
        script.hold_at = 1;
        return script;
    };
    start();
    auto j = get("/slots").json();
    ASSERT_EQ(j.size(), 2U);
    EXPECT_EQ(j[0]["n_ctx"], 64);
    EXPECT_FALSE(j[0].contains("params"));
    EXPECT_EQ(get("/slots?fail_on_no_slot=1").status, 200);
    TestClient client(server->port());
    client.send(request_text("POST", "/completion", R"({"prompt":["a","b"],"temperature":0.5})"));
    ASSERT_TRUE(engine->wait_for_held(2));
    j = get("/slots").json();
    EXPECT_EQ(j[0]["is_processing"], true);
    EXPECT_EQ(j[0]["params"]["n_predict"], -1);
    EXPECT_TRUE(j[0]["next_token"][0].contains("n_decoded"));
    const Reply busy = get("/slots?fail_on_no_slot=1");
    EXPECT_EQ(busy.status, 503);
    EXPECT_EQ(busy.json()["error"]["message"], "no slot available");
    engine->release();
    EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(ServerTest, MetricsAreWellFormed) {
    start();
    expect_known_answer();
    const Reply reply = get("/metrics");
    EXPECT_EQ(reply.header("content-type"), "text/plain; version=0.0.4");
    EXPECT_FALSE(reply.header("process-start-time-unix").empty());
    std::istringstream lines(reply.body);
    std::vector<std::string> names;
    std::string help;
    std::string type;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# HELP ")) {
            help = line.substr(7, line.find(' ', 7) - 7);
        } else if (line.starts_with("# TYPE ")) {
            type = line.substr(7, line.find(' ', 7) - 7);
        } else {
            const size_t space = line.rfind(' ');
            names.push_back(line.substr(0, std::min(line.find('{'), space)));
            EXPECT_EQ(names.back(), help);
            EXPECT_EQ(names.back(), type);
            size_t used = 0;
            EXPECT_GE(std::stod(line.substr(space + 1), &used), 0.0) << line;
            EXPECT_EQ(used, line.size() - space - 1) << line;
        }
    }
    for (const char* name :
         {"llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total", "llamacpp:prompt_seconds_total",
          "llamacpp:tokens_predicted_total", "llamacpp:tokens_predicted_seconds_total", "llamacpp:n_decode_total",
          "llamacpp:n_tokens_max", "llamacpp:spec_decode_num_drafts_total",
          "llamacpp:spec_decode_num_draft_tokens_total", "llamacpp:spec_decode_num_accepted_tokens_total",
          "llamacpp:prompt_tokens_seconds", "llamacpp:predicted_tokens_seconds", "llamacpp:requests_processing",
          "llamacpp:requests_deferred", "llamacpp:n_busy_slots_per_decode", "foresay:draft_relaxed_tokens_total",
          "foresay:sched_hash_capacity", "foresay:sched_growths_total", "foresay:sched_plan_hits_total"}) {
        EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
    }
    EXPECT_NE(reply.body.find("\nllamacpp:tokens_predicted_total 7\n"), std::string::npos);
    EXPECT_EQ(get("/metrics").body.find("nan"), std::string::npos);
}

TEST_F(ServerTest, TokenizeAndDetokenize) {
    start();
    EXPECT_EQ(post("/tokenize", R"({"content":"ab"})").body, R"({"tokens":[97,98]})");
    EXPECT_EQ(post("/tokenize", R"({"content":"a","add_special":true})").body, R"({"tokens":[256,97]})");
    EXPECT_EQ(post("/tokenize", R"({"content":"<s>"})").body, R"({"tokens":[256]})");
    EXPECT_EQ(post("/tokenize", R"({"content":"<s>","parse_special":false})").body, R"({"tokens":[60,115,62]})");
    EXPECT_EQ(post("/tokenize", R"({"content":["a",98]})").body, R"({"tokens":[97,98]})");
    EXPECT_EQ(post("/tokenize", "{}").body, R"({"tokens":[]})");
    EXPECT_EQ(post("/tokenize", R"({"content":"a\u00fc","with_pieces":true})").body,
              R"({"tokens":[{"id":97,"piece":"a"},{"id":195,"piece":[195]},{"id":188,"piece":[188]}]})");
    EXPECT_EQ(post("/detokenize", R"({"tokens":[256,97,98]})").body, R"({"content":"<s>ab"})");
    EXPECT_EQ(post("/detokenize", "{}").body, R"({"content":""})");
}

TEST_F(ServerTest, ASignalEndsItWithCode0) {
    start();
    // SIGTERM is ignored until run_until_signal() has its handler; the thread below waits for that.
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGTERM, &ignore, nullptr);
    std::thread sender([] {
        struct sigaction current = {};
        do {
            ::sigaction(SIGTERM, nullptr, &current);
            std::this_thread::yield();
        } while (current.sa_handler == SIG_IGN);
        ::kill(::getpid(), SIGTERM);
    });
    EXPECT_EQ(server->run_until_signal(), 0);
    sender.join();
}

}  // namespace
}  // namespace foresay::server
