// llama: Llama 1-3.x, Mistral 7B, Mixtral, SmolLM2 and kin, dense or with experts. Source:
// shared/spec/target-models.md, 3.1.
#include "model/arch/common.h"
#include "model/graph_context.h"

namespace foresay::model::arch {
namespace {

Result<Hparams> read_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNorm));
    FORESAY_CHECK_OK(read_expert_hparams(file, h.n_ff[0], false, h));
    h.n_ff_expert = h.n_ff[0];  // expert_feed_forward_length isn't honoured here
    if (h.rope.n_rot != h.head_dim_k[0]) {
        return error(Code::kBadFile, "llama rotates the whole head", "llama.rope.dimension_count");
    }
    return h;
}

std::vector<WeightSpec> weights(const Hparams& h) {
    return dense_weights(h, {.rope_freqs = true});
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
        const TensorId f = ctx.norm(layer, "ffn_norm", x);
        x = b.add(ctx.hparams().n_expert > 0 ? ctx.moe(layer, f, GraphContext::Activation::kSilu)
                                             : ctx.ffn(layer, f, GraphContext::Activation::kSilu),
                  x);
    }
    ctx.head(x);
}

}  // namespace

extern const Architecture k_llama;
const Architecture k_llama{"llama", read_hparams, weights, build};

}  // namespace foresay::model::arch
