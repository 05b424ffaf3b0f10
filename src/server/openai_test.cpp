// POST /v1/completions as OpenAI's clients see it, and n choices on every completion route.
#include <string>
#include <vector>

#include "server/test_client.h"

namespace foresay::server {
namespace {

using OpenAiTest = ServerFixture;

Script drafted(std::string_view text) {
    Script script = script_of(text);
    script.result.stop_type = engine::StopType::kEos;
    script.result.timings.cache_n = 1;
    script.result.timings.draft_n = 5;
    script.result.timings.draft_n_accepted = 3;
    return script;
}

/// The events of an OpenAI stream: JSON chunks, then the sentinel.
std::vector<nlohmann::json> chunks_of(std::string body) {
    const std::string done = "data: [DONE]\n\n";
    EXPECT_TRUE(body.ends_with(done)) << body;
    body.resize(body.size() - std::min(done.size(), body.size()));
    return events_of(body);
}

TEST_F(OpenAiTest, TextReplyHasItsKeysAndUsage) {
    script_for = [](const engine::Request&) { return drafted("ab"); };
    start();
    const Reply reply = post("/v1/completions", R"({"prompt":"Hi","model":"gpt","max_tokens":2})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    const auto j = reply.json();
    EXPECT_EQ(j["object"], "text_completion");
    EXPECT_EQ(j["model"], "fake");
    EXPECT_TRUE(j["id"].get<std::string>().starts_with("chatcmpl-"));
    EXPECT_EQ(j["id"].get<std::string>().size(), 9U + 32U);
    EXPECT_TRUE(j["system_fingerprint"].get<std::string>().starts_with("b"));
    EXPECT_GT(j["created"], 1700000000);
    ASSERT_EQ(j["choices"].size(), 1U);
    EXPECT_EQ(j["choices"][0]["text"], "ab");
    EXPECT_EQ(j["choices"][0]["finish_reason"], "stop");
    EXPECT_TRUE(j["choices"][0]["logprobs"].is_null());
    EXPECT_EQ(j["usage"]["prompt_tokens"], 3);
    EXPECT_EQ(j["usage"]["completion_tokens"], 2);
    EXPECT_EQ(j["usage"]["total_tokens"], 5);
    EXPECT_EQ(j["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
    EXPECT_EQ(j["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 3);
    EXPECT_EQ(j["usage"]["completion_tokens_details"]["rejected_prediction_tokens"], 2);
    EXPECT_EQ(j["timings"]["draft_n"], 5);
    EXPECT_FALSE(j.contains("__verbose"));
    EXPECT_EQ(post("/v1/completions", R"({"prompt":"Hi","verbose":true})").json()["__verbose"]["content"], "ab");
    EXPECT_EQ(post("/v1/completions", R"({"prompt":"a","echo":false,"best_of":1,"suffix":null})").status, 200);
}

TEST_F(OpenAiTest, LimitsFinishWithLength) {
    start();
    EXPECT_EQ(post("/v1/completions", R"({"prompt":"Hi"})").json()["choices"][0]["finish_reason"], "length");
}

TEST_F(OpenAiTest, TextStreamEndsWithFinishUsageAndSentinel) {
    script_for = [](const engine::Request&) { return drafted(kKnownText); };
    start();
    const Reply reply = post("/v1/completions", R"({"prompt":"Hi","stream":true})");
    EXPECT_EQ(reply.header("content-type"), "text/event-stream");
    const auto chunks = chunks_of(reply.body);
    std::string text;
    for (const auto& chunk : chunks) {
        EXPECT_EQ(chunk["id"], chunks[0]["id"]);
        EXPECT_EQ(chunk["created"], chunks[0]["created"]);
        EXPECT_EQ(chunk["object"], "text_completion");
        text += chunk["choices"][0]["text"].get<std::string>();
    }
    EXPECT_EQ(text, kKnownText);
    EXPECT_TRUE(chunks.front()["choices"][0]["finish_reason"].is_null());
    EXPECT_EQ(chunks.back()["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(chunks.back()["usage"]["prompt_tokens"], 3);
    EXPECT_TRUE(chunks.back().contains("timings"));

    const auto more = chunks_of(
        post("/v1/completions", R"({"prompt":"Hi","stream":true,"stream_options":{"include_usage":true}})").body);
    EXPECT_EQ(more.size(), chunks.size() + 1);
    EXPECT_EQ(more.back()["choices"].size(), 0U);
    EXPECT_EQ(more.back()["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 3);
}

TEST_F(OpenAiTest, LogprobsComeInBothForms) {
    script_for = [](const engine::Request& request) {
        Script script = script_of("ab");
        for (auto& event : script.events) {
            event.chosen = {event.id, -0.5F};
            event.top.assign(static_cast<size_t>(request.n_probs), {event.id, -0.5F});
        }
        return script;
    };
    start();
    const auto logprobs = post("/v1/completions", R"({"prompt":"Hi","logprobs":1})").json()["choices"][0]["logprobs"];
    ASSERT_EQ(logprobs["content"].size(), 2U);
    EXPECT_EQ(logprobs["content"][1]["token"], "b");
    EXPECT_EQ(logprobs["content"][1]["logprob"], -0.5);
    EXPECT_EQ(logprobs["tokens"], (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(logprobs["token_logprobs"][0], -0.5);
    EXPECT_EQ(logprobs["top_logprobs"][0]["a"], -0.5);
    EXPECT_EQ(logprobs["text_offset"], (std::vector<int>{0, 1}));
}

TEST_F(OpenAiTest, ChoicesHaveTheirOwnSeedsAndOnePrompt) {
    script_for = [](const engine::Request& request) {
        return script_of("s" + std::to_string(request.sampling.seed % 10));
    };
    start();
    const auto j = post("/v1/completions", R"({"prompt":["A","BC"],"n":2,"seed":5})").json();
    ASSERT_EQ(j["choices"].size(), 4U);
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(j["choices"][i]["index"], i);
        EXPECT_EQ(j["choices"][i]["text"], i % 2 == 0 ? "s5" : "s6");
    }
    EXPECT_EQ(j["usage"]["prompt_tokens"], 2 + 3) << "a prompt counts once";
    EXPECT_EQ(j["usage"]["completion_tokens"], 8);
    const auto requests = engine->requests();
    ASSERT_EQ(requests.size(), 4U);
    EXPECT_NE(requests[0].prompt_group, 0U);
    EXPECT_EQ(requests[0].prompt_group, requests[1].prompt_group);
    EXPECT_NE(requests[1].prompt_group, requests[2].prompt_group);
    EXPECT_EQ(post("/completion", R"({"prompt":"A","n":2})").json().size(), 2U);
    EXPECT_EQ(engine->requests().back().sampling.seed, 4294967295U) << "random stays random for each choice";
}

TEST_F(OpenAiTest, AnErrorInAStreamEndsItWithoutSentinel) {
    script_for = [](const engine::Request&) {
        Script script = script_of("ab");
        script.error = "broken";
        return script;
    };
    start();
    const Reply reply = post("/v1/completions", R"({"prompt":"Hi","stream":true})");
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(reply.body.find("\"error\""), std::string::npos);
    EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
}

}  // namespace
}  // namespace foresay::server
