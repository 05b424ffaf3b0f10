// Each op of the reference against hand-computed numbers or double-precision math. Random tests use fixed seeds.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backend/reference/naive_run.h"
#include "backend/reference/reference_backend.h"
#include "graph/builder.h"
#include "tensor/dequant.h"
#include "tensor/fp.h"
#include "tensor/quantize.h"

namespace foresay::reference {
namespace {

using graph::Builder;
using graph::Graph;
using graph::kNoTensor;
using graph::TensorId;

/// A builder, then a run: t.b to build, t.go() to compile, fill inputs, t.run->run().
struct OpTest : ::testing::Test {
    Builder b;
    Graph g;
    std::unique_ptr<ReferenceBackend> backend = ReferenceBackend::create();
    std::vector<std::unique_ptr<graph::Storage>> storages;
    std::unique_ptr<NaiveRun> run;
    std::mt19937 random{11};

    TensorId input(std::array<int64_t, 4> ne, DType dtype = DType::kF32) { return b.input("in", dtype, ne); }

    TensorId weight(DType dtype, std::array<int64_t, 4> ne, const std::vector<float>& values) {
        std::vector<std::byte> bytes(row_bytes(dtype, ne[0]) * static_cast<size_t>(ne[1]));
        for (int64_t r = 0; r < ne[1]; ++r) {
            EXPECT_TRUE(quantize_row(dtype, values.data() + r * ne[0],
                                     bytes.data() + static_cast<size_t>(r) * row_bytes(dtype, ne[0]), ne[0]));
        }
        auto storage = backend->load_weight({.name = "w", .dtype = dtype, .ne = ne, .bytes = bytes});
        EXPECT_TRUE(storage.has_value());
        storages.push_back(std::move(*storage));
        return b.weight("w", dtype, ne, storages.back().get());
    }

    TensorId state(DType dtype, std::array<int64_t, 4> ne) {
        storages.push_back(std::move(*backend->allocate_state(dtype, ne)));
        return b.persistent("cache", dtype, ne, storages.back().get());
    }

    void go() {
        auto graph = std::move(b).finish();
        ASSERT_TRUE(graph.has_value()) << graph.error().to_string();
        g = std::move(*graph);
        ASSERT_TRUE(g.validate().has_value());
        run = std::move(*NaiveRun::create(g, *backend));
    }

    void fill(TensorId id, std::initializer_list<float> values) {
        std::copy(values.begin(), values.end(), run->f32(id).begin());
    }

    void fill_i32(TensorId id, std::initializer_list<int32_t> values) {
        std::copy(values.begin(), values.end(), run->i32(id).begin());
    }

    std::vector<float> noise(size_t n) {
        std::normal_distribution<float> normal;
        std::vector<float> out(n);
        for (float& x : out) {
            x = normal(random);
        }
        return out;
    }

    void fill_noise(TensorId id) {
        const auto values = noise(run->f32(id).size());
        std::copy(values.begin(), values.end(), run->f32(id).begin());
    }

