// Temperature, fixed or by entropy (dynamic temperature, arXiv 2309.02772). Formulas: sampling.md, section 4.2.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/math.h"
#include "sampling/steps.h"

namespace foresay::sampling {
namespace {

/// T <= 0: only the best keeps a logit. The others stay in the list, for ranks are taken on them (sampling.md 13).
void make_greedy(Row& row) {
    const std::span<Candidate> items = row.items();
    if (items.empty()) {
        return;
    }
    Candidate* best = items.data();
    for (Candidate& c : items) {
        best = is_better(c, *best) ? &c : best;
    }
    for (Candidate& c : items) {
        if (&c != best) {
            c.logit = -std::numeric_limits<float>::infinity();
        }
    }
}

void divide(Row& row, float temperature) {
    const std::span<Candidate> items = row.items();
    float largest = 0.0F;
    for (const Candidate& c : items) {
        if (c.logit > -std::numeric_limits<float>::infinity()) {
            largest = std::max(largest, std::abs(c.logit));
        }
    }
    if (!(temperature > 0.0F) || !(largest / temperature <= std::numeric_limits<float>::max())) {
        make_greedy(row);  // a temperature so small that quotients overflow can't be told from 0
        return;
    }
    for (Candidate& c : items) {
        c.logit /= temperature;
    }
}

class Temperature final : public Step {
  public:
    explicit Temperature(const Params& params)
        : temperature_(params.temperature), range_(params.dynatemp_range), exponent_(params.dynatemp_exponent) {}

    void apply(Row& row, DrawKey) override {
        if (!(temperature_ > 0.0F)) {
            make_greedy(row);
        } else if (!(range_ > 0.0F)) {
            divide(row, temperature_);
        } else if (row.items().size() > 1) {
            divide(row, dynamic(row));
        }
    }

  private:
    float dynamic(Row& row) const {
        const double log_sum = row.softmax();
        double entropy = 0.0;
        for (const Candidate& c : row.items()) {
            if (c.p > 0.0F) {
                entropy += static_cast<double>(c.p) * (log_sum - static_cast<double>(c.logit));
            }
        }
        const double low = std::max(0.0, static_cast<double>(temperature_) - static_cast<double>(range_));
        const double high = static_cast<double>(temperature_) + static_cast<double>(range_);
        const double share = entropy / log_fixed(static_cast<double>(row.items().size()));
        const double value = low + (high - low) * pow_fixed(share, static_cast<double>(exponent_));
        // low == high and an infinite power make NaN; min() then answers the largest float.
        return static_cast<float>(std::min(static_cast<double>(std::numeric_limits<float>::max()), value));
    }

    float temperature_;
    float range_;
    float exponent_;
};

}  // namespace

std::unique_ptr<Step> make_temperature(const Params& params) {
    if (params.temperature == 1.0F && params.dynatemp_range <= 0.0F) {
        return nullptr;
    }
    return std::make_unique<Temperature>(params);
}

}  // namespace foresay::sampling
