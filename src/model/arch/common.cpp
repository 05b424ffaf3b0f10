#include "model/arch/common.h"

#include <fmt/format.h>

namespace foresay::model::arch {

std::vector<WeightSpec> dense_weights(const Hparams& h, const DenseWeights& options) {
    std::vector<WeightSpec> specs;
    const int64_t E = h.n_embd;
    const auto matrix = [&](std::string name, int64_t in, int64_t out, bool optional = false) {
        specs.push_back({std::move(name), {in, out, 1, 1}, Use::kMulMat, optional});
    };
    const auto vector = [&](std::string name, int64_t n, bool optional = false) {
        specs.push_back({std::move(name), {n, 1, 1, 1}, Use::kVector, optional});
    };
    specs.push_back({"token_embd.weight", {E, h.n_vocab, 1, 1}, Use::kEmbedding, false});
    vector("output_norm.weight", E);
    matrix("output.weight", E, h.n_vocab, true);
    vector("output.bias", h.n_vocab, true);
    if (options.rope_freqs) {
        vector("rope_freqs.weight", h.rope.n_rot / 2, true);
    }
    for (int32_t layer = 0; layer < h.n_layer; ++layer) {
        const auto l = static_cast<size_t>(layer);
        const auto name = [&](const char* part) { return fmt::format("blk.{}.{}", layer, part); };
        const int64_t q_width = int64_t{h.head_dim_k[l]} * h.n_head[l];
        const int64_t k_width = int64_t{h.head_dim_k[l]} * h.n_head_kv[l];
        const int64_t v_width = int64_t{h.head_dim_v[l]} * h.n_head_kv[l];
        const int64_t o_width = int64_t{h.head_dim_v[l]} * h.n_head[l];
        vector(name("attn_norm.weight"), E);
        matrix(name("attn_q.weight"), E, q_width);
        matrix(name("attn_k.weight"), E, k_width);
        matrix(name("attn_v.weight"), E, v_width);
        vector(name("attn_q.bias"), q_width, !options.attention_bias_required);
        vector(name("attn_k.bias"), k_width, !options.attention_bias_required);
        vector(name("attn_v.bias"), v_width, !options.attention_bias_required);
        if (options.qk_norm) {
            vector(name("attn_q_norm.weight"), h.head_dim_k[l]);
            vector(name("attn_k_norm.weight"), h.head_dim_k[l]);
        }
        matrix(name("attn_output.weight"), o_width, E);
        vector(name("attn_output.bias"), E, true);
        if (options.post_norms) {
            vector(name("post_attention_norm.weight"), E);
            vector(name("post_ffw_norm.weight"), E);
        }
        vector(name("ffn_norm.weight"), E);
        matrix(name("ffn_gate.weight"), E, h.n_ff[l]);
        matrix(name("ffn_up.weight"), E, h.n_ff[l]);
        matrix(name("ffn_down.weight"), h.n_ff[l], E);
        vector(name("ffn_gate.bias"), h.n_ff[l], true);
        vector(name("ffn_up.bias"), h.n_ff[l], true);
        vector(name("ffn_down.bias"), E, true);
    }
    return specs;
}

}  // namespace foresay::model::arch
