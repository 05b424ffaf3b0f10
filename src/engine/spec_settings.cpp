#include "engine/spec_settings.h"

#include <fmt/format.h>

#include <algorithm>

namespace foresay::engine {
namespace {

/// Takes a request's value if it is there and in range. high < low: no upper end.
template <typename T>
Status take(const std::optional<T>& value, T low, T high, const char* field, T* out) {
    if (!value.has_value()) {
        return ok();
    }
    if (!(*value >= low)) {
        return error(Code::kInvalidArgument, fmt::format("Value must be >= {}, but got {}", low, *value), field);
    }
    if (high >= low && !(*value <= high)) {
        return error(Code::kInvalidArgument,
                     fmt::format("Value must be between {} and {}, but got {}", low, high, *value), field);
    }
    *out = *value;
    return ok();
}

/// A limit: -1 is none, other negative values are mistakes.
Status take_limit(const std::optional<float>& value, const char* field, float* out) {
    if (value.has_value() && *value != -1.0F && !(*value >= 0.0F)) {
        return error(Code::kInvalidArgument, fmt::format("Value must be -1 (none) or >= 0, but got {}", *value), field);
    }
    *out = value.value_or(*out);
    return ok();
}

}  // namespace

Result<SpecInForce> resolve_spec(const SpecRequest& request, const SpecOptions& server, int32_t n_max_server) {
    SpecInForce spec;
    static_cast<spec::AcceptanceOptions&>(spec) = static_cast<const spec::AcceptanceOptions&>(server);
    spec.n_max = n_max_server;
    spec.n_min = server.n_min;
    spec.p_min = server.p_min;
    spec.adaptive = request.adaptive.value_or(server.adaptive);
    spec.probabilistic = request.probabilistic ? request.probabilistic : server.probabilistic;
    FORESAY_CHECK_OK(take(request.n_max, 0, -1, "speculative.n_max", &spec.n_max));
    spec.n_max = std::min(spec.n_max, n_max_server);
    FORESAY_CHECK_OK(take(request.n_min, 0, -1, "speculative.n_min", &spec.n_min));
    spec.n_min = std::min(spec.n_min, spec.n_max);  // above it nothing would ever be drafted
    FORESAY_CHECK_OK(take(request.p_min, 0.0F, 1.0F, "speculative.p_min", &spec.p_min));
    spec.rule = request.rule.value_or(spec.rule);
    FORESAY_CHECK_OK(take(request.relaxed_top_n, 0, -1, "speculative.relaxed_top_n", &spec.relaxed_top_n));
    FORESAY_CHECK_OK(take_limit(request.relaxed_delta, "speculative.relaxed_delta", &spec.relaxed_delta));
    FORESAY_CHECK_OK(
        take(request.relaxed_max_tokens, -1, -2, "speculative.relaxed_max_tokens", &spec.relaxed_max_tokens));
    FORESAY_CHECK_OK(take_limit(request.relaxed_max_gap, "speculative.relaxed_max_gap", &spec.relaxed_max_gap));
    spec.relaxed_scope = request.relaxed_scope.value_or(spec.relaxed_scope);
    FORESAY_CHECK_OK(take(request.typical_epsilon, 0.0F, 1.0F, "speculative.typical_epsilon", &spec.typical_epsilon));
    FORESAY_CHECK_OK(take(request.typical_delta, 0.0F, 1.0F, "speculative.typical_delta", &spec.typical_delta));
    if (spec.rule == spec::Rule::kRelaxed && spec.relaxed_top_n < 2) {
        return error(Code::kInvalidArgument,
                     fmt::format("the relaxed rule needs relaxed_top_n of 2 or more, but it is {}", spec.relaxed_top_n),
                     "speculative.rule");
    }
    return spec;
}

Status check_spec(const SpecOptions& s) {
    const auto refuse = [](std::string message, std::string flag) {
        return error(Code::kInvalidArgument, std::move(message), std::move(flag));
    };
    if (s.n_max < 0 || s.n_max > 4096) {
        return refuse(fmt::format("{} is outside 0..4096", s.n_max), "--spec-draft-n-max");
    }
    if (s.n_min < 0 || s.n_min > s.n_max) {
        return refuse(fmt::format("{} is outside 0..n_max ({}): such a draft would never be used", s.n_min, s.n_max),
                      "--spec-draft-n-min");
    }
    if (!(s.p_min >= 0.0F && s.p_min <= 1.0F)) {
        return refuse(fmt::format("{} is outside 0..1", s.p_min), "--spec-draft-p-min");
    }
    if (s.relaxed_top_n < 0) {
        return refuse(fmt::format("{} is below 0", s.relaxed_top_n), "--spec-draft-relaxed-top-n");
    }
    if (s.rule == spec::Rule::kRelaxed && s.relaxed_top_n < 2) {
        return refuse("the relaxed rule needs --spec-draft-relaxed-top-n of 2 or more", "--spec-draft-rule");
    }
    if (!(s.typical_epsilon >= 0.0F && s.typical_epsilon <= 1.0F)) {
        return refuse(fmt::format("{} is outside 0..1", s.typical_epsilon), "--spec-draft-typical-epsilon");
    }
    if (!(s.typical_delta >= 0.0F && s.typical_delta <= 1.0F)) {
        return refuse(fmt::format("{} is outside 0..1", s.typical_delta), "--spec-draft-typical-delta");
    }
    return ok();
}

std::string describe_rule(const spec::AcceptanceOptions& options) {
    const spec::Rule rule = spec::effective_rule(options);
    std::string text(spec::name_of(rule));
    if (rule == spec::Rule::kRelaxed) {
        text += fmt::format(" top-{}", options.relaxed_top_n);
        text += options.relaxed_delta >= 0.0F ? fmt::format(", delta {:.2f}", options.relaxed_delta) : "";
    } else if (rule == spec::Rule::kTypical) {
        text += fmt::format(", epsilon {:.2f}, delta {:.2f}", options.typical_epsilon, options.typical_delta);
    }
    if (rule == spec::Rule::kRelaxed || rule == spec::Rule::kTypical) {
        text += options.relaxed_max_tokens >= 0 ? fmt::format(", at most {} tokens", options.relaxed_max_tokens) : "";
        text += options.relaxed_max_gap >= 0.0F ? fmt::format(", at most {:.2f} nats", options.relaxed_max_gap) : "";
        text += options.relaxed_scope == spec::Scope::kThinking ? ", thinking only" : "";
    }
    return text;
}

}  // namespace foresay::engine
