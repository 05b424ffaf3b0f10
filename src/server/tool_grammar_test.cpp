// Tool calls in every form: the grammar lets through what the reader reads, and nothing else; and the routes stream it.
#include "server/api/tool_grammar.h"

#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "server/test_client.h"
#include "vocab/fake_vocab.h"

namespace foresay::server {
namespace {

/// One call of get_weather as a model of that form writes it; it always says {"city": "Oslo", "days": 2}.
struct Example {
    const char* form;
    const char* text;
};

const std::vector<Example> kExamples = {
    {"harmony",
     "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Oslo\", \"days\": 2}"},
    {"dsml",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
     "string=\"true\">Oslo</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
     "string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"},
    {"dsml-function-calls",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
     "string=\"true\">Oslo</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
     "string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"},
    {"minimax",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n<parameter "
     "name=\"days\">2</parameter>\n</invoke>\n</minimax:tool_call>"},
    {"seed-oss",
     "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Oslo</parameter>\n<parameter=days>2</parameter>\n</"
     "function>\n</seed:tool_call>"},
    {"qwen3-coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n2\n</parameter>\n</"
     "function>\n</tool_call>"},
    {"glm",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</"
     "arg_key>\n<arg_value>2</arg_value>\n</tool_call>"},
    {"minicpm5",
     "<function name=\"get_weather\"><param name=\"city\">Oslo</param><param name=\"days\">2</param></function>"},
    {"functionary-v3.1", "<function=get_weather>{\"city\": \"Oslo\", \"days\": 2}</function>"},
    {"functionary-v3.2", "get_weather\n{\"city\": \"Oslo\", \"days\": 2}"},
    {"mistral", "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\", \"days\": 2}"},
    {"deepseek-r1",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Oslo\", "
     "\"days\": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"deepseek-v3.1",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Oslo\", \"days\": "
     "2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"kimi-k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": "
     "\"Oslo\", \"days\": 2}<|tool_call_end|><|tool_calls_section_end|>"},
    {"command-r7b",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": "
     "\"Oslo\", \"days\": 2}}\n]<|END_ACTION|>"},
    {"apertus", "<|tools_prefix|>[{\"get_weather\": {\"city\": \"Oslo\", \"days\": 2}}]<|tools_suffix|>"},
    {"nemotron-v2",
     "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}]</TOOLCALL>"},
    {"tool-calls",
     "<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}\n</tool_calls>"},
    {"gigachat3.1", "<|function_call|>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}"},
    {"granite-3", "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}]"},
    {"firefunction-v2", "functools[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}]"},
    {"llama3-json", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\", \"days\": 2}}"},
    {"hermes",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}\n</tool_call>"},
};

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":)"
    R"({"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}}},)"
    R"({"type":"function","function":{"name":"stop"}}])";

/// Bytes, the form's marks as control tokens where asked for, and an end.
std::shared_ptr<vocab::FakeVocab> vocab_for(const chat::Syntax& syntax, bool with_control_tokens) {
    std::vector<std::string> texts;
    for (int i = 0; i < 256; ++i) {
        texts.emplace_back(1, static_cast<char>(i));
    }
    const std::vector<std::string> marks = with_control_tokens ? syntax.preserved_tokens() : std::vector<std::string>();
    texts.insert(texts.end(), marks.begin(), marks.end());
    texts.emplace_back("<end>");
    auto vocab = std::make_shared<vocab::FakeVocab>(texts);
    for (size_t i = 256; i < texts.size(); ++i) {
        vocab->control.insert(static_cast<vocab::TokenId>(i));
    }
    vocab->eog = {static_cast<vocab::TokenId>(texts.size() - 1)};
    return vocab;
}

struct Walk {
    std::string taken;  ///< the text that was let through
    bool is_whole = false;
    bool may_end = false;
    bool is_awake = false;
};

Walk walk(const CallRules& rules, const std::shared_ptr<vocab::FakeVocab>& vocab, const std::string& text) {
    Walk walk;
    sampling::Params params;
    const Status status = constrain_calls(rules, *vocab, &params);
    EXPECT_TRUE(status.has_value()) << status.error().to_string();
    auto grammar = grammar::Grammar::compile(params.grammar, std::make_shared<grammar::TokenTrie>(vocab));
    if (!grammar.has_value()) {
        ADD_FAILURE() << grammar.error().to_string() << "\n" << params.grammar;
        return walk;
    }
    std::shared_ptr<const grammar::Triggers> triggers;
    if (params.grammar_lazy) {
        auto created = grammar::Triggers::create(params.grammar_triggers, vocab->n_tokens());
        EXPECT_TRUE(created.has_value()) << created.error().to_string();
        triggers = std::make_shared<const grammar::Triggers>(*created);
    }
    grammar::Matcher matcher(*grammar, triggers);
    walk.is_whole = true;
    for (const vocab::TokenId id : vocab->encode(text, false, true)) {
        if (!matcher.allows(id)) {
            walk.is_whole = false;
            break;
        }
        matcher.accept(id);
        walk.taken += vocab->tokens[static_cast<size_t>(id)];
    }
    walk.may_end = matcher.allows(vocab->eog.front());
    walk.is_awake = !matcher.is_asleep();
    return walk;
}

