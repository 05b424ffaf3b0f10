// Vectors of the AVX-512-VNNI units: 16 rows, or 16 virtual lanes, in one register. Included once per unit, inside an
// anonymous namespace, so that nothing here can reach other units.
// Requires <immintrin.h> before it.

#define FORESAY_INLINE __attribute__((always_inline)) inline

constexpr int kRows = 16;              // rows of a tile per pass
constexpr int kMaxCols = 16;           // 16 sums + 8 code vectors + factors fit 32 registers
constexpr bool kManyRegisters = true;  // 32: a few queries and 8 keys at once
constexpr int kKeysAtOnce = 16;
constexpr int kHeadStep = 8;     // vectors of an output row kept in registers
constexpr bool kBiased8 = true;  // 8-bit codes are used as stored (+128) and corrected by the start value

using VF = __m512;
using VI = __m512i;
using VB = __m512i;

FORESAY_INLINE VB load_bytes(const uint8_t* p) {
    return _mm512_load_si512(p);
}

FORESAY_INLINE VB and_bytes(VB a, int mask) {
    return _mm512_and_si512(a, _mm512_set1_epi8(static_cast<char>(mask)));
}

/// a | (b & mask)
FORESAY_INLINE VB or_masked(VB a, VB b, int mask) {
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi8(static_cast<char>(mask)), 0xF8);
}

template <int kShift>
FORESAY_INLINE VB shift_left(VB a) {
    if constexpr (kShift == 0) {
        return a;
    } else if constexpr (kShift > 0) {
        return _mm512_slli_epi16(a, kShift);
    } else {
        return _mm512_srli_epi16(a, -kShift);
    }
}

FORESAY_INLINE VB lookup(const uint8_t* table16, VB index) {
    const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table16));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), index);
}

FORESAY_INLINE VI zero_int() {
    return _mm512_setzero_si512();
}

FORESAY_INLINE VI set1_int(const int32_t* p) {
    return _mm512_set1_epi32(*p);
}

FORESAY_INLINE VF to_float(VI a) {
    return _mm512_cvtepi32_ps(a);
}

FORESAY_INLINE VF load_f16(const uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

FORESAY_INLINE VI load_u8(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

FORESAY_INLINE VI load_s8(const uint8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

FORESAY_INLINE VI and_int(VI a, int mask) {
    return _mm512_and_si512(a, _mm512_set1_epi32(mask));
}

FORESAY_INLINE VI shift_right_int4(VI a) {
    return _mm512_srli_epi32(a, 4);
}

FORESAY_INLINE VF negate(VF a) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN)));
}

/// Half of the E8M0 scale: 2^(e - 128); subnormal below 2.
FORESAY_INLINE VF half_e8m0(VI e) {
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __m512i tiny = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    const __mmask16 is_tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_blend_epi32(is_tiny, normal, tiny));
}

/// acc + the products of one k-group of one column. Inline assembly because g++ 12 doesn't fold the broadcast into the
/// instruction, which costs a quarter of the throughput at 8 columns.
FORESAY_INLINE void dot_group(VI& acc, VB w, const int8_t* q) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*reinterpret_cast<const int32_t*>(q)));
}

/// acc + products of kN groups of one column, in two chains: with one, the instructions that wait for it fill the
/// scheduler before enough columns are in flight (7 % slower at 8 columns).
template <int kBits, int kN>
FORESAY_INLINE VI dot_groups(VI acc, const VB* w, const int8_t* q) {
    VI other = zero_int();
    FORESAY_UNROLL
    for (int g = 0; g < kN; g += 2) {
        dot_group(acc, w[g], q + 4 * g);
        dot_group(other, w[g + 1], q + 4 * g + 4);
    }
    return _mm512_add_epi32(acc, other);
}

// --- floats: rows in products, virtual lanes elsewhere
// ----------------------------------------------------------------
using V16 = __m512;

FORESAY_INLINE V16 zero16() {
    return _mm512_setzero_ps();
}

FORESAY_INLINE V16 set16(float x) {
    return _mm512_set1_ps(x);
}

FORESAY_INLINE V16 load16(const float* p) {
    return _mm512_loadu_ps(p);
}

FORESAY_INLINE void store16(float* p, V16 a) {
    _mm512_storeu_ps(p, a);
}

FORESAY_INLINE V16 add16(V16 a, V16 b) {
    return _mm512_add_ps(a, b);
}

FORESAY_INLINE V16 sub16(V16 a, V16 b) {
    return _mm512_sub_ps(a, b);
}

FORESAY_INLINE V16 mul16(V16 a, V16 b) {
    return _mm512_mul_ps(a, b);
}

FORESAY_INLINE V16 div16(V16 a, V16 b) {
    return _mm512_div_ps(a, b);
}

FORESAY_INLINE V16 fma16(V16 a, V16 b, V16 c) {
    return _mm512_fmadd_ps(a, b, c);
}

FORESAY_INLINE V16 abs16(V16 a) {
    return _mm512_abs_ps(a);
}

FORESAY_INLINE V16 neg16(V16 a) {
    return negate(a);
}

/// a > b ? a : b, so b where either is a NaN.
FORESAY_INLINE V16 max16(V16 a, V16 b) {
    return _mm512_max_ps(a, b);
}

