#include "server/api/chat_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "chat/output.h"
#include "server/api/chat_request.h"
#include "server/api/messages.h"
#include "server/api/openai_chat.h"
#include "server/api/parse_grammar.h"
#include "server/api/responses.h"
#include "server/api/tool_grammar.h"

namespace foresay::server {
namespace {

struct Rendered {
    ChatRequest request;
    chat::Prompt prompt;
};

Result<Rendered> render(const App& app, std::string_view body) {
    if (app.templates == nullptr) {
        return error(Code::kUnsupported, "the chat template can't be used: " + app.template_error);
    }
    Rendered rendered;
    FORESAY_TRY(rendered.request, parse_chat(body, app.chat));
    Result<chat::Prompt> prompt = app.templates->render(rendered.request.chat);
    if (!prompt) {
        Error cause = std::move(prompt).error();
        if (cause.code == Code::kCapacity) {
            cause.code = Code::kInvalidArgument;  // a template's limit isn't the context's size
        }
        return cause;
    }
    rendered.prompt = std::move(*prompt);
    return rendered;
}

std::vector<vocab::TokenId> encode_prompt(const vocab::Vocab& vocab, const std::string& prompt) {
    return vocab.encode(prompt, true, true);
}

/// OpenAI's logprobs is a boolean with a count beside it; the native field is the count.
Status convert_logprobs(bool has_tools, JsonIn* object) {
    const bool wants = object->contains("logprobs") && (*object)["logprobs"] == JsonIn(true);
    const bool has_top = object->contains("top_logprobs") && !(*object)["top_logprobs"].is_null();
    if (has_top && !wants) {
        return error(Code::kInvalidArgument, "top_logprobs requires logprobs to be set to true");
    }
    if (wants && has_tools && object->value("stream", JsonIn(false)) == JsonIn(true)) {
        return error(Code::kInvalidArgument, "logprobs is not supported with tools + stream");
    }
    if (object->contains("logprobs") && (*object)["logprobs"].is_boolean()) {
        (*object)["logprobs"] = wants ? (has_top ? (*object)["top_logprobs"] : JsonIn(20)) : JsonIn(0);
    }
    return ok();
}

/// Lets the tasks say the template's marks, and nothing else where a call is asked for.
Status prepare_calls(const App& app, const Rendered& rendered, const std::optional<std::string>& schema,
                     CompletionRequest* completion) {
    const vocab::Vocab& vocab = *app.parse.vocab;
    engine::Request& task = completion->tasks.front();
    for (const std::string& mark : rendered.prompt.syntax.preserved_tokens()) {
        for (const vocab::TokenId id : vocab.encode(mark, false, true)) {
            if (vocab.is_control(id) && !vocab.is_eog(id)) {
                task.shown_tokens.push_back(id);
            }
        }
    }
    task.stop.insert(task.stop.end(), rendered.prompt.stops.begin(), rendered.prompt.stops.end());
    if (rendered.request.callable.is_null() || rendered.prompt.syntax.calls == nullptr) {
        return ok();
    }
    if (!task.sampling.grammar.empty() && !schema) {
        return error(Code::kInvalidArgument, "Cannot use custom grammar constraints with tools.");
    }
    CallRules rules;
    rules.syntax = rendered.prompt.syntax;
    rules.tools = rendered.request.callable;
    rules.is_required = rendered.request.chat.tool_choice == chat::ToolChoice::kRequired;
    rules.is_parallel =
        rendered.request.chat.parallel_tool_calls.value_or(app.templates->abilities().parallel_tool_calls);
    rules.starts_in_reasoning = rendered.prompt.starts_in_reasoning;
    rules.content_schema = schema.value_or("");
    return constrain_calls(rules, vocab, &task.sampling);
}

/// What is to happen when thoughts get long. A template without thoughts has nothing to limit.
Status limit_thoughts(const Rendered& rendered, engine::Request* task) {
    const chat::Syntax& syntax = rendered.prompt.syntax;
    if (rendered.request.reasoning_budget < 0) {
        return ok();
    }
    if (syntax.calls != nullptr && syntax.calls->form == chat::CallForm::kHarmony) {
        return error(Code::kUnsupported,
                     "a thinking budget is not supported for this model: its thoughts end with a "
                     "message of their own, not with a mark");
    }
    if (syntax.think != nullptr) {
        task->sampling.reasoning = {rendered.request.reasoning_budget, std::string(syntax.think->open),
                                    std::string(syntax.think->close), rendered.request.reasoning_budget_message,
                                    rendered.prompt.starts_in_reasoning};
    }
    return ok();
}

struct Prepared {
    CompletionRequest request;
    chat::OutputOptions output;
};

Result<Prepared> prepare(const App& app, const std::string& body) {
    FORESAY_TRY(Rendered rendered, render(app, body));
    JsonIn object;
    FORESAY_CHECK_OK(parse_object(body, &object));
    const bool has_tools = !rendered.request.callable.is_null();
    FORESAY_CHECK_OK(convert_logprobs(has_tools, &object));
    Prepared prepared;
    FORESAY_TRY(prepared.request, parse_fields(object, body, app.parse, GrammarRule::kRefuseBoth));
    std::optional<std::string> schema;
    if (has_tools) {
        FORESAY_TRY(schema, asked_schema(object, body));
    }
    FORESAY_CHECK_OK(prepare_calls(app, rendered, schema, &prepared.request));
    FORESAY_CHECK_OK(limit_thoughts(rendered, &prepared.request.tasks.front()));
    set_prompts(&prepared.request, {encode_prompt(*app.parse.vocab, rendered.prompt.text)});
    prepared.request.reply.chat_format = rendered.prompt.syntax.name();
    prepared.request.reply.reasoning_format = name_of(rendered.request.reasoning_format);
    prepared.output.syntax = rendered.prompt.syntax;
    prepared.output.starts_in_reasoning = rendered.prompt.starts_in_reasoning;
    prepared.output.reasoning_format = rendered.request.reasoning_format;
    prepared.output.parse_calls = rendered.request.parse_calls;
    prepared.output.tools = std::move(rendered.request.chat.tools);
    return prepared;
}

/// What a body of the wrong shape makes the JSON library throw is the client's mistake.
template <typename F>
auto guarded(F f) -> decltype(f()) {
    try {
        return f();
    } catch (const nlohmann::json::exception& e) {
        return error(Code::kInvalidArgument, fmt::format("wrong type in the request: {}", e.what()));
    }
}

std::shared_ptr<const FormatContext> format_of(const std::shared_ptr<App>& app) {
    return {app, &app->format};
}

using Convert = Result<Json> (*)(std::string_view body);

http::HttpReply count_tokens(const App& app, const std::string& body, Convert convert, bool is_openai) {
    const auto prompt = guarded([&]() -> Result<std::string> {
        std::string chat = body;
        if (convert != nullptr) {
            FORESAY_TRY(const Json converted, convert(body));
            chat = dump(converted);
        }
        FORESAY_TRY(Rendered rendered, render(app, chat));
        return std::move(rendered.prompt.text);
    });
    if (!prompt) {
        return error_reply(to_api_error(prompt.error()));
    }
    const size_t n = encode_prompt(*app.parse.vocab, *prompt).size();
    http::HttpReply reply;
    reply.body =
        dump(is_openai ? Json{{"object", "response.input_tokens"}, {"input_tokens", n}} : Json{{"input_tokens", n}});
    return reply;
}

}  // namespace

Result<CompletionRequest> chat_completion(const std::string& body, const std::shared_ptr<App>& app) {
    return guarded([&]() -> Result<CompletionRequest> {
        FORESAY_TRY(Prepared prepared, prepare(*app, body));
        prepared.request.style = make_chat_style(format_of(app), prepared.request.reply, std::move(prepared.output));
        return std::move(prepared.request);
    });
}

Result<CompletionRequest> messages_completion(const std::string& body, const std::shared_ptr<App>& app) {
    return guarded([&]() -> Result<CompletionRequest> {
        FORESAY_TRY(const Json chat, chat_body_of_messages(body));
        FORESAY_TRY(Prepared prepared, prepare(*app, dump(chat)));
        prepared.request.style = make_messages_style(format_of(app), std::move(prepared.output));
        return std::move(prepared.request);
    });
}

Result<CompletionRequest> responses_completion(const std::string& body, const std::shared_ptr<App>& app) {
    return guarded([&]() -> Result<CompletionRequest> {
        FORESAY_TRY(const Json chat, chat_body_of_responses(body));
        FORESAY_TRY(Prepared prepared, prepare(*app, dump(chat)));
        prepared.request.style = make_responses_style(format_of(app), std::move(prepared.output));
        return std::move(prepared.request);
    });
}

http::HttpReply apply_template(const App& app, const std::string& body) {
    const auto rendered = guarded([&] { return render(app, body); });
    if (!rendered) {
        return error_reply(to_api_error(rendered.error()));
    }
    http::HttpReply reply;
    reply.body = dump(Json{{"prompt", rendered->prompt.text}});
    return reply;
}

http::HttpReply count_chat_tokens(const App& app, const std::string& body) {
    return count_tokens(app, body, nullptr, true);
}

http::HttpReply count_responses_tokens(const App& app, const std::string& body) {
    return count_tokens(app, body, chat_body_of_responses, true);
}

http::HttpReply count_messages_tokens(const App& app, const std::string& body) {
    return count_tokens(app, body, chat_body_of_messages, false);
}

}  // namespace foresay::server
