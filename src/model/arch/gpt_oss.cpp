// gpt-oss: attention sinks, sliding and full layers in turn, YaRN on both, experts with biases and clamped swiglu.
// Source: shared/spec/target-models.md, 3.11.
#include <cmath>

#include "model/arch/common.h"
#include "model/graph_context.h"

namespace foresay::model::arch {
namespace {

Result<Hparams> read_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNeox));
    FORESAY_TRY(h.sliding_window, read_bounded(file, h, "attention.sliding_window", 0, int64_t{1} << 30, 0));
    if (h.sliding_window > 0) {
        FORESAY_CHECK_OK(read_sliding_pattern(file, 2, h));
    }
    h.rope_sliding = h.rope;  // YaRN applies to sliding layers too
    FORESAY_TRY(h.rope_sliding.base, file.f32_or("gpt-oss.rope.freq_base_swa", h.rope.base));
    if (!(h.rope_sliding.base > 1.0F) || !std::isfinite(h.rope_sliding.base)) {
        return error(Code::kBadFile, "base is impossible", "gpt-oss.rope.freq_base_swa");
    }
    FORESAY_CHECK_OK(read_expert_hparams(file, h.n_ff[0], true, h));
    h.route.gating = graph::Gating::kSoftmaxOfChosen;
    h.route.normalise = false;
    return h;
}

std::vector<WeightSpec> weights(const Hparams& h) {
    WeightList list(h);
    list.ends();
    for (int32_t layer = 0; layer < h.n_layer; ++layer) {
        list.vector(layer, "attn_norm.weight", h.n_embd);
        list.attention(layer, {});
        list.vector(layer, "attn_sinks.weight", h.n_head[static_cast<size_t>(layer)]);
        list.vector(layer, "post_attention_norm.weight", h.n_embd);
        list.moe(layer);
    }
    return std::move(list).take();
}

void build(GraphContext& ctx) {
    auto& b = ctx.b();
    TensorId x = ctx.embed();
    for (int layer = 0; layer < ctx.hparams().n_layer; ++layer) {
        auto qkv = ctx.project_qkv(layer, ctx.norm(layer, "attn_norm", x));
        qkv.q = ctx.rope(layer, qkv.q);
        qkv.k = ctx.rope(layer, qkv.k);
        TensorId attn = ctx.attend(layer, qkv);
        if (ctx.is_last(layer)) {
            attn = ctx.keep_outputs(attn);
            x = ctx.keep_outputs(x);
        }
        x = b.add(ctx.linear(layer, "attn_output", attn), x);
        // Despite its name the norm before the experts.
        const TensorId f = ctx.norm(layer, "post_attention_norm", x);
        x = b.add(ctx.moe(layer, f, GraphContext::Activation::kSwigluOai), x);
    }
    ctx.head(x);
}

}  // namespace

extern const Architecture k_gpt_oss;
const Architecture k_gpt_oss{"gpt-oss", read_hparams, weights, build};

}  // namespace foresay::model::arch
