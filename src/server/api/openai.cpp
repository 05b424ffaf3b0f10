#include "server/api/openai.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

namespace foresay::server {
namespace {

class TextStyle final : public ReplyStyle {
  public:
    TextStyle(std::shared_ptr<const FormatContext> context, const ReplyOptions& reply)
        : context_(std::move(context)), reply_(reply), who_(ReplyIdentity::make("chatcmpl-", *context_)) {}

    std::string partial(const Partial& partial, const engine::Request& request) override {
        Json choice = {{"text", partial.content},
                       {"index", partial.index},
                       {"logprobs", logprobs(partial.probs, request, partial.text_offset)},
                       {"finish_reason", nullptr}};
        Json chunk = head();
        chunk["choices"] = Json::array({std::move(choice)});
        if (partial.timings) {
            chunk["timings"] = format_timings(*partial.timings);
        }
        return sse(chunk);
    }

    std::string final_event(const Completed& completed) override {
        count(completed);
        Json choice = {{"text", ""},
                       {"index", completed.index},
                       {"logprobs", nullptr},
                       {"finish_reason", finish_reason(completed.result->stop_type)}};
        Json chunk = head();
        chunk["choices"] = Json::array({std::move(choice)});
        chunk["usage"] = usage_.json();
        chunk["timings"] = format_timings(completed.result->timings);
        return sse(chunk);
    }

    std::string stream_end() override {
        std::string end;
        if (reply_.include_usage) {
            Json chunk = head();
            chunk["choices"] = Json::array();
            chunk["usage"] = usage_.json();
            end = sse(chunk);
        }
        return end + "data: [DONE]\n\n";
    }

    Json whole(const std::vector<Completed>& choices) override {
        Json list = Json::array();
        for (const Completed& completed : choices) {
            count(completed);
            list.push_back({{"text", completed.content},
                            {"index", completed.index},
                            {"logprobs", logprobs(completed.probs, *completed.request, 0)},
                            {"finish_reason", finish_reason(completed.result->stop_type)}});
        }
        Json j = head();
        j["choices"] = std::move(list);
        j["usage"] = usage_.json();
        j["timings"] = format_timings(choices.front().result->timings);
        if (reply_.verbose) {
            j["__verbose"] = format_final(choices.front(), *context_);
        }
        return j;
    }

  private:
    Json head() const {
        return {{"id", who_.id},
                {"object", "text_completion"},
                {"created", who_.created},
                {"model", who_.model},
                {"system_fingerprint", kSystemFingerprint}};
    }

    void count(const Completed& completed) {
        usage_.add(completed, completed.index % static_cast<size_t>(std::max(reply_.n_choices, 1)) == 0);
    }

    /// The new form, which llama-server's clients read, and beside it the keys of OpenAI's own text form.
    Json logprobs(const std::vector<ProbEntry>& entries, const engine::Request& request, size_t offset) const {
        Json j = format_logprobs(entries, request.post_sampling_probs, *context_);
        if (j.is_null()) {
            return j;
        }
        Json tokens = Json::array();
        Json values = Json::array();
        Json tops = Json::array();
        Json offsets = Json::array();
        for (const ProbEntry& entry : entries) {
            tokens.push_back(context_->vocab->piece(entry.chosen.id, false));
            values.push_back(entry.chosen.value);
            Json top = Json::object();
            for (const engine::TokenProb& prob : entry.top) {
                top[context_->vocab->piece(prob.id, false)] = prob.value;
            }
            tops.push_back(std::move(top));
            offsets.push_back(offset);
            offset += context_->vocab->piece(entry.chosen.id, false).size();
        }
        j["tokens"] = std::move(tokens);
        j["token_logprobs"] = std::move(values);
        j["top_logprobs"] = std::move(tops);
        j["text_offset"] = std::move(offsets);
        return j;
    }

    std::shared_ptr<const FormatContext> context_;
    ReplyOptions reply_;
    ReplyIdentity who_;
    Usage usage_;
};

}  // namespace

std::string random_id(std::string_view prefix) {
    static constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    thread_local std::mt19937_64 random{std::random_device{}()};
    std::string id(prefix);
    std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
    for (int i = 0; i < 32; ++i) {
        id += kLetters[letter(random)];
    }
    return id;
}

void Usage::add(const Completed& completed, bool counts_prompt) {
    const engine::Timings& t = completed.result->timings;
    if (counts_prompt) {
        prompt_tokens += static_cast<int64_t>(completed.request->prompt.size());
        cached_tokens += t.cache_n;
    }
    completion_tokens += t.predicted_n;
    accepted_tokens += t.draft_n_accepted;
    rejected_tokens += t.draft_n - t.draft_n_accepted;
}

Json Usage::json() const {
    Json j;
    j["completion_tokens"] = completion_tokens;
    j["prompt_tokens"] = prompt_tokens;
    j["total_tokens"] = prompt_tokens + completion_tokens;
    j["prompt_tokens_details"] = {{"cached_tokens", cached_tokens}};
    j["completion_tokens_details"] = {{"accepted_prediction_tokens", accepted_tokens},
                                      {"rejected_prediction_tokens", rejected_tokens}};
    return j;
}

const char* finish_reason(engine::StopType type) {
    return type == engine::StopType::kEos || type == engine::StopType::kWord ? "stop" : "length";
}

ReplyIdentity ReplyIdentity::make(std::string_view prefix, const FormatContext& context) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return {random_id(prefix), std::chrono::duration_cast<std::chrono::seconds>(now).count(), context.model_name};
}

Json format_logprobs(const std::vector<ProbEntry>& entries, bool post_sampling, const FormatContext& context) {
    if (entries.empty()) {
        return nullptr;
    }
    return {{"content", format_probs(entries, post_sampling, *context.vocab)}};
}

std::unique_ptr<ReplyStyle> make_text_style(std::shared_ptr<const FormatContext> context, const ReplyOptions& reply) {
    return std::make_unique<TextStyle>(std::move(context), reply);
}

}  // namespace foresay::server
