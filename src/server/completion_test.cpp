// POST /completion as a client sees it: final object, streams, several prompts, probabilities, vanished clients.
#include <limits>
#include <string>
#include <vector>

#include "server/test_client.h"

namespace foresay::server {
namespace {

using CompletionTest = ServerFixture;

std::string joined(const std::vector<nlohmann::json>& events, int index = 0) {
    std::string text;
    for (const auto& event : events) {
        if (event.value("index", 0) == index) {
            text += event.value("content", "");
        }
    }
    return text;
}

TEST_F(CompletionTest, FinalObjectHasAllKeys) {
    script_for = [](const engine::Request&) {
        Script script = script_of("ab\n");
        script.result.stop_type = engine::StopType::kWord;
        script.result.stopping_word = "END";
        script.result.has_new_line = true;
        script.result.tokens_cached = 5;
        script.result.timings.predicted_n = 3;
        script.result.timings.predicted_ms = 4.0;
        script.result.timings.draft_n = 10;
        script.result.timings.draft_n_accepted = 6;
        script.result.timings.draft_n_relaxed = 2;
        script.result.timings.relaxed_rank_sum = 3.0;
        script.result.timings.relaxed_gap_sum = 0.5;
        return script;
    };
    start();
    const Reply reply = post(
        "/completion",
        R"({"prompt":"Hi","temperature":0.8,"return_tokens":true,"speculative.n_max":4,"ignore_eos":true,"model":"x"})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.header("server"), "Foresay");
    const auto j = reply.json();
    EXPECT_EQ(j["index"], 0);
    EXPECT_EQ(j["content"], "ab\n");
    EXPECT_EQ(j["tokens"], (std::vector<int>{'a', 'b', '\n'}));
    EXPECT_EQ(j["stop"], true);
    EXPECT_EQ(j["model"], "fake");
    EXPECT_EQ(j["tokens_predicted"], 3);
    EXPECT_EQ(j["tokens_evaluated"], 3);  // <s>, H, i
    EXPECT_EQ(j["prompt"], "<s>Hi");
    EXPECT_EQ(j["has_new_line"], true);
    EXPECT_EQ(j["truncated"], false);
    EXPECT_EQ(j["stop_type"], "word");
    EXPECT_EQ(j["stopping_word"], "END");
    EXPECT_EQ(j["tokens_cached"], 5);
    EXPECT_FALSE(j.contains("completion_probabilities"));
    const auto& t = j["timings"];
    EXPECT_EQ(t["prompt_n"], 3);
    EXPECT_DOUBLE_EQ(t["predicted_per_token_ms"], 2.0);  // over n - 1
    EXPECT_DOUBLE_EQ(t["predicted_per_second"], 500.0);
    EXPECT_EQ(t["draft_n"], 10);
    EXPECT_EQ(t["draft_n_accepted"], 6);
    EXPECT_EQ(t["draft_n_relaxed"], 2);
    EXPECT_DOUBLE_EQ(t["draft_relaxed_mean_rank"], 1.5);
    EXPECT_DOUBLE_EQ(t["draft_relaxed_gap_sum"], 0.5);
    const auto& s = j["generation_settings"];
    for (const char* key : {"seed",
                            "temperature",
                            "dynatemp_range",
                            "dynatemp_exponent",
                            "top_k",
                            "top_p",
                            "min_p",
                            "top_n_sigma",
                            "xtc_probability",
                            "xtc_threshold",
                            "typical_p",
                            "repeat_last_n",
                            "repeat_penalty",
                            "presence_penalty",
                            "frequency_penalty",
                            "dry_multiplier",
                            "dry_base",
                            "dry_allowed_length",
                            "dry_penalty_last_n",
                            "dry_sequence_breakers",
                            "mirostat",
                            "mirostat_tau",
                            "mirostat_eta",
                            "adaptive_target",
                            "adaptive_decay",
                            "stop",
                            "max_tokens",
                            "n_predict",
                            "n_keep",
                            "n_discard",
                            "ignore_eos",
                            "stream",
                            "logit_bias",
                            "n_probs",
                            "min_keep",
                            "grammar",
                            "grammar_lazy",
                            "grammar_triggers",
                            "preserved_tokens",
                            "chat_format",
                            "reasoning_format",
                            "reasoning_in_content",
                            "generation_prompt",
                            "samplers",
                            "speculative.types",
                            "timings_per_token",
                            "post_sampling_probs",
                            "backend_sampling",
                            "lora"}) {
        EXPECT_TRUE(s.contains(key)) << key;
    }
    EXPECT_NEAR(s["temperature"].get<double>(), 0.8, 1e-6);
    EXPECT_EQ(s["speculative.n_max"], 4);
    EXPECT_EQ(s["speculative.types"], "draft-simple");
    EXPECT_EQ(s["logit_bias"], nlohmann::json::parse(R"([{"bias":null,"token":257}])"));
}

TEST_F(CompletionTest, OneTokenAndNoDraftsGiveZeroesNotNulls) {
    script_for = [](const engine::Request&) { return script_of("a"); };
    start();
    const auto t = post("/completion", R"({"prompt":"Hi"})").json()["timings"];
    EXPECT_EQ(t["predicted_per_second"], 0.0);
    EXPECT_FALSE(t.contains("draft_n"));
    EXPECT_FALSE(t.contains("draft_n_accepted"));
}

TEST_F(CompletionTest, StreamFramingIsExact) {
    script_for = [](const engine::Request&) { return script_of("a"); };
    start();
    TestClient client(server->port());
    client.send(request_text("POST", "/completion", R"({"prompt":"Hi","stream":true})"));
    const Reply reply = client.read_reply();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.header("content-type"), "text/event-stream");
    EXPECT_EQ(reply.header("x-accel-buffering"), "no");
    EXPECT_EQ(reply.header("transfer-encoding"), "chunked");
    const std::string first =
        "data: "
        "{\"index\":0,\"content\":\"a\",\"tokens\":[97],\"stop\":false,\"id_slot\":0,\"tokens_predicted\":1,\"tokens_"
        "evaluated\":3}\n\n";
    EXPECT_EQ(reply.body.substr(0, first.size()), first);
    EXPECT_EQ(reply.body.substr(reply.body.size() - 3), "}\n\n");
    EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
    // The connection lives on after a stream.
    client.send(request_text("GET", "/health"));
    EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(CompletionTest, StreamedTextEqualsPlainTextAndNeverCutsACharacter) {
    start();
    const auto plain = post("/completion", R"({"prompt":"Hi","return_tokens":true})").json();
    const auto events = events_of(post("/completion", R"({"prompt":"Hi","stream":true})").body);
    ASSERT_GT(events.size(), 2U);
    EXPECT_EQ(joined(events), plain["content"]);
    std::vector<int> tokens;
    for (size_t i = 0; i + 1 < events.size(); ++i) {
        EXPECT_EQ(events[i]["stop"], false);
        EXPECT_FALSE(events[i]["content"].get<std::string>().empty());
        EXPECT_FALSE(events[i]["tokens"].empty());
        for (const int id : events[i]["tokens"]) {
            tokens.push_back(id);
        }
    }
    EXPECT_EQ(tokens, plain["tokens"].get<std::vector<int>>());
    EXPECT_EQ(events.back()["stop"], true);
    EXPECT_EQ(events.back()["content"], "");
    EXPECT_EQ(events.back()["tokens"], nlohmann::json::array());
    EXPECT_EQ(events.back()["tokens_predicted"], plain["tokens_predicted"]);
}

TEST_F(CompletionTest, WithheldTextComesWithTheLastToken) {
    script_for = [](const engine::Request&) {
        Script script = script_of("abc");
        script.events[1].text = "";  // withheld: might begin a stop string
        script.events[2].text = "";
        script.result.text_tail = "bc";
        return script;
    };
    start();
    const auto events = events_of(post("/completion", R"({"prompt":"Hi","stream":true})").body);
    ASSERT_EQ(events.size(), 4U);
    EXPECT_EQ(events[1]["content"], "");
    EXPECT_EQ(events[1]["tokens"], std::vector<int>{'b'});
    EXPECT_EQ(events[2]["content"], "bc");
    EXPECT_EQ(events[2]["tokens"], std::vector<int>{'c'});
    EXPECT_EQ(post("/completion", R"({"prompt":"Hi"})").json()["content"], "abc");
}

TEST_F(CompletionTest, TextThatEndsInsideACharacterIsReplaced) {
    script_for = [](const engine::Request&) { return script_of("a\xE4\xB8"); };
    start();
    const auto plain = post("/completion", R"({"prompt":"Hi"})").json();
    EXPECT_EQ(plain["content"], "a\xEF\xBF\xBD");
    const auto events = events_of(post("/completion", R"({"prompt":"Hi","stream":true})").body);
    EXPECT_EQ(joined(events), plain["content"]);
}

TEST_F(CompletionTest, SeveralPromptsAnswerInOrder) {
    script_for = [](const engine::Request& request) {
        return script_of(std::string(1, static_cast<char>(request.prompt.back())));
    };
    start();
    const auto list = post("/completion", R"({"prompt":["x",[121],{"prompt_string":"z"},[97,"b"]]})").json();
    ASSERT_TRUE(list.is_array());
    ASSERT_EQ(list.size(), 4U);
    const std::vector<std::string> expected{"x", "y", "z", "b"};
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(list[i]["index"], i);
        EXPECT_EQ(list[i]["content"], expected[i]);
    }
    const auto events = events_of(post("/completion", R"({"prompt":["x","y"],"stream":true})").body);
    EXPECT_EQ(joined(events, 0), "x");
    EXPECT_EQ(joined(events, 1), "y");
    EXPECT_TRUE(post("/completion", R"({"prompt":[104,"i"]})").json().is_object());
}

TEST_F(CompletionTest, EmptyPromptWithoutBosIsAnEmptyAnswer) {
    start();
    engine->vocab_->bos_in_front = false;
    const auto plain = post("/completion", R"({"prompt":""})").json();
    EXPECT_EQ(plain["content"], "");
    EXPECT_EQ(plain["stop_type"], "none");
    const auto events = events_of(post("/completion", R"({"prompt":"","stream":true})").body);
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0]["stop"], true);
    EXPECT_TRUE(engine->requests().empty());
}

