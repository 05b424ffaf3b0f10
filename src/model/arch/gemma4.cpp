// gemma4: per-layer embeddings, shared keys and values, two head sizes, value norm, layer scales; dense, or dense and
// experts side by side. Source: shared/spec/target-models.md, 3.5.
#include <fmt/format.h>

#include <cmath>

#include "model/arch/common.h"
#include "model/graph_context.h"

namespace foresay::model::arch {
namespace {

/// Head size, rotation and base of sliding layers.
Status read_sliding_heads(const gguf::File& file, Hparams& h) {
    FORESAY_TRY(const int32_t key, read_bounded(file, h, "attention.key_length_swa", 2, 8192, h.head_dim_k[0]));
    FORESAY_TRY(const int32_t value, read_bounded(file, h, "attention.value_length_swa", 1, 8192, h.head_dim_v[0]));
    for (size_t layer = 0; layer < h.is_sliding.size(); ++layer) {
        if (h.is_sliding[layer]) {
            h.head_dim_k[layer] = key;
            h.head_dim_v[layer] = value;
        }
        if (h.head_dim_k[layer] != h.head_dim_v[layer]) {
            return error(Code::kBadFile, "keys and values differ in size", "gemma4.attention.value_length");
        }
    }
    FORESAY_TRY(h.rope_sliding.n_rot, read_bounded(file, h, "rope.dimension_count_swa", 2, key, key));
    FORESAY_TRY(h.rope_sliding.base, file.f32_or("gemma4.rope.freq_base_swa", 10000.0F));
    if (h.rope_sliding.n_rot % 2 != 0 || !(h.rope_sliding.base > 1.0F) || !std::isfinite(h.rope_sliding.base)) {
        return error(Code::kBadFile, "rotation of sliding layers is impossible", "gemma4.rope.*_swa");
    }
    return ok();
}

/// The last layers read the caches of the last sliding and the last full layer that have their own (step 5).
Status share_caches(const gguf::File& file, Hparams& h) {
    FORESAY_TRY(const int32_t n_shared, read_bounded(file, h, "attention.shared_kv_layers", 0, h.n_layer, 0));
    const int32_t n_own = h.n_layer - n_shared;
    for (int32_t layer = n_own; layer < h.n_layer; ++layer) {
        const auto l = static_cast<size_t>(layer);
        const int32_t owner = n_own - (h.is_sliding[l] ? 2 : 1);
        const auto o = static_cast<size_t>(owner);
        if (owner < 0 || h.is_sliding[o] != h.is_sliding[l] || h.n_head_kv[o] != h.n_head_kv[l]) {
            return error(Code::kBadFile,
                         fmt::format("layer {} can't share the keys and values of layer {}", layer, owner),
                         "gemma4.attention.shared_kv_layers");
        }
        h.kv_owner[l] = owner;
    }
    return ok();
}

void attention_weights(const Hparams& h, WeightList& list, int layer) {
    const auto l = static_cast<size_t>(layer);
    const int64_t D = h.head_dim_k[l];
    list.matrix(layer, "attn_q.weight", h.n_embd, D * h.n_head[l]);
    list.vector(layer, "attn_q_norm.weight", D);
    list.matrix(layer, "attn_output.weight", D * h.n_head[l], h.n_embd);
    if (h.kv_owner[l] == layer) {
        list.matrix(layer, "attn_k.weight", h.n_embd, D * h.n_head_kv[l]);
        list.vector(layer, "attn_k_norm.weight", D);
        list.matrix(layer, "attn_v.weight", h.n_embd, D * h.n_head_kv[l], true);  // without: values are the keys
    }
}

Result<Hparams> read_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNeox));
    FORESAY_TRY(h.sliding_window, read_bounded(file, h, "attention.sliding_window", 1, int64_t{1} << 30));
    FORESAY_CHECK_OK(read_sliding_pattern(file, 6, h));
    FORESAY_CHECK_OK(read_sliding_heads(file, h));
    FORESAY_CHECK_OK(share_caches(file, h));
    FORESAY_TRY(h.final_softcap, file.f32_or("gemma4.final_logit_softcapping", 30.0F));
    FORESAY_TRY(h.n_embd_per_layer, read_bounded(file, h, "embedding_length_per_layer_input", 0, 1 << 16, 0));
    FORESAY_CHECK_OK(read_expert_hparams(file, h.n_ff[0], false, h));
    h.embedding_scale = std::sqrt(static_cast<float>(h.n_embd));
    h.attention_scale = 1.0F;  // the query norm carries it
    return h;
}

std::vector<WeightSpec> weights(const Hparams& h) {
    const int64_t P = h.n_embd_per_layer;
    const int64_t E = h.n_embd;
    WeightList list(h);
    list.ends();
    list.rope_factors();
    if (P > 0) {
        list.add({"per_layer_token_embd.weight", {P * h.n_layer, h.n_vocab, 1, 1}, Use::kRows, false});
        list.matrix("per_layer_model_proj.weight", E, P * h.n_layer);
        list.vector("per_layer_proj_norm.weight", P);
    }
    for (int32_t layer = 0; layer < h.n_layer; ++layer) {
        for (const char* norm : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"}) {
            list.vector(layer, fmt::format("{}.weight", norm).c_str(), E);
        }
        attention_weights(h, list, layer);
        list.dense_ffn(layer);
        list.vector(layer, "layer_output_scale.weight", 1, true);
        if (P > 0) {
            list.matrix(layer, "inp_gate.weight", E, P);
            list.matrix(layer, "proj.weight", P, E);
            list.vector(layer, "post_norm.weight", E);
        }
        if (h.n_expert > 0) {
            list.moe(layer);
            list.vector(layer, "ffn_gate_inp.scale", E);
            for (const char* norm : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"}) {
                list.vector(layer, fmt::format("{}.weight", norm).c_str(), E);
            }
        }
    }
    return std::move(list).take();
}

