#include "spec/drafters/dflash_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace foresay::spec {
namespace {

std::string base_name(int layer, const char* part, int tau, int side) {
    return fmt::format("blk.{}.{}_conv_base.{}.{}", layer, part, tau, side);
}

constexpr const char* kSpread = "conv_spread";

/// K (normed and rotated) and V of a layer's input as heads; without attn_v the un-normed K projection makes V.
void project_kv(NetGraph& g, int layer, TensorId x, TensorId pos, TensorId* k, TensorId* v) {
    auto& b = g.b();
    const model::Hparams& h = g.hparams();
    const auto l = static_cast<size_t>(layer);
    const int64_t n = b.tensor(x).ne[1];
    const TensorId raw = b.reshape(g.linear(layer, "attn_k", x), {h.head_dim_k[l], h.n_head_kv[l], n, 1});
    *k = g.rope(layer, g.norm(layer, "attn_k_norm", raw), pos, g.weight("rope_freqs.weight"));
    *v = g.weight(layer, "attn_v.weight") == kNoTensor ? b.rms_norm(raw, kNoTensor, h.rms_eps)
                                                       : g.linear(layer, "attn_v", x);
}

/// DFlash2's dynamic convolutions of one sublayer (attention or FFN); without them apply() returns its input.
class Conv {
  public:
    /// normed: the unconvolved normed input, which makes the factors. shifts: the inputs of rows before.
    Conv(NetGraph& g, int layer, const char* part, TensorId normed, const std::vector<TensorId>& shifts,
         const std::vector<TensorId>& pick)
        : g_(g), layer_(layer), part_(part), shifts_(shifts), pick_(pick) {
        const model::DrafterHparams& d = g.hparams().drafter;
        if (d.conv_kernel > 0) {
            auto& b = g.b();
            const int64_t n = b.tensor(normed).ne[1];
            n_groups_ = g.hparams().n_embd / d.conv_group;
            const TensorId factors = g.linear(layer, fmt::format("{}_conv_proj", part), normed);
            factors_ = b.reshape(factors, {n_groups_, int64_t{2} * d.conv_kernel * n, 1, 1});
        }
    }

    TensorId apply(TensorId x, int side) const {
        const model::DrafterHparams& d = g_.hparams().drafter;
        if (d.conv_kernel == 0) {
            return x;
        }
        auto& b = g_.b();
        const int64_t E = g_.hparams().n_embd;
        const int64_t n = b.tensor(x).ne[1];
        TensorId sum = kNoTensor;
        for (int tau = 0; tau < d.conv_kernel; ++tau) {
            // One factor per group and row: spread over the group's channels by a matrix of ones.
            const TensorId group = b.get_rows(factors_, pick_[static_cast<size_t>(tau + side * d.conv_kernel)]);
            const TensorId spread = b.mul_mat(g_.weight(kSpread), b.reshape(group, {1, n_groups_ * n, 1, 1}));
            const TensorId factor =
                b.add(b.reshape(spread, {E, n, 1, 1}), g_.weight(base_name(layer_, part_, tau, side)));
            const TensorId before = tau == 0 ? x : b.get_rows(x, shifts_[static_cast<size_t>(tau) - 1]);
            const TensorId term = b.mul(factor, before);
            sum = tau == 0 ? term : b.add(sum, term);
        }
        return sum;
    }

  private:
    NetGraph& g_;
    int layer_;
    const char* part_;
    const std::vector<TensorId>& shifts_;
    const std::vector<TensorId>& pick_;
    int64_t n_groups_ = 0;
    TensorId factors_ = kNoTensor;
};

}  // namespace

bool has_sliding_layers(const model::Hparams& h) {
    return h.sliding_window > 0 && std::find(h.is_sliding.begin(), h.is_sliding.end(), true) != h.is_sliding.end();
}

size_t first_shift_input(const model::Hparams& h) {
    return has_sliding_layers(h) ? 8 : 6;
}

Status load_conv_bases(Net& net) {
    const model::Hparams& h = net.draft().hparams();
    const model::DrafterHparams& d = h.drafter;
    if (d.conv_kernel == 0) {
        return ok();
    }
    const std::vector<float> ones(static_cast<size_t>(d.conv_group), 1.0F);
    FORESAY_CHECK_OK(net.add_weight(kSpread, {1, d.conv_group, 1, 1}, ones, true));
    std::vector<float> values(static_cast<size_t>(h.n_embd));
    for (int layer = 0; layer < h.n_layer; ++layer) {
        for (const char* part : {"attn", "ffn"}) {
            const std::string name = fmt::format("blk.{}.{}_conv_base", layer, part);
            const gguf::TensorInfo* tensor = net.draft().file().tensor(name);
            if (tensor == nullptr || tensor->type != static_cast<int32_t>(DType::kF32) || tensor->ne[0] != h.n_embd ||
                tensor->ne[1] != d.conv_kernel || tensor->ne[2] != 2) {
                return error(Code::kBadFile, fmt::format("expected F32 [{}, {}, 2]", h.n_embd, d.conv_kernel), name);
            }
            for (int tau = 0; tau < d.conv_kernel; ++tau) {
                for (int side = 0; side < 2; ++side) {
                    const size_t row =
                        static_cast<size_t>(tau) + static_cast<size_t>(side) * static_cast<size_t>(d.conv_kernel);
                    std::memcpy(values.data(), tensor->data.data() + row * values.size() * sizeof(float),
                                values.size() * sizeof(float));
                    FORESAY_CHECK_OK(
                        net.add_weight(base_name(layer, part, tau, side), {h.n_embd, 1, 1, 1}, values, false));
                }
            }
        }
    }
    return ok();
}

