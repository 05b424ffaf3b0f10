// lfm2, lfm2moe: short convolutions and attention in turn, the latter in the layers with key heads. Source:
// shared/spec/target-models.md, 3.10.
#include <algorithm>

#include "model/arch/common.h"
#include "model/arch/lfm2_common.h"

namespace foresay::model::arch {

Result<Hparams> read_lfm2_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNeox));
    FORESAY_TRY(h.sliding_window, read_bounded(file, h, "attention.sliding_window", 0, int64_t{1} << 30, 0));
    FORESAY_TRY(h.recurrent.n_taps, read_bounded(file, h, "shortconv.l_cache", 1, graph::kMaxConvTaps));
    h.recurrent.conv_width = h.n_embd;
    for (size_t layer = 0; layer < h.n_head_kv.size(); ++layer) {
        h.is_recurrent[layer] = h.n_head_kv[layer] == 0;
        h.is_sliding[layer] = h.sliding_window > 0 && !h.is_recurrent[layer];
    }
    return h;
}

std::vector<WeightSpec> lfm2_weights(const Hparams& h) {
    WeightList list(h);
    list.ends("token_embd_norm.weight");
    for (int32_t layer = 0; layer < h.n_layer; ++layer) {
        list.vector(layer, "attn_norm.weight", h.n_embd);
        if (h.is_recurrent[static_cast<size_t>(layer)]) {
            list.matrix(layer, "shortconv.in_proj.weight", h.n_embd, 3 * int64_t{h.n_embd});
            list.table(layer, "shortconv.conv.weight", h.recurrent.n_taps, h.n_embd);
            list.matrix(layer, "shortconv.out_proj.weight", h.n_embd, h.n_embd);
        } else {
            list.attention(layer, {.qk_norm = true});
        }
        list.vector(layer, "ffn_norm.weight", h.n_embd);
        if (h.n_expert > 0 && layer >= h.n_layer_dense) {
            list.moe(layer);
        } else {
            list.dense_ffn(layer);
        }
    }
    return std::move(list).take();
}

namespace {

TensorId convolution(GraphContext& ctx, int layer, TensorId a) {
    auto& b = ctx.b();
    const int64_t E = ctx.hparams().n_embd;
    const TensorId parts = ctx.linear(layer, "shortconv.in_proj", a);
    const TensorId u = b.mul(b.columns(parts, 0, E), b.columns(parts, 2 * E, E));
    const TensorId y = ctx.short_conv(layer, "shortconv.conv.weight", u, false);
    return b.mul(b.columns(parts, E, E), y);
}

TensorId attention(GraphContext& ctx, int layer, TensorId a) {
    auto qkv = ctx.project_qkv(layer, a);
    qkv.q = ctx.rope(layer, ctx.norm(layer, "attn_q_norm", qkv.q));
    qkv.k = ctx.rope(layer, ctx.norm(layer, "attn_k_norm", qkv.k));
    return ctx.attend(layer, qkv);
}

}  // namespace

void build_lfm2(GraphContext& ctx) {
    auto& b = ctx.b();
    const Hparams& h = ctx.hparams();
    TensorId x = ctx.embed();
    for (int layer = 0; layer < h.n_layer; ++layer) {
        const bool recurrent = h.is_recurrent[static_cast<size_t>(layer)];
        const TensorId a = ctx.norm(layer, "attn_norm", x);
        TensorId mixed = recurrent ? convolution(ctx, layer, a) : attention(ctx, layer, a);
        if (ctx.is_last(layer)) {
            mixed = ctx.keep_outputs(mixed);
            x = ctx.keep_outputs(x);
        }
        x = b.add(ctx.linear(layer, recurrent ? "shortconv.out_proj" : "attn_output", mixed), x);
        const TensorId f = ctx.norm(layer, "ffn_norm", x);
        const bool experts = h.n_expert > 0 && layer >= h.n_layer_dense;
        x = b.add(experts ? ctx.moe(layer, f, GraphContext::Activation::kSilu)
                          : ctx.ffn(layer, f, GraphContext::Activation::kSilu),
                  x);
    }
    ctx.head(x, "token_embd_norm.weight");
}

extern const Architecture k_lfm2;
const Architecture k_lfm2{"lfm2", read_lfm2_hparams, lfm2_weights, build_lfm2};

}  // namespace foresay::model::arch
