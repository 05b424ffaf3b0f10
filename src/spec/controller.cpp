#include "spec/controller.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foresay::spec {
namespace {

// The cost curve.
constexpr int32_t kMostRows = 1024;
constexpr double kGuessedSlope = 0.05;  // of a row more, before it is measured: passes are bound by reading weights
constexpr double kLeastSlope = 0.02;
constexpr double kScaleWeight = 0.2;
constexpr double kShapeWeight = 0.02;  // far below the scale's: what slows all widths alike must not bend the shape
constexpr double kOutlier = 1.6;       // a single pass says no more than this much about its width
constexpr int32_t kTrusted = 3;        // passes of a width before it can move the scale
constexpr int64_t kOldAge = 32;        // passes after which what a width has shown counts less:
constexpr int32_t kOldWeight = 8;      // as much as so many passes

// Acceptance.
constexpr double kSlotKeep = 0.98;
constexpr double kAllKeep = 0.99;
constexpr double kPriorWeight = 7.0;
constexpr double kGuessWeight = 5.0;  // of the first guess, against what all slots have shown
constexpr double kFirstGuess = 0.6;

// Decisions.
constexpr double kMargin = 1.02;       // a draft must promise at least this much over none
constexpr double kTrustWeight = 0.15;  // of one response, in how far promises are believed
constexpr double kMostTrust = 1.0;
constexpr double kUnknownDraftCost = 0.2;  // per drafted token, of a pass over one row
constexpr int32_t kNoteworthy = 4;         // tokens per slot that the drafter has to read: fewer ride along
constexpr double kUnknownReadCost = 0.3;   // per token read, of a drafted one: rows of one pass share the weights
constexpr int32_t kGuessedLeft = 256;      // tokens that a response of unknown length goes on for
constexpr int64_t kRefreshAge = 128;       // passes after which the width without drafts is measured again
constexpr int64_t kFirstRefreshAge = 64;   // the same while it was seen less than kWellSeen times
constexpr int32_t kWellSeen = 6;
constexpr int64_t kStretchAge = 100;  // passes after which a width next to the chosen one is looked at again
constexpr int32_t kStretch = 2;       // how far next to it
constexpr double kStretchHope = 0.5;  // least probability that all of the chosen draft stands
constexpr double kNegligible = 1e-3;

// Tries of a drafter that is left out: paid from a purse that fills with time, and faster while drafts gain.
constexpr double kProbeBudget = 0.008;  // of the time without drafts
constexpr double kProbeCredit = 0.15;   // of the time that drafts have saved
constexpr double kPurse = 60.0;         // most that is kept, and owed, in passes over one row
constexpr int32_t kFirstProbe = 4;      // rounds
constexpr int32_t kMostFailed = 4;      // each failed try doubles the rounds until the next, so often
constexpr double kMostTries = 16.0;     // in a row
constexpr double kFadedWeight = 4.0;

}  // namespace

size_t CostCurve::index_of(int32_t n_rows) {
    return static_cast<size_t>(std::clamp(n_rows, 1, kMostRows));
}

double CostCurve::shape(int32_t n_rows) const {
    const size_t at = index_of(n_rows);
    if (at < widths_.size() && widths_[at].n > 0) {
        return widths_[at].shape;
    }
    size_t lower = 0;
    size_t lowest = 0;
    for (size_t i = std::min(at, widths_.size()); i-- > 1;) {
        if (widths_[i].n > 0) {
            lower = lower == 0 ? i : lower;
            lowest = i;
        }
    }
    size_t upper = 0;
    for (size_t i = at + 1; i < widths_.size() && upper == 0; ++i) {
        upper = widths_[i].n > 0 ? i : 0;
    }
    const auto rows = static_cast<double>(at);
    if (lower != 0 && upper != 0) {
        const double share = (rows - static_cast<double>(lower)) / static_cast<double>(upper - lower);
        return widths_[lower].shape + share * (widths_[upper].shape - widths_[lower].shape);
    }
    if (lower != 0) {
        double slope = kGuessedSlope;
        if (lowest < lower) {
            slope = (widths_[lower].shape - widths_[lowest].shape) / static_cast<double>(lower - lowest);
        }
        return widths_[lower].shape + std::max(kLeastSlope, slope) * (rows - static_cast<double>(lower));
    }
    if (upper != 0) {
        return widths_[upper].shape / (1.0 + kGuessedSlope * (static_cast<double>(upper) - rows));
    }
    return 1.0 + kGuessedSlope * (rows - 1.0);
}