TEST_F(CompletionTest, ProbabilitiesKeepOneEntryPerToken) {
    script_for = [](const engine::Request& request) {
        Script script = script_of("abEND");
        for (auto& event : script.events) {
            event.chosen = {event.id, -0.5F};
            event.top.assign(static_cast<size_t>(request.n_probs), {event.id, -std::numeric_limits<float>::infinity()});
        }
        return script;
    };
    start();
    const auto list = post("/completion", R"({"prompt":"Hi","n_probs":2})").json()["completion_probabilities"];
    ASSERT_EQ(list.size(), 5U);
    EXPECT_EQ(list[0]["id"], 'a');
    EXPECT_EQ(list[0]["token"], "a");
    EXPECT_EQ(list[0]["bytes"], std::vector<int>{'a'});
    EXPECT_DOUBLE_EQ(list[0]["logprob"], -0.5);
    ASSERT_EQ(list[0]["top_logprobs"].size(), 2U);
    EXPECT_DOUBLE_EQ(list[0]["top_logprobs"][0]["logprob"], std::numeric_limits<float>::lowest());
    const auto events =
        events_of(post("/completion", R"({"prompt":"Hi","n_probs":2,"stream":true,"post_sampling_probs":true})").body);
    ASSERT_EQ(events.size(), 6U);
    ASSERT_EQ(events[0]["completion_probabilities"].size(), 1U);
    EXPECT_TRUE(events[0]["completion_probabilities"][0].contains("prob"));
    EXPECT_TRUE(events[0]["completion_probabilities"][0].contains("top_probs"));
    EXPECT_FALSE(events[5].contains("completion_probabilities"));
}

