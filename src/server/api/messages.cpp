#include "server/api/messages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace foresay::server {
namespace {

Error refuse(std::string message) {
    return error(Code::kInvalidArgument, std::move(message));
}

/// Text of a string or of a list of text blocks.
Result<std::string> text_of(const Json& content, const char* field) {
    if (content.is_string()) {
        return content.get<std::string>();
    }
    if (!content.is_array()) {
        return refuse(fmt::format("Field '{}': must be a string or a list of blocks", field));
    }
    std::string text;
    for (const Json& block : content) {
        if (!block.is_object() || block.value("type", "") != "text" || !block.contains("text") ||
            !block["text"].is_string()) {
            return refuse(fmt::format("Field '{}': only blocks of type text are supported here", field));
        }
        text += text.empty() ? "" : "\n";
        text += block["text"].get_ref<const std::string&>();
    }
    return text;
}

/// One message may become several: results of tools are messages of their own.
Status add_message(const Json& message, Json* out) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
        !message.contains("content")) {
        return refuse("Field 'messages': each needs 'role' and 'content'");
    }
    const Json& content = message["content"];
    if (!content.is_array()) {
        out->push_back({{"role", message["role"]}, {"content", content}});
        return ok();
    }
    std::string text;
    std::string thoughts;
    Json calls = Json::array();
    for (const Json& block : content) {
        const std::string type = block.is_object() ? block.value("type", "") : "";
        if (type == "text" && block.contains("text") && block["text"].is_string()) {
            text += text.empty() ? "" : "\n";
            text += block["text"].get_ref<const std::string&>();
        } else if (type == "thinking" && block.contains("thinking") && block["thinking"].is_string()) {
            thoughts += block["thinking"].get<std::string>();
        } else if (type == "tool_use" && block.contains("name") && block["name"].is_string()) {
            calls.push_back(
                {{"id", block.value("id", "")},
                 {"type", "function"},
                 {"function", {{"name", block["name"]}, {"arguments", dump(block.value("input", Json::object()))}}}});
        } else if (type == "tool_result") {
            FORESAY_TRY(std::string result, text_of(block.value("content", Json("")), "messages[].content[].content"));
            out->push_back(
                {{"role", "tool"}, {"tool_call_id", block.value("tool_use_id", "")}, {"content", std::move(result)}});
        } else {
            return refuse(fmt::format("Field 'messages': block type '{}' is not supported", type.substr(0, 64)));
        }
    }
    if (text.empty() && calls.empty() && thoughts.empty()) {
        return ok();
    }
    Json plain = {{"role", message["role"]}, {"content", text}};
    if (!thoughts.empty()) {
        plain["reasoning_content"] = thoughts;
    }
    if (!calls.empty()) {
        plain["tool_calls"] = std::move(calls);
    }
    out->push_back(std::move(plain));
    return ok();
}

Status add_tools(const Json& body, Json* chat) {
    if (body.contains("tools") && !body["tools"].is_null()) {
        if (!body["tools"].is_array()) {
            return refuse("Field 'tools': must be a list");
        }
        Json tools = Json::array();
        for (const Json& tool : body["tools"]) {
            if (!tool.is_object() || !tool.contains("name") || !tool["name"].is_string()) {
                return refuse("Field 'tools': each needs a 'name'");
            }
            tools.push_back({{"type", "function"},
                             {"function",
                              {{"name", tool["name"]},
                               {"description", tool.value("description", Json(""))},
                               {"parameters", tool.value("input_schema", Json::object())}}}});
        }
        (*chat)["tools"] = std::move(tools);
    }
    if (!body.contains("tool_choice") || body["tool_choice"].is_null()) {
        return ok();
    }
    const std::string type = body["tool_choice"].is_object() ? body["tool_choice"].value("type", "") : "";
    if (type == "auto" || type == "none") {
        (*chat)["tool_choice"] = type;
    } else if (type == "any") {
        (*chat)["tool_choice"] = "required";
    } else if (type == "tool") {
        (*chat)["tool_choice"] = {{"type", "function"},
                                  {"function", {{"name", body["tool_choice"].value("name", "")}}}};
    } else {
        return refuse("Field 'tool_choice': type must be auto, any, tool or none");
    }
    return ok();
}

