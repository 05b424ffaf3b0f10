// Vectors of the portable unit as plain arrays: the path of machines without AVX2, and a second opinion in tests.
// std::fma is exact by definition, in software where need be: slow and right. Included inside an anonymous namespace.

#define FORESAY_INLINE inline

constexpr int kRows = 16;
constexpr int kMaxCols = 4;
constexpr bool kManyRegisters = false;  // 32: a few queries and 8 keys at once
constexpr int kKeysAtOnce = 4;
constexpr int kHeadStep = 4;
constexpr bool kBiased8 = true;

struct VF {
    float v[16];
};

struct VI {
    int32_t v[16];
};

struct VB {
    uint8_t v[64];
};

template <typename V, typename F>
V each(F f) {
    V out;
    for (size_t i = 0; i < sizeof(out.v) / sizeof(out.v[0]); ++i) {
        out.v[i] = f(i);
    }
    return out;
}

uint8_t byte(int x) {
    return static_cast<uint8_t>(x);
}

VB load_bytes(const uint8_t* p) {
    return each<VB>([&](size_t i) { return p[i]; });
}

VB and_bytes(const VB& a, int mask) {
    return each<VB>([&](size_t i) { return byte(a.v[i] & mask); });
}

VB or_masked(const VB& a, const VB& b, int mask) {
    return each<VB>([&](size_t i) { return byte(a.v[i] | (b.v[i] & mask)); });
}

template <int kShift>
VB shift_left(const VB& a) {
    return each<VB>([&](size_t i) { return byte(kShift >= 0 ? a.v[i] << (kShift & 7) : a.v[i] >> (-kShift & 7)); });
}

VB lookup(const uint8_t* table16, const VB& index) {
    return each<VB>([&](size_t i) { return table16[index.v[i] & 15]; });
}

VI zero_int() {
    return VI{};
}

VI set1_int(const int32_t* p) {
    return each<VI>([&](size_t) { return *p; });
}

VF to_float(const VI& a) {
    return each<VF>([&](size_t i) { return static_cast<float>(a.v[i]); });
}

uint16_t half_at(const uint8_t* p, size_t i) {
    return static_cast<uint16_t>(p[2 * i] | p[2 * i + 1] << 8);
}

VF load_f16(const uint8_t* p) {
    return each<VF>([&](size_t i) { return f16_to_f32(half_at(p, i)); });
}

VI load_u8(const uint8_t* p) {
    return each<VI>([&](size_t i) { return int32_t{p[i]}; });
}

VI load_s8(const uint8_t* p) {
    return each<VI>([&](size_t i) { return int32_t{static_cast<int8_t>(p[i])}; });
}

VI and_int(const VI& a, int mask) {
    return each<VI>([&](size_t i) { return a.v[i] & mask; });
}

VI shift_right_int4(const VI& a) {
    return each<VI>([&](size_t i) { return a.v[i] >> 4; });
}

VF negate(const VF& a) {
    return each<VF>([&](size_t i) { return -a.v[i]; });
}

VF half_e8m0(const VI& e) {
    return each<VF>([&](size_t i) {
        const auto x = static_cast<uint32_t>(e.v[i]);
        return std::bit_cast<float>(x < 2 ? 0x00200000u << x : (x - 1) << 23);
    });
}

template <int kBits, int kN>
VI dot_groups(VI acc, const VB* w, const int8_t* q) {
    for (int g = 0; g < kN; ++g) {
        for (size_t r = 0; r < 16; ++r) {
            for (size_t j = 0; j < 4; ++j) {
                acc.v[r] += w[g].v[4 * r + j] * q[4 * g + static_cast<int>(j)];
            }
        }
    }
    return acc;
}

using V16 = VF;

V16 zero16() {
    return V16{};
}

V16 set16(float x) {
    return each<VF>([&](size_t) { return x; });
}

V16 load16(const float* p) {
    return each<VF>([&](size_t i) { return p[i]; });
}

void store16(float* p, const V16& a) {
    for (size_t i = 0; i < 16; ++i) {
        p[i] = a.v[i];
    }
}

V16 add16(const V16& a, const V16& b) {
    return each<VF>([&](size_t i) { return a.v[i] + b.v[i]; });
}

