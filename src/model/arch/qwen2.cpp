// qwen2: Qwen2, Qwen2.5 and Qwen2.5-Coder. Source: shared/spec/target-models.md, 3.2.
#include "model/arch/common.h"
#include "model/graph_context.h"

namespace foresay::model::arch {
namespace {

Result<Hparams> read_hparams(const gguf::File& file) {
    return read_shared_hparams(file, graph::RopePairing::kNeox);
}

std::vector<WeightSpec> weights(const Hparams& h) {
    return dense_weights(h, {.attention_bias_required = true});
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
        x = b.add(ctx.ffn(layer, ctx.norm(layer, "ffn_norm", x), GraphContext::Activation::kSilu), x);
    }
    ctx.head(x);
}

}  // namespace

extern const Architecture k_qwen2;
const Architecture k_qwen2{"qwen2", read_hparams, weights, build};

}  // namespace foresay::model::arch