    std::vector<float> result(TensorId id) {
        run->run();
        const auto out = run->f32(id);
        return {out.begin(), out.end()};
    }
};

TEST_F(OpTest, AddMulScaleBroadcastARow) {
    const TensorId x = input({3, 2, 1, 1});
    const TensorId y = input({3, 1, 1, 1});
    const TensorId out = b.scale(b.mul(b.add(x, y), y), 0.5F);
    go();
    fill(x, {1, 2, 3, 4, 5, 6});
    fill(y, {10, 20, 30});
    EXPECT_EQ(result(out), (std::vector<float>{55, 220, 495, 70, 250, 540}));
}

TEST_F(OpTest, GetRowsGivesZerosOutside) {
    const TensorId table = weight(DType::kF16, {2, 3, 1, 1}, {1, 2, 3, 4, 5, 6});
    const TensorId ids = input({5, 1, 1, 1}, DType::kI32);
    const TensorId out = b.get_rows(table, ids);
    go();
    fill_i32(ids, {2, 0, -1, 3, INT32_MAX});
    EXPECT_EQ(result(out), (std::vector<float>{5, 6, 1, 2, 0, 0, 0, 0, 0, 0}));
}

TEST_F(OpTest, RmsNormByHand) {
    const TensorId x = input({4, 1, 1, 1});
    const TensorId w = input({4, 1, 1, 1});
    const TensorId plain = b.rms_norm(x, kNoTensor, 0.0F);
    const TensorId weighted = b.rms_norm(x, w, 0.0F);
    go();
    fill(x, {3, -3, 3, -3});
    fill(w, {1, 2, 3, 4});
    EXPECT_EQ(result(plain), (std::vector<float>{1, -1, 1, -1}));
    EXPECT_EQ(result(weighted), (std::vector<float>{1, -2, 3, -4}));
}

TEST_F(OpTest, SetRowsConvertsAndSkips) {
    const TensorId f16 = state(DType::kF16, {32, 3, 1, 1});
    const TensorId q8 = state(DType::kQ8_0, {32, 3, 1, 1});
    const TensorId x = input({32, 3, 1, 1});
    const TensorId rows = input({3, 1, 1, 1}, DType::kI32);
    const TensorId a = b.set_rows(f16, x, rows);
    const TensorId c = b.set_rows(q8, x, rows);
    go();
    fill_noise(x);
    fill_i32(rows, {2, -1, 3});  // the second is skipped, the third lies outside
    run->run();
    float back[32];
    for (const auto& [id, tolerance] : {std::pair{a, 2e-3F}, std::pair{c, 3e-2F}}) {
        const DType dtype = g.tensor(id).dtype;
        dequantize_row(dtype, run->bytes(id).data() + 2 * row_bytes(dtype, 32), back, 32);
        for (size_t i = 0; i < 32; ++i) {
            EXPECT_NEAR(back[i], run->f32(x)[i], tolerance);
        }
        dequantize_row(dtype, run->bytes(id).data(), back, 32);
        EXPECT_EQ(back[0], 0.0F);
    }
}

TEST_F(OpTest, CopyRoundsToHalfAndBack) {
    const TensorId x = input({3, 1, 1, 1});
    const TensorId half = b.copy(x, DType::kF16);
    const TensorId back = b.copy(half, DType::kF32);
    go();
    fill(x, {1.0F, 1.0F / 3.0F, 70000.0F});
    const auto out = result(back);
    EXPECT_EQ(out[0], 1.0F);
    EXPECT_EQ(out[1], f16_to_f32(f32_to_f16(1.0F / 3.0F)));
    EXPECT_EQ(out[2], INFINITY);
}

TEST_F(OpTest, RopeTurnsPairsOfBothKinds) {
    graph::RopeParams norm{.n_rot = 2};
    graph::RopeParams neox{
        .n_rot = 4, .pairing = graph::RopePairing::kNeox, .base = 100.0F, .freq_scale = 0.5F, .magnitude = 2.0F};
    const TensorId x = input({4, 1, 1, 1});
    const TensorId pos = input({1, 1, 1, 1}, DType::kI32);
    const TensorId factors = input({2, 1, 1, 1});
    const TensorId a = b.rope(x, pos, kNoTensor, norm);
    const TensorId c = b.rope(x, pos, factors, neox);
    go();
    fill(x, {1, 2, 3, 4});
    fill(factors, {1, 2});
    fill_i32(pos, {3});
    const auto out_norm = result(a);
    EXPECT_NEAR(out_norm[0], std::cos(3.0) - 2 * std::sin(3.0), 1e-6);
    EXPECT_NEAR(out_norm[1], std::sin(3.0) + 2 * std::cos(3.0), 1e-6);
    EXPECT_EQ(out_norm[2], 3.0F);
    EXPECT_EQ(out_norm[3], 4.0F);
    const auto out_neox = result(c);
    const double phi0 = 1.5;
    const double phi1 = 3.0 * 0.1 / 2.0 * 0.5;
    EXPECT_NEAR(out_neox[0], 2 * (1 * std::cos(phi0) - 3 * std::sin(phi0)), 1e-5);
    EXPECT_NEAR(out_neox[2], 2 * (1 * std::sin(phi0) + 3 * std::cos(phi0)), 1e-5);
    EXPECT_NEAR(out_neox[1], 2 * (2 * std::cos(phi1) - 4 * std::sin(phi1)), 1e-5);
    EXPECT_NEAR(out_neox[3], 2 * (2 * std::sin(phi1) + 4 * std::cos(phi1)), 1e-5);
}

TEST_F(OpTest, RopeYarnMixesAngles) {
    graph::RopeParams p{.n_rot = 4, .base = 100.0F, .freq_scale = 0.25F, .yarn_lo = 0.0F, .yarn_hi = 1.0F, .yarn = 1};
    const TensorId x = input({4, 1, 1, 1});
    const TensorId pos = input({1, 1, 1, 1}, DType::kI32);
    const TensorId out = b.rope(x, pos, kNoTensor, p);
    go();
    fill(x, {1, 0, 1, 0});
    fill_i32(pos, {2});
    const auto y = result(out);  // pair 0: rho 1, kept; pair 1: rho 0, interpolated
    EXPECT_NEAR(y[0], std::cos(2.0), 1e-6);
    EXPECT_NEAR(y[2], std::cos(2.0 * 0.1 * 0.25), 1e-6);
}

struct MulMatTypes : OpTest, ::testing::WithParamInterface<DType> {};

TEST_P(MulMatTypes, AgreesWithDoubleMathAndIsRowWise) {
    const int64_t k = 512;
    const int64_t n = 5;
    const int64_t n_tokens = 3;
    const TensorId w = weight(GetParam(), {k, n, 1, 1}, noise(static_cast<size_t>(k * n)));
    const TensorId x = input({k, n_tokens, 1, 1});
    const TensorId bias = input({n, 1, 1, 1});
    const TensorId y = b.mul_mat(w, x, bias);
    const TensorId last = b.mul_mat(w, b.view_rows(x, 2, 1));
    go();
    fill_noise(x);
    fill_noise(bias);
    const auto out = result(y);
    std::vector<float> row(static_cast<size_t>(k));
    for (int64_t i = 0; i < n; ++i) {
        dequantize_row(GetParam(), storages[0]->data + static_cast<size_t>(i) * row_bytes(GetParam(), k), row.data(),
                       k);
        for (int64_t t = 0; t < n_tokens; ++t) {
            double sum = 0.0;
            double weight_square = 0.0;
            for (int64_t j = 0; j < k; ++j) {
                sum += double{row[static_cast<size_t>(j)]} * run->f32(x)[static_cast<size_t>(t * k + j)];
                weight_square += double{row[static_cast<size_t>(j)]} * row[static_cast<size_t>(j)];
            }
            // One int8 step is amax / 127 (about 0.02 here), its error uniform: 0.02 / sqrt(12) per element, five
            // sigma.
            const double tolerance = dtype_info(GetParam()).quantized ? 5 * 0.006 * std::sqrt(weight_square) : 1e-3;
            const float bias_value = run->f32(bias)[static_cast<size_t>(i)];
            EXPECT_NEAR(out[static_cast<size_t>(t * n + i)] - bias_value, sum, tolerance) << dtype_name(GetParam());
        }
        EXPECT_EQ(run->f32(last)[static_cast<size_t>(i)] + run->f32(bias)[static_cast<size_t>(i)],
                  out[static_cast<size_t>(2 * n + i)]);
    }
}

INSTANTIATE_TEST_SUITE_P(All, MulMatTypes,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1,
                                           DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2_K, DType::kQ3_K,
                                           DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS,
                                           DType::kMXFP4),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST_F(OpTest, MulMatOneScaleByHand) {
    std::vector<float> ones(32, 127.0F);  // Q8_0: d = 1, q = 127
    const TensorId w = weight(DType::kQ8_0, {32, 1, 1, 1}, ones);
    const TensorId x = input({32, 1, 1, 1});
    const TensorId y = b.mul_mat(w, x);
    go();
    fill(x, {127.0F, 1.0F, -3.0F});  // integers up to 127 lose nothing at amax / 127: that scale is kept, as 1
    EXPECT_EQ(result(y), (std::vector<float>{127.0F * (127 + 1 - 3)}));
}

// --- attention --------------------------------------------------------------------------------------------------

struct AttentionCase {
    DType cache;
    int32_t window;
    float softcap;
    bool sinks;
};

struct Attention : OpTest, ::testing::WithParamInterface<AttentionCase> {};

TEST_P(Attention, AgreesWithANaiveSoftmaxInDouble) {
    constexpr int64_t kD = 32, kDv = 64, kHeads = 4, kGroups = 2, kCells = 300;
    const std::vector<int32_t> positions{0, 5, 63, 64, 130, -1};
    const int64_t n_tokens = static_cast<int64_t>(positions.size());
    graph::AttentionParams p{
        .n_head_kv = kGroups, .window = GetParam().window, .scale = 0.3F, .softcap = GetParam().softcap};
    const TensorId q = input({kD, kHeads, n_tokens, 1});
    const TensorId k_rows = input({kD * kGroups, kCells, 1, 1});
    const TensorId v_rows = input({kDv * kGroups, kCells, 1, 1});
    const TensorId cells = input({kCells, 1, 1, 1}, DType::kI32);
    const TensorId pos = input({n_tokens, 1, 1, 1}, DType::kI32);
    const TensorId base = input({n_tokens, 1, 1, 1}, DType::kI32);
    const TensorId sinks = GetParam().sinks ? input({kHeads, 1, 1, 1}) : kNoTensor;
    const TensorId k = b.set_rows(state(GetParam().cache, {kD * kGroups, kCells, 1, 1}), k_rows, cells);
    const TensorId v = b.set_rows(state(GetParam().cache, {kDv * kGroups, kCells, 1, 1}), v_rows, cells);
    const TensorId out = b.attention(q, k, v, pos, base, p, sinks);
    go();
    for (const TensorId id : {q, k_rows, v_rows}) {
        fill_noise(id);
    }
    if (sinks != kNoTensor) {
        fill_noise(sinks);
    }
    for (int32_t i = 0; i < kCells; ++i) {
        run->i32(cells)[static_cast<size_t>(i)] = i;
    }
    for (size_t t = 0; t < positions.size(); ++t) {
        run->i32(pos)[t] = positions[t];
        run->i32(base)[t] = t % 2 == 0 ? 0 : 150;
    }
    const auto y = result(out);
    std::vector<float> kk(kD * kGroups);
    std::vector<float> vv(kDv * kGroups);
    for (size_t t = 0; t < positions.size(); ++t) {
        for (int64_t h = 0; h < kHeads; ++h) {
            const int64_t g_head = h / (kHeads / kGroups);
            std::vector<double> o(kDv, 0.0);
            double sum = 0.0;
            const int32_t first = p.window > 0 ? std::max(0, positions[t] - p.window + 1) : 0;
            for (int32_t j = first; j <= positions[t]; ++j) {
                const auto cell = static_cast<size_t>(j + run->i32(base)[t]);
                dequantize_row(GetParam().cache,
                               run->bytes(k).data() + cell * row_bytes(GetParam().cache, kD * kGroups), kk.data(),
                               kD * kGroups);
                dequantize_row(GetParam().cache,
                               run->bytes(v).data() + cell * row_bytes(GetParam().cache, kDv * kGroups), vv.data(),
                               kDv * kGroups);
                double s = 0.0;
                for (int64_t i = 0; i < kD; ++i) {
                    s += double{run->f32(q)[(t * kHeads + static_cast<size_t>(h)) * kD + static_cast<size_t>(i)]} *
                         kk[static_cast<size_t>(g_head * kD + i)];
                }
                s *= p.scale;
                s = p.softcap > 0 ? p.softcap * std::tanh(s / p.softcap) : s;
                sum += std::exp(s);
                for (int64_t i = 0; i < kDv; ++i) {
                    o[static_cast<size_t>(i)] += std::exp(s) * vv[static_cast<size_t>(g_head * kDv + i)];
                }
            }
            if (sinks != kNoTensor && positions[t] >= 0) {
                sum += std::exp(double{run->f32(sinks)[static_cast<size_t>(h)]});
            }
            for (int64_t i = 0; i < kDv; ++i) {
                const double expected = sum == 0.0 ? 0.0 : o[static_cast<size_t>(i)] / sum;
                ASSERT_NEAR(y[(t * kHeads + static_cast<size_t>(h)) * kDv + static_cast<size_t>(i)], expected, 1e-5)
                    << "t " << t << " h " << h;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Attention,
    ::testing::Values(AttentionCase{DType::kF32, 0, 0, false}, AttentionCase{DType::kF16, 0, 0, false},
                      AttentionCase{DType::kQ8_0, 0, 0, false}, AttentionCase{DType::kF16, 7, 0, false},
                      AttentionCase{DType::kF16, 100, 2.0F, false}, AttentionCase{DType::kF16, 0, 0, true},
                      AttentionCase{DType::kQ8_0, 65, 1.0F, true}));

TEST_F(OpTest, AttentionOutsideOfTheCacheReadsNothing) {
    const TensorId q = input({32, 1, 4, 1});
    const TensorId kv = state(DType::kF32, {32, 10, 1, 1});
    const TensorId pos = input({4, 1, 1, 1}, DType::kI32);
    const TensorId base = input({4, 1, 1, 1}, DType::kI32);
    const TensorId out = b.attention(q, kv, kv, pos, base, {});
    go();
    fill_noise(q);
    fill_i32(pos, {INT32_MAX, INT32_MIN, 5, 100});
    fill_i32(base, {INT32_MIN, 0, INT32_MAX, 5});
    for (const float y : result(out)) {
        EXPECT_EQ(y, 0.0F);
    }
}

}  // namespace
}  // namespace foresay::reference
