#include "sampling/dry.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "sampling/math.h"
#include "sampling/steps.h"

namespace foresay::sampling {

using vocab::TokenId;

Breakers::Breakers(std::span<const std::string> texts, const vocab::Vocab& vocab) {
    constexpr size_t kMaxText = 40;  // the peer's bounds: a breaker is a short mark, not a document
    constexpr size_t kMaxTail = 20;
    for (TokenId id = 0; id < vocab.n_tokens(); ++id) {
        const std::string piece = vocab.piece(id, true);
        for (const std::string& whole : texts) {
            const std::string_view text = std::string_view(whole).substr(0, kMaxText);
            if (text.empty()) {
                continue;  // would be found in every token
            }
            if (piece.find(text) != std::string::npos) {
                breakers_.push_back({id, {}});
                continue;
            }
            for (size_t n = 1; n < text.size() && n <= piece.size(); ++n) {
                if (std::string_view(piece).substr(piece.size() - n) != text.substr(0, n)) {
                    continue;
                }
                std::vector<TokenId> tail = vocab.encode(text.substr(n), false, false);
                tail.resize(std::min(tail.size(), kMaxTail));
                breakers_.push_back({id, std::move(tail)});
            }
        }
    }
    std::stable_sort(breakers_.begin(), breakers_.end(), [](const Breaker& a, const Breaker& b) {
        return a.head != b.head ? a.head < b.head : a.tail.size() > b.tail.size();
    });
}

std::span<const Breakers::Breaker> Breakers::of(TokenId head) const {
    const auto first = std::lower_bound(breakers_.begin(), breakers_.end(), head,
                                        [](const Breaker& b, TokenId id) { return b.head < id; });
    auto last = first;
    while (last != breakers_.end() && last->head == head) {
        ++last;
    }
    return {first, last};
}

bool Breakers::breaks_alone(TokenId id) const {
    const std::span<const Breaker> found = of(id);
    return !found.empty() && found.back().tail.empty();
}

int32_t Breakers::limit(const Window& window, int32_t n) const {
    for (int32_t distance = 0; distance < n; ++distance) {
        for (const Breaker& breaker : of(window.back(static_cast<size_t>(distance)))) {
            const auto n_tail = static_cast<int32_t>(breaker.tail.size());
            bool matches = n_tail <= distance;
            for (int32_t i = 0; matches && i < n_tail; ++i) {
                matches = breaker.tail[static_cast<size_t>(i)] == window.back(static_cast<size_t>(distance - i - 1));
            }
            if (matches) {
                return distance - n_tail;  // tails are ordered, so this is the longest
            }
        }
    }
    return n;
}

void match_lengths(const Window& window, int32_t n, int32_t limit, std::vector<int32_t>& lengths) {
    lengths.assign(static_cast<size_t>(n), 0);
    const auto at = [&window](int32_t distance) { return window.back(static_cast<size_t>(distance)); };
    int32_t left = 0;
    int32_t right = 0;  // [left, right): the match that reaches furthest so far
    for (int32_t k = 1; k < n; ++k) {
        int32_t length = k < right ? std::min(right - k, lengths[static_cast<size_t>(k - left)]) : 0;
        while (k + length < n && at(length) == at(k + length)) {
            ++length;
        }
        if (k + length > right) {
            left = k;
            right = k + length;
        }
        lengths[static_cast<size_t>(k)] = length;
    }
    for (int32_t& length : lengths) {
        length = std::min(length, limit);
    }
}

namespace {

class Dry final : public Step {
  public:
    Dry(const Params& params, const vocab::Vocab& vocab)
        : breakers_(params.dry_sequence_breakers, vocab),
          window_(params.dry_penalty_last_n),
          multiplier_(static_cast<double>(params.dry_multiplier)),
          base_(static_cast<double>(params.dry_base)),
          allowed_(params.dry_allowed_length) {
        // base^exponent must fit a float: 88.7228391 is ln of the largest one. A base of about 1 can't overflow.
        if (params.dry_base > 1.000001F) {
            max_exponent_ = static_cast<int32_t>(88.7228391 / log_fixed(base_));
        }
    }

    void apply(Row& row, DrawKey) override {
        const auto n = static_cast<int32_t>(window_.size());
        if (n <= allowed_) {
            return;
        }
        const int32_t limit = breakers_.limit(window_, n);
        if (limit < allowed_) {
            return;
        }
        match_lengths(window_, n, limit, lengths_);
        repeats_.clear();
        for (int32_t k = 1; k < n; ++k) {
            if (lengths_[static_cast<size_t>(k)] >= allowed_) {
                repeats_.push_back({window_.back(static_cast<size_t>(k - 1)), lengths_[static_cast<size_t>(k)]});
            }
        }
        std::sort(repeats_.begin(), repeats_.end(),
                  [](const Repeat& a, const Repeat& b) { return a.id != b.id ? a.id < b.id : a.length > b.length; });
        edits_.clear();
        for (const Repeat& repeat : repeats_) {
            const bool is_shorter_one = !edits_.empty() && edits_.back().id == repeat.id;
            if (is_shorter_one || breakers_.breaks_alone(repeat.id)) {
                continue;
            }
            const int32_t exponent = std::min(repeat.length - allowed_, max_exponent_);
            const double punishment = multiplier_ * pow_fixed(base_, static_cast<double>(exponent));
            constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
            edits_.push_back({repeat.id, 1.0F, static_cast<float>(std::clamp(punishment, -kLargest, kLargest))});
        }
        row.edit(edits_);
    }

    void accept(TokenId id, std::span<const Candidate>) override { (void)window_.push(id); }

    void reset() override { window_.clear(); }

  private:
    struct Repeat {
        TokenId id = 0;
        int32_t length = 0;
    };

    Breakers breakers_;
    Window window_;
    double multiplier_;
    double base_;
    int32_t allowed_;
    int32_t max_exponent_ = std::numeric_limits<int32_t>::max();
    std::vector<int32_t> lengths_;
    std::vector<Repeat> repeats_;
    std::vector<Edit> edits_;
};

}  // namespace

std::unique_ptr<Step> make_dry(const Params& params, const vocab::Vocab& vocab) {
    if (params.dry_multiplier == 0.0F || params.dry_base < 1.0F || params.dry_penalty_last_n == 0) {
        return nullptr;
    }
    return std::make_unique<Dry>(params, vocab);
}

}  // namespace foresay::sampling
