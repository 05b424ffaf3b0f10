#include "server/api/chat_routes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "chat/jinja/template.h"
#include "server/api/chat_parts.h"
#include "server/api/chat_request.h"
#include "server/api/messages.h"
#include "server/api/openai_chat.h"
#include "server/api/responses.h"

namespace foresay::server {
namespace {

struct Rendered {
    ChatRequest chat;
    std::string prompt;
};

Result<Rendered> render(const App& app, std::string_view body) {
    if (app.chat_template == nullptr) {
        return error(Code::kUnsupported, "the chat template can't be used: " + app.chat_template_error);
    }
    Rendered rendered;
    FORESAY_TRY(rendered.chat, parse_chat(body, app.chat));
    const vocab::Vocab& vocab = *app.parse.vocab;
    Json variables = rendered.chat.kwargs;
    variables["messages"] = rendered.chat.messages;
    variables["add_generation_prompt"] = rendered.chat.add_generation_prompt;
    variables["bos_token"] = vocab.bos() == vocab::kNoToken ? std::string() : vocab.piece(vocab.bos(), true);
    variables["eos_token"] = vocab.eos() == vocab::kNoToken ? std::string() : vocab.piece(vocab.eos(), true);
    variables["enable_thinking"] = rendered.chat.enable_thinking;
    if (!rendered.chat.tools.is_null()) {
        variables["tools"] = rendered.chat.tools;
    }
    FORESAY_TRY(rendered.prompt, app.chat_template->render(variables));
    rendered.prompt += rendered.chat.prefill;
    return rendered;
}

/// The template often writes the BOS that the tokenizer would add.
std::vector<vocab::TokenId> encode_prompt(const vocab::Vocab& vocab, const std::string& prompt) {
    auto tokens = vocab.encode(prompt, true, true);
    if (tokens.size() > 1 && vocab.bos() != vocab::kNoToken && tokens[0] == vocab.bos() && tokens[1] == vocab.bos()) {
        tokens.erase(tokens.begin());
    }
    return tokens;
}

ChatParse parser_for(const Rendered& rendered) {
    std::string_view prompt = rendered.prompt;
    prompt = prompt.substr(0, prompt.find_last_not_of(" \n") + 1);
    const bool thinks_first = prompt.ends_with("<think>");
    ChatParse parse = rendered.chat.reasoning_format == "none" ? parse_nothing() : parse_thoughts(thinks_first);
    return rendered.chat.tools.is_null() ? parse : parse_tagged_calls(std::move(parse));
}

struct Prepared {
    CompletionRequest request;
    ChatParse parse;
};

Result<Prepared> prepare(const App& app, const std::string& body) {
    FORESAY_TRY(Rendered rendered, render(app, body));
    if (rendered.chat.tool_choice == "required") {
        return error(Code::kUnsupported, "tool_choice: only \"auto\" and \"none\" are supported yet");
    }
    JsonIn object;
    FORESAY_CHECK_OK(parse_object(body, &object));
    // OpenAI's logprobs is a boolean with a count beside it; the native field is the count.
    const bool wants = object.contains("logprobs") && object["logprobs"] == JsonIn(true);
    const bool has_top = object.contains("top_logprobs") && !object["top_logprobs"].is_null();
    if (has_top && !wants) {
        return error(Code::kInvalidArgument, "top_logprobs requires logprobs to be set to true");
    }
    if (wants && !rendered.chat.tools.is_null() && object.value("stream", JsonIn(false)) == JsonIn(true)) {
        return error(Code::kInvalidArgument, "logprobs is not supported with tools + stream");
    }
    if (object.contains("logprobs") && object["logprobs"].is_boolean()) {
        object["logprobs"] = wants ? (has_top ? object["top_logprobs"] : JsonIn(20)) : JsonIn(0);
    }
    Prepared prepared;
    FORESAY_TRY(prepared.request, parse_fields(object, body, app.parse));
    set_prompts(&prepared.request, {encode_prompt(*app.parse.vocab, rendered.prompt)});
    prepared.parse = parser_for(rendered);
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
        return std::move(rendered.prompt);
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
        prepared.request.style = make_chat_style(format_of(app), prepared.request.reply, std::move(prepared.parse));
        return std::move(prepared.request);
    });
}

Result<CompletionRequest> messages_completion(const std::string& body, const std::shared_ptr<App>& app) {
    return guarded([&]() -> Result<CompletionRequest> {
        FORESAY_TRY(const Json chat, chat_body_of_messages(body));
        FORESAY_TRY(Prepared prepared, prepare(*app, dump(chat)));
        prepared.request.style = make_messages_style(format_of(app), std::move(prepared.parse));
        return std::move(prepared.request);
    });
}

Result<CompletionRequest> responses_completion(const std::string& body, const std::shared_ptr<App>& app) {
    return guarded([&]() -> Result<CompletionRequest> {
        FORESAY_TRY(const Json chat, chat_body_of_responses(body));
        FORESAY_TRY(Prepared prepared, prepare(*app, dump(chat)));
        prepared.request.style = make_responses_style(format_of(app), std::move(prepared.parse));
        return std::move(prepared.request);
    });
}

http::HttpReply apply_template(const App& app, const std::string& body) {
    const auto rendered = guarded([&] { return render(app, body); });
    if (!rendered) {
        return error_reply(to_api_error(rendered.error()));
    }
    http::HttpReply reply;
    reply.body = dump(Json{{"prompt", rendered->prompt}});
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
