// How long a draft pays: picks the draft length of every slot, each round, that maximises expected tokens per second,
// down to none. Pure logic: fed with measured times and accept counts, it never reads a clock, so the same inputs give
// the same decisions. Lengths change speed only, never the text. Must not know models, drafters' kinds or HTTP.
// Source: design.md, promise 3; shared/spec/sampling.md, section 11 (expected tokens per step).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/draft_cost.h"

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
    /// Passes of this width that its figure stands for.
    int32_t n_seen(int32_t n_rows) const;

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
    int32_t n_max = 0;           ///< room and the request's limit; 0: no draft possible
    int32_t n_min = 0;           ///< a shorter draft would be dropped
    bool adaptive = true;        ///< false: drafts n_max, whatever it costs
    int32_t n_missed = 0;        ///< tokens of the text that the drafter has to read before it can draft
    int32_t n_left = INT32_MAX;  ///< tokens that the response may still get: over these, reading has to pay
    int32_t n_planned = 0;       ///< result: most tokens to draft
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

/// What one call of a drafter, for all slots that were planned, did.
struct DraftRun {
    int drafter = 0;
    int32_t n_steps = 0;   ///< passes one after another: the longest draft, and one more where it ended early
    int32_t n_slots = 1;   ///< that were drafted for
    int32_t n_missed = 0;  ///< tokens read first, over all slots
    double ms = 0.0;
};

class Controller {
  public:
    /// Drafters by the order of attempts.
    Controller(size_t n_slots, std::span<const DraftCost> drafters);

    /// A new response begins on the slot: its estimates start over from what all slots have taught.
    void begin(int slot);

    /// Lengths for a drafter that runs a model: fills n_planned of slots with n_max > 0. Reading what it missed,
    /// drafting and verifying have to pay together. n_other_rows: rows of slots that can't draft now. Drafts that cost
    /// nothing need no plan: trim().
    void plan(std::span<PlanSlot> slots, int drafter, int32_t n_other_rows);
    /// How much of each draft is worth verifying in this round; drafting is paid already. n_other_rows: rows that ride
    /// in the same pass anyway (slots without a draft).
    void trim(std::span<TrimSlot> slots, int32_t n_other_rows);

    /// A pass of the target over n_rows rows, all with logits, took ms.
    void observe_pass(int32_t n_rows, double ms) { target_.observe(n_rows, ms); }

    void observe_draft(const DraftRun& run);
    /// The drafter was planned for more and gave n_drafted tokens (it wasn't sure enough, or had nothing).
    void observe_short(int slot, int drafter, int32_t n_drafted);
    /// What became of a draft that was verified.
    void observe_verdict(int slot, int drafter, int32_t n_drafted, int32_t n_accepted);

    const CostCurve& target() const { return target_; }

    /// ms of a call that drafts n tokens; 0: unknown.
    double draft_ms(int drafter, int32_t n) const;

    /// ms per token that the drafter has to read first; 0: unknown.
    double read_ms(int drafter) const { return drafters_[static_cast<size_t>(drafter)].ms_per_missed; }

    /// Probability that a drafted token at this position stands.
    double rate(int slot, int drafter, int32_t position) const;

    /// Rounds and slots in which a draft was left out because it doesn't pay, and in which one was tried all the same.
    uint64_t n_off() const { return n_off_; }

    uint64_t n_probes() const { return n_probes_; }

    /// What tries may cost now, in ms.
    double purse(int drafter) const { return drafters_[static_cast<size_t>(drafter)].purse_ms; }

  private:
    struct DrafterState {
        explicit DrafterState(DraftCost kind);

        DraftCost kind;
        AcceptCurve accept;  ///< over all slots: of tokens that were drafted
        AcceptCurve yield;   ///< of tokens that were planned
        double ms_per_step = 0.0;
        double ms_per_missed = 0.0;
        double ms_per_slot = 0.0;          ///< of the last call
        double ms_per_slot_reading = 0.0;  ///< the part of it that was reading
        double trust = 0.7;                ///< what responses saved that were read for, over what was promised for them
        double purse_ms = 0.0;
    };

    /// Of one slot and one drafter.
    struct State {
        State();

        AcceptCurve accept;
        AcceptCurve yield;
        int32_t short_at = -1;    ///< the draft under way ended there by itself
        int32_t rounds_off = 0;   ///< rounds in a row without a draft by choice
        int32_t probe_after = 0;  ///< such rounds before the next try
        int32_t n_failed = 0;     ///< tries in a row that showed nothing new
        int32_t n_tries = 0;      ///< that follow the last one at once
        bool is_probing = false;
        /// To be saved by the end of the response, when reading its text was decided; 0: it wasn't.
        double promised_ms = 0.0;
        double kept_ms = 0.0;       ///< saved since, reading left out
        bool is_stretched = false;  ///< the plan asked for a token more than seems best
        bool is_adaptive = true;
    };

    /// What one slot could verify.
    struct Item {
        int slot = 0;
        int drafter = 0;
        int32_t n_max = 0;
        int32_t n_min = 0;
        bool adaptive = true;
        int32_t n_missed = 0;
        int32_t n_left = INT32_MAX;
        int32_t n = 0;          ///< chosen
        double survival = 1.0;  ///< probability that all chosen tokens stand
    };

    State& state(int slot, int drafter) { return states_[static_cast<size_t>(slot)][static_cast<size_t>(drafter)]; }

    const State& state(int slot, int drafter) const {
        return states_[static_cast<size_t>(slot)][static_cast<size_t>(drafter)];
    }

    DrafterState& drafter(int i) { return drafters_[static_cast<size_t>(i)]; }

    const DrafterState& drafter(int i) const { return drafters_[static_cast<size_t>(i)]; }

    /// Probability that a planned token comes and stands.
    double yield(int slot, int drafter, int32_t position) const;
    /// ms that drafting n tokens takes, guessed if need be; 0 when it is paid already.
    double cost_of_draft(int drafter, int32_t n, bool is_paid) const;
    double cost_of_reading(const Item& item) const;
    /// Shares rows out to the items, best first, and stops where tokens per millisecond are at their highest. All items
    /// are of one drafter unless drafting is paid already.
    void allocate(std::vector<Item>& items, int32_t n_other_rows, bool is_paid);
    double gain_of_next(const Item& item, bool is_paid, int32_t* n_next, double* survival) const;
    /// Leaves out items whose drafter would have to read more than the rest of the response gives back.
    void drop_late_readers(std::vector<Item>& items, int32_t n_other_rows);
    bool needs_refresh(int32_t n_rows) const;
    void probe(Item& item, int32_t n_rows, bool is_paid, double* reserved_ms);
    void stretch(std::vector<Item>& items, int32_t n_other_rows);
    void earn(int drafter, double ms);

    CostCurve target_;
    std::vector<DrafterState> drafters_;
    std::vector<std::vector<State>> states_;  ///< [slot][drafter]
    double ms_per_extra_row_ = 0.0;           ///< of the round under way
    double ms_per_token_ = 0.0;               ///< without drafts, over all slots
    uint64_t n_off_ = 0;
    uint64_t n_probes_ = 0;
};

}  // namespace foresay::spec
