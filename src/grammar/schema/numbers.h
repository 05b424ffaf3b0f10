// Integers and decimals within bounds, as GBNF. Must not know schemas.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace foresay::grammar {

/// Bounds of a number; integers only.
struct Bounds {
    std::optional<int64_t> min;
    std::optional<int64_t> max;
    bool is_min_exclusive = false;
    bool is_max_exclusive = false;
};

/// Integers within the bounds, without leading zeros or "-0"; empty when there is none. At most 16 digits where a bound
/// doesn't ask for more.
std::string integers_gbnf(const Bounds& bounds);
/// Decimals within the bounds, without exponent, up to 15 digits behind the point; empty when there is none.
std::string decimals_gbnf(const Bounds& bounds);

}  // namespace foresay::grammar
