#include "model/arch/qwen_hybrid.h"

#include <fmt/format.h>

#include <cmath>

#include "model/arch/common.h"

namespace foresay::model::arch {

namespace {

/// ssm.* and which layers are linear.
Status read_delta_net(const gguf::File& file, bool modulo, Hparams& h) {
    RecurrentHparams& r = h.recurrent;
    FORESAY_TRY(r.n_taps, read_bounded(file, h, "ssm.conv_kernel", 1, graph::kMaxConvTaps));
    FORESAY_TRY(r.head_dim, read_bounded(file, h, "ssm.state_size", 1, 1024));
    FORESAY_TRY(r.n_key_head, read_bounded(file, h, "ssm.group_count", 1, 1024));
    FORESAY_TRY(r.n_value_head, read_bounded(file, h, "ssm.time_step_rank", 1, 1024));
    r.modulo = modulo;
    if (r.n_value_head % r.n_key_head != 0) {
        return error(Code::kBadFile,
                     fmt::format("{} value heads are not a multiple of {} key heads", r.n_value_head, r.n_key_head),
                     h.arch + ".ssm.time_step_rank");
    }
    r.conv_width = int64_t{r.head_dim} * (2 * r.n_key_head + r.n_value_head);
    const std::string key = h.arch + ".attention.recurrent_layers";
    FORESAY_TRY(const int32_t interval, read_bounded(file, h, "full_attention_interval", 1, 4096, 4));
    const auto n = static_cast<size_t>(h.n_layer);
    if (file.find(key) != nullptr) {
        FORESAY_TRY(const auto flags, file.i64_scalar_or_array(key, n, 0));
        for (size_t layer = 0; layer < n; ++layer) {
            h.is_recurrent[layer] = flags[layer] != 0;
        }
    } else {
        for (size_t layer = 0; layer < n; ++layer) {
            h.is_recurrent[layer] = (layer + 1) % static_cast<size_t>(interval) != 0;
        }
    }
    return ok();
}

}  // namespace

Result<Hparams> read_qwen_hybrid_hparams(const gguf::File& file, bool modulo) {
    // For text all three position streams of M-RoPE are equal: plain half-split rotation.
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNeox));
    FORESAY_CHECK_OK(read_delta_net(file, modulo, h));
    FORESAY_CHECK_OK(read_expert_hparams(file, h.n_ff[0], h.arch != "qwen35", h));
    if (h.n_expert > 0) {
        FORESAY_TRY(h.n_ff_shared,
                    read_bounded(file, h, "expert_shared_feed_forward_length", 1, 1 << 20, std::max(1, h.n_ff[0])));
    }
    for (int32_t layer = 0; layer < h.n_layer; ++layer) {
        const std::string merged = fmt::format("blk.{}.ssm_in.weight", layer);
        if (file.tensor(merged) != nullptr) {
            return error(Code::kUnsupported, "the layout of early qwen3next files isn't supported", merged,
                         "convert the model again: it then has attn_qkv and attn_gate");
        }
    }
    return h;
}

