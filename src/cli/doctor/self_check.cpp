#include "cli/doctor/self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace foresay::cli::doctor {
namespace {

bool has_equal_bits(float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

float logprob_at(const Text& text, size_t i) {
    return i < text.logprobs.size() ? text.logprobs[i] : 0.0F;
}

}  // namespace

std::optional<Difference> first_difference(const Text& plain, const Text& drafted) {
    const size_t n = std::max(plain.ids.size(), drafted.ids.size());
    for (size_t i = 0; i < n; ++i) {
        Difference d;
        d.at = i;
        d.plain = i < plain.ids.size() ? plain.ids[i] : vocab::kNoToken;
        d.drafted = i < drafted.ids.size() ? drafted.ids[i] : vocab::kNoToken;
        d.plain_logprob = logprob_at(plain, i);
        d.drafted_logprob = logprob_at(drafted, i);
        if (d.plain != d.drafted || !has_equal_bits(d.plain_logprob, d.drafted_logprob)) {
            return d;
        }
    }
    return std::nullopt;
}

std::string name_of(const Case& which) {
    const std::string length = which.adaptive ? fmt::format("adaptive up to {}", which.n_max)
                                              : (which.n_max == 0 ? "plain" : fmt::format("n_max {}", which.n_max));
    return fmt::format("{}, temperature {:g}", length, which.temperature);
}

Result<CheckResult> check_strict(const std::vector<float>& temperatures, const std::vector<int32_t>& n_maxes,
                                 const Generate& generate) {
    CheckResult result;
    for (const float temperature : temperatures) {
        FORESAY_TRY(const std::vector<Text> plain, generate({temperature, 0, false}));
        std::vector<Case> cases;
        cases.reserve(n_maxes.size() + 1);
        for (const int32_t n_max : n_maxes) {
            cases.push_back({temperature, n_max, false});
        }
        if (!n_maxes.empty()) {
            cases.push_back({temperature, *std::max_element(n_maxes.begin(), n_maxes.end()), true});
        }
        for (const Case& which : cases) {
            FORESAY_TRY(const std::vector<Text> drafted, generate(which));
            if (drafted.size() != plain.size()) {
                return error(Code::kInternal,
                             fmt::format("{} texts came back instead of {}", drafted.size(), plain.size()));
            }
            for (size_t i = 0; i < plain.size(); ++i) {
                ++result.n_compared;
                result.n_tokens += static_cast<int64_t>(plain[i].ids.size());
                if (const auto difference = first_difference(plain[i], drafted[i])) {
                    result.failures.push_back({which, i, *difference});
                }
            }
        }
    }
    return result;
}

std::string to_text(const CheckResult& result, const vocab::Vocab& vocab) {
    if (result.failures.empty()) {
        return fmt::format(
            "self-check passed: {} texts with {} tokens, ids and log-probabilities as in plain decoding, bit "
            "for bit\n",
            result.n_compared, result.n_tokens);
    }
    std::string text = fmt::format("self-check FAILED: {} of {} texts differ from plain decoding\n",
                                   result.failures.size(), result.n_compared);
    const auto piece = [&](vocab::TokenId id) {
        return id == vocab::kNoToken ? std::string("the end") : fmt::format("{} '{}'", id, vocab.piece(id, true));
    };
    for (const CheckResult::Failure& failure : result.failures) {
        const Difference& d = failure.difference;
        text += fmt::format("  {}, prompt {}: token {} is {} instead of {}, log-probability {:.9g} instead of {:.9g}\n",
                            name_of(failure.which), failure.prompt + 1, d.at + 1, piece(d.drafted), piece(d.plain),
                            d.drafted_logprob, d.plain_logprob);
    }
    return text;
}

}  // namespace foresay::cli::doctor
