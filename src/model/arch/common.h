// Weight lists that several architectures share.
#pragma once

#include <string>
#include <vector>

#include "model/architecture.h"

namespace foresay::model::arch {

/// Options of the dense decoder's weight list.
struct DenseWeights {
    bool attention_bias_required = false;  ///< qwen2: biases on q, k, v always present
    bool qk_norm = false;                  ///< attn_q_norm, attn_k_norm [D]
    bool post_norms = false;               ///< gemma: post_attention_norm, post_ffw_norm [E]
    bool rope_freqs = false;               ///< optional rope_freqs [n_rot / 2]
};

/// token_embd, output_norm, output (optional: tied), and per layer norms, q/k/v/output with optional biases,
/// gate/up/down.
std::vector<WeightSpec> dense_weights(const Hparams& hparams, const DenseWeights& options);

}  // namespace foresay::model::arch