void build_injection(NetGraph& g, int32_t n) {
    const model::Hparams& h = g.hparams();
    const TensorId rows = g.floats("rows", int64_t{h.n_embd} * static_cast<int64_t>(h.drafter.target_layers.size()), n);
    const TensorId pos = g.ints("pos", n);
    const TensorId cells = g.ints("cells", n);
    const TensorId x = g.norm(g.linear("fc", rows), "enc.output_norm.weight");
    for (int layer = 0; layer < h.n_layer; ++layer) {
        TensorId k = kNoTensor;
        TensorId v = kNoTensor;
        project_kv(g, layer, x, pos, &k, &v);
        g.store(layer, k, v, cells);
    }
}

void build_block(NetGraph& g, int32_t n, int32_t n_outputs, bool with_hidden) {
    auto& b = g.b();
    const model::Hparams& h = g.hparams();
    const model::DrafterHparams& d = h.drafter;
    const TensorId tokens = g.ints("tokens", n);
    const TensorId pos = g.ints("pos", n);
    const TensorId cells = g.ints("cells", n);
    const TensorId base = g.ints("base", n);
    const TensorId last = g.ints("last", n);
    const TensorId out_rows = g.ints("out_rows", n_outputs);
    TensorId sliding_base = kNoTensor;
    TensorId sliding_last = kNoTensor;
    if (has_sliding_layers(h)) {
        sliding_base = g.ints("sliding_base", n);
        sliding_last = g.ints("sliding_last", n);
    }
    std::vector<TensorId> shifts;
    std::vector<TensorId> pick;
    for (int tau = 1; tau < d.conv_kernel; ++tau) {
        shifts.push_back(g.ints("rows_before", n));
    }
    for (int k = 0; k < 2 * d.conv_kernel; ++k) {
        pick.push_back(g.ramp("factor_rows", n, k, 2 * d.conv_kernel));
    }
    const TensorId factors = g.weight("rope_freqs.weight");
    TensorId x = g.embed(tokens);
    for (int layer = 0; layer < h.n_layer; ++layer) {
        const auto l = static_cast<size_t>(layer);
        const auto post = [&](const char* name, TensorId y) {
            return g.weight(layer, fmt::format("{}.weight", name)) == kNoTensor ? y : g.norm(layer, name, y);
        };
        const TensorId normed = g.norm(layer, "attn_norm", x);
        const Conv conv(g, layer, "attn", normed, shifts, pick);
        const TensorId input = conv.apply(normed, 0);
        TensorId k = kNoTensor;
        TensorId v = kNoTensor;
        project_kv(g, layer, input, pos, &k, &v);
        const auto stored = g.store(layer, k, v, cells);
        const TensorId heads = b.reshape(g.linear(layer, "attn_q", input), {h.head_dim_k[l], h.n_head[l], n, 1});
        const TensorId q = g.rope(layer, g.norm(layer, "attn_q_norm", heads), pos, factors);
        graph::AttentionParams params;
        params.n_head_kv = h.n_head_kv[l];
        params.scale = h.scale_of(layer);
        const bool sliding = h.is_sliding[l] && sliding_base != kNoTensor;
        TensorId attn = b.attention(q, stored.k, stored.v, sliding ? sliding_last : last, sliding ? sliding_base : base,
                                    params, g.weight(layer, "attn_sinks.weight"));
        attn = g.linear(layer, "attn_output", attn);
        if (d.value_scale != 1.0F) {
            attn = b.scale(attn, d.value_scale);
        }
        x = b.add(post("post_attention_norm", conv.apply(attn, 1)), x);
        const TensorId ffn_normed = g.norm(layer, "ffn_norm", x);
        const Conv ffn_conv(g, layer, "ffn", ffn_normed, shifts, pick);
        const TensorId f = ffn_conv.apply(ffn_normed, 0);
        const TensorId gate = g.linear(layer, "ffn_gate", f);
        const TensorId up = g.linear(layer, "ffn_up", f);
        const TensorId down = g.linear(layer, "ffn_down", d.gelu ? b.geglu(gate, up) : b.swiglu(gate, up));
        x = b.add(post("post_ffw_norm", ffn_conv.apply(down, 1)), x);
        const float factor = g.scalar(fmt::format("blk.{}.layer_output_scale.weight", layer), 1.0F);
        x = factor == 1.0F ? x : b.scale(x, factor);
    }
    const TensorId y = g.norm(b.get_rows(x, out_rows), "output_norm.weight");
    TensorId logits = g.head(y, true);
    if (d.selector_rank > 0) {
        logits = d.logit_scale != 0.0F ? b.scale(logits, d.logit_scale) : logits;
        logits = h.final_softcap > 0.0F ? b.softcap(logits, h.final_softcap) : logits;
    }
    g.output(logits);
    if (with_hidden) {
        g.output(y);
    }
    if (d.selector_rank > 0) {
        g.output(g.linear("selector_hidden", y));
    }
}

void build_markov(NetGraph& g, int32_t n) {
    const TensorId tokens = g.ints("tokens", n);
    const TensorId rows = g.b().get_rows(g.weight("markov_w1.weight"), tokens);
    g.output(g.linear("markov_w2", rows));
    g.output(rows);
}

}  // namespace foresay::spec
