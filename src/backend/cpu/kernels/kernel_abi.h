// What ISA units and the rest of the CPU backend share: plain structs and constants, no functions, no std.
// Each ISA unit is compiled with its own -m flags; a function defined here could be kept by the linker in its AVX-512
// form for everyone, so there is none (style.md, section 3). Read next: lanes_avx512.h, matmul.inc, ops.inc.
#pragma once

#include <stdint.h>

namespace foresay::cpu {

// --- weight tiles -----------------------------------------------------------------------------------------------
// A tile is 16 output rows x 256 k (fewer at the end of K, in units of 32). Row groups (all tiles of 16 rows) follow
// each other in memory. A tile is: head (scales of all its blocks, rounded up to 64 bytes), then per 32-block its
// codes. Codes are unsigned bytes in planes, position r * 4 + j of a 64-byte vector belonging to row r and k = 4 * g +
// j:
//   4-bit plane, 4 vectors: vector v holds group g = v in the low nibbles and g = v + 4 in the high ones;
//   2-bit plane, 2 vectors: vector v holds group g = 4 * v + i at bits 2 * i;  1-bit plane, 1 vector: group g at bit g;
//   8-bit, 8 vectors: vector g is group g.

enum TileKind : int32_t {
    kTileQ4_0,
    kTileQ4_1,
    kTileQ5_0,
    kTileQ5_1,
    kTileQ8_0,
    kTileQ2_K,
    kTileQ3_K,
    kTileQ4_K,
    kTileQ5_K,
    kTileQ6_K,
    kTileIQ4_NL,
    kTileIQ4_XS,
    kTileMXFP4,
    kTileKinds,
};

constexpr int kTileRows = 16;
constexpr int kTileBlocks = 8;  // 32-blocks per tile: the K-quants' super-block of 256

struct TileShape {
    int32_t super_head;   // bytes of head per tile: f16 d[16] (and dmin[16]) of the K-quants
    int32_t block_head;   // bytes of head per 32-block: see tile_layout.cpp
    int32_t block_codes;  // bytes of codes per 32-block
};

constexpr TileShape kTileShapes[kTileKinds] = {
    {0, 32, 256},   // Q4_0: f16 d[16]; 4-bit
    {0, 64, 256},   // Q4_1: f16 d[16], m[16]; 4-bit
    {0, 32, 320},   // Q5_0: f16 d[16]; 4-bit, 1-bit
    {0, 64, 320},   // Q5_1: f16 d[16], m[16]; 4-bit, 1-bit
    {0, 32, 512},   // Q8_0: f16 d[16]; 8-bit biased by 128
    {64, 32, 128},  // Q2_K: d, dmin; u8 scale | min << 4 [2][16]; 2-bit
    {32, 32, 192},  // Q3_K: d; s8 scale[2][16]; 2-bit, 1-bit
    {64, 32, 256},  // Q4_K: d, dmin; u8 scale[16], min[16]; 4-bit
    {64, 32, 320},  // Q5_K: d, dmin; u8 scale[16], min[16]; 4-bit, 1-bit
    {32, 32, 384},  // Q6_K: d; s8 scale[2][16]; 4-bit, 2-bit
    {0, 32, 256},   // IQ4_NL: f16 d[16]; 4-bit
    {32, 16, 256},  // IQ4_XS: d; s8 scale[16]; 4-bit
    {0, 16, 256},   // MXFP4: u8 exponent[16]; 4-bit
};

// --- quantised activations (q8a) -----------------------------------------------------------------------------------
// Column c of block s: q at (s * stride + c) * 32, all other arrays at s * stride + c (halves: 2 * that + half).
// A kernel's integer sum starts at -offset * sum(q), so that unsigned codes give the signed product exactly.

enum ActStart : int32_t {
    kStart8,
    kStart16,
    kStart128,  // one per block: Q4_0; Q5_0; Q8_0 and the table types
    kStartHalf4,
    kStartHalf32,  // one per half block: Q3_K; Q6_K
    kActStarts,
};

enum ActNeed : uint32_t {    // bit i < kActStarts: start[i]
    kNeedSum = 1u << 8,      // sum: the scale + min types
    kNeedSumHalf = 1u << 9,  // sum_half: Q2_K
};

struct ActImage {
    int8_t* q;
    float* d;
    float* sum;       // float of the block's sum of q
    float* sum_half;  // of each half's
    int32_t* start[kActStarts];
    int64_t stride;  // columns
    uint32_t need;   // which of the arrays are filled
};

struct MatmulArgs {
    const uint8_t* tiles;  // one row group
    int64_t n_blocks;      // K / 32
    const ActImage* act;
    int64_t n_cols;
    float* acc;  // [n_cols][16], 64-byte aligned: result
};

using MatmulFn = void (*)(const MatmulArgs* args);

// --- dense weights ---------------------------------------------------------------------------------------------
// [k][16 rows] in F32, F16 or BF16; activations packed as [k][stride].

enum DenseKind : int32_t { kDenseF32, kDenseF16, kDenseBF16, kDenseKinds };

struct DenseArgs {
    const uint8_t* tiles;  // n_groups row groups
    int64_t group_bytes;
    int64_t n_groups;
    int64_t k;
    const float* x;
    int64_t stride;
    int64_t n_cols;
    float* acc;  // [n_groups][n_cols][16]
};

using DenseFn = void (*)(const DenseArgs* args);
constexpr int kDenseGroupsMax = 8;  // row groups worth passing at once: 8 chains hide the latency of fma

// --- attention --------------------------------------------------------------------------------------------------

enum CacheKind : int32_t { kCacheF32, kCacheF16, kCacheQ8_0 };

struct AttentionQuery {
    const float* q;       // [d]
    float* out;           // [dv]
    int64_t first, last;  // visible positions, inclusive; first > last: none
    float sink;           // used when AttentionArgs::has_sinks
};

/// Queries that share a key head and a kv base.
struct AttentionArgs {
    const uint8_t* k;  // of this key head at cell 0
    const uint8_t* v;
    int64_t base;                // cell of position 0
    int64_t k_stride, v_stride;  // bytes from one position to the next
    int32_t k_kind, v_kind;
    int64_t d, dv;
    float scale, softcap;
    int32_t has_sinks;
    const AttentionQuery* queries;
    int64_t n_queries;
    float* scratch;  // kKvBlock * max(D, Dv) + n_queries * (D + Dv + kKvBlock + 2) floats, D and Dv rounded up to 16
};

constexpr int kKvBlock = 64;
constexpr int kMaxQueries = 64;  // per call

// --- gates, experts, recurrent layers
// ---------------------------------------------------------------------------------

constexpr int kMaxTaps = 16;

/// y = sum over taps of taps[i] * rows[i], then silu: n channels of one row.
struct ConvArgs {
    const float* rows[kMaxTaps];  // [n] each; null: zeros
    const float* taps;            // [n_taps][n]
    int64_t n_taps, n;
    float* y;
    int32_t silu;
};

/// One row of one head of the delta net, n of its d columns.
struct DeltaArgs {
    const float* before;  // [d][stride] at the first column; null: zeros
    float* after;
    int64_t d, n, stride;
    const float *k, *q;  // [d]
    const float* v;      // [n]
    float decay, beta;
    float* out;  // [n]
};

// --- the table of one ISA ---------------------------------------------------------------------------------------

struct Kernels {
    MatmulFn matmul[kTileKinds];
    DenseFn dense[kDenseKinds];
    /// Blocks [first, first + n) of columns [column, column + n_columns). x: block `first` of the first of them; the
    /// next column's lies x_stride floats further.
    void (*quantize)(const float* x, int64_t x_stride, int64_t first, int64_t n, const ActImage* image, int64_t column,
                     int64_t n_columns);
    /// One row: y = norm(x) * w; w may be null. y may be x.
    void (*rms_norm)(const float* x, const float* w, float* y, int64_t n, float epsilon);
    void (*swiglu)(const float* gate, const float* up, float* y, int64_t n);
    void (*geglu)(const float* gate, const float* up, float* y, int64_t n);
    void (*softcap)(const float* x, float* y, int64_t n, float cap);
    /// One head: cs = cos[n_pairs], sin[n_pairs]; dimensions past 2 * n_pairs are the caller's. y may be x.
    void (*rope)(const float* x, float* y, const float* cs, int64_t n_pairs, int32_t neox);
    void (*to_f16)(const float* x, uint16_t* y, int64_t n);
    void (*attention)(const AttentionArgs* args);
    /// e^x, and 1 / (1 + e^-x). y may be x.
    void (*exponential)(const float* x, float* y, int64_t n);
    void (*sigmoid)(const float* x, float* y, int64_t n);
    void (*mul_sigmoid)(const float* x, const float* gate, float* y, int64_t n);
    void (*swiglu_oai)(const float* gate, const float* up, float* y, int64_t n);
    /// y = sum over j < n_x, ascending, of w[j] * x[j * stride ...].
    void (*weighted_sum)(const float* x, int64_t stride, const float* w, int64_t n_x, float* y, int64_t n);
    void (*short_conv)(const ConvArgs* args);
    void (*delta_step)(const DeltaArgs* args);
};

extern const Kernels kKernelsPortable;
extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx2Vnni;
extern const Kernels kKernelsAvx512Vnni;
extern const Kernels kKernelsAmx;

}  // namespace foresay::cpu
