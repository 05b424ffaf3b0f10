// The candidates of one draw while the chain works on them. Starts as a view of the raw logits with a short list of
// overrides, and becomes a list of candidates only when a step needs one: so bias and penalties cost what they touch,
// and top-k reads the vocabulary once. Must not know parameters, state or randomness. Read next: steps.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sampling/sampler.h"

namespace foresay::sampling {

/// A change to one token's logit: l <= 0 ? l * scale : l / scale, then minus offset (infinite: banned).
/// Bias, penalties and DRY all have this form.
struct Edit {
    TokenId id = 0;
    float scale = 1.0F;
    float offset = 0.0F;
};

/// Mean and population standard deviation of the live logits, and their maximum.
struct Moments {
    double mean = 0.0;
    double sigma = 0.0;
    float max = -std::numeric_limits<float>::infinity();
    size_t n = 0;
};

/// Candidates are "live" while their logit is above minus infinity; NaN counts as minus infinity, plus infinity as the
/// largest float. Dead ones vanish at once: they can't be drawn and mustn't count in ranks (sampling.md 13, bans).
/// While the chain runs, Candidate::p_rank holds the logit that ranks are taken on: like `logit`, without temperature.
class Row {
  public:
    /// Begins a draw. logits [n_vocab] must outlive it.
    void start(std::span<const float> logits);
    /// Applies edits, ascending by id, one per id; ids outside the row are ignored.
    void edit(std::span<const Edit> edits);

    Moments moments() const;
    float max_logit() const;
    size_t count_at_least(float threshold) const;
    /// Drops candidates below the threshold, keeps the order.
    void drop_below(float threshold);
    /// Keeps the n best in order (ties: lower id). Cost: one pass over the row, no sort of it.
    void keep_best(size_t n);

    /// The candidates as a list: all live ones by id at first, O(n_vocab) once.
    std::span<Candidate> items();
    /// The list with at least the first n (or all) in order. Grows geometrically, so that a step that looks for the
    /// end of a prefix may ask one by one.
    std::span<Candidate> sorted_items(size_t n);
    /// Keeps the first n of the list.
    void truncate(size_t n);
    /// Removes the first n of the list.
    void drop_front(size_t n);

    /// Keeps those for which keep(candidate) is true, in order.
    template <typename Keep>
    void filter(Keep keep) {
        size_t n = 0;
        size_t n_sorted = 0;
        for (size_t i = 0; i < items_.size(); ++i) {
            if (keep(items_[i])) {
                n_sorted += i < n_sorted_ ? 1 : 0;
                items_[n++] = items_[i];
            }
        }
        items_.resize(n);
        n_sorted_ = n_sorted;
    }

    /// Whether the token was alive when the list was made: what bias and the row itself ban stays banned.
    bool was_live(TokenId id) const;
    /// Makes this the only candidate.
    void assign(TokenId id, float logit);

    /// Logits or order were changed in a way that isn't monotonic.
    void clear_sorted() { n_sorted_ = 0; }

    /// Softmax over the list into p; returns the log-sum-exp.
    double softmax();
    /// The same over p_rank into p_rank: the last thing that happens to a row, for its base logits are gone then.
    void finish_ranks();

  private:
    struct Override {
        TokenId id = 0;
        float logit = 0.0F;
    };

    template <typename Segment, typename Single>
    void walk(Segment segment, Single single) const;
    void materialise();
    void edit_list(std::span<const Edit> edits);
    void keep_best_of_row(size_t n);

    std::span<const float> logits_;
    std::vector<Override> overrides_;  ///< ascending by id; replace the row's values, not subject to floor_
    std::vector<Override> merged_;     ///< scratch of edit()
    float floor_ = 0.0F;               ///< the row's own values below it are dead
    bool is_list_ = false;
    std::vector<Candidate> items_;
    size_t n_sorted_ = 0;  ///< so many at the front of items_ are the best of all, in order
};

/// The order of candidates: larger logit, then larger base logit (a greedy step flattens the first), then lower id.
bool is_better(const Candidate& a, const Candidate& b);

}  // namespace foresay::sampling