void CostCurve::observe(int32_t n_rows, double ms) {
    if (n_rows < 1 || !(ms > 0.0)) {
        return;
    }
    const size_t at = index_of(n_rows);
    if (widths_.size() <= at) {
        widths_.resize(at + 1);
    }
    ++n_passes_;
    const double expected = shape(n_rows);
    if (scale_ == 0.0) {
        scale_ = ms / expected;
    }
    Width& width = widths_[at];
    double seen = ms / scale_;
    if (width.n >= kTrusted) {
        seen = std::clamp(seen, width.shape / kOutlier, width.shape * kOutlier);
        scale_ *= 1.0 + kScaleWeight * (seen / width.shape - 1.0);
    }
    if (n_passes_ - width.last > kOldAge) {
        width.n = std::min(width.n, kOldWeight);
    }
    width.shape =
        width.n == 0 ? seen : width.shape + std::max(kShapeWeight, 1.0 / (width.n + 1)) * (seen - width.shape);
    width.n = std::min(width.n + 1, 1000);
    width.last = n_passes_;
}

double CostCurve::cost(int32_t n_rows) const {
    return scale_ * shape(n_rows);
}

double CostCurve::ratio(int32_t n_rows) const {
    return shape(n_rows) / shape(1);
}

int32_t CostCurve::widest() const {
    for (size_t i = widths_.size(); i-- > 1;) {
        if (widths_[i].n > 0) {
            return static_cast<int32_t>(i);
        }
    }
    return 0;
}

int32_t CostCurve::n_seen(int32_t n_rows) const {
    const size_t at = index_of(n_rows);
    return at < widths_.size() ? widths_[at].n : 0;
}

int64_t CostCurve::age(int32_t n_rows) const {
    const size_t at = index_of(n_rows);
    return at < widths_.size() && widths_[at].n > 0 ? n_passes_ - widths_[at].last
                                                    : std::numeric_limits<int64_t>::max();
}

void AcceptCurve::observe(int32_t n_drafted, int32_t n_accepted) {
    const auto n_tested = static_cast<size_t>(std::clamp(n_accepted + 1, 0, std::max(0, n_drafted)));
    if (positions_.size() < n_tested) {
        positions_.resize(n_tested);
    }
    for (size_t i = 0; i < n_tested; ++i) {
        positions_[i].tested = positions_[i].tested * keep_ + 1.0;
        positions_[i].stood = positions_[i].stood * keep_ + (static_cast<int32_t>(i) < n_accepted ? 1.0 : 0.0);
    }
}

double AcceptCurve::pooled(double guess) const {
    double tested = kPriorWeight;
    double stood = kPriorWeight * guess;
    for (const Position& position : positions_) {
        tested += position.tested;
        stood += position.stood;
    }
    return stood / tested;
}

double AcceptCurve::rate(int32_t position, const AcceptCurve* prior) const {
    const double first = prior != nullptr ? prior->rate(0, nullptr) : kFirstGuess;
    double guess = first;
    if (prior != nullptr && position > 0) {
        // Half what this position does elsewhere, half how this text goes at all.
        guess = 0.5 * (prior->rate(position, nullptr) + pooled(first));
    } else if (position > 0) {
        guess = pooled(first);
    }
    const auto at = static_cast<size_t>(position);
    if (at >= positions_.size()) {
        return guess;
    }
    const double weight = prior != nullptr ? kPriorWeight : kGuessWeight;
    return (positions_[at].stood + weight * guess) / (positions_[at].tested + weight);
}

void AcceptCurve::fade(double most) {
    for (Position& position : positions_) {
        if (position.tested > most) {
            position.stood *= most / position.tested;
            position.tested = most;
        }
    }
}

Controller::DrafterState::DrafterState(DraftCost cost) : kind(cost), accept(kAllKeep), yield(kAllKeep) {}

Controller::State::State() : accept(kSlotKeep), yield(kSlotKeep), probe_after(kFirstProbe) {}