const char* stop_reason(const Completed& completed, const chat::Message& message) {
    if (!message.calls.empty()) {
        return "tool_use";
    }
    switch (completed.result->stop_type) {
        case engine::StopType::kEos:
            return "end_turn";
        case engine::StopType::kWord:
            return "stop_sequence";
        default:
            return "max_tokens";
    }
}

class MessagesStyle final : public ReplyStyle {
  public:
    MessagesStyle(std::shared_ptr<const FormatContext> context, chat::OutputOptions output)
        : context_(std::move(context)), parser_(std::move(output)), id_(random_id("msg_")) {}

    std::string partial(const Partial& partial, const engine::Request& request) override {
        std::string events = begin(static_cast<int64_t>(request.prompt.size()));
        add(parser_.push(partial.content), &events);
        return events;
    }

    std::string final_event(const Completed& completed) override {
        std::string events = begin(static_cast<int64_t>(completed.request->prompt.size()));
        add(parser_.finish(), &events);
        close(&events);
        events += event("message_delta", {{"delta",
                                           {{"stop_reason", stop_reason(completed, parser_.message())},
                                            {"stop_sequence", stop_sequence(completed)}}},
                                          {"usage", usage(completed)}});
        return events + event("message_stop", Json::object());
    }

    std::string error_event(const ApiError& error) override {
        return event("error", {{"error", {{"type", error.type}, {"message", error.message}}}});
    }

    Json whole(const std::vector<Completed>& choices) override {
        const Completed& completed = choices.front();
        parser_.push(completed.content);
        parser_.finish();
        const chat::Message& message = parser_.message();
        Json content = Json::array();
        if (!message.reasoning.empty()) {
            content.push_back({{"type", "thinking"}, {"thinking", message.reasoning}, {"signature", ""}});
        }
        if (!message.content.empty()) {
            content.push_back({{"type", "text"}, {"text", message.content}});
        }
        for (const chat::Call& call : message.calls) {
            content.push_back({{"type", "tool_use"},
                               {"id", call.id},
                               {"name", call.name},
                               {"input", parse_ordered(call.arguments).value_or(Json::object())}});
        }
        return {{"id", id_},
                {"type", "message"},
                {"role", "assistant"},
                {"content", std::move(content)},
                {"model", context_->model_name},
                {"stop_reason", stop_reason(completed, message)},
                {"stop_sequence", stop_sequence(completed)},
                {"usage", usage(completed)}};
    }

  private:
    enum class Block { kNone, kThinking, kText, kTool };

    static std::string event(const char* name, const Json& data) {
        Json typed = {{"type", name}};
        typed.update(data);
        return std::string("event: ") + name + "\n" + sse(typed);
    }

    static Json stop_sequence(const Completed& completed) {
        return completed.result->stop_type == engine::StopType::kWord ? Json(completed.result->stopping_word)
                                                                      : Json(nullptr);
    }

    static Json usage(const Completed& completed) {
        const engine::Timings& t = completed.result->timings;
        return {{"input_tokens", static_cast<int64_t>(completed.request->prompt.size()) - t.cache_n},
                {"cache_read_input_tokens", t.cache_n},
                {"output_tokens", t.predicted_n}};
    }

    std::string begin(int64_t n_prompt) {
        if (std::exchange(begun_, true)) {
            return {};
        }
        return event("message_start", {{"message",
                                        {{"id", id_},
                                         {"type", "message"},
                                         {"role", "assistant"},
                                         {"content", Json::array()},
                                         {"model", context_->model_name},
                                         {"stop_reason", nullptr},
                                         {"stop_sequence", nullptr},
                                         {"usage", {{"input_tokens", n_prompt}, {"output_tokens", 0}}}}}});
    }