CallRules rules_for(const char* form) {
    CallRules rules;
    rules.syntax.calls = chat::call_syntax(form);
    rules.tools = chat::Json::parse(kTools);
    return rules;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(ToolGrammar, EveryFormHasAnExample) {
    for (const chat::CallSyntax& syntax : chat::call_syntaxes()) {
        int n = 0;
        for (const Example& example : kExamples) {
            n += syntax.name == example.form ? 1 : 0;
        }
        EXPECT_EQ(n, 1) << syntax.name;
    }
}

TEST(ToolGrammar, ARequiredCallIsLetThroughAndNothingElse) {
    for (const Example& example : kExamples) {
        for (const bool with_control_tokens : {false, true}) {
            SCOPED_TRACE(std::string(example.form) + (with_control_tokens ? ", marks are tokens" : ", marks are text"));
            CallRules rules = rules_for(example.form);
            rules.is_required = true;
            const auto vocab = vocab_for(rules.syntax, with_control_tokens);
            const Walk call = walk(rules, vocab, example.text);
            EXPECT_TRUE(call.is_whole) << call.taken;
            EXPECT_TRUE(call.may_end);
            EXPECT_FALSE(walk(rules, vocab, replaced(example.text, "get_weather", "get_money")).is_whole);
            EXPECT_FALSE(walk(rules, vocab, replaced(example.text, "2", "\"x\"")).is_whole) << "days is an integer";
            EXPECT_FALSE(walk(rules, vocab, "Hello, I can help").is_whole);
            EXPECT_FALSE(walk(rules, vocab, "").may_end);
            rules.tools = chat::Json::array({rules.tools[1]});
            EXPECT_FALSE(walk(rules, vocab, example.text).is_whole) << "another function was named";
        }
    }
}

TEST(ToolGrammar, AFreeReplyIsTextUntilACallBegins) {
    for (const Example& example : kExamples) {
        for (const bool with_control_tokens : {false, true}) {
            SCOPED_TRACE(std::string(example.form) + (with_control_tokens ? ", marks are tokens" : ", marks are text"));
            const CallRules rules = rules_for(example.form);
            const auto vocab = vocab_for(rules.syntax, with_control_tokens);
            const Walk text = walk(rules, vocab, "Hello, {I} can [help] < 3 >> 2 functools");
            EXPECT_TRUE(text.is_whole && text.may_end && !text.is_awake) << text.taken;
            const Walk call = walk(rules, vocab, example.text);
            EXPECT_TRUE(call.is_whole && call.may_end && call.is_awake) << call.taken;
            const Walk wrong = walk(rules, vocab, replaced(example.text, "2", "\"x\""));
            EXPECT_FALSE(wrong.is_whole) << wrong.taken;
        }
    }
}

TEST(ToolGrammar, SeveralCallsOnlyWhereTheyAreAllowed) {
    CallRules rules = rules_for("hermes");
    rules.is_required = true;
    const auto vocab = vocab_for(rules.syntax, false);
    const std::string one = "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>";
    EXPECT_TRUE(walk(rules, vocab, one + "\n" + one).is_whole);
    rules.is_parallel = false;
    EXPECT_TRUE(walk(rules, vocab, one).is_whole);
    EXPECT_FALSE(walk(rules, vocab, one + "\n" + one).is_whole);
}

TEST(ToolGrammar, ThoughtsComeFirst) {
    constexpr chat::ThinkTags kThink{"<think>", "</think>"};
    CallRules rules = rules_for("hermes");
    rules.syntax.think = &kThink;
    rules.is_required = true;
    const auto vocab = vocab_for(rules.syntax, false);
    const std::string call = "\n\n<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>\n";
    EXPECT_TRUE(walk(rules, vocab, "<think>\na < b </thin <<</think>" + call).may_end);
    EXPECT_TRUE(walk(rules, vocab, call).may_end);
    rules.starts_in_reasoning = true;
    EXPECT_TRUE(walk(rules, vocab, "hm</think>" + call).may_end);
    EXPECT_FALSE(walk(rules, vocab, "hm</think>Hello").is_whole);
    EXPECT_FALSE(walk(rules, vocab, "hm").may_end);
}

TEST(ToolGrammar, AContentSchemaIsTheOtherWay) {
    CallRules rules = rules_for("hermes");
    rules.content_schema = R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})";
    const auto vocab = vocab_for(rules.syntax, false);
    EXPECT_TRUE(walk(rules, vocab, "{\"a\": 1}").may_end);
    EXPECT_FALSE(walk(rules, vocab, "Hello").is_whole);
    EXPECT_TRUE(walk(rules, vocab, "<tool_call>{\"name\": \"stop\", \"arguments\": {}}</tool_call>").may_end);
}