/// The per-layer embeddings of all layers, [P * n_layer, n_rows] (step 2).
TensorId per_layer_embeddings(GraphContext& ctx, TensorId x) {
    auto& b = ctx.b();
    const Hparams& h = ctx.hparams();
    const int64_t P = h.n_embd_per_layer;
    const std::array<int64_t, 4> by_layer{P, h.n_layer, ctx.n_rows(), 1};
    const TensorId u = b.scale(b.get_rows(ctx.weight("per_layer_token_embd.weight"), ctx.io().tokens),
                               std::sqrt(static_cast<float>(P)));
    TensorId w = b.mul_mat(ctx.weight("per_layer_model_proj.weight"), x);
    w = b.scale(w, 1.0F / std::sqrt(static_cast<float>(h.n_embd)));
    w = b.rms_norm(b.reshape(w, by_layer), ctx.weight("per_layer_proj_norm.weight"), h.rms_eps);
    const TensorId sum = b.add(b.reshape(u, by_layer), w);
    return b.reshape(b.scale(sum, 1.0F / std::sqrt(2.0F)), {P * h.n_layer, ctx.n_rows(), 1, 1});
}

/// -> [D * H, n_rows]
TensorId attention(GraphContext& ctx, int layer, TensorId a) {
    auto& b = ctx.b();
    const Hparams& h = ctx.hparams();
    const auto l = static_cast<size_t>(layer);
    GraphContext::Qkv qkv;
    qkv.q = ctx.heads(layer, "attn_q", a, h.head_dim_k[l], h.n_head[l]);
    qkv.q = ctx.rope(layer, ctx.norm(layer, "attn_q_norm", qkv.q));
    if (h.kv_owner[l] == layer) {
        const TensorId k = ctx.heads(layer, "attn_k", a, h.head_dim_k[l], h.n_head_kv[l]);
        const bool has_v = ctx.weight(layer, "attn_v.weight") != kNoTensor;
        const TensorId v = has_v ? ctx.heads(layer, "attn_v", a, h.head_dim_v[l], h.n_head_kv[l]) : k;
        qkv.v = b.rms_norm(v, kNoTensor, h.rms_eps);
        qkv.k = ctx.rope(layer, ctx.norm(layer, "attn_k_norm", k));
    }
    return ctx.attend(layer, qkv);
}

/// Dense part, and the experts beside it where there are any (step 8).
TensorId feed_forward(GraphContext& ctx, int layer, TensorId x) {
    auto& b = ctx.b();
    const Hparams& h = ctx.hparams();
    const TensorId dense = ctx.ffn(layer, ctx.norm(layer, "ffn_norm", x), GraphContext::Activation::kGelu);
    if (h.n_expert == 0) {
        return dense;
    }
    // The router reads the stream itself, normed without a weight and scaled.
    const TensorId r = b.scale(b.rms_norm(x, ctx.weight(layer, "ffn_gate_inp.scale"), h.rms_eps),
                               1.0F / std::sqrt(static_cast<float>(h.n_embd)));
    const TensorId m = ctx.moe(layer, ctx.norm(layer, "pre_ffw_norm_2", x), GraphContext::Activation::kGelu, r);
    return b.add(ctx.norm(layer, "post_ffw_norm_1", dense), ctx.norm(layer, "post_ffw_norm_2", m));
}

void build(GraphContext& ctx) {
    auto& b = ctx.b();
    const Hparams& h = ctx.hparams();
    const int64_t P = h.n_embd_per_layer;
    TensorId x = ctx.embed();
    const TensorId embeddings = P > 0 ? per_layer_embeddings(ctx, x) : kNoTensor;
    for (int layer = 0; layer < h.n_layer; ++layer) {
        TensorId attn = attention(ctx, layer, ctx.norm(layer, "attn_norm", x));
        TensorId e = P > 0 ? b.columns(embeddings, layer * P, P) : kNoTensor;
        if (ctx.is_last(layer)) {
            attn = ctx.keep_outputs(attn);
            x = ctx.keep_outputs(x);
            e = P > 0 ? ctx.keep_outputs(e) : kNoTensor;
        }
        x = b.add(ctx.norm(layer, "post_attention_norm", ctx.linear(layer, "attn_output", attn)), x);
        x = b.add(ctx.norm(layer, "post_ffw_norm", feed_forward(ctx, layer, x)), x);
        if (P > 0) {
            const TensorId gated = b.geglu(ctx.linear(layer, "inp_gate", x), e);
            x = b.add(ctx.norm(layer, "post_norm", ctx.linear(layer, "proj", gated)), x);
        }
        if (const auto scale = ctx.scalar(layer, "layer_output_scale.weight"); scale.has_value()) {
            x = b.scale(x, *scale);
        }
    }
    ctx.head(x);
}

}  // namespace

extern const Architecture k_gemma4;
const Architecture k_gemma4{"gemma4", read_hparams, weights, build};

}  // namespace foresay::model::arch
