// Log probabilities of the raw row for n_probs (sampling.md 9): before bias, penalties and temperature, the same with
// and without drafts.
#include <algorithm>
#include <limits>

#include "sampling/math.h"
#include "sampling/row.h"

namespace foresay::sampling {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

float logprob_of(float logit, double log_sum) {
    const double value = static_cast<double>(logit) - log_sum;
    return value > static_cast<double>(kLowest) ? static_cast<float>(value) : kLowest;
}

}  // namespace

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int n, TokenId chosen, float* chosen_logprob) {
    const float max = std::min(max_of(logits), std::numeric_limits<float>::max());
    const double log_sum = static_cast<double>(max) + log_fixed(sum_exp(logits, max));
    if (chosen_logprob != nullptr) {
        const bool is_inside = chosen >= 0 && static_cast<size_t>(chosen) < logits.size();
        *chosen_logprob = is_inside ? logprob_of(logits[static_cast<size_t>(chosen)], log_sum) : kLowest;
    }
    std::vector<TokenLogprob> top;
    if (n <= 0) {
        return top;
    }
    const size_t wanted = std::min(static_cast<size_t>(n), logits.size());
    Row row;
    row.start(logits);
    row.keep_best(wanted);
    for (const Candidate& c : row.items()) {
        top.push_back({c.id, logprob_of(c.logit, log_sum)});
    }
    // "Exactly n": entries of probability 0 fill up, by id.
    for (size_t id = 0; id < logits.size() && top.size() < wanted; ++id) {
        if (!(logits[id] > -std::numeric_limits<float>::infinity())) {
            top.push_back({static_cast<TokenId>(id), kLowest});
        }
    }
    return top;
}

}  // namespace foresay::sampling
