// qwen3moe: qwen3's attention, experts in every layer. Source: shared/spec/target-models.md, 3.6.
#include <algorithm>

#include "model/arch/common.h"
#include "model/graph_context.h"

namespace foresay::model::arch {
namespace {

Result<Hparams> read_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNeox));
    FORESAY_TRY(const uint32_t n_used, file.u32_or("qwen3moe.expert_used_count", 1));
    FORESAY_CHECK_OK(
        read_expert_hparams(file, h.n_ff[0] / static_cast<int32_t>(std::clamp(n_used, 1U, 4096U)), true, h));
    return h;
}

std::vector<WeightSpec> weights(const Hparams& h) {
    return dense_weights(h, {.qk_norm = true});
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
        x = b.add(ctx.linear(layer, "attn_output", attn), x);
        x = b.add(ctx.moe(layer, ctx.norm(layer, "ffn_norm", x), GraphContext::Activation::kSilu), x);
    }
    ctx.head(x);
}

}  // namespace

extern const Architecture k_qwen3moe;
const Architecture k_qwen3moe{"qwen3moe", read_hparams, weights, build};

}  // namespace foresay::model::arch
