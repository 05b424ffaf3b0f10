#include "spec/drafters/draft_nextn.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/graph_context.h"

namespace foresay::spec {
namespace {

enum Input : size_t { kHidden = 0, kTokens = 1, kPos = 2, kCells = 3, kBase = 4, kOutRows = 5 };

void build(NetGraph& g, const Net& net, int32_t n, int32_t n_outputs) {
    const model::Model& model = net.draft();
    const model::Hparams& h = model.hparams();
    const int block = h.n_layer - 1;
    model::GraphContext ctx(model, net.kv(), nullptr, {n, n_outputs});
    g.work_on(ctx.b());
    auto& b = ctx.b();
    const TensorId hidden = g.floats("hidden", h.n_embd, n);
    const model::GraphIo& io = ctx.io();
    for (const TensorId input : {io.tokens, io.pos, io.kv_rows, io.kv_base}) {
        g.use_input(input);
    }
    if (io.out_rows != kNoTensor) {
        g.use_input(io.out_rows);
    }
    const auto own_or = [&](const char* own, const char* shared) {
        const TensorId weight = ctx.weight(block, own);
        return weight != kNoTensor ? weight : ctx.weight(shared);
    };
    const TensorId embedded = b.get_rows(own_or("nextn.embed_tokens.weight", "token_embd.weight"), io.tokens);
    const TensorId pair = g.concat(b.rms_norm(embedded, ctx.weight(block, "nextn.enorm.weight"), h.rms_eps),
                                   b.rms_norm(hidden, ctx.weight(block, "nextn.hnorm.weight"), h.rms_eps));
    TensorId z = b.mul_mat(ctx.weight(block, "nextn.eh_proj.weight"), pair);
    z = model.architecture().build_layer(ctx, block, z);
    const TensorId y = b.rms_norm(z, own_or("nextn.shared_head_norm.weight", "output_norm.weight"), h.rms_eps);
    TensorId head = own_or("nextn.shared_head_head.weight", "output.weight");
    if (head == kNoTensor) {
        head = ctx.weight("token_embd.weight");
    }
    g.output(b.mul_mat(head, y));
    g.output(y);
    g.adopt(std::move(ctx.b()));
}

}  // namespace

Result<std::unique_ptr<Drafter>> DraftNextn::create(const FeatureDrafterSetup& setup) {
    const model::Hparams& h = setup.draft->hparams();
    if (setup.draft->architecture().build_layer == nullptr) {
        return error(Code::kUnsupported, fmt::format("draft-mtp is not supported for {} models", h.arch),
                     "--spec-type");
    }
    std::vector<memory::KvLayer> layers(static_cast<size_t>(h.n_layer));
    layers.back() = cache_layers(h).back();
    FORESAY_TRY(auto net, Net::create(setup.draft, setup.target, *setup.backend, std::move(layers), setup.net));
    const auto width = static_cast<size_t>(h.n_embd);
    return std::unique_ptr<Drafter>(new DraftNextn(std::move(net), width, setup));
}

model::TapSpec DraftNextn::taps() const {
    model::TapSpec spec;
    spec.hidden = true;
    return spec;
}

void DraftNextn::copy_row(const model::Runner& target, size_t i_row, std::span<float> row) const {
    const auto from = target.hidden().subspan(i_row * row.size(), row.size());
    std::copy(from.begin(), from.end(), row.begin());
}

Result<NetPass> DraftNextn::run(const std::vector<Row>& rows) {
    const auto n = static_cast<int32_t>(rows.size());
    int32_t n_outputs = 0;
    for (const Row& row : rows) {
        n_outputs += row.is_output ? 1 : 0;
    }
    // A pass that only stores ends in one output that nobody reads.
    n_outputs = std::max(1, n_outputs);
    FORESAY_TRY(NetPass pass,
                net().pass(pass_key(1, n, n_outputs), [&](NetGraph& g) { build(g, net(), n, n_outputs); }));
    size_t n_out = 0;
    const size_t width = zeros_.size();
    for (size_t i = 0; i < rows.size(); ++i) {
        const Row& row = rows[i];
        const int32_t first = net().kv().first_cell(row.slot);
        std::copy(row.hidden.begin(), row.hidden.end(),
                  pass.floats(kHidden).begin() + static_cast<ptrdiff_t>(i * width));
        pass.ints(kTokens)[i] = row.token;
        pass.ints(kPos)[i] = row.cell;
        pass.ints(kCells)[i] = first + row.cell;
        pass.ints(kBase)[i] = first;
        if (row.is_output && n_outputs < n) {
            pass.ints(kOutRows)[n_out++] = static_cast<int32_t>(i);
        }
    }
    if (n_out == 0 && n_outputs < n) {
        pass.ints(kOutRows)[0] = n - 1;
    }
    FORESAY_CHECK_OK(net().run(pass));
    return pass;
}

Status DraftNextn::store(std::span<const Pending> cells) {
    std::vector<Row> rows;
    for (const Pending& p : cells) {
        if (p.cell == 0) {
            rows.push_back({log_of(p.slot).token(0), 0, p.slot, zeros_, false});
        }
        rows.push_back({p.next, p.cell + 1, p.slot, p.row, false});
    }
    FORESAY_TRY([[maybe_unused]] const NetPass pass, run(rows));
    return ok();
}

Status DraftNextn::draft_all(std::vector<Active>& active) {
    std::vector<Row> rows;
    for (const Active& a : active) {
        for (int32_t cell = a.log->n_stored(); cell < a.cell; ++cell) {
            if (cell == 0) {
                rows.push_back({a.log->token(0), 0, a.slot(), zeros_, false});
            }
            const TokenId next = a.request->tokens[static_cast<size_t>(a.log->base() + cell) + 1];
            rows.push_back({next, cell + 1, a.slot(), a.log->row(cell), cell + 1 == a.cell});
        }
    }
    FORESAY_TRY(NetPass pass, run(rows));
    for (const Active& a : active) {
        a.log->mark_stored(a.cell);
    }
    const auto n_vocab = static_cast<size_t>(net().draft().hparams().n_vocab);
    const size_t width = zeros_.size();
    std::vector<Active*> drafting;
    drafting.reserve(active.size());
    for (Active& a : active) {
        drafting.push_back(&a);
    }
    std::vector<float> fed_back;
    for (int32_t i_draft = 0; !drafting.empty(); ++i_draft) {
        const auto logits = pass.output(0);
        const auto hidden = pass.output(1);
        std::vector<Active*> still;
        std::vector<Row> next;
        // Outputs are overwritten by the next pass: its inputs are copied first.
        fed_back.assign(hidden.begin(), hidden.end());
        for (size_t k = 0; k < drafting.size(); ++k) {
            Active& a = *drafting[k];
            if (const auto id = take_next(a, i_draft, logits.subspan(k * n_vocab, n_vocab))) {
                next.push_back({*id, a.cell + 1 + i_draft, a.slot(),
                                std::span<const float>(fed_back).subspan(k * width, width), true});
                still.push_back(&a);
            }
        }
        drafting = std::move(still);
        if (!drafting.empty()) {
            FORESAY_TRY(pass, run(next));
        }
    }
    return ok();
}

}  // namespace foresay::spec
