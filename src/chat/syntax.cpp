#include "chat/syntax.h"

#include <algorithm>
#include <iterator>

namespace foresay::chat {
namespace {

constexpr ThinkTags kThinkTags[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<mm:think>", "</mm:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"<|channel>thought", "<channel|>"},
    {"<thought>", "</thought>"},
};

// The first whose markers a template has is taken: special ones before those that share their marks.
constexpr CallSyntax kCalls[] = {
    {.name = "harmony", .form = CallForm::kHarmony, .markers = {"<|channel|>", "<|message|>"}},
    {.name = "dsml",
     .form = CallForm::kXml,
     .markers = {"｜DSML｜", "tool_calls>"},
     .section_open = "<｜DSML｜tool_calls>",
     .section_close = "</｜DSML｜tool_calls>",
     .open = "<｜DSML｜invoke name=\"",
     .close = "</｜DSML｜invoke>",
     .name_close = "\">",
     .argument_open = "<｜DSML｜parameter name=\"",
     .argument_name_close = "\"",
     .argument_tag_close = ">",
     .argument_close = "</｜DSML｜parameter>"},
    {.name = "dsml-function-calls",
     .form = CallForm::kXml,
     .markers = {"｜DSML｜", "function_calls>"},
     .section_open = "<｜DSML｜function_calls>",
     .section_close = "</｜DSML｜function_calls>",
     .open = "<｜DSML｜invoke name=\"",
     .close = "</｜DSML｜invoke>",
     .name_close = "\">",
     .argument_open = "<｜DSML｜parameter name=\"",
     .argument_name_close = "\"",
     .argument_tag_close = ">",
     .argument_close = "</｜DSML｜parameter>"},
    {.name = "minimax",
     .form = CallForm::kXml,
     .markers = {"<minimax:tool_call>", "<invoke name="},
     .section_open = "<minimax:tool_call>",
     .section_close = "</minimax:tool_call>",
     .open = "<invoke name=\"",
     .close = "</invoke>",
     .name_close = "\">",
     .argument_open = "<parameter name=\"",
     .argument_name_close = "\">",
     .argument_close = "</parameter>"},
    {.name = "seed-oss",
     .form = CallForm::kXml,
     .markers = {"<seed:tool_call>", "<function="},
     .section_open = "<seed:tool_call>",
     .section_close = "</seed:tool_call>",
     .open = "<function=",
     .close = "</function>",
     .name_close = ">",
     .argument_open = "<parameter=",
     .argument_name_close = ">",
     .argument_close = "</parameter>"},
    {.name = "qwen3-coder",
     .form = CallForm::kXml,
     .markers = {"<function=", "<parameter="},
     .section_open = "<tool_call>",
     .section_close = "</tool_call>",
     .open = "<function=",
     .close = "</function>",
     .name_close = ">",
     .argument_open = "<parameter=",
     .argument_name_close = ">",
     .argument_close = "</parameter>",
     .opens_alone = true},
    {.name = "glm",
     .form = CallForm::kXml,
     .markers = {"<tool_call>", "<arg_key>"},
     .open = "<tool_call>",
     .close = "</tool_call>",
     .argument_open = "<arg_key>",
     .argument_name_close = "</arg_key>",
     .value_open = "<arg_value>",
     .argument_close = "</arg_value>"},
    {.name = "minicpm5",
     .form = CallForm::kXml,
     .markers = {"<function name=", "<param name="},
     .open = "<function name=\"",
     .close = "</function>",
     .name_close = "\">",
     .argument_open = "<param name=\"",
     .argument_name_close = "\">",
     .argument_close = "</param>"},
    {.name = "functionary-v3.1",
     .form = CallForm::kNamedJson,
     .markers = {"<function=", "</function>"},
     .open = "<function=",
     .close = "</function>",
     .name_close = ">"},
    {.name = "functionary-v3.2",
     .form = CallForm::kNamedJson,
     .markers = {">>>all", ">>>"},
     .open = ">>>",
     .name_close = "\n",
     .opens_prompt = true},
    {.name = "mistral",
     .form = CallForm::kNamedJson,
     .markers = {"[TOOL_CALLS]", ""},
     .open = "[TOOL_CALLS]",
     .name_close = "[ARGS]",
     .id_open = "[CALL_ID]",
     .id_length = 9},
    {.name = "deepseek-r1",
     .form = CallForm::kNamedJson,
     .markers = {"<｜tool▁calls▁begin｜>", "```json"},
     .section_open = "<｜tool▁calls▁begin｜>",
     .section_close = "<｜tool▁calls▁end｜>",
     .open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .close = "```<｜tool▁call▁end｜>",
     .name_close = "\n```json\n"},
    {.name = "deepseek-v3.1",
     .form = CallForm::kNamedJson,
     .markers = {"<｜tool▁calls▁begin｜>", ""},
     .section_open = "<｜tool▁calls▁begin｜>",
     .section_close = "<｜tool▁calls▁end｜>",
     .open = "<｜tool▁call▁begin｜>",
     .close = "<｜tool▁call▁end｜>",
     .name_close = "<｜tool▁sep｜>"},
    {.name = "kimi-k2",
     .form = CallForm::kNamedJson,
     .markers = {"<|tool_calls_section_begin|>", ""},
     .section_open = "<|tool_calls_section_begin|>",
     .section_close = "<|tool_calls_section_end|>",
     .open = "<|tool_call_begin|>",
     .close = "<|tool_call_end|>",
     .name_close = "<|tool_call_argument_begin|>"},
    {.name = "command-r7b",
     .markers = {"<|START_ACTION|>", "tool_name"},
     .open = "<|START_ACTION|>",
     .close = "<|END_ACTION|>",
     .name_key = "tool_name",
     .arguments_key = "parameters",
     .id_key = "tool_call_id"},
    {.name = "apertus",
     .markers = {"<|tools_prefix|>", ""},
     .open = "<|tools_prefix|>",
     .close = "<|tools_suffix|>",
     .name_key = ""},
    {.name = "nemotron-v2", .markers = {"<TOOLCALL>", ""}, .open = "<TOOLCALL>", .close = "</TOOLCALL>"},
    {.name = "tool-calls", .markers = {"<tool_calls>", ""}, .open = "<tool_calls>", .close = "</tool_calls>"},
    {.name = "gigachat3.1", .markers = {"<|function_call|>", ""}, .open = "<|function_call|>"},
    {.name = "granite-3", .markers = {"<|tool_call|>", ""}, .open = "<|tool_call|>"},
    {.name = "firefunction-v2", .markers = {"functools[", ""}, .open = "functools"},
    {.name = "llama3-json",
     .markers = {"<|start_header_id|>", "\"parameters\": "},
     .open = "<|python_tag|>",
     .arguments_key = "parameters",
     .is_bare = true},
    {.name = "hermes", .markers = {"<tool_call>", ""}, .open = "<tool_call>", .close = "</tool_call>"},
};

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

/// Marks that are single control tokens in their models' vocabularies look like this.
bool may_be_token(std::string_view mark) {
    return mark.size() > 2 && (mark.front() == '<' || mark.front() == '[');
}

}  // namespace

