// The compute graph: tensors, ops, building with shape inference, validation. Knows no backends and no models.
// Tensors are dense 32-bit ids into one table; a graph has no size limit but memory. Read next: builder.h, then sched/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace foresay::graph {

enum class TensorId : int32_t {};
inline constexpr TensorId kNoTensor{-1};

constexpr size_t index(TensorId id) {
    return static_cast<size_t>(id);
}

/// What a node computes. Shapes are written [ne0, ne1, ...], ne0 contiguous. x, y, q are F32; T = rows (tokens).
/// Every op's arithmetic is defined by backend/reference and is the same, bit for bit, on every backend (row contract).
enum class Op : uint8_t {
    kNone,  ///< a leaf: input, weight or persistent state
    kView,  ///< a window or another shape of src0's memory: no work. params: none; offset and strides are in the tensor
    kGetRows,  ///< (table [E, V] any weight type, ids I32 [T]) -> F32 [E, T]; an id outside 0..V-1 gives a row of zeros
    kMulMat,   ///< (W [K, N] any weight type, x [K, T], optional bias F32 [N]) -> F32 [N, T]
    kRmsNorm,  ///< (x [D, ...], optional weight F32 [D]) -> like x; f[0] = epsilon; over ne0 of every row
    kAdd,      ///< (x, y like x, or y [ne0] for every row) -> like x
    kMul,      ///< (x, y like x, or y [ne0] for every row) -> like x
    kScale,    ///< (x) -> x * f[0]
    kSwiglu,   ///< (gate, up) -> silu(gate) * up
    kGeglu,    ///< (gate, up) -> gelu_tanh(gate) * up
    kRope,     ///< (x [D, H, T], pos I32 [T], optional factors F32 [n_rot/2]) -> like x; RopeParams
    kSetRows,  ///< (cache [W, n_cells] F32/F16/Q8_0, x F32 [W, T], rows I32 [T]) -> view of cache, row rows[t] = x[t];
               ///< negative rows are skipped
    kAttention,     ///< (q [D, H, T], K [D*G, n_cells], V [Dv*G, n_cells], pos I32 [T], kv_base I32 [T], optional sinks
                    ///< F32 [H]) -> F32 [Dv*H, T]; AttentionParams
    kSoftcap,       ///< (x) -> f[0] * tanh(x / f[0])
    kCopy,          ///< (x) -> same values, result's dtype F32 or F16, contiguous
    kColumns,       ///< (x [A, ...]) -> elements i[0] .. i[0] + i[1] - 1 of every row: [i[1], ...]
    kMulSigmoid,    ///< (x, g like x, or [1, ...] for every row) -> x * sigmoid(g)
    kSwigluOai,     ///< (gate, up) -> the clamped swiglu of gpt-oss (shared/spec/target-models.md, 2.2)
    kRouteIds,      ///< (router output [X, T], optional selection bias F32 [X]) -> I32 [k, T]: the experts of each row,
                    ///< best first; RouteParams
    kRouteWeights,  ///< (router output [X, T], ids I32 [k, T], optional scale F32 [X] by expert) -> F32 [k, T];
                    ///< RouteParams
    kMulMatId,  ///< (W [K, N, X] any weight type, x [K, T] or [K, k, T], ids I32 [k, T], optional bias F32 [N, X]) ->
                ///< F32 [N, k, T]; an id outside 0..X-1 gives zeros
    kWeightedSum,  ///< (x [N, k, T], w [k, T]) -> [N, T]: sum over k of w * x
    kShortConv,    ///< (x [C, T], taps F32 [K, C], state F32 [C, n_cells], pos I32 [T], slot I32 [T]) -> [C, T]; writes
                   ///< the state; StateParams
    kDecay,        ///< (alpha [H, T], dt F32 [H], a F32 [H]) -> exp(a * softplus(alpha + dt))
    kDeltaNet,  ///< (q [d, Hk, T], k like q, v [d, Hv, T], decay [Hv, T], beta [Hv, T], state F32 [d, d * Hv, n_cells],
                ///< from I32 [T], to I32 [T]) -> [d * Hv, T]; writes the state; StateParams
    kCount,
};

std::string_view op_name(Op op);

enum class RopePairing : int32_t { kNorm = 0, kNeox = 1 };

/// Rotary embedding (shared/spec/target-models.md, 2.4). theta_j = pos * base^(-2j/n_rot) / factor_j, j < n_rot/2.
struct RopeParams {
    int32_t n_rot = 0;
    RopePairing pairing = RopePairing::kNorm;
    float base = 10000.0F;
    float freq_scale = 1.0F;  ///< 1/s_f for linear scaling and YaRN
    float magnitude = 1.0F;   ///< m, multiplies cos and sin
    float yarn_lo = 0.0F;     ///< YaRN ramp; lo = hi = 0 with yarn = 0 means no YaRN
    float yarn_hi = 0.0F;
    int32_t yarn = 0;  ///< 1: mix interpolated and extrapolated angles by the ramp (R4, R5)
};

/// Attention of query rows over the cells of their own sequence. Row t sees cells kv_base[t] + j for
/// j in [max(0, pos[t] - window + 1), pos[t]] (window 0: from 0): cell order is position order, so no mask is needed.
/// Row contract: KV is walked in blocks of kAttentionBlock positions counted from j = 0.
struct AttentionParams {
    int32_t n_head_kv = 1;  ///< G; query head h uses key head h / (H / G)
    int32_t window = 0;     ///< W of a sliding layer, 0 = full
    float scale = 1.0F;
    float softcap = 0.0F;  ///< 0 = none
};

