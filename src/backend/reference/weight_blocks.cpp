// Layouts: shared/spec/gguf-and-quants.md, section 3. One function per layout; sub = which 32 of a 256-element block.
#include "backend/reference/weight_blocks.h"

#include "base/assert.h"
#include "tensor/dequant.h"
#include "tensor/fp.h"

namespace foresay::reference {
namespace {

uint16_t load_u16(const uint8_t* p) {
    return static_cast<uint16_t>(p[0] | p[1] << 8);
}

uint32_t load_u32(const uint8_t* p) {
    return load_u16(p) | static_cast<uint32_t>(load_u16(p + 2)) << 16;
}

float load_f16(const uint8_t* p) {
    return f16_to_f32(load_u16(p));
}

/// The 32-element rule: elements e and e + 16 share byte e.
int nibble(const uint8_t* qs, int e) {
    return e < 16 ? qs[e] & 15 : qs[e - 16] >> 4;
}

void set_factors(Block32& out, float w, float m) {
    out.w0 = out.w1 = w;
    out.m0 = out.m1 = m;
}

void legacy(Block32& out, const uint8_t* qs, const uint8_t* qh, int offset) {
    const uint32_t high = qh == nullptr ? 0 : load_u32(qh);
    for (int e = 0; e < 32; ++e) {
        const int bit = static_cast<int>(high >> e & 1u);
        out.v[e] = static_cast<int16_t>(nibble(qs, e) + 16 * bit - offset);
    }
}

void table(Block32& out, const uint8_t* qs, const int8_t* values) {
    for (int e = 0; e < 32; ++e) {
        out.v[e] = values[nibble(qs, e)];
    }
}

void q8_0(Block32& out, const uint8_t* b) {
    set_factors(out, load_f16(b), 0.0F);
    for (int e = 0; e < 32; ++e) {
        out.v[e] = static_cast<int8_t>(b[2 + e]);
    }
}

void iq4_xs(Block32& out, const uint8_t* b, int sub) {
    const int low = b[4 + sub / 2] >> 4 * (sub % 2) & 15;
    const int high = load_u16(b + 2) >> 2 * sub & 3;
    set_factors(out, load_f16(b) * static_cast<float>(low + 16 * high - 32), 0.0F);
    table(out, b + 8 + 16 * sub, kIq4Values);
}

void q2_k(Block32& out, const uint8_t* b, int sub) {
    const float d = load_f16(b + 80);
    const float dmin = load_f16(b + 82);
    const uint8_t c0 = b[2 * sub];
    const uint8_t c1 = b[2 * sub + 1];
    out.w0 = d * static_cast<float>(c0 & 15);
    out.w1 = d * static_cast<float>(c1 & 15);
    out.m0 = -(dmin * static_cast<float>(c0 >> 4));
    out.m1 = -(dmin * static_cast<float>(c1 >> 4));
    for (int l = 0; l < 32; ++l) {
        out.v[l] = static_cast<int16_t>(b[16 + 32 * (sub / 4) + l] >> 2 * (sub % 4) & 3);
    }
}

void q3_k(Block32& out, const uint8_t* b, int sub) {
    const float d = load_f16(b + 108);
    out.w0 = d * static_cast<float>(unpack_q3k_scale(b + 96, 2 * sub));
    out.w1 = d * static_cast<float>(unpack_q3k_scale(b + 96, 2 * sub + 1));
    out.m0 = out.m1 = 0.0F;
    for (int l = 0; l < 32; ++l) {
        const int low = b[32 + 32 * (sub / 4) + l] >> 2 * (sub % 4) & 3;
        const int high = b[l] >> sub & 1;  // bit 4n + j, and sub = 4n + j
        out.v[l] = static_cast<int16_t>(low + 4 * high - 4);
    }
}

void q45_k(Block32& out, const uint8_t* b, int sub, bool five) {
    uint8_t scale = 0;
    uint8_t min = 0;
    unpack_k6(b + 4, sub, &scale, &min);
    set_factors(out, load_f16(b) * static_cast<float>(scale), -(load_f16(b + 2) * static_cast<float>(min)));
    const uint8_t* qs = b + (five ? 48 : 16) + 32 * (sub / 2);
    for (int l = 0; l < 32; ++l) {
        const int low = qs[l] >> 4 * (sub % 2) & 15;
        const int high = five ? b[16 + l] >> sub & 1 : 0;
        out.v[l] = static_cast<int16_t>(low + 16 * high);
    }
}

void q6_k(Block32& out, const uint8_t* b, int sub) {
    const float d = load_f16(b + 208);
    out.w0 = d * static_cast<float>(static_cast<int8_t>(b[192 + 2 * sub]));
    out.w1 = d * static_cast<float>(static_cast<int8_t>(b[192 + 2 * sub + 1]));
    out.m0 = out.m1 = 0.0F;
    const int n = sub / 4;
    const int j = sub % 4;
    for (int l = 0; l < 32; ++l) {
        const uint8_t v = b[64 * n + 32 * (j % 2) + l];
        const int low = j < 2 ? v & 15 : v >> 4;
        const int high = b[128 + 32 * n + l] >> 2 * j & 3;
        out.v[l] = static_cast<int16_t>(low + 16 * high - 32);
    }
}

}  // namespace

WeightFamily weight_family(DType dtype) {
    switch (dtype) {
        case DType::kQ4_0:
        case DType::kQ5_0:
        case DType::kQ8_0:
        case DType::kIQ4_NL:
        case DType::kIQ4_XS:
        case DType::kMXFP4:
            return WeightFamily::kOneScale;
        case DType::kQ4_1:
        case DType::kQ5_1:
        case DType::kQ4_K:
        case DType::kQ5_K:
            return WeightFamily::kScaleMin;
        case DType::kQ3_K:
        case DType::kQ6_K:
            return WeightFamily::kTwoScales;
        case DType::kQ2_K:
            return WeightFamily::kTwoScalesMins;
        case DType::kF32:
        case DType::kF16:
        case DType::kBF16:
        case DType::kI32:
            break;
    }
    return WeightFamily::kFloat;
}

Block32 decode_block32(DType dtype, const std::byte* row, int64_t i_block32) {
    const DTypeInfo& info = dtype_info(dtype);
    const int64_t per_block = info.block / 32;
    const auto* b =
        reinterpret_cast<const uint8_t*>(row) + (i_block32 / per_block) * static_cast<int64_t>(info.block_bytes);
    const int sub = static_cast<int>(i_block32 % per_block);
    Block32 out;
    switch (dtype) {
        case DType::kQ4_0:
            set_factors(out, load_f16(b), 0.0F);
            legacy(out, b + 2, nullptr, 8);
            break;
        case DType::kQ4_1:
            set_factors(out, load_f16(b), load_f16(b + 2));
            legacy(out, b + 4, nullptr, 0);
            break;
        case DType::kQ5_0:
            set_factors(out, load_f16(b), 0.0F);
            legacy(out, b + 6, b + 2, 16);
            break;
        case DType::kQ5_1:
            set_factors(out, load_f16(b), load_f16(b + 2));
            legacy(out, b + 8, b + 4, 0);
            break;
        case DType::kQ8_0:
            q8_0(out, b);
            break;
        case DType::kIQ4_NL:
            set_factors(out, load_f16(b), 0.0F);
            table(out, b + 2, kIq4Values);
            break;
        case DType::kMXFP4:
            set_factors(out, mxfp4_half_scale(b[0]), 0.0F);
            table(out, b + 1, kMxfp4Values);
            break;
        case DType::kIQ4_XS:
            iq4_xs(out, b, sub);
            break;
        case DType::kQ2_K:
            q2_k(out, b, sub);
            break;
        case DType::kQ3_K:
            q3_k(out, b, sub);
            break;
        case DType::kQ4_K:
            q45_k(out, b, sub, false);
            break;
        case DType::kQ5_K:
            q45_k(out, b, sub, true);
            break;
        case DType::kQ6_K:
            q6_k(out, b, sub);
            break;
        case DType::kF32:
        case DType::kF16:
        case DType::kBF16:
        case DType::kI32:
            FORESAY_ASSERT(!"a type without blocks");
    }
    return out;
}

}  // namespace foresay::reference