Controller::Controller(size_t n_slots, std::span<const DraftCost> drafters) {
    for (const DraftCost kind : drafters) {
        drafters_.emplace_back(kind);
    }
    states_.resize(n_slots);
    for (auto& states : states_) {
        states.resize(drafters.size());
    }
}

void Controller::begin(int slot) {
    auto& states = states_[static_cast<size_t>(slot)];
    for (size_t i = 0; i < states.size(); ++i) {
        State& s = states[i];
        if (s.promised_ms > 0.0) {
            double& trust = drafters_[i].trust;
            trust += kTrustWeight * (std::clamp(s.kept_ms / s.promised_ms, -1.0, 2.0) - trust);
            trust = std::clamp(trust, 0.0, kMostTrust);
        }
        s = State();
    }
}

double Controller::rate(int slot, int i_drafter, int32_t position) const {
    return state(slot, i_drafter).accept.rate(position, &drafter(i_drafter).accept);
}

double Controller::yield(int slot, int i_drafter, int32_t position) const {
    return state(slot, i_drafter).yield.rate(position, &drafter(i_drafter).yield);
}

double Controller::draft_ms(int i_drafter, int32_t n) const {
    const DrafterState& d = drafter(i_drafter);
    return n < 1 ? 0.0 : d.ms_per_step * (d.kind == DraftCost::kPerToken ? n : 1);
}

double Controller::cost_of_draft(int i_drafter, int32_t n, bool is_paid) const {
    if (is_paid || n < 1 || drafter(i_drafter).kind == DraftCost::kFree) {
        return 0.0;
    }
    const double known = draft_ms(i_drafter, n);
    const int32_t n_passes = drafter(i_drafter).kind == DraftCost::kPerToken ? n : 1;
    return known > 0.0 ? known : kUnknownDraftCost * target_.cost(1) * n_passes;
}

double Controller::cost_of_reading(const Item& item) const {
    const double known = drafter(item.drafter).ms_per_missed;
    return item.n_missed * (known > 0.0 ? known : kUnknownReadCost * cost_of_draft(item.drafter, 1, false));
}

void Controller::observe_draft(const DraftRun& run) {
    DrafterState& d = drafter(run.drafter);
    if (run.n_steps < 1 || run.n_slots < 1 || !(run.ms > 0.0)) {
        return;
    }
    d.ms_per_slot = run.ms / run.n_slots;
    d.ms_per_slot_reading = 0.0;
    const int32_t n_passes = d.kind == DraftCost::kPerToken ? run.n_steps : 1;
    const double drafting = d.ms_per_step * n_passes;
    if (run.n_missed >= kNoteworthy * run.n_slots) {
        // The first call may be one that reads: then all of it counts as reading until the next says better.
        const double seen = std::max(0.0, run.ms - drafting) / run.n_missed;
        d.ms_per_slot_reading = std::max(0.0, run.ms - drafting) / run.n_slots;
        d.ms_per_missed += (d.ms_per_missed == 0.0 ? 1.0 : kScaleWeight) * (seen - d.ms_per_missed);
        return;
    }
    const double seen = std::max(0.5 * run.ms, run.ms - run.n_missed * d.ms_per_missed) / n_passes;
    double& now = d.ms_per_step;
    now = now == 0.0 ? seen : now + kScaleWeight * (std::clamp(seen, now / kOutlier, now * kOutlier) - now);
}

void Controller::observe_short(int slot, int i_drafter, int32_t n_drafted) {
    State& s = state(slot, i_drafter);
    if (n_drafted > 0) {
        s.short_at = n_drafted;
        return;
    }
    s.yield.observe(1, 0);
    drafter(i_drafter).yield.observe(1, 0);
    if (s.is_probing) {
        s.is_probing = false;
        s.n_failed = std::min(s.n_failed + 1, kMostFailed);
    }
    if (s.is_adaptive) {
        earn(i_drafter, -drafter(i_drafter).ms_per_slot);
    }
}

