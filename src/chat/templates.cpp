#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "chat/builtin.h"
#include "chat/chat.h"
#include "chat/messages.h"

namespace foresay::chat {
namespace {

constexpr const char* kToolUse = "tool_use";

Error invalid(std::string message) {
    return error(Code::kInvalidArgument, std::move(message));
}

/// A template and what it was found to do.
struct Loaded {
    jinja::Template tmpl;
    Abilities abilities;
    bool knows_developer = false;
    const ThinkTags* think = nullptr;
    const CallSyntax* calls = nullptr;
};

Json user(const Json& content) {
    return Json{{"role", "user"}, {"content", content}};
}

Json call(const char* name, const Json& arguments) {
    return Json{{"type", "function"}, {"id", "call00001"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

/// Finds out what a template does by rendering small chats with words that can be looked for.
class Probe {
  public:
    Probe(const jinja::Template& tmpl, const Source& source) : tmpl_(tmpl), source_(source) {}

    Abilities run() const {
        Abilities out;
        const std::string& text = tmpl_.source();
        out.string_content = shows({user("zqneedle")}, "zqneedle");
        const Json parts = Json::array({Json{{"type", "text"}, {"text", "zqneedle"}}});
        // A list that is printed as such isn't understood.
        out.typed_content =
            shows({user(parts)}, "zqneedle") && !shows({user(parts)}, "'text'") && !shows({user(parts)}, "\"text\"");
        out.string_content = out.string_content || !out.typed_content;
        const Json hello = user(content(out, "hi"));
        out.system_role = shows({Json{{"role", "system"}, {"content", content(out, "zqneedle")}}, hello}, "zqneedle");
        Json tool = Json{{"type", "function"},
                         {"function",
                          {{"name", "zqtool"},
                           {"description", "zqtext"},
                           {"parameters",
                            {{"type", "object"},
                             {"properties", {{"zqkey", {{"type", "string"}, {"description", "zqtext"}}}}},
                             {"required", Json::array({"zqkey"})}}}}}};
        const Json tools = Json::array({tool});
        out.tools = shows({hello}, "zqtool", tools) ||
                    shows({Json{{"role", "system"}, {"content", content(out, "hm")}}, hello}, "zqtool", tools);
        const auto calling = [&](const Json& calls) {
            return Json::array(
                {hello, Json{{"role", "assistant"}, {"content", content(out, "")}, {"tool_calls", calls}}});
        };
        const Json object = Json{{"zqkey", "zqvalue"}};
        const Json as_object = calling(Json::array({call("zqcall", object)}));
        const Json as_text = calling(Json::array({call("zqcall", "{\"zqkey\": \"zqvalue\"}")}));
        const bool object_shown = shows(as_object, "zqcall", tools) && shows(as_object, "zqvalue", tools);
        const bool text_shown = shows(as_text, "zqcall", tools) && shows(as_text, "zqvalue", tools);
        // Python's way of printing a dict, and JSON printed as a JSON string, mean that the other kind is meant.
        const bool object_spoilt = shows(as_object, "{'zqkey'", tools);
        out.object_arguments = object_shown && !(object_spoilt && text_shown);
        out.tool_calls = object_shown || text_shown;
        const Json second = out.object_arguments ? Json(object) : Json("{\"zqkey\": \"zqvalue\"}");
        out.parallel_tool_calls =
            out.tool_calls &&
            shows(calling(Json::array({call("zqcall", second), call("zqother", second)})), "zqother", tools);
        out.preserve_reasoning = shows(
            {hello, Json{{"role", "assistant"}, {"content", content(out, "hm")}, {"reasoning_content", "zqneedle"}}},
            "zqneedle");
        out.reasoning_effort = text.find("reasoning_effort") != std::string::npos;
        return out;
    }

  private:
    static Json content(const Abilities& abilities, const char* text) {
        return abilities.string_content ? Json(text) : Json::array({Json{{"type", "text"}, {"text", text}}});
    }

    bool shows(const Json& messages, std::string_view needle, const Json& tools = Json()) const {
        Json variables = Json{{"messages", messages},
                              {"add_generation_prompt", false},
                              {"bos_token", source_.bos_token},
                              {"eos_token", source_.eos_token}};
        if (!tools.is_null()) {
            variables["tools"] = tools;
        }
        jinja::RenderOptions options;
        options.limits.max_steps = 500'000;
        const Result<std::string> text = tmpl_.render(variables, options);
        return text.has_value() && text->find(needle) != std::string::npos;
    }

    bool shows(std::initializer_list<Json> messages, std::string_view needle, const Json& tools = Json()) const {
        Json list = Json::array();
        for (const Json& message : messages) {
            list.push_back(message);
        }
        return shows(list, needle, tools);
    }

    const jinja::Template& tmpl_;
    const Source& source_;
};

Result<Loaded> load(const std::string& text, const Source& source) {
    jinja::ParseOptions options;
    options.generation_tag = true;
    FORESAY_TRY(jinja::Template tmpl, jinja::Template::parse(text, options));
    const Abilities abilities = Probe(tmpl, source).run();
    Loaded loaded{std::move(tmpl), abilities};
    loaded.knows_developer = text.find("developer") != std::string::npos;
    loaded.think = think_tags_of(text);
    loaded.calls = abilities.tools ? call_syntax_of(text) : call_syntax("hermes");
    return loaded;
}

/// Where text ends in an opening mark, blanks behind it aside.
bool ends_in(std::string_view text, std::string_view mark) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
        text.remove_suffix(1);
    }
    return text.size() >= mark.size() && text.substr(text.size() - mark.size()) == mark;
}

/// The last message of the assistant that a prompt goes on with, taken off the list.
struct Prefill {
    bool is_there = false;
    std::string content;
    std::string reasoning;
};

Result<Prefill> take_prefill(const Request& request, Json* messages) {
    const bool asks = request.continue_final != Continue::kNo;
    if (asks && request.add_generation_prompt.value_or(false)) {
        return invalid("Cannot set both 'add_generation_prompt' and 'continue_final_message' to true.");
    }
    const bool ends_with_assistant = !messages->empty() && messages->back()["role"] == "assistant";
    if (!ends_with_assistant) {
        return asks ? Result<Prefill>(invalid("continue_final_message needs a last message of the assistant"))
                    : Result<Prefill>(Prefill{});
    }
    const bool wants = asks || (request.prefill_assistant && request.add_generation_prompt.value_or(true));
    if (!wants) {
        return Prefill{};
    }
    if (messages->size() > 1 && (*messages)[messages->size() - 2]["role"] == "assistant") {
        return invalid("Cannot have 2 or more assistant messages at the end of the list.");
    }
    const Json& last = messages->back();
    if (last.contains("tool_calls")) {
        return asks ? Result<Prefill>(invalid("Cannot continue an assistant message that contains tool calls."))
                    : Result<Prefill>(Prefill{});
    }
    Prefill prefill;
    prefill.is_there = true;
    prefill.content = last["content"].get<std::string>();
    prefill.reasoning = last.value("reasoning_content", std::string());
    messages->erase(messages->end() - 1);
    return prefill;
}

/// Appends a prefill behind a generation prompt: thoughts between their marks, then the content.
void append_prefill(const Prefill& prefill, bool in_reasoning, const ThinkTags* think, Prompt* prompt) {
    std::string& text = prompt->text;
    if (in_reasoning && think != nullptr) {
        if (!prompt->starts_in_reasoning) {
            text.append(think->open).append("\n");
        }
        text += prefill.reasoning;
        prompt->starts_in_reasoning = true;
        return;
    }
    if (think != nullptr && (prompt->starts_in_reasoning || !prefill.reasoning.empty())) {
        if (!prompt->starts_in_reasoning) {
            text.append(think->open).append("\n");
        }
        text.append(prefill.reasoning).append("\n").append(think->close).append("\n\n");
        prompt->starts_in_reasoning = false;
    }
    text += prefill.content;
}

}  // namespace

Json Abilities::to_json() const {
    return Json{{"supports_tools", tools},
                {"supports_tool_calls", tool_calls},
                {"supports_parallel_tool_calls", parallel_tool_calls},
                {"supports_system_role", system_role},
                {"supports_string_content", string_content},
                {"supports_typed_content", typed_content},
                {"supports_object_arguments", object_arguments},
                {"supports_preserve_reasoning", preserve_reasoning},
                {"supports_reasoning_effort", reasoning_effort}};
}

Status check_kwargs(std::string_view text) {
    const Json parsed = Json::parse(text.begin(), text.end(), nullptr, false);
    return parsed.is_object() ? ok() : Status(invalid("must be a JSON object"));
}

struct Templates::Impl {
    Source source;
    std::optional<Loaded> usual;
    std::optional<Loaded> tool_use;
    std::string builtin;  ///< not empty: no template but this format
    std::string description;
    Abilities builtin_abilities;