TEST(ToolGrammar, TextArgumentsMayHoldAnythingButTheirEnd) {
    CallRules rules = rules_for("qwen3-coder");
    rules.is_required = true;
    rules.tools[0]["function"]["parameters"]["properties"]["unit"] =
        chat::Json{{"type", "string"}, {"enum", {"C", "F"}}};
    const auto vocab = vocab_for(rules.syntax, false);
    const auto call = [](const std::string& city, const std::string& unit) {
        return "<tool_call>\n<function=get_weather>\n<parameter=city>\n" + city + "\n</parameter>\n<parameter=unit>\n" +
               unit + "\n</parameter>\n</function>\n</tool_call>";
    };
    EXPECT_TRUE(walk(rules, vocab, call("a </parame </b> \"q\"\n\xC3\xA9", "C")).may_end);
    EXPECT_FALSE(walk(rules, vocab, call("Oslo", "K")).is_whole);
}

TEST(ToolGrammar, NamesAndParametersAreChecked) {
    CallRules rules = rules_for("hermes");
    rules.tools[0]["function"]["name"] = "a\"b\\c\nd";
    rules.is_required = true;
    const auto vocab = vocab_for(rules.syntax, false);
    EXPECT_TRUE(
        walk(rules, vocab, R"(<tool_call>{"name": "a\"b\\c\nd", "arguments": {"city": "x"}}</tool_call>)").may_end);
    rules.tools[0]["function"]["parameters"] = 5;
    sampling::Params params;
    const Status status = constrain_calls(rules, *vocab, &params);
    ASSERT_FALSE(status.has_value());
    EXPECT_NE(status.error().message.find("tool 'a"), std::string::npos) << status.error().message;
}

using ToolRoutesTest = ServerFixture;

std::string template_for(const chat::CallSyntax& syntax) {
    std::string text = "{{ messages[0].content }}{% if tools %}{{ tools[0].function.name }}{% endif %}{# ";
    return text.append(syntax.markers[0]).append(" ").append(syntax.markers[1]).append(" #}");
}

/// The calls and texts of a stream, joined.
struct Joined {
    std::string content;
    std::string name;
    std::string arguments;
    std::string id;
    std::string reason;
    int n_calls = 0;
    int n_argument_chunks = 0;
};

Joined joined(const std::string& stream) {
    Joined out;
    for (const auto& event : events_of(stream.substr(0, stream.find("data: [DONE]")))) {
        const auto& choice = event["choices"][0];
        if (!choice["finish_reason"].is_null()) {
            out.reason = choice["finish_reason"];
        }
        const auto& delta = choice["delta"];
        if (delta.contains("content") && delta["content"].is_string()) {
            out.content += delta["content"].get<std::string>();
        }
        if (!delta.contains("tool_calls")) {
            continue;
        }
        const auto& call = delta["tool_calls"][0];
        if (call.contains("id")) {
            ++out.n_calls;
            out.id = call["id"];
            out.name = call["function"]["name"];
            EXPECT_EQ(call["type"], "function");
        }
        out.arguments += call["function"]["arguments"].get<std::string>();
        ++out.n_argument_chunks;
    }
    return out;
}

TEST_F(ToolRoutesTest, EveryFormBecomesCallsStreamedAndWhole) {
    for (const Example& example : kExamples) {
        SCOPED_TRACE(example.form);
        options.chat_template = template_for(*chat::call_syntax(example.form));
        script_for = [&example](const engine::Request&) {
            Script script = script_of(example.text);
            script.result.stop_type = engine::StopType::kEos;
            return script;
        };
        start();
        const std::string body = std::string(R"({"messages":[{"role":"user","content":"x"}],"tools":)") + kTools;
        const Reply whole = post("/v1/chat/completions", body + "}");
        ASSERT_EQ(whole.status, 200) << whole.body;
        const auto choice = whole.json()["choices"][0];
        EXPECT_EQ(choice["finish_reason"], "tool_calls");
        EXPECT_TRUE(choice["message"]["content"].is_null()) << choice.dump();
        ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U) << choice.dump();
        const auto& call = choice["message"]["tool_calls"][0];
        EXPECT_EQ(call["function"]["name"], "get_weather");
        const nlohmann::json wanted = {{"city", "Oslo"}, {"days", 2}};
        EXPECT_EQ(nlohmann::json::parse(call["function"]["arguments"].get<std::string>(), nullptr, false), wanted);
        const Joined stream = joined(post("/v1/chat/completions", body + R"(,"stream":true})").body);
        EXPECT_EQ(stream.reason, "tool_calls");
        EXPECT_EQ(stream.content, "");
        EXPECT_EQ(stream.n_calls, 1);
        EXPECT_EQ(stream.name, "get_weather");
        EXPECT_EQ(stream.arguments, call["function"]["arguments"]);
        EXPECT_GT(stream.n_argument_chunks, 5) << "arguments come while they are written";
        EXPECT_FALSE(stream.id.empty());
        const auto request = engine->requests().back();
        EXPECT_TRUE(request.sampling.grammar_lazy);
        EXPECT_FALSE(request.sampling.grammar.empty());
        const auto none = post("/v1/chat/completions", body + R"(,"tool_choice":"none"})").json();
        EXPECT_FALSE(none["choices"][0]["message"].contains("tool_calls") &&
                     std::string(example.form) != "harmony");  // its channels are read without tools too
        EXPECT_EQ(engine->requests().back().sampling.grammar, "");
        server.reset();
    }
}