std::vector<WeightSpec> qwen_hybrid_weights(const Hparams& h) {
    const RecurrentHparams& r = h.recurrent;
    const int64_t v_width = int64_t{r.head_dim} * r.n_value_head;
    WeightList list(h);
    list.ends();
    for (int32_t layer = 0; layer < h.n_layer; ++layer) {
        const auto l = static_cast<size_t>(layer);
        list.vector(layer, "attn_norm.weight", h.n_embd);
        if (!h.is_recurrent[l]) {
            list.attention(layer, {.qk_norm = true, .gated_q = true});
        } else {
            list.matrix(layer, "attn_qkv.weight", h.n_embd, r.conv_width);
            list.matrix(layer, "attn_gate.weight", h.n_embd, v_width);
            if (h.arch == "qwen3next") {
                list.matrix(layer, "ssm_ba.weight", h.n_embd, 2 * int64_t{r.n_value_head});
            } else {
                list.matrix(layer, "ssm_beta.weight", h.n_embd, r.n_value_head);
                list.matrix(layer, "ssm_alpha.weight", h.n_embd, r.n_value_head);
            }
            list.table(layer, "ssm_conv1d.weight", r.n_taps, r.conv_width);
            list.vector(layer, "ssm_dt.bias", r.n_value_head);
            list.vector(layer, "ssm_a", r.n_value_head);
            list.vector(layer, "ssm_norm.weight", r.head_dim);
            list.matrix(layer, "ssm_out.weight", v_width, h.n_embd);
        }
        list.vector(layer, "post_attention_norm.weight", h.n_embd);
        if (h.n_expert == 0) {
            list.dense_ffn(layer);
        } else {
            list.moe(layer);
            list.shared_expert(layer);
            list.matrix(layer, "ffn_gate_inp_shexp.weight", h.n_embd, 1);
        }
    }
    return std::move(list).take();
}

