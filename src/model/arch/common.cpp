#include "model/arch/common.h"

#include <fmt/format.h>

namespace foresay::model::arch {

void WeightList::matrix(std::string name, int64_t in, int64_t out, bool optional) {
    specs_.push_back({std::move(name), {in, out, 1, 1}, Use::kMulMat, optional});
}

void WeightList::vector(std::string name, int64_t n, bool optional) {
    specs_.push_back({std::move(name), {n, 1, 1, 1}, Use::kVector, optional});
}

void WeightList::matrix(int layer, const char* name, int64_t in, int64_t out, bool optional) {
    matrix(fmt::format("blk.{}.{}", layer, name), in, out, optional);
}

void WeightList::vector(int layer, const char* name, int64_t n, bool optional) {
    vector(fmt::format("blk.{}.{}", layer, name), n, optional);
}

void WeightList::experts(int layer, const char* name, int64_t in, int64_t out, bool optional) {
    specs_.push_back({fmt::format("blk.{}.{}", layer, name), {in, out, h_.n_expert, 1}, Use::kMulMat, optional});
}

void WeightList::table(int layer, const char* name, int64_t ne0, int64_t ne1, bool optional) {
    specs_.push_back({fmt::format("blk.{}.{}", layer, name), {ne0, ne1, 1, 1}, Use::kVector, optional});
}

void WeightList::ends(const char* norm_name) {
    specs_.push_back({"token_embd.weight", {h_.n_embd, h_.n_vocab, 1, 1}, Use::kEmbedding, false});
    vector(norm_name, h_.n_embd);
    matrix("output.weight", h_.n_embd, h_.n_vocab, true);
    vector("output.bias", h_.n_vocab, true);
}

void WeightList::rope_factors() {
    if (h_.long_rope) {
        vector("rope_factors_long.weight", h_.rope.n_rot / 2, true);
        vector("rope_factors_short.weight", h_.rope.n_rot / 2, true);
    } else {
        vector("rope_freqs.weight", h_.rope.n_rot / 2, true);
    }
}

void WeightList::attention(int layer, const DenseWeights& options) {
    const auto l = static_cast<size_t>(layer);
    const int64_t E = h_.n_embd;
    const int64_t q_width = int64_t{h_.head_dim_k[l]} * h_.n_head[l] * (options.gated_q ? 2 : 1);
    const int64_t k_width = int64_t{h_.head_dim_k[l]} * h_.n_head_kv[l];
    const int64_t v_width = int64_t{h_.head_dim_v[l]} * h_.n_head_kv[l];
    const bool bias_optional = !options.attention_bias_required;
    if (h_.merged_qkv[l]) {
        matrix(layer, "attn_qkv.weight", E, q_width + k_width + v_width);
        vector(layer, "attn_qkv.bias", q_width + k_width + v_width, bias_optional);
    } else {
        matrix(layer, "attn_q.weight", E, q_width);
        matrix(layer, "attn_k.weight", E, k_width);
        matrix(layer, "attn_v.weight", E, v_width);
        vector(layer, "attn_q.bias", q_width, bias_optional);
        vector(layer, "attn_k.bias", k_width, bias_optional);
        vector(layer, "attn_v.bias", v_width, bias_optional);
    }
    if (options.qk_norm || options.qk_norm_optional) {
        vector(layer, "attn_q_norm.weight", h_.head_dim_k[l], options.qk_norm_optional);
        vector(layer, "attn_k_norm.weight", h_.head_dim_k[l], options.qk_norm_optional);
    }
    matrix(layer, "attn_output.weight", int64_t{h_.head_dim_v[l]} * h_.n_head[l], E);
    vector(layer, "attn_output.bias", E, true);
}

void WeightList::dense_ffn(int layer) {
    const int64_t F = h_.n_ff[static_cast<size_t>(layer)];
    matrix(layer, "ffn_gate.weight", h_.n_embd, F);
    matrix(layer, "ffn_up.weight", h_.n_embd, F);
    matrix(layer, "ffn_down.weight", F, h_.n_embd);
    vector(layer, "ffn_gate.bias", F, true);
    vector(layer, "ffn_up.bias", F, true);
    vector(layer, "ffn_down.bias", h_.n_embd, true);
}

void WeightList::moe(int layer) {
    const int64_t E = h_.n_embd;
    const int64_t F = h_.n_ff_expert;
    const int64_t X = h_.n_expert;
    const bool merged = h_.merged_experts[static_cast<size_t>(layer)];
    matrix(layer, "ffn_gate_inp.weight", E, X);
    vector(layer, "ffn_gate_inp.bias", X, true);
    vector(layer, "exp_probs_b.bias", X, true);
    if (merged) {
        experts(layer, "ffn_gate_up_exps.weight", E, 2 * F);
    } else {
        experts(layer, "ffn_gate_exps.weight", E, F);
        experts(layer, "ffn_up_exps.weight", E, F);
        table(layer, "ffn_gate_exps.bias", F, X, true);
        table(layer, "ffn_up_exps.bias", F, X, true);
    }
    experts(layer, "ffn_down_exps.weight", F, E);
    table(layer, "ffn_down_exps.bias", E, X, true);
    vector(layer, "ffn_down_exps.scale", X, true);
}

void WeightList::shared_expert(int layer) {
    matrix(layer, "ffn_gate_shexp.weight", h_.n_embd, h_.n_ff_shared);
    matrix(layer, "ffn_up_shexp.weight", h_.n_embd, h_.n_ff_shared);
    matrix(layer, "ffn_down_shexp.weight", h_.n_ff_shared, h_.n_embd);
}

std::vector<WeightSpec> dense_weights(const Hparams& h, const DenseWeights& options) {
    WeightList list(h);
    list.ends();
    if (options.rope_freqs) {
        list.rope_factors();
    }
    for (int32_t layer = 0; layer < h.n_layer; ++layer) {
        list.vector(layer, "attn_norm.weight", h.n_embd);
        list.attention(layer, options);
        if (options.post_norms) {
            list.vector(layer, "post_attention_norm.weight", h.n_embd);
            list.vector(layer, "post_ffw_norm.weight", h.n_embd);
        }
        list.vector(layer, "ffn_norm.weight", h.n_embd);
        if (h.n_expert > 0) {
            list.moe(layer);
        } else {
            list.dense_ffn(layer);
        }
    }
    return std::move(list).take();
}

}  // namespace foresay::model::arch
