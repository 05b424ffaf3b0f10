// Tensors and the graph's own bookkeeping; op rules are in infer.cpp, whole-graph checks in validate.cpp.
#include "graph/graph.h"

#include <fmt/format.h>

#include <bit>

#include "base/assert.h"
#include "base/checked.h"
#include "graph/shapes.h"

namespace foresay::graph {

std::string_view op_name(Op op) {
    static constexpr std::array<std::string_view, static_cast<size_t>(Op::kCount)> kNames{
        "none",         "view",       "get_rows",    "mul_mat",    "rms_norm",  "add",           "mul",
        "scale",        "swiglu",     "geglu",       "rope",       "set_rows",  "attention",     "softcap",
        "copy",         "columns",    "mul_sigmoid", "swiglu_oai", "route_ids", "route_weights", "mul_mat_id",
        "weighted_sum", "short_conv", "decay",       "delta_net"};
    return op < Op::kCount ? kNames[static_cast<size_t>(op)] : "unknown op";
}

OpParams pack(const RopeParams& p) {
    OpParams out;
    out.f = {p.base, p.freq_scale, p.magnitude, p.yarn_lo, p.yarn_hi, 0, 0, 0};
    out.i = {p.n_rot, static_cast<int32_t>(p.pairing), p.yarn, 0, 0, 0, 0, 0};
    return out;
}

OpParams pack(const AttentionParams& p) {
    OpParams out;
    out.f = {p.scale, p.softcap, 0, 0, 0, 0, 0, 0};
    out.i = {p.n_head_kv, p.window, 0, 0, 0, 0, 0, 0};
    return out;
}

RopeParams unpack_rope(const OpParams& p) {
    RopeParams out;
    out.n_rot = p.i[0];
    out.pairing = static_cast<RopePairing>(p.i[1]);
    out.yarn = p.i[2];
    out.base = p.f[0];
    out.freq_scale = p.f[1];
    out.magnitude = p.f[2];
    out.yarn_lo = p.f[3];
    out.yarn_hi = p.f[4];
    return out;
}

AttentionParams unpack_attention(const OpParams& p) {
    AttentionParams out;
    out.n_head_kv = p.i[0];
    out.window = p.i[1];
    out.scale = p.f[0];
    out.softcap = p.f[1];
    return out;
}

OpParams pack(const RouteParams& p) {
    OpParams out;
    out.f[0] = p.scale;
    out.i = {p.n_used, static_cast<int32_t>(p.gating), p.n_group, p.n_group_used, p.normalise ? 1 : 0, 0, 0, 0};
    return out;
}

OpParams pack(const StateParams& p) {
    OpParams out;
    out.i = {p.ring, p.silu ? 1 : 0, p.modulo ? 1 : 0, 0, 0, 0, 0, 0};
    return out;
}

RouteParams unpack_route(const OpParams& p) {
    RouteParams out;
    out.n_used = p.i[0];
    out.gating = static_cast<Gating>(p.i[1]);
    out.n_group = p.i[2];
    out.n_group_used = p.i[3];
    out.normalise = p.i[4] != 0;
    out.scale = p.f[0];
    return out;
}

StateParams unpack_state(const OpParams& p) {
    return {.ring = p.i[0], .silu = p.i[1] != 0, .modulo = p.i[2] != 0};
}

int written_source(Op op) {
    switch (op) {
        case Op::kSetRows:
            return 0;
        case Op::kShortConv:
            return 2;
        case Op::kDeltaNet:
            return 5;
        default:
            return -1;
    }
}

std::array<int64_t, 4> contiguous_strides(DType dtype, const std::array<int64_t, 4>& ne) {
    const DTypeInfo& info = dtype_info(dtype);
    std::array<int64_t, 4> nb{};
    nb[0] = static_cast<int64_t>(info.block_bytes);
    nb[1] = nb[0] * (ne[0] / info.block);
    nb[2] = nb[1] * ne[1];
    nb[3] = nb[2] * ne[2];
    return nb;
}

bool Tensor::is_contiguous() const {
    return nb == contiguous_strides(dtype, ne);
}

size_t Tensor::span_bytes() const {
    int64_t last = (ne[0] / dtype_info(dtype).block) * nb[0];
    for (size_t d = 1; d < 4; ++d) {
        last += (ne[d] - 1) * nb[d];
    }
    return static_cast<size_t>(last);
}

std::string shape_text(const std::array<int64_t, 4>& ne) {
    size_t n = 4;
    while (n > 1 && ne[n - 1] == 1) {
        --n;
    }
    std::string text = "[";
    for (size_t d = 0; d < n; ++d) {
        text += (d == 0 ? "" : ", ") + std::to_string(ne[d]);
    }
    return text + "]";
}

std::string node_text(const Tensor& tensor) {
    const std::string_view op = tensor.is_leaf() ? "leaf" : op_name(tensor.op);
    return tensor.name.empty() ? std::string(op) : fmt::format("{} '{}'", op, tensor.name);
}

Error node_error(const Tensor& node, std::string message) {
    return error(Code::kInvalidArgument, std::move(message), node_text(node));
}

Status check_shape(const Tensor& tensor) {
    const DTypeInfo& info = dtype_info(tensor.dtype);
    int64_t elements = 1;
    for (const int64_t n : tensor.ne) {
        if (n < 1) {
            return node_error(tensor, fmt::format("shape {} has a dimension below 1", shape_text(tensor.ne)));
        }
        if (!checked_mul(elements, n, &elements) ||
            elements > kMaxTensorBytes / static_cast<int64_t>(info.block_bytes)) {
            return node_error(tensor, fmt::format("shape {} is too large to address", shape_text(tensor.ne)));
        }
    }
    if (tensor.ne[0] % info.block != 0) {
        return node_error(tensor, fmt::format("row length {} isn't a multiple of {}'s block of {}", tensor.ne[0],
                                              info.name, info.block));
    }
    return ok();
}

TensorId Graph::add_leaf(Tensor leaf) {
    leaf.op = Op::kNone;
    leaf.n_src = 0;
    const TensorId id{static_cast<int32_t>(tensors_.size())};
    tensors_.push_back(std::move(leaf));
    leafs_.push_back(id);
    return id;
}

TensorId Graph::add_node_unchecked(Tensor node) {
    FORESAY_ASSERT(tensors_.size() < size_t{INT32_MAX});
    const TensorId id{static_cast<int32_t>(tensors_.size())};
    tensors_.push_back(std::move(node));
    nodes_.push_back(id);
    return id;
}

}  // namespace foresay::graph
