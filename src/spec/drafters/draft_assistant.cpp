#include "spec/drafters/draft_assistant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foresay::spec {
namespace {

enum Input : size_t { kHidden = 0, kTokens = 1, kPos = 2, kBase = 3, kLast = 4, kSlidingBase = 5, kSlidingLast = 6 };

/// The last layer of this kind that owns keys and values; -1: none.
int owner_of_kind(const model::Hparams& target, bool sliding) {
    for (int layer = target.n_layer - 1; layer >= 0; --layer) {
        const auto l = static_cast<size_t>(layer);
        if (target.is_sliding[l] == sliding && !target.is_recurrent[l] && target.kv_owner[l] == layer) {
            return layer;
        }
    }
    return -1;
}

}  // namespace

Result<AssistantLayers> match_assistant(const model::Hparams& target, const model::Hparams& draft) {
    const auto misfit = [](std::string why) { return error(Code::kUnsupported, std::move(why), "--spec-draft-model"); };
    if (draft.drafter.n_embd_target != target.n_embd) {
        return misfit(fmt::format("the drafter takes rows {} wide, the target's are {} wide",
                                  draft.drafter.n_embd_target, target.n_embd));
    }
    AssistantLayers layers;
    for (size_t layer = 0; layer < draft.is_sliding.size(); ++layer) {
        const bool sliding = draft.is_sliding[layer];
        const int owner = owner_of_kind(target, sliding);
        if (owner < 0) {
            return misfit(fmt::format("layer {} of the drafter reads a {} layer's keys, the target has none", layer,
                                      sliding ? "sliding" : "full"));
        }
        const auto o = static_cast<size_t>(owner);
        if (target.head_dim_k[o] != draft.head_dim_k[layer] || target.head_dim_v[o] != draft.head_dim_v[layer]) {
            return misfit(
                fmt::format("layer {} of the drafter reads keys of {} and values of {}, the target's layer "
                            "{} has {} and {}",
                            layer, draft.head_dim_k[layer], draft.head_dim_v[layer], owner, target.head_dim_k[o],
                            target.head_dim_v[o]));
        }
        if (draft.n_head[layer] % target.n_head_kv[o] != 0) {
            return misfit(
                fmt::format("layer {} of the drafter has {} heads, no multiple of the {} key heads of the "
                            "target's layer {}",
                            layer, draft.n_head[layer], target.n_head_kv[o], owner));
        }
        (sliding ? layers.sliding : layers.full) = owner;
    }
    return layers;
}

Result<std::unique_ptr<Drafter>> DraftAssistant::create(const FeatureDrafterSetup& setup) {
    const model::Hparams& target = setup.target->hparams();
    FORESAY_TRY(const AssistantLayers layers, match_assistant(target, setup.draft->hparams()));
    FORESAY_TRY(auto net, Net::create(setup.draft, setup.target, *setup.backend, {}, setup.net));
    std::unique_ptr<DraftAssistant> drafter(
        new DraftAssistant(std::move(net), static_cast<size_t>(target.n_embd), setup));
    drafter->layers_ = layers;
    return std::unique_ptr<Drafter>(std::move(drafter));
}

model::TapSpec DraftAssistant::taps() const {
    model::TapSpec spec;
    spec.hidden = true;
    return spec;
}

void DraftAssistant::copy_row(const model::Runner& target, size_t i_row, std::span<float> row) const {
    const auto from = target.hidden().subspan(i_row * row.size(), row.size());
    std::copy(from.begin(), from.end(), row.begin());
}

