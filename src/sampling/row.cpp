#include "sampling/row.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "sampling/math.h"

namespace foresay::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

/// Infinities and NaN would make every probability NaN.
float sanitise(float logit) {
    if (!(logit > -kInfinity)) {
        return -kInfinity;
    }
    return logit > kLargest ? kLargest : logit;
}

float edited(float logit, const Edit& edit) {
    if (!(logit > -kInfinity)) {
        return -kInfinity;  // dead stays dead, also under an infinite bonus
    }
    const float scaled = logit <= 0.0F ? logit * edit.scale : logit / edit.scale;
    return sanitise(sanitise(scaled) - edit.offset);
}

}  // namespace

bool is_better(const Candidate& a, const Candidate& b) {
    if (a.logit != b.logit) {
        return a.logit > b.logit;
    }
    if (a.p_rank != b.p_rank) {
        return a.p_rank > b.p_rank;
    }
    return a.id < b.id;
}

void Row::start(std::span<const float> logits) {
    logits_ = logits;
    overrides_.clear();
    floor_ = -kInfinity;
    is_list_ = false;
    items_.clear();
    n_sorted_ = 0;
}

/// Calls segment(first, end) for stretches of raw values and single(override) between them, ascending by id.
template <typename Segment, typename Single>
void Row::walk(Segment segment, Single single) const {
    size_t next = 0;
    for (const Override& entry : overrides_) {
        const auto id = static_cast<size_t>(entry.id);
        if (id > next) {
            segment(next, id);
        }
        single(entry);
        next = id + 1;
    }
    if (next < logits_.size()) {
        segment(next, logits_.size());
    }
}

void Row::edit(std::span<const Edit> edits) {
    if (edits.empty()) {
        return;
    }
    if (is_list_) {
        edit_list(edits);
        return;
    }
    merged_.clear();
    size_t i_old = 0;
    for (const Edit& edit : edits) {
        if (edit.id < 0 || static_cast<size_t>(edit.id) >= logits_.size()) {
            continue;
        }
        while (i_old < overrides_.size() && overrides_[i_old].id < edit.id) {
            merged_.push_back(overrides_[i_old++]);
        }
        float logit = sanitise(logits_[static_cast<size_t>(edit.id)]);
        if (i_old < overrides_.size() && overrides_[i_old].id == edit.id) {
            logit = overrides_[i_old++].logit;
        } else if (logit < floor_) {
            logit = -kInfinity;
        }
        merged_.push_back({edit.id, edited(logit, edit)});
    }
    merged_.insert(merged_.end(), overrides_.begin() + static_cast<ptrdiff_t>(i_old), overrides_.end());
    overrides_.swap(merged_);
}

void Row::edit_list(std::span<const Edit> edits) {
    for (Candidate& candidate : items_) {
        const auto edit = std::lower_bound(edits.begin(), edits.end(), candidate.id,
                                           [](const Edit& a, TokenId id) { return a.id < id; });
        if (edit != edits.end() && edit->id == candidate.id) {
            candidate.logit = edited(candidate.logit, *edit);
            candidate.p_rank = edited(candidate.p_rank, *edit);
        }
    }
    n_sorted_ = 0;
    // Judged by the base logit: a greedy temperature step has flattened `logit`, yet its losers are still candidates.
    filter([](const Candidate& c) { return c.p_rank > -kInfinity; });
}

Moments Row::moments() const {
    Moments m;
    double sum = 0.0;
    const auto each = [&](auto&& visit) {
        if (is_list_) {
            for (const Candidate& c : items_) {
                visit(c.logit);
            }
            return;
        }
        walk(
            [&](size_t first, size_t end) {
                for (size_t i = first; i < end; ++i) {
                    if (logits_[i] >= floor_) {
                        visit(sanitise(logits_[i]));
                    }
                }
            },
            [&](const Override& entry) { visit(entry.logit); });
    };
    each([&](float logit) {
        if (logit > -kInfinity) {
            sum += static_cast<double>(logit);
            m.max = logit > m.max ? logit : m.max;
            ++m.n;
        }
    });
    if (m.n == 0) {
        return m;
    }
    m.mean = sum / static_cast<double>(m.n);
    double squares = 0.0;
    each([&](float logit) {
        if (logit > -kInfinity) {
            const double d = static_cast<double>(logit) - m.mean;
            squares += d * d;
        }
    });
    m.sigma = std::sqrt(squares / static_cast<double>(m.n));  // IEEE square root: the same everywhere
    return m;
}

