// Chat: the routes over a fake engine. How replies are taken apart is tested in chat/output_test.cpp.
#include <string>
#include <vector>

#include "server/test_client.h"

namespace foresay::server {
namespace {

using ChatTest = ServerFixture;

TEST_F(ChatTest, BadBodiesAreNamed) {
    options.chat_template = "{{ messages }}{{ tools }}";
    start();
    engine->info_.n_ctx_slot = 4096;
    const std::vector<std::pair<const char*, const char*>> bad = {
        {"{}", "'messages' is required"},
        {R"({"messages":5})", "Expected 'messages' to be an array"},
        {R"({"messages":["a"]})", "Expected every message to be an object"},
        {R"({"messages":[{"content":"a"}]})", "Missing 'role'"},
        {R"({"messages":[{"role":"user"}]})", "All non-assistant messages must contain 'content'"},
        {R"({"messages":[{"role":"assistant"}]})", "Assistant message must contain either 'content' or 'tool_calls'!"},
        {R"({"messages":[{"role":"user","content":5}]})", "Expected 'content' to be a string or an array"},
        {R"({"messages":[{"role":"user","content":[{"type":"film"}]}]})", "unsupported content[].type"},
        {R"({"messages":[{"role":"user","content":["a"]}]})", "unsupported content[].type"},
        {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "image input is not supported"},
        {R"({"messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}]})",
         "Cannot have 2 or more"},
        {R"({"messages":[],"add_generation_prompt":true,"continue_final_message":true})", "Cannot set both"},
        {R"({"messages":[],"add_generation_prompt":1})", "Field 'add_generation_prompt'"},
        {R"({"messages":[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"}}]}],"continue_final_message":true})",
         "contains tool calls"},
        {R"({"messages":[],"tools":5})", "Failed to parse tools"},
        {R"({"messages":[],"tools":[5]})", "Failed to parse tools"},
        {R"({"messages":[],"tool_choice":"maybe"})", "Invalid tool_choice: maybe"},
        {R"({"messages":[],"tool_choice":{"function":{"name":"f"}}})", "Invalid tool_choice: no such tool"},
        {R"({"messages":[],"tool_choice":"required"})", "\"required\" needs tools"},
        {R"({"messages":[],"tool_choice":{"type":"any"}})", "Invalid tool_choice: {"},
        {R"({"messages":[],"parallel_tool_calls":1})", "Field 'parallel_tool_calls'"},
        {R"({"messages":[],"continue_final_message":5})", "Field 'continue_final_message'"},
        {R"({"messages":[],"tools":[{"function":{"name":"f","parameters":{"type":"strin"}}}]})",
         "tool 'f': JSON schema conversion failed"},
        {R"({"messages":[],"chat_template_kwargs":5})", "Field 'chat_template_kwargs'"},
        {R"({"messages":[],"chat_template_kwargs":{"enable_thinking":"yes"}})",
         "invalid type for \"enable_thinking\" (expected boolean, got string)"},
        {R"({"messages":[],"reasoning_format":"x"})", "Field 'reasoning_format'"},
        {R"({"messages":[],"reasoning_budget_tokens":-2})", "Field 'reasoning_budget_tokens'"},
        {R"({"messages":[],"thinking_budget_tokens":18446744073709551615})", "Field 'thinking_budget_tokens'"},
        {R"({"messages":[],"reasoning_budget_tokens":1.5})", "Field 'reasoning_budget_tokens'"},
        {R"({"messages":[],"reasoning_budget_message":1})", "Field 'reasoning_budget_message'"},
        {R"({"messages":[],"response_format":{"type":"xml"}})", "response_format type must be one of"},
        {R"({"messages":[],"response_format":5})", "Field 'response_format'"},
        {R"({"messages":[],"json_schema":{},"grammar":"root ::= \"a\""})", "Cannot use both json_schema and grammar"},
        {R"({"messages":[],"grammar":"root ::= \"a\"","tools":[{"function":{"name":"f"}}]})",
         "Cannot use custom grammar constraints with tools."},
        {"[1]", "must be an object"},
        {"{", "parse error"},
    };
    for (const char* path : {"/v1/chat/completions", "/chat/completions"}) {
        for (const auto& [body, message] : bad) {
            const Reply reply = post(path, body);
            EXPECT_EQ(reply.status, 400) << body << reply.body;
            EXPECT_NE(reply.json()["error"]["message"].get<std::string>().find(message), std::string::npos)
                << body << ": " << reply.body;
            EXPECT_EQ(reply.json()["error"]["type"], "invalid_request_error") << body;
        }
    }
    std::string many = R"({"messages":[],"tools":[{"function":{"name":"f","parameters":{)";
    for (int i = 0; i < 1001; ++i) {
        many.append("\"").append(std::to_string(i)).append("\":1,");
    }
    many.back() = '}';
    EXPECT_EQ(post("/v1/chat/completions", many + "}}]}").status, 400);
    expect_known_answer();
}

