#include "server/api/openai_chat.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace foresay::server {
namespace {

Json format_call(const ToolCall& call) {
    return {{"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}, {"id", call.id}};
}

class ChatStyle final : public ReplyStyle {
  public:
    ChatStyle(std::shared_ptr<const FormatContext> context, const ReplyOptions& reply, ChatParse parse)
        : context_(std::move(context)),
          reply_(reply),
          parse_(std::move(parse)),
          who_(ReplyIdentity::make("chatcmpl-", *context_)) {}

    std::string partial(const Partial& partial, const engine::Request& request) override {
        std::string events;
        ChatText& text = begin(partial.index, &events);
        const ChatDelta delta = text.push(partial.content);
        const Json logprobs = format_logprobs(partial.probs, request.post_sampling_probs, *context_);
        add_deltas(partial.index, delta, logprobs, partial.timings, &events);
        return events;
    }

    std::string final_event(const Completed& completed) override {
        std::string events;
        ChatText& text = begin(completed.index, &events);
        add_deltas(completed.index, text.finish(), nullptr, {}, &events);
        count(completed);
        Json chunk = chunk_of(completed.index, Json::object(), reason(completed, text.parts()), nullptr);
        if (!reply_.include_usage) {
            chunk["timings"] = format_timings(completed.result->timings);
        }
        last_timings_ = completed.result->timings;
        return events + sse(chunk);
    }

    std::string stream_end() override {
        std::string end;
        if (reply_.include_usage) {
            Json chunk = head("chat.completion.chunk");
            chunk["choices"] = Json::array();
            chunk["usage"] = usage_.json();
            chunk["timings"] = format_timings(last_timings_);
            end = sse(chunk);
        }
        return end + "data: [DONE]\n\n";
    }

    Json whole(const std::vector<Completed>& choices) override {
        Json list = Json::array();
        for (const Completed& completed : choices) {
            count(completed);
            ChatText text(parse_);
            text.push(completed.content);
            text.finish();
            const ChatParts& parts = text.parts();
            Json message = {{"role", "assistant"}};
            message["content"] =
                parts.content.empty() && !parts.tool_calls.empty() ? Json(nullptr) : Json(parts.content);
            if (!parts.reasoning.empty()) {
                message["reasoning_content"] = parts.reasoning;
            }
            for (const ToolCall& call : parts.tool_calls) {
                message["tool_calls"].push_back(format_call(call));
            }
            Json choice = {{"finish_reason", reason(completed, parts)},
                           {"index", completed.index},
                           {"message", std::move(message)}};
            if (!completed.probs.empty()) {
                choice["logprobs"] =
                    format_logprobs(completed.probs, completed.request->post_sampling_probs, *context_);
            }
            list.push_back(std::move(choice));
        }
        Json j = head("chat.completion");
        j["choices"] = std::move(list);
        j["usage"] = usage_.json();
        j["timings"] = format_timings(choices.front().result->timings);
        if (reply_.verbose) {
            j["__verbose"] = format_final(choices.front(), *context_);
        }
        return j;
    }

  private:
    Json head(const char* object) const {
        return {{"id", who_.id},
                {"object", object},
                {"created", who_.created},
                {"model", who_.model},
                {"system_fingerprint", kSystemFingerprint}};
    }

    Json chunk_of(size_t index, Json delta, Json finish, const Json& logprobs) const {
        Json choice = {{"index", index}, {"delta", std::move(delta)}, {"finish_reason", std::move(finish)}};
        if (!logprobs.is_null()) {
            choice["logprobs"] = logprobs;
        }
        Json chunk = head("chat.completion.chunk");
        chunk["choices"] = Json::array({std::move(choice)});
        return chunk;
    }

    /// The choice's text; its first event, which carries the role, is written before anything else of it.
    ChatText& begin(size_t index, std::string* events) {
        const auto found = texts_.find(index);
        if (found != texts_.end()) {
            return found->second;
        }
        *events += sse(chunk_of(index, {{"role", "assistant"}, {"content", nullptr}}, nullptr, nullptr));
        return texts_.emplace(index, ChatText(parse_)).first->second;
    }

    void add_deltas(size_t index, const ChatDelta& delta, Json logprobs, const std::optional<engine::Timings>& timings,
                    std::string* events) const {
        const auto add = [&](Json change) {
            Json chunk = chunk_of(index, std::move(change), nullptr, std::exchange(logprobs, nullptr));
            if (timings) {
                chunk["timings"] = format_timings(*timings);
            }
            *events += sse(chunk);
        };
        if (!delta.reasoning.empty()) {
            add({{"reasoning_content", delta.reasoning}});
        }
        if (!delta.content.empty() || (delta.empty() && !logprobs.is_null())) {
            add({{"content", delta.content}});
        }
        for (const ChatDelta::Call& call : delta.calls) {
            Json item = {{"index", call.index}};
            if (call.begin) {
                item["id"] = call.begin->id;
                item["type"] = "function";
                item["function"] = {{"name", call.begin->name}, {"arguments", call.arguments}};
            } else {
                item["function"] = {{"arguments", call.arguments}};
            }
            add({{"tool_calls", Json::array({std::move(item)})}});
        }
    }

    static const char* reason(const Completed& completed, const ChatParts& parts) {
        const char* plain = finish_reason(completed.result->stop_type);
        return plain == std::string_view("stop") && !parts.tool_calls.empty() ? "tool_calls" : plain;
    }

    void count(const Completed& completed) {
        usage_.add(completed, completed.index % static_cast<size_t>(std::max(reply_.n_choices, 1)) == 0);
    }

    std::shared_ptr<const FormatContext> context_;
    ReplyOptions reply_;
    ChatParse parse_;
    ReplyIdentity who_;
    Usage usage_;
    engine::Timings last_timings_;
    std::map<size_t, ChatText> texts_;
};

}  // namespace

std::unique_ptr<ReplyStyle> make_chat_style(std::shared_ptr<const FormatContext> context, const ReplyOptions& reply,
                                            ChatParse parse) {
    return std::make_unique<ChatStyle>(std::move(context), reply, std::move(parse));
}

}  // namespace foresay::server