void Controller::observe_verdict(int slot, int i_drafter, int32_t n_drafted, int32_t n_accepted) {
    State& s = state(slot, i_drafter);
    DrafterState& d = drafter(i_drafter);
    s.accept.observe(n_drafted, n_accepted);
    d.accept.observe(n_drafted, n_accepted);
    const bool ended_early = s.short_at == n_drafted && n_accepted == n_drafted;
    s.short_at = -1;
    s.yield.observe(n_drafted + (ended_early ? 1 : 0), n_accepted);
    d.yield.observe(n_drafted + (ended_early ? 1 : 0), n_accepted);
    const double saved =
        n_accepted * ms_per_token_ - n_drafted * ms_per_extra_row_ - (d.kind == DraftCost::kFree ? 0.0 : d.ms_per_slot);
    s.kept_ms += saved + d.ms_per_slot_reading;
    if (s.is_adaptive) {
        earn(i_drafter, s.is_probing ? saved : saved * kProbeCredit);
    }
    if (!s.is_probing) {
        return;
    }
    s.is_probing = false;
    if (n_accepted >= n_drafted) {
        s.n_failed = 0;
        s.probe_after = 1;  // something has changed: look again at once
    } else {
        s.n_failed = std::min(s.n_failed + 1, kMostFailed);
    }
}

void Controller::earn(int i_drafter, double ms) {
    const double most = kPurse * target_.cost(1);
    double& purse = drafter(i_drafter).purse_ms;
    purse = std::clamp(purse + ms, -most, most);
}

/// Expected tokens that the item's next step adds: one token, or n_min at once where a shorter draft would be dropped.
/// 0 when there is no next step.
double Controller::gain_of_next(const Item& item, bool is_paid, int32_t* n_next, double* survival) const {
    const int32_t n = item.n == 0 ? std::max(1, item.n_min) : item.n + 1;
    if (n > item.n_max) {
        return 0.0;
    }
    double gain = 0.0;
    double alive = item.survival;
    for (int32_t i = item.n; i < n && alive > kNegligible; ++i) {
        alive *= is_paid ? rate(item.slot, item.drafter, i) : yield(item.slot, item.drafter, i);
        gain += alive;
    }
    *n_next = n;
    *survival = alive;
    return alive > kNegligible ? gain : 0.0;
}

void Controller::allocate(std::vector<Item>& items, int32_t n_other_rows, bool is_paid) {
    int32_t n_rows = n_other_rows;
    double tokens = n_other_rows;
    int32_t n_steps = 0;
    for (Item& item : items) {
        item.n = 0;
        item.survival = 1.0;
        n_rows += 1;
        tokens += 1.0;
        if (!item.adaptive) {
            item.n = item.n_max;
            n_rows += item.n_max;
            n_steps = std::max(n_steps, item.n_max);
        }
    }
    double reading = 0.0;  // of the last tokens, which ride in the first pass; more than that: drop_late_readers()
    // More rows never cost less: a wider pass that was seen at a good moment would make every draft seem to pay.
    const double least = target_.cost(n_other_rows + static_cast<int32_t>(items.size()));
    const auto rate_of = [&](double n_tokens, int32_t rows, int32_t steps) {
        return n_tokens /
               (std::max(least, target_.cost(rows)) + cost_of_draft(items.front().drafter, steps, is_paid) + reading);
    };
    double best = rate_of(tokens, n_rows, n_steps) * kMargin;
    std::vector<int32_t> chosen(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
        chosen[i] = items[i].n;
    }
    while (true) {
        size_t next = items.size();
        double next_per_row = 0.0;
        int32_t next_n = 0;
        double next_gain = 0.0;
        double next_survival = 0.0;
        for (size_t i = 0; i < items.size(); ++i) {
            int32_t n = 0;
            double survival = 0.0;
            const double gain = items[i].adaptive ? gain_of_next(items[i], is_paid, &n, &survival) : 0.0;
            const double per_row = gain > 0.0 ? gain / (n - items[i].n) : 0.0;
            if (per_row > next_per_row) {
                next = i;
                next_per_row = per_row;
                next_n = n;
                next_gain = gain;
                next_survival = survival;
            }
        }
        if (next == items.size()) {
            break;
        }
        Item& item = items[next];
        n_rows += next_n - item.n;
        if (n_rows > 2 * target_.widest() + 1 + item.n_min) {
            break;  // nothing is known about passes so wide: get there step by step
        }
        tokens += next_gain;
        n_steps = std::max(n_steps, next_n);
        if (item.n == 0 && !is_paid && item.n_missed < kNoteworthy) {
            reading += cost_of_reading(item);
        }
        item.n = next_n;
        item.survival = next_survival;
        const double rate = rate_of(tokens, n_rows, n_steps);
        if (rate > best) {
            best = rate;
            for (size_t i = 0; i < items.size(); ++i) {
                chosen[i] = items[i].n;
            }
        }
    }
    for (size_t i = 0; i < items.size(); ++i) {
        items[i].n = chosen[i];
    }
}