inline constexpr int kAttentionBlock = 64;

/// The least sum that weights are divided by when normalised (M6).
inline constexpr float kLeastRouteSum = 6.103515625e-5F;
inline constexpr int64_t kMaxConvTaps = 16;

enum class Gating : int32_t { kSoftmax = 1, kSigmoid = 2, kSoftmaxOfChosen = 3 };

/// Choice of experts (shared/spec/target-models.md, 2.8: M2 to M7).
struct RouteParams {
    int32_t n_used = 1;  ///< k
    Gating gating = Gating::kSoftmax;
    int32_t n_group = 1;  ///< groups that limit the choice; 1: none
    int32_t n_group_used = 1;
    bool normalise = false;  ///< weights divided by their sum
    float scale = 1.0F;
};

/// Ops with state that can be rolled back. kShortConv: each slot owns `ring` cells, the input of position p goes to
/// cell p mod ring, those of the K - 1 positions before are read; so forgetting the last tokens is setting a position
/// back, as far as the ring reaches. kDeltaNet: row t goes on from the state in cell from[t] (none there, below 0: from
/// zeros) and leaves its own in cell to[t], which may be the same; rows go in order, so from[t + 1] may be to[t].
struct StateParams {
    int32_t ring = 1;     ///< kShortConv
    bool silu = false;    ///< kShortConv: y = silu(conv)
    bool modulo = false;  ///< kDeltaNet: value head h uses key head h mod Hk, else h / (Hv / Hk)
};

/// Parameters of any op, comparable and hashable as bytes.
struct OpParams {
    std::array<float, 8> f{};
    std::array<int32_t, 8> i{};
    bool operator==(const OpParams&) const = default;
};

OpParams pack(const RopeParams& p);
OpParams pack(const AttentionParams& p);
OpParams pack(const RouteParams& p);
OpParams pack(const StateParams& p);
RopeParams unpack_rope(const OpParams& p);
AttentionParams unpack_attention(const OpParams& p);
RouteParams unpack_route(const OpParams& p);
StateParams unpack_state(const OpParams& p);

/// The operand that an op writes into (memory that outlives the graph), -1 for all others.
int written_source(Op op);

enum Flag : uint32_t {
    kInput = 1,       ///< a leaf that the caller fills before each execution
    kOutput = 2,      ///< kept after execution, readable by the caller
    kWeight = 4,      ///< a leaf with storage that never changes
    kPersistent = 8,  ///< a leaf with storage that ops may change (KV cache)
};

/// Memory that outlives graphs (weights, caches): made by a backend, see backend/backend.h.
struct Storage;

inline constexpr int kMaxSources = 8;

struct Tensor {
    DType dtype = DType::kF32;
    Op op = Op::kNone;
    uint8_t n_src = 0;
    uint32_t flags = 0;
    std::array<int64_t, 4> ne{1, 1, 1, 1};
    std::array<int64_t, 4> nb{0, 0, 0, 0};  ///< strides in bytes; nb[0] is the block's bytes for quantised types
    std::array<TensorId, kMaxSources> src{kNoTensor, kNoTensor, kNoTensor, kNoTensor,
                                          kNoTensor, kNoTensor, kNoTensor, kNoTensor};
    TensorId view_of =
        kNoTensor;            ///< the tensor whose memory this one shares (never itself a view: resolved when built)
    int64_t view_offset = 0;  ///< bytes into it
    const Storage* storage = nullptr;  ///< of weights and persistent leafs
    OpParams params;
    std::string name;

    int64_t n_elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }

    int64_t n_rows() const { return ne[1] * ne[2] * ne[3]; }

    bool is_leaf() const { return op == Op::kNone; }

    bool is_view() const { return view_of != kNoTensor; }

    bool is_contiguous() const;
    /// Bytes from the first to one past the last element.
    size_t span_bytes() const;

    std::span<const TensorId> sources() const { return {src.data(), n_src}; }
};

/// A graph: leafs and nodes in creation order, which is a valid execution order.
class Graph {
  public:
    const Tensor& tensor(TensorId id) const { return tensors_[index(id)]; }

    std::span<const Tensor> tensors() const { return tensors_; }

    std::span<const TensorId> nodes() const { return nodes_; }

    std::span<const TensorId> leafs() const { return leafs_; }

    size_t n_tensors() const { return tensors_.size(); }

    /// Whole-graph check: ids in range, sources before use (no cycles), shapes and types of every op, views inside
    /// their tensors, SetRows results used after. Errors name the node and its op.
    Status validate() const;
    /// 128-bit structural hash over ops, types, shapes, strides, operands, flags, params and storage (not names).
    std::array<uint64_t, 2> structural_hash() const;

    // --- building; builder.h has the checked, convenient form -------------------------------------------------
    TensorId add_leaf(Tensor leaf);
    /// Appends a node as it stands, unchecked: tests use it to make broken graphs; everyone else uses Builder.
    TensorId add_node_unchecked(Tensor node);

    /// Marks a tensor as kept after execution.
    void set_output(TensorId id) { tensors_[index(id)].flags |= kOutput; }

    void set_name(TensorId id, std::string name) { tensors_[index(id)].name = std::move(name); }

  private:
    std::vector<Tensor> tensors_;
    std::vector<TensorId> nodes_;
    std::vector<TensorId> leafs_;
};

/// Shape inference and checks of one op over its sources: fills dtype, ne, nb (and view_of for SetRows) of `node`, or
/// says what is wrong.
Status infer(const Graph& graph, Tensor& node);

}  // namespace foresay::graph
