#include "server/api/responses.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace foresay::server {
namespace {

Error refuse(std::string message) {
    return error(Code::kInvalidArgument, std::move(message));
}

Status add_item(const Json& item, Json* messages) {
    if (!item.is_object()) {
        return refuse("Field 'input': each item must be an object");
    }
    const std::string type = item.value("type", "message");
    if (type == "message" && item.contains("role") && item.contains("content")) {
        const bool is_developer = item["role"] == "developer";
        messages->push_back({{"role", is_developer ? Json("system") : item["role"]}, {"content", item["content"]}});
    } else if (type == "function_call" && item.contains("name")) {
        messages->push_back(
            {{"role", "assistant"},
             {"content", ""},
             {"tool_calls",
              Json::array({{{"id", item.value("call_id", "")},
                            {"type", "function"},
                            {"function", {{"name", item["name"]}, {"arguments", item.value("arguments", "{}")}}}}})}});
    } else if (type == "function_call_output" && item.contains("output")) {
        messages->push_back(
            {{"role", "tool"}, {"tool_call_id", item.value("call_id", "")}, {"content", item["output"]}});
    } else if (type != "reasoning") {  // thoughts of earlier turns aren't shown to the model again
        return refuse(fmt::format("Field 'input': item type '{}' is not supported", type.substr(0, 64)));
    }
    return ok();
}

Status add_tools(const Json& in, Json* chat) {
    if (!in.contains("tools") || in["tools"].is_null()) {
        return ok();
    }
    if (!in["tools"].is_array()) {
        return refuse("Field 'tools': must be a list");
    }
    Json tools = Json::array();
    for (const Json& tool : in["tools"]) {
        if (!tool.is_object() || tool.value("type", "") != "function" || !tool.contains("name")) {
            return refuse("Field 'tools': only tools of type function, with a name, are supported");
        }
        tools.push_back({{"type", "function"},
                         {"function",
                          {{"name", tool["name"]},
                           {"description", tool.value("description", Json(""))},
                           {"parameters", tool.value("parameters", Json::object())}}}});
    }
    (*chat)["tools"] = std::move(tools);
    // {"type": "function", "name": N}, where the chat routes have the name one level deeper.
    if (const auto choice = in.find("tool_choice");
        choice != in.end() && choice->is_object() && choice->contains("name")) {
        (*chat)["tool_choice"] = {{"type", "function"}, {"function", {{"name", (*choice)["name"]}}}};
    }
    return ok();
}

class ResponsesStyle final : public ReplyStyle {
  public:
    ResponsesStyle(std::shared_ptr<const FormatContext> context, chat::OutputOptions output)
        : context_(std::move(context)), parser_(std::move(output)), who_(ReplyIdentity::make("resp_", *context_)) {}

    std::string partial(const Partial& partial, const engine::Request&) override {
        std::string events = begin();
        add(parser_.push(partial.content), &events);
        return events;
    }

    std::string final_event(const Completed& completed) override {
        std::string events = begin();
        add(parser_.finish(), &events);
        close(&events);
        Json response = response_of(is_cut(completed) ? "incomplete" : "completed", items_);
        response["usage"] = usage(completed);
        if (is_cut(completed)) {
            response["incomplete_details"] = {{"reason", "max_output_tokens"}};
        }
        return events + event("response.completed", {{"response", std::move(response)}});
    }

    Json whole(const std::vector<Completed>& choices) override {
        const Completed& completed = choices.front();
        std::string unused;
        add(parser_.push(completed.content), &unused);
        add(parser_.finish(), &unused);
        close(&unused);
        Json response = response_of(is_cut(completed) ? "incomplete" : "completed", items_);
        response["usage"] = usage(completed);
        if (is_cut(completed)) {
            response["incomplete_details"] = {{"reason", "max_output_tokens"}};
        }
        return response;
    }

  private:
    enum class Item { kNone, kReasoning, kMessage, kCall };

    std::string event(const char* name, Json data) {
        Json typed = {{"type", name}, {"sequence_number", sequence_++}};
        typed.update(data);
        return std::string("event: ") + name + "\n" + sse(typed);
    }

    static bool is_cut(const Completed& completed) { return completed.result->stop_type == engine::StopType::kLimit; }

    static Json usage(const Completed& completed) {
        const engine::Timings& t = completed.result->timings;
        const auto n_prompt = static_cast<int64_t>(completed.request->prompt.size());
        return {{"input_tokens", n_prompt},
                {"input_tokens_details", {{"cached_tokens", t.cache_n}}},
                {"output_tokens", t.predicted_n},
                {"output_tokens_details", {{"reasoning_tokens", 0}}},
                {"total_tokens", n_prompt + t.predicted_n}};
    }

    Json response_of(const char* status, Json output) const {
        return {{"id", who_.id},
                {"object", "response"},
                {"created_at", who_.created},
                {"model", who_.model},
                {"status", status},
                {"output", std::move(output)},
                {"parallel_tool_calls", true},
                {"tool_choice", "auto"},
                {"tools", Json::array()}};
    }

    std::string begin() {
        if (std::exchange(begun_, true)) {
            return {};
        }
        std::string events = event("response.created", {{"response", response_of("in_progress", Json::array())}});
        return events + event("response.in_progress", {{"response", response_of("in_progress", Json::array())}});
    }

