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
    bool qk_norm_optional = false;
    bool post_norms = false;  ///< gemma: post_attention_norm, post_ffw_norm [E]
    bool rope_freqs = false;  ///< optional rope_freqs [n_rot / 2], or rope_factors_long and _short
    bool gated_q = false;     ///< attn_q twice as wide: query and gate of each head
};

/// Builds the list of an architecture: whole groups where layers agree, single tensors where they don't.
class WeightList {
  public:
    explicit WeightList(const Hparams& hparams) : h_(hparams) {}

    /// A tensor of no layer.
    void matrix(std::string name, int64_t in, int64_t out, bool optional = false);
    void vector(std::string name, int64_t n, bool optional = false);
    /// blk.<layer>.<name>
    void matrix(int layer, const char* name, int64_t in, int64_t out, bool optional = false);
    void vector(int layer, const char* name, int64_t n, bool optional = false);
    void experts(int layer, const char* name, int64_t in, int64_t out, bool optional = false);
    void table(int layer, const char* name, int64_t ne0, int64_t ne1, bool optional = false);

    void add(WeightSpec spec) { specs_.push_back(std::move(spec)); }

    /// token_embd, output (optional: tied) with bias, and the final norm.
    void ends(const char* norm_name = "output_norm.weight");
    void rope_factors();
    /// q, k, v (separate or merged) with optional biases, q/k norms, attn_output.
    void attention(int layer, const DenseWeights& options);
    void dense_ffn(int layer);
    /// Router and experts, gate and up separate or merged.
    void moe(int layer);
    void shared_expert(int layer);

    std::vector<WeightSpec> take() && { return std::move(specs_); }

  private:
    const Hparams& h_;
    std::vector<WeightSpec> specs_;
};

/// token_embd, output_norm, output (optional: tied), and per layer norms, q/k/v/output with optional biases,
/// gate/up/down.
std::vector<WeightSpec> dense_weights(const Hparams& hparams, const DenseWeights& options);

}  // namespace foresay::model::arch
