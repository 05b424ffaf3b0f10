// Experts, gates and recurrent layers against the reference, bit for bit.
#include <gtest/gtest.h>

#include "backend/cpu/test_support.h"

namespace foresay::cpu {
namespace {

using graph::TensorId;

const std::vector<std::unique_ptr<CpuBackend>>& backends() {
    static const auto all = all_backends({1, 3});
    return all;
}

TensorId expert_weight(Fixture& f, DType dtype, int64_t k, int64_t n, int64_t n_expert) {
    auto storage = f.backend->load_weight({.name = "experts",
                                           .dtype = dtype,
                                           .ne = {k, n, n_expert, 1},
                                           .bytes = random_matrix(dtype, k, n * n_expert, f.seed++)});
    EXPECT_TRUE(storage.has_value());
    f.storages.push_back(std::move(*storage));
    return f.b.weight("experts", dtype, {k, n, n_expert, 1}, f.storages.back().get());
}

TEST(CpuExperts, ProductsOfEveryTypeByExpert) {
    const auto single = all_backends({1});
    for (const DType dtype : kWeightTypes) {
        const int64_t k = 2 * std::max<int64_t>(32, dtype_info(dtype).block);
        for (const int64_t rows : {1, 70}) {
            SCOPED_TRACE(::testing::Message() << dtype_name(dtype) << " " << rows << " rows");
            expect_as_reference(
                [&](Fixture& f) {
                    // Two experts per row of five; some rows name none.
                    std::vector<int32_t> choice;
                    for (int32_t i = 0; i < 2 * rows; ++i) {
                        choice.push_back(i % 11 == 10 ? -1 : (i * 7 + i / 3) % 6);
                    }
                    const TensorId chosen = f.b.input("ids", DType::kI32, {2, rows, 1, 1});
                    const auto* bytes = reinterpret_cast<const std::byte*>(choice.data());
                    f.inputs.emplace_back(chosen,
                                          std::vector<std::byte>(bytes, bytes + choice.size() * sizeof(int32_t)));
                    const TensorId w = expert_weight(f, dtype, k, 40, 5);
                    const TensorId bias = f.input({40, 5, 1, 1});
                    const TensorId shared = f.input({k, rows, 1, 1});
                    f.output(f.b.mul_mat_id(w, shared, chosen));
                    f.output(f.b.mul_mat_id(w, shared, chosen, bias));
                    f.output(f.b.mul_mat_id(w, f.input({k, 2, rows, 1}), chosen, bias));
                },
                dtype == DType::kMXFP4 || dtype == DType::kF16 ? backends() : single);
        }
    }
}

TEST(CpuExperts, ChoiceAndWeights) {
    using graph::Gating;
    const graph::RouteParams cases[] = {
        {.n_used = 1},
        {.n_used = 3, .normalise = true},
        {.n_used = 4, .gating = Gating::kSigmoid, .normalise = true, .scale = 2.5F},
        {.n_used = 4, .gating = Gating::kSoftmaxOfChosen},
        {.n_used = 4, .gating = Gating::kSigmoid, .n_group = 4, .n_group_used = 2},
        {.n_used = 20, .normalise = true},
    };
    for (const graph::RouteParams& p : cases) {
        SCOPED_TRACE(p.n_used);
        expect_as_reference(
            [&](Fixture& f) {
                std::vector<float> logits = noise(20 * 9, 5, 3.0F);
                std::fill_n(logits.begin(), 20, 1.0F);  // all equal: the first ones win
                logits[25] = std::numeric_limits<float>::quiet_NaN();
                logits[45] = std::numeric_limits<float>::infinity();
                const TensorId x = f.input_values({20, 9, 1, 1}, logits);
                const TensorId plain = f.b.route_ids(x, graph::kNoTensor, p);
                const TensorId ids = f.b.route_ids(x, f.input({20, 1, 1, 1}), p);
                f.output(plain);
                f.output(ids);
                f.output(f.b.route_weights(x, ids, p));
                f.output(f.b.weighted_sum(f.input({50, p.n_used, 9, 1}),
                                          f.b.route_weights(x, ids, p, f.input({20, 1, 1, 1}))));
            },
            backends());
    }
}

TEST(CpuExperts, GatesAndParts) {
    for (const int64_t n : {1, 16, 37, 5000}) {
        SCOPED_TRACE(n);
        expect_as_reference(
            [&](Fixture& f) {
                const TensorId x = f.input({n, 3, 2, 1}, 6.0F);
                const TensorId y = f.input({n, 3, 2, 1}, 6.0F);
                f.output(f.b.mul_sigmoid(x, y));
                f.output(f.b.mul_sigmoid(x, f.input({1, 3, 2, 1})));
                f.output(f.b.swiglu_oai(x, y));
                f.output(f.b.columns(x, n / 3, (n + 1) / 2));
            },
            backends());
    }
}

/// Rows of two slots in any order. The fixture runs twice over the same state, so the second run starts from what the
/// first has left.
void build_recurrent(Fixture& f, int64_t d) {
    const std::vector<int32_t> pos{0, 1, 2, 3, 0, 1, 4, 5, 2, -1, 6};
    const std::vector<int32_t> slot{0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 7};
    const auto n = static_cast<int64_t>(pos.size());
    const TensorId p = f.input_i32(pos);
    const TensorId s = f.input_i32(slot);
    f.storages.push_back(std::move(*f.backend->allocate_state(DType::kF32, {3 * d, 2 * 5, 1, 1})));
    const TensorId conv = f.b.persistent("conv", DType::kF32, {3 * d, 2 * 5, 1, 1}, f.storages.back().get());
    f.output(
        f.b.short_conv(f.input({3 * d, n, 1, 1}), f.input({4, 3 * d, 1, 1}), conv, p, s, {.ring = 5, .silu = true}));
    f.output(conv);
    // Cells in any order, some overwritten in place, some that don't exist.
    const std::vector<int32_t> from{-1, 0, 1, 1, -1, 5, 4, 2, 3, -7, 6};
    const std::vector<int32_t> to{0, 1, 1, 4, 5, 3, 2, 2, 5, 6, -1};
    f.storages.push_back(std::move(*f.backend->allocate_state(DType::kF32, {d, d * 4, 2 * 3, 1})));
    const TensorId delta = f.b.persistent("delta", DType::kF32, {d, d * 4, 2 * 3, 1}, f.storages.back().get());
    const TensorId decay = f.b.decay(f.input({4, n, 1, 1}, 9.0F), f.input({4, 1, 1, 1}),
                                     f.input_values({4, 1, 1, 1}, {-0.1F, -1.0F, -3.0F, -40.0F}));
    f.output(decay);
    f.output(f.b.delta_net({.q = f.input({d, 2, n, 1}, 0.2F),
                            .k = f.input({d, 2, n, 1}, 0.2F),
                            .v = f.input({d, 4, n, 1}),
                            .decay = decay,
                            .beta = f.input({4, n, 1, 1}),
                            .state = delta,
                            .from = f.input_i32(from),
                            .to = f.input_i32(to)},
                           {.modulo = d % 32 == 0}));
    f.output(delta);
}

TEST(CpuRecurrent, ConvolutionAndDeltaNet) {
    for (const int64_t d : {16, 20, 64, 128}) {
        SCOPED_TRACE(d);
        expect_as_reference([&](Fixture& f) { build_recurrent(f, d); }, backends());
    }
}

}  // namespace
}  // namespace foresay::cpu
