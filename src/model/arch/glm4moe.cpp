// glm4moe: GLM-4.5, 4.5-Air and 4.6: half rotation, biases, sigmoid routing with a selection bias, a shared expert
// beside the others. Source: shared/spec/target-models.md, 3.8.
#include "model/arch/common.h"
#include "model/graph_context.h"

namespace foresay::model::arch {
namespace {

Result<Hparams> read_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNeox));
    FORESAY_CHECK_OK(read_expert_hparams(file, h.n_ff[0], true, h));
    FORESAY_CHECK_OK(read_routing_hparams(file, graph::Gating::kSigmoid, h));
    FORESAY_TRY(h.route.normalise, file.bool_or("glm4moe.expert_weights_norm", false));
    FORESAY_TRY(const int32_t n_shared, read_bounded(file, h, "expert_shared_count", 0, 64, 1));
    h.n_ff_shared = h.n_ff_expert * n_shared;
    return h;
}

std::vector<WeightSpec> weights(const Hparams& h) {
    WeightList list(h);
    list.ends();
    for (int32_t layer = 0; layer < h.n_layer; ++layer) {
        list.vector(layer, "attn_norm.weight", h.n_embd);
        list.attention(layer, {.qk_norm_optional = true});
        list.vector(layer, "post_attention_norm.weight", h.n_embd);
        if (layer < h.n_layer_dense) {
            list.dense_ffn(layer);
            continue;
        }
        list.moe(layer);
        if (h.n_ff_shared > 0) {
            list.shared_expert(layer);
        }
    }
    return std::move(list).take();
}

TensorId experts(GraphContext& ctx, int layer, TensorId f) {
    const TensorId chosen = ctx.moe(layer, f, GraphContext::Activation::kSilu);
    return ctx.hparams().n_ff_shared > 0 ? ctx.b().add(chosen, ctx.shared_expert(layer, f)) : chosen;
}

TensorId build_layer(GraphContext& ctx, int layer, TensorId x) {
    auto& b = ctx.b();
    auto qkv = ctx.project_qkv(layer, ctx.norm(layer, "attn_norm", x));
    if (ctx.weight(layer, "attn_q_norm.weight") != kNoTensor) {
        qkv.q = ctx.norm(layer, "attn_q_norm", qkv.q);
        qkv.k = ctx.norm(layer, "attn_k_norm", qkv.k);
    }
    qkv.q = ctx.rope(layer, qkv.q);
    qkv.k = ctx.rope(layer, qkv.k);
    TensorId attn = ctx.attend(layer, qkv);
    if (ctx.is_last(layer)) {
        attn = ctx.keep_outputs(attn);
        x = ctx.keep_outputs(x);
    }
    x = b.add(ctx.linear(layer, "attn_output", attn), x);
    const TensorId f = ctx.norm(layer, "post_attention_norm", x);
    const bool dense = layer < ctx.hparams().n_layer_dense;
    return b.add(dense ? ctx.ffn(layer, f, GraphContext::Activation::kSilu) : experts(ctx, layer, f), x);
}

void build(GraphContext& ctx) {
    TensorId x = ctx.embed();
    for (int layer = 0; layer < ctx.hparams().n_layer; ++layer) {
        x = build_layer(ctx, layer, x);
    }
    ctx.head(x);
}

}  // namespace

extern const Architecture k_glm4moe;
const Architecture k_glm4moe{"glm4moe", read_hparams, weights, build, build_layer};

}  // namespace foresay::model::arch
