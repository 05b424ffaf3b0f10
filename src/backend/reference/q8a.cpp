#include "backend/reference/q8a.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foresay::reference {
namespace {

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
    block.d = amax / 127.0F;
    const float inverse = amax == 0.0F ? 0.0F : 127.0F / amax;
    for (int64_t i = 0; i < kQ8aBlock; ++i) {
        // For a subnormal amax the inverse is infinite and 0 * inf is NaN: the clamp must turn every such product into
        // an int8 before the cast, whose behaviour would be undefined otherwise.
        const float scaled = std::nearbyint(x[i] * inverse);
        const float clamped =
            scaled > 127.0F ? 127.0F : (scaled >= -127.0F ? scaled : (scaled < 0.0F ? -127.0F : 0.0F));
        block.q[i] = static_cast<int8_t>(clamped);
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
