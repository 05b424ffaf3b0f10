// Names and ranges of the sampling fields: what is refused and what is clamped (server-api.md 4.2).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

#include "sampling/steps.h"

namespace foresay::sampling {
namespace {

struct Name {
    std::string_view spelling;  ///< lower case, without hyphens and underscores
    std::string_view canonical;
};

constexpr std::array kNames{
    Name{"penalties", "penalties"},
    Name{"e", "penalties"},
    Name{"dry", "dry"},
    Name{"d", "dry"},
    Name{"topnsigma", "top_n_sigma"},
    Name{"s", "top_n_sigma"},
    Name{"topk", "top_k"},
    Name{"k", "top_k"},
    Name{"typp", "typ_p"},
    Name{"typicalp", "typ_p"},
    Name{"typical", "typ_p"},
    Name{"y", "typ_p"},
    Name{"topp", "top_p"},
    Name{"nucleus", "top_p"},
    Name{"p", "top_p"},
    Name{"minp", "min_p"},
    Name{"m", "min_p"},
    Name{"xtc", "xtc"},
    Name{"x", "xtc"},
    Name{"temperature", "temperature"},
    Name{"temp", "temperature"},
    Name{"t", "temperature"},
    Name{"infill", "infill"},
    Name{"i", "infill"},
    Name{"adaptivep", "adaptive_p"},
    Name{"a", "adaptive_p"},
};

Error invalid(std::string_view field, std::string message) {
    return error(Code::kInvalidArgument, std::move(message), std::string(field));
}

Status check_range(std::string_view field, int32_t value, int32_t low) {
    if (value >= low) {
        return ok();
    }
    return invalid(field, fmt::format("Field '{}': Value must be between {} <= value <= {}, but got {}", field, low,
                                      std::numeric_limits<int32_t>::max(), value));
}

Status check_finite(std::string_view field, float value) {
    if (std::isfinite(value)) {
        return ok();
    }
    return invalid(field, fmt::format("Failed to initialize samplers: {} must be finite", field));
}

Status check_numbers(const Params& params) {
    struct Float {
        std::string_view field;
        float value;
    };

    const std::array floats{
        Float{"temperature", params.temperature},
        Float{"dynatemp_range", params.dynatemp_range},
        Float{"dynatemp_exponent", params.dynatemp_exponent},
        Float{"top_p", params.top_p},
        Float{"min_p", params.min_p},
        Float{"top_n_sigma", params.top_n_sigma},
        Float{"typical_p", params.typical_p},
        Float{"xtc_probability", params.xtc_probability},
        Float{"xtc_threshold", params.xtc_threshold},
        Float{"presence_penalty", params.presence_penalty},
        Float{"frequency_penalty", params.frequency_penalty},
        Float{"dry_multiplier", params.dry_multiplier},
        Float{"dry_base", params.dry_base},
        Float{"mirostat_tau", params.mirostat_tau},
        Float{"mirostat_eta", params.mirostat_eta},
        Float{"adaptive_target", params.adaptive_target},
        Float{"adaptive_decay", params.adaptive_decay},
    };
    for (const Float& entry : floats) {
        FORESAY_CHECK_OK(check_finite(entry.field, entry.value));
    }
    FORESAY_CHECK_OK(check_range("min_keep", params.min_keep, 0));
    FORESAY_CHECK_OK(check_range("repeat_last_n", params.repeat_last_n, 0));
    FORESAY_CHECK_OK(check_range("dry_allowed_length", params.dry_allowed_length, 0));
    FORESAY_CHECK_OK(check_range("dry_penalty_last_n", params.dry_penalty_last_n, 0));
    if (!std::isfinite(params.repeat_penalty) || params.repeat_penalty <= 0.0F) {
        // The peer's text, which clients know; `where` has the field as the request spells it.
        return invalid("repeat_penalty",
                       "Failed to initialize samplers: penalty_repeat must be finite and greater than 0");
    }
    if (params.adaptive_decay < 0.0F || params.adaptive_decay > 0.99F) {
        return invalid("adaptive_decay",
                       fmt::format("Field 'adaptive_decay': Value must be between 0 <= value <= 0.99, but got {}",
                                   params.adaptive_decay));
    }
    return ok();
}

}  // namespace

std::string_view canonical_sampler_name(std::string_view name) {
    std::string spelling;
    for (const char c : name) {
        if (c != '-' && c != '_') {
            spelling += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
    }
    const auto it =
        std::find_if(kNames.begin(), kNames.end(), [&](const Name& entry) { return entry.spelling == spelling; });
    return it == kNames.end() ? std::string_view() : it->canonical;
}

Result<Params> checked_params(const Params& params) {
    FORESAY_CHECK_OK(check_numbers(params));
    if (params.dry_sequence_breakers.empty()) {
        return invalid("dry_sequence_breakers", "dry_sequence_breakers must be a non-empty array of strings");
    }
    for (const auto& bias : params.logit_bias) {
        if (std::isnan(bias.second)) {
            return invalid("logit_bias", fmt::format("logit_bias of token {} is not a number", bias.first));
        }
    }
    Params checked = params;
    for (std::string& name : checked.samplers) {
        const std::string_view canonical = canonical_sampler_name(name);
        if (canonical.empty()) {
            return invalid("samplers", fmt::format("unknown sampler '{}'", name));
        }
        name = canonical;
    }
    checked.temperature = std::max(params.temperature, 0.0F);
    checked.top_k = std::max(params.top_k, 0);
    checked.top_p = std::clamp(params.top_p, 0.0F, 1.0F);
    checked.min_p = std::clamp(params.min_p, 0.0F, 1.0F);
    checked.xtc_probability = std::clamp(params.xtc_probability, 0.0F, 1.0F);
    checked.xtc_threshold = std::clamp(params.xtc_threshold, 0.0F, 1.0F);
    checked.dry_base = params.dry_base < 1.0F ? Params().dry_base : params.dry_base;
    checked.mirostat = std::clamp(params.mirostat, 0, 2);
    checked.adaptive_target = std::min(params.adaptive_target, 1.0F);
    return checked;
}

}  // namespace foresay::sampling