std::vector<std::string> Syntax::preserved_tokens() const {
    std::vector<std::string> tokens;
    const auto add = [&](std::string_view mark) {
        if (may_be_token(mark) && std::find(tokens.begin(), tokens.end(), mark) == tokens.end()) {
            tokens.emplace_back(mark);
        }
    };
    if (think != nullptr) {
        add(think->open);
        add(think->close);
    }
    if (calls == nullptr) {
        return tokens;
    }
    if (calls->form == CallForm::kHarmony) {
        for (const char* mark :
             {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>", "<|call|>", "<|return|>"}) {
            add(mark);
        }
    }
    for (const std::string_view mark :
         {calls->section_open, calls->section_close, calls->open, calls->close, calls->name_close, calls->id_open,
          calls->argument_open, calls->argument_name_close, calls->value_open, calls->argument_close}) {
        add(mark);
    }
    if (calls->name == "deepseek-r1") {
        // Its marks are joined from these tokens.
        add("<｜tool▁call▁begin｜>");
        add("<｜tool▁sep｜>");
        add("<｜tool▁call▁end｜>");
    }
    return tokens;
}

std::string_view Syntax::name() const {
    return calls == nullptr ? "content-only" : calls->name;
}

const ThinkTags* think_tags_of(std::string_view source) {
    for (const ThinkTags& tags : kThinkTags) {
        // The closing mark is the one that templates can't do without: they cut history there.
        if (has(source, tags.close) || (has(source, tags.open) && tags.open != "<think>")) {
            return &tags;
        }
    }
    return nullptr;
}

const CallSyntax* call_syntax_of(std::string_view source) {
    for (const CallSyntax& syntax : kCalls) {
        if (has(source, syntax.markers[0]) && has(source, syntax.markers[1])) {
            return &syntax;
        }
    }
    return call_syntax("hermes");
}

const CallSyntax* call_syntax(std::string_view name) {
    const auto* found = std::find_if(std::begin(kCalls), std::end(kCalls),
                                     [&](const CallSyntax& syntax) { return syntax.name == name; });
    return found == std::end(kCalls) ? nullptr : found;
}

std::span<const CallSyntax> call_syntaxes() {
    return kCalls;
}

}  // namespace foresay::chat
