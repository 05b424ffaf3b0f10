// exp: range reduction by ln 2, then the Taylor series to degree 13 on |r| <= ln2/2 (rest below 5e-18).
// log: mantissa in [sqrt(1/2), sqrt(2)), then 2 artanh((m-1)/(m+1)) to degree 23 (rest below 1e-18).
#include "sampling/math.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

namespace foresay::sampling {
namespace {

constexpr double kLn2High = 6.93147180369123816490e-01;  // ln 2 with its low 32 bits clear: n * kLn2High is exact
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kLog2E = 1.44269504088896340736;
constexpr double kRoundBias = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the nearest integer in the low bits

/// Two doubles and their bits: the vector types of GCC and Clang, lowered to SSE2. Left to itself, g++ 12 doesn't
/// vectorise the sums below.
using Double2 = double __attribute__((vector_size(16)));
using Bits2 = uint64_t __attribute__((vector_size(16)));
using Float4 = float __attribute__((vector_size(16)));

/// x in [-700, 709]. The same operations for one value and for two, so the same results.
template <typename Real, typename Bits>
inline Real exp_core(Real x) {
    const Real biased = x * kLog2E + kRoundBias;
    const Real n = biased - kRoundBias;
    const Real r = (x - n * kLn2High) - n * kLn2Low;
    Real series = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
    series = series * r + 1.0 / 39916800.0;
    series = series * r + 1.0 / 3628800.0;
    series = series * r + 1.0 / 362880.0;
    series = series * r + 1.0 / 40320.0;
    series = series * r + 1.0 / 5040.0;
    series = series * r + 1.0 / 720.0;
    series = series * r + 1.0 / 120.0;
    series = series * r + 1.0 / 24.0;
    series = series * r + 1.0 / 6.0;
    series = series * r + 0.5;
    series = series * r + 1.0;
    series = series * r + 1.0;
    // The low 11 bits of `biased` are n modulo 2^11, which is all that the exponent field holds.
    const Bits scale = (std::bit_cast<Bits>(biased) + 1023U) << 52U;
    return series * std::bit_cast<Real>(scale);
}

}  // namespace

double exp_fixed(double x) {
    if (!(x >= -700.0)) {
        return 0.0;  // NaN as well: a candidate without a value has no weight
    }
    return x > 709.0 ? std::numeric_limits<double>::infinity() : exp_core<double, uint64_t>(x);
}

double log_fixed(double x) {
    if (!(x > 0.0)) {
        return -std::numeric_limits<double>::infinity();
    }
    if (x == std::numeric_limits<double>::infinity()) {
        return x;
    }
    double exponent = 0.0;
    if (x < std::numeric_limits<double>::min()) {
        x *= 18014398509481984.0;  // 2^54: subnormals have no implied one
        exponent = -54.0;
    }
    const auto bits = std::bit_cast<uint64_t>(x);
    // Subtracting the bits of sqrt(1/2) makes the exponent field count from sqrt(1/2), not from 1.
    constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdULL;
    const auto shift = static_cast<int64_t>(bits - kSqrtHalf) >> 52;
    exponent += static_cast<double>(shift);
    const auto m = std::bit_cast<double>(bits - (static_cast<uint64_t>(shift) << 52U));
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double series = 0.0;
    for (int degree = 23; degree >= 3; degree -= 2) {
        series = (series + 1.0 / degree) * z;
    }
    const double log_m = 2.0 * s + 2.0 * s * series;
    return exponent * kLn2High + (log_m + exponent * kLn2Low);
}

double pow_fixed(double a, double b) {
    if (b == 0.0) {
        return 1.0;
    }
    if (!(a > 0.0)) {
        return b > 0.0 ? 0.0 : std::numeric_limits<double>::infinity();
    }
    return exp_fixed(b * log_fixed(a));
}

double sum_exp(std::span<const float> x, float max) {
    constexpr size_t kVectors = 4;
    const auto top = static_cast<double>(max);
    Double2 sums[kVectors] = {};
    const auto add = [top](Double2* sum, float a, float b) {
        constexpr Double2 kLowest = {-700.0, -700.0};
        constexpr Double2 kZero = {0.0, 0.0};
        const Double2 d = Double2{static_cast<double>(a), static_cast<double>(b)} - top;
        const Double2 bounded = d < kZero ? d : kZero;  // NaN gives 0 here and is masked below
        const Double2 e = exp_core<Double2, Bits2>(bounded > kLowest ? bounded : kLowest);
        *sum += d > kLowest ? e : kZero;
    };
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    size_t i = 0;
    for (; i + 2 * kVectors <= x.size(); i += 2 * kVectors) {
        for (size_t v = 0; v < kVectors; ++v) {
            add(&sums[v], x[i + 2 * v], x[i + 2 * v + 1]);
        }
    }
    for (size_t v = 0; i < x.size(); i += 2, ++v) {
        add(&sums[v], x[i], i + 1 < x.size() ? x[i + 1] : kNothing);
    }
    const Double2 sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    return sum[0] + sum[1];
}

float max_of(std::span<const float> x) {
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    Float4 best[4];
    for (Float4& vector : best) {
        vector = Float4{kNothing, kNothing, kNothing, kNothing};
    }
    size_t i = 0;
    for (; i + 16 <= x.size(); i += 16) {
        for (size_t v = 0; v < 4; ++v) {
            Float4 values;
            std::memcpy(&values, &x[i + 4 * v], sizeof(values));
            best[v] = values > best[v] ? values : best[v];
        }
    }
    float max = kNothing;
    for (const Float4& vector : best) {
        for (int lane = 0; lane < 4; ++lane) {
            max = vector[lane] > max ? vector[lane] : max;
        }
    }
    for (; i < x.size(); ++i) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

bool any_above(const float* values, float bound) {
    const Float4 bounds = {bound, bound, bound, bound};
    Float4 v[4];
    std::memcpy(v, values, sizeof(v));
    const auto above = (v[0] > bounds) | (v[1] > bounds) | (v[2] > bounds) | (v[3] > bounds);
    const auto halves = std::bit_cast<Bits2>(above);
    return (halves[0] | halves[1]) != 0;
}

}  // namespace foresay::sampling
