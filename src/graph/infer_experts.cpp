// Shape rules of the ops around experts and gates: parts of rows, choice of experts, products by expert, their sum.
#include "graph/infer_context.h"

namespace foresay::graph {

Status infer_columns(const InferContext& c) {
    const Tensor& x = c.src(0);
    const int64_t first = c.node.params.i[0];
    const int64_t n = c.node.params.i[1];
    FORESAY_CHECK_OK(c.expect_f32(0, "x"));
    if (first < 0 || n < 1 || first + n > x.ne[0]) {
        return c.fail(fmt::format("columns {}..{} of rows of {}", first, first + n, x.ne[0]));
    }
    c.result(DType::kF32, {n, x.ne[1], x.ne[2], x.ne[3]});
    return ok();
}

Status infer_mul_sigmoid(const InferContext& c) {
    const Shape& x = c.src(0).ne;
    FORESAY_CHECK_OK(c.expect_f32(0, "x"));
    const Shape one{1, x[1], x[2], x[3]};
    FORESAY_CHECK_OK(c.expect(1, "gate", DType::kF32, c.src(1).ne == one ? one : x));
    c.result(DType::kF32, x);
    return ok();
}

namespace {

/// The router's output and the parameters of a choice over it.
Status check_route(const InferContext& c) {
    const Tensor& logits = c.src(0);
    const RouteParams p = unpack_route(c.node.params);
    FORESAY_CHECK_OK(c.expect(0, "logits", DType::kF32, {logits.ne[0], logits.ne[1], 1, 1}));
    if (p.gating != Gating::kSoftmax && p.gating != Gating::kSigmoid && p.gating != Gating::kSoftmaxOfChosen) {
        return c.fail(fmt::format("unknown gating {}", static_cast<int32_t>(p.gating)));
    }
    if (p.n_group < 1 || logits.ne[0] % p.n_group != 0 || p.n_group_used < 1 || p.n_group_used > p.n_group) {
        return c.fail(fmt::format("{} of {} groups over {} experts", p.n_group_used, p.n_group, logits.ne[0]));
    }
    if (p.n_used < 1 || p.n_used > logits.ne[0] / p.n_group * p.n_group_used) {
        return c.fail(
            fmt::format("{} experts used of {} in {} of {} groups", p.n_used, logits.ne[0], p.n_group_used, p.n_group));
    }
    return ok();
}

}  // namespace

Status infer_route_ids(const InferContext& c) {
    FORESAY_CHECK_OK(check_route(c));
    if (c.n_src() == 2) {
        FORESAY_CHECK_OK(c.expect(1, "bias", DType::kF32, {c.src(0).ne[0], 1, 1, 1}));
    }
    c.result(DType::kI32, {unpack_route(c.node.params).n_used, c.src(0).ne[1], 1, 1});
    return ok();
}

Status infer_route_weights(const InferContext& c) {
    FORESAY_CHECK_OK(check_route(c));
    const Shape chosen{unpack_route(c.node.params).n_used, c.src(0).ne[1], 1, 1};
    FORESAY_CHECK_OK(c.expect(1, "ids", DType::kI32, chosen));
    if (c.n_src() == 3) {
        FORESAY_CHECK_OK(c.expect(2, "scale", DType::kF32, {c.src(0).ne[0], 1, 1, 1}));
    }
    c.result(DType::kF32, chosen);
    return ok();
}

Status infer_mul_mat_id(const InferContext& c) {
    const Tensor& w = c.src(0);
    const Tensor& x = c.src(1);
    const Tensor& ids = c.src(2);
    if (!dtype_info(w.dtype).is_weight || w.ne[3] != 1) {
        return c.fail(
            fmt::format("weight must be 3-D of a weight type, is {} {}", dtype_name(w.dtype), shape_text(w.ne)));
    }
    FORESAY_CHECK_OK(c.expect_plain(0, "weight"));
    FORESAY_CHECK_OK(c.expect(2, "ids", DType::kI32, {ids.ne[0], ids.ne[1], 1, 1}));
    const Shape per_expert{w.ne[0], ids.ne[0], ids.ne[1], 1};
    FORESAY_CHECK_OK(c.expect(1, "x", DType::kF32, x.ne == per_expert ? per_expert : Shape{w.ne[0], ids.ne[1], 1, 1}));
    if (c.n_src() == 4) {
        FORESAY_CHECK_OK(c.expect(3, "bias", DType::kF32, {w.ne[1], w.ne[2], 1, 1}));
    }
    c.result(DType::kF32, {w.ne[1], ids.ne[0], ids.ne[1], 1});
    return ok();
}

Status infer_weighted_sum(const InferContext& c) {
    const Tensor& x = c.src(0);
    FORESAY_CHECK_OK(c.expect(0, "x", DType::kF32, {x.ne[0], x.ne[1], x.ne[2], 1}));
    FORESAY_CHECK_OK(c.expect(1, "weights", DType::kF32, {x.ne[1], x.ne[2], 1, 1}));
    c.result(DType::kF32, {x.ne[0], x.ne[2], 1, 1});
    return ok();
}

}  // namespace foresay::graph
