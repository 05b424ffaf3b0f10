// Hyper-parameters of a model, read from the GGUF keys that every architecture shares. Source:
// shared/spec/target-models.md, 1.4.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "graph/graph.h"

namespace foresay::model {

/// What only drafters have (shared/spec/draft-models.md, 8.1, 9.1, 10.1); zeros elsewhere.
struct DrafterHparams {
    std::vector<int32_t> target_layers;  ///< tapped layers of the target, counted as layer inputs
    int32_t n_embd_target = 0;           ///< B, the target's width
    int32_t n_vocab_draft = 0;           ///< rows of its head: below n_vocab with a reduced vocabulary (d2t)
    bool norm_before_residual = false;
    bool norm_before_fc = false;
    int32_t block_size = 0;          ///< trained block length, anchor included
    int32_t mask_token = -1;         ///< the token of a block's open slots
    bool sample_from_anchor = true;  ///< slot 0 predicts the first token
    bool causal = false;             ///< inside the block
    float value_scale = 1.0F;        ///< on the attention output after W_o
    bool gelu = false;               ///< tanh-GELU instead of SiLU
    int32_t markov_rank = 0;         ///< R of the Markov head; 0: none
    float logit_scale = 0.0F;        ///< 0: none
    int32_t conv_kernel = 0;         ///< DFlash2
    int32_t conv_group = 0;
    int32_t selector_rank = 0;
    int32_t selector_top_k = 0;
};

/// Layers that keep a state instead of keys and values (target-models.md, 3.7 and 3.10); zeros elsewhere.
struct RecurrentHparams {
    int32_t n_taps = 0;      ///< K of the short convolution
    int64_t conv_width = 0;  ///< its channels
    int32_t head_dim = 0;    ///< d of the delta net
    int32_t n_key_head = 0;
    int32_t n_value_head = 0;
    bool modulo = false;  ///< value head h uses key head h mod n_key_head, else blocks of heads share one
};

struct Hparams {
    std::string arch;
    int32_t n_layer = 0;  ///< trunk layers (block_count minus NextN blocks)
    int32_t n_embd = 0;
    int32_t n_vocab = 0;
    int32_t n_ctx_train = 0;
    float rms_eps = 0.0F;

    // Per layer, n_layer entries each.
    std::vector<int32_t> n_head;
    std::vector<int32_t> n_head_kv;
    std::vector<int32_t> n_ff;
    std::vector<int32_t> head_dim_k;
    std::vector<int32_t> head_dim_v;
    std::vector<bool> is_sliding;
    std::vector<bool> merged_qkv;      ///< attn_qkv in place of attn_q, attn_k, attn_v
    std::vector<bool> merged_experts;  ///< ffn_gate_up_exps in place of ffn_gate_exps and ffn_up_exps
    std::vector<bool> is_recurrent;    ///< no attention: a state (RecurrentHparams)
    std::vector<int32_t> kv_owner;     ///< the layer whose keys and values it reads: itself, except with shared caches

    int32_t sliding_window = 0;
    float embedding_scale = 1.0F;
    float attention_scale = 0.0F;  ///< kappa; 0: 1/sqrt(head_dim_k)
    float final_softcap = 0.0F;
    // Experts (section 2.8); n_expert 0: none.
    int32_t n_expert = 0;
    int32_t n_ff_expert = 0;
    int32_t n_ff_shared = 0;    ///< width of the shared expert
    int32_t n_layer_dense = 0;  ///< leading layers without experts
    graph::RouteParams route;

    int32_t n_embd_per_layer = 0;  ///< gemma4's P
    RecurrentHparams recurrent;

    bool long_rope = false;  ///< rope_factors_long or _short in place of rope_freqs, by the context
    int32_t n_ctx_original = 0;
    graph::RopeParams rope;          ///< full layers
    graph::RopeParams rope_sliding;  ///< sliding layers

    DrafterHparams drafter;

    const graph::RopeParams& rope_of(int layer) const {
        return is_sliding[static_cast<size_t>(layer)] ? rope_sliding : rope;
    }

    float scale_of(int layer) const;
    /// The tensor of the layer's frequency factors if the file has it; n_ctx: of a slot.
    std::string_view rope_factors_of(int layer, int32_t n_ctx) const;
    /// Any layer with a state: then contexts can't be shifted and prompts are reused within the state's reach only.
    bool has_state() const;
};

/// Reads the shared keys (head counts, sizes, rope with scaling) under the file's architecture prefix and checks that
/// they fit together. The architecture's own reader goes on from there. Errors: bad_file naming the key.
/// all_blocks: NextN blocks count as layers too (files that hold nothing else).
Result<Hparams> read_shared_hparams(const gguf::File& file, graph::RopePairing pairing, bool all_blocks = false);

/// Adds the file's one NextN block as layer n_layer: a layer of the full-attention kind. Errors: unsupported (several).
Status append_nextn_layer(const gguf::File& file, Hparams& hparams);

/// Of a drafter's file: the tapped layers and the rows of its head (d2t, else output.weight, else n_vocab).
Status read_drafter_hparams(const gguf::File& file, Hparams& hparams);
/// expert_count, expert_used_count and expert_feed_forward_length (n_ff_default when absent). required: an error when
/// there are no experts.
Status read_expert_hparams(const gguf::File& file, int32_t n_ff_default, bool required, Hparams& hparams);
/// leading_dense_block_count, expert groups, gating, normalisation and scale (glm4moe, lfm2moe).
Status read_routing_hparams(const gguf::File& file, graph::Gating gating_default, Hparams& hparams);
/// A key of 32 bits under the architecture's prefix, checked. Without fallback it is required.
Result<int32_t> read_bounded(const gguf::File& file, const Hparams& hparams, std::string_view key, int64_t low,
                             int64_t high, int64_t fallback = -1);

/// Applies attention.sliding_window_pattern (array, or number with a default); source: section 2.6.
Status read_sliding_pattern(const gguf::File& file, uint32_t default_period, Hparams& hparams);

}  // namespace foresay::model
