#include "server/api/format_completion.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/format_settings.h"

namespace foresay::server {
namespace {

const char* stop_type_name(engine::StopType type) {
    switch (type) {
        case engine::StopType::kEos:
            return "eos";
        case engine::StopType::kWord:
            return "word";
        case engine::StopType::kLimit:
            return "limit";
        case engine::StopType::kNone:
            break;
    }
    return "none";
}

/// 0 where there is nothing to divide by: a reply never holds NaN or null here.
double per(double value, double count) {
    return count > 0.0 ? value / count : 0.0;
}

Json format_prob(const engine::TokenProb& prob, bool post_sampling, const vocab::Vocab& vocab) {
    const std::string piece = vocab.piece(prob.id, false);
    Json bytes = Json::array();
    for (const char c : piece) {
        bytes.push_back(static_cast<unsigned char>(c));
    }
    // Log 0 is the lowest finite float: JSON has no infinity.
    const double value = std::isfinite(prob.value) ? prob.value : std::numeric_limits<float>::lowest();
    Json entry = {{"id", prob.id}, {"token", std::string(valid_utf8_prefix(piece))}, {"bytes", std::move(bytes)}};
    entry[post_sampling ? "prob" : "logprob"] = value;
    return entry;
}

/// docs/server.md, "marks".
Json format_mark(const MarkEntry& entry, const vocab::Vocab& vocab) {
    const auto text = [&](vocab::TokenId id) { return Json(vocab.piece(id, true)); };
    const engine::TokenMark& mark = entry.mark;
    const bool drafted = mark.draft != vocab::kNoToken;
    Json j;
    j["id"] = entry.id;
    j["text"] = text(entry.id);
    j["kind"] = entry.kind == engine::TokenKind::kPlain   ? "plain"
                : entry.kind == engine::TokenKind::kExact ? "exact"
                                                          : "relaxed";
    j["draft"] = drafted ? Json(mark.draft) : Json(nullptr);
    j["draft_text"] = drafted ? text(mark.draft) : Json(nullptr);
    j["target"] = mark.target;
    j["target_text"] = text(mark.target);
    j["rank"] = mark.rank;
    j["p"] = mark.p;
    j["p_target"] = mark.p_target;
    return j;
}

const Json* find_path(const Json& object, std::string_view path) {
    const Json* at = &object;
    while (true) {
        const size_t slash = std::min(path.find('/'), path.size());
        if (!at->is_object()) {
            return nullptr;
        }
        const auto it = at->find(std::string(path.substr(0, slash)));
        if (it == at->end()) {
            return nullptr;
        }
        at = &*it;
        if (slash == path.size()) {
            return at;
        }
        path.remove_prefix(slash + 1);
    }
}

}  // namespace

std::string_view valid_utf8_prefix(std::string_view text) {
    size_t i = 0;
    while (i < text.size()) {
        const auto lead = static_cast<unsigned char>(text[i]);
        const size_t length = lead < 0x80                   ? 1
                              : lead >= 0xC2 && lead < 0xE0 ? 2
                              : lead >= 0xE0 && lead < 0xF0 ? 3
                              : lead >= 0xF0 && lead < 0xF5 ? 4
                                                            : 0;
        if (length == 0 || i + length > text.size()) {
            break;
        }
        bool whole = true;
        for (size_t k = 1; k < length; ++k) {
            whole = whole && (static_cast<unsigned char>(text[i + k]) & 0xC0) == 0x80;
        }
        if (!whole) {
            break;
        }
        i += length;
    }
    return text.substr(0, i);
}

Json format_timings(const engine::Timings& t) {
    // The first token comes from the prompt's own pass, so n tokens took n - 1 steps.
    const double n_steps = std::max(t.predicted_n - 1, 0);
    Json j;
    j["cache_n"] = t.cache_n;
    j["prompt_n"] = t.prompt_n;
    j["prompt_ms"] = t.prompt_ms;
    j["prompt_per_token_ms"] = per(t.prompt_ms, t.prompt_n);
    j["prompt_per_second"] = per(1e3 * t.prompt_n, t.prompt_ms);
    j["predicted_n"] = t.predicted_n;
    j["predicted_ms"] = t.predicted_ms;
    j["predicted_per_token_ms"] = per(t.predicted_ms, n_steps);
    j["predicted_per_second"] = per(1e3 * n_steps, t.predicted_ms);
    if (t.draft_n > 0) {
        j["draft_n"] = t.draft_n;
        j["draft_n_accepted"] = t.draft_n_accepted;
        j["draft_n_exact"] = t.draft_n_accepted - t.draft_n_relaxed;
        j["draft_n_relaxed"] = t.draft_n_relaxed;
        j["draft_n_rejected"] = t.draft_n_rejected;
        j["draft_relaxed_mean_rank"] = per(t.relaxed_rank_sum, t.draft_n_relaxed);
        j["draft_relaxed_gap_sum"] = t.relaxed_gap_sum;
        j["draft_n_steps"] = t.verify_steps;
    }
    if (!t.draft_off.empty()) {
        j["draft_off"] = t.draft_off;
    }
    return j;
}

Json format_probs(const std::vector<ProbEntry>& entries, bool post_sampling, const vocab::Vocab& vocab) {
    Json list = Json::array();
    for (const ProbEntry& entry : entries) {
        Json top = Json::array();
        for (const engine::TokenProb& prob : entry.top) {
            top.push_back(format_prob(prob, post_sampling, vocab));
        }
        Json item = format_prob(entry.chosen, post_sampling, vocab);
        item[post_sampling ? "top_probs" : "top_logprobs"] = std::move(top);
        list.push_back(std::move(item));
    }
    return list;
}

Json format_partial(const Partial& partial, bool post_sampling_probs, const FormatContext& context) {
    Json j;
    j["index"] = partial.index;
    j["content"] = partial.content;
    j["tokens"] = partial.tokens;
    j["stop"] = false;
    j["id_slot"] = partial.slot;
    j["tokens_predicted"] = partial.n_predicted;
    j["tokens_evaluated"] = partial.n_evaluated;
    if (partial.timings) {
        j["timings"] = format_timings(*partial.timings);
    }
    if (!partial.marks.empty()) {
        Json marks = Json::array();
        for (const MarkEntry& entry : partial.marks) {
            marks.push_back(format_mark(entry, *context.vocab));
        }
        j["marks"] = std::move(marks);
    }
    if (!partial.probs.empty()) {
        j["completion_probabilities"] = format_probs(partial.probs, post_sampling_probs, *context.vocab);
    }
    return j;
}

Json format_progress(const Partial& partial, const Progress& progress) {
    Json j;
    j["index"] = partial.index;
    j["content"] = "";
    j["tokens"] = Json::array();
    j["stop"] = false;
    j["id_slot"] = partial.slot;
    j["tokens_predicted"] = 0;
    j["tokens_evaluated"] = partial.n_evaluated;
    j["prompt_progress"] = {{"total", progress.total},
                            {"cache", progress.cache},
                            {"processed", progress.processed},
                            {"time_ms", progress.time_ms}};
    return j;
}

Json format_final(const Completed& completed, const FormatContext& context) {
    const engine::Final& result = *completed.result;
    const engine::Request& request = *completed.request;
    Json j;
    j["index"] = completed.index;
    j["content"] = completed.content;
    j["tokens"] = completed.tokens;
    j["id_slot"] = result.slot;
    j["stop"] = true;
    j["model"] = context.model_name;
    j["tokens_predicted"] = result.timings.predicted_n;
    j["tokens_evaluated"] = request.prompt.size();
    j["generation_settings"] = format_settings(request, *completed.reply, &result, context, SettingsForm::kFull);
    j["prompt"] = context.vocab->decode(request.prompt, false, true);
    j["has_new_line"] = result.has_new_line;
    j["truncated"] = result.truncated;
    j["stop_type"] = stop_type_name(result.stop_type);
    j["stopping_word"] = result.stopping_word;
    j["tokens_cached"] = result.tokens_cached;
    j["timings"] = format_timings(result.timings);
    if (request.n_probs > 0 && !completed.reply->stream) {
        j["completion_probabilities"] = format_probs(completed.probs, request.post_sampling_probs, *context.vocab);
    }
    return completed.reply->response_fields.empty() ? j : select_fields(j, completed.reply->response_fields);
}

void cut_stop_word(std::vector<ProbEntry>* entries, const engine::Final& result, const vocab::Vocab& vocab) {
    if (result.stop_type != engine::StopType::kWord) {
        return;
    }
    const size_t n_word = vocab.encode(result.stopping_word, false, false).size();
    entries->resize(entries->size() - std::min(n_word, entries->size()));
}

Json select_fields(const Json& object, const std::vector<std::string>& fields) {
    Json selected = Json::object();
    for (const std::string& field : fields) {
        if (const Json* value = find_path(object, field); value != nullptr) {
            selected[field] = *value;
        }
    }
    return selected;
}

}  // namespace foresay::server
