#include "chat/chat.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/test_paths.h"
#include "chat/builtin.h"

namespace foresay::chat {
namespace {

std::string golden_template(const std::string& name) {
    std::ifstream file(shared_path("goldens/templates/" + name + ".jinja"), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

Json message(const char* role, const Json& content) {
    return Json{{"role", role}, {"content", content}};
}

Json weather_tools() {
    return Json::array(
        {Json{{"type", "function"},
              {"function",
               {{"name", "get_weather"},
                {"description", "Weather of a city"},
                {"parameters", {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}}}}}}});
}

constexpr const char* kChatml =
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

Source source_with(std::string text) {
    Source source;
    source.model_template = std::move(text);
    source.bos_token = "<s>";
    source.eos_token = "</s>";
    return source;
}

Templates made(Source source) {
    Result<Templates> templates = Templates::create(std::move(source));
    EXPECT_TRUE(templates.has_value()) << templates.error().to_string();
    return std::move(*templates);
}

std::string rendered(const Templates& templates, const Request& request) {
    const Result<Prompt> prompt = templates.render(request);
    return prompt.has_value() ? prompt->text : "error: " + prompt.error().message;
}

Request chat(std::initializer_list<Json> messages) {
    Request request;
    for (const Json& one : messages) {
        request.messages.push_back(one);
    }
    return request;
}

TEST(Chat, RendersTheModelsTemplate) {
    const Templates templates = made(source_with(kChatml));
    EXPECT_EQ(rendered(templates, chat({message("system", "S"), message("user", "U")})),
              "<s><|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n");
    Source adding = source_with(kChatml);
    adding.adds_bos = true;
    EXPECT_EQ(rendered(made(std::move(adding)), chat({message("user", "U")})),
              "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Chat, PartsAreJoinedByNewlines) {
    const Json parts = Json::array({Json{{"type", "text"}, {"text", "a"}}, Json{{"type", "text"}, {"text", "b"}}});
    EXPECT_EQ(rendered(made(source_with(kChatml)), chat({message("user", parts)})),
              "<s><|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Chat, ATrailingAssistantMessageIsContinued) {
    const Templates templates = made(source_with(kChatml));
    Request request = chat({message("user", "U"), message("assistant", "Well, ")});
    const std::string continued = "<s><|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nWell, ";
    EXPECT_EQ(rendered(templates, request), continued);
    request.continue_final = Continue::kContent;
    EXPECT_EQ(rendered(templates, request), continued);
    request.add_generation_prompt = true;
    EXPECT_EQ(rendered(templates, request).substr(0, 22), "error: Cannot set both");
    request.continue_final = Continue::kNo;
    request.add_generation_prompt = false;
    EXPECT_EQ(rendered(templates, request),
              "<s><|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nWell, <|im_end|>\n");
    request.add_generation_prompt.reset();
    request.prefill_assistant = false;
    EXPECT_EQ(rendered(templates, request),
              "<s><|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nWell, <|im_end|>\n<|im_start|>assistant\n");
}

TEST(Chat, ClientMistakesHaveTheirMessages) {
    const Templates templates = made(source_with(kChatml));
    const auto error_of = [&](const Json& messages) {
        Request request;
        request.messages = messages;
        return rendered(templates, request);
    };
    EXPECT_EQ(error_of(Json()), "error: 'messages' is required");
    EXPECT_EQ(error_of("x"), "error: Expected 'messages' to be an array");
    EXPECT_EQ(error_of(Json::array({123})), "error: Expected every message to be an object, but got number");
    EXPECT_EQ(error_of(Json::array({Json::object()})), "error: Missing 'role' in a message");
    EXPECT_EQ(error_of(Json::array({Json{{"role", 1}, {"content", "x"}}})),
              "error: 'role' of a message must be a string");
    EXPECT_EQ(error_of(Json::array({Json{{"role", "user"}}})),
              "error: All non-assistant messages must contain 'content'");
    EXPECT_EQ(error_of(Json::array({Json{{"role", "assistant"}}})),
              "error: Assistant message must contain either 'content' or 'tool_calls'!");
    EXPECT_EQ(error_of(Json::array({message("user", 3)})), "error: Expected 'content' to be a string or an array");
    EXPECT_EQ(error_of(Json::array({message("user", Json::array({Json{{"type", "smell"}}}))})),
              "error: unsupported content[].type: 'smell'");
    EXPECT_EQ(error_of(Json::array({message("user", "x"), message("assistant", "a"), message("assistant", "b")})),
              "error: Cannot have 2 or more assistant messages at the end of the list.");
    EXPECT_EQ(error_of(Json::array()), "<s><|im_start|>assistant\n");
    Request request = chat({message("user", "x")});
    request.kwargs["enable_thinking"] = "yes";
    EXPECT_EQ(rendered(templates, request),
              "error: invalid type for \"enable_thinking\" (expected boolean, got string)");
    request.kwargs = Json::object();
    request.tools = 3;
    EXPECT_EQ(rendered(templates, request), "error: Failed to parse tools: expected an array, but got number");
}

TEST(Chat, ATemplateWithoutToolsIsTold) {
    const Templates templates = made(source_with(kChatml));
    EXPECT_FALSE(templates.abilities().tools);
    Request request = chat({message("user", "Weather?")});
    request.tools = weather_tools();
    const Result<Prompt> prompt = templates.render(request);
    ASSERT_TRUE(prompt.has_value());
    EXPECT_NE(prompt->text.find("get_weather"), std::string::npos);
    EXPECT_EQ(prompt->syntax.name(), "hermes");
    request.tool_choice = ToolChoice::kNone;
    const Result<Prompt> none = templates.render(request);
    ASSERT_TRUE(none.has_value());
    EXPECT_EQ(none->text.find("get_weather"), std::string::npos);
    EXPECT_EQ(none->syntax.calls, nullptr);
}

TEST(Chat, ArgumentsComeAsTheTemplateWantsThem) {
    const auto prompt_of = [&](const std::string& name) {
        Source source = source_with(golden_template(name));
        if (source.model_template.empty()) {
            return std::string();
        }
        Request request = chat({message("user", "Weather?")});
        request.messages.push_back(Json{
            {"role", "assistant"},
            {"content", nullptr},
            {"tool_calls",
             Json::array({Json{{"id", "call00001"},
                               {"type", "function"},
                               {"function", {{"name", "get_weather"}, {"arguments", "{\"city\": \"Oslo\"}"}}}}})}});
        request.messages.push_back(Json{{"role", "tool"}, {"tool_call_id", "call00001"}, {"content", "cold"}});
        request.tools = weather_tools();
        return rendered(made(std::move(source)), request);
    };
    const std::string qwen = prompt_of("Qwen-Qwen3-0.6B");
    if (qwen.empty()) {
        GTEST_SKIP() << "the shared templates are missing";
    }
    EXPECT_NE(qwen.find("{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}"), std::string::npos) << qwen;
    // This one adds the arguments to a string: an object would be an error.
    const std::string functionary = prompt_of("meetkai-functionary-medium-v3.2");
    EXPECT_NE(functionary.find("get_weather\n{\"city\": \"Oslo\"}"), std::string::npos) << functionary;
    // This one has no system role and no tools.
    const std::string gemma = prompt_of("google-gemma-2-2b-it");
    EXPECT_NE(gemma.find("<tool_response>\ncold"), std::string::npos) << gemma;
}

struct Known {
    const char* name;
    const char* calls;
    const char* think;
};

TEST(Chat, PublicTemplatesAreRecognised) {
    if (golden_template("Qwen3-Coder").empty()) {
        GTEST_SKIP() << "the shared templates are missing";
    }
    for (const Known& known :
         {Known{"Qwen-Qwen2.5-7B-Instruct", "hermes", ""},
          Known{"Qwen-Qwen3-0.6B", "hermes", "<think>"},
          Known{"Qwen3-Coder", "qwen3-coder", ""},
          Known{"Qwen3.5-4B", "qwen3-coder", "<think>"},
          Known{"meta-llama-Llama-3.1-8B-Instruct", "llama3-json", ""},
          Known{"meta-llama-Llama-3.3-70B-Instruct", "llama3-json", ""},
          Known{"mistralai-Mistral-Nemo-Instruct-2407", "mistral", ""},
          Known{"mistralai-Ministral-3-14B-Reasoning-2512", "mistral", "[THINK]"},
          Known{"meetkai-functionary-medium-v3.1", "functionary-v3.1", ""},
          Known{"meetkai-functionary-medium-v3.2", "functionary-v3.2", ""},
          Known{"openai-gpt-oss-120b", "harmony", ""},
          Known{"deepseek-ai-DeepSeek-V3.2", "dsml-function-calls", "<think>"},
          Known{"deepseek-ai-DeepSeek-V4", "dsml", "<think>"},
          Known{"GLM-4.6", "glm", "<think>"},
          Known{"moonshotai-Kimi-K2", "kimi-k2", ""},
          Known{"MiniMax-M2", "minimax", "<think>"},
          Known{"ByteDance-Seed-OSS", "seed-oss", "<seed:think>"},
          Known{"NVIDIA-Nemotron-Nano-v2", "nemotron-v2", "<think>"},
          Known{"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command-r7b", "<|START_THINKING|>"},
          Known{"Apertus-8B-Instruct", "apertus", "<|inner_prefix|>"},
          Known{"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", ""},
          Known{"ibm-granite-granite-4.0", "hermes", ""}}) {
        SCOPED_TRACE(known.name);
        const Templates templates = made(source_with(golden_template(known.name)));
        Request request = chat({message("user", "Weather?")});
        request.tools = weather_tools();
        const Result<Prompt> prompt = templates.render(request);
        ASSERT_TRUE(prompt.has_value()) << prompt.error().to_string();
        EXPECT_EQ(prompt->syntax.name(), known.calls);
        EXPECT_EQ(prompt->syntax.think == nullptr ? "" : prompt->syntax.think->open, known.think);
        EXPECT_NE(prompt->text.find("get_weather"), std::string::npos);
    }
}

TEST(Chat, FormsOfCallsOfTemplatesThatListNoTools) {
    if (golden_template("Qwen3-Coder").empty()) {
        GTEST_SKIP() << "the shared templates are missing";
    }
    EXPECT_EQ(call_syntax_of(golden_template("llama-cpp-deepseek-r1"))->name, "deepseek-r1");
    EXPECT_EQ(call_syntax_of(golden_template("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"))->name, "deepseek-r1");
    EXPECT_EQ(call_syntax_of(golden_template("deepseek-ai-DeepSeek-V3.1"))->name, "deepseek-v3.1");
}

TEST(Chat, KnowsWhenThePromptOpensThoughts) {
    const std::string text = golden_template("Qwen3.5-4B");
    if (text.empty()) {
        GTEST_SKIP() << "the shared templates are missing";
    }
    const Templates templates = made(source_with(text));
    Request request = chat({message("user", "2+2?")});
    Result<Prompt> prompt = templates.render(request);
    ASSERT_TRUE(prompt.has_value());
    EXPECT_TRUE(prompt->starts_in_reasoning);
    request.reasoning_effort = "none";
    prompt = templates.render(request);
    ASSERT_TRUE(prompt.has_value());
    EXPECT_FALSE(prompt->starts_in_reasoning);
    request.reasoning_effort.clear();
    request.messages.push_back(message("assistant", "It is "));
    prompt = templates.render(request);
    ASSERT_TRUE(prompt.has_value());
    EXPECT_FALSE(prompt->starts_in_reasoning);
    EXPECT_EQ(prompt->text.substr(prompt->text.size() - 16), "</think>\n\nIt is ");
}

TEST(Chat, NamedVariantsAndNames) {
    Source source = source_with(kChatml);
    source.named = {
        {"tool_use", "tools: {% for t in tools %}{{ t.function.name }}{% endfor %}{{ messages[-1].content }}"},
        {"short", "{{ messages[-1].content }}"}};
    Request request = chat({message("user", "U")});
    const Templates usual = made(source);
    EXPECT_EQ(rendered(usual, request).substr(0, 3), "<s>");
    request.tools = weather_tools();
    EXPECT_EQ(rendered(usual, request), "tools: get_weatherU");
    EXPECT_EQ(usual.tool_use(), source.named[0].second);
    request.tools = Json();
    source.chosen = "short";
    EXPECT_EQ(rendered(made(source), request), "U");
    source.chosen = "gemma";
    EXPECT_EQ(rendered(made(source), request), "<start_of_turn>user\nU<end_of_turn>\n<start_of_turn>model\n");
    source.chosen = "Q: {{ messages[0].content }}";
    EXPECT_EQ(rendered(made(source), request), "Q: U");
    EXPECT_TRUE(made(source).tool_use().empty());
}

TEST(Chat, ErrorsOfTemplatesHaveTheirPlace) {
    const Result<Templates> broken = Templates::create(source_with("a\n  {% if %}"));
    ASSERT_FALSE(broken.has_value());
    EXPECT_EQ(broken.error().where, "chat template, line 2, column 9");
    const Result<Prompt> raised =
        made(source_with("{{ messages }}\n{{ raise_exception('no such role') }}")).render(chat({message("user", "x")}));
    ASSERT_FALSE(raised.has_value());
    EXPECT_EQ(raised.error().message, "no such role");
    EXPECT_EQ(raised.error().where, "chat template, line 2, column 19");
}

TEST(Builtin, WithoutJinjaTheFormatIsFoundByItsMarks) {
    Source source = source_with(kChatml);
    source.jinja = false;
    const Templates templates = made(source);
    EXPECT_EQ(templates.description(), "chatml");
    Request request = chat({message("user", "U")});
    EXPECT_EQ(rendered(templates, request), "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n");
    request.tools = weather_tools();
    EXPECT_EQ(rendered(templates, request), "error: tools param requires --jinja flag");
    source.model_template = "{{ messages }}";
    const Result<Templates> unknown = Templates::create(source);
    ASSERT_FALSE(unknown.has_value());
    EXPECT_EQ(unknown.error().message, "the supplied chat template is not supported: {{ messages }}");
}

TEST(Builtin, Formats) {
    const Json messages =
        Json::array({message("system", "S"), message("user", " U "), message("assistant", "A"), message("user", "V")});
    const auto in = [&](const char* name) {
        const Result<std::string> text = format_builtin(name, messages, true);
        return text.has_value() ? *text : "error";
    };
    EXPECT_EQ(in("chatml"),
              "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n U <|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
              "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n");
    EXPECT_EQ(in("llama2-sys"), "[INST] <<SYS>>\nS\n<</SYS>>\n\n U  [/INST]A</s>[INST] V [/INST]");
    EXPECT_EQ(in("mistral-v1"), " [INST] S\n\n U  [/INST] A</s> [INST] V [/INST]");
    EXPECT_EQ(in("mistral-v3"), "[INST] S\n\n U [/INST] A</s>[INST] V[/INST]");
    EXPECT_EQ(in("mistral-v7-tekken"), "[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST] U [/INST]A</s>[INST]V[/INST]");
    EXPECT_EQ(in("gemma"),
              "<start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\n"
              "V<end_of_turn>\n<start_of_turn>model\n");
    EXPECT_EQ(
        in("phi3"),
        "<|system|>\nS<|end|>\n<|user|>\n U <|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nV<|end|>\n<|assistant|>\n");
    EXPECT_EQ(in("llama3").substr(0, 61), "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|star");
    EXPECT_EQ(in("none"), "error");
    for (const std::string_view name : builtin_names()) {
        EXPECT_TRUE(is_builtin(name));
        EXPECT_TRUE(format_builtin(name, messages, true).has_value()) << name;
    }
}

}  // namespace
}  // namespace foresay::chat
