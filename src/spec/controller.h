// How long a draft pays: picks the draft length of every slot, each round, that maximises expected tokens per second,
// down to none. Pure logic: fed with measured times and accept counts, it never reads a clock, so the same inputs give
// the same decisions. Lengths change speed only, never the text. Must not know models, drafters' kinds or HTTP.
// Source: design.md, promise 3; shared/spec/sampling.md, section 11 (expected tokens per step).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foresay::spec {

/// What a pass over n rows costs: a slow shape r(n), r(1) = 1, times a fast scale, because a busy neighbour slows every
/// width alike. Widths that were never measured are interpolated, beyond them extrapolated.
class CostCurve {
  public:
    /// A pass over n_rows rows took ms.
    void observe(int32_t n_rows, double ms);
    /// In milliseconds; 0 before the first pass.
    double cost(int32_t n_rows) const;
    /// cost(n) / cost(1).
    double ratio(int32_t n_rows) const;

    bool empty() const { return scale_ == 0.0; }

    /// The widest pass seen; 0: none.
    int32_t widest() const;
    /// Passes since this width was last seen; a very large number if never.
    int64_t age(int32_t n_rows) const;

  private:
    struct Width {
        double shape = 0.0;
        int32_t n = 0;
        int64_t last = 0;  ///< number of the pass
    };

    double shape(int32_t n_rows) const;
    static size_t index_of(int32_t n_rows);

    std::vector<Width> widths_;  ///< by rows
    double scale_ = 0.0;         ///< ms of a shape of 1, now
    int64_t n_passes_ = 0;
};

/// Probability that a draft's token at a position stands, given that all before it did. Recent rounds count more.
class AcceptCurve {
  public:
    /// keep: weight that old rounds keep with each new one.
    explicit AcceptCurve(double keep) : keep_(keep) {}

    /// Of n_drafted tokens the first n_accepted stood. Positions behind the first reject were not tested: a draft that
    /// stands to its end says "at least so many".
    void observe(int32_t n_drafted, int32_t n_accepted);
    /// position: from 0. prior: fills in where this curve has seen little; null: a plain guess.
    double rate(int32_t position, const AcceptCurve* prior) const;
    /// Lets what was seen weigh at most this much from now on.
    void fade(double most);

  private:
    struct Position {
        double tested = 0.0;
        double stood = 0.0;
    };

    double pooled(double guess) const;

    double keep_;
    std::vector<Position> positions_;
};

/// One slot as it stands before a round.
struct PlanSlot {
    int slot = 0;
    int32_t n_max = 0;      ///< room and the request's limit; 0: no draft possible
    int32_t n_min = 0;      ///< a shorter draft would be dropped
    bool adaptive = true;   ///< false: drafts n_max, whatever it costs
    int32_t n_planned = 0;  ///< result: most tokens to draft
};

/// A draft that exists already: what is left to decide is how much of it to verify.
struct TrimSlot {
    int slot = 0;
    int drafter = 0;
    int32_t n_drafted = 0;
    int32_t n_min = 0;
    bool adaptive = true;
    int32_t n_kept = 0;  ///< result
};

class Controller {
  public:
    Controller(size_t n_slots, size_t n_drafters);

    /// A new response begins on the slot: its estimates start over from what all slots have taught.
    void begin(int slot);

    /// Lengths for a drafter that runs a model: fills n_planned of slots with n_max > 0. Drafting and verifying both
    /// have to pay. n_other_rows: rows of slots that can't draft now. Drafts that cost nothing need no plan: trim().
    void plan(std::span<PlanSlot> slots, int drafter, int32_t n_other_rows);
    /// How much of each draft is worth verifying in this round; drafting is paid already. n_other_rows: rows that ride
    /// in the same pass anyway (slots without a draft).
    void trim(std::span<TrimSlot> slots, int32_t n_other_rows);

    /// A pass of the target over n_rows rows, all with logits, took ms.
    void observe_pass(int32_t n_rows, double ms) { target_.observe(n_rows, ms); }

    /// Drafting n_steps tokens one after another, for all slots at once, took ms. catches_up: the drafter had to read
    /// text first, so that the time is an upper bound.
    void observe_draft(int drafter, int32_t n_steps, double ms, bool catches_up);
    /// What became of a draft that was verified.
    void observe_verdict(int slot, int drafter, int32_t n_drafted, int32_t n_accepted);

    const CostCurve& target() const { return target_; }

    /// ms per drafted token; 0: unknown.
    double draft_ms(int drafter) const { return drafters_[static_cast<size_t>(drafter)].ms_per_step; }

    double rate(int slot, int drafter, int32_t position) const;

    /// True when the drafter had been left out on this slot for at least one round.
    bool was_off(int slot, int drafter) const;

    /// Rounds and slots in which a draft was left out because it doesn't pay, and in which one was tried all the same.
    uint64_t n_off() const { return n_off_; }

    uint64_t n_probes() const { return n_probes_; }

  private:
    struct DrafterState {
        AcceptCurve accept;  ///< over all slots
        double ms_per_step = 0.0;
    };

    /// Of one slot and one drafter.
    struct State {
        AcceptCurve accept;
        int32_t rounds_off = 0;   ///< rounds in a row without a draft by choice
        int32_t probe_after = 2;  ///< such rounds before the next try
        int32_t n_failed = 0;     ///< tries in a row that showed nothing new
        bool is_probing = false;
    };

    /// What one slot could verify.
    struct Item {
        int slot = 0;
        int drafter = 0;
        int32_t n_max = 0;
        int32_t n_min = 0;
        bool adaptive = true;
        int32_t n = 0;          ///< chosen
        double survival = 1.0;  ///< probability that all chosen tokens stand
    };

    State& state(int slot, int drafter) { return states_[static_cast<size_t>(slot)][static_cast<size_t>(drafter)]; }

    const State& state(int slot, int drafter) const {
        return states_[static_cast<size_t>(slot)][static_cast<size_t>(drafter)];
    }

    /// Shares rows out to the items, best first, and stops where tokens per millisecond are at their highest.
    void allocate(std::vector<Item>& items, int32_t n_other_rows, double draft_ms);
    double gain_of_next(const Item& item, int32_t* n_next, double* survival) const;
    void probe(Item& item, int32_t n_rows, double draft_ms);

    CostCurve target_;
    std::vector<DrafterState> drafters_;
    std::vector<std::vector<State>> states_;  ///< [slot][drafter]
    uint64_t n_off_ = 0;
    uint64_t n_probes_ = 0;
};

}  // namespace foresay::spec