float Row::max_logit() const {
    if (is_list_) {
        if (n_sorted_ > 0) {
            return items_.front().logit;
        }
        float best = -kInfinity;
        for (const Candidate& c : items_) {
            best = c.logit > best ? c.logit : best;
        }
        return best;
    }
    float best = -kInfinity;
    const auto take = [&](float logit) { best = logit > best ? logit : best; };
    // The floor is never above the maximum of the values it was derived from, so it can't hide the best of the row
    // unless all the row's own values are dead.
    walk(
        [&](size_t first, size_t end) {
            const float segment = sanitise(max_of(logits_.subspan(first, end - first)));
            take(segment >= floor_ ? segment : -kInfinity);
        },
        [&](const Override& entry) { take(entry.logit); });
    return best;
}

size_t Row::count_at_least(float threshold) const {
    size_t n = 0;
    if (is_list_) {
        for (const Candidate& c : items_) {
            n += c.logit >= threshold ? 1 : 0;
        }
        return n;
    }
    const float bound = threshold > floor_ ? threshold : floor_;
    walk(
        [&](size_t first, size_t end) {
            for (size_t i = first; i < end; ++i) {
                n += (logits_[i] >= bound && logits_[i] > -kInfinity) ? 1 : 0;
            }
        },
        [&](const Override& entry) { n += (entry.logit >= threshold && entry.logit > -kInfinity) ? 1 : 0; });
    return n;
}

void Row::drop_below(float threshold) {
    if (is_list_) {
        filter([threshold](const Candidate& c) { return c.logit >= threshold; });
        return;
    }
    floor_ = threshold > floor_ ? threshold : floor_;
    for (Override& entry : overrides_) {
        if (!(entry.logit >= threshold)) {
            entry.logit = -kInfinity;
        }
    }
}

void Row::keep_best(size_t n) {
    if (!is_list_) {
        keep_best_of_row(n);
        return;
    }
    (void)sorted_items(n);
    truncate(n);
}

void Row::keep_best_of_row(size_t n) {
    is_list_ = true;
    n = std::min(n, logits_.size());
    // A buffer of a few n: when full, its best n stay and the n-th becomes the bound. On ordinary rows only some
    // hundred values ever pass the bound; the worst case (ascending values) stays linear.
    const size_t capacity = std::min(logits_.size(), n + std::max<size_t>(n, 256));
    float bound = -kInfinity;
    const auto add = [&](size_t id, float logit) {
        const float value = sanitise(logit);
        items_.push_back({static_cast<TokenId>(id), value, 0.0F, value});
        if (items_.size() == capacity && capacity > n) {
            std::nth_element(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(n) - 1, items_.end(), is_better);
            items_.resize(n);
            bound = items_.back().logit;
        }
    };
    if (n == 0) {
        return;
    }
    items_.reserve(capacity);
    // Ids ascend, so a later value equal to the bound is a tie that the lower ids have won: "above" is enough.
    walk(
        [&](size_t first, size_t end) {
            size_t i = first;
            for (; i + 16 <= end; i += 16) {
                if (!any_above(&logits_[i], bound)) {
                    continue;
                }
                for (size_t k = i; k < i + 16; ++k) {
                    if (logits_[k] > bound && logits_[k] >= floor_) {
                        add(k, logits_[k]);
                    }
                }
            }
            for (; i < end; ++i) {
                if (logits_[i] > bound && logits_[i] >= floor_) {
                    add(i, logits_[i]);
                }
            }
        },
        [&](const Override& entry) {
            if (entry.logit > bound) {
                add(static_cast<size_t>(entry.id), entry.logit);
            }
        });
    n_sorted_ = 0;
    (void)sorted_items(n);
    truncate(n);
}

