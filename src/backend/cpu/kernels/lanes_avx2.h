// Vectors of the AVX2 units (with FORESAY_AVXVNNI: plus AVX-VNNI): 8 rows per pass, 16 virtual lanes in two registers.
// Included once per unit, inside an anonymous namespace. Requires <immintrin.h> before it.

#define FORESAY_INLINE __attribute__((always_inline)) inline

constexpr int kRows = 8;
constexpr int kMaxCols = 4;             // 4 sums + codes + factors: more spills (16 registers)
constexpr bool kManyRegisters = false;  // 32: a few queries and 8 keys at once
constexpr int kKeysAtOnce = 4;
constexpr int kHeadStep = 4;

using VF = __m256;
using VI = __m256i;
using VB = __m256i;

FORESAY_INLINE VB load_bytes(const uint8_t* p) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
}

FORESAY_INLINE VB and_bytes(VB a, int mask) {
    return _mm256_and_si256(a, _mm256_set1_epi8(static_cast<char>(mask)));
}

FORESAY_INLINE VB or_masked(VB a, VB b, int mask) {
    return _mm256_or_si256(a, and_bytes(b, mask));
}

template <int kShift>
FORESAY_INLINE VB shift_left(VB a) {
    if constexpr (kShift == 0) {
        return a;
    } else if constexpr (kShift > 0) {
        return _mm256_slli_epi16(a, kShift);
    } else {
        return _mm256_srli_epi16(a, -kShift);
    }
}

FORESAY_INLINE VB lookup(const uint8_t* table16, VB index) {
    const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table16));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index);
}

FORESAY_INLINE VI zero_int() {
    return _mm256_setzero_si256();
}

FORESAY_INLINE VI set1_int(const int32_t* p) {
    return _mm256_set1_epi32(*p);
}

FORESAY_INLINE VF to_float(VI a) {
    return _mm256_cvtepi32_ps(a);
}

FORESAY_INLINE VF load_f16(const uint8_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

FORESAY_INLINE VI load_u8(const uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}

FORESAY_INLINE VI load_s8(const uint8_t* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}

FORESAY_INLINE VI and_int(VI a, int mask) {
    return _mm256_and_si256(a, _mm256_set1_epi32(mask));
}

FORESAY_INLINE VI shift_right_int4(VI a) {
    return _mm256_srli_epi32(a, 4);
}

FORESAY_INLINE VF negate(VF a) {
    return _mm256_xor_ps(a, _mm256_set1_ps(-0.0F));
}

/// Half of the E8M0 scale: 2^(e - 128); subnormal below 2.
FORESAY_INLINE VF half_e8m0(VI e) {
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i is_tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, is_tiny));
}

FORESAY_INLINE VI four_of(const int8_t* q) {
    return _mm256_set1_epi32(*reinterpret_cast<const int32_t*>(q));
}

#ifdef FORESAY_AVXVNNI
constexpr bool kBiased8 = true;

template <int kBits, int kN>
FORESAY_INLINE VI dot_groups(VI acc, const VB* w, const int8_t* q) {
    FORESAY_UNROLL
    for (int g = 0; g < kN; ++g) {
        acc = _mm256_dpbusd_avx_epi32(acc, w[g], four_of(q + 4 * g));
    }
    return acc;
}
#else
// 255 * 127 * 2 doesn't fit the 16 bits of the pair product: 8-bit codes go by sign and absolute value instead.
constexpr bool kBiased8 = false;

template <int kBits, int kN>
FORESAY_INLINE VI dot_groups(VI acc, const VB* w, const int8_t* q) {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (kBits == 8) {
        FORESAY_UNROLL
        for (int g = 0; g < kN; ++g) {
            const VB v = _mm256_xor_si256(w[g], _mm256_set1_epi8(static_cast<char>(0x80)));
            const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(v), _mm256_sign_epi8(four_of(q + 4 * g), v));
            acc = _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, ones));
        }
    } else {
        // Pair products that 16 bits hold: (2^kBits - 1) * 127 * 2 * n < 32768.
        constexpr int kPairs = kBits <= 4 ? 8 : kBits == 5 ? 4 : 2;
        constexpr int kRun = kPairs < kN ? kPairs : kN;
        FORESAY_UNROLL
        for (int g = 0; g < kN; g += kRun) {
            __m256i pairs = _mm256_maddubs_epi16(w[g], four_of(q + 4 * g));
            FORESAY_UNROLL
            for (int i = 1; i < kRun; ++i) {
                pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[g + i], four_of(q + 4 * (g + i))));
            }
            acc = _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, ones));
        }
    }
    return acc;
}
#endif

FORESAY_INLINE VF zero_rows() {
    return _mm256_setzero_ps();
}

FORESAY_INLINE VF set_rows(const float* p) {
    return _mm256_broadcast_ss(p);
}

FORESAY_INLINE VF load_rows(const float* p) {
    return _mm256_loadu_ps(p);
}

