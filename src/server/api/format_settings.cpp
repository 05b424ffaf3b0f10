#include "server/api/format_settings.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace foresay::server {
namespace {

/// Biases as asked for, and those that ignore_eos stands for; minus infinity reads null.
Json format_bias(const sampling::Params& params, const vocab::Vocab& vocab) {
    Json list = Json::array();
    for (const auto& [token, bias] : params.logit_bias) {
        list.push_back(
            {{"bias", std::isfinite(bias) ? Json(static_cast<double>(bias)) : Json(nullptr)}, {"token", token}});
    }
    if (params.ignore_eos) {
        for (const vocab::TokenId token : vocab.eog_tokens()) {
            list.push_back({{"bias", nullptr}, {"token", token}});
        }
    }
    return list;
}

/// As the request spells them.
Json format_triggers(const std::vector<grammar::Trigger>& triggers) {
    Json list = Json::array();
    for (const grammar::Trigger& trigger : triggers) {
        if (trigger.kind == grammar::Trigger::Kind::kToken) {
            list.push_back({{"type", 0}, {"value", trigger.value}, {"token", trigger.token}});
        } else {
            list.push_back({{"type", static_cast<int>(trigger.kind)}, {"value", trigger.value}});  // 1 word, 2, 3
        }
    }
    return list;
}

void add_sampling(const sampling::Params& p, Json* out) {
    Json& j = *out;
    j["temperature"] = p.temperature;
    j["dynatemp_range"] = p.dynatemp_range;
    j["dynatemp_exponent"] = p.dynatemp_exponent;
    j["top_k"] = p.top_k;
    j["top_p"] = p.top_p;
    j["min_p"] = p.min_p;
    j["top_n_sigma"] = p.top_n_sigma;
    j["xtc_probability"] = p.xtc_probability;
    j["xtc_threshold"] = p.xtc_threshold;
    j["typical_p"] = p.typical_p;
    j["repeat_last_n"] = p.repeat_last_n;
    j["repeat_penalty"] = p.repeat_penalty;
    j["presence_penalty"] = p.presence_penalty;
    j["frequency_penalty"] = p.frequency_penalty;
    j["dry_multiplier"] = p.dry_multiplier;
    j["dry_base"] = p.dry_base;
    j["dry_allowed_length"] = p.dry_allowed_length;
    j["dry_penalty_last_n"] = p.dry_penalty_last_n;
}

/// What a request comes to before it runs: the engine has checked it or will.
engine::SpecInForce in_force(const engine::SpecRequest& request, const engine::SpecOptions& server) {
    engine::SpecInForce spec;
    static_cast<spec::AcceptanceOptions&>(spec) = server;
    spec.n_max = std::min(request.n_max.value_or(server.n_max), server.n_max);
    spec.n_min = request.n_min.value_or(server.n_min);
    spec.p_min = request.p_min.value_or(server.p_min);
    spec.adaptive = request.adaptive.value_or(server.adaptive);
    spec.rule = request.rule.value_or(server.rule);
    spec.relaxed_top_n = request.relaxed_top_n.value_or(server.relaxed_top_n);
    spec.relaxed_delta = request.relaxed_delta.value_or(server.relaxed_delta);
    spec.relaxed_max_tokens = request.relaxed_max_tokens.value_or(server.relaxed_max_tokens);
    spec.relaxed_max_gap = request.relaxed_max_gap.value_or(server.relaxed_max_gap);
    spec.relaxed_scope = request.relaxed_scope.value_or(server.relaxed_scope);
    spec.typical_epsilon = request.typical_epsilon.value_or(server.typical_epsilon);
    spec.typical_delta = request.typical_delta.value_or(server.typical_delta);
    return spec;
}

/// The server's cap on n_max holds for every request (server-api.md 4.3).
void add_speculation(const engine::Request& request, const engine::Final* result, const FormatContext& context,
                     Json* out) {
    Json& j = *out;
    j["speculative.types"] = context.spec_types.empty() ? "none" : context.spec_types;
    const engine::SpecInForce spec = result != nullptr ? result->spec : in_force(request.spec, context.spec);
    j["speculative.n_max"] = spec.n_max;
    j["speculative.n_min"] = spec.n_min;
    j["speculative.p_min"] = spec.p_min;
    j["speculative.adaptive"] = spec.adaptive;
    j["speculative.rule"] = spec::name_of(spec::effective_rule(spec));
    j["speculative.relaxed_top_n"] = spec.relaxed_top_n;
    j["speculative.relaxed_delta"] = spec.relaxed_delta;
    j["speculative.relaxed_max_tokens"] = spec.relaxed_max_tokens;
    j["speculative.relaxed_max_gap"] = spec.relaxed_max_gap;
    j["speculative.relaxed_scope"] = spec::name_of(spec.relaxed_scope);
    j["speculative.typical_epsilon"] = spec.typical_epsilon;
    j["speculative.typical_delta"] = spec.typical_delta;
}

}  // namespace

Json format_settings(const engine::Request& request, const ReplyOptions& reply, const engine::Final* result,
                     const FormatContext& context, SettingsForm form) {
    const sampling::Params& p = request.sampling;
    const bool full = form == SettingsForm::kFull;
    Json j;
    j["seed"] = result != nullptr ? result->seed : p.seed;
    add_sampling(p, &j);
    if (full) {
        j["dry_sequence_breakers"] = p.dry_sequence_breakers;
    }
    j["mirostat"] = p.mirostat;
    j["mirostat_tau"] = p.mirostat_tau;
    j["mirostat_eta"] = p.mirostat_eta;
    j["adaptive_target"] = p.adaptive_target;
    j["adaptive_decay"] = p.adaptive_decay;
    if (full) {
        j["stop"] = request.stop;
    }
    j["max_tokens"] = request.n_predict;
    j["n_predict"] = request.n_predict;
    j["n_keep"] = request.n_keep;
    j["n_discard"] = request.n_discard;
    j["ignore_eos"] = p.ignore_eos;
    j["stream"] = reply.stream;
    if (full) {
        j["logit_bias"] = format_bias(p, *context.vocab);
    }
    j["n_probs"] = request.n_probs;
    j["min_keep"] = p.min_keep;
    if (full) {
        j["grammar"] = p.grammar;
        j["grammar_lazy"] = p.grammar_lazy;
        j["grammar_triggers"] = format_triggers(p.grammar_triggers);
        j["preserved_tokens"] = request.shown_tokens;
    }
    j["chat_format"] = reply.chat_format;
    j["reasoning_format"] = reply.reasoning_format;
    j["reasoning_in_content"] = false;
    j["generation_prompt"] = "";
    j["samplers"] = p.samplers;
    add_speculation(request, result, context, &j);
    j["timings_per_token"] = reply.timings_per_token;
    j["post_sampling_probs"] = request.post_sampling_probs;
    j["backend_sampling"] = false;
    j["lora"] = Json::array();
    return j;
}

}  // namespace foresay::server
