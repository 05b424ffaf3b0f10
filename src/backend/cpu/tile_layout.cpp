#include "backend/cpu/tile_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "tensor/dequant.h"
#include "tensor/fp.h"

namespace foresay::cpu {
namespace {

struct KindOf {
    DType dtype;
    int32_t kind;
    bool is_dense;
    uint32_t needs;
};

constexpr KindOf kKinds[] = {
    {DType::kF32, kDenseF32, true, 0},
    {DType::kF16, kDenseF16, true, 0},
    {DType::kBF16, kDenseBF16, true, 0},
    {DType::kQ4_0, kTileQ4_0, false, 1u << kStart8},
    {DType::kQ4_1, kTileQ4_1, false, kNeedSum},
    {DType::kQ5_0, kTileQ5_0, false, 1u << kStart16},
    {DType::kQ5_1, kTileQ5_1, false, kNeedSum},
    {DType::kQ8_0, kTileQ8_0, false, 1u << kStart128},
    {DType::kQ2_K, kTileQ2_K, false, kNeedSumHalf},
    {DType::kQ3_K, kTileQ3_K, false, 1u << kStartHalf4},
    {DType::kQ4_K, kTileQ4_K, false, kNeedSum},
    {DType::kQ5_K, kTileQ5_K, false, kNeedSum},
    {DType::kQ6_K, kTileQ6_K, false, 1u << kStartHalf32},
    {DType::kIQ4_NL, kTileIQ4_NL, false, 1u << kStart128},
    {DType::kIQ4_XS, kTileIQ4_XS, false, 1u << kStart128},
    {DType::kMXFP4, kTileMXFP4, false, 1u << kStart128},
};

const KindOf& kind_of(DType dtype) {
    return *std::find_if(std::begin(kKinds), std::end(kKinds) - 1,
                         [dtype](const KindOf& k) { return k.dtype == dtype; });
}

int64_t head_bytes(const TileShape& shape, int64_t n_blocks) {
    return round_up<int64_t>(shape.super_head + shape.block_head * n_blocks, 64);
}

int64_t tile_bytes(const TileShape& shape, int64_t n_blocks) {
    return head_bytes(shape, n_blocks) + shape.block_codes * n_blocks;
}

const uint8_t* bytes_of(const std::byte* p) {
    return reinterpret_cast<const uint8_t*>(p);
}

uint32_t load_u32(const uint8_t* p) {
    uint32_t v = 0;
    std::memcpy(&v, p, sizeof(v));
    return v;
}

void nibbles(const uint8_t* qs, uint8_t* out) {
    for (int e = 0; e < 16; ++e) {
        out[e] = qs[e] & 15;
        out[e + 16] = qs[e] >> 4;
    }
}

void add_bits(const uint8_t* qh, uint8_t* out) {
    const uint32_t high = load_u32(qh);
    for (int e = 0; e < 32; ++e) {
        out[e] = static_cast<uint8_t>(out[e] | (high >> e & 1u) << 4);
    }
}

/// The 32 unsigned codes of 32-block `block` of a row in file layout.
void file_codes(int32_t kind, const uint8_t* row, int64_t block, uint8_t* out) {
    const int64_t super = block / 8;
    const int sub = static_cast<int>(block % 8);
    switch (kind) {
        case kTileQ4_0:
        case kTileIQ4_NL:
            return nibbles(row + 18 * block + 2, out);
        case kTileQ4_1:
            return nibbles(row + 20 * block + 4, out);
        case kTileQ5_0:
            nibbles(row + 22 * block + 6, out);
            return add_bits(row + 22 * block + 2, out);
        case kTileQ5_1:
            nibbles(row + 24 * block + 8, out);
            return add_bits(row + 24 * block + 4, out);
        case kTileMXFP4:
            return nibbles(row + 17 * block + 1, out);
        case kTileQ8_0:
            for (int e = 0; e < 32; ++e) {
                out[e] = row[34 * block + 2 + e] ^ 0x80;
            }
            return;
        case kTileIQ4_XS:
            return nibbles(row + 136 * super + 8 + 16 * sub, out);
        case kTileQ2_K:
        case kTileQ3_K: {
            const uint8_t* b = row + (kind == kTileQ2_K ? 84 * super : 110 * super);
            const uint8_t* qs = b + (kind == kTileQ2_K ? 16 : 32) + 32 * (sub / 4);
            const int shift = 2 * (sub % 4);
            for (int e = 0; e < 32; ++e) {
                out[e] = static_cast<uint8_t>(qs[e] >> shift & 3);
            }
            if (kind == kTileQ3_K) {
                for (int e = 0; e < 32; ++e) {
                    out[e] = static_cast<uint8_t>(out[e] | (b[e] >> sub & 1) << 2);
                }
            }
            return;
        }
        case kTileQ4_K:
        case kTileQ5_K: {
            const uint8_t* b = row + (kind == kTileQ4_K ? 144 * super : 176 * super);
            const uint8_t* qs = b + (kind == kTileQ4_K ? 16 : 48) + 32 * (sub / 2);
            const int shift = 4 * (sub % 2);
            for (int e = 0; e < 32; ++e) {
                out[e] = static_cast<uint8_t>(qs[e] >> shift & 15);
            }
            if (kind == kTileQ5_K) {
                for (int e = 0; e < 32; ++e) {
                    out[e] = static_cast<uint8_t>(out[e] | (b[16 + e] >> sub & 1) << 4);
                }
            }
            return;
        }
        case kTileQ6_K: {
            const uint8_t* b = row + 210 * super;
            const uint8_t* low = b + 64 * (sub / 4) + 32 * (sub % 2);
            const uint8_t* high = b + 128 + 32 * (sub / 4);
            const int low_shift = sub % 4 < 2 ? 0 : 4;
            const int high_shift = 2 * (sub % 4);
            for (int e = 0; e < 32; ++e) {
                out[e] = static_cast<uint8_t>((low[e] >> low_shift & 15) | (high[e] >> high_shift & 3) << 4);
            }
            return;
        }
        default:
            return;
    }
}

bool has_nibbles(int32_t kind) {
    return kind != kTileQ8_0 && kind != kTileQ2_K && kind != kTileQ3_K;
}

bool has_fifth_bit(int32_t kind) {
    return kind == kTileQ5_0 || kind == kTileQ5_1 || kind == kTileQ5_K;
}

/// Position of element e of row r in a plane's vector.
constexpr int position(int r, int e) {
    return 4 * r + (e & 3);
}

/// Adds one row's codes to the planes of a block, which were zero.
void put_codes(int32_t kind, const uint8_t* codes, int r, uint8_t* dst) {
    if (kind == kTileQ8_0) {
        for (int g = 0; g < 8; ++g) {
            std::memcpy(dst + 64 * g + 4 * r, codes + 4 * g, 4);
        }
        return;
    }
    uint8_t* upper = dst;  // the plane behind the main one
    if (has_nibbles(kind)) {
        uint8_t both[16];
        for (int e = 0; e < 16; ++e) {
            both[e] = static_cast<uint8_t>((codes[e] & 15) | (codes[e + 16] & 15) << 4);
        }
        for (int v = 0; v < 4; ++v) {
            std::memcpy(dst + 64 * v + 4 * r, both + 4 * v, 4);
        }
        upper += 256;
    } else {
        for (int e = 0; e < 32; ++e) {
            dst[64 * (e / 16) + position(r, e)] |= static_cast<uint8_t>((codes[e] & 3) << 2 * (e / 4 % 4));
        }
        upper += 128;
    }
    if (has_fifth_bit(kind)) {
        for (int e = 0; e < 32; ++e) {
            upper[position(r, e)] |= static_cast<uint8_t>((codes[e] >> 4) << e / 4);
        }
    } else if (kind == kTileQ6_K) {
        for (int e = 0; e < 32; ++e) {
            upper[64 * (e / 16) + position(r, e)] |= static_cast<uint8_t>((codes[e] >> 4) << 2 * (e / 4 % 4));
        }
    } else if (kind == kTileQ3_K) {
        for (int e = 0; e < 32; ++e) {
            upper[position(r, e)] |= static_cast<uint8_t>((codes[e] >> 2) << e / 4);
        }
    }
}

void take_codes(int32_t kind, const uint8_t* src, int r, uint8_t* codes) {
    for (int e = 0; e < 32; ++e) {
        const int at = position(r, e);
        const int g = e / 4;
        if (kind == kTileQ8_0) {
            codes[e] = src[64 * g + at];
        } else if (has_nibbles(kind)) {
            int code = src[64 * (g % 4) + at] >> (g < 4 ? 0 : 4) & 15;
            if (has_fifth_bit(kind)) {
                code |= (src[256 + at] >> g & 1) << 4;
            } else if (kind == kTileQ6_K) {
                code |= (src[256 + 64 * (g / 4) + at] >> 2 * (g % 4) & 3) << 4;
            }
            codes[e] = static_cast<uint8_t>(code);
        } else {
            int code = src[64 * (g / 4) + at] >> 2 * (g % 4) & 3;
            if (kind == kTileQ3_K) {
                code |= (src[128 + at] >> g & 1) << 2;
            }
            codes[e] = static_cast<uint8_t>(code);
        }
    }
}

/// Head fields that a tile has once: d, and dmin where the type has one.
void put_super_head(int32_t kind, const uint8_t* row, int64_t super, int r, uint8_t* tile) {
    const uint8_t* d = nullptr;
    const uint8_t* dmin = nullptr;
    switch (kind) {
        case kTileQ2_K:
            d = row + 84 * super + 80;
            dmin = d + 2;
            break;
        case kTileQ3_K:
            d = row + 110 * super + 108;
            break;
        case kTileQ4_K:
            d = row + 144 * super;
            dmin = d + 2;
            break;
        case kTileQ5_K:
            d = row + 176 * super;
            dmin = d + 2;
            break;
        case kTileQ6_K:
            d = row + 210 * super + 208;
            break;
        case kTileIQ4_XS:
            d = row + 136 * super;
            break;
        default:
            return;
    }
    std::memcpy(tile + 2 * r, d, 2);
    if (dmin != nullptr) {
        std::memcpy(tile + 32 + 2 * r, dmin, 2);
    }
}

/// Head fields of one 32-block.
void put_block_head(int32_t kind, const uint8_t* row, int64_t block, int r, uint8_t* head) {
    const int64_t super = block / 8;
    const int sub = static_cast<int>(block % 8);
    switch (kind) {
        case kTileQ4_0:
        case kTileIQ4_NL:
            std::memcpy(head + 2 * r, row + 18 * block, 2);
            return;
        case kTileQ5_0:
            std::memcpy(head + 2 * r, row + 22 * block, 2);
            return;
        case kTileQ8_0:
            std::memcpy(head + 2 * r, row + 34 * block, 2);
            return;
        case kTileQ4_1:
        case kTileQ5_1: {
            const uint8_t* b = row + (kind == kTileQ4_1 ? 20 : 24) * block;
            std::memcpy(head + 2 * r, b, 2);
            std::memcpy(head + 32 + 2 * r, b + 2, 2);
            return;
        }
        case kTileMXFP4:
            head[r] = row[17 * block];
            return;
        case kTileIQ4_XS: {
            const uint8_t* b = row + 136 * super;
            const int low = b[4 + sub / 2] >> 4 * (sub % 2) & 15;
            const int high = (b[2] | b[3] << 8) >> 2 * sub & 3;
            head[r] = static_cast<uint8_t>(low + 16 * high - 32);
            return;
        }
        case kTileQ2_K:
            head[r] = row[84 * super + 2 * sub];
            head[16 + r] = row[84 * super + 2 * sub + 1];
            return;
        case kTileQ3_K:
            head[r] = static_cast<uint8_t>(unpack_q3k_scale(row + 110 * super + 96, 2 * sub));
            head[16 + r] = static_cast<uint8_t>(unpack_q3k_scale(row + 110 * super + 96, 2 * sub + 1));
            return;
        case kTileQ4_K:
        case kTileQ5_K:
            unpack_k6(row + (kind == kTileQ4_K ? 144 : 176) * super + 4, sub, &head[r], &head[16 + r]);
            return;
        case kTileQ6_K:
            head[r] = row[210 * super + 192 + 2 * sub];
            head[16 + r] = row[210 * super + 192 + 2 * sub + 1];
            return;
        default:
            return;
    }
}

void pack_dense(const TileLayout& layout, const std::byte* matrix, int64_t group, uint8_t* dst) {
    const int64_t size = layout.kind == kDenseF32 ? 4 : 2;
    for (int64_t r = 0; r < kTileRows; ++r) {
        const int64_t row = group * kTileRows + r;
        const uint8_t* src = bytes_of(matrix) + row * layout.k * size;
        for (int64_t k = 0; k < layout.k; ++k) {
            uint8_t* at = dst + (k * kTileRows + r) * size;
            if (row >= layout.n) {
                std::memset(at, 0, static_cast<size_t>(size));
            } else if (size == 4) {
                std::memcpy(at, src + 4 * k, 4);
            } else {
                std::memcpy(at, src + 2 * k, 2);
            }
        }
    }
}

void read_dense(const TileLayout& layout, const uint8_t* tiles, int64_t row, float* dst) {
    const int64_t size = layout.kind == kDenseF32 ? 4 : 2;
    const uint8_t* src = tiles + row / kTileRows * layout.group_bytes + row % kTileRows * size;
    for (int64_t k = 0; k < layout.k; ++k) {
        dequantize_row(layout.dtype, reinterpret_cast<const std::byte*>(src + k * kTileRows * size), dst + k, 1);
    }
}

struct Factors {
    float w[2] = {0.0F, 0.0F};
    float m[2] = {0.0F, 0.0F};
    int offset = 0;                 // subtracted from the code
    const int8_t* table = nullptr;  // value of a code, instead
    bool has_min = false;
};

float half_at(const uint8_t* p) {
    uint16_t bits = 0;
    std::memcpy(&bits, p, sizeof(bits));
    return f16_to_f32(bits);
}

Factors read_factors(int32_t kind, const uint8_t* tile, const uint8_t* head, int r) {
    Factors f;
    switch (kind) {
        case kTileQ4_1:
        case kTileQ5_1:
            f.m[0] = f.m[1] = half_at(head + 32 + 2 * r);
            f.has_min = true;
            f.w[0] = f.w[1] = half_at(head + 2 * r);
            break;
        case kTileMXFP4:
            f.w[0] = f.w[1] = mxfp4_half_scale(head[r]);
            f.table = kMxfp4Values;
            break;
        case kTileIQ4_XS:
            f.w[0] = f.w[1] = half_at(tile + 2 * r) * static_cast<float>(static_cast<int8_t>(head[r]));
            f.table = kIq4Values;
            break;
        case kTileQ4_K:
        case kTileQ5_K:
            f.w[0] = f.w[1] = half_at(tile + 2 * r) * static_cast<float>(head[r]);
            f.m[0] = f.m[1] = -(half_at(tile + 32 + 2 * r) * static_cast<float>(head[16 + r]));
            f.has_min = true;
            break;
        case kTileQ2_K:
            for (int h = 0; h < 2; ++h) {
                const uint8_t c = head[16 * h + r];
                f.w[h] = half_at(tile + 2 * r) * static_cast<float>(c & 15);
                f.m[h] = -(half_at(tile + 32 + 2 * r) * static_cast<float>(c >> 4));
            }
            f.has_min = true;
            break;
        case kTileQ3_K:
        case kTileQ6_K:
            for (int h = 0; h < 2; ++h) {
                f.w[h] = half_at(tile + 2 * r) * static_cast<float>(static_cast<int8_t>(head[16 * h + r]));
            }
            f.offset = kind == kTileQ3_K ? 4 : 32;
            break;
        default:  // Q4_0, Q5_0, Q8_0, IQ4_NL
            f.w[0] = f.w[1] = half_at(head + 2 * r);
            f.offset = kind == kTileQ4_0 ? 8 : kind == kTileQ5_0 ? 16 : 128;
            f.table = kind == kTileIQ4_NL ? kIq4Values : nullptr;
            break;
    }
    return f;
}

}  // namespace

TileLayout make_tile_layout(DType dtype, int64_t k, int64_t n) {
    const KindOf& kind = kind_of(dtype);
    TileLayout layout;
    layout.dtype = dtype;
    layout.is_dense = kind.is_dense;
    layout.kind = kind.kind;
    layout.k = k;
    layout.n = n;
    layout.n_groups = (n + kTileRows - 1) / kTileRows;
    if (kind.is_dense) {
        layout.group_bytes = round_up<int64_t>(k * kTileRows * (kind.kind == kDenseF32 ? 4 : 2), 64);
    } else {
        const TileShape& shape = kTileShapes[kind.kind];
        const int64_t n_blocks = k / 32;
        layout.group_bytes = n_blocks / kTileBlocks * tile_bytes(shape, kTileBlocks);
        if (n_blocks % kTileBlocks != 0) {
            layout.group_bytes += tile_bytes(shape, n_blocks % kTileBlocks);
        }
    }
    return layout;
}

void pack_group(const TileLayout& layout, const std::byte* matrix, int64_t group, uint8_t* dst) {
    if (layout.is_dense) {
        return pack_dense(layout, matrix, group, dst);
    }
    std::memset(dst, 0, static_cast<size_t>(layout.group_bytes));
    const TileShape& shape = kTileShapes[layout.kind];
    const int64_t n_blocks = layout.k / 32;
    const auto file_row = static_cast<int64_t>(row_bytes(layout.dtype, layout.k));
    const int64_t n_rows = std::min<int64_t>(kTileRows, layout.n - group * kTileRows);
    for (int64_t first = 0; first < n_blocks; first += kTileBlocks) {
        const int64_t n = std::min<int64_t>(kTileBlocks, n_blocks - first);
        uint8_t* codes_at = dst + head_bytes(shape, n);
        for (int r = 0; r < n_rows; ++r) {
            const uint8_t* row = bytes_of(matrix) + (group * kTileRows + r) * file_row;
            put_super_head(layout.kind, row, first / kTileBlocks, r, dst);
            for (int64_t i = 0; i < n; ++i) {
                uint8_t codes[32] = {};
                file_codes(layout.kind, row, first + i, codes);
                put_codes(layout.kind, codes, r, codes_at + shape.block_codes * i);
                put_block_head(layout.kind, row, first + i, r, dst + shape.super_head + shape.block_head * i);
            }
        }
        dst += tile_bytes(shape, n);
    }
}

void read_tile_row(const TileLayout& layout, const uint8_t* tiles, int64_t row, float* dst) {
    if (layout.is_dense) {
        return read_dense(layout, tiles, row, dst);
    }
    const TileShape& shape = kTileShapes[layout.kind];
    const uint8_t* tile = tiles + row / kTileRows * layout.group_bytes;
    const int r = static_cast<int>(row % kTileRows);
    const int64_t n_blocks = layout.k / 32;
    for (int64_t first = 0; first < n_blocks; first += kTileBlocks) {
        const int64_t n = std::min<int64_t>(kTileBlocks, n_blocks - first);
        for (int64_t i = 0; i < n; ++i) {
            uint8_t codes[32] = {};
            take_codes(layout.kind, tile + head_bytes(shape, n) + shape.block_codes * i, r, codes);
            const Factors f = read_factors(layout.kind, tile, tile + shape.super_head + shape.block_head * i, r);
            for (int e = 0; e < 32; ++e) {
                const int v = f.table != nullptr ? f.table[codes[e]] : codes[e] - f.offset;
                const float x = f.w[e / 16] * static_cast<float>(v);
                *dst++ = f.has_min ? x + f.m[e / 16] : x;
            }
        }
        tile += tile_bytes(shape, n);
    }
}

std::string product_path(DType dtype, std::string_view isa, bool repack) {
    const bool is_dense = kind_of(dtype).is_dense;
    const std::string how = is_dense ? fmt::format("{} tiles", dtype_name(dtype)) : "int8 dots over tiles";
    // Dense products have no integer form: the unit of AMX runs them by its AVX-512 kernels.
    return fmt::format("{} ({}){}", how, is_dense && isa == "amx" ? "avx512vnni" : isa,
                       repack ? "" : ", packed in each pass");
}

uint32_t activation_needs(const TileLayout& layout) {
    return kind_of(layout.dtype).needs;
}

}  // namespace foresay::cpu