void Row::materialise() {
    is_list_ = true;
    const auto add = [&](size_t id, float logit) {
        if (logit > -kInfinity) {
            items_.push_back({static_cast<TokenId>(id), logit, 0.0F, logit});
        }
    };
    walk(
        [&](size_t first, size_t end) {
            for (size_t i = first; i < end; ++i) {
                if (logits_[i] >= floor_) {
                    add(i, sanitise(logits_[i]));
                }
            }
        },
        [&](const Override& entry) { add(static_cast<size_t>(entry.id), entry.logit); });
}

std::span<Candidate> Row::items() {
    if (!is_list_) {
        materialise();
    }
    return items_;
}

std::span<Candidate> Row::sorted_items(size_t n) {
    if (!is_list_) {
        materialise();
    }
    n = std::min(n, items_.size());
    if (n_sorted_ < n) {
        // Sorting in steps of four times what is there keeps a long search for a prefix at O(size log prefix).
        const size_t target = std::min(items_.size(), std::max({n, n_sorted_ * 4, size_t{64}}));
        const auto first = items_.begin() + static_cast<ptrdiff_t>(n_sorted_);
        const auto last = items_.begin() + static_cast<ptrdiff_t>(target);
        if (target < items_.size()) {
            std::nth_element(first, last - 1, items_.end(), is_better);
        }
        std::sort(first, last, is_better);
        n_sorted_ = target;
    }
    return items_;
}

void Row::truncate(size_t n) {
    FORESAY_DCHECK(is_list_);
    if (n < items_.size()) {
        items_.resize(n);
        n_sorted_ = std::min(n_sorted_, n);
    }
}

void Row::drop_front(size_t n) {
    FORESAY_DCHECK(is_list_ && n <= items_.size());
    items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(n));
    n_sorted_ -= std::min(n_sorted_, n);
}

bool Row::was_live(TokenId id) const {
    if (id < 0 || static_cast<size_t>(id) >= logits_.size()) {
        return false;
    }
    const auto entry = std::lower_bound(overrides_.begin(), overrides_.end(), id,
                                        [](const Override& o, TokenId x) { return o.id < x; });
    if (entry != overrides_.end() && entry->id == id) {
        return entry->logit > -kInfinity;
    }
    return logits_[static_cast<size_t>(id)] > -kInfinity;
}

void Row::assign(TokenId id, float logit) {
    is_list_ = true;
    items_.clear();
    items_.push_back({id, logit, 0.0F, logit});
    n_sorted_ = 1;
}

double Row::softmax() {
    (void)items();
    const auto max = static_cast<double>(max_logit());
    double sum = 0.0;
    for (Candidate& c : items_) {
        const double weight = exp_fixed(static_cast<double>(c.logit) - max);
        c.p = static_cast<float>(weight);
        sum += weight;
    }
    if (!(sum > 0.0)) {
        return max;  // nothing alive
    }
    for (Candidate& c : items_) {
        c.p = static_cast<float>(static_cast<double>(c.p) / sum);
    }
    return max + log_fixed(sum);
}

void Row::finish_ranks() {
    float max = -kInfinity;
    for (const Candidate& c : items_) {
        max = c.p_rank > max ? c.p_rank : max;
    }
    double sum = 0.0;
    for (Candidate& c : items_) {
        const double weight = exp_fixed(static_cast<double>(c.p_rank) - static_cast<double>(max));
        c.p_rank = static_cast<float>(weight);
        sum += weight;
    }
    for (Candidate& c : items_) {
        c.p_rank = static_cast<float>(static_cast<double>(c.p_rank) / sum);
    }
}

}  // namespace foresay::sampling