void Controller::drop_late_readers(std::vector<Item>& items, int32_t n_other_rows) {
    const auto n_slots = static_cast<int32_t>(items.size()) + n_other_rows;
    int32_t n_rows = n_slots;
    int32_t n_steps = 0;
    int32_t n_drafting = 0;
    double tokens = n_slots;
    for (const Item& item : items) {
        n_rows += item.n;
        n_steps = std::max(n_steps, item.n);
        n_drafting += item.n > 0 ? 1 : 0;
        double alive = 1.0;
        for (int32_t i = 0; i < item.n; ++i) {
            alive *= yield(item.slot, item.drafter, i);
            tokens += alive;
        }
    }
    if (n_drafting == 0) {
        return;
    }
    const double with =
        (std::max(target_.cost(n_slots), target_.cost(n_rows)) + cost_of_draft(items.front().drafter, n_steps, false)) /
        tokens;
    const double saved = (target_.cost(n_slots) / n_slots - with) * n_slots / n_drafting;  // per token of a slot
    for (Item& item : items) {
        if (!item.adaptive || item.n == 0 || item.n_missed < kNoteworthy) {
            continue;
        }
        State& s = state(item.slot, item.drafter);
        const double promise = saved * std::min(item.n_left, kGuessedLeft);
        if (cost_of_reading(item) > promise * drafter(item.drafter).trust) {
            item.n = 0;
        } else {
            s.promised_ms = promise;
            s.kept_ms = 0.0;
        }
    }
}

/// An item that doesn't pay: now and then it is tried all the same, rarely enough to cost little. reserved_ms: of the
/// purse, by the tries of this round.
void Controller::probe(Item& item, int32_t n_rows, bool is_paid, double* reserved_ms) {
    State& s = state(item.slot, item.drafter);
    const DrafterState& d = drafter(item.drafter);
    const int32_t n = std::max(1, item.n_min);
    if (n > item.n_max) {
        return;
    }
    ++s.rounds_off;
    const double cost = target_.cost(n_rows + n) - target_.cost(n_rows) + cost_of_draft(item.drafter, n, is_paid);
    const double reading = is_paid ? 0.0 : cost_of_reading(item);
    if (s.n_tries > 0) {
        --s.n_tries;
    } else if (s.rounds_off <= s.probe_after || *reserved_ms + cost + reading > d.purse_ms) {
        ++n_off_;
        return;
    } else {
        *reserved_ms += cost + reading;  // it is paid when the verdict comes: other slots mustn't spend it too
        // Once the drafter has read a long text, a single try would waste it.
        s.n_tries = static_cast<int32_t>(std::min(kMostTries, reading / std::max(cost, 1e-9)));
    }
    s.probe_after = kFirstProbe << s.n_failed;
    s.rounds_off = 0;
    s.is_probing = true;
    s.accept.fade(kFadedWeight);
    s.yield.fade(kFadedWeight);
    item.n = n;
    ++n_probes_;
}

/// A little beyond what seems best, now and then: widths that were measured at a bad moment, or never, would keep the
/// lengths short for good.
void Controller::stretch(std::vector<Item>& items, int32_t n_other_rows) {
    int32_t n_rows = n_other_rows;
    Item* best = nullptr;
    double hope = kStretchHope;
    for (Item& item : items) {
        n_rows += 1 + item.n;
        double alive = item.adaptive && item.n > 0 && item.n < item.n_max ? 1.0 : 0.0;
        for (int32_t i = 0; i < item.n && alive > 0.0; ++i) {
            alive *= rate(item.slot, item.drafter, i);
        }
        if (alive > hope) {
            best = &item;
            hope = alive;
        }
    }
    for (int32_t more = 1; best != nullptr && more <= std::min(kStretch, best->n_max - best->n); ++more) {
        if (target_.age(n_rows + more) > kStretchAge) {
            best->n += more;
            state(best->slot, best->drafter).is_stretched = true;
            return;
        }
    }
}

