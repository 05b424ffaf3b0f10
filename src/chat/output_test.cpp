#include "chat/output.h"

#include <gtest/gtest.h>

#include "chat/jinja/text.h"

namespace foresay::chat {
namespace {

Json weather_tools() {
    return Json::array(
        {Json{{"type", "function"},
              {"function",
               {{"name", "get_weather"},
                {"parameters",
                 {{"type", "object"},
                  {"properties", {{"city", {{"type", "string"}}}, {"days", {{"type", "integer"}}}}}}}}}}});
}

constexpr ThinkTags kThink{"<think>", "</think>"};

OutputOptions options_for(std::string_view syntax, bool thinks = false) {
    OutputOptions options;
    options.syntax.calls = syntax.empty() ? nullptr : call_syntax(syntax);
    options.syntax.think = thinks ? &kThink : nullptr;
    options.tools = weather_tools();
    options.id_prefix = "call_";
    return options;
}

std::string shown(const Message& message) {
    std::string text = "reasoning<" + message.reasoning + "> content<" + message.content + ">";
    for (const Call& call : message.calls) {
        text += " call<" + call.id + " " + call.name + " " + call.arguments + ">";
    }
    return text;
}

Message from_deltas(const std::vector<Delta>& deltas) {
    Message message;
    for (const Delta& delta : deltas) {
        message.add(delta);
    }
    return message;
}

void append(std::vector<Delta>* all, std::vector<Delta> more) {
    all->insert(all->end(), more.begin(), more.end());
}

/// The reply in one piece, in two pieces cut at every place, and character by character: always the same message.
void expect_message(const OutputOptions& options, const std::string& reply, const std::string& wanted) {
    SCOPED_TRACE(reply);
    EXPECT_EQ(shown(parse_output(reply, options)), wanted);
    const int64_t length = jinja::text_length(reply);
    for (int64_t cut = 0; cut <= length; ++cut) {
        const size_t at = jinja::text_offset(reply, cut);
        OutputParser parser(options);
        std::vector<Delta> deltas = parser.push(reply.substr(0, at));
        append(&deltas, parser.push(reply.substr(at)));
        append(&deltas, parser.finish());
        ASSERT_EQ(shown(from_deltas(deltas)), wanted) << "cut at " << cut;
        ASSERT_EQ(shown(parser.message()), wanted);
    }
    OutputParser parser(options);
    std::vector<Delta> deltas;
    for (int64_t i = 0; i < length; ++i) {
        const size_t at = jinja::text_offset(reply, i);
        append(&deltas, parser.push(reply.substr(at, jinja::text_offset(reply, i + 1) - at)));
    }
    append(&deltas, parser.finish());
    EXPECT_EQ(shown(from_deltas(deltas)), wanted);
}

struct Case {
    std::string syntax;
    std::string reply;
    std::string wanted;
};

class CallForms : public testing::TestWithParam<Case> {};

TEST_P(CallForms, GiveTheSameMessageHoweverTheReplyIsCut) {
    expect_message(options_for(GetParam().syntax), GetParam().reply, GetParam().wanted);
}

const std::string kOslo = R"(call<call_0 get_weather {"city": "Oslo", "days": 2}>)";

INSTANTIATE_TEST_SUITE_P(
    Output, CallForms,
    testing::Values(
        Case{"hermes",
             "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}\n</tool_call>",
             "reasoning<> content<> " + kOslo},
        Case{"hermes",
             "Let me see. \n<tool_call>{\"arguments\": {\"city\": \"Oslo\", \"days\": 2}, \"name\": "
             "\"get_weather\"}</tool_call>\n",
             "reasoning<> content<Let me see.> " + kOslo},
        Case{"hermes",
             "<tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"b\", \"arguments\": "
             "{\"x\": \"}]\\\"\"}}</tool_call>",
             R"(reasoning<> content<> call<call_0 a {}> call<call_1 b {"x": "}]\""}>)"},
        Case{"hermes", "<tool_call>{\"name\": \"a\"}</tool_call> done", "reasoning<> content<done> call<call_0 a {}>"},
        Case{"hermes", "<tool_call>{\"name\": \"a\", \"arguments\": \"{\\\"x\\\": 1}\"}</tool_call>",
             R"(reasoning<> content<> call<call_0 a {"x": 1}>)"},
        Case{"hermes", "a < b, <tool and <tool_call> isn't JSON",
             "reasoning<> content<a < b, <tool and <tool_call> isn't JSON>"},
        Case{"hermes", "<tool_call>{\"na", "reasoning<> content<<tool_call>{\"na>"},
        Case{"hermes", "<tool_call>{\"name\": \"a\", \"arguments\": {\"x\": 1",
             "reasoning<> content<> call<call_0 a {\"x\": 1>"},
        Case{"llama3-json", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\", \"days\": 2}}",
             "reasoning<> content<> " + kOslo},
        Case{"llama3-json",
             "<|python_tag|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\", \"days\": 2}}",
             "reasoning<> content<> " + kOslo},
        Case{"llama3-json",
             "{\"name\": \"get_weather\", \"parameters\": {}}; {\"name\": \"get_weather\", \"parameters\": {\"days\": "
             "1}}",
             R"(reasoning<> content<> call<call_0 get_weather {}> call<call_1 get_weather {"days": 1}>)"},
        Case{"llama3-json", " {\"name\": \"Bob\", \"age\": 3}",
             "reasoning<> content< {\"name\": \"Bob\", \"age\": 3}>"},
        Case{"llama3-json", "{\"answer\": [1, 2]} ", "reasoning<> content<{\"answer\": [1, 2]} >"},
        Case{"mistral",
             "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}, \"id\": "
             "\"123456789\"}]",
             "reasoning<> content<> " + kOslo},
        Case{"mistral", "Well.[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\", \"days\": 2}",
             "reasoning<> content<Well.> " + kOslo},
        Case{"mistral", "[TOOL_CALLS]get_weather[CALL_ID]abc123def[ARGS]{\"city\": \"Oslo\"}[TOOL_CALLS]b[ARGS]{}",
             R"(reasoning<> content<> call<abc123def get_weather {"city": "Oslo"}> call<call_1 b {}>)"},
        Case{"qwen3-coder",
             "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n2\n</"
             "parameter>\n</function>\n</tool_call>",
             "reasoning<> content<> " + kOslo},
        Case{"qwen3-coder",
             "<function=get_weather>\n<parameter=city>\na \"quote\"\n\nline\n</parameter>\n</function>\n</tool_call>",
             R"(reasoning<> content<> call<call_0 get_weather {"city": "a \"quote\"\n\nline"}>)"},
        Case{"qwen3-coder",
             "Hm.\n\n<tool_call>\n<function=f>\n<parameter=any>\n[1, \"x\"]\n</parameter>\n<parameter=b>\nplain < "
             "text\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
             R"(reasoning<> content<Hm.> call<call_0 f {"any": [1, "x"], "b": "plain < text"}> call<call_1 g {}>)"},
        Case{"glm",
             "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</"
             "arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
             "reasoning<> content<> " + kOslo},
        Case{"glm",
             "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call><tool_call>f</"
             "tool_call>",
             R"(reasoning<> content<> call<call_0 get_weather {"city": "Oslo"}> call<call_1 f {}>)"},
        Case{"seed-oss",
             "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Oslo</parameter>\n<parameter=days>2</"
             "parameter>\n</function>\n</seed:tool_call>",
             "reasoning<> content<> " + kOslo},
        Case{
            "minimax",
            "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n<parameter "
            "name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"f\">\n</invoke>\n</minimax:tool_call>",
            "reasoning<> content<> " + kOslo + " call<call_1 f {}>"},
        Case{"dsml",
             "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
             "string=\"true\">Oslo</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
             "string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
             "reasoning<> content<> " + kOslo},
        Case{"functionary-v3.1", "<function=get_weather>{\"city\": \"Oslo\", \"days\": 2}</function>",
             "reasoning<> content<> " + kOslo},
        Case{"functionary-v3.2", "all\nHello > you>>>get_weather\n{\"city\": \"Oslo\", \"days\": 2}",
             "reasoning<> content<Hello > you> " + kOslo},
        Case{"functionary-v3.2", "get_weather\n{\"city\": \"Oslo\", \"days\": 2}", "reasoning<> content<> " + kOslo},
        // A blank line before the recipient ends no name, and what stands right behind "all" is content.
        Case{"functionary-v3.2", "\nall\nHello", "reasoning<> content<Hello>"},
        Case{"functionary-v3.2", "\nall", "reasoning<> content<\nall>"},
        Case{"functionary-v3.2", "all{x", "reasoning<> content<{x>"},
        Case{"functionary-v3.2", std::string(300, 'n') + "\n{}",
             "reasoning<> content<" + std::string(300, 'n') + "\n{}>"},
        Case{"deepseek-r1",
             "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": "
             "\"Oslo\", \"days\": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
             "reasoning<> content<> " + kOslo},
        Case{
            "deepseek-v3.1",
            "I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Oslo\", \"days\": "
            "2}<｜tool▁call▁end｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "reasoning<> content<I look.> " + kOslo + " call<call_1 f {}>"},
        Case{"kimi-k2",
             "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"
             "\"city\": \"Oslo\", \"days\": 2}<|tool_call_end|><|tool_calls_section_end|>",
             R"(reasoning<> content<> call<functions.get_weather:0 get_weather {"city": "Oslo", "days": 2}>)"},
        Case{"command-r7b",
             "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": "
             "{\"city\": \"Oslo\", \"days\": 2}}\n]<|END_ACTION|>",
             R"(reasoning<> content<> call<0 get_weather {"city": "Oslo", "days": 2}>)"},
        Case{"apertus", "<|tools_prefix|>[{\"get_weather\": {\"city\": \"Oslo\", \"days\": 2}}]<|tools_suffix|>",
             "reasoning<> content<> " + kOslo},
        Case{"nemotron-v2",
             "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}, {\"name\": "
             "\"f\", \"arguments\": {}}]</TOOLCALL>",
             "reasoning<> content<> " + kOslo + " call<call_1 f {}>"},
        Case{"tool-calls",
             "<tool_calls>\n{\"name\": \"a\", \"arguments\": {}}\n{\"name\": \"b\", \"arguments\": {}}\n</tool_calls>",
             "reasoning<> content<> call<call_0 a {}> call<call_1 b {}>"},
        Case{"firefunction-v2",
             " functools[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}]",
             "reasoning<> content<> " + kOslo},
        Case{"harmony",
             "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Answer < "
             "3.<|return|>",
             "reasoning<Think.> content<Answer < 3.>"},
        Case{"harmony",
             "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
             "<|constrain|>json<|message|>{\"city\": \"Oslo\", \"days\": 2}<|call|>",
             "reasoning<Hm> content<> " + kOslo},
        Case{"harmony",
             " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Oslo\", \"days\": 2}<|call|>",
             "reasoning<> content<> " + kOslo},
        Case{"harmony", "Just text", "reasoning<> content<Just text>"}));

