// exp: range reduction by ln 2, then the Taylor series to degree 13 on |r| <= ln2/2 (rest below 5e-18).
// log: mantissa in [sqrt(1/2), sqrt(2)), then 2 artanh((m-1)/(m+1)) to degree 23 (rest below 1e-18).
#include "sampling/math.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace foresay::sampling {
namespace {

constexpr double kLn2High = 6.93147180369123816490e-01;  // ln 2 with its low 32 bits clear: n * kLn2High is exact
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kLog2E = 1.44269504088896340736;
constexpr double kRoundBias = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the nearest integer in the low bits

/// No branches, so that loops over it become vector code. x in [-700, 709].
inline double exp_core(double x) {
    const double biased = x * kLog2E + kRoundBias;
    const double n = biased - kRoundBias;
    const double r = (x - n * kLn2High) - n * kLn2Low;
    double series = 1.0 / 6227020800.0;
    series = series * r + 1.0 / 479001600.0;
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
    const uint64_t scale = (std::bit_cast<uint64_t>(biased) + 1023U) << 52U;
    return series * std::bit_cast<double>(scale);
}

}  // namespace

double exp_fixed(double x) {
    if (!(x >= -700.0)) {
        return 0.0;  // NaN as well: a candidate without a value has no weight
    }
    return x > 709.0 ? std::numeric_limits<double>::infinity() : exp_core(x);
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
    constexpr size_t kLanes = 8;
    double sums[kLanes] = {};
    const auto top = static_cast<double>(max);
    const auto add = [&](double* sum, float value) {
        const double d = static_cast<double>(value) - top;
        const double clamped = d > -700.0 ? (d < 0.0 ? d : 0.0) : -700.0;
        const double e = exp_core(clamped);
        *sum += d > -700.0 ? e : 0.0;
    };
    size_t i = 0;
    for (; i + kLanes <= x.size(); i += kLanes) {
        for (size_t lane = 0; lane < kLanes; ++lane) {
            add(&sums[lane], x[i + lane]);
        }
    }
    for (; i < x.size(); ++i) {
        add(&sums[i % kLanes], x[i]);
    }
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

float max_of(std::span<const float> x) {
    constexpr size_t kLanes = 16;
    float lanes[kLanes];
    for (float& lane : lanes) {
        lane = -std::numeric_limits<float>::infinity();
    }
    size_t i = 0;
    for (; i + kLanes <= x.size(); i += kLanes) {
        for (size_t lane = 0; lane < kLanes; ++lane) {
            lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
        }
    }
    for (; i < x.size(); ++i) {
        lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
    }
    float best = lanes[0];
    for (const float lane : lanes) {
        best = lane > best ? lane : best;
    }
    return best;
}

}  // namespace foresay::sampling
