#include "spec/drafters/draft_eagle3.h"

#include <algorithm>

namespace foresay::spec {
namespace {

enum Kind : uint32_t { kStep = 1, kEncode = 2, kStore = 3 };

/// Inputs of a pass, in the order in which build() makes them.
enum Input : size_t { kRows = 0, kTokens = 1, kPos = 2, kCells = 3, kBase = 4, kOutRows = 5 };

/// encode: the input rows are the target's (three taps side by side), else the decoder's own output of the step before.
void build(NetGraph& g, int32_t n, int32_t n_outputs, bool encode, bool store_only) {
    auto& b = g.b();
    const model::Hparams& h = g.hparams();
    const model::DrafterHparams& d = h.drafter;
    const int64_t D = h.head_dim_k[0];
    const TensorId rows = g.floats("rows", encode ? int64_t{3} * d.n_embd_target : h.n_embd, n);
    const TensorId tokens = g.ints("tokens", n);
    const TensorId pos = g.ints("pos", n);
    const TensorId cells = g.ints("cells", n);
    TensorId x = rows;
    if (encode) {
        x = g.linear("fc", d.norm_before_fc ? g.norm(x, "enc.output_norm.weight") : x);
    }
    const TensorId normed = g.norm(0, "attn_norm_2", x);
    const TensorId both = g.concat(g.norm(0, "attn_norm", g.embed(tokens)), normed);
    const TensorId factors = g.weight("rope_freqs.weight");
    const TensorId k = g.rope(0, b.reshape(g.linear(0, "attn_k", both), {D, h.n_head_kv[0], n, 1}), pos, factors);
    const auto stored = g.store(0, k, g.linear(0, "attn_v", both), cells);
    if (store_only) {
        return;
    }
    const TensorId base = g.ints("base", n);
    const TensorId q = g.rope(0, b.reshape(g.linear(0, "attn_q", both), {D, h.n_head[0], n, 1}), pos, factors);
    graph::AttentionParams params;
    params.n_head_kv = h.n_head_kv[0];
    params.scale = h.scale_of(0);
    TensorId attn = b.attention(q, stored.k, stored.v, pos, base, params);
    TensorId residual = d.norm_before_residual ? normed : x;
    if (n_outputs < n) {
        const TensorId out_rows = g.ints("out_rows", n_outputs);
        attn = b.get_rows(attn, out_rows);
        residual = b.get_rows(residual, out_rows);
    }
    TensorId u = b.add(g.linear(0, "attn_output", attn), residual);
    const TensorId f = g.norm(0, "ffn_norm", u);
    u = b.add(g.linear(0, "ffn_down", b.swiglu(g.linear(0, "ffn_gate", f), g.linear(0, "ffn_up", f))), u);
    g.output(g.head(g.norm(u, "output_norm.weight"), false));
    g.output(u);
}

}  // namespace

Result<std::unique_ptr<Drafter>> DraftEagle3::create(const FeatureDrafterSetup& setup) {
    const model::Hparams& h = setup.draft->hparams();
    FORESAY_TRY(auto net, Net::create(setup.draft, setup.target, *setup.backend, cache_layers(h), setup.net));
    const auto width = h.drafter.target_layers.size() * static_cast<size_t>(h.drafter.n_embd_target);
    std::unique_ptr<DraftEagle3> drafter(new DraftEagle3(std::move(net), width, setup));
    FORESAY_TRY(drafter->d2t_, read_d2t(*setup.draft, setup.target->hparams().n_vocab));
    return std::unique_ptr<Drafter>(std::move(drafter));
}

model::TapSpec DraftEagle3::taps() const {
    model::TapSpec spec;
    spec.layers = net().draft().hparams().drafter.target_layers;
    return spec;
}

Result<NetPass> DraftEagle3::make_pass(const Rows& rows, bool encode, bool store_only) {
    const auto n = static_cast<int32_t>(rows.tokens.size());
    const auto n_outputs = static_cast<int32_t>(rows.outputs.size());
    const Kind kind = store_only ? kStore : encode ? kEncode : kStep;
    return net().pass(pass_key(kind, n, n_outputs), [&](NetGraph& g) { build(g, n, n_outputs, encode, store_only); });
}

void DraftEagle3::fill(NetPass& pass, const Rows& rows, bool store_only) {
    for (size_t i = 0; i < rows.tokens.size(); ++i) {
        const int32_t first = net().kv().first_cell(rows.slots[i]);
        pass.ints(kTokens)[i] = rows.tokens[i];
        pass.ints(kPos)[i] = rows.cells[i];
        pass.ints(kCells)[i] = first + rows.cells[i];
        if (!store_only) {
            pass.ints(kBase)[i] = first;
        }
    }
    if (!store_only && rows.outputs.size() < rows.tokens.size()) {
        std::copy(rows.outputs.begin(), rows.outputs.end(), pass.ints(kOutRows).begin());
    }
}

Status DraftEagle3::store(std::span<const Pending> cells) {
    Rows rows;
    for (const Pending& p : cells) {
        rows.tokens.push_back(p.next);
        rows.cells.push_back(p.cell);
        rows.slots.push_back(p.slot);
    }
    FORESAY_TRY(NetPass pass, make_pass(rows, true, true));
    fill(pass, rows, true);
    const auto to = pass.floats(kRows);
    for (size_t i = 0; i < cells.size(); ++i) {
        std::copy(cells[i].row.begin(), cells[i].row.end(),
                  to.begin() + static_cast<ptrdiff_t>(i * cells[i].row.size()));
    }
    return net().run(pass);
}

Status DraftEagle3::draft_all(std::vector<Active>& active) {
    Rows rows;
    for (const Active& a : active) {
        for (int32_t cell = a.log->n_stored(); cell < a.cell; ++cell) {
            rows.tokens.push_back(a.request->tokens[static_cast<size_t>(a.log->base() + cell) + 1]);
            rows.cells.push_back(cell);
            rows.slots.push_back(a.slot());
        }
        rows.outputs.push_back(static_cast<int32_t>(rows.tokens.size()) - 1);
    }
    FORESAY_TRY(NetPass pass, make_pass(rows, true, false));
    fill(pass, rows, false);
    size_t i_row = 0;
    for (Active& a : active) {
        for (int32_t cell = a.log->n_stored(); cell < a.cell; ++cell, ++i_row) {
            const auto row = a.log->row(cell);
            std::copy(row.begin(), row.end(), pass.floats(kRows).begin() + static_cast<ptrdiff_t>(i_row * row.size()));
        }
    }
    FORESAY_CHECK_OK(net().run(pass));
    for (const Active& a : active) {
        a.log->mark_stored(a.cell);
    }

    const auto n_vocab = static_cast<size_t>(net().draft().hparams().drafter.n_vocab_draft);
    const auto width = static_cast<size_t>(net().draft().hparams().n_embd);
    std::vector<Active*> drafting;
    drafting.reserve(active.size());
    for (Active& a : active) {
        drafting.push_back(&a);
    }
    std::vector<float> carried;
    for (int32_t i_draft = 0; !drafting.empty(); ++i_draft) {
        const auto logits = pass.output(0);
        const auto hidden = pass.output(1);
        std::vector<Active*> still;
        Rows next;
        carried.clear();
        for (size_t k = 0; k < drafting.size(); ++k) {
            Active& a = *drafting[k];
            if (const auto id = take_next(a, i_draft, logits.subspan(k * n_vocab, n_vocab))) {
                next.tokens.push_back(*id);
                next.cells.push_back(a.cell + i_draft);
                next.slots.push_back(a.slot());
                next.outputs.push_back(static_cast<int32_t>(next.tokens.size()) - 1);
                const auto from = hidden.subspan(k * width, width);
                carried.insert(carried.end(), from.begin(), from.end());
                still.push_back(&a);
            }
        }
        drafting = std::move(still);
        if (drafting.empty()) {
            break;
        }
        FORESAY_TRY(pass, make_pass(next, false, false));
        fill(pass, next, false);
        std::copy(carried.begin(), carried.end(), pass.floats(kRows).begin());
        FORESAY_CHECK_OK(net().run(pass));
    }
    return ok();
}

}  // namespace foresay::spec
