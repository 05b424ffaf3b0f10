// Mirostat 1 and 2 (Basu et al. 2020): a cut that is steered so that the text's mean surprise becomes tau.
// Unlike the peer's, mu moves in accept() and not in the draw: a rejected position must not move it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/math.h"
#include "sampling/steps.h"

namespace foresay::sampling {
namespace {

constexpr double kLn2 = 0.693147180559945309417;

class Mirostat : public Step {
  public:
    explicit Mirostat(const Params& params)
        : tau_(static_cast<double>(params.mirostat_tau)), eta_(static_cast<double>(params.mirostat_eta)) {
        Mirostat::reset();
    }

    void accept(TokenId id, std::span<const Candidate> drawn_from) override {
        const auto it =
            std::find_if(drawn_from.begin(), drawn_from.end(), [id](const Candidate& c) { return c.id == id; });
        if (it == drawn_from.end() || !(it->p > 0.0F)) {
            return;  // a forced token has no surprise that the controller could have steered
        }
        const double surprise = -log_fixed(static_cast<double>(it->p)) / kLn2;
        mu_ -= eta_ * (surprise - tau_);
    }

    void reset() override { mu_ = 2.0 * tau_; }

  protected:
    double mu() const { return mu_; }

  private:
    double tau_;
    double eta_;
    double mu_ = 0.0;
};

/// Estimates the exponent of a Zipf law from the best 100 candidates, and from it how many to keep.
class Mirostat1 final : public Mirostat {
  public:
    Mirostat1(const Params& params, int32_t n_vocab) : Mirostat(params), n_vocab_(n_vocab) {}

    void apply(Row& row, DrawKey) override {
        constexpr size_t kFirst = 100;  // the paper's m
        const std::span<Candidate> items = row.sorted_items(kFirst);
        double products = 0.0;
        double squares = 0.0;
        for (size_t i = 0; i + 1 < std::min(kFirst, items.size()); ++i) {
            const double ratio = static_cast<double>(items[i].logit) - static_cast<double>(items[i + 1].logit);
            if (!(ratio < std::numeric_limits<double>::infinity())) {
                break;  // a greedy temperature has flattened the rest
            }
            const double t = log_fixed(static_cast<double>(i + 2) / static_cast<double>(i + 1));
            products += t * ratio;  // ln(p_i / p_(i+1)) is the difference of the logits
            squares += t * t;
        }
        const double kept = squares > 0.0 ? std::floor(estimate(products / squares)) : 1.0;
        const auto size = static_cast<double>(items.size());
        // Written so that NaN keeps one.
        const size_t n = kept >= 1.0 ? static_cast<size_t>(std::min(kept, size)) : 1;
        (void)row.sorted_items(n);
        row.truncate(n);
    }

  private:
    double estimate(double s) const {
        const double epsilon = s - 1.0;
        const double log_v = log_fixed(static_cast<double>(n_vocab_));
        // epsilon -> 0: the quotient tends to 1 / ln V.
        const double quotient = std::abs(epsilon) < 1e-9 ? 1.0 / log_v : epsilon / (1.0 - exp_fixed(-epsilon * log_v));
        return pow_fixed(quotient * exp_fixed(mu() * kLn2), 1.0 / s);
    }

    int32_t n_vocab_;
};

/// Cuts at the first candidate whose surprise is above mu.
class Mirostat2 final : public Mirostat {
  public:
    using Mirostat::Mirostat;

    void apply(Row& row, DrawKey) override {
        const double log_sum = row.softmax();
        const size_t size = row.items().size();
        size_t n = 0;
        while (n < size) {
            const auto logit = static_cast<double>(row.sorted_items(n + 1)[n].logit);
            if ((log_sum - logit) / kLn2 > mu()) {
                break;
            }
            ++n;
        }
        row.truncate(std::max<size_t>(n, 1));
    }
};

}  // namespace

std::unique_ptr<Step> make_mirostat(const Params& params, int32_t n_vocab) {
    if (params.mirostat == 1) {
        return std::make_unique<Mirostat1>(params, n_vocab);
    }
    if (params.mirostat == 2) {
        return std::make_unique<Mirostat2>(params);
    }
    return nullptr;
}

}  // namespace foresay::sampling
