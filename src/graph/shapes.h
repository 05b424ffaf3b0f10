// Small checks on shapes that infer, validate and the builder share. Private to graph/.
#pragma once

#include <string>

#include "graph/graph.h"

namespace foresay::graph {

/// No tensor is larger, so that sums and products of sizes can't overflow.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 48;

/// "[64, 3]": trailing ones left out, as shapes are written in messages.
std::string shape_text(const std::array<int64_t, 4>& ne);

/// "mul_mat 'blk.0.attn_q'" or "mul_mat" without a name.
std::string node_text(const Tensor& tensor);

/// Strides of a contiguous tensor. ne[0] must be a multiple of the type's block.
std::array<int64_t, 4> contiguous_strides(DType dtype, const std::array<int64_t, 4>& ne);

/// Every dimension at least 1, ne[0] whole blocks, and the byte count below 2^48 (so that no later product overflows).
Status check_shape(const Tensor& tensor);

/// invalid_argument, named after the node.
Error node_error(const Tensor& node, std::string message);

}  // namespace foresay::graph