/// Everything is compared with the width without drafts, which isn't seen while all slots draft: now and then it is
/// measured again, sooner while what is known of it comes from the start, where other programs may have run.
bool Controller::needs_refresh(int32_t n_rows) const {
    return target_.age(n_rows) > (target_.n_seen(n_rows) < kWellSeen ? kFirstRefreshAge : kRefreshAge);
}

void Controller::plan(std::span<PlanSlot> slots, int i_drafter, int32_t n_other_rows) {
    std::vector<Item> items;
    int32_t n_rows = n_other_rows;
    bool any_adaptive = false;
    for (PlanSlot& slot : slots) {
        slot.n_planned = 0;
        ++n_rows;
        items.push_back({slot.slot, i_drafter, std::max(0, slot.n_max), slot.n_min, slot.adaptive,
                         std::max(0, slot.n_missed), slot.n_left});
        any_adaptive = any_adaptive || (slot.adaptive && slot.n_max > 0);
    }
    if (items.empty()) {
        return;
    }
    double reserved_ms = 0.0;
    const bool refresh = any_adaptive && needs_refresh(n_rows);
    if (!refresh) {
        allocate(items, n_other_rows, false);
        drop_late_readers(items, n_other_rows);
        for (const Item& item : items) {
            state(item.slot, i_drafter).is_stretched = false;
        }
        stretch(items, n_other_rows);
        earn(i_drafter, any_adaptive ? kProbeBudget * target_.cost(n_rows) : 0.0);
    }
    for (size_t i = 0; i < items.size(); ++i) {
        Item& item = items[i];
        state(item.slot, i_drafter).is_adaptive = item.adaptive;
        state(item.slot, i_drafter).short_at = -1;
        if (refresh) {
            item.n = item.adaptive ? 0 : item.n_max;
        } else if (item.adaptive && item.n == 0) {
            probe(item, n_rows, false, &reserved_ms);
        } else if (item.adaptive) {
            state(item.slot, i_drafter).rounds_off = 0;
        }
        slots[i].n_planned = item.n;
    }
}

void Controller::trim(std::span<TrimSlot> slots, int32_t n_other_rows) {
    std::vector<Item> items;
    int32_t n_rows = n_other_rows;
    for (const TrimSlot& slot : slots) {
        ++n_rows;
        items.push_back({slot.slot, slot.drafter, slot.n_drafted, std::min(slot.n_min, slot.n_drafted), slot.adaptive});
    }
    if (items.empty()) {
        return;
    }
    const auto is_free = [&](const Item& item) { return drafter(item.drafter).kind == DraftCost::kFree; };
    if (!target_.empty()) {
        allocate(items, n_other_rows, true);
        if (std::all_of(items.begin(), items.end(), is_free)) {
            stretch(items, n_other_rows);
        }
        for (Item& item : items) {
            State& s = state(item.slot, item.drafter);
            if (item.adaptive && item.n > 0 && s.is_stretched && !is_free(item)) {
                item.n = item.n_max;  // drafted for this
            }
            s.is_stretched = false;
        }
    }
    double reserved_ms = 0.0;
    const bool refresh = needs_refresh(n_rows);
    int32_t n_kept = 0;
    for (size_t i = 0; i < items.size(); ++i) {
        Item& item = items[i];
        State& s = state(item.slot, item.drafter);
        s.is_adaptive = item.adaptive;
        if (is_free(item) && item.adaptive) {
            earn(item.drafter, kProbeBudget * target_.cost(n_rows));
        }
        if (target_.empty()) {
            item.n = item.n_max;
        } else if (refresh && item.adaptive && is_free(item)) {
            item.n = 0;
        } else if (item.adaptive && item.n == 0 && s.is_probing) {
            item.n = std::min(item.n_max, std::max(1, item.n_min));  // the plan's try
        } else if (item.adaptive && item.n == 0) {
            probe(item, n_rows, true, &reserved_ms);
        } else if (item.adaptive) {
            s.rounds_off = 0;
        }
        slots[i].n_kept = item.n;
        n_kept += item.n;
    }
    ms_per_token_ = target_.cost(n_rows) / n_rows;
    ms_per_extra_row_ = n_kept > 0 ? std::max(0.0, target_.cost(n_rows + n_kept) - target_.cost(n_rows)) / n_kept : 0.0;
}

}  // namespace foresay::spec
