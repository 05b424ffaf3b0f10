// Adaptive-p (llama.cpp #17927): reshapes the candidates around a target probability, which itself is moved so that
// the accepted tokens' mean probability comes near the wanted one. Takes the place of the plain draw at the end.
#include <algorithm>
#include <limits>
#include <vector>

#include "sampling/steps.h"

namespace foresay::sampling {
namespace {

class AdaptiveP final : public Step {
  public:
    explicit AdaptiveP(const Params& params)
        : target_(static_cast<double>(params.adaptive_target)), decay_(static_cast<double>(params.adaptive_decay)) {
        AdaptiveP::reset();
    }

    void apply(Row& row, DrawKey) override {
        (void)row.softmax();
        const double wanted = std::clamp(2.0 * target_ - sum_ / weight_, 0.0, 1.0);
        original_.clear();
        for (Candidate& c : row.items()) {
            original_.push_back({c.id, c.p});
            if (c.logit > -std::numeric_limits<float>::infinity()) {
                const double d = std::abs(static_cast<double>(c.p) - wanted) / kWidth;
                c.logit = static_cast<float>(kPeak - kSlope * d * d / (1.0 + d));
            }
        }
        row.clear_sorted();
    }

    void accept(TokenId id, std::span<const Candidate> drawn_from) override {
        if (drawn_from.empty()) {
            return;
        }
        for (const Original& original : original_) {
            if (original.id == id) {
                sum_ = static_cast<double>(original.p) + decay_ * sum_;
                weight_ = 1.0 + decay_ * weight_;
                return;
            }
        }
    }

    void reset() override {
        // As if the past had hit the target for ever, so that the first wanted value is the target.
        sum_ = target_ / (1.0 - decay_);
        weight_ = 1.0 / (1.0 - decay_);
    }

  private:
    // The peer's constants: width of the peak in probability, its height and its fall in logits.
    static constexpr double kWidth = 0.3;
    static constexpr double kPeak = 5.0;
    static constexpr double kSlope = 10.0;

    struct Original {
        TokenId id = 0;
        float p = 0.0F;
    };

    double target_;
    double decay_;
    double sum_ = 0.0;
    double weight_ = 0.0;
    std::vector<Original> original_;  ///< probabilities before the reshaping, of the last draw
};

}  // namespace

std::unique_ptr<Step> make_adaptive_p(const Params& params) {
    return params.adaptive_target >= 0.0F ? std::make_unique<AdaptiveP>(params) : nullptr;
}

}  // namespace foresay::sampling
