// Shape inference: one function per op, one table. Each fills the node's dtype and shape from its sources or says what
// is wrong. Every tensor of a graph is contiguous: views are windows of whole rows or reshapes, so kernels never meet
// strides.
#include <fmt/format.h>

#include "base/checked.h"
#include "graph/graph.h"
#include "graph/infer_context.h"
#include "graph/shapes.h"

namespace foresay::graph {

Status InferContext::expect(size_t i, std::string_view what, DType dtype, const Shape& ne) const {
    if (src(i).dtype != dtype) {
        return fail(fmt::format("{} is {}, expected {}", what, dtype_name(src(i).dtype), dtype_name(dtype)));
    }
    if (src(i).ne != ne) {
        return fail_shape(what, ne, src(i).ne);
    }
    return expect_plain(i, what);
}

Status InferContext::expect_f32(size_t i, std::string_view what) const {
    return expect(i, what, DType::kF32, src(i).ne);
}

Status InferContext::expect_plain(size_t i, std::string_view what) const {
    if (src(i).is_view() && (graph.tensor(src(i).view_of).flags & kWeight) != 0) {
        return fail(fmt::format("{} is a view of weight '{}'", what, graph.tensor(src(i).view_of).name));
    }
    return ok();
}

namespace {

using Context = InferContext;

Status infer_view(const Context& c) {
    const Tensor& from = c.src(0);
    if (from.dtype != c.node.dtype) {
        return c.fail(fmt::format("view as {} of a {} tensor", dtype_name(c.node.dtype), dtype_name(from.dtype)));
    }
    FORESAY_CHECK_OK(check_shape(c.node));
    const TensorId root = from.is_view() ? from.view_of : c.node.src[0];
    if (c.node.view_of != root) {
        return c.fail(fmt::format("view isn't resolved to the memory's owner, tensor {}", index(root)));
    }
    const auto from_bytes = static_cast<int64_t>(from.span_bytes());
    if (c.node.view_offset < 0 || c.node.view_offset > kMaxTensorBytes) {
        return c.fail(fmt::format("view offset {} lies outside of any tensor", c.node.view_offset));
    }
    const int64_t bytes = contiguous_strides(c.node.dtype, c.node.ne)[3] * c.node.ne[3];
    const int64_t offset = c.node.view_offset - from.view_offset;
    if (offset < 0 || offset > from_bytes || bytes > from_bytes - offset) {
        return c.fail(fmt::format("view of bytes {}..{} lies outside of its tensor of {} bytes", offset, offset + bytes,
                                  from_bytes));
    }
    const auto unit = static_cast<int64_t>(dtype_info(c.node.dtype).block_bytes);
    if (offset % unit != 0) {
        return c.fail(fmt::format("view offset {} isn't a multiple of the block's {} bytes", offset, unit));
    }
    return ok();
}

Status infer_get_rows(const Context& c) {
    const Tensor& table = c.src(0);
    const Tensor& ids = c.src(1);
    if (!dtype_info(table.dtype).is_weight || table.ne[2] != 1 || table.ne[3] != 1) {
        return c.fail(
            fmt::format("table must be 2-D of a weight type, is {} {}", dtype_name(table.dtype), shape_text(table.ne)));
    }
    FORESAY_CHECK_OK(c.expect_plain(0, "table"));
    FORESAY_CHECK_OK(c.expect(1, "ids", DType::kI32, {ids.ne[0], 1, 1, 1}));
    c.result(DType::kF32, {table.ne[0], ids.ne[0], 1, 1});
    return ok();
}

Status infer_mul_mat(const Context& c) {
    const Tensor& w = c.src(0);
    const Tensor& x = c.src(1);
    if (!dtype_info(w.dtype).is_weight || w.ne[2] != 1 || w.ne[3] != 1) {
        return c.fail(
            fmt::format("weight must be 2-D of a weight type, is {} {}", dtype_name(w.dtype), shape_text(w.ne)));
    }
    FORESAY_CHECK_OK(c.expect_plain(0, "weight"));
    FORESAY_CHECK_OK(c.expect(1, "x", DType::kF32, {w.ne[0], x.ne[1], 1, 1}));
    if (c.n_src() == 3) {
        FORESAY_CHECK_OK(c.expect(2, "bias", DType::kF32, {w.ne[1], 1, 1, 1}));
    }
    c.result(DType::kF32, {w.ne[1], x.ne[1], 1, 1});
    return ok();
}

Status infer_rms_norm(const Context& c) {
    FORESAY_CHECK_OK(c.expect_f32(0, "x"));
    if (c.n_src() == 2) {
        FORESAY_CHECK_OK(c.expect(1, "weight", DType::kF32, {c.src(0).ne[0], 1, 1, 1}));
    }
    c.result(DType::kF32, c.src(0).ne);
    return ok();
}

Status infer_broadcast(const Context& c) {
    FORESAY_CHECK_OK(c.expect_f32(0, "x"));
    const Shape row{c.src(0).ne[0], 1, 1, 1};
    FORESAY_CHECK_OK(c.expect(1, "y", DType::kF32, c.src(1).ne == row ? row : c.src(0).ne));
    c.result(DType::kF32, c.src(0).ne);
    return ok();
}

Status infer_unary(const Context& c) {
    FORESAY_CHECK_OK(c.expect_f32(0, "x"));
    c.result(DType::kF32, c.src(0).ne);
    return ok();
}

Status infer_glu(const Context& c) {
    FORESAY_CHECK_OK(c.expect_f32(0, "gate"));
    FORESAY_CHECK_OK(c.expect(1, "up", DType::kF32, c.src(0).ne));
    c.result(DType::kF32, c.src(0).ne);
    return ok();
}

Status infer_rope(const Context& c) {
    const Tensor& x = c.src(0);
    const RopeParams p = unpack_rope(c.node.params);
    FORESAY_CHECK_OK(c.expect(0, "x", DType::kF32, {x.ne[0], x.ne[1], x.ne[2], 1}));
    FORESAY_CHECK_OK(c.expect(1, "pos", DType::kI32, {x.ne[2], 1, 1, 1}));
    if (p.n_rot < 2 || p.n_rot % 2 != 0 || p.n_rot > x.ne[0]) {
        return c.fail(fmt::format("n_rot {} must be even, at least 2 and at most the head's {}", p.n_rot, x.ne[0]));
    }
    if (p.pairing != RopePairing::kNorm && p.pairing != RopePairing::kNeox) {
        return c.fail(fmt::format("unknown pairing {}", static_cast<int32_t>(p.pairing)));
    }
    if (c.n_src() == 3) {
        FORESAY_CHECK_OK(c.expect(2, "factors", DType::kF32, {p.n_rot / 2, 1, 1, 1}));
    }
    c.result(DType::kF32, x.ne);
    return ok();
}

bool is_cache_type(DType dtype) {
    return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kQ8_0;
}

Status infer_set_rows(const Context& c) {
    const Tensor& cache = c.src(0);
    const TensorId root = cache.is_view() ? cache.view_of : c.node.src[0];
    if (!is_cache_type(cache.dtype) || cache.ne[2] != 1 || cache.ne[3] != 1) {
        return c.fail(
            fmt::format("cache must be 2-D F32, F16 or Q8_0, is {} {}", dtype_name(cache.dtype), shape_text(cache.ne)));
    }
    if ((c.graph.tensor(root).flags & (kWeight | kInput)) != 0) {
        return c.fail(fmt::format("writes into '{}', which is a weight or an input", c.graph.tensor(root).name));
    }
    const int64_t n_rows = c.src(1).ne[1];
    FORESAY_CHECK_OK(c.expect(1, "x", DType::kF32, {cache.ne[0], n_rows, 1, 1}));
    FORESAY_CHECK_OK(c.expect(2, "rows", DType::kI32, {n_rows, 1, 1, 1}));
    c.result(cache.dtype, cache.ne);
    c.node.view_of = root;
    c.node.view_offset = cache.view_offset;
    return ok();
}

Status check_kv(const Context& c, size_t i, std::string_view what, int64_t n_head_kv) {
    const Tensor& kv = c.src(i);
    if (!is_cache_type(kv.dtype) || kv.ne[2] != 1 || kv.ne[3] != 1 || kv.ne[0] % n_head_kv != 0) {
        return c.fail(fmt::format("{} must be [head * {}, n_cells] in F32, F16 or Q8_0, is {} {}", what, n_head_kv,
                                  dtype_name(kv.dtype), shape_text(kv.ne)));
    }
    if ((kv.ne[0] / n_head_kv) % dtype_info(kv.dtype).block != 0) {
        return c.fail(fmt::format("{}: head size {} isn't a multiple of {}'s block", what, kv.ne[0] / n_head_kv,
                                  dtype_name(kv.dtype)));
    }
    return c.expect_plain(i, what);
}

Status infer_attention(const Context& c) {
    const Tensor& q = c.src(0);
    const AttentionParams p = unpack_attention(c.node.params);
    FORESAY_CHECK_OK(c.expect(0, "q", DType::kF32, {q.ne[0], q.ne[1], q.ne[2], 1}));
    if (p.n_head_kv < 1 || q.ne[1] % p.n_head_kv != 0) {
        return c.fail(fmt::format("n_head {} isn't a multiple of n_head_kv {}", q.ne[1], p.n_head_kv));
    }
    if (p.window < 0 || !(p.softcap >= 0.0F)) {
        return c.fail(fmt::format("window {} and softcap {} must not be negative", p.window, p.softcap));
    }
    FORESAY_CHECK_OK(check_kv(c, 1, "k", p.n_head_kv));
    FORESAY_CHECK_OK(check_kv(c, 2, "v", p.n_head_kv));
    if (c.src(1).ne[0] != q.ne[0] * p.n_head_kv) {
        return c.fail_shape("k", {q.ne[0] * p.n_head_kv, c.src(1).ne[1], 1, 1}, c.src(1).ne);
    }
    if (c.src(1).ne[1] != c.src(2).ne[1]) {
        return c.fail_shape("v", {c.src(2).ne[0], c.src(1).ne[1], 1, 1}, c.src(2).ne);
    }
    FORESAY_CHECK_OK(c.expect(3, "pos", DType::kI32, {q.ne[2], 1, 1, 1}));
    FORESAY_CHECK_OK(c.expect(4, "kv_base", DType::kI32, {q.ne[2], 1, 1, 1}));
    if (c.n_src() == 6) {
        FORESAY_CHECK_OK(c.expect(5, "sinks", DType::kF32, {q.ne[1], 1, 1, 1}));
    }
    int64_t width = 0;
    if (!checked_mul(c.src(2).ne[0] / p.n_head_kv, q.ne[1], &width)) {
        return c.fail("the result is too large to address");
    }
    c.result(DType::kF32, {width, q.ne[2], 1, 1});
    return ok();
}

Status infer_softcap(const Context& c) {
    if (!(c.node.params.f[0] > 0.0F)) {
        return c.fail(fmt::format("cap {} must be positive", c.node.params.f[0]));
    }
    return infer_unary(c);
}

Status infer_copy(const Context& c) {
    const DType from = c.src(0).dtype;
    const DType to = c.node.dtype;
    if ((from != DType::kF32 && from != DType::kF16) || (to != DType::kF32 && to != DType::kF16)) {
        return c.fail(fmt::format("copy of {} to {}: only F32 and F16", dtype_name(from), dtype_name(to)));
    }
    FORESAY_CHECK_OK(c.expect_plain(0, "x"));
    c.result(to, c.src(0).ne);
    return ok();
}

struct OpRule {
    Op op;
    uint8_t min_src;
    uint8_t max_src;
    Status (*infer)(const Context&);
};

constexpr std::array<OpRule, static_cast<size_t>(Op::kCount)> kRules{{
    {Op::kNone, 0, 0, nullptr},
    {Op::kView, 1, 1, infer_view},
    {Op::kGetRows, 2, 2, infer_get_rows},
    {Op::kMulMat, 2, 3, infer_mul_mat},
    {Op::kRmsNorm, 1, 2, infer_rms_norm},
    {Op::kAdd, 2, 2, infer_broadcast},
    {Op::kMul, 2, 2, infer_broadcast},
    {Op::kScale, 1, 1, infer_unary},
    {Op::kSwiglu, 2, 2, infer_glu},
    {Op::kGeglu, 2, 2, infer_glu},
    {Op::kRope, 2, 3, infer_rope},
    {Op::kSetRows, 3, 3, infer_set_rows},
    {Op::kAttention, 5, 6, infer_attention},
    {Op::kSoftcap, 1, 1, infer_softcap},
    {Op::kCopy, 1, 1, infer_copy},
    {Op::kColumns, 1, 1, infer_columns},
    {Op::kMulSigmoid, 2, 2, infer_mul_sigmoid},
    {Op::kSwigluOai, 2, 2, infer_glu},
    {Op::kRouteIds, 1, 2, infer_route_ids},
    {Op::kRouteWeights, 2, 3, infer_route_weights},
    {Op::kMulMatId, 3, 4, infer_mul_mat_id},
    {Op::kWeightedSum, 2, 2, infer_weighted_sum},
    {Op::kShortConv, 5, 5, infer_short_conv},
    {Op::kDecay, 3, 3, infer_decay},
    {Op::kDeltaNet, 8, 8, infer_delta_net},
}};

}  // namespace

Status infer(const Graph& graph, Tensor& node) {
    if (node.op >= Op::kCount || node.op == Op::kNone) {
        return node_error(node, fmt::format("op {} isn't one that a node can have", static_cast<int>(node.op)));
    }
    const OpRule& rule = kRules[static_cast<size_t>(node.op)];
    if (node.n_src < rule.min_src || node.n_src > rule.max_src) {
        return node_error(node, fmt::format("has {} sources, needs {} to {}", node.n_src, rule.min_src, rule.max_src));
    }
    for (size_t i = 0; i < node.n_src; ++i) {
        if (static_cast<int32_t>(node.src[i]) < 0 || index(node.src[i]) >= graph.n_tensors()) {
            return node_error(node, fmt::format("source {} is tensor {}, the graph has {}", i,
                                                static_cast<int32_t>(node.src[i]), graph.n_tensors()));
        }
    }
    if (node.op != Op::kView && node.op != Op::kSetRows && node.is_view()) {
        return node_error(node, "only view and set_rows share another tensor's memory");
    }
    FORESAY_CHECK_OK(rule.infer(Context{graph, node}));
    FORESAY_CHECK_OK(check_shape(node));
    node.nb = contiguous_strides(node.dtype, node.ne);
    return ok();
}

}  // namespace foresay::graph
