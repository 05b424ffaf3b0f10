// gemma3 (text): sliding and full layers, q/k norms, sandwich norms, scaled embedding. Source:
// shared/spec/target-models.md, 3.4.
#include <cmath>

#include "model/arch/common.h"
#include "model/graph_context.h"

namespace foresay::model::arch {
namespace {

Result<Hparams> read_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNeox));
    FORESAY_TRY(const uint32_t window, file.u32_or("gemma3.attention.sliding_window", 0));
    if (window > (1U << 30)) {
        return error(Code::kBadFile, "window is too large", "gemma3.attention.sliding_window");
    }
    h.sliding_window = static_cast<int32_t>(window);
    if (window > 0) {
        FORESAY_CHECK_OK(read_sliding_pattern(file, 6, h));
    }
    FORESAY_TRY(h.rope_sliding.base, file.f32_or("gemma3.rope.freq_base_swa", 10000.0F));
    if (!(h.rope_sliding.base > 1.0F) || !std::isfinite(h.rope_sliding.base)) {
        return error(Code::kBadFile, "base is impossible", "gemma3.rope.freq_base_swa");
    }
    FORESAY_TRY(h.final_softcap, file.f32_or("gemma3.final_logit_softcapping", 0.0F));
    h.embedding_scale = std::sqrt(static_cast<float>(h.n_embd));
    if (h.n_layer == 62) {
        // The 27B model was trained with the width per head in place of the head size.
        h.attention_scale = 1.0F / std::sqrt(static_cast<float>(h.n_embd) / static_cast<float>(h.n_head[0]));
    }
    return h;
}

std::vector<WeightSpec> weights(const Hparams& h) {
    return dense_weights(h, {.qk_norm = true, .post_norms = true});
}

void build(GraphContext& ctx) {
    auto& b = ctx.b();
    TensorId x = ctx.embed();
    for (int layer = 0; layer < ctx.hparams().n_layer; ++layer) {
        auto qkv = ctx.project_qkv(layer, ctx.norm(layer, "attn_norm", x));
        qkv.q = ctx.rope(layer, ctx.norm(layer, "attn_q_norm", qkv.q));
        qkv.k = ctx.rope(layer, ctx.norm(layer, "attn_k_norm", qkv.k));
        TensorId attn = ctx.attend(layer, qkv);
        if (ctx.is_last(layer)) {
            attn = ctx.keep_outputs(attn);
            x = ctx.keep_outputs(x);
        }
        x = b.add(ctx.norm(layer, "post_attention_norm", ctx.linear(layer, "attn_output", attn)), x);
        const TensorId f = ctx.ffn(layer, ctx.norm(layer, "ffn_norm", x), GraphContext::Activation::kGelu);
        x = b.add(ctx.norm(layer, "post_ffw_norm", f), x);
    }
    ctx.head(x);
}

}  // namespace

extern const Architecture k_gemma3;
const Architecture k_gemma3{"gemma3", read_hparams, weights, build};

}  // namespace foresay::model::arch
