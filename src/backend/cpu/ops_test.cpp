// Every op but products, and whole layers, against the reference bit for bit.
#include <gtest/gtest.h>

#include "backend/cpu/test_support.h"

namespace foresay::cpu {
namespace {

using graph::TensorId;

const std::vector<std::unique_ptr<CpuBackend>>& backends() {
    static const auto all = all_backends();
    return all;
}

const std::vector<std::unique_ptr<CpuBackend>>& unfused() {
    static const auto all = all_backends({1, 2}, false);
    return all;
}

/// Values that functions treat specially, then noise.
std::vector<float> special(size_t n, uint32_t seed) {
    std::vector<float> x = noise(n, seed, 4.0F);
    const float values[] = {0.0F,
                            -0.0F,
                            1e-40F,
                            -1e-40F,
                            1e-30F,
                            88.72F,
                            88.73F,
                            -88.0F,
                            -103.9F,
                            -104.0F,
                            -104.1F,
                            1e30F,
                            -1e30F,
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
    for (size_t i = 0; i < std::min(n / 2, std::size(values)); ++i) {
        x[2 * i] = values[i];
    }
    return x;
}

TEST(CpuOps, ElementWise) {
    for (const int64_t n : {1, 15, 16, 37, 5000}) {
        for (const int64_t rows : {1, 3}) {
            SCOPED_TRACE(::testing::Message() << n << " x " << rows);
            expect_as_reference(
                [&](Fixture& f) {
                    const auto count = static_cast<size_t>(n * rows);
                    const TensorId x = f.input_values({n, rows, 1, 1}, special(count, 1));
                    const TensorId y = f.input_values({n, rows, 1, 1}, special(count, 2));
                    const TensorId row = f.input({n, 1, 1, 1});
                    for (const TensorId id :
                         {f.b.add(x, y), f.b.add(x, row), f.b.mul(x, y), f.b.mul(x, row), f.b.scale(x, 0.37F),
                          f.b.swiglu(x, y), f.b.geglu(x, y), f.b.softcap(x, 30.0F), f.b.copy(x, DType::kF16),
                          f.b.copy(f.b.copy(x, DType::kF16), DType::kF32), f.b.copy(x, DType::kF32)}) {
                        f.output(id);
                    }
                },
                backends());
        }
    }
}

TEST(CpuOps, ExpOverItsWholeRange) {
    std::vector<float> x;
    for (float v = -110.0F; v < 95.0F; v += 0.0137F) {
        x.push_back(v);
    }
    expect_as_reference(
        [&](Fixture& f) {
            const auto n = static_cast<int64_t>(x.size());
            const TensorId g = f.input_values({n, 1, 1, 1}, x);
            f.output(f.b.swiglu(g, g));
            f.output(f.b.softcap(g, 50.0F));
        },
        backends());
}

TEST(CpuOps, RmsNorm) {
    for (const int64_t d : {1, 16, 17, 64, 576, 1000}) {
        for (const int64_t rows : {1, 2, 9}) {
            SCOPED_TRACE(::testing::Message() << d << " x " << rows);
            expect_as_reference(
                [&](Fixture& f) {
                    const TensorId x = f.input({d, rows, 1, 1}, 100.0F);
                    const TensorId w = f.input({d, 1, 1, 1});
                    f.output(f.b.rms_norm(x, w, 1e-6F));
                    f.output(f.b.rms_norm(x, graph::kNoTensor, 1e-6F));
                    f.output(f.b.rms_norm(
                        f.input_values({d, 1, 1, 1}, std::vector<float>(static_cast<size_t>(d), 0.0F)), w, 1e-5F));
                },
                backends());
        }
    }
}

TEST(CpuOps, Rope) {
    for (const auto pairing : {graph::RopePairing::kNorm, graph::RopePairing::kNeox}) {
        for (const int32_t n_rot : {2, 20, 64}) {
            for (const int32_t yarn : {0, 1}) {
                SCOPED_TRACE(::testing::Message() << static_cast<int>(pairing) << " " << n_rot << " " << yarn);
                expect_as_reference(
                    [&](Fixture& f) {
                        const graph::RopeParams p{.n_rot = n_rot,
                                                  .pairing = pairing,
                                                  .base = 1e6F,
                                                  .freq_scale = 0.25F,
                                                  .magnitude = 1.1F,
                                                  .yarn_lo = 1.5F,
                                                  .yarn_hi = 9.0F,
                                                  .yarn = yarn};
                        const TensorId pos = f.input_i32({0, 1, 77, 40000, 3});
                        const TensorId factors = f.input_values(
                            {n_rot / 2, 1, 1, 1}, std::vector<float>(static_cast<size_t>(n_rot / 2), 1.7F));
                        f.output(f.b.rope(f.input({64, 3, 5, 1}), pos, graph::kNoTensor, p));
                        f.output(f.b.rope(f.input({64, 2, 5, 1}), pos, factors, p));
                        f.output(f.b.rope(f.input({64, 1, 5, 1}), pos, factors, p));
                    },
                    backends());
            }
        }
    }
}

TEST(CpuOps, SetRowsInAllCacheTypes) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0}) {
        SCOPED_TRACE(dtype_name(dtype));
        expect_as_reference(
            [&](Fixture& f) {
                const TensorId cache = f.state(dtype, 96, 10);
                std::vector<float> x = noise(96 * 5, 8, 50.0F);
                std::transform(x.begin(), x.begin() + 96, x.begin(), [](float v) { return v * 1e-8F; });
                x[200] = 1e6F;
                f.output(f.b.set_rows(cache, f.input_values({96, 5, 1, 1}, x), f.input_i32({9, -1, 0, 3, 10})));
            },
            backends());
    }
}

