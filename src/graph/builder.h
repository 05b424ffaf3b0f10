// Builds graphs with shape inference. Errors are sticky: the first one is kept, later calls return kNoTensor, finish()
// reports it, so that an architecture file reads as its equations without a check on every line.
#pragma once

#include <initializer_list>
#include <span>
#include <string>

#include "graph/graph.h"

namespace foresay::graph {

class Builder {
  public:
    TensorId input(std::string name, DType dtype, std::array<int64_t, 4> ne);
    /// ne: the storage's shape, or of a matrix its first rows alone ([K, n], n at most the storage's).
    TensorId weight(std::string name, DType dtype, std::array<int64_t, 4> ne, const Storage* storage);
    TensorId persistent(std::string name, DType dtype, std::array<int64_t, 4> ne, const Storage* storage);

    TensorId get_rows(TensorId table, TensorId ids);
    TensorId mul_mat(TensorId weight, TensorId x, TensorId bias = kNoTensor);
    TensorId rms_norm(TensorId x, TensorId weight, float epsilon);
    TensorId add(TensorId x, TensorId y);
    TensorId mul(TensorId x, TensorId y);
    TensorId scale(TensorId x, float factor);
    TensorId swiglu(TensorId gate, TensorId up);
    TensorId geglu(TensorId gate, TensorId up);
    TensorId rope(TensorId x, TensorId pos, TensorId factors, const RopeParams& params);
    TensorId set_rows(TensorId cache, TensorId x, TensorId rows);
    TensorId attention(TensorId q, TensorId k, TensorId v, TensorId pos, TensorId kv_base,
                       const AttentionParams& params, TensorId sinks = kNoTensor);
    TensorId softcap(TensorId x, float cap);
    TensorId copy(TensorId x, DType dtype);
    /// Elements [first, first + n) of every row.
    TensorId columns(TensorId x, int64_t first, int64_t n);
    TensorId mul_sigmoid(TensorId x, TensorId gate);
    TensorId swiglu_oai(TensorId gate, TensorId up);
    TensorId route_ids(TensorId logits, TensorId bias, const RouteParams& params);
    TensorId route_weights(TensorId logits, TensorId ids, const RouteParams& params, TensorId scale = kNoTensor);
    TensorId mul_mat_id(TensorId weight, TensorId x, TensorId ids, TensorId bias = kNoTensor);
    TensorId weighted_sum(TensorId x, TensorId weights);
    TensorId short_conv(TensorId x, TensorId taps, TensorId state, TensorId pos, TensorId slot,
                        const StateParams& params);
    TensorId decay(TensorId alpha, TensorId dt, TensorId a);

    /// The operands of kDeltaNet; q carries the scale of the result.
    struct DeltaNet {
        TensorId q, k, v, decay, beta, state, from, to;
    };

    TensorId delta_net(const DeltaNet& operands, const StateParams& params);
    /// The same memory under another shape; x must be contiguous and the element counts equal.
    TensorId reshape(TensorId x, std::array<int64_t, 4> ne);
    /// Rows [first, first + n) of the last dimension that is larger than 1... of ne1 for 2-D x: a window of whole rows.
    TensorId view_rows(TensorId x, int64_t first, int64_t n);

    void name(TensorId id, std::string text);
    void output(TensorId id);

    bool failed() const { return failed_; }

    /// The tensor so far; an empty one for kNoTensor, so that shapes may be asked for after a failure.
    const Tensor& tensor(TensorId id) const;

    size_t n_tensors() const { return graph_.n_tensors(); }

    /// The graph, or the first error.
    Result<Graph> finish() &&;

  private:
    TensorId add(Op op, std::initializer_list<TensorId> sources, const OpParams& params);
    TensorId append(Tensor node);
    TensorId leaf(std::string name, DType dtype, std::array<int64_t, 4> ne, uint32_t flags, const Storage* storage);
    TensorId view(TensorId x, std::array<int64_t, 4> ne, int64_t offset);
    TensorId fail(Error error);
    Graph graph_;
    bool failed_ = false;
    Error error_;
};

}  // namespace foresay::graph
