// Building, inference, validation and hashing. Broken graphs are errors that name the node.
#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"

namespace foresay::graph {
namespace {

using ::testing::HasSubstr;

constexpr std::array<int64_t, 4> kRow{64, 1, 1, 1};

/// x [64, 3] -> norm -> mul_mat (64 -> 32) -> scale, output.
Graph small_graph(float factor = 2.0F) {
    Builder b;
    const TensorId x = b.input("x", DType::kF32, {64, 3, 1, 1});
    const TensorId w = b.weight("w", DType::kQ8_0, {64, 32, 1, 1}, nullptr);
    const TensorId normed = b.rms_norm(x, kNoTensor, 1e-6F);
    const TensorId y = b.scale(b.mul_mat(w, normed), factor);
    b.name(y, "y");
    b.output(y);
    auto graph = std::move(b).finish();
    EXPECT_TRUE(graph.has_value());
    return std::move(*graph);
}

TEST(Builder, InfersShapes) {
    const Graph g = small_graph();
    ASSERT_EQ(g.nodes().size(), 3U);
    EXPECT_EQ(g.leafs().size(), 2U);
    const Tensor& y = g.tensor(g.nodes().back());
    EXPECT_EQ(y.ne, (std::array<int64_t, 4>{32, 3, 1, 1}));
    EXPECT_EQ(y.nb, (std::array<int64_t, 4>{4, 128, 384, 384}));
    EXPECT_TRUE(y.is_contiguous());
    EXPECT_EQ(y.span_bytes(), 384U);
    EXPECT_TRUE(g.validate().has_value());
}

TEST(Builder, AttentionAndCacheShapes) {
    Builder b;
    const TensorId q = b.input("q", DType::kF32, {32, 8, 5, 1});
    const TensorId k = b.input("k", DType::kF32, {64, 5, 1, 1});
    const TensorId pos = b.input("pos", DType::kI32, {5, 1, 1, 1});
    const TensorId cache = b.persistent("cache_k", DType::kF16, {64, 100, 1, 1}, nullptr);
    const TensorId stored = b.set_rows(cache, k, pos);
    AttentionParams p;
    p.n_head_kv = 2;
    const TensorId out = b.attention(q, stored, stored, pos, pos, p);
    ASSERT_FALSE(b.failed());
    EXPECT_EQ(b.tensor(stored).view_of, cache);
    EXPECT_EQ(b.tensor(out).ne, (std::array<int64_t, 4>{256, 5, 1, 1}));
    EXPECT_TRUE(std::move(b).finish()->validate().has_value());
}

TEST(Builder, FirstErrorSticksAndNamesTheNode) {
    Builder b;
    const TensorId x = b.input("x", DType::kF32, kRow);
    const TensorId w = b.weight("w", DType::kF16, {32, 8, 1, 1}, nullptr);
    const TensorId bad = b.mul_mat(w, x);
    EXPECT_EQ(bad, kNoTensor);
    EXPECT_EQ(b.add(bad, x), kNoTensor);
    EXPECT_EQ(b.view_rows(bad, 0, 1), kNoTensor);
    EXPECT_EQ(b.tensor(bad).ne[0], 1);
    const auto graph = std::move(b).finish();
    ASSERT_FALSE(graph.has_value());
    EXPECT_THAT(graph.error().to_string(), HasSubstr("node 2"));
    EXPECT_THAT(graph.error().to_string(), HasSubstr("mul_mat"));
    EXPECT_THAT(graph.error().to_string(), HasSubstr("[64]"));
}

TEST(Builder, ViewsResolveToTheOwner) {
    Builder b;
    const TensorId x = b.input("x", DType::kF32, {8, 6, 1, 1});
    const TensorId rows = b.view_rows(x, 2, 3);
    const TensorId again = b.view_rows(rows, 1, 2);
    const TensorId shaped = b.reshape(again, {4, 4, 1, 1});
    EXPECT_EQ(b.tensor(shaped).view_of, x);
    EXPECT_EQ(b.tensor(shaped).view_offset, 3 * 8 * 4);
    ASSERT_FALSE(b.failed());
    EXPECT_TRUE(std::move(b).finish()->validate().has_value());
}

TEST(Builder, ViewOutsideIsAnError) {
    for (const auto& [first, n] :
         {std::pair<int64_t, int64_t>{4, 3}, {-1, 2}, {0, 0}, {INT64_MAX, 2}, {1, INT64_MAX}}) {
        Builder b;
        const TensorId x = b.input("x", DType::kF32, {8, 6, 1, 1});
        EXPECT_EQ(b.view_rows(x, first, n), kNoTensor);
        EXPECT_TRUE(b.failed());
    }
    Builder b;
    b.reshape(b.input("x", DType::kF32, {8, 6, 1, 1}), {7, 7, 1, 1});
    EXPECT_TRUE(b.failed());
}

TEST(Builder, ShapesThatOverflowAreErrors) {
    Builder b;
    EXPECT_EQ(b.input("x", DType::kF32, {INT64_MAX, 2, 1, 1}), kNoTensor);
    Builder c;
    EXPECT_EQ(c.input("x", DType::kF32, {1LL << 40, 1LL << 40, 1, 1}), kNoTensor);
    Builder d;
    EXPECT_EQ(d.weight("x", DType::kQ4_K, {128, 1, 1, 1}, nullptr), kNoTensor);
    EXPECT_THAT(std::move(d).finish().error().to_string(), HasSubstr("block of 256"));
}

// --- broken graphs ----------------------------------------------------------------------------------------------

struct Broken {
    const char* what;
    void (*make)(Graph& graph, Tensor& node);
    const char* message;
};

class BrokenGraph : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenGraph, IsAnErrorNamingTheNode) {
    Graph g = small_graph();
    Tensor node;
    node.op = Op::kScale;
    node.name = "culprit";
    node.ne = {32, 3, 1, 1};
    node.nb = {4, 128, 384, 384};
    node.src[0] = g.nodes().back();
    node.n_src = 1;
    GetParam().make(g, node);
    g.add_node_unchecked(node);
    const Status status = g.validate();
    ASSERT_FALSE(status.has_value());
    EXPECT_THAT(status.error().to_string(), HasSubstr("node 5"));
    EXPECT_THAT(status.error().to_string(), HasSubstr("culprit"));
    EXPECT_THAT(status.error().to_string(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, BrokenGraph,
    ::testing::Values(Broken{"cycle", [](Graph&, Tensor& n) { n.src[0] = TensorId{5}; }, "a cycle"},
                      Broken{"out_of_range", [](Graph&, Tensor& n) { n.src[0] = TensorId{99}; }, "tensor 99"},
                      Broken{"negative", [](Graph&, Tensor& n) { n.src[0] = kNoTensor; }, "tensor -1"},
                      Broken{"no_sources", [](Graph&, Tensor& n) { n.n_src = 0; }, "needs 1 to 1"},
                      Broken{"many_sources", [](Graph&, Tensor& n) { n.n_src = 200; }, "needs 1 to 1"},
                      Broken{"shape", [](Graph&, Tensor& n) { n.ne[1] = 4; }, "its sources give F32 [32, 3]"},
                      Broken{"type", [](Graph&, Tensor& n) { n.dtype = DType::kF16; }, "is F16"},
                      Broken{"strides", [](Graph&, Tensor& n) { n.nb[1] = 256; }, "its sources give"},
                      Broken{"op", [](Graph&, Tensor& n) { n.op = static_cast<Op>(77); }, "op 77"},
                      Broken{"leaf_op", [](Graph&, Tensor& n) { n.op = Op::kNone; }, "op 0"},
                      Broken{"weight_flag", [](Graph&, Tensor& n) { n.flags = kWeight; }, "only leafs"},
                      Broken{"hidden_view", [](Graph&, Tensor& n) { n.view_of = TensorId{0}; },
                             "only view and set_rows"},
                      Broken{"view_outside",
                             [](Graph&, Tensor& n) {
                                 n.op = Op::kView;
                                 n.view_of = n.src[0];
                                 n.view_offset = 4;
                             },
                             "lies outside"},
                      Broken{"view_offset_wraps",
                             [](Graph&, Tensor& n) {
                                 n.op = Op::kView;
                                 n.view_of = n.src[0];
                                 n.view_offset = INT64_MIN;
                             },
                             "outside of any tensor"},
                      Broken{"view_unresolved",
                             [](Graph&, Tensor& n) {
                                 n.op = Op::kView;
                                 n.view_of = TensorId{0};
                             },
                             "isn't resolved"},
                      Broken{"write_to_weight",
                             [](Graph&, Tensor& n) {
                                 n.op = Op::kSetRows;
                                 n.src = {TensorId{1}, TensorId{0}, TensorId{0}};
                                 n.n_src = 3;
                             },
                             "writes into 'w'"}),
    [](const auto& p) { return p.param.what; });

TEST(GraphValidate, ForwardReferenceIsNamed) {
    Graph g = small_graph();
    Tensor node = g.tensor(g.nodes().back());
    node.name = "early";
    node.src[0] = TensorId{6};
    g.add_node_unchecked(node);
    node.name = "late";
    node.src[0] = TensorId{5};
    g.add_node_unchecked(node);
    const Status status = g.validate();
    ASSERT_FALSE(status.has_value());
    EXPECT_THAT(status.error().to_string(), HasSubstr("node 5: scale 'early'"));
    EXPECT_THAT(status.error().to_string(), HasSubstr("forward reference"));
}

TEST(GraphValidate, StaleHandleOfAWrittenCacheIsAnError) {
    for (const bool stale : {false, true}) {
        Builder b;
        const TensorId cache = b.persistent("cache", DType::kF32, {8, 4, 1, 1}, nullptr);
        const TensorId x = b.input("x", DType::kF32, {8, 1, 1, 1});
        const TensorId rows = b.input("rows", DType::kI32, {1, 1, 1, 1});
        const TensorId before = b.view_rows(cache, 0, 1);
        b.scale(before, 1.0F);
        const TensorId written = b.set_rows(cache, x, rows);
        b.scale(stale ? before : b.view_rows(written, 0, 1), 2.0F);
        const Status status = std::move(b).finish()->validate();
        EXPECT_EQ(status.has_value(), !stale);
        if (stale) {
            EXPECT_THAT(status.error().to_string(), HasSubstr("use that node's result"));
        }
    }
}

TEST(GraphHash, CountsStructureAndNotNames) {
    Graph a = small_graph();
    const auto hash = a.structural_hash();
    EXPECT_EQ(hash, small_graph().structural_hash());
    a.set_name(a.nodes().front(), "other");
    EXPECT_EQ(hash, a.structural_hash());
    EXPECT_NE(hash, small_graph(3.0F).structural_hash());
    a.set_output(a.nodes().front());
    EXPECT_NE(hash, a.structural_hash());
}

TEST(GraphParams, PackAndUnpackAreInverse) {
    RopeParams r{64, RopePairing::kNeox, 5e5F, 0.25F, 1.5F, 2.0F, 3.0F, 1};
    EXPECT_EQ(pack(unpack_rope(pack(r))), pack(r));
    EXPECT_EQ(unpack_rope(pack(r)).yarn_hi, 3.0F);
    AttentionParams p{4, 512, 0.125F, 50.0F};
    EXPECT_EQ(pack(unpack_attention(pack(p))), pack(p));
    EXPECT_EQ(unpack_attention(pack(p)).window, 512);
}

}  // namespace
}  // namespace foresay::graph
