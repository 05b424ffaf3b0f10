// exp, tanh, lanes, q8a and block decoding against libm in double and against dequantize_row.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "backend/reference/lanes.h"
#include "backend/reference/q8a.h"
#include "backend/reference/scalar_math.h"
#include "backend/reference/weight_blocks.h"
#include "tensor/dequant.h"

namespace foresay::reference {
namespace {

TEST(ScalarMath, ExpIsCloseToLibm) {
    double worst = 0.0;
    for (float x = -87.0F; x < 88.7F; x += 0.0013F) {
        const double expected = std::exp(double{x});
        worst = std::max(worst, std::fabs(exp_f32(x) - expected) / expected);
    }
    EXPECT_LT(worst, 2e-7);
}

TEST(ScalarMath, ExpAtTheEnds) {
    EXPECT_EQ(exp_f32(0.0F), 1.0F);
    EXPECT_EQ(exp_f32(-0.0F), 1.0F);
    EXPECT_EQ(exp_f32(-104.1F), 0.0F);
    EXPECT_EQ(exp_f32(-INFINITY), 0.0F);
    EXPECT_EQ(exp_f32(88.73F), INFINITY);
    EXPECT_EQ(exp_f32(INFINITY), INFINITY);
    EXPECT_TRUE(std::isnan(exp_f32(NAN)));
    EXPECT_NEAR(exp_f32(88.72F) / std::exp(double{88.72F}), 1.0, 2e-7);
    EXPECT_TRUE(std::isfinite(exp_f32(88.72F)));
    EXPECT_GT(exp_f32(-103.0F), 0.0F);  // subnormal results aren't flushed
    EXPECT_NEAR(exp_f32(-100.0F), std::exp(-100.0), 1.5e-45);
}

TEST(ScalarMath, TanhAndActivationsAreCloseToLibm) {
    for (float x = -12.0F; x < 12.0F; x += 0.0007F) {
        EXPECT_NEAR(tanh_f32(x), std::tanh(double{x}), 3e-7);
        EXPECT_NEAR(silu_f32(x), x / (1.0 + std::exp(-double{x})), 2e-6);
        const double inner = 0.7978845608 * (x + 0.044715 * x * x * x);
        EXPECT_NEAR(gelu_tanh_f32(x), 0.5 * x * (1.0 + std::tanh(inner)), 4e-6);
    }
    EXPECT_EQ(tanh_f32(100.0F), 1.0F);
    EXPECT_EQ(tanh_f32(-100.0F), -1.0F);
    EXPECT_EQ(silu_f32(-200.0F), -0.0F);
    EXPECT_NEAR(softcap_f32(1000.0F, 30.0F), 30.0F, 1e-5);
}

TEST(Lanes, TreeAddsInTheFixedOrder) {
    Lanes lanes{};
    std::iota(lanes.begin(), lanes.end(), 1.0F);
    EXPECT_EQ(tree_sum(lanes), 136.0F);
    // 1e8 + 1 is lost, 1e8 - 1e8 first isn't: lanes 0 and 8 meet first.
    Lanes order{};
    order[0] = 1e8F;
    order[8] = -1e8F;
    order[4] = 1.0F;
    EXPECT_EQ(tree_sum(order), 1.0F);
    order[8] = 0.0F;
    order[4] = -1e8F;
    order[12] = 1.0F;  // lost: meets -1e8 first
    EXPECT_EQ(tree_sum(order), 0.0F);
}

TEST(Q8a, ExactIntegersStayAndHalvesAreSummed) {
    float x[32] = {};
    x[0] = 127.0F;  // integers below 128 at share 127 are exact: no other share can win
    x[1] = 2.0F;
    x[2] = 4.0F;
    x[18] = -3.0F;
    Q8aBlock block;
    quantize_q8a(x, &block, 32);
    EXPECT_EQ(block.d, 1.0F);
    EXPECT_EQ(block.q[1], 2);
    EXPECT_EQ(block.q[2], 4);
    EXPECT_EQ(block.q[17], 0);
    EXPECT_EQ(block.q[18], -3);
    EXPECT_EQ(block.psum[0], 133);
    EXPECT_EQ(block.psum[1], -3);
}

TEST(Q8a, ChoosesTheScaleThatLosesLeast) {
    uint32_t state = 1;
    double chosen = 0.0;
    double plain = 0.0;
    for (int round = 0; round < 500; ++round) {
        float x[32];
        float amax = 0.0F;
        for (float& value : x) {
            state = state * 1664525U + 1013904223U;
            value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31F;
            amax = std::max(amax, std::fabs(value));
        }
        Q8aBlock block;
        quantize_q8a(x, &block, 32);
        for (int i = 0; i < 32; ++i) {
            const double by_amax = std::nearbyint(x[i] * (127.0F / amax)) * (amax / 127.0);
            chosen += std::pow(x[i] - static_cast<double>(block.d) * block.q[i], 2.0);
            plain += std::pow(x[i] - by_amax, 2.0);
        }
    }
    EXPECT_LT(chosen, 0.95 * plain);
}

TEST(Q8a, ZerosTinyAndNonFiniteBlocks) {
    float x[32] = {};
    Q8aBlock block;
    quantize_q8a(x, &block, 32);
    EXPECT_EQ(block.d, 0.0F);
    EXPECT_EQ(block.q[5], 0);
    x[3] = 1e-44F;  // the inverse overflows: still an int8
    quantize_q8a(x, &block, 32);
    EXPECT_EQ(block.q[3], 127);
    EXPECT_EQ(block.q[4], 0);
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
        x[7] = bad;
        quantize_q8a(x, &block, 32);
        EXPECT_TRUE(std::isnan(block.d));
        EXPECT_EQ(block.q[3], 0);
        EXPECT_EQ(block.psum[0], 0);
    }
}

class BlockTypes : public ::testing::TestWithParam<DType> {};

/// Random bytes with sane scales: v * w + m must be the decoder's value up to one rounding (exactly where there's no
/// min).
TEST_P(BlockTypes, DecodeAgreesWithDequantizeRow) {
    const DTypeInfo& info = dtype_info(GetParam());
    const int64_t n = 512;
    std::mt19937 random(7);
    std::vector<std::byte> row(row_bytes(GetParam(), n));
    std::vector<float> expected(static_cast<size_t>(n));
    for (int round = 0; round < 50; ++round) {
        for (auto& b : row) {
            b = static_cast<std::byte>(random() & 0x3f);  // halves below 2: exponents stay small
        }
        dequantize_row(GetParam(), row.data(), expected.data(), n);
        for (int64_t s = 0; s < n / 32; ++s) {
            const Block32 block = decode_block32(GetParam(), row.data(), s);
            for (int64_t e = 0; e < 32; ++e) {
                const double w = e < 16 ? block.w0 : block.w1;
                const double m = e < 16 ? block.m0 : block.m1;
                const double value = block.v[e] * w + m;
                const double tolerance = 1e-6 * (std::fabs(block.v[e] * w) + std::fabs(m)) + 1e-45;
                ASSERT_NEAR(value, expected[static_cast<size_t>(s * 32 + e)], tolerance)
                    << info.name << " " << s << " " << e;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, BlockTypes,
                         ::testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                           DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                                           DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

}  // namespace
}  // namespace foresay::reference