TEST_F(ChatTest, WithoutJinjaThereAreBuiltInFormatsAndNoTools) {
    options.jinja = false;
    options.chat_template = "llama3";
    start();
    const std::string messages = R"({"messages":[{"role":"user","content":"x"}])";
    EXPECT_EQ(
        post("/apply-template", messages + "}").json()["prompt"],
        "<|start_header_id|>user<|end_header_id|>\n\nx<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
    EXPECT_EQ(
        post("/v1/chat/completions", messages + R"(,"tools":[{"function":{"name":"f"}}]})").json()["error"]["message"],
        "tools param requires --jinja flag");
    EXPECT_EQ(post("/v1/chat/completions", messages + R"(,"tool_choice":"auto"})").json()["error"]["message"],
              "tool_choice param requires --jinja flag");
    EXPECT_EQ(get("/props").json()["chat_template"], "llama3");
}

TEST_F(ChatTest, PartsJoinAndAPrefillIsContinued) {
    options.chat_template =
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[a]{% endif %}";
    start();
    const std::string messages =
        R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
        R"({"role":"assistant","content":"Sure"}])";
    const auto prompt = [&](const std::string& more) {
        return post("/apply-template", messages + more).json()["prompt"];
    };
    EXPECT_EQ(prompt("}"), "[user]a\nb[a]Sure");
    EXPECT_EQ(prompt(R"(,"continue_final_message":true})"), "[user]a\nb[a]Sure");
    EXPECT_EQ(prompt(R"(,"add_generation_prompt":false})"), "[user]a\nb[assistant]Sure");
}

TEST_F(ChatTest, ServersOwnChatSettingsHoldUnlessARequestSaysOtherwise) {
    options.chat_template =
        "{{ who }}{% if enable_thinking is defined %}-{{ enable_thinking }}{% endif %}"
        "{% if reasoning_effort is defined %}-{{ reasoning_effort }}{% endif %}";
    options.chat_template_kwargs = R"({"who":"s"})";
    options.reasoning_format = "none";
    options.thinking = false;
    options.reasoning_effort = "low";
    script_for = [](const engine::Request&) { return script_of("<think>hm</think>Hi"); };
    start();
    EXPECT_EQ(post("/apply-template", R"({"messages":[]})").json()["prompt"], "s-False-low");
    EXPECT_EQ(post("/apply-template", R"({"messages":[],"reasoning_effort":"none"})").json()["prompt"], "s-False");
    EXPECT_EQ(
        post("/apply-template",
             R"({"messages":[],"chat_template_kwargs":{"who":"r","enable_thinking":true},"reasoning_effort":"high"})")
            .json()["prompt"],
        "r-True-high");
    EXPECT_EQ(post("/v1/chat/completions", R"({"messages":[]})").json()["choices"][0]["message"]["content"],
              "<think>hm</think>Hi");
}

// The routes. The fake vocabulary's template is set by the test.

nlohmann::json chat(const Reply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json();
}

TEST_F(ChatTest, MessagesGoThroughTheTemplateAndTheAnswerIsSplit) {
    options.chat_template =
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[a]{% endif %}"
        "{# </think> #}";
    script_for = [](const engine::Request&) {
        Script script = script_of("<think>hm</think>Hi");
        script.result.stop_type = engine::StopType::kEos;
        return script;
    };
    start();
    const std::string body = R"({"messages":[{"role":"user","content":"x"}])";
    EXPECT_EQ(post("/apply-template", body + "}").json()["prompt"], "[user]x[a]");
    EXPECT_EQ(post("/v1/chat/completions/input_tokens", body + "}").json()["input_tokens"], 11);
    EXPECT_EQ(post("/v1/messages/count_tokens", body + "}").body, R"({"input_tokens":11})");
    const auto j = chat(post("/v1/chat/completions", body + "}"));
    EXPECT_EQ(j["object"], "chat.completion");
    EXPECT_EQ(j["choices"][0]["message"]["role"], "assistant");
    EXPECT_EQ(j["choices"][0]["message"]["content"], "Hi");
    EXPECT_EQ(j["choices"][0]["message"]["reasoning_content"], "hm");
    EXPECT_EQ(j["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(j["usage"]["prompt_tokens"], 11);
    EXPECT_EQ(engine->requests().back().prompt.size(), 11U);
    const auto raw = chat(post("/v1/chat/completions", body + R"(,"reasoning_format":"none"})"));
    EXPECT_EQ(raw["choices"][0]["message"]["content"], "<think>hm</think>Hi");
    EXPECT_EQ(post("/v1/chat/completions", body + R"(,"top_logprobs":2})").json()["error"]["message"],
              "top_logprobs requires logprobs to be set to true");
}

TEST_F(ChatTest, StreamsBeginWithTheRoleAndEndWithReasonAndUsage) {
    options.chat_template = "{{ messages[0].content }}{# </think> #}";
    script_for = [](const engine::Request&) { return script_of("<think>hm</think>Hi"); };
    start();
    std::string stream =
        post(
            "/v1/chat/completions",
            R"({"messages":[{"role":"user","content":"x"}],"stream":true,"n":2,"stream_options":{"include_usage":true}})")
            .body;
    ASSERT_TRUE(stream.ends_with("data: [DONE]\n\n"));
    stream.resize(stream.size() - 14);
    const auto events = events_of(stream);
    std::string content[2];
    std::string thoughts[2];
    int roles = 0;
    int ends = 0;
    for (const auto& event : events) {
        EXPECT_EQ(event["id"], events[0]["id"]);
        if (event["choices"].empty()) {
            continue;
        }
        const auto& choice = event["choices"][0];
        const size_t i = choice["index"];
        const auto& delta = choice["delta"];
        roles += delta.contains("role") ? 1 : 0;
        ends += choice["finish_reason"].is_null() ? 0 : 1;
        content[i] +=
            delta.contains("content") && delta["content"].is_string() ? delta["content"].get<std::string>() : "";
        thoughts[i] += delta.value("reasoning_content", "");
    }
    EXPECT_EQ(roles, 2);
    EXPECT_EQ(ends, 2);
    EXPECT_EQ(content[0], "Hi");
    EXPECT_EQ(content[1], "Hi");
    EXPECT_EQ(thoughts[0], "hm");
    EXPECT_TRUE(events.back()["choices"].empty());
    EXPECT_GT(events.back()["usage"]["completion_tokens"], 0);
}

TEST_F(ChatTest, MessagesAndResponsesSayTheSameInTheirOwnWords) {
    options.chat_template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
    script_for = [](const engine::Request&) {
        Script script = script_of("Hi");
        script.result.stop_type = engine::StopType::kEos;
        return script;
    };
    start();
    const auto m = chat(
        post("/v1/messages",
             R"({"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"max_tokens":9})"));
    EXPECT_EQ(m["type"], "message");
    EXPECT_EQ(m["content"][0]["text"], "Hi");
    EXPECT_EQ(m["stop_reason"], "end_turn");
    EXPECT_EQ(m["usage"]["output_tokens"], 2);
    EXPECT_EQ(engine->requests().back().n_predict, 9);
    EXPECT_EQ(engine->requests().back().prompt.size(), 1 + std::string("[system]s[user]x").size());
    const auto r = chat(post("/v1/responses", R"({"instructions":"s","input":"x","max_output_tokens":9})"));
    EXPECT_EQ(r["object"], "response");
    EXPECT_EQ(r["status"], "completed");
    EXPECT_EQ(r["output"][0]["content"][0]["text"], "Hi");
    EXPECT_EQ(r["usage"]["output_tokens"], 2);
    EXPECT_EQ(engine->requests().back().prompt.size(), 1 + std::string("[system]s[user]x").size());
    const std::string stream =
        post("/v1/messages", R"({"messages":[{"role":"user","content":"x"}],"stream":true})").body;
    size_t at = 0;
    for (const char* name : {"message_start", "content_block_start", "content_block_delta", "content_block_stop",
                             "message_delta", "message_stop"}) {
        const size_t next = stream.find(std::string("event: ") + name + "\n", at);
        ASSERT_NE(next, std::string::npos) << name << "\n" << stream;
        at = next;
    }
    const std::string events = post("/v1/responses", R"({"input":"x","stream":true})").body;
    at = 0;
    for (const char* name : {"response.created", "response.in_progress", "response.output_item.added",
                             "response.content_part.added", "response.output_text.delta", "response.output_text.done",
                             "response.content_part.done", "response.output_item.done", "response.completed"}) {
        const size_t next = events.find(std::string("event: ") + name + "\n", at);
        ASSERT_NE(next, std::string::npos) << name << "\n" << events;
        at = next;
    }
    for (const char* body :
         {R"({"messages":[{"role":"user","content":[{"type":"film"}]}]})", R"({"messages":5})",
          R"({"messages":[{"role":"user","content":[{"type":5}]}]})", R"({"messages":[],"tools":[{"name":5}]})",
          R"({"messages":[],"tool_choice":{"type":"x"}})"}) {
        EXPECT_EQ(post("/v1/messages", body).status, 400) << body;
    }
    for (const char* body :
         {R"({})", R"({"input":5})", R"({"input":[5]})", R"({"input":[{"type":5}]})",
          R"({"input":"x","previous_response_id":"y"})", R"({"input":"x","tools":[{"type":"web"}]})"}) {
        EXPECT_EQ(post("/v1/responses", body).status, 400) << body;
    }
}

TEST_F(ChatTest, AThinkingBudgetReachesTheSampler) {
    options.chat_template = "{{ messages[0].content }}{% if true %}<think>\n{% endif %}{# </think> #}";
    options.reasoning_budget = 7;
    options.reasoning_budget_message = "Enough.";
    start();
    const auto ask = [&](const std::string& path, const std::string& fields) {
        const Reply reply = post(path, R"({"messages":[{"role":"user","content":"x"}],"max_tokens":1)" + fields + "}");
        EXPECT_EQ(reply.status, 200) << reply.body;
        return engine->requests().back().sampling.reasoning;
    };
    const sampling::ReasoningBudget usual = ask("/v1/chat/completions", "");
    EXPECT_EQ(usual.tokens, 7);
    EXPECT_EQ(usual.open, "<think>");
    EXPECT_EQ(usual.close, "</think>");
    EXPECT_EQ(usual.message, "Enough.");
    EXPECT_TRUE(usual.starts_inside);
    EXPECT_EQ(ask("/v1/chat/completions", R"(,"reasoning_budget_tokens":0,"thinking_budget_tokens":4)").tokens, 0);
    EXPECT_EQ(ask("/v1/chat/completions", R"(,"thinking_budget_tokens":4,"reasoning_budget_message":"")").message, "");
    EXPECT_EQ(ask("/v1/chat/completions", R"(,"reasoning_budget_tokens":-1)").tokens, -1);
    EXPECT_EQ(ask("/v1/messages", R"(,"thinking":{"type":"enabled","budget_tokens":1024})").tokens, 1024);
}

TEST_F(ChatTest, ToolsHaveATemplateOfTheirOwnWhereTheFileHasOne) {
    start(false);
    engine->vocab_->named_templates = {{"rag", "{{ broken"}, {"tool_use", "T{{ tools[0].function.name }}"}};
    server->set_engine(engine);
    const std::string messages = R"({"messages":[{"role":"user","content":"x"}])";
    const std::string with_tools = messages + R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
    EXPECT_NE(post("/apply-template", messages + "}").json()["prompt"].get<std::string>().front(), 'T');
    EXPECT_EQ(post("/apply-template", with_tools + "}").json()["prompt"], "Tf");
    EXPECT_NE(post("/apply-template", with_tools + R"(,"tool_choice":"none"})").json()["prompt"], "Tf");
    EXPECT_EQ(get("/props").json()["chat_template_tool_use"], "T{{ tools[0].function.name }}");
    EXPECT_EQ(get("/props").json()["chat_template"], "{{ messages }}");
}

TEST_F(ChatTest, ABrokenTemplateIsSaidWhenItIsUsed) {
    options.chat_template = "{% for %}";
    start();
    const Reply reply = post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})");
    EXPECT_EQ(reply.status, 501);
    EXPECT_NE(reply.body.find("template"), std::string::npos);
    expect_known_answer();
}

}  // namespace
}  // namespace foresay::server