TEST_F(CompletionTest, ResponseFieldsSelect) {
    start();
    const auto j =
        post(
            "/completion",
            R"({"prompt":"Hi","n_predict":4,"response_fields":["content","generation_settings/n_predict","prompt","no/such"]})")
            .json();
    EXPECT_EQ(j, nlohmann::json::parse(
                     R"({"content":"Gr\u00fc\u00dfe, \u4e16!\n","generation_settings/n_predict":4,"prompt":"<s>Hi"})"));
}

TEST_F(CompletionTest, ProgressAndTimingsPerToken) {
    script_for = [](const engine::Request&) { return script_of("ab"); };
    start();
    const auto events = events_of(
        post("/completion", R"({"prompt":"Hi","stream":true,"return_progress":true,"timings_per_token":true})").body);
    ASSERT_EQ(events.size(), 5U);
    EXPECT_EQ(events[0]["prompt_progress"]["processed"], 0);
    EXPECT_EQ(events[0]["tokens"], nlohmann::json::array());
    EXPECT_EQ(events[1]["prompt_progress"]["processed"], events[1]["prompt_progress"]["total"]);
    EXPECT_EQ(events[2]["timings"]["predicted_n"], 1);
    EXPECT_EQ(events[3]["timings"]["predicted_n"], 2);
}

