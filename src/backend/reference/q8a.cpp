#include "backend/reference/q8a.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/lanes.h"

namespace foresay::reference {
namespace {

// Four scales to choose from: the rounding errors of a block differ by chance, so the best of four loses about a fifth
// less.
constexpr float kShares[] = {127.0F, 123.5F, 119.5F, 115.0F};

Q8aBlock quantize_block(const float* x) {
    Q8aBlock block;
    float amax = 0.0F;
    bool finite = true;
    for (int64_t i = 0; i < kQ8aBlock; ++i) {
        amax = std::max(amax, std::fabs(x[i]));
        finite = finite && std::isfinite(x[i]);
    }
    if (!finite) {
        block.d = std::numeric_limits<float>::quiet_NaN();
        return block;
    }
    float best_loss = 0.0F;
    bool first = true;
    for (const float share : kShares) {
        const float inverse = amax == 0.0F ? 0.0F : share / amax;
        float q[kQ8aBlock];
        for (int64_t i = 0; i < kQ8aBlock; ++i) {
            // For a subnormal amax the inverse is infinite and 0 * inf is NaN: the clamp must turn every such product
            // into an int8 before the cast, whose behaviour would be undefined otherwise.
            const float scaled = std::nearbyint(x[i] * inverse);
            q[i] = scaled > 127.0F ? 127.0F : (scaled >= -127.0F ? scaled : (scaled < 0.0F ? -127.0F : 0.0F));
        }
        const float sum_xq = dot_lanes(x, q, kQ8aBlock);
        const float sum_qq = dot_lanes(q, q, kQ8aBlock);
        const float d = sum_qq > 0.0F ? sum_xq / sum_qq : 0.0F;
        float residual[kQ8aBlock];
        for (int64_t i = 0; i < kQ8aBlock; ++i) {
            residual[i] = std::fma(-d, q[i], x[i]);
        }
        const float loss = dot_lanes(residual, residual, kQ8aBlock);
        if (first || loss < best_loss) {
            first = false;
            best_loss = loss;
            block.d = d;
            std::transform(q, q + kQ8aBlock, block.q, [](float value) { return static_cast<int8_t>(value); });
        }
    }
    for (int64_t i = 0; i < kQ8aBlock; ++i) {
        block.psum[i / 16] = static_cast<int16_t>(block.psum[i / 16] + block.q[i]);
    }
    return block;
}

}  // namespace

void quantize_q8a(const float* x, Q8aBlock* blocks, int64_t n) {
    for (int64_t i = 0; i < n / kQ8aBlock; ++i) {
        blocks[i] = quantize_block(x + i * kQ8aBlock);
    }
}

}  // namespace foresay::reference