struct AttentionCase {
    int64_t d, n_head, n_kv, n_cells;
    std::vector<int32_t> pos, base;
    int32_t window = 0;
    float softcap = 0.0F;
    bool sinks = false;
};

void build_attention(Fixture& f, const AttentionCase& c, DType dtype) {
    const auto n_tokens = static_cast<int64_t>(c.pos.size());
    const TensorId k = f.state(dtype, c.d * c.n_kv, c.n_cells);
    const TensorId v = f.state(dtype, c.d * c.n_kv, c.n_cells);
    std::vector<int32_t> rows(static_cast<size_t>(c.n_cells));
    for (size_t i = 0; i < rows.size(); ++i) {
        rows[i] = static_cast<int32_t>(i);
    }
    const TensorId all = f.input_i32(rows);
    const TensorId kc = f.b.set_rows(k, f.input({c.d * c.n_kv, c.n_cells, 1, 1}), all);
    const TensorId vc = f.b.set_rows(v, f.input({c.d * c.n_kv, c.n_cells, 1, 1}), all);
    const graph::AttentionParams p{
        .n_head_kv = static_cast<int32_t>(c.n_kv), .window = c.window, .scale = 0.25F, .softcap = c.softcap};
    f.output(f.b.attention(f.input({c.d, c.n_head, n_tokens, 1}, 2.0F), kc, vc, f.input_i32(c.pos), f.input_i32(c.base),
                           p, c.sinks ? f.input({c.n_head, 1, 1, 1}) : graph::kNoTensor));
}

TEST(CpuOps, Attention) {
    const AttentionCase cases[] = {
        {.d = 64, .n_head = 9, .n_kv = 3, .n_cells = 300, .pos = {0}, .base = {0}},
        {.d = 64, .n_head = 9, .n_kv = 3, .n_cells = 300, .pos = {290, 291, 292, 293, 294}, .base = {0, 0, 0, 0, 0}},
        {.d = 128,
         .n_head = 12,
         .n_kv = 2,
         .n_cells = 140,
         .pos = {127, 128, 129, 3, -1, 4},
         .base = {0, 0, 0, 7, 7, 9}},
        {.d = 96,
         .n_head = 4,
         .n_kv = 4,
         .n_cells = 200,
         .pos = {150, 151, 199, 500},
         .base = {0, 0, 0, 0},
         .window = 40},
        {.d = 256,
         .n_head = 8,
         .n_kv = 1,
         .n_cells = 200,
         .pos = {10, 70, 130},
         .base = {5, 5, 5},
         .window = 64,
         .softcap = 20.0F},
        {.d = 32, .n_head = 4, .n_kv = 2, .n_cells = 90, .pos = {3, 80}, .base = {0, 0}, .sinks = true},
    };
    for (const AttentionCase& c : cases) {
        for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0}) {
            SCOPED_TRACE(::testing::Message() << "d=" << c.d << " heads=" << c.n_head << " " << dtype_name(dtype));
            expect_as_reference([&](Fixture& f) { build_attention(f, c, dtype); }, backends());
        }
    }
}

TEST(CpuOps, AttentionOfOddHeadSizes) {
    for (const int64_t d : {1, 20, 80}) {
        const AttentionCase c{.d = d, .n_head = 4, .n_kv = 2, .n_cells = 90, .pos = {3, 80, 81}, .base = {0, 0, 0}};
        expect_as_reference([&](Fixture& f) { build_attention(f, c, DType::kF16); }, backends());
    }
}

TEST(CpuOps, AttentionOfAPromptChunk) {
    AttentionCase c{.d = 64, .n_head = 6, .n_kv = 2, .n_cells = 300, .pos = {}, .base = {}};
    for (int32_t i = 0; i < 90; ++i) {
        c.pos.push_back(100 + i);
        c.base.push_back(i < 50 ? 0 : 2);
    }
    expect_as_reference([&](Fixture& f) { build_attention(f, c, DType::kF16); }, backends());
}