TEST(Output, NamesEndWithinALimitWhereverTheReplyIsCut) {
    const OutputOptions options = options_for("qwen3-coder");
    const std::string x(300, 'x');
    const std::string blanks(300, ' ');
    const std::string oslo = "<parameter=city>Oslo</parameter></function></tool_call>";
    expect_message(options, "<tool_call><function=" + blanks + "f>" + oslo,
                   R"(reasoning<> content<> call<call_0 f {"city": "Oslo"}>)");
    expect_message(options, "<tool_call><function=" + x + ">" + oslo,
                   "reasoning<> content<<tool_call><function=" + x + ">" + oslo + ">");
    expect_message(options, "<tool_call><function=f><parameter=" + x + ">Oslo</parameter>",
                   "reasoning<> content<" + x + ">Oslo</parameter>> call<call_0 f {}>");
}

TEST(Output, AHeadWithoutEndIsContent) {
    // Once an endless loop: the body gave the mark to the head, the head gave it back.
    const std::string x(450, 'x');
    const OutputOptions options = options_for("harmony");
    expect_message(options, "<|channel|>" + x, "reasoning<> content<<|channel|>" + x + ">");
    expect_message(options, "Hi<|start|>" + x + "<|end|><|start|>assistant<|channel|>final<|message|>Bye",
                   "reasoning<> content<Hi<|start|>" + x + "Bye>");
    // Nor does a message's mark far behind make a head of it.
    expect_message(options, "<|channel|>" + x + "<|message|>Bye",
                   "reasoning<> content<<|channel|>" + x + "<|message|>Bye>");
}