namespace {

/// Full attention: attn_q gives query and gate of each head. -> [D * H, n_rows]
TensorId gated_attention(GraphContext& ctx, int layer, TensorId a) {
    auto& b = ctx.b();
    const auto l = static_cast<size_t>(layer);
    const int64_t D = ctx.hparams().head_dim_k[l];
    const int64_t H = ctx.hparams().n_head[l];
    const int64_t G = ctx.hparams().n_head_kv[l];
    TensorId both = kNoTensor;
    GraphContext::Qkv qkv;
    if (ctx.hparams().merged_qkv[l]) {
        const TensorId all = ctx.linear(layer, "attn_qkv", a);
        both = b.reshape(b.columns(all, 0, 2 * D * H), {2 * D, H, ctx.n_rows(), 1});
        qkv.k = b.reshape(b.columns(all, 2 * D * H, D * G), {D, G, ctx.n_rows(), 1});
        qkv.v = b.columns(all, 2 * D * H + D * G, int64_t{ctx.hparams().head_dim_v[l]} * G);
    } else {
        both = ctx.heads(layer, "attn_q", a, 2 * D, H);
        qkv.k = ctx.heads(layer, "attn_k", a, D, G);
        qkv.v = ctx.linear(layer, "attn_v", a);
    }
    qkv.q = ctx.rope(layer, ctx.norm(layer, "attn_q_norm", b.columns(both, 0, D)));
    qkv.k = ctx.rope(layer, ctx.norm(layer, "attn_k_norm", qkv.k));
    const TensorId gate = b.reshape(b.columns(both, D, D), {D * H, ctx.n_rows(), 1, 1});
    return b.mul_sigmoid(ctx.attend(layer, qkv), gate);
}

struct Gates {
    TensorId beta = kNoTensor;
    TensorId alpha = kNoTensor;
};

/// Parts of rows that are grouped by key head: columns [first, first + n) of each group, side by side.
TensorId of_groups(GraphContext& ctx, TensorId x, int64_t first, int64_t n, int64_t width) {
    auto& b = ctx.b();
    const int64_t n_groups = ctx.hparams().recurrent.n_key_head;
    const TensorId grouped = b.reshape(x, {width, n_groups, ctx.n_rows(), 1});
    return b.reshape(b.columns(grouped, first, n), {n * n_groups, ctx.n_rows(), 1, 1});
}

Gates gates(GraphContext& ctx, int layer, TensorId a) {
    const RecurrentHparams& r = ctx.hparams().recurrent;
    const int64_t share = r.n_value_head / r.n_key_head;
    Gates in;
    if (ctx.hparams().arch == "qwen3next") {
        const TensorId ba = ctx.linear(layer, "ssm_ba", a);
        in.beta = of_groups(ctx, ba, 0, share, 2 * share);
        in.alpha = of_groups(ctx, ba, share, share, 2 * share);
    } else {
        in.beta = ctx.linear(layer, "ssm_beta", a);
        in.alpha = ctx.linear(layer, "ssm_alpha", a);
    }
    return in;
}

/// The delta net (G1 to G8 without ssm_out). -> [d * n_value_head, n_rows]
TensorId linear_attention(GraphContext& ctx, int layer, TensorId a) {
    auto& b = ctx.b();
    const RecurrentHparams& r = ctx.hparams().recurrent;
    const int64_t d = r.head_dim;
    const int64_t n = ctx.n_rows();
    const int64_t k_width = d * r.n_key_head;
    const int64_t v_width = d * r.n_value_head;
    const Gates in = gates(ctx, layer, a);
    const TensorId mixed = ctx.linear(layer, "attn_qkv", a);
    const TensorId z = ctx.linear(layer, "attn_gate", a);
    const TensorId y = ctx.short_conv(layer, "ssm_conv1d.weight", mixed, true);
    const auto heads = [&](int64_t first, int64_t width) {
        return b.reshape(b.columns(y, first, width), {d, width / d, n, 1});
    };
    // x / sqrt(sum x^2 + eps) is the RMS norm with eps / d, divided by sqrt(d); the query takes the 1/sqrt(d) of the
    // result along.
    const float epsilon = ctx.hparams().rms_eps / static_cast<float>(d);
    const float unit = 1.0F / std::sqrt(static_cast<float>(d));
    const TensorId q = b.scale(b.rms_norm(heads(0, k_width), kNoTensor, epsilon), unit * unit);
    const TensorId k = b.scale(b.rms_norm(heads(k_width, k_width), kNoTensor, epsilon), unit);
    const TensorId v = heads(2 * k_width, v_width);
    const TensorId decay = b.decay(in.alpha, ctx.weight(layer, "ssm_dt.bias"), ctx.weight(layer, "ssm_a"));
    const TensorId o = b.reshape(ctx.delta_net(layer, q, k, v, decay, in.beta), {d, r.n_value_head, n, 1});
    const TensorId normed = ctx.norm(layer, "ssm_norm", o);
    return b.swiglu(z, b.reshape(normed, {v_width, n, 1, 1}));
}

TensorId feed_forward(GraphContext& ctx, int layer, TensorId f) {
    auto& b = ctx.b();
    if (ctx.hparams().n_expert == 0) {
        return ctx.ffn(layer, f, GraphContext::Activation::kSilu);
    }
    const TensorId chosen = ctx.moe(layer, f, GraphContext::Activation::kSilu);
    const TensorId gate = ctx.linear(layer, "ffn_gate_inp_shexp", f);
    return b.add(chosen, b.mul_sigmoid(ctx.shared_expert(layer, f), gate));
}

}  // namespace

TensorId build_qwen_hybrid_layer(GraphContext& ctx, int layer, TensorId x) {
    auto& b = ctx.b();
    const bool recurrent = ctx.hparams().is_recurrent[static_cast<size_t>(layer)];
    const TensorId a = ctx.norm(layer, "attn_norm", x);
    TensorId mixed = recurrent ? linear_attention(ctx, layer, a) : gated_attention(ctx, layer, a);
    if (ctx.is_last(layer)) {
        mixed = ctx.keep_outputs(mixed);
        x = ctx.keep_outputs(x);
    }
    x = b.add(ctx.linear(layer, recurrent ? "ssm_out" : "attn_output", mixed), x);
    // Despite its name the norm before the feed-forward part.
    return b.add(feed_forward(ctx, layer, ctx.norm(layer, "post_attention_norm", x)), x);
}

void build_qwen_hybrid(GraphContext& ctx) {
    TensorId x = ctx.embed();
    for (int layer = 0; layer < ctx.hparams().n_layer; ++layer) {
        x = build_qwen_hybrid_layer(ctx, layer, x);
    }
    ctx.head(x);
}

}  // namespace foresay::model::arch