/// A decoder layer in the shape of the fusions: norm + quantise, Q/K/V, rope + store, attention + quantise, output +
/// add, norm, gate + up + activation + quantise, down + add.
void build_layers(Fixture& f, int64_t n_tokens, DType dtype, DType down, bool gelu, int n_layers) {
    constexpr int64_t kEmbd = 256;
    constexpr int64_t kHead = 64;
    constexpr int64_t kHeads = 4;
    constexpr int64_t kKvHeads = 2;
    constexpr int64_t kFf = 512;
    std::vector<int32_t> positions;
    std::vector<int32_t> cells;
    for (int32_t i = 0; i < n_tokens; ++i) {
        positions.push_back(i);
        cells.push_back(i + 3);
    }
    const TensorId pos = f.input_i32(positions);
    const TensorId cell = f.input_i32(cells);
    const TensorId base = f.input_i32(std::vector<int32_t>(static_cast<size_t>(n_tokens), 3));
    TensorId x = f.b.get_rows(f.weight(DType::kQ6_K, kEmbd, 300, true, true),
                              f.input_i32(std::vector<int32_t>(static_cast<size_t>(n_tokens), 42)));
    for (int layer = 0; layer < n_layers; ++layer) {
        const TensorId a = f.b.rms_norm(x, f.input({kEmbd, 1, 1, 1}), 1e-5F);
        TensorId q = f.b.mul_mat(f.weight(dtype, kEmbd, kHead * kHeads), a, f.input({kHead * kHeads, 1, 1, 1}));
        TensorId k = f.b.mul_mat(f.weight(dtype, kEmbd, kHead * kKvHeads), a);
        const TensorId v = f.b.mul_mat(f.weight(DType::kQ6_K, kEmbd, kHead * kKvHeads), a);
        const graph::RopeParams rope{.n_rot = kHead, .pairing = graph::RopePairing::kNeox};
        q = f.b.rope(f.b.reshape(q, {kHead, kHeads, n_tokens, 1}), pos, graph::kNoTensor, rope);
        k = f.b.rope(f.b.reshape(k, {kHead, kKvHeads, n_tokens, 1}), pos, graph::kNoTensor, rope);
        const TensorId kc = f.b.set_rows(f.state(DType::kF16, kHead * kKvHeads, 100),
                                         f.b.reshape(k, {kHead * kKvHeads, n_tokens, 1, 1}), cell);
        const TensorId vc = f.b.set_rows(f.state(DType::kF16, kHead * kKvHeads, 100), v, cell);
        const TensorId o = f.b.attention(q, kc, vc, pos, base, {.n_head_kv = kKvHeads, .scale = 0.125F});
        x = f.b.add(f.b.mul_mat(f.weight(dtype, kHead * kHeads, kEmbd), o), x);
        const TensorId h = f.b.rms_norm(x, f.input({kEmbd, 1, 1, 1}), 1e-5F);
        const TensorId gate = f.b.mul_mat(f.weight(dtype, kEmbd, kFf), h);
        const TensorId up = f.b.mul_mat(f.weight(dtype, kEmbd, kFf), h);
        const TensorId act = gelu ? f.b.geglu(gate, up) : f.b.swiglu(gate, up);
        x = f.b.add(x, f.b.mul_mat(f.weight(down, kFf, kEmbd), act));
    }
    f.output(f.b.mul_mat(f.weight(DType::kQ8_0, kEmbd, 77), f.b.rms_norm(x, f.input({kEmbd, 1, 1, 1}), 1e-5F)));
}

TEST(CpuLayers, FusedAndUnfusedGiveTheReferencesBits) {
    for (const int64_t n_tokens : {1, 2, 5, 9, 40}) {
        for (const DType dtype : {DType::kQ4_K, DType::kQ4_1, DType::kF16}) {
            SCOPED_TRACE(::testing::Message() << n_tokens << " tokens, " << dtype_name(dtype));
            const auto build = [&](Fixture& f) { build_layers(f, n_tokens, dtype, DType::kQ6_K, n_tokens == 5, 2); };
            expect_as_reference(build, backends());
            expect_as_reference(build, unfused());
        }
    }
}

TEST(CpuLayers, ManyThreadsOnFewCpus) {
    std::vector<std::unique_ptr<CpuBackend>> crowd;
    crowd.push_back(std::move(*CpuBackend::create({.n_threads = 4 * ThreadPool::n_cpus()})));
    expect_as_reference([](Fixture& f) { build_layers(f, 3, DType::kQ4_0, DType::kQ5_K, false, 3); }, crowd);
}

TEST(CpuBackend, IsaNames) {
    EXPECT_EQ(*parse_isa("portable"), Isa::kPortable);
    EXPECT_EQ(*parse_isa("auto"), available_isas().back());
    EXPECT_EQ(parse_isa("sse9").error().code, Code::kInvalidArgument);
    for (const Isa isa : available_isas()) {
        EXPECT_EQ(*parse_isa(isa_name(isa)), isa);
    }
    EXPECT_EQ(CpuBackend::create({.n_threads = 1, .isa = "sse9"}).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace foresay::cpu
