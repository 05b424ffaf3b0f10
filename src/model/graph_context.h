// What an architecture's build() works with: weights by name, the batch's inputs, and the blocks that architectures
// share, so that an architecture file reads as the equations of shared/spec/target-models.md, section 3.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "graph/builder.h"
#include "memory/kv_cache.h"
#include "model/hparams.h"
#include "model/model.h"

namespace foresay::model {

using graph::kNoTensor;
using graph::TensorId;

/// The shape of one forward pass: what the plan cache is keyed by. Positions and cells are run-time inputs.
struct BatchShape {
    int32_t n_rows = 0;
    int32_t n_outputs = 0;  ///< rows whose logits are wanted, 1..n_rows
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
    TensorId tokens = kNoTensor;    ///< I32 [n_rows]
    TensorId pos = kNoTensor;       ///< I32 [n_rows]
    TensorId kv_rows = kNoTensor;   ///< I32 [n_rows]: the cell each row is stored in
    TensorId kv_base = kNoTensor;   ///< I32 [n_rows]: the first cell of the row's slot
    TensorId out_rows = kNoTensor;  ///< I32 [n_outputs], or absent when every row is an output
    TensorId logits = kNoTensor;    ///< F32 [n_vocab, n_outputs]
    std::vector<TensorId> taps;     ///< F32 [n_embd, n_rows], as in TapSpec::layers
    TensorId hidden = kNoTensor;    ///< F32 [n_embd, n_rows], if tapped
};

class GraphContext {
  public:
    GraphContext(const Model& model, const memory::KvCache& kv, BatchShape shape, TapSpec taps = {});

    const Hparams& hparams() const { return model_.hparams(); }

    graph::Builder& b() { return builder_; }

    int32_t n_rows() const { return shape_.n_rows; }

    /// A weight as a leaf (made once), or kNoTensor when the file has none.
    TensorId weight(const std::string& name);
    /// blk.<layer>.<name>
    TensorId weight(int layer, std::string_view name);

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
    /// Rotary embedding of heads x [D, H, n_rows] with the layer's parameters; factors: rope_freqs or kNoTensor.
    TensorId rope(int layer, TensorId x, TensorId factors = kNoTensor);
    /// Stores k, v in the cache and attends; q, k after norm and RoPE. -> [Dv * H, n_rows]
    TensorId attend(int layer, const Qkv& qkv);
    /// From here on only the rows whose logits are wanted: call after the last layer's attention, on the residual and
    /// the branch.
    TensorId keep_outputs(TensorId x);
    enum class Activation { kSilu, kGelu };
    /// Wdown (act(Wgate x) * Wup x).
    TensorId ffn(int layer, TensorId x, Activation activation);
    /// rms(x; output_norm), head (own or tied), softcap; ends the graph.
    void head(TensorId x);

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
    BatchShape shape_;
    TapSpec taps_;
    graph::Builder builder_;
    GraphIo io_;
    std::unordered_map<std::string, TensorId> leafs_;
};

}  // namespace foresay::model