TEST(Output, ThoughtsStandApart) {
    const OutputOptions options = options_for("hermes", true);
    expect_message(options, "<think>\nI see.\n\nYes.\n</think>\n\nHello </think>",
                   "reasoning<I see.\n\nYes.> content<Hello </think>>");
    expect_message(options, "\n<think>\n\n</think>\n\nHello", "reasoning<> content<Hello>");
    expect_message(options, "No thoughts, <think>later</think>",
                   "reasoning<> content<No thoughts, <think>later</think>>");
    expect_message(options, "<think>cut", "reasoning<cut> content<>");
    expect_message(options, "<thi", "reasoning<> content<<thi>");
    expect_message(options, "<think>a</think><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
                   "reasoning<a> content<> call<call_0 f {}>");
}

TEST(Output, ThoughtsThatThePromptOpened) {
    OutputOptions options = options_for("", true);
    options.starts_in_reasoning = true;
    expect_message(options, "Hm. \n</think>\nHello", "reasoning<Hm.> content<Hello>");
    expect_message(options, "Hm.", "reasoning<Hm.> content<>");
}

TEST(Output, ReasoningFormats) {
    OutputOptions options = options_for("", true);
    options.reasoning_format = ReasoningFormat::kNone;
    expect_message(options, "<think>a</think>\n\nb", "reasoning<> content<<think>a</think>\n\nb>");
    options.reasoning_format = ReasoningFormat::kDeepseekLegacy;
    expect_message(options, "<think>\na\n</think>\n\nb", "reasoning<a> content<<think>\na\n</think>\n\nb>");
    options.reasoning_format = ReasoningFormat::kDeepseek;
    expect_message(options, "<think>a</think>\n\nb", "reasoning<a> content<b>");
}

