#include "tensor/dequant.h"

#include <bit>
#include <cstring>

#include "base/assert.h"
#include "tensor/fp.h"

namespace foresay {

namespace {

uint16_t load_u16(const uint8_t* p) {
    return static_cast<uint16_t>(p[0] | (p[1] << 8));
}

uint32_t load_u32(const uint8_t* p) {
    return static_cast<uint32_t>(load_u16(p)) | (static_cast<uint32_t>(load_u16(p + 2)) << 16);
}

float load_f16(const uint8_t* p) {
    return f16_to_f32(load_u16(p));
}

/// Elements e and e + 16 of a 32-block share a byte: low nibbles are the first half, high nibbles the second.
int nibble16(const uint8_t* q, int e) {
    return e < 16 ? q[e] & 15 : q[e - 16] >> 4;
}

void q4_0(const uint8_t* b, float* x) {
    const float d = load_f16(b);
    for (int e = 0; e < 32; ++e) {
        x[e] = d * static_cast<float>(nibble16(b + 2, e) - 8);
    }
}

void q4_1(const uint8_t* b, float* x) {
    const float d = load_f16(b);
    const float m = load_f16(b + 2);
    for (int e = 0; e < 32; ++e) {
        x[e] = d * static_cast<float>(nibble16(b + 4, e)) + m;
    }
}

void q5_0(const uint8_t* b, float* x) {
    const float d = load_f16(b);
    const uint32_t high = load_u32(b + 2);
    for (int e = 0; e < 32; ++e) {
        const int q = nibble16(b + 6, e) + 16 * static_cast<int>((high >> e) & 1u);
        x[e] = d * static_cast<float>(q - 16);
    }
}

void q5_1(const uint8_t* b, float* x) {
    const float d = load_f16(b);
    const float m = load_f16(b + 2);
    const uint32_t high = load_u32(b + 4);
    for (int e = 0; e < 32; ++e) {
        const int q = nibble16(b + 8, e) + 16 * static_cast<int>((high >> e) & 1u);
        x[e] = d * static_cast<float>(q) + m;
    }
}

void q8_0(const uint8_t* b, float* x) {
    const float d = load_f16(b);
    for (int e = 0; e < 32; ++e) {
        x[e] = d * static_cast<float>(static_cast<int8_t>(b[2 + e]));
    }
}

void iq4_nl(const uint8_t* b, float* x) {
    const float d = load_f16(b);
    for (int e = 0; e < 32; ++e) {
        x[e] = d * static_cast<float>(kIq4Values[nibble16(b + 2, e)]);
    }
}

void mxfp4(const uint8_t* b, float* x) {
    const float d = mxfp4_half_scale(b[0]);
    for (int e = 0; e < 32; ++e) {
        x[e] = d * static_cast<float>(kMxfp4Values[nibble16(b + 1, e)]);
    }
}

// K-quants: `half` counts 128-element halves, `plane` the 2-bit planes or 32-element runs inside one, `lane` 0..31.

void q2_k(const uint8_t* b, float* x) {
    const float d = load_f16(b + 80);
    const float dmin = load_f16(b + 82);
    for (int e = 0; e < 256; ++e) {
        const int half = e / 128;
        const int plane = (e % 128) / 32;
        const int lane = e % 32;
        const int q = (b[16 + 32 * half + lane] >> (2 * plane)) & 3;
        const int c = b[e / 16];
        x[e] = (d * static_cast<float>(c & 15)) * static_cast<float>(q) - (dmin * static_cast<float>(c >> 4));
    }
}

void q3_k(const uint8_t* b, float* x) {
    const float d = load_f16(b + 108);
    for (int e = 0; e < 256; ++e) {
        const int half = e / 128;
        const int plane = (e % 128) / 32;
        const int lane = e % 32;
        const int low = (b[32 + 32 * half + lane] >> (2 * plane)) & 3;
        const int high = (b[lane] >> (4 * half + plane)) & 1;  // a set bit means: subtract nothing
        const int q = low + 4 * high - 4;
        x[e] = (d * static_cast<float>(unpack_q3k_scale(b + 96, e / 16))) * static_cast<float>(q);
    }
}

/// Q4_K and Q5_K: the latter puts 32 bytes of fifth bits in front of the nibbles.
void q45_k(const uint8_t* b, float* x, bool has_fifth_bit) {
    const float d = load_f16(b);
    const float dmin = load_f16(b + 2);
    const uint8_t* fifth = b + 16;
    const uint8_t* nibbles = has_fifth_bit ? b + 48 : b + 16;
    for (int s = 0; s < 8; ++s) {
        uint8_t scale = 0;
        uint8_t min = 0;
        unpack_k6(b + 4, s, &scale, &min);
        const float ds = d * static_cast<float>(scale);
        const float dm = dmin * static_cast<float>(min);
        for (int lane = 0; lane < 32; ++lane) {
            const uint8_t v = nibbles[32 * (s / 2) + lane];
            int q = s % 2 == 0 ? v & 15 : v >> 4;
            if (has_fifth_bit) {
                q += 16 * ((fifth[lane] >> s) & 1);
            }
            x[32 * s + lane] = ds * static_cast<float>(q) - dm;
        }
    }
}

void q4_k(const uint8_t* b, float* x) {
    q45_k(b, x, false);
}

void q5_k(const uint8_t* b, float* x) {
    q45_k(b, x, true);
}

void q6_k(const uint8_t* b, float* x) {
    const float d = load_f16(b + 208);  // the scale stands last
    for (int e = 0; e < 256; ++e) {
        const int half = e / 128;
        const int plane = (e % 128) / 32;
        const int lane = e % 32;
        const uint8_t v = b[64 * half + 32 * (plane % 2) + lane];
        const int low = plane < 2 ? v & 15 : v >> 4;
        const int high = (b[128 + 32 * half + lane] >> (2 * plane)) & 3;
        const int q = low + 16 * high - 32;
        x[e] = (d * static_cast<float>(static_cast<int8_t>(b[192 + e / 16]))) * static_cast<float>(q);
    }
}

void iq4_xs(const uint8_t* b, float* x) {
    const float d = load_f16(b);
    const int scales_high = load_u16(b + 2);
    for (int s = 0; s < 8; ++s) {
        const int low = (b[4 + s / 2] >> (4 * (s % 2))) & 15;
        const int scale = low + 16 * ((scales_high >> (2 * s)) & 3) - 32;
        const float ds = d * static_cast<float>(scale);
        for (int e = 0; e < 32; ++e) {
            x[32 * s + e] = ds * static_cast<float>(kIq4Values[nibble16(b + 8 + 16 * s, e)]);
        }
    }
}

using DecodeBlock = void (*)(const uint8_t*, float*);

DecodeBlock decoder_of(DType dtype) {
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

}  // namespace

float mxfp4_half_scale(uint8_t e) {
    // 2^-128 and 2^-127 have no normal float: their bits are the subnormals 2^21 and 2^22 times 2^-149.
    const uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23;
    return std::bit_cast<float>(bits);
}

void unpack_k6(const uint8_t* packed, int j, uint8_t* scale, uint8_t* min) {
    if (j < 4) {
        *scale = packed[j] & 63;
        *min = packed[j + 4] & 63;
        return;
    }
    *scale = static_cast<uint8_t>((packed[j + 4] & 15) + 16 * (packed[j - 4] >> 6));
    *min = static_cast<uint8_t>((packed[j + 4] >> 4) + 16 * (packed[j] >> 6));
}

int unpack_q3k_scale(const uint8_t* packed, int s) {
    const int low = s < 8 ? packed[s] & 15 : packed[s - 8] >> 4;
    const int high = (packed[8 + s % 4] >> (2 * (s / 4))) & 3;
    return low + 16 * high - 32;
}

void dequantize_row(DType dtype, const std::byte* src, float* dst, int64_t n) {
    const DTypeInfo& info = dtype_info(dtype);
    FORESAY_ASSERT(info.is_weight && n >= 0 && n % info.block == 0);
    const auto* bytes = reinterpret_cast<const uint8_t*>(src);
    if (dtype == DType::kF32) {
        if (n > 0) {
            std::memcpy(dst, bytes, static_cast<size_t>(n) * sizeof(float));
        }
        return;
    }
    if (dtype == DType::kF16 || dtype == DType::kBF16) {
        for (int64_t i = 0; i < n; ++i) {
            const uint16_t v = load_u16(bytes + 2 * i);
            dst[i] = dtype == DType::kF16 ? f16_to_f32(v) : bf16_to_f32(v);
        }
        return;
    }
    const DecodeBlock decode = decoder_of(dtype);
    for (int64_t i = 0; i < n; i += info.block) {
        decode(bytes, dst + i);
        bytes += info.block_bytes;
    }
}

}  // namespace foresay
