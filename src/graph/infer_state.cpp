// Shape rules of the recurrent ops: what they read and write lives in cells of memory that outlives the graph
// (StateParams).
#include "graph/infer_context.h"

namespace foresay::graph {
namespace {

/// The state is memory that outlives the graph, in whole rings of at least `least` cells; 0: no rings.
Status check_state(const InferContext& c, size_t i, const Shape& cell, int64_t least) {
    const Tensor& state = c.src(i);
    const TensorId root = state.is_view() ? state.view_of : c.node.src[i];
    const int64_t ring = least == 0 ? 1 : unpack_state(c.node.params).ring;
    size_t last = 3;
    while (last > 0 && cell[last] == 1) {
        --last;
    }
    const int64_t n_cells = state.ne[last + 1];
    Shape expected = cell;
    expected[last + 1] = n_cells;
    FORESAY_CHECK_OK(c.expect(i, "state", DType::kF32, expected));
    if ((c.graph.tensor(root).flags & (kWeight | kInput)) != 0) {
        return c.fail(fmt::format("writes into '{}', which is a weight or an input", c.graph.tensor(root).name));
    }
    if (ring < least || n_cells % ring != 0) {
        return c.fail(fmt::format("{} cells aren't rings of {}, each at least {}", n_cells, ring, least));
    }
    return ok();
}

Status check_rows(const InferContext& c, size_t i, int64_t n_rows, const char* first, const char* second) {
    FORESAY_CHECK_OK(c.expect(i, first, DType::kI32, {n_rows, 1, 1, 1}));
    return c.expect(i + 1, second, DType::kI32, {n_rows, 1, 1, 1});
}

}  // namespace

Status infer_short_conv(const InferContext& c) {
    const Tensor& x = c.src(0);
    const Tensor& taps = c.src(1);
    FORESAY_CHECK_OK(c.expect(0, "x", DType::kF32, {x.ne[0], x.ne[1], 1, 1}));
    FORESAY_CHECK_OK(c.expect(1, "taps", DType::kF32, {taps.ne[0], x.ne[0], 1, 1}));
    if (taps.ne[0] > kMaxConvTaps) {
        return c.fail(fmt::format("{} taps, at most {} are supported", taps.ne[0], kMaxConvTaps));
    }
    FORESAY_CHECK_OK(check_state(c, 2, {x.ne[0], 1, 1, 1}, taps.ne[0]));
    FORESAY_CHECK_OK(check_rows(c, 3, x.ne[1], "pos", "slot"));
    c.result(DType::kF32, x.ne);
    return ok();
}

Status infer_decay(const InferContext& c) {
    const Tensor& alpha = c.src(0);
    FORESAY_CHECK_OK(c.expect(0, "alpha", DType::kF32, {alpha.ne[0], alpha.ne[1], 1, 1}));
    FORESAY_CHECK_OK(c.expect(1, "dt", DType::kF32, {alpha.ne[0], 1, 1, 1}));
    FORESAY_CHECK_OK(c.expect(2, "a", DType::kF32, {alpha.ne[0], 1, 1, 1}));
    c.result(DType::kF32, alpha.ne);
    return ok();
}

Status infer_delta_net(const InferContext& c) {
    const Shape& q = c.src(0).ne;
    const Shape& v = c.src(2).ne;
    FORESAY_CHECK_OK(c.expect(0, "q", DType::kF32, {q[0], q[1], q[2], 1}));
    FORESAY_CHECK_OK(c.expect(1, "k", DType::kF32, q));
    FORESAY_CHECK_OK(c.expect(2, "v", DType::kF32, {q[0], v[1], q[2], 1}));
    if (v[1] % q[1] != 0) {
        return c.fail(fmt::format("{} value heads aren't a multiple of {} key heads", v[1], q[1]));
    }
    const Shape gate{v[1], q[2], 1, 1};
    FORESAY_CHECK_OK(c.expect(3, "decay", DType::kF32, gate));
    FORESAY_CHECK_OK(c.expect(4, "beta", DType::kF32, gate));
    FORESAY_CHECK_OK(check_state(c, 5, {q[0], q[0] * v[1], 1, 1}, 0));
    FORESAY_CHECK_OK(check_rows(c, 6, q[2], "from", "to"));
    c.result(DType::kF32, {q[0] * v[1], q[2], 1, 1});
    return ok();
}

}  // namespace foresay::graph
