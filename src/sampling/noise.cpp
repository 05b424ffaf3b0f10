// Counter-based generator: the finaliser of SplitMix64 (Steele, Lea, Flood 2014, constants of Stafford's variant 13)
// over a keyed counter.
#include "sampling/noise.h"

#include "sampling/math.h"

namespace foresay::sampling {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;  // 2^64 / golden ratio, odd: SplitMix64's step

constexpr uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
}

}  // namespace

uint64_t noise_key(DrawKey key, Purpose purpose) {
    const uint64_t stream = mix((static_cast<uint64_t>(purpose) << 32U | key.seed) + kGolden);
    return mix(stream ^ mix(static_cast<uint64_t>(key.position) * kGolden + 1U));
}

double uniform_of(uint64_t noise_key, uint32_t index) {
    const uint64_t bits = mix(noise_key + (static_cast<uint64_t>(index) + 1U) * kGolden);
    // 52 bits and a half step: the smallest value 2^-53 and the largest 1 - 2^-53 are exact, and so is 1 - v.
    return (static_cast<double>(bits >> 12U) + 0.5) * 0x1p-52;
}

float gumbel_of(double v) {
    return static_cast<float>(-log_fixed(-log_fixed(1.0 - v)));
}

float gumbel_noise(uint32_t seed, int64_t position, TokenId token) {
    return gumbel_of(uniform_of(noise_key({seed, position}, Purpose::kGumbel), static_cast<uint32_t>(token)));
}

}  // namespace foresay::sampling
