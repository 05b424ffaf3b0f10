#include "tensor/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/dequant.h"
#include "tensor/fp.h"

namespace foresay {

namespace {

void store_u16(uint8_t* p, uint16_t v) {
    p[0] = static_cast<uint8_t>(v & 0xff);
    p[1] = static_cast<uint8_t>(v >> 8);
}

/// Stores a block scale as f16 and returns the value that a decoder will read back.
float store_f16(uint8_t* p, float v) {
    const uint16_t h = f32_to_f16(v);
    store_u16(p, h);
    return f16_to_f32(h);
}

/// 1/d, or 0 where that has no meaning: a block of zeros, or one so small that its scale underflows.
float inverse(float d) {
    const float i = 1.0f / d;
    return d != 0.0f && std::isfinite(i) ? i : 0.0f;
}

/// The element of largest magnitude with its sign, the first on ties.
float signed_max(const float* v, int n) {
    float best = 0.0f;
    for (int i = 0; i < n; ++i) {
        if (std::fabs(v[i]) > std::fabs(best)) {
            best = v[i];
        }
    }
    return best;
}

int clamp_round(float v, int low, int high) {
    return static_cast<int>(std::lround(std::clamp(v, static_cast<float>(low), static_cast<float>(high))));
}

/// Elements e and e + 16 share byte e; q holds 32 values, of which the low four bits are stored.
void store_nibbles16(uint8_t* p, const int* q) {
    for (int e = 0; e < 16; ++e) {
        p[e] = static_cast<uint8_t>((q[e] & 15) | ((q[e + 16] & 15) << 4));
    }
}

void store_fifth_bits(uint8_t* p, const int* q) {
    uint32_t high = 0;
    for (int e = 0; e < 32; ++e) {
        high |= static_cast<uint32_t>((q[e] >> 4) & 1) << e;
    }
    store_u16(p, static_cast<uint16_t>(high & 0xffff));
    store_u16(p + 2, static_cast<uint16_t>(high >> 16));
}

/// Q4_0 and Q5_0: the largest magnitude maps to the one code that has no positive counterpart.
float symmetric_32(const float* v, uint8_t* b, int half_range, bool fifth_bit) {
    const float d = signed_max(v, 32) / static_cast<float>(-half_range);
    const float inv = inverse(d);
    int q[32];
    for (int e = 0; e < 32; ++e) {
        const float shifted = v[e] * inv + (static_cast<float>(half_range) + 0.5f);
        q[e] = std::clamp(static_cast<int>(shifted), 0, 2 * half_range - 1);
    }
    if (fifth_bit) {
        store_fifth_bits(b + 2, q);
    }
    store_nibbles16(b + (fifth_bit ? 6 : 2), q);
    return store_f16(b, d);
}

/// Q4_1 and Q5_1: codes from the smallest value up.
float affine_32(const float* v, uint8_t* b, int q_max, bool fifth_bit) {
    const auto [low, high] = std::minmax_element(v, v + 32);
    const float d = (*high - *low) / static_cast<float>(q_max);
    const float inv = inverse(d);
    int q[32];
    for (int e = 0; e < 32; ++e) {
        q[e] = std::clamp(static_cast<int>((v[e] - *low) * inv + 0.5f), 0, q_max);
    }
    if (fifth_bit) {
        store_fifth_bits(b + 4, q);
    }
    store_nibbles16(b + (fifth_bit ? 8 : 4), q);
    const float m = store_f16(b + 2, *low);
    return store_f16(b, d) + m;  // not finite when either overflowed
}

float q4_0(const float* v, uint8_t* b) {
    return symmetric_32(v, b, 8, false);
}

float q5_0(const float* v, uint8_t* b) {
    return symmetric_32(v, b, 16, true);
}

float q4_1(const float* v, uint8_t* b) {
    return affine_32(v, b, 15, false);
}

float q5_1(const float* v, uint8_t* b) {
    return affine_32(v, b, 31, true);
}

float q8_0(const float* v, uint8_t* b) {
    const float d = std::fabs(signed_max(v, 32)) / 127.0f;
    const float inv = inverse(d);
    for (int e = 0; e < 32; ++e) {
        b[2 + e] = static_cast<uint8_t>(clamp_round(v[e] * inv, -127, 127));
    }
    return store_f16(b, d);
}

/// Index of the table entry nearest to `scaled`, the lowest on ties.
int nearest(const int8_t* table, float scaled) {
    int best = 0;
    for (int i = 1; i < 16; ++i) {
        if (std::fabs(scaled - static_cast<float>(table[i])) < std::fabs(scaled - static_cast<float>(table[best]))) {
            best = i;
        }
    }
    return best;
}

float mxfp4(const float* v, uint8_t* b) {
    const float magnitude = std::fabs(signed_max(v, 32));
    // The largest code is 6 = 1.5 * 2^2, so the exponent of the block is that of its largest element less two.
    const int e8 = magnitude == 0.0f ? 0 : std::clamp(std::ilogb(magnitude) - 2 + 127, 0, 254);
    b[0] = static_cast<uint8_t>(e8);
    const float inv = inverse(mxfp4_half_scale(b[0]));
    int q[32];
    for (int e = 0; e < 32; ++e) {
        q[e] = nearest(kMxfp4Values, v[e] * inv);
    }
    store_nibbles16(b + 1, q);
    return 0.0f;
}

float iq4_nl(const float* v, uint8_t* b) {
    const float d = signed_max(v, 32) / static_cast<float>(kIq4Values[0]);
    const float stored = store_f16(b, d);
    const float inv = inverse(stored);
    int q[32];
    for (int e = 0; e < 32; ++e) {
        q[e] = nearest(kIq4Values, v[e] * inv);
    }
    store_nibbles16(b + 2, q);
    return stored;
}

/// Scales of sub-blocks that decode as (d * scale) * q: each sub-block's own scale, rounded to a multiple of d.
/// scales: n_sub integers in -limit..limit; eff: what the decoder will compute. Returns d as stored at `d_at`.
float symmetric_scales(const float* v, int sub, int n_sub, float q_extreme, int limit, uint8_t* d_at, int* scales,
                       float* eff) {
    float want[16];
    float largest = 0.0f;
    for (int s = 0; s < n_sub; ++s) {
        want[s] = signed_max(v + s * sub, sub) / q_extreme;
        largest = std::max(largest, std::fabs(want[s]));
    }
    const float d = store_f16(d_at, largest / static_cast<float>(limit));
    const float inv = inverse(d);
    for (int s = 0; s < n_sub; ++s) {
        scales[s] = clamp_round(want[s] * inv, -limit, limit);
        eff[s] = d * static_cast<float>(scales[s]);
    }
    return d;
}

float q3_k(const float* v, uint8_t* b) {
    int scales[16];
    float eff[16];
    const float d = symmetric_scales(v, 16, 16, -4.0f, 31, b + 108, scales, eff);
    for (int s = 0; s < 16; ++s) {
        const int c = scales[s] + 32;
        b[96 + s % 8] |= static_cast<uint8_t>((c & 15) << (s < 8 ? 0 : 4));
        b[96 + 8 + s % 4] |= static_cast<uint8_t>((c >> 4) << (2 * (s / 4)));
    }
    for (int e = 0; e < 256; ++e) {
        const int q = clamp_round(v[e] * inverse(eff[e / 16]), -4, 3) + 4;
        const int plane = (e % 128) / 32;
        b[32 + 32 * (e / 128) + e % 32] |= static_cast<uint8_t>((q & 3) << (2 * plane));
        b[e % 32] |= static_cast<uint8_t>((q >> 2) << (4 * (e / 128) + plane));
    }
    return d;
}

float q6_k(const float* v, uint8_t* b) {
    int scales[16];
    float eff[16];
    const float d = symmetric_scales(v, 16, 16, -32.0f, 127, b + 208, scales, eff);
    for (int s = 0; s < 16; ++s) {
        b[192 + s] = static_cast<uint8_t>(scales[s]);
    }
    for (int e = 0; e < 256; ++e) {
        const int q = clamp_round(v[e] * inverse(eff[e / 16]), -32, 31) + 32;
        const int half = e / 128;
        const int plane = (e % 128) / 32;
        b[64 * half + 32 * (plane % 2) + e % 32] |= static_cast<uint8_t>((q & 15) << (plane < 2 ? 0 : 4));
        b[128 + 32 * half + e % 32] |= static_cast<uint8_t>((q >> 4) << (2 * plane));
    }
    return d;
}

float iq4_xs(const float* v, uint8_t* b) {
    int scales[8];
    float eff[8];
    const float d = symmetric_scales(v, 32, 8, static_cast<float>(kIq4Values[0]), 31, b, scales, eff);
    int high = 0;
    for (int s = 0; s < 8; ++s) {
        const int c = scales[s] + 32;
        b[4 + s / 2] |= static_cast<uint8_t>((c & 15) << (4 * (s % 2)));
        high |= (c >> 4) << (2 * s);
        int q[32];
        for (int e = 0; e < 32; ++e) {
            q[e] = nearest(kIq4Values, v[32 * s + e] * inverse(eff[s]));
        }
        store_nibbles16(b + 8 + 16 * s, q);
    }
    store_u16(b + 2, static_cast<uint16_t>(high));
    return d;
}

/// Codes of sub-blocks that decode as (d * scale) * q - dmin * min.
struct Affine {
    int scale[16];
    int min[16];
    int q[256];
    float finite = 0.0f;  ///< not finite when d or dmin overflowed
};

Affine affine_256(const float* v, int sub, int q_max, int limit, uint8_t* d_at, uint8_t* dmin_at) {
    Affine out{};
    const int n_sub = 256 / sub;
    float want_scale[16];
    float want_min[16];
    float largest_scale = 0.0f;
    float largest_min = 0.0f;
    for (int s = 0; s < n_sub; ++s) {
        const auto [low, high] = std::minmax_element(v + s * sub, v + (s + 1) * sub);
        // Mins are stored unsigned and subtracted: a sub-block above zero keeps min 0.
        want_min[s] = std::max(0.0f, -*low);
        want_scale[s] = std::max(0.0f, *high + want_min[s]) / static_cast<float>(q_max);
        largest_scale = std::max(largest_scale, want_scale[s]);
        largest_min = std::max(largest_min, want_min[s]);
    }
    const float d = store_f16(d_at, largest_scale / static_cast<float>(limit));
    const float dmin = store_f16(dmin_at, largest_min / static_cast<float>(limit));
    for (int s = 0; s < n_sub; ++s) {
        out.scale[s] = clamp_round(want_scale[s] * inverse(d), 0, limit);
        out.min[s] = clamp_round(want_min[s] * inverse(dmin), 0, limit);
        const float inv = inverse(d * static_cast<float>(out.scale[s]));
        const float min = dmin * static_cast<float>(out.min[s]);
        for (int e = s * sub; e < (s + 1) * sub; ++e) {
            out.q[e] = clamp_round((v[e] + min) * inv, 0, q_max);
        }
    }
    out.finite = d + dmin;
    return out;
}

float q2_k(const float* v, uint8_t* b) {
    const Affine a = affine_256(v, 16, 3, 15, b + 80, b + 82);
    for (int s = 0; s < 16; ++s) {
        b[s] = static_cast<uint8_t>(a.scale[s] | (a.min[s] << 4));
    }
    for (int e = 0; e < 256; ++e) {
        b[16 + 32 * (e / 128) + e % 32] |= static_cast<uint8_t>(a.q[e] << (2 * ((e % 128) / 32)));
    }
    return a.finite;
}

/// The inverse of unpack_k6 for all eight sub-blocks.
void pack_k6(const Affine& a, uint8_t* packed) {
    for (int j = 0; j < 4; ++j) {
        packed[j] = static_cast<uint8_t>(a.scale[j] | ((a.scale[j + 4] >> 4) << 6));
        packed[j + 4] = static_cast<uint8_t>(a.min[j] | ((a.min[j + 4] >> 4) << 6));
        packed[j + 8] = static_cast<uint8_t>((a.scale[j + 4] & 15) | ((a.min[j + 4] & 15) << 4));
    }
}

float q45_k(const float* v, uint8_t* b, bool fifth_bit) {
    const Affine a = affine_256(v, 32, fifth_bit ? 31 : 15, 63, b, b + 2);
    pack_k6(a, b + 4);
    uint8_t* nibbles = fifth_bit ? b + 48 : b + 16;
    for (int e = 0; e < 256; ++e) {
        nibbles[32 * (e / 64) + e % 32] |= static_cast<uint8_t>((a.q[e] & 15) << (e % 64 < 32 ? 0 : 4));
        if (fifth_bit) {
            b[16 + e % 32] |= static_cast<uint8_t>((a.q[e] >> 4) << (e / 32));
        }
    }
    return a.finite;
}

float q4_k(const float* v, uint8_t* b) {
    return q45_k(v, b, false);
}

float q5_k(const float* v, uint8_t* b) {
    return q45_k(v, b, true);
}

/// Fills one zeroed block; returns a number that is finite exactly when the stored scales are.
using EncodeBlock = float (*)(const float*, uint8_t*);

EncodeBlock encoder_of(DType dtype) {
    switch (dtype) {
        case DType::kQ4_0:
            return q4_0;
        case DType::kQ4_1:
            return q4_1;
        case DType::kQ5_0:
            return q5_0;
        case DType::kQ5_1:
            return q5_1;
        case DType::kQ8_0:
            return q8_0;
        case DType::kQ2_K:
            return q2_k;
        case DType::kQ3_K:
            return q3_k;
        case DType::kQ4_K:
            return q4_k;
        case DType::kQ5_K:
            return q5_k;
        case DType::kQ6_K:
            return q6_k;
        case DType::kIQ4_NL:
            return iq4_nl;
        case DType::kIQ4_XS:
            return iq4_xs;
        case DType::kMXFP4:
            return mxfp4;
        case DType::kF32:
        case DType::kF16:
        case DType::kBF16:
        case DType::kI32:
            break;
    }
    return nullptr;
}

/// True for the types without blocks, which are stored here.
bool store_plain(DType dtype, const float* src, uint8_t* dst, int64_t n) {
    if (dtype == DType::kF32) {
        if (n > 0) {
            std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
        }
        return true;
    }
    if (dtype != DType::kF16 && dtype != DType::kBF16) {
        return false;
    }
    for (int64_t i = 0; i < n; ++i) {
        store_u16(dst + 2 * i, dtype == DType::kF16 ? f32_to_f16(src[i]) : f32_to_bf16(src[i]));
    }
    return true;
}

}  // namespace

Status quantize_row(DType dtype, const float* src, std::byte* dst, int64_t n) {
    const DTypeInfo& info = dtype_info(dtype);
    if (!info.is_weight) {
        return error(Code::kInvalidArgument, fmt::format("{} is not a weight type", info.name));
    }
    if (n < 0 || n % info.block != 0) {
        return error(Code::kInvalidArgument,
                     fmt::format("{} elements are not a multiple of {}'s block of {}", n, info.name, info.block));
    }
    auto* bytes = reinterpret_cast<uint8_t*>(dst);
    if (store_plain(dtype, src, bytes, n)) {
        return ok();
    }
    const EncodeBlock encode = encoder_of(dtype);
    for (int64_t i = 0; i < n; i += info.block) {
        const auto* bad = std::find_if(src + i, src + i + info.block, [](float v) { return !std::isfinite(v); });
        if (bad != src + i + info.block) {
            return error(Code::kInvalidArgument, fmt::format("element {} is {}, not a finite number", bad - src, *bad));
        }
        std::memset(bytes, 0, info.block_bytes);
        if (!std::isfinite(encode(src + i, bytes))) {
            return error(Code::kInvalidArgument,
                         fmt::format("the scale of the block at element {} exceeds half precision", i));
        }
        bytes += info.block_bytes;
    }
    return ok();
}

}  // namespace foresay
