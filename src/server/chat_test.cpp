// Chat: bodies, parts of answers, and the routes over a fake engine.
#include <string>
#include <vector>

#include "server/api/chat_parts.h"
#include "server/api/chat_request.h"
#include "server/test_client.h"

namespace foresay::server {
namespace {

using ChatTest = ServerFixture;

/// All deltas of a text that comes byte by byte, joined, and what they end in.
ChatParts streamed(const ChatParse& parse, const std::string& text) {
    ChatText whole(parse);
    ChatParts joined;
    const auto add = [&](const ChatDelta& delta) {
        joined.reasoning += delta.reasoning;
        joined.content += delta.content;
        for (const auto& call : delta.calls) {
            if (call.begin) {
                joined.tool_calls.push_back(*call.begin);
            }
            joined.tool_calls.at(call.index).arguments += call.arguments;
        }
    };
    for (const char c : text) {
        add(whole.push(std::string(1, c)));
    }
    add(whole.finish());
    EXPECT_EQ(joined.content, whole.parts().content);
    EXPECT_EQ(joined.reasoning, whole.parts().reasoning);
    return joined;
}

TEST(ChatParts, ThoughtsAreSplitOffHoweverTheyCome) {
    struct Case {
        bool thinks_first;
        const char* text;
        const char* reasoning;
        const char* content;
    };

    for (const Case& c : std::vector<Case>{
             {false, "plain", "", "plain"},
             {false, "<think>\nwhy\n</think>\n\nbecause", "why", "because"},
             {false, "<think>why</think>because", "why", "because"},
             {false, "<thin", "", "<thin"},
             {false, "a <think>b</think>", "", "a <think>b</think>"},
             {false, "<think>never closed", "never closed", ""},
             {false, "<think></think>x", "", "x"},
             {true, "why\n</think>\nbecause", "why", "because"},
             {true, "<think>why</think>because", "why", "because"},
             {true, "a < b </thin </think>c", "a < b </thin", "c"},
         }) {
        const ChatParts parts = streamed(parse_thoughts(c.thinks_first), c.text);
        EXPECT_EQ(parts.reasoning, c.reasoning) << c.text;
        EXPECT_EQ(parts.content, c.content) << c.text;
    }
    EXPECT_EQ(streamed(parse_nothing(), "<think>a</think>b").content, "<think>a</think>b");
}

TEST(ChatParts, TaggedCallsBecomeCalls) {
    const ChatParse parse = parse_tagged_calls(parse_thoughts(false));
    const ChatParts parts =
        streamed(parse,
                 "<think>hm</think>Let me look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": "
                 "\"x\"}}\n</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>");
    EXPECT_EQ(parts.reasoning, "hm");
    EXPECT_EQ(parts.content, "Let me look.");
    ASSERT_EQ(parts.tool_calls.size(), 2U);
    EXPECT_EQ(parts.tool_calls[0].name, "f");
    EXPECT_EQ(parts.tool_calls[0].arguments, R"({"b":1,"a":"x"})") << "keys keep their order";
    EXPECT_EQ(parts.tool_calls[1].arguments, "{}");
    EXPECT_NE(parts.tool_calls[0].id, parts.tool_calls[1].id);
    for (const char* text :
         {"<tool_call>{broken</tool_call>", "<tool_call>[1]</tool_call>", "<tool_call>{\"name\":", "a <tool_cal"}) {
        EXPECT_EQ(streamed(parse, text).content, text);
        EXPECT_TRUE(streamed(parse, text).tool_calls.empty());
    }
    const std::string deep = "<tool_call>{\"name\":\"f\",\"arguments\":" + std::string(100000, '[') + "</tool_call>";
    ChatText text(parse);
    text.push(deep);
    text.finish();
    EXPECT_EQ(text.parts().content, deep) << "too deep to be taken apart";
}

TEST(ChatRequest, BadBodiesAreNamed) {
    const std::vector<std::pair<const char*, const char*>> bad = {
        {"{}", "'messages' is required"},
        {R"({"messages":5})", "Expected 'messages' to be an array"},
        {R"({"messages":["a"]})", "Expected each message to be an object"},
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
        {R"({"messages":[{"role":"assistant","content":"","tool_calls":[{}]}],"continue_final_message":true})",
         "contains tool calls"},
        {R"({"messages":[],"tools":5})", "Failed to parse tools"},
        {R"({"messages":[],"tools":[5]})", "Failed to parse tools"},
        {R"({"messages":[],"tool_choice":"maybe"})", "Invalid tool_choice: maybe"},
        {R"({"messages":[],"tool_choice":{"function":{"name":"f"}}})", "Invalid tool_choice: no such tool"},
        {R"({"messages":[],"chat_template_kwargs":5})", "Field 'chat_template_kwargs'"},
        {R"({"messages":[],"chat_template_kwargs":{"enable_thinking":"yes"}})",
         "invalid type for \"enable_thinking\" (expected boolean, got string)"},
        {R"({"messages":[],"reasoning_format":"x"})", "Field 'reasoning_format'"},
        {R"({"messages":[],"response_format":{"type":"xml"}})",
         "response_format type must be one of \"text\" or \"json_object\", but got: xml"},
        {R"({"messages":[],"response_format":5})", "Field 'response_format'"},
        {R"({"messages":[],"json_schema":{},"grammar":"root ::= \"a\""})", "Cannot use both json_schema and grammar"},
        {R"({"messages":[],"grammar":"root ::= \"a\"","tools":[{"function":{"name":"f"}}]})",
         "Cannot use custom grammar constraints with tools."},
        {"[1]", "must be an object"},
        {"{", "parse error"},
    };
    for (const auto& [body, message] : bad) {
        const auto result = parse_chat(body, {});
        ASSERT_FALSE(result.has_value()) << body;
        EXPECT_NE(result.error().message.find(message), std::string::npos) << body << ": " << result.error().message;
        EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    }
    std::string many = R"({"messages":[],"tools":[{"function":{"name":"f","parameters":{)";
    for (int i = 0; i < 1001; ++i) {
        many.append("\"").append(std::to_string(i)).append("\":1,");
    }
    many.back() = '}';
    EXPECT_FALSE(parse_chat(many + "}}]}", {}).has_value());
    EXPECT_FALSE(parse_chat(R"({"messages":[],"tools":[{"function":{"name":"f"}}]})", {.jinja = false}).has_value());
}

TEST(ChatRequest, PartsJoinAndThePrefillIsTaken) {
    const auto chat =
        parse_chat(R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
                   R"({"role":"assistant","content":"Sure"}],"tools":[{"function":{"name":"z","a":1}}]})",
                   {});
    ASSERT_TRUE(chat.has_value());
    ASSERT_EQ(chat->messages.size(), 1U);
    EXPECT_EQ(chat->messages[0]["content"], "a\nb");
    EXPECT_EQ(chat->prefill, "Sure");
    EXPECT_EQ(dump(chat->tools[0]["function"]), R"({"name":"z","a":1})") << "the client's order";
    const auto kept =
        parse_chat(R"({"messages":[{"role":"assistant","content":"Sure"}]})", {.prefill_assistant = false});
    EXPECT_EQ(kept->messages.size(), 1U);
}

// The routes. The fake vocabulary's template is set by the test.

nlohmann::json chat(const Reply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json();
}

TEST_F(ChatTest, MessagesGoThroughTheTemplateAndTheAnswerIsSplit) {
    options.chat_template =
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[a]{% endif %}";
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
    options.chat_template = "{{ messages[0].content }}";
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
