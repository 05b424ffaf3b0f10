// phi3: Phi-3, Phi-3.5-mini, Phi-4-mini: merged q/k/v and gate/up, partial rotation, long or short factors. Source:
// shared/spec/target-models.md, 3.12.
#include "model/arch/common.h"
#include "model/graph_context.h"

namespace foresay::model::arch {
namespace {

Result<Hparams> read_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNeox));
    // The factor applies with short factors too; a sliding window in the file isn't used.
    FORESAY_TRY(const float magnitude, file.f32_or("phi3.rope.scaling.attn_factor", 1.0F));
    h.rope.magnitude = magnitude;
    return h;
}

std::vector<WeightSpec> weights(const Hparams& h) {
    WeightList list(h);
    list.ends();
    list.rope_factors();
    for (int32_t layer = 0; layer < h.n_layer; ++layer) {
        const int64_t F = h.n_ff[static_cast<size_t>(layer)];
        list.vector(layer, "attn_norm.weight", h.n_embd);
        list.attention(layer, {});
        list.vector(layer, "ffn_norm.weight", h.n_embd);
        list.matrix(layer, "ffn_up.weight", h.n_embd, 2 * F);
        list.matrix(layer, "ffn_down.weight", F, h.n_embd);
    }
    return std::move(list).take();
}

void build(GraphContext& ctx) {
    auto& b = ctx.b();
    TensorId x = ctx.embed();
    for (int layer = 0; layer < ctx.hparams().n_layer; ++layer) {
        const int64_t F = ctx.hparams().n_ff[static_cast<size_t>(layer)];
        auto qkv = ctx.project_qkv(layer, ctx.norm(layer, "attn_norm", x));
        qkv.q = ctx.rope(layer, qkv.q);
        qkv.k = ctx.rope(layer, qkv.k);
        TensorId attn = ctx.attend(layer, qkv);
        if (ctx.is_last(layer)) {
            attn = ctx.keep_outputs(attn);
            x = ctx.keep_outputs(x);
        }
        x = b.add(ctx.linear(layer, "attn_output", attn), x);
        const TensorId both = ctx.linear(layer, "ffn_up", ctx.norm(layer, "ffn_norm", x));
        const TensorId inner = b.swiglu(b.columns(both, 0, F), b.columns(both, F, F));
        x = b.add(ctx.linear(layer, "ffn_down", inner), x);
    }
    ctx.head(x);
}

}  // namespace

extern const Architecture k_phi3;
const Architecture k_phi3{"phi3", read_hparams, weights, build};

}  // namespace foresay::model::arch
