#include "server/api/openai_chat.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace foresay::server {
namespace {

class ChatStyle final : public ReplyStyle {
  public:
    ChatStyle(std::shared_ptr<const FormatContext> context, const ReplyOptions& reply, chat::OutputOptions output)
        : context_(std::move(context)),
          reply_(reply),
          output_(std::move(output)),
          who_(ReplyIdentity::make("chatcmpl-", *context_)) {}

    std::string partial(const Partial& partial, const engine::Request& request) override {
        std::string events;
        chat::OutputParser& parser = begin(partial.index, &events);
        const std::vector<chat::Delta> deltas = parser.push(partial.content);
        const Json logprobs = format_logprobs(partial.probs, request.post_sampling_probs, *context_);
        add_deltas(partial.index, deltas, logprobs, partial.timings, &events);
        return events;
    }

    std::string final_event(const Completed& completed) override {
        std::string events;
        chat::OutputParser& parser = begin(completed.index, &events);
        add_deltas(completed.index, parser.finish(), nullptr, {}, &events);
        count(completed);
        Json chunk = chunk_of(completed.index, Json::object(), reason(completed, parser.message()), nullptr);
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
            const chat::Message message = chat::parse_output(completed.content, output_);
            Json choice = {{"finish_reason", reason(completed, message)},
                           {"index", completed.index},
                           {"message", message.to_json()}};
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
    chat::OutputParser& begin(size_t index, std::string* events) {
        const auto found = parsers_.find(index);
        if (found != parsers_.end()) {
            return found->second;
        }
        *events += sse(chunk_of(index, {{"role", "assistant"}, {"content", nullptr}}, nullptr, nullptr));
        return parsers_.emplace(index, chat::OutputParser(output_)).first->second;
    }

    void add_deltas(size_t index, const std::vector<chat::Delta>& deltas, Json logprobs,
                    const std::optional<engine::Timings>& timings, std::string* events) const {
        const auto add = [&](Json change) {
            Json chunk = chunk_of(index, std::move(change), nullptr, std::exchange(logprobs, nullptr));
            if (timings) {
                chunk["timings"] = format_timings(*timings);
            }
            *events += sse(chunk);
        };
        for (const chat::Delta& delta : deltas) {
            switch (delta.kind) {
                case chat::Delta::Kind::kReasoning:
                    add({{"reasoning_content", delta.text}});
                    break;
                case chat::Delta::Kind::kContent:
                    add({{"content", delta.text}});
                    break;
                case chat::Delta::Kind::kCall:
                    add_call({{"index", delta.index},
                              {"id", delta.id},
                              {"type", "function"},
                              {"function", {{"name", delta.name}, {"arguments", ""}}}},
                             add);
                    break;
                case chat::Delta::Kind::kArguments:
                    add_call({{"index", delta.index}, {"function", {{"arguments", delta.text}}}}, add);
                    break;
            }
        }
        if (!logprobs.is_null()) {
            add({{"content", ""}});  // a token whose text is held back has its log-probabilities all the same
        }
    }

    template <typename Add>
    static void add_call(Json item, const Add& add) {
        add({{"tool_calls", Json::array({std::move(item)})}});
    }

    static const char* reason(const Completed& completed, const chat::Message& message) {
        const char* plain = finish_reason(completed.result->stop_type);
        return plain == std::string_view("stop") && !message.calls.empty() ? "tool_calls" : plain;
    }

    void count(const Completed& completed) {
        usage_.add(completed, completed.index % static_cast<size_t>(std::max(reply_.n_choices, 1)) == 0);
    }

    std::shared_ptr<const FormatContext> context_;
    ReplyOptions reply_;
    chat::OutputOptions output_;
    ReplyIdentity who_;
    Usage usage_;
    engine::Timings last_timings_;
    std::map<size_t, chat::OutputParser> parsers_;
};

}  // namespace

std::unique_ptr<ReplyStyle> make_chat_style(std::shared_ptr<const FormatContext> context, const ReplyOptions& reply,
                                            chat::OutputOptions output) {
    return std::make_unique<ChatStyle>(std::move(context), reply, std::move(output));
}

}  // namespace foresay::server