    void open(Block block, Json content, std::string* events) {
        close(events);
        block_ = block;
        *events += event("content_block_start", {{"index", index_}, {"content_block", std::move(content)}});
    }

    void close(std::string* events) {
        if (block_ != Block::kNone) {
            *events += event("content_block_stop", {{"index", index_++}});
            block_ = Block::kNone;
        }
    }

    void grow(Json delta, std::string* events) const {
        *events += event("content_block_delta", {{"index", index_}, {"delta", std::move(delta)}});
    }

    void add(const std::vector<chat::Delta>& deltas, std::string* events) {
        for (const chat::Delta& delta : deltas) {
            switch (delta.kind) {
                case chat::Delta::Kind::kReasoning:
                    if (block_ != Block::kThinking) {
                        open(Block::kThinking, {{"type", "thinking"}, {"thinking", ""}}, events);
                    }
                    grow({{"type", "thinking_delta"}, {"thinking", delta.text}}, events);
                    break;
                case chat::Delta::Kind::kContent:
                    if (block_ != Block::kText) {
                        open(Block::kText, {{"type", "text"}, {"text", ""}}, events);
                    }
                    grow({{"type", "text_delta"}, {"text", delta.text}}, events);
                    break;
                case chat::Delta::Kind::kCall:
                    open(Block::kTool,
                         {{"type", "tool_use"}, {"id", delta.id}, {"name", delta.name}, {"input", Json::object()}},
                         events);
                    break;
                case chat::Delta::Kind::kArguments:
                    grow({{"type", "input_json_delta"}, {"partial_json", delta.text}}, events);
                    break;
            }
        }
    }

    std::shared_ptr<const FormatContext> context_;
    chat::OutputParser parser_;
    std::string id_;
    Block block_ = Block::kNone;
    int index_ = 0;
    bool begun_ = false;
};

}  // namespace

Result<Json> chat_body_of_messages(std::string_view body) {
    FORESAY_TRY(Json in, parse_ordered(body));
    Json chat = Json::object();
    // Fields of the native API pass through: speculation, sampling and limits work here too.
    for (auto it = in.begin(); it != in.end(); ++it) {
        const std::string& key = it.key();
        if (key != "messages" && key != "system" && key != "tools" && key != "tool_choice" && key != "stop_sequences" &&
            key != "thinking" && key != "metadata" && key != "n") {
            chat[key] = it.value();
        }
    }
    if (!chat.contains("max_tokens")) {
        chat["max_tokens"] = 4096;
    }
    Json messages = Json::array();
    if (in.contains("system") && !in["system"].is_null()) {
        FORESAY_TRY(std::string system, text_of(in["system"], "system"));
        messages.push_back({{"role", "system"}, {"content", std::move(system)}});
    }
    if (!in.contains("messages") || !in["messages"].is_array()) {
        return refuse("'messages' is required");
    }
    for (const Json& message : in["messages"]) {
        FORESAY_CHECK_OK(add_message(message, &messages));
    }
    chat["messages"] = std::move(messages);
    FORESAY_CHECK_OK(add_tools(in, &chat));
    if (in.contains("stop_sequences")) {
        chat["stop"] = in["stop_sequences"];
    }
    if (in.contains("thinking") && in["thinking"].is_object()) {
        chat["chat_template_kwargs"]["enable_thinking"] = in["thinking"].value("type", "") == "enabled";
        if (in["thinking"].contains("budget_tokens")) {
            chat["reasoning_budget_tokens"] = in["thinking"]["budget_tokens"];
        }
    }
    return chat;
}

std::unique_ptr<ReplyStyle> make_messages_style(std::shared_ptr<const FormatContext> context,
                                                chat::OutputOptions output) {
    return std::make_unique<MessagesStyle>(std::move(context), std::move(output));
}

}  // namespace foresay::server
