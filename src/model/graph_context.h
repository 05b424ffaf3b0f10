// What an architecture's build() works with: weights by name, the batch's inputs, and the blocks that architectures
// share, so that an architecture file reads as the equations of shared/spec/target-models.md, section 3.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "graph/builder.h"
#include "memory/kv_cache.h"
#include "memory/state_cache.h"
#include "model/hparams.h"
#include "model/model.h"

namespace foresay::model {

using graph::kNoTensor;
using graph::TensorId;

/// The shape of one forward pass: what the plan cache is keyed by. Positions and cells are run-time inputs.
struct BatchShape {
    int32_t n_rows = 0;
    int32_t n_outputs = 0;  ///< rows whose logits are wanted, 1..n_rows
    int32_t n_head = 0;     ///< logits of the first n_head ids only; 0: of all
};

/// Rows that leave the graph beside the logits, for a drafter that feeds on them: of every row of the pass.
/// Source: shared/spec/draft-models.md, 8.1 and 9.1 (ids count layer inputs).
struct TapSpec {
    std::vector<int32_t> layers;  ///< l: the residual stream at the input of layer l; n_layer: before the final norm
    bool hidden = false;          ///< after output_norm: what the head multiplies

    bool any() const { return hidden || !layers.empty(); }
};

/// The leafs that the runner fills before each pass, and the result.
struct GraphIo {
    TensorId tokens = kNoTensor;   ///< I32 [n_rows]
    TensorId pos = kNoTensor;      ///< I32 [n_rows]
    TensorId kv_rows = kNoTensor;  ///< I32 [n_rows]: the cell each row is stored in
    TensorId kv_base = kNoTensor;  ///< I32 [n_rows]: the first cell of the row's slot
    TensorId slot = kNoTensor;     ///< I32 [n_rows]: the row's slot, for layers with a state; absent without them
    TensorId from = kNoTensor;     ///< I32 [n_rows]: cells of the rows' states (StateCache), with a delta net
    TensorId to = kNoTensor;
    TensorId out_rows = kNoTensor;  ///< I32 [n_outputs], or absent when every row is an output
    TensorId logits = kNoTensor;    ///< F32 [n_vocab or n_head, n_outputs]
    std::vector<TensorId> taps;     ///< F32 [n_embd, n_rows], as in TapSpec::layers
    TensorId hidden = kNoTensor;    ///< F32 [n_embd, n_rows], if tapped
};

class GraphContext {
  public:
    /// state: null when no layer has one.
    GraphContext(const Model& model, const memory::KvCache& kv, const memory::StateCache* state, BatchShape shape,
                 TapSpec taps = {});

    const Hparams& hparams() const { return model_.hparams(); }

    graph::Builder& b() { return builder_; }

    int32_t n_rows() const { return shape_.n_rows; }

    /// A weight as a leaf (made once), or kNoTensor when the file has none.
    TensorId weight(const std::string& name);
    /// blk.<layer>.<name>
    TensorId weight(int layer, std::string_view name);

    /// The value of a one-element weight of the file, if there.
    std::optional<float> scalar(int layer, std::string_view name) const;

    /// x0 = embedding_scale * token_embd[token].  -> [n_embd, n_rows]
    TensorId embed();
    /// rms(x; blk.<layer>.<name>.weight), over ne0. "attn_norm" begins a layer in every architecture: its x is what a
    /// tap of that layer delivers.
    TensorId norm(int layer, std::string_view name, TensorId x);
    /// W x (+ bias when the file has one), W = blk.<layer>.<name>.weight.
    TensorId linear(int layer, std::string_view name, TensorId x);

    /// q, k, v of a layer from its input, as heads [D, H, n_rows]; separate tensors or merged attn_qkv.
    struct Qkv {
        TensorId q = kNoTensor;
        TensorId k = kNoTensor;
        TensorId v = kNoTensor;
    };

    Qkv project_qkv(int layer, TensorId x);
    /// One of them alone: blk.<layer>.<name> as [head_dim, n_head, n_rows].
    TensorId heads(int layer, std::string_view name, TensorId x, int64_t head_dim, int64_t n_head);
    /// Rotary embedding of heads x [D, H, n_rows] with the layer's parameters and the file's frequency factors.
    TensorId rope(int layer, TensorId x);
    /// Stores k, v in the layer's cache (kNoTensor: reads those that its kv_owner has stored) and attends, with
    /// attn_sinks where the file has them; q, k after norm and RoPE. -> [Dv * H, n_rows]
    TensorId attend(int layer, const Qkv& qkv);
    /// From here on only the rows whose logits are wanted: call after the last layer's attention, on the residual and
    /// the branch.
    TensorId keep_outputs(TensorId x);
    enum class Activation { kSilu, kGelu, kSwigluOai };
    /// Wdown (act(Wgate x) * Wup x).
    TensorId ffn(int layer, TensorId x, Activation activation);
    TensorId activate(TensorId gate, TensorId up, Activation activation);
    /// Mixture of experts (target-models.md, 2.8) with hparams().route; router_input: what the router reads, x unless
    /// given.
    TensorId moe(int layer, TensorId x, Activation activation, TensorId router_input = kNoTensor);
    /// The expert that every row takes: ffn_gate_shexp and its kin, silu.
    TensorId shared_expert(int layer, TensorId x);
    /// Short convolution over the rows of each slot, with its state. taps: the weight's name. x: [channels, n_rows].
    TensorId short_conv(int layer, std::string_view taps, TensorId x, bool silu);
    /// Gated delta net; q carries 1/sqrt(d). -> [d * n_value_head, n_rows]
    TensorId delta_net(int layer, TensorId q, TensorId k, TensorId v, TensorId decay, TensorId beta);
    /// The product with a weight's first n rows (and its bias, if any): [n, n_rows]. n = 0: with all.
    TensorId first_rows(const std::string& name, const std::string& bias, TensorId x, int32_t n);
    /// rms(x; output_norm), head (own or tied; of the first ids only where the shape says so), softcap; ends the graph.
    void head(TensorId x, std::string_view norm_name = "output_norm.weight");

    bool is_last(int layer) const { return layer == hparams().n_layer - 1; }

    const GraphIo& io() const { return io_; }

    /// The finished graph or the first error. The context is spent.
    Result<graph::Graph> finish() &&;

  private:
    void tap_layer(int layer, TensorId x);
    /// True when a tap lies behind the last layer: then all rows are carried to the end.
    bool taps_the_end() const;

    const Model& model_;
    const memory::KvCache& kv_;
    const memory::StateCache* state_;
    BatchShape shape_;
    TapSpec taps_;
    graph::Builder builder_;
    GraphIo io_;
    std::unordered_map<std::string, TensorId> leafs_;
    std::unordered_map<int, std::pair<TensorId, TensorId>> stored_;  ///< by kv_owner: the caches as they stand now
};

}  // namespace foresay::model
