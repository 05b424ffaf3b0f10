// The steps that cut candidates off: top-n-sigma (arXiv 2411.07641), top-k and top-p (Holtzman et al. 2019), typical
// (Meister et al. 2022), min-p (llama.cpp #3841). Formulas: sampling.md, section 4.
#include <algorithm>
#include <cmath>

#include "sampling/math.h"
#include "sampling/steps.h"

namespace foresay::sampling {
namespace {

class TopNSigma final : public Step {
  public:
    explicit TopNSigma(float n) : n_(n) {}

    void apply(Row& row, DrawKey) override {
        const Moments m = row.moments();
        if (m.n > 1) {
            row.drop_below(static_cast<float>(static_cast<double>(m.max) - static_cast<double>(n_) * m.sigma));
        }
    }

  private:
    float n_;
};

class TopK final : public Step {
  public:
    explicit TopK(int32_t k) : k_(static_cast<size_t>(k)) {}

    void apply(Row& row, DrawKey) override { row.keep_best(k_); }

  private:
    size_t k_;
};

class TopP final : public Step {
  public:
    TopP(float p, int32_t min_keep) : p_(static_cast<double>(p)), min_keep_(static_cast<size_t>(min_keep)) {}

    void apply(Row& row, DrawKey) override {
        (void)row.softmax();
        const size_t n = row.items().size();
        double sum = 0.0;
        for (size_t i = 0; i < n; ++i) {
            sum += static_cast<double>(row.sorted_items(i + 1)[i].p);
            if (sum >= p_ && i + 1 >= min_keep_) {
                row.truncate(i + 1);
                return;
            }
        }
    }

  private:
    double p_;
    size_t min_keep_;
};

class MinP final : public Step {
  public:
    MinP(float p, int32_t min_keep)
        : log_p_(static_cast<float>(log_fixed(static_cast<double>(p)))), min_keep_(static_cast<size_t>(min_keep)) {}

    void apply(Row& row, DrawKey) override {
        const float threshold = row.max_logit() + log_p_;
        if (min_keep_ > 0 && row.count_at_least(threshold) < min_keep_) {
            row.keep_best(min_keep_);
        } else {
            row.drop_below(threshold);
        }
    }

  private:
    float log_p_;
    size_t min_keep_;
};

/// Locally typical sampling: candidates whose surprise is nearest to the entropy come first.
class Typical final : public Step {
  public:
    Typical(float p, int32_t min_keep) : p_(static_cast<double>(p)), min_keep_(static_cast<size_t>(min_keep)) {}

    void apply(Row& row, DrawKey) override {
        const double log_sum = row.softmax();
        const std::span<Candidate> items = row.items();
        double entropy = 0.0;
        for (const Candidate& c : items) {
            if (c.p > 0.0F) {
                entropy += static_cast<double>(c.p) * (log_sum - static_cast<double>(c.logit));
            }
        }
        // |-ln p - H| = |(log_sum - H) - logit|: the order needs no logarithm per candidate.
        const double centre = log_sum - entropy;
        const auto nearer = [centre](const Candidate& a, const Candidate& b) {
            const double da = std::abs(centre - static_cast<double>(a.logit));
            const double db = std::abs(centre - static_cast<double>(b.logit));
            return da != db ? da < db : is_better(a, b);
        };
        row.clear_sorted();
        double sum = 0.0;
        size_t n_ordered = 0;
        for (size_t i = 0; i < items.size(); ++i) {
            if (i == n_ordered) {
                // As in Row::sorted_items: order in growing steps, the prefix is short as a rule.
                n_ordered = std::min(items.size(), std::max<size_t>(64, n_ordered * 4));
                const auto first = items.begin() + static_cast<ptrdiff_t>(i);
                const auto last = items.begin() + static_cast<ptrdiff_t>(n_ordered);
                if (n_ordered < items.size()) {
                    std::nth_element(first, last - 1, items.end(), nearer);
                }
                std::sort(first, last, nearer);
            }
            sum += static_cast<double>(items[i].p);
            if (sum > p_ && i + 1 >= min_keep_) {
                row.truncate(i + 1);
                return;
            }
        }
    }

  private:
    double p_;
    size_t min_keep_;
};

}  // namespace

std::unique_ptr<Step> make_top_n_sigma(const Params& params) {
    return params.top_n_sigma > 0.0F ? std::make_unique<TopNSigma>(params.top_n_sigma) : nullptr;
}

std::unique_ptr<Step> make_top_k(const Params& params) {
    return params.top_k > 0 ? std::make_unique<TopK>(params.top_k) : nullptr;
}

std::unique_ptr<Step> make_typical(const Params& params) {
    return params.typical_p < 1.0F ? std::make_unique<Typical>(params.typical_p, params.min_keep) : nullptr;
}

std::unique_ptr<Step> make_top_p(const Params& params) {
    return params.top_p < 1.0F ? std::make_unique<TopP>(params.top_p, params.min_keep) : nullptr;
}

std::unique_ptr<Step> make_min_p(const Params& params) {
    return params.min_p > 0.0F ? std::make_unique<MinP>(params.min_p, params.min_keep) : nullptr;
}

}  // namespace foresay::sampling