FORESAY_INLINE V16 min16(V16 a, V16 b) {
    return _mm512_min_ps(a, b);
}

FORESAY_INLINE V16 round16(V16 a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/// Sign bit of s on |a|.
FORESAY_INLINE V16 copysign16(V16 a, V16 s) {
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(_mm512_castps_si512(a), _mm512_castps_si512(s), _mm512_set1_epi32(INT32_MIN), 0xD8));
}

FORESAY_INLINE V16 select_lt16(V16 a, V16 b, V16 yes, V16 no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}

FORESAY_INLINE V16 select_nan16(V16 a, V16 yes, V16 no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), no, yes);
}

/// y * 2^n for integral n in -150..128, in two exact-as-defined steps.
FORESAY_INLINE V16 scale_by_power16(V16 y, V16 n) {
    const __m512i e = _mm512_cvtps_epi32(n);
    const __m512i half = _mm512_srai_epi32(e, 1);
    const __m512i bias = _mm512_set1_epi32(127);
    const __m512i a = _mm512_slli_epi32(_mm512_add_epi32(half, bias), 23);
    const __m512i b = _mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(e, half), bias), 23);
    return _mm512_mul_ps(_mm512_mul_ps(y, _mm512_castsi512_ps(a)), _mm512_castsi512_ps(b));
}

FORESAY_INLINE float max_of16(V16 a) {
    return _mm512_reduce_max_ps(a);
}

FORESAY_INLINE V16 load_f16_16(const uint16_t* p) {
    return load_f16(reinterpret_cast<const uint8_t*>(p));
}

FORESAY_INLINE V16 load_bf16_16(const uint16_t* p) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}

FORESAY_INLINE V16 load_s8_16(const int8_t* p) {
    return _mm512_cvtepi32_ps(load_s8(reinterpret_cast<const uint8_t*>(p)));
}

FORESAY_INLINE void store_f16_16(uint16_t* p, V16 a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/// 16 whole floats in int8 range to int8.
FORESAY_INLINE void store_s8_16(int8_t* p, V16 a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a)));
}

FORESAY_INLINE bool all_finite16(V16 a) {
    return _mm512_cmp_ps_mask(_mm512_abs_ps(a), _mm512_set1_ps(__builtin_inff()), _CMP_LT_OQ) == 0xffff;
}

/// Sum of 16 int8.
FORESAY_INLINE int32_t sum_s8_16(const int8_t* p) {
    const __m128i biased = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi8(-128));
    const __m128i halves = _mm_sad_epu8(biased, _mm_setzero_si128());
    return _mm_cvtsi128_si32(halves) + _mm_extract_epi32(halves, 2) - 16 * 128;
}

/// Halves onto halves: the tree of docs/numerics.md.
FORESAY_INLINE float tree16(V16 a) {
    const __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}

FORESAY_INLINE float fma1(float a, float b, float c) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}

FORESAY_INLINE float sqrt1(float a) {
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(a)));
}

FORESAY_INLINE float half_to_float(uint16_t h) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

FORESAY_INLINE uint16_t float_to_half(float f) {
    return static_cast<uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_NEAREST_INT)));
}

/// tree16 of 16 vectors at once: adding pairs of halves keeps each vector's own tree.
FORESAY_INLINE void tree_of_keys(const V16* v, float* out) {
    V16 a[8];
    FORESAY_UNROLL
    for (int i = 0; i < 8; ++i) {  // lanes 0-7 of both: v[2i] low, v[2i+1] high
        a[i] = add16(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x44),
                     _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xEE));
    }
    V16 b[4];
    FORESAY_UNROLL
    for (int i = 0; i < 4; ++i) {  // one 128-bit lane per vector: v[4i], v[4i+1], v[4i+2], v[4i+3]
        b[i] = add16(_mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0x88),
                     _mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0xDD));
    }
    V16 c[2];
    FORESAY_UNROLL
    for (int i = 0; i < 2; ++i) {  // in lane l: l0+l2, l1+l3 of v[8i+l], then of v[8i+4+l]
        c[i] = add16(_mm512_shuffle_ps(b[2 * i], b[2 * i + 1], 0x44), _mm512_shuffle_ps(b[2 * i], b[2 * i + 1], 0xEE));
    }
    // In lane l: sums of v[l], v[4+l], v[8+l], v[12+l].
    const V16 d = add16(_mm512_shuffle_ps(c[0], c[1], 0x88), _mm512_shuffle_ps(c[0], c[1], 0xDD));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    store16(out, _mm512_permutexvar_ps(order, d));
}

// Products use rows, which here are the same vectors.
FORESAY_INLINE VF zero_rows() {
    return zero16();
}

FORESAY_INLINE VF set_rows(const float* p) {
    return _mm512_set1_ps(*p);
}

FORESAY_INLINE VF load_rows(const float* p) {
    return _mm512_loadu_ps(p);
}

FORESAY_INLINE void store_rows(float* p, VF a) {
    _mm512_storeu_ps(p, a);
}

FORESAY_INLINE VF mul_rows(VF a, VF b) {
    return _mm512_mul_ps(a, b);
}

FORESAY_INLINE VF fma_rows(VF a, VF b, VF c) {
    return _mm512_fmadd_ps(a, b, c);
}

FORESAY_INLINE void prefetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}
