// Builder: each method names its op's sources; infer does the checking. The first error sticks.
#include "graph/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/shapes.h"

namespace foresay::graph {

const Tensor& Builder::tensor(TensorId id) const {
    // After a failure ids are kNoTensor; architecture code may still ask for shapes before finish() reports.
    static const Tensor kNothing;
    return static_cast<int32_t>(id) >= 0 && index(id) < graph_.n_tensors() ? graph_.tensor(id) : kNothing;
}

TensorId Builder::fail(Error error) {
    if (!failed_) {
        failed_ = true;
        error_ = std::move(error);
    }
    return kNoTensor;
}

TensorId Builder::leaf(std::string name, DType dtype, std::array<int64_t, 4> ne, uint32_t flags,
                       const Storage* storage) {
    if (failed_) {
        return kNoTensor;
    }
    Tensor t;
    t.name = std::move(name);
    t.dtype = dtype;
    t.ne = ne;
    t.flags = flags;
    t.storage = storage;
    if (auto status = check_shape(t); !status) {
        return fail(std::move(status).error());
    }
    t.nb = contiguous_strides(dtype, ne);
    return graph_.add_leaf(std::move(t));
}

TensorId Builder::input(std::string name, DType dtype, std::array<int64_t, 4> ne) {
    return leaf(std::move(name), dtype, ne, kInput, nullptr);
}

TensorId Builder::weight(std::string name, DType dtype, std::array<int64_t, 4> ne, const Storage* storage) {
    return leaf(std::move(name), dtype, ne, kWeight, storage);
}

TensorId Builder::persistent(std::string name, DType dtype, std::array<int64_t, 4> ne, const Storage* storage) {
    return leaf(std::move(name), dtype, ne, kPersistent, storage);
}

TensorId Builder::append(Tensor node) {
    if (failed_) {
        return kNoTensor;
    }
    if (auto status = infer(graph_, node); !status) {
        return fail(std::move(status).error().context(fmt::format("node {}", graph_.n_tensors())));
    }
    return graph_.add_node_unchecked(std::move(node));
}

TensorId Builder::add(Op op, std::initializer_list<TensorId> sources, const OpParams& params) {
    Tensor node;
    node.op = op;
    node.params = params;
    // Optional sources come last; an absent one is cut off, an absent required one is left for infer to name.
    size_t n = sources.size();
    while (n > 0 && sources.begin()[n - 1] == kNoTensor) {
        --n;
    }
    std::copy_n(sources.begin(), n, node.src.begin());
    node.n_src = static_cast<uint8_t>(n);
    return append(std::move(node));
}

namespace {

OpParams float_param(float value) {
    OpParams params;
    params.f[0] = value;
    return params;
}

}  // namespace

TensorId Builder::get_rows(TensorId table, TensorId ids) {
    return add(Op::kGetRows, {table, ids}, {});
}

TensorId Builder::mul_mat(TensorId weight, TensorId x, TensorId bias) {
    return add(Op::kMulMat, {weight, x, bias}, {});
}

TensorId Builder::rms_norm(TensorId x, TensorId weight, float epsilon) {
    return add(Op::kRmsNorm, {x, weight}, float_param(epsilon));
}

TensorId Builder::add(TensorId x, TensorId y) {
    return add(Op::kAdd, {x, y}, OpParams{});
}

TensorId Builder::mul(TensorId x, TensorId y) {
    return add(Op::kMul, {x, y}, {});
}

TensorId Builder::scale(TensorId x, float factor) {
    return add(Op::kScale, {x}, float_param(factor));
}

TensorId Builder::swiglu(TensorId gate, TensorId up) {
    return add(Op::kSwiglu, {gate, up}, {});
}

TensorId Builder::geglu(TensorId gate, TensorId up) {
    return add(Op::kGeglu, {gate, up}, {});
}

TensorId Builder::rope(TensorId x, TensorId pos, TensorId factors, const RopeParams& params) {
    return add(Op::kRope, {x, pos, factors}, pack(params));
}

TensorId Builder::set_rows(TensorId cache, TensorId x, TensorId rows) {
    return add(Op::kSetRows, {cache, x, rows}, {});
}

TensorId Builder::attention(TensorId q, TensorId k, TensorId v, TensorId pos, TensorId kv_base,
                            const AttentionParams& params, TensorId sinks) {
    return add(Op::kAttention, {q, k, v, pos, kv_base, sinks}, pack(params));
}

TensorId Builder::softcap(TensorId x, float cap) {
    return add(Op::kSoftcap, {x}, float_param(cap));
}

TensorId Builder::copy(TensorId x, DType dtype) {
    Tensor node;
    node.op = Op::kCopy;
    node.dtype = dtype;
    node.src[0] = x;
    node.n_src = 1;
    return append(std::move(node));
}

TensorId Builder::columns(TensorId x, int64_t first, int64_t n) {
    if (first < 0 || n < 1 || first > INT32_MAX || n > INT32_MAX) {
        return fail(error(Code::kInvalidArgument, fmt::format("{} columns from {} of any tensor", n, first),
                          fmt::format("node {}: columns '{}'", graph_.n_tensors(), tensor(x).name)));
    }
    OpParams params;
    params.i[0] = static_cast<int32_t>(first);
    params.i[1] = static_cast<int32_t>(n);
    return add(Op::kColumns, {x}, params);
}

TensorId Builder::mul_sigmoid(TensorId x, TensorId gate) {
    return add(Op::kMulSigmoid, {x, gate}, {});
}

TensorId Builder::swiglu_oai(TensorId gate, TensorId up) {
    return add(Op::kSwigluOai, {gate, up}, {});
}

TensorId Builder::route_ids(TensorId logits, TensorId bias, const RouteParams& params) {
    return add(Op::kRouteIds, {logits, bias}, pack(params));
}

TensorId Builder::route_weights(TensorId logits, TensorId ids, const RouteParams& params, TensorId scale) {
    return add(Op::kRouteWeights, {logits, ids, scale}, pack(params));
}

TensorId Builder::mul_mat_id(TensorId weight, TensorId x, TensorId ids, TensorId bias) {
    return add(Op::kMulMatId, {weight, x, ids, bias}, {});
}

TensorId Builder::weighted_sum(TensorId x, TensorId weights) {
    return add(Op::kWeightedSum, {x, weights}, {});
}

TensorId Builder::short_conv(TensorId x, TensorId taps, TensorId state, TensorId pos, TensorId slot,
                             const StateParams& params) {
    return add(Op::kShortConv, {x, taps, state, pos, slot}, pack(params));
}

TensorId Builder::decay(TensorId alpha, TensorId dt, TensorId a) {
    return add(Op::kDecay, {alpha, dt, a}, {});
}

TensorId Builder::delta_net(const DeltaNet& o, const StateParams& params) {
    return add(Op::kDeltaNet, {o.q, o.k, o.v, o.decay, o.beta, o.state, o.from, o.to}, pack(params));
}

TensorId Builder::view(TensorId x, std::array<int64_t, 4> ne, int64_t offset) {
    const Tensor& from = tensor(x);
    Tensor node;
    node.op = Op::kView;
    node.dtype = from.dtype;
    node.ne = ne;
    node.src[0] = x;
    node.n_src = 1;
    node.view_of = from.is_view() ? from.view_of : x;
    node.view_offset = from.view_offset + offset;
    return append(std::move(node));
}

TensorId Builder::reshape(TensorId x, std::array<int64_t, 4> ne) {
    if (failed_) {
        return kNoTensor;
    }
    Tensor shape;
    shape.dtype = tensor(x).dtype;
    shape.ne = ne;
    if (auto status = check_shape(shape); !status) {
        return fail(std::move(status).error().context("reshape"));
    }
    if (shape.n_elements() != tensor(x).n_elements()) {
        return fail(error(Code::kInvalidArgument,
                          fmt::format("{} elements of shape {} can't become {}", tensor(x).n_elements(),
                                      shape_text(tensor(x).ne), shape_text(ne)),
                          fmt::format("node {}: reshape '{}'", graph_.n_tensors(), tensor(x).name)));
    }
    return view(x, ne, 0);
}

TensorId Builder::view_rows(TensorId x, int64_t first, int64_t n) {
    if (failed_) {
        return kNoTensor;
    }
    const Tensor& from = tensor(x);
    size_t d = 3;
    while (d > 1 && from.ne[d] == 1) {
        --d;
    }
    if (first < 0 || n < 1 || first > from.ne[d] || n > from.ne[d] - first) {
        return fail(error(Code::kInvalidArgument,
                          fmt::format("{} rows from row {} of a tensor of {} rows", n, first, from.ne[d]),
                          fmt::format("node {}: view_rows '{}'", graph_.n_tensors(), from.name)));
    }
    std::array<int64_t, 4> ne = from.ne;
    ne[d] = n;
    return view(x, ne, first * from.nb[d]);
}

void Builder::name(TensorId id, std::string text) {
    if (!failed_ && id != kNoTensor) {
        graph_.set_name(id, std::move(text));
    }
}

void Builder::output(TensorId id) {
    if (!failed_ && id != kNoTensor) {
        graph_.set_output(id);
    }
}

Result<Graph> Builder::finish() && {
    if (failed_) {
        return std::move(error_);
    }
    return std::move(graph_);
}

}  // namespace foresay::graph
