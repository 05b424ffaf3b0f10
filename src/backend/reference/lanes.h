// Sums over a row in 16 virtual lanes and a fixed tree: the one order of addition that all paths share
// (docs/numerics.md).
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace foresay::reference {

inline constexpr size_t kLanes = 16;
using Lanes = std::array<float, kLanes>;

/// Adds the lanes up: halves onto halves.
inline float tree_sum(Lanes l) {
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; ++j) {
            l[j] += l[j + half];
        }
    }
    return l[0];
}

/// Sum of a[i] * b[i], n elements, by lanes.
inline float dot_lanes(const float* a, const float* b, int64_t n) {
    Lanes lanes{};
    for (int64_t i = 0; i < n; ++i) {
        float& lane = lanes[static_cast<size_t>(i) % kLanes];
        lane = std::fma(a[i], b[i], lane);
    }
    return tree_sum(lanes);
}

}  // namespace foresay::reference