    Result<Json> variables(const Request& request, const Loaded& loaded, const Json& messages, const Json& tools) const;
    Result<Prompt> render_template(const Request& request, Json messages, Json tools) const;
    Result<Prompt> render_builtin(const Request& request, Json messages, const Json& tools) const;
    void strip_bos(std::string* text) const;
};

Templates::Templates(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Templates::Templates(Templates&&) noexcept = default;
Templates& Templates::operator=(Templates&&) noexcept = default;
Templates::~Templates() = default;

Result<Templates> Templates::create(Source source) {
    auto impl = std::make_unique<Impl>();
    std::string text = source.model_template;
    if (!source.chosen.empty()) {
        const auto named = std::find_if(source.named.begin(), source.named.end(),
                                        [&](const auto& variant) { return variant.first == source.chosen; });
        text = named != source.named.end() ? named->second : source.chosen;
    }
    if (!source.kwargs.is_object()) {
        return invalid("chat_template_kwargs must be a JSON object");
    }
    if (is_builtin(text)) {
        impl->builtin = text;
    } else if (text.empty()) {
        impl->builtin = "chatml";  // the widest understood
    } else if (!source.jinja) {
        impl->builtin = builtin_for(text);
        if (impl->builtin.empty()) {
            return error(Code::kUnsupported,
                         fmt::format("the supplied chat template is not supported: {}", text.substr(0, 200)),
                         "--chat-template", "leave out --no-jinja, or name a built-in format");
        }
    }
    if (!impl->builtin.empty()) {
        impl->description = impl->builtin;
        impl->builtin_abilities.string_content = true;
        impl->builtin_abilities.system_role = true;
    } else {
        FORESAY_TRY(impl->usual, load(text, source));
        impl->description = text;
        const auto variant =
            std::find_if(source.named.begin(), source.named.end(), [](const auto& v) { return v.first == kToolUse; });
        if (source.chosen.empty() && variant != source.named.end()) {
            FORESAY_TRY(impl->tool_use, load(variant->second, source));
        }
    }
    impl->source = std::move(source);
    return Templates(std::move(impl));
}

const Abilities& Templates::abilities() const {
    if (impl_->tool_use.has_value()) {
        return impl_->tool_use->abilities;
    }
    return impl_->usual.has_value() ? impl_->usual->abilities : impl_->builtin_abilities;
}

const std::string& Templates::description() const {
    return impl_->description;
}

std::string_view Templates::tool_use() const {
    return impl_->tool_use.has_value() ? std::string_view(impl_->tool_use->tmpl.source()) : std::string_view();
}

bool Templates::uses_jinja() const {
    return impl_->usual.has_value();
}

void Templates::Impl::strip_bos(std::string* text) const {
    const std::string& bos = source.bos_token;
    if (source.adds_bos && !bos.empty() && text->compare(0, bos.size(), bos) == 0) {
        text->erase(0, bos.size());
    }
}

Result<Json> Templates::Impl::variables(const Request& request, const Loaded& loaded, const Json& messages,
                                        const Json& tools) const {
    Json out = Json{{"messages", messages},
                    {"bos_token", source.bos_token},
                    {"eos_token", source.eos_token},
                    {"add_generation_prompt", request.add_generation_prompt.value_or(true)}};
    if (!tools.is_null()) {
        out["tools"] = tools;
    }
    if (request.parallel_tool_calls.has_value()) {
        out["parallel_tool_calls"] = *request.parallel_tool_calls;
    }
    std::optional<bool> thinking = request.enable_thinking;
    if (!request.reasoning_effort.empty() && request.reasoning_effort != "none") {
        out["reasoning_effort"] = request.reasoning_effort;
    } else if (request.reasoning_effort == "none") {
        thinking = false;
    }
    if (thinking.has_value()) {
        out["enable_thinking"] = *thinking;
        if (loaded.tmpl.source().find("thinking is defined") != std::string::npos) {
            out["thinking"] = *thinking;  // DeepSeek's and Kimi's name for it
        }
    }
    for (const Json* kwargs : {&source.kwargs, &request.kwargs}) {
        for (const auto& item : kwargs->items()) {
            out[item.key()] = item.value();
        }
    }
    if (out.contains("enable_thinking") && !out["enable_thinking"].is_boolean()) {
        return invalid(fmt::format("invalid type for \"enable_thinking\" (expected boolean, got {})",
                                   out["enable_thinking"].type_name()));
    }
    return out;
}

Result<Prompt> Templates::Impl::render_template(const Request& request, Json messages, Json tools) const {
    FORESAY_TRY(const Prefill prefill, take_prefill(request, &messages));
    Request effective = request;
    if (prefill.is_there) {
        effective.add_generation_prompt = true;
    }
    const bool has_tools = !tools.is_null();
    const Loaded& loaded = has_tools && tool_use.has_value() ? *tool_use : *usual;
    messages = adapted(std::move(messages), &tools, loaded.abilities, loaded.knows_developer);
    FORESAY_TRY(const Json all, variables(effective, loaded, messages, tools));
    Prompt prompt;
    FORESAY_TRY(prompt.text, loaded.tmpl.render(all));
    strip_bos(&prompt.text);
    prompt.syntax.think = loaded.think;
    prompt.syntax.calls = has_tools && request.tool_choice != ToolChoice::kNone ? loaded.calls : nullptr;
    if (loaded.calls->form == CallForm::kHarmony) {
        prompt.syntax.calls = loaded.calls;  // its channels are there without tools as well
    }
    prompt.starts_in_reasoning = loaded.think != nullptr && ends_in(prompt.text, loaded.think->open);
    if (prefill.is_there) {
        append_prefill(prefill, request.continue_final == Continue::kReasoning, loaded.think, &prompt);
    }
    return prompt;
}

Result<Prompt> Templates::Impl::render_builtin(const Request& request, Json messages, const Json& tools) const {
    if (!tools.is_null()) {
        return invalid(source.jinja
                           ? fmt::format("the built-in chat format '{}' has no tools: give a Jinja template", builtin)
                           : "tools param requires --jinja flag");
    }
    FORESAY_TRY(const Prefill prefill, take_prefill(request, &messages));
    Json none;
    messages = adapted(std::move(messages), &none, builtin_abilities, false);
    Prompt prompt;
    FORESAY_TRY(prompt.text,
                format_builtin(builtin, messages, prefill.is_there || request.add_generation_prompt.value_or(true)));
    strip_bos(&prompt.text);
    prompt.text += prefill.content;
    return prompt;
}

Result<Prompt> Templates::render(const Request& request) const {
    if (!request.kwargs.is_object()) {
        return invalid("chat_template_kwargs must be a JSON object");
    }
    FORESAY_TRY(Json messages, checked_messages(request.messages));
    FORESAY_TRY(Json tools, checked_tools(request.tools));
    if (request.tool_choice == ToolChoice::kNone) {
        tools = Json();
    }
    return impl_->usual.has_value() ? impl_->render_template(request, std::move(messages), std::move(tools))
                                    : impl_->render_builtin(request, std::move(messages), tools);
}

}  // namespace foresay::chat