FORESAY_INLINE void store_rows(float* p, VF a) {
    _mm256_storeu_ps(p, a);
}

FORESAY_INLINE VF mul_rows(VF a, VF b) {
    return _mm256_mul_ps(a, b);
}

FORESAY_INLINE VF fma_rows(VF a, VF b, VF c) {
    return _mm256_fmadd_ps(a, b, c);
}

FORESAY_INLINE void prefetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

// --- 16 virtual lanes -----------------------------------------------------------------------------------------------
struct V16 {
    __m256 a, b;
};

FORESAY_INLINE V16 zero16() {
    return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}

FORESAY_INLINE V16 set16(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

FORESAY_INLINE V16 load16(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

FORESAY_INLINE void store16(float* p, V16 v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}

FORESAY_INLINE V16 add16(V16 x, V16 y) {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}

FORESAY_INLINE V16 sub16(V16 x, V16 y) {
    return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}

FORESAY_INLINE V16 mul16(V16 x, V16 y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}

FORESAY_INLINE V16 div16(V16 x, V16 y) {
    return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}

FORESAY_INLINE V16 fma16(V16 x, V16 y, V16 z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

FORESAY_INLINE V16 max16(V16 x, V16 y) {
    return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}

FORESAY_INLINE V16 min16(V16 x, V16 y) {
    return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}

FORESAY_INLINE V16 neg16(V16 x) {
    return {negate(x.a), negate(x.b)};
}

FORESAY_INLINE V16 abs16(V16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}

FORESAY_INLINE V16 round16(V16 x) {
    return {_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
            _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

/// Sign bit of s on |x|.
FORESAY_INLINE V16 copysign16(V16 x, V16 s) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_or_ps(_mm256_andnot_ps(sign, x.a), _mm256_and_ps(sign, s.a)),
            _mm256_or_ps(_mm256_andnot_ps(sign, x.b), _mm256_and_ps(sign, s.b))};
}

FORESAY_INLINE V16 select_lt16(V16 x, V16 y, V16 yes, V16 no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}

FORESAY_INLINE V16 select_nan16(V16 x, V16 yes, V16 no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q))};
}

FORESAY_INLINE bool all_finite16(V16 x) {
    const V16 m = abs16(x);
    const __m256 inf = _mm256_set1_ps(__builtin_inff());
    return (_mm256_movemask_ps(_mm256_cmp_ps(m.a, inf, _CMP_LT_OQ)) &
            _mm256_movemask_ps(_mm256_cmp_ps(m.b, inf, _CMP_LT_OQ))) == 0xff;
}

FORESAY_INLINE __m256 scale_by_power8(__m256 y, __m256 n) {
    const __m256i e = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(e, 1);
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(e, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(y, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}

/// y * 2^n for integral n in -150..128, in two steps.
FORESAY_INLINE V16 scale_by_power16(V16 y, V16 n) {
    return {scale_by_power8(y.a, n.a), scale_by_power8(y.b, n.b)};
}

FORESAY_INLINE float max_of16(V16 x) {
    const __m256 m = _mm256_max_ps(x.a, x.b);
    const __m128 n = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    const __m128 o = _mm_max_ps(n, _mm_movehl_ps(n, n));
    return _mm_cvtss_f32(_mm_max_ss(o, _mm_movehdup_ps(o)));
}

FORESAY_INLINE V16 load_f16_16(const uint16_t* p) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(p);
    return {load_f16(bytes), load_f16(bytes + 16)};
}

FORESAY_INLINE __m256 load_bf16_8(const uint16_t* p) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}

FORESAY_INLINE V16 load_bf16_16(const uint16_t* p) {
    return {load_bf16_8(p), load_bf16_8(p + 8)};
}

FORESAY_INLINE V16 load_s8_16(const int8_t* p) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(p);
    return {to_float(load_s8(bytes)), to_float(load_s8(bytes + 8))};
}

FORESAY_INLINE void store_f16_16(uint16_t* p, V16 x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}

/// 16 whole floats in int8 range to int8.
FORESAY_INLINE void store_s8_16(int8_t* p, V16 x) {
    const __m256i words =
        _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));  // 0-3, 8-11 | 4-7, 12-15
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xD8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}

/// Sum of 16 int8.
FORESAY_INLINE int32_t sum_s8_16(const int8_t* p) {
    const __m128i biased =
        _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi8(static_cast<char>(0x80)));
    const __m128i sums = _mm_sad_epu8(biased, _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
}

FORESAY_INLINE float tree8(__m256 x) {
    const __m128 c = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}

/// Halves onto halves: the tree of docs/numerics.md.
FORESAY_INLINE float tree16(V16 x) {
    return tree8(_mm256_add_ps(x.a, x.b));
}

FORESAY_INLINE void tree_of_keys(const V16* v, float* out) {
    FORESAY_UNROLL
    for (int i = 0; i < kKeysAtOnce; ++i) {
        out[i] = tree16(v[i]);
    }
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
