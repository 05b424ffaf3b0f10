// The activation format q8a: blocks of 32 int8 with a float scale and the sums of both halves (docs/numerics.md).
// One format for all quantised weights, so that one quantisation serves Q, K and V whatever their types.
#pragma once

#include <cstdint>

namespace foresay::reference {

inline constexpr int64_t kQ8aBlock = 32;

struct Q8aBlock {
    float d = 0.0F;         ///< scale: x is about d * q; NaN when the block holds a NaN or an infinity
    int8_t q[kQ8aBlock]{};  ///< -127..127
    int16_t psum[2]{};      ///< sum of q over elements 0..15 and 16..31
};

/// Quantises n floats (a multiple of 32) into n / 32 blocks.
void quantize_q8a(const float* x, Q8aBlock* blocks, int64_t n);

}  // namespace foresay::reference