TEST(Output, CallsAreTextWhereNobodyParsesThem) {
    OutputOptions options = options_for("hermes");
    options.parse_calls = false;
    expect_message(options, "<tool_call>{}</tool_call>", "reasoning<> content<<tool_call>{}</tool_call>>");
}

TEST(Output, ArgumentsStream) {
    OutputParser parser(options_for("hermes"));
    EXPECT_TRUE(parser.push("<tool_call>{\"name\": \"f\"").empty());
    std::vector<Delta> deltas = parser.push(", \"arguments\": {\"x\": \"long ");
    ASSERT_EQ(deltas.size(), 2U);
    EXPECT_EQ(deltas[0].kind, Delta::Kind::kCall);
    EXPECT_EQ(deltas[0].name, "f");
    EXPECT_EQ(deltas[1].text, "{\"x\": \"long ");
    deltas = parser.push("text");
    ASSERT_EQ(deltas.size(), 1U);
    EXPECT_EQ(deltas[0].text, "text");

    OutputParser coder(options_for("qwen3-coder"));
    coder.push("<tool_call>\n<function=get_weather>\n<parameter=city>\nOs");
    deltas = coder.push("lo and");
    ASSERT_EQ(deltas.size(), 1U);
    EXPECT_EQ(deltas[0].text, "lo and");
}

TEST(Output, MadeUpIdsDiffer) {
    OutputOptions options = options_for("mistral");
    options.id_prefix.clear();
    const Message message = parse_output("[TOOL_CALLS]a[ARGS]{}[TOOL_CALLS]b[ARGS]{}", options);
    ASSERT_EQ(message.calls.size(), 2U);
    EXPECT_EQ(message.calls[0].id.size(), 9U);
    EXPECT_NE(message.calls[0].id, message.calls[1].id);
}

TEST(Output, AMessageIsWhatOpenAiCallsIt) {
    const Message message =
        parse_output("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", options_for("hermes"));
    EXPECT_EQ(
        message.to_json().dump(),
        R"({"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"},"id":"call_0"}]})");
}

}  // namespace
}  // namespace foresay::chat