void DraftAssistant::build(NetGraph& g, int32_t n) const {
    auto& b = g.b();
    const model::Hparams& h = g.hparams();
    const TensorId hidden = g.floats("hidden", h.drafter.n_embd_target, n);
    const TensorId tokens = g.ints("tokens", n);
    const TensorId pos = g.ints("pos", n);
    const TensorId base = g.ints("base", n);
    const TensorId last = g.ints("last", n);
    const TensorId sliding_base = g.ints("sliding_base", n);
    const TensorId sliding_last = g.ints("sliding_last", n);
    // The target's embedding with the target's scale: the root of its width.
    const TensorId embedded = b.scale(b.get_rows(g.target_weight("token_embd.weight"), tokens),
                                      std::sqrt(static_cast<float>(h.drafter.n_embd_target)));
    TensorId u = g.linear("nextn.pre_projection", g.concat(embedded, hidden));
    for (int layer = 0; layer < h.n_layer; ++layer) {
        const auto l = static_cast<size_t>(layer);
        const bool sliding = h.is_sliding[l];
        const int owner = sliding ? layers_.sliding : layers_.full;
        const TensorId heads =
            b.reshape(g.linear(layer, "attn_q", g.norm(layer, "attn_norm", u)), {h.head_dim_k[l], h.n_head[l], n, 1});
        const TensorId q = g.rope(layer, g.norm(layer, "attn_q_norm", heads), pos,
                                  sliding ? kNoTensor : g.weight("rope_freqs.weight"));
        graph::AttentionParams params;
        params.n_head_kv = static_cast<int32_t>(kv_.k(owner)->ne[0] / h.head_dim_k[l]);
        params.scale = 1.0F;
        const TensorId a = b.attention(q, g.state(fmt::format("target_k.{}", owner), kv_.k(owner)),
                                       g.state(fmt::format("target_v.{}", owner), kv_.v(owner)),
                                       sliding ? sliding_last : last, sliding ? sliding_base : base, params);
        u = b.add(g.norm(layer, "post_attention_norm", g.linear(layer, "attn_output", a)), u);
        const TensorId f = g.norm(layer, "ffn_norm", u);
        const TensorId inner = b.geglu(g.linear(layer, "ffn_gate", f), g.linear(layer, "ffn_up", f));
        u = b.add(g.norm(layer, "post_ffw_norm", g.linear(layer, "ffn_down", inner)), u);
        u = b.scale(u, g.scalar(fmt::format("blk.{}.layer_output_scale.weight", layer), 1.0F));
    }
    const TensorId y = g.norm(u, "output_norm.weight");
    g.output(b.mul_mat(g.weight("token_embd.weight"), y));
    g.output(g.linear("nextn.post_projection", y));
}

Status DraftAssistant::draft_all(std::vector<Active>& active) {
    const auto width = static_cast<size_t>(net().target().hparams().n_embd);
    const auto n_vocab = static_cast<size_t>(net().draft().hparams().n_vocab);
    const int32_t window = net().draft().hparams().sliding_window;
    std::vector<Active*> drafting;
    drafting.reserve(active.size());
    std::vector<float> hidden;
    std::vector<TokenId> tokens;
    for (Active& a : active) {
        a.log->mark_stored(a.cell - 1);
        const auto row = a.log->row(a.cell - 1);
        hidden.insert(hidden.end(), row.begin(), row.end());
        tokens.push_back(a.last());
        drafting.push_back(&a);
    }
    for (int32_t i_draft = 0; !drafting.empty(); ++i_draft) {
        const auto n = static_cast<int32_t>(drafting.size());
        FORESAY_TRY(NetPass pass, net().pass(pass_key(1, n, n), [&](NetGraph& g) { build(g, n); }));
        std::copy(hidden.begin(), hidden.end(), pass.floats(kHidden).begin());
        for (size_t k = 0; k < drafting.size(); ++k) {
            const Active& a = *drafting[k];
            // Every step stands at the last token's position and sees what lies before it in the target's cache.
            const auto p0 = static_cast<int32_t>(a.request->tokens.size()) - 1;
            const int32_t begin = std::max(0, p0 - window + 1);
            pass.ints(kTokens)[k] = tokens[k];
            pass.ints(kPos)[k] = p0;
            pass.ints(kBase)[k] = kv_.first_cell(a.slot());
            pass.ints(kLast)[k] = p0 - 1;
            pass.ints(kSlidingBase)[k] = kv_.first_cell(a.slot()) + begin;
            pass.ints(kSlidingLast)[k] = p0 - 1 - begin;
        }
        FORESAY_CHECK_OK(net().run(pass));
        const auto logits = pass.output(0);
        const auto fed_back = pass.output(1);
        std::vector<Active*> still;
        hidden.clear();
        tokens.clear();
        for (size_t k = 0; k < drafting.size(); ++k) {
            Active& a = *drafting[k];
            if (const auto id = take_next(a, i_draft, logits.subspan(k * n_vocab, n_vocab))) {
                const auto from = fed_back.subspan(k * width, width);
                hidden.insert(hidden.end(), from.begin(), from.end());
                tokens.push_back(*id);
                still.push_back(&a);
            }
        }
        drafting = std::move(still);
    }
    return ok();
}

}  // namespace foresay::spec