TEST_F(CompletionTest, ErrorsBeforeAndAfterTheFirstEvent) {
    bool silent = true;
    script_for = [&silent](const engine::Request&) {
        Script script = script_of(silent ? "" : "ab");
        script.error = "Compute error.";
        script.silent = silent;
        return script;
    };
    start();
    const Reply before = post("/completion", R"({"prompt":"Hi","stream":true})");
    EXPECT_EQ(before.status, 500);
    EXPECT_EQ(before.header("content-type"), "application/json; charset=utf-8");
    silent = false;
    const Reply after = post("/completion", R"({"prompt":"Hi","stream":true})");
    EXPECT_EQ(after.status, 200);
    const auto events = events_of(after.body);
    ASSERT_EQ(events.size(), 3U);
    EXPECT_EQ(events.back()["error"]["message"], "Compute error.");
}

TEST_F(CompletionTest, SilenceIsFilledWithPings) {
    script_for = [](const engine::Request&) {
        Script script = script_of("ab");
        script.hold_at = 1;
        return script;
    };
    start();
    TestClient client(server->port());
    client.send(request_text("POST", "/completion", R"({"prompt":"Hi","stream":true,"sse_ping_interval":1})"));
    EXPECT_TRUE(client.read_until("3\r\n:\n\n\r\n"));
    engine->release();
    EXPECT_TRUE(client.read_until("\"stop\":true"));
}

class VanishTest : public ServerFixture, public ::testing::WithParamInterface<std::tuple<bool, bool>> {};

TEST_P(VanishTest, AClientThatLeavesIsCancelled) {
    script_for = [](const engine::Request&) {
        Script script = script_of("abc");
        script.hold_at = 1;
        return script;
    };
    start();
    const auto [streamed, with_reset] = GetParam();
    TestClient client(server->port());
    client.send(
        request_text("POST", "/completion", streamed ? R"({"prompt":"Hi","stream":true})" : R"({"prompt":"Hi"})"));
    ASSERT_TRUE(engine->wait_for_held(1));
    if (streamed) {
        ASSERT_TRUE(client.read_until("\"content\":\"a\""));
    }
    if (with_reset) {
        client.reset();
    } else {
        client.close();
    }
    EXPECT_TRUE(engine->wait_for_cancelled(1));
    EXPECT_TRUE(engine->wait_for_idle());
    engine->release();
    EXPECT_EQ(post("/completion", R"({"prompt":"Hi"})").json()["content"], "abc");
    EXPECT_EQ(engine->n_cancelled(), 1);
}

INSTANTIATE_TEST_SUITE_P(StreamedAndPlain, VanishTest, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

TEST_F(CompletionTest, AStreamThatNobodyReadsIsCancelledAndBlocksNobody) {
    options.max_unsent_bytes = 100000;
    script_for = [](const engine::Request& request) {
        return request.prompt.back() == 'L' ? script_that_fills_sockets() : script_of("x");
    };
    start();
    TestClient client(server->port());
    client.send(request_text("POST", "/completion", R"({"prompt":"L","stream":true})"));
    EXPECT_TRUE(engine->wait_for_cancelled(1));
    EXPECT_EQ(get("/health").status, 200);
    EXPECT_EQ(post("/completion", R"({"prompt":"S"})").json()["content"], "x");
    // Its connection is closed at once, not when a write runs into its deadline (60 s).
    bool is_closed = false;
    for (int i = 0; i < 1000 && !is_closed; ++i) {
        is_closed = get("/metrics").body.find("\nforesay:http_connections 1\n") != std::string::npos;
    }
    EXPECT_TRUE(is_closed);
}

TEST_F(CompletionTest, ASignalledServerAnswersWithWhatItHas) {
    script_for = [](const engine::Request&) {
        Script script = script_of("abc");
        script.hold_at = 2;
        return script;
    };
    start();
    TestClient plain(server->port());
    TestClient streamed(server->port());
    plain.send(request_text("POST", "/completion", R"({"prompt":"Hi"})"));
    streamed.send(request_text("POST", "/completion", R"({"prompt":"Hi","stream":true})"));
    ASSERT_TRUE(engine->wait_for_held(2));
    std::stop_source stop;
    stop.request_stop();
    EXPECT_EQ(server->run(stop.get_token()), 0);
    EXPECT_EQ(plain.read_reply().json()["content"], "ab");
    const auto events = events_of(streamed.read_reply().body);
    EXPECT_EQ(joined(events), "ab");
    EXPECT_EQ(events.back()["stop"], true);
    EXPECT_FALSE(TestClient(server->port()).is_connected);
}

}  // namespace
}  // namespace foresay::server
