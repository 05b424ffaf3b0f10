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

// Acceptance.
constexpr double kSlotKeep = 0.98;
constexpr double kAllKeep = 0.99;
constexpr double kPriorWeight = 10.0;
constexpr double kFirstGuess = 0.6;

// Decisions.
constexpr double kMargin = 1.01;           // a draft must promise at least this much over none
constexpr double kUnknownDraftCost = 0.2;  // of a pass over one row
constexpr double kProbeBudget = 0.008;     // share of the time that tries may cost
constexpr int32_t kMostOff = 512;
constexpr int32_t kLeastOff = 4;
constexpr int32_t kMostFailed = 1;
constexpr double kFadedWeight = 4.0;
constexpr int64_t kRefreshAge = 256;  // passes after which the width without drafts is measured again
constexpr double kNegligible = 1e-3;

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
    return (positions_[at].stood + kPriorWeight * guess) / (positions_[at].tested + kPriorWeight);
}

void AcceptCurve::fade(double most) {
    for (Position& position : positions_) {
        if (position.tested > most) {
            position.stood *= most / position.tested;
            position.tested = most;
        }
    }
}

Controller::Controller(size_t n_slots, size_t n_drafters)
    : drafters_(n_drafters, DrafterState{AcceptCurve(kAllKeep)}),
      states_(n_slots, std::vector<State>(n_drafters, State{AcceptCurve(kSlotKeep)})) {}

void Controller::begin(int slot) {
    for (State& state : states_[static_cast<size_t>(slot)]) {
        state = State{AcceptCurve(kSlotKeep)};
    }
}

double Controller::rate(int slot, int drafter, int32_t position) const {
    return state(slot, drafter).accept.rate(position, &drafters_[static_cast<size_t>(drafter)].accept);
}

bool Controller::was_off(int slot, int drafter) const {
    return state(slot, drafter).rounds_off > 0 || state(slot, drafter).is_probing;
}

void Controller::observe_draft(int drafter, int32_t n_steps, double ms, bool catches_up) {
    if (n_steps < 1 || !(ms > 0.0)) {
        return;
    }
    double& now = drafters_[static_cast<size_t>(drafter)].ms_per_step;
    const double seen = ms / n_steps;
    if (now == 0.0) {
        now = catches_up ? 0.0 : seen;
    } else if (!catches_up || seen < now) {
        now += kScaleWeight * (std::clamp(seen, now / kOutlier, now * kOutlier) - now);
    }
}

void Controller::observe_verdict(int slot, int drafter, int32_t n_drafted, int32_t n_accepted) {
    State& s = state(slot, drafter);
    s.accept.observe(n_drafted, n_accepted);
    drafters_[static_cast<size_t>(drafter)].accept.observe(n_drafted, n_accepted);
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

/// Expected tokens that the item's next step adds: one token, or n_min at once where a shorter draft would be dropped.
/// 0 when there is no next step.
double Controller::gain_of_next(const Item& item, int32_t* n_next, double* survival) const {
    const int32_t n = item.n == 0 ? std::max(1, item.n_min) : item.n + 1;
    if (n > item.n_max) {
        return 0.0;
    }
    double gain = 0.0;
    double alive = item.survival;
    for (int32_t i = item.n; i < n && alive > kNegligible; ++i) {
        alive *= rate(item.slot, item.drafter, i);
        gain += alive;
    }
    *n_next = n;
    *survival = alive;
    return alive > kNegligible ? gain : 0.0;
}

void Controller::allocate(std::vector<Item>& items, int32_t n_other_rows, double draft_ms) {
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
    const auto rate_of = [&](double n_tokens, int32_t rows, int32_t steps) {
        return n_tokens / (target_.cost(rows) + draft_ms * steps);
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
            const double gain = items[i].adaptive ? gain_of_next(items[i], &n, &survival) : 0.0;
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

/// An item that doesn't pay: now and then it is tried all the same, rarely enough to cost little.
void Controller::probe(Item& item, int32_t n_rows, double draft_ms) {
    State& s = state(item.slot, item.drafter);
    const int32_t n = std::max(1, item.n_min);
    if (n > item.n_max) {
        return;
    }
    if (++s.rounds_off <= s.probe_after) {
        ++n_off_;
        return;
    }
    const double extra = (target_.cost(n_rows + n) + draft_ms * n) / std::max(target_.cost(n_rows), 1e-9) - 1.0;
    const double wait = std::clamp(extra / kProbeBudget, static_cast<double>(kLeastOff), static_cast<double>(kMostOff));
    s.probe_after = std::min(kMostOff, static_cast<int32_t>(wait) << s.n_failed);
    s.rounds_off = 0;
    s.is_probing = true;
    s.accept.fade(kFadedWeight);
    item.n = n;
    ++n_probes_;
}

void Controller::plan(std::span<PlanSlot> slots, int drafter, int32_t n_other_rows) {
    std::vector<Item> items;
    int32_t n_rows = n_other_rows;
    bool any_adaptive = false;
    for (PlanSlot& slot : slots) {
        slot.n_planned = 0;
        ++n_rows;
        items.push_back({slot.slot, drafter, std::max(0, slot.n_max), slot.n_min, slot.adaptive});
        any_adaptive = any_adaptive || (slot.adaptive && slot.n_max > 0);
    }
    const double known = drafters_[static_cast<size_t>(drafter)].ms_per_step;
    const double draft_ms = known > 0.0 ? known : kUnknownDraftCost * target_.cost(1);
    // A width that hasn't been seen for long is measured first: everything is compared with it.
    const bool refresh = any_adaptive && target_.age(n_rows) > kRefreshAge;
    if (!refresh) {
        allocate(items, n_other_rows, draft_ms);
    }
    for (size_t i = 0; i < items.size(); ++i) {
        Item& item = items[i];
        if (refresh) {
            item.n = item.adaptive ? 0 : item.n_max;
        } else if (item.adaptive && item.n == 0) {
            probe(item, n_rows, draft_ms);
        } else if (item.adaptive) {
            state(item.slot, drafter).rounds_off = 0;
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
    if (!target_.empty()) {
        allocate(items, n_other_rows, 0.0);
    }
    for (size_t i = 0; i < items.size(); ++i) {
        Item& item = items[i];
        State& s = state(item.slot, item.drafter);
        if (target_.empty()) {
            item.n = item.n_max;
        } else if (item.adaptive && item.n == 0 && s.is_probing) {
            item.n = std::min(item.n_max, std::max(1, item.n_min));  // the plan's try
        } else if (item.adaptive && item.n == 0) {
            probe(item, n_rows, 0.0);
        } else if (item.adaptive) {
            s.rounds_off = 0;
        }
        slots[i].n_kept = item.n;
    }
}

}  // namespace foresay::spec