TEST_F(ToolRoutesTest, ChoicesReachTheGrammar) {
    options.chat_template = template_for(*chat::call_syntax("hermes"));
    start();
    const std::string body = std::string(R"({"messages":[{"role":"user","content":"x"}],"tools":)") + kTools;
    ASSERT_EQ(post("/v1/chat/completions", body + R"(,"tool_choice":"required"})").status, 200);
    auto sampling = engine->requests().back().sampling;
    EXPECT_FALSE(sampling.grammar_lazy);
    EXPECT_NE(sampling.grammar.find("get_weather"), std::string::npos);
    ASSERT_EQ(
        post("/v1/chat/completions", body + R"(,"tool_choice":{"type":"function","function":{"name":"stop"}}})").status,
        200);
    sampling = engine->requests().back().sampling;
    EXPECT_FALSE(sampling.grammar_lazy);
    EXPECT_EQ(sampling.grammar.find("get_weather"), std::string::npos);
    EXPECT_NE(sampling.grammar.find("stop"), std::string::npos);
    const auto parallel = [&](const char* value) {
        post("/v1/chat/completions", body + R"(,"tool_choice":"required","parallel_tool_calls":)" + value + "}");
        return engine->requests().back().sampling.grammar;
    };
    EXPECT_NE(parallel("true"), parallel("false"));
    const std::string anthropic =
        R"({"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":)";
    ASSERT_EQ(post("/v1/messages", anthropic + R"({"type":"any"}})").status, 200);
    EXPECT_FALSE(engine->requests().back().sampling.grammar_lazy);
    ASSERT_EQ(post("/v1/messages", anthropic + R"({"type":"tool","name":"f"}})").status, 200);
    EXPECT_EQ(post("/v1/messages", anthropic + R"({"type":"tool","name":"g"}})").status, 400);
    const std::string responses =
        R"({"input":"x","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"tool_choice":)";
    ASSERT_EQ(post("/v1/responses", responses + R"({"type":"function","name":"f"}})").status, 200);
    EXPECT_FALSE(engine->requests().back().sampling.grammar_lazy);
}

TEST_F(ToolRoutesTest, CallsInOtherProtocols) {
    options.chat_template = template_for(*chat::call_syntax("hermes"));
    script_for = [](const engine::Request&) {
        Script script = script_of("Look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>");
        script.result.stop_type = engine::StopType::kEos;
        return script;
    };
    start();
    const std::string anthropic =
        R"({"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}}])";
    const auto message = post("/v1/messages", anthropic + "}").json();
    EXPECT_EQ(message["stop_reason"], "tool_use");
    EXPECT_EQ(message["content"][0]["text"], "Look.");
    EXPECT_EQ(message["content"][1]["name"], "f");
    EXPECT_EQ(message["content"][1]["input"]["a"], 1);
    const std::string events = post("/v1/messages", anthropic + R"(,"stream":true})").body;
    EXPECT_NE(events.find(R"("type":"tool_use")"), std::string::npos) << events;
    EXPECT_NE(events.find(R"("type":"input_json_delta")"), std::string::npos) << events;
    const std::string responses =
        R"({"input":"x","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}])";
    const auto response = post("/v1/responses", responses + "}").json();
    EXPECT_EQ(response["output"][1]["type"], "function_call") << response.dump();
    EXPECT_EQ(response["output"][1]["arguments"], "{\"a\": 1}");
    const std::string stream = post("/v1/responses", responses + R"(,"stream":true})").body;
    EXPECT_NE(stream.find("response.function_call_arguments.delta"), std::string::npos) << stream;
}

}  // namespace
}  // namespace foresay::server