    void open(Item kind, const chat::Delta* call, std::string* events) {
        close(events);
        kind_ = kind;
        value_.clear();
        Json item;
        if (kind == Item::kReasoning) {
            item = {{"type", "reasoning"},
                    {"id", random_id("rs_")},
                    {"summary", Json::array()},
                    {"content", Json::array()}};
        } else if (kind == Item::kMessage) {
            item = {{"type", "message"},
                    {"id", random_id("msg_")},
                    {"role", "assistant"},
                    {"status", "in_progress"},
                    {"content", Json::array()}};
        } else {
            item = {{"type", "function_call"}, {"id", random_id("fc_")},  {"call_id", call->id},
                    {"name", call->name},      {"status", "in_progress"}, {"arguments", ""}};
        }
        item_ = item;
        *events += event("response.output_item.added", {{"output_index", items_.size()}, {"item", std::move(item)}});
        if (kind == Item::kMessage) {
            *events += event("response.content_part.added", at({{"content_index", 0}, {"part", part("")}}));
        }
    }

    static Json part(const std::string& text) {
        return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}};
    }

    Json at(Json data) const {
        data["item_id"] = item_["id"];
        data["output_index"] = items_.size();
        return data;
    }

    void close(std::string* events) {
        switch (std::exchange(kind_, Item::kNone)) {
            case Item::kNone:
                return;
            case Item::kReasoning:
                *events += event("response.reasoning_text.done", at({{"content_index", 0}, {"text", value_}}));
                item_["content"] = Json::array({{{"type", "reasoning_text"}, {"text", value_}}});
                break;
            case Item::kMessage:
                *events += event("response.output_text.done", at({{"content_index", 0}, {"text", value_}}));
                *events += event("response.content_part.done", at({{"content_index", 0}, {"part", part(value_)}}));
                item_["content"] = Json::array({part(value_)});
                item_["status"] = "completed";
                break;
            case Item::kCall:
                *events += event("response.function_call_arguments.done", at({{"arguments", value_}}));
                item_["arguments"] = value_;
                item_["status"] = "completed";
                break;
        }
        *events += event("response.output_item.done", {{"output_index", items_.size()}, {"item", item_}});
        items_.push_back(std::move(item_));
    }

    void grow(const char* name, const std::string& delta, std::string* events) {
        value_ += delta;
        *events += event(name, at({{"content_index", 0}, {"delta", delta}}));
    }

    void add(const std::vector<chat::Delta>& deltas, std::string* events) {
        for (const chat::Delta& delta : deltas) {
            switch (delta.kind) {
                case chat::Delta::Kind::kReasoning:
                    if (kind_ != Item::kReasoning) {
                        open(Item::kReasoning, nullptr, events);
                    }
                    grow("response.reasoning_text.delta", delta.text, events);
                    break;
                case chat::Delta::Kind::kContent:
                    if (kind_ != Item::kMessage) {
                        open(Item::kMessage, nullptr, events);
                    }
                    grow("response.output_text.delta", delta.text, events);
                    break;
                case chat::Delta::Kind::kCall:
                    open(Item::kCall, &delta, events);
                    break;
                case chat::Delta::Kind::kArguments:
                    grow("response.function_call_arguments.delta", delta.text, events);
                    break;
            }
        }
    }

    std::shared_ptr<const FormatContext> context_;
    chat::OutputParser parser_;
    ReplyIdentity who_;
    Json items_ = Json::array();
    Json item_;
    std::string value_;  ///< text or arguments of the open item
    Item kind_ = Item::kNone;
    int sequence_ = 0;
    bool begun_ = false;
};

}  // namespace

Result<Json> chat_body_of_responses(std::string_view body) {
    FORESAY_TRY(Json in, parse_ordered(body));
    if (in.contains("previous_response_id") && !in["previous_response_id"].is_null()) {
        return refuse("Field 'previous_response_id': responses aren't stored; send the whole input");
    }
    Json chat = Json::object();
    for (auto it = in.begin(); it != in.end(); ++it) {
        const std::string& key = it.key();
        if (key != "input" && key != "instructions" && key != "tools" && key != "max_output_tokens" &&
            key != "reasoning" && key != "text" && key != "n" && key != "store" && key != "include") {
            chat[key] = it.value();
        }
    }
    Json messages = Json::array();
    if (in.contains("instructions") && in["instructions"].is_string()) {
        messages.push_back({{"role", "system"}, {"content", in["instructions"]}});
    }
    if (!in.contains("input") || !(in["input"].is_string() || in["input"].is_array())) {
        return refuse("Field 'input': must be a string or a list of items");
    }
    if (in["input"].is_string()) {
        messages.push_back({{"role", "user"}, {"content", in["input"]}});
    } else {
        for (const Json& item : in["input"]) {
            FORESAY_CHECK_OK(add_item(item, &messages));
        }
    }
    chat["messages"] = std::move(messages);
    FORESAY_CHECK_OK(add_tools(in, &chat));
    if (in.contains("max_output_tokens") && !in["max_output_tokens"].is_null()) {
        chat["max_tokens"] = in["max_output_tokens"];
    }
    if (in.contains("reasoning") && in["reasoning"].is_object() && in["reasoning"].contains("effort")) {
        chat["reasoning_effort"] = in["reasoning"]["effort"];
    }
    if (in.contains("text") && in["text"].is_object() && in["text"].contains("format") &&
        in["text"]["format"].is_object()) {
        const Json& format = in["text"]["format"];
        const std::string type = format.value("type", "text");
        if (type == "json_schema") {
            chat["response_format"] = {{"type", "json_schema"},
                                       {"json_schema", {{"schema", format.value("schema", Json::object())}}}};
        } else {
            chat["response_format"] = {{"type", type}};
        }
    }
    return chat;
}

std::unique_ptr<ReplyStyle> make_responses_style(std::shared_ptr<const FormatContext> context,
                                                 chat::OutputOptions output) {
    return std::make_unique<ResponsesStyle>(std::move(context), std::move(output));
}

}  // namespace foresay::server