V16 sub16(const V16& a, const V16& b) {
    return each<VF>([&](size_t i) { return a.v[i] - b.v[i]; });
}

V16 mul16(const V16& a, const V16& b) {
    return each<VF>([&](size_t i) { return a.v[i] * b.v[i]; });
}

V16 div16(const V16& a, const V16& b) {
    return each<VF>([&](size_t i) { return a.v[i] / b.v[i]; });
}

V16 fma16(const V16& a, const V16& b, const V16& c) {
    return each<VF>([&](size_t i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}

V16 abs16(const V16& a) {
    return each<VF>([&](size_t i) { return std::fabs(a.v[i]); });
}

V16 neg16(const V16& a) {
    return negate(a);
}

V16 max16(const V16& a, const V16& b) {
    return each<VF>([&](size_t i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}

V16 min16(const V16& a, const V16& b) {
    return each<VF>([&](size_t i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}

V16 round16(const V16& a) {
    return each<VF>([&](size_t i) { return std::nearbyint(a.v[i]); });
}

V16 copysign16(const V16& a, const V16& s) {
    return each<VF>([&](size_t i) { return std::copysign(a.v[i], s.v[i]); });
}

V16 select_lt16(const V16& a, const V16& b, const V16& yes, const V16& no) {
    return each<VF>([&](size_t i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
}

V16 select_nan16(const V16& a, const V16& yes, const V16& no) {
    return each<VF>([&](size_t i) { return std::isnan(a.v[i]) ? yes.v[i] : no.v[i]; });
}

bool all_finite16(const V16& a) {
    for (const float x : a.v) {
        if (!std::isfinite(x)) {
            return false;
        }
    }
    return true;
}

float power_of_two(int n) {
    return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

V16 scale_by_power16(const V16& y, const V16& n) {
    return each<VF>([&](size_t i) {
        const auto e = static_cast<int>(n.v[i]);
        const int half = e >> 1;
        return (y.v[i] * power_of_two(half)) * power_of_two(e - half);
    });
}

float max_of16(const V16& a) {
    float m = a.v[0];
    for (const float x : a.v) {
        m = x > m ? x : m;
    }
    return m;
}

V16 load_f16_16(const uint16_t* p) {
    return each<VF>([&](size_t i) { return f16_to_f32(p[i]); });
}

V16 load_bf16_16(const uint16_t* p) {
    return each<VF>([&](size_t i) { return bf16_to_f32(p[i]); });
}

V16 load_s8_16(const int8_t* p) {
    return each<VF>([&](size_t i) { return static_cast<float>(p[i]); });
}

uint16_t float_to_half(float f) {
    return f32_to_f16(f);
}

float half_to_float(uint16_t h) {
    return f16_to_f32(h);
}

void store_f16_16(uint16_t* p, const V16& a) {
    for (size_t i = 0; i < 16; ++i) {
        p[i] = f32_to_f16(a.v[i]);
    }
}

void store_s8_16(int8_t* p, const V16& a) {
    for (size_t i = 0; i < 16; ++i) {
        p[i] = static_cast<int8_t>(a.v[i]);
    }
}

int32_t sum_s8_16(const int8_t* p) {
    int32_t sum = 0;
    for (size_t i = 0; i < 16; ++i) {
        sum += p[i];
    }
    return sum;
}

float tree16(V16 a) {
    for (size_t half = 8; half > 0; half /= 2) {
        for (size_t j = 0; j < half; ++j) {
            a.v[j] += a.v[j + half];
        }
    }
    return a.v[0];
}

void tree_of_keys(const V16* v, float* out) {
    for (int i = 0; i < kKeysAtOnce; ++i) {
        out[i] = tree16(v[i]);
    }
}

float fma1(float a, float b, float c) {
    return std::fma(a, b, c);
}

float sqrt1(float a) {
    return std::sqrt(a);
}

VF zero_rows() {
    return VF{};
}

VF set_rows(const float* p) {
    return set16(*p);
}

VF load_rows(const float* p) {
    return load16(p);
}

void store_rows(float* p, const VF& a) {
    store16(p, a);
}

VF mul_rows(const VF& a, const VF& b) {
    return mul16(a, b);
}

VF fma_rows(const VF& a, const VF& b, const VF& c) {
    return fma16(a, b, c);
}

void prefetch(const void*) {}
