// What the shape rules of ops share: the node to fill and its sources, with checks that name both. Private to graph/.
#pragma once

#include <fmt/format.h>

#include "graph/graph.h"
#include "graph/shapes.h"

namespace foresay::graph {

using Shape = std::array<int64_t, 4>;

/// What an infer function sees: the node to fill and its sources, already known to exist.
struct InferContext {
    const Graph& graph;
    Tensor& node;

    const Tensor& src(size_t i) const { return graph.tensor(node.src[i]); }

    size_t n_src() const { return node.n_src; }

    void result(DType dtype, const Shape& ne) const {
        node.dtype = dtype;
        node.ne = ne;
    }

    Error fail(std::string message) const { return node_error(node, std::move(message)); }

    Error fail_shape(std::string_view what, const Shape& expected, const Shape& found) const {
        return fail(fmt::format("{} has shape {}, expected {}", what, shape_text(found), shape_text(expected)));
    }

    Status expect(size_t i, std::string_view what, DType dtype, const Shape& ne) const;
    Status expect_f32(size_t i, std::string_view what) const;
    /// Weights live in whatever layout their backend likes, so a window into one has no address.
    Status expect_plain(size_t i, std::string_view what) const;
};

// infer_experts.cpp
Status infer_columns(const InferContext& c);
Status infer_mul_sigmoid(const InferContext& c);
Status infer_route_ids(const InferContext& c);
Status infer_route_weights(const InferContext& c);
Status infer_mul_mat_id(const InferContext& c);
Status infer_weighted_sum(const InferContext& c);
// infer_state.cpp
Status infer_short_conv(const InferContext& c);
Status infer_decay(const InferContext& c);
Status infer_delta_net(const InferContext& c);

}  // namespace foresay::graph
