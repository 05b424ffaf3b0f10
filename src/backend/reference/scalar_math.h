// The scalar functions of docs/numerics.md: exp, tanh and what is built from them. Every path must give these bits,
// so no libm function whose last bit may differ is used here.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace foresay::reference {

/// 2^n from its exponent bits, -126 <= n <= 127.
inline float power_of_two(int32_t n) {
    return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

/// e^x, relative error below 2e-7 for normal results. Below -104: 0; above 88.72: infinity; NaN stays NaN.
/// Source: Cephes expf's coefficients (Moshier), Horner with fma.
inline float exp_f32(float x) {
    if (std::isnan(x)) {
        return x;
    }
    if (x < -104.0F) {
        return 0.0F;
    }
    if (x > 88.72F) {
        return std::numeric_limits<float>::infinity();
    }
    const float n = std::nearbyint(x * 1.44269504F);  // the default mode rounds half to even
    float r = std::fma(n, -0.693359375F, x);
    r = std::fma(n, 2.12194440e-4F, r);
    float p = 1.9875691500e-4F;
    p = std::fma(p, r, 1.3981999507e-3F);
    p = std::fma(p, r, 8.3334519073e-3F);
    p = std::fma(p, r, 4.1665795894e-2F);
    p = std::fma(p, r, 1.6666665459e-1F);
    p = std::fma(p, r, 5.0000001201e-1F);
    const float y = std::fma(p * r, r, r) + 1.0F;
    // In two halves: n reaches 128 and -150, past what one factor's exponent can hold.
    const auto exponent = static_cast<int32_t>(n);
    const int32_t half = exponent >> 1;
    return (y * power_of_two(half)) * power_of_two(exponent - half);
}

/// sign(z) * (1 - e) / (1 + e), e = exp(-2|z|); the sign of zero is kept.
inline float tanh_f32(float z) {
    const float e = exp_f32(-2.0F * std::fabs(z));
    return std::copysign(1.0F, z) * (1.0F - e) / (1.0F + e);
}

inline float silu_f32(float g) {
    return g * (1.0F / (1.0F + exp_f32(-g)));
}

inline float sigmoid_f32(float x) {
    return 1.0F / (1.0F + exp_f32(-x));
}

/// gpt-oss: the gate is cut above 7, up to -7..7. Source: shared/spec/target-models.md, 2.2.
inline float swiglu_oai_f32(float g, float u) {
    const float gate = g > 7.0F ? 7.0F : g;
    const float up = u > 7.0F ? 7.0F : (u < -7.0F ? -7.0F : u);
    return (up + 1.0F) * (gate * sigmoid_f32(1.702F * gate));
}

/// ln(1 + e^x), x itself above 20; in double, so that the rounded result is the same wherever a libm is sane.
inline float softplus(float x) {
    return x > 20.0F ? x : static_cast<float>(std::log1p(std::exp(static_cast<double>(x))));
}

inline float gelu_tanh_f32(float g) {
    const float inner = std::fma(0.044715F * g * g, g, g);
    const float t = tanh_f32(0.7978845608F * inner);
    return 0.5F * g * (1.0F + t);
}

inline float softcap_f32(float x, float cap) {
    return cap * tanh_f32(x / cap);
}

}  // namespace foresay::reference
