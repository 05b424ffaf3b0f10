#include "grammar/schema/numbers.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "grammar/schema/text.h"

namespace foresay::grammar {
namespace {

using Choices = std::vector<std::string>;

constexpr size_t kMaxDigits = 16;

std::string digit(char low, char high) {
    if (low == high) {
        return std::string("\"").append(1, low).append("\"");
    }
    return std::string("[").append(1, low).append("-").append(1, high).append("]");
}

std::string any_digits(size_t n) {
    return n == 0 ? std::string()
                  : std::string(" [0-9]").append(repetition(static_cast<uint32_t>(n), static_cast<uint32_t>(n)));
}

/// Digit strings of one length from low to high; `prefix` is what stands before them. Cut at the first digit that
/// differs: its inner values leave the rest free, its two ends bound it.
void same_length(const std::string& prefix, const std::string& low, const std::string& high, Choices* out) {
    const size_t n = low.size();
    size_t i = 0;
    std::string head = prefix;
    while (i < n && low[i] == high[i]) {
        head.append(" ").append(digit(low[i], low[i]));
        ++i;
    }
    if (i == n) {
        out->push_back(head);
        return;
    }
    const size_t n_rest = n - i - 1;
    const std::string rest_low = low.substr(i + 1);
    const std::string rest_high = high.substr(i + 1);
    const std::string zeros(n_rest, '0');
    const std::string nines(n_rest, '9');
    char first = low[i];
    char last = high[i];
    if (rest_low != zeros) {
        same_length(std::string(head).append(" ").append(digit(first, first)), rest_low, nines, out);
        ++first;
    }
    const bool is_high_open = rest_high != nines;
    last = static_cast<char>(last - (is_high_open ? 1 : 0));
    if (first <= last) {
        out->push_back(std::string(head).append(" ").append(digit(first, last)).append(any_digits(n_rest)));
    }
    if (is_high_open) {
        same_length(std::string(head).append(" ").append(digit(high[i], high[i])), zeros, rest_high, out);
    }
}

/// From low to high, both at least 0; without `high` up to kMaxDigits digits or one more than low has.
void non_negative(const std::string& prefix, uint64_t low, std::optional<uint64_t> high, Choices* out) {
    std::string from = std::to_string(low);
    const std::string to = high ? std::to_string(*high) : std::string();
    const size_t last_size = high ? to.size() : from.size();
    while (from.size() < last_size) {
        same_length(prefix, from, std::string(from.size(), '9'), out);
        from = std::string("1").append(from.size(), '0');
    }
    same_length(prefix, from, high ? to : std::string(from.size(), '9'), out);
    if (!high) {
        const auto n = static_cast<uint32_t>(from.size());
        const auto most = static_cast<uint32_t>(std::max(kMaxDigits - 1, from.size()));
        out->push_back(std::string(prefix).append(" [1-9] [0-9]").append(repetition(n, most)));
    }
}

uint64_t magnitude(int64_t value) {
    return value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
}

}  // namespace

std::string integers_gbnf(const Bounds& bounds) {
    constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
    constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
    std::optional<int64_t> min = bounds.min;
    std::optional<int64_t> max = bounds.max;
    if (min && bounds.is_min_exclusive) {
        if (*min == kLast) {
            return {};
        }
        ++*min;
    }
    if (max && bounds.is_max_exclusive) {
        if (*max == kFirst) {
            return {};
        }
        --*max;
    }
    if (min && max && *min > *max) {
        return {};
    }
    Choices choices;
    if (!min || *min < 0) {
        const uint64_t low = max && *max < 0 ? magnitude(*max) : 1;
        non_negative("\"-\"", low, min ? std::optional(magnitude(*min)) : std::nullopt, &choices);
    }
    if (!max || *max >= 0) {
        const uint64_t low = min && *min > 0 ? magnitude(*min) : 0;
        non_negative("", low, max ? std::optional(magnitude(*max)) : std::nullopt, &choices);
    }
    return choice(choices);
}

std::string decimals_gbnf(const Bounds& bounds) {
    const std::string fraction = "(\".\" [0-9]{1,15})?";
    const std::string zeros = "(\".\" \"0\"{1,15})?";
    const std::string beyond = "\".\" [0-9]{0,14} [1-9]";  // above the whole number
    Choices choices;
    // One side of zero: |x| from low (exclusive or not) to high.
    const auto side = [&](const std::string& sign, uint64_t low, bool is_low_open, std::optional<uint64_t> high,
                          bool is_high_open) {
        if (high && (*high < low || (*high == low && (is_low_open || is_high_open)))) {
            return;
        }
        Choices parts;
        const uint64_t first_whole = is_low_open ? low + 1 : low;
        if (is_low_open) {
            parts.push_back(std::string("\"").append(std::to_string(low)).append("\" ").append(beyond));
        }
        if (!high) {
            Choices whole;
            non_negative("", first_whole, std::nullopt, &whole);
            parts.push_back(std::string(choice(whole)).append(" ").append(fraction));
        } else {
            if (*high > first_whole) {
                Choices whole;
                non_negative("", first_whole, *high - 1, &whole);
                parts.push_back(std::string(choice(whole)).append(" ").append(fraction));
            }
            if (!is_high_open) {
                parts.push_back(std::string("\"").append(std::to_string(*high)).append("\" ").append(zeros));
            }
        }
        choices.push_back(sign.empty() ? choice(parts) : std::string(sign).append(" ").append(choice(parts)));
    };
    if (!bounds.min || *bounds.min < 0) {
        const bool is_below_zero = bounds.max && *bounds.max < 0;
        side("\"-\"", is_below_zero ? magnitude(*bounds.max) : 0,
             !is_below_zero || bounds.is_max_exclusive,  // zero itself is on the other side
             bounds.min ? std::optional(magnitude(*bounds.min)) : std::nullopt, bounds.is_min_exclusive);
    }
    if (!bounds.max || *bounds.max >= 0) {
        const bool is_above_zero = bounds.min && *bounds.min >= 0;
        side("", is_above_zero ? magnitude(*bounds.min) : 0, is_above_zero && bounds.is_min_exclusive,
             bounds.max ? std::optional(magnitude(*bounds.max)) : std::nullopt, bounds.is_max_exclusive);
    }
    return choices.empty() ? std::string() : choice(choices);
}

}  // namespace foresay::grammar
