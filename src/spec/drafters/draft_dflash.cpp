#include "spec/drafters/draft_dflash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "spec/drafters/choice.h"
#include "spec/drafters/dflash_graph.h"
#include "tensor/dequant.h"

namespace foresay::spec {
namespace {

/// A row of a table in the drafter's file, as floats. The file stays mapped; the type was checked when it was loaded.
/// A row outside of it (a padded vocabulary) is zeros, as in the graphs.
void read_row(const gguf::TensorInfo& tensor, int64_t row, std::vector<float>& to) {
    const DType dtype = *dtype_from_gguf(tensor.type);
    to.assign(static_cast<size_t>(tensor.ne[0]), 0.0F);
    if (row < 0 || row >= tensor.ne[1]) {
        return;
    }
    dequantize_row(dtype, tensor.data.data() + static_cast<size_t>(row) * row_bytes(dtype, tensor.ne[0]), to.data(),
                   tensor.ne[0]);
}

}  // namespace

Result<std::unique_ptr<Drafter>> DraftDflash::create(std::string_view type, const FeatureDrafterSetup& setup) {
    const model::Hparams& h = setup.draft->hparams();
    const bool wants_markov = type == "draft-dspark";
    if (wants_markov != (h.drafter.markov_rank > 0)) {
        return error(Code::kInvalidArgument, fmt::format("the file {} a Markov head", wants_markov ? "lacks" : "has"),
                     "--spec-type", fmt::format("use --spec-type {}", wants_markov ? "draft-dflash" : "draft-dspark"));
    }
    FORESAY_TRY(auto net, Net::create(setup.draft, setup.target, *setup.backend, cache_layers(h), setup.net));
    const size_t width = h.drafter.target_layers.size() * static_cast<size_t>(h.n_embd);
    std::unique_ptr<DraftDflash> drafter(new DraftDflash(std::move(net), width, setup));
    FORESAY_TRY(drafter->d2t_, read_d2t(*setup.draft, setup.target->hparams().n_vocab));
    FORESAY_CHECK_OK(drafter->load_extras());
    if (wants_markov) {
        NetOptions options = setup.net;
        options.label += ", Markov head";
        FORESAY_TRY(drafter->markov_, Net::create(setup.draft, setup.target, *setup.backend, {}, options));
    }
    return std::unique_ptr<Drafter>(std::move(drafter));
}

Status DraftDflash::load_extras() {
    const gguf::File& file = net().draft().file();
    const int64_t width = net().draft().hparams().n_embd;
    const gguf::TensorInfo* weight = is_dspark() ? file.tensor("conf_proj.weight") : nullptr;
    if (weight != nullptr) {
        const auto dtype = dtype_from_gguf(weight->type);
        if (weight->ne[0] != width + params().markov_rank || weight->ne[1] != 1 || !dtype ||
            !dtype_info(*dtype).is_weight) {
            return error(
                Code::kBadFile,
                fmt::format("shape [{}, {}] or type isn't one of a confidence head", weight->ne[0], weight->ne[1]),
                "conf_proj.weight");
        }
        read_row(*weight, 0, confidence_);
        confidence_.push_back(scalar_or(net().draft(), "conf_proj.bias", 0.0F));
    }
    return load_conv_bases(net());
}

model::TapSpec DraftDflash::taps() const {
    model::TapSpec spec;
    spec.layers = params().target_layers;
    return spec;
}

int32_t DraftDflash::n_max_limit() const {
    return params().block_size - first_slot();
}

Status DraftDflash::check_p_min(float p_min) const {
    if (is_dspark() && !has_confidence() && p_min > 0.0F) {
        return error(Code::kInvalidArgument,
                     fmt::format("{} is a confidence floor, but this dspark drafter has no confidence head", p_min),
                     "--spec-draft-p-min", "leave it at 0");
    }
    return ok();
}

Status DraftDflash::store(std::span<const Pending> cells) {
    const auto n = static_cast<int32_t>(cells.size());
    FORESAY_TRY(NetPass pass, net().pass(pass_key(kDflashInject, n, 0), [n](NetGraph& g) { build_injection(g, n); }));
    const auto rows = pass.floats(0);
    for (size_t i = 0; i < cells.size(); ++i) {
        const Pending& p = cells[i];
        std::copy(p.row.begin(), p.row.end(), rows.begin() + static_cast<ptrdiff_t>(i * p.row.size()));
        pass.ints(1)[i] = p.cell;
        pass.ints(2)[i] = net().kv().first_cell(p.slot) + p.cell;
    }
    return net().run(pass);
}

Result<NetPass> DraftDflash::run_blocks(const std::vector<Active>& active, std::vector<int32_t>& n_slots) {
    int32_t n_rows = 0;
    int32_t n_outputs = 0;
    for (const Active& a : active) {
        // The whole block that was trained for, or what the settings ask of it; a room that ends cuts the result.
        const int32_t n_predicted = a.n_block;
        n_slots.push_back(n_predicted + first_slot());
        n_rows += n_slots.back();
        n_outputs += n_predicted;
    }
    const bool with_hidden = has_confidence();
    FORESAY_TRY(NetPass pass, net().pass(pass_key(kDflashBlock, n_rows, n_outputs),
                                         [&](NetGraph& g) { build_block(g, n_rows, n_outputs, with_hidden); }));
    const bool sliding = has_sliding_layers(net().draft().hparams());
    const int32_t window = net().draft().hparams().sliding_window;
    size_t row = 0;
    size_t out = 0;
    for (size_t s = 0; s < active.size(); ++s) {
        const Active& a = active[s];
        const int32_t first = net().kv().first_cell(a.slot());
        const int32_t end = a.cell + n_slots[s] - 1;
        for (int32_t i = 0; i < n_slots[s]; ++i, ++row) {
            const int32_t cell = a.cell + i;
            const int32_t last = params().causal ? cell : end;
            pass.ints(kBlockTokens)[row] = i == 0 ? a.last() : params().mask_token;
            pass.ints(kBlockPos)[row] = cell;
            pass.ints(kBlockCells)[row] = first + cell;
            pass.ints(kBlockBase)[row] = first;
            pass.ints(kBlockLast)[row] = last;
            if (sliding) {
                // A window hides the past of the slot's own position, not of the block's end: a range of its own.
                const int32_t begin = std::max(0, cell - window + 1);
                pass.ints(kBlockSlidingBase)[row] = first + begin;
                pass.ints(kBlockSlidingLast)[row] = last - begin;
            }
            if (i >= first_slot()) {
                pass.ints(kBlockOutRows)[out++] = static_cast<int32_t>(row);
            }
        }
    }
    if (params().conv_kernel > 0) {
        row = 0;
        for (size_t s = 0; s < active.size(); ++s) {
            for (int32_t i = 0; i < n_slots[s]; ++i, ++row) {
                for (int32_t tau = 1; tau < params().conv_kernel; ++tau) {
                    const size_t input = first_shift_input(net().draft().hparams()) + static_cast<size_t>(tau) - 1;
                    pass.ints(input)[row] = i >= tau ? static_cast<int32_t>(row) - tau : -1;
                }
            }
        }
    }
    FORESAY_CHECK_OK(net().run(pass));
    return pass;
}

Status DraftDflash::draft_all(std::vector<Active>& active) {
    std::vector<int32_t> n_slots;
    FORESAY_TRY(NetPass pass, run_blocks(active, n_slots));
    const auto n_vocab = static_cast<size_t>(params().n_vocab_draft);
    const auto width = static_cast<size_t>(net().draft().hparams().n_embd);
    const auto rank = static_cast<size_t>(params().selector_rank);
    std::vector<Block> blocks;
    size_t at = 0;
    for (size_t s = 0; s < active.size(); ++s) {
        Block block;
        block.n = n_slots[s] - first_slot();
        const auto n = static_cast<size_t>(block.n);
        block.logits = pass.output(0).subspan(at * n_vocab, n * n_vocab);
        if (has_confidence()) {
            block.hidden = pass.output(1).subspan(at * width, n * width);
        }
        if (has_selector()) {
            block.gates = pass.output(has_confidence() ? 2 : 1).subspan(at * rank, n * rank);
        }
        at += n;
        blocks.push_back(block);
    }
    if (is_dspark()) {
        return walk_markov(active, blocks);
    }
    for (size_t s = 0; s < active.size(); ++s) {
        if (has_selector()) {
            walk_selector(active[s], blocks[s]);
        } else {
            walk_plain(active[s], blocks[s]);
        }
    }
    return ok();
}

void DraftDflash::walk_plain(Active& a, const Block& block) {
    const auto n_vocab = static_cast<size_t>(params().n_vocab_draft);
    for (int32_t i = 0; i < std::min(a.n_max, block.n); ++i) {
        const auto row = block.logits.subspan(static_cast<size_t>(i) * n_vocab, n_vocab);
        probe(a.slot(), i, row);
        const TenBest best = ten_best(row);
        if (best.n == 0 || best.top_share() < a.request->p_min) {
            return;
        }
        const TokenId id = target_id(best.ids[0]);
        if (id >= target_n_vocab()) {
            return;
        }
        a.draft->tokens.push_back(id);
        if (!goes_on(id)) {
            return;
        }
    }
}

void DraftDflash::walk_selector(Active& a, const Block& block) {
    const gguf::File& file = net().draft().file();
    const gguf::TensorInfo& predecessors = *file.tensor("selector_predecessor.weight");
    const gguf::TensorInfo& successors = *file.tensor("selector_successor.weight");
    const auto n_vocab = static_cast<size_t>(params().n_vocab_draft);
    const auto rank = static_cast<size_t>(params().selector_rank);
    const auto n_candidates = static_cast<size_t>(params().selector_top_k);
    std::vector<float> before;
    std::vector<float> behind;
    std::vector<int32_t> order(n_vocab);
    std::vector<float> scores(n_candidates);
    TokenId previous = a.last();
    for (int32_t i = 0; i < std::min(a.n_max, block.n); ++i) {
        const auto row = block.logits.subspan(static_cast<size_t>(i) * n_vocab, n_vocab);
        const auto gate = block.gates.subspan(static_cast<size_t>(i) * rank, rank);
        for (size_t k = 0; k < n_vocab; ++k) {
            order[k] = static_cast<int32_t>(k);
        }
        const size_t n = std::min(n_candidates, n_vocab);
        const auto better = [&](int32_t x, int32_t y) {
            const float lx = row[static_cast<size_t>(x)];
            const float ly = row[static_cast<size_t>(y)];
            return lx > ly || (lx == ly && x < y);
        };
        if (std::any_of(row.begin(), row.end(), [](float v) { return std::isnan(v); })) {
            return;  // no order among such rows
        }
        std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(n), order.end(), better);
        read_row(predecessors, previous, before);
        size_t best = 0;
        for (size_t c = 0; c < n; ++c) {
            const TokenId id = target_id(order[c]);
            read_row(successors, id, behind);
            float dot = 0.0F;
            for (size_t k = 0; k < rank; ++k) {
                dot += behind[k] * (before[k] * gate[k]);
            }
            scores[c] = dot + row[static_cast<size_t>(order[c])];
            best = scores[c] > scores[best] ? c : best;
        }
        probe(a.slot(), i, std::span<const float>(scores).first(n));
        double total = 0.0;
        for (size_t c = 0; c < n; ++c) {
            total += std::exp(static_cast<double>(scores[c]) - scores[best]);
        }
        if (1.0 / total < a.request->p_min) {
            return;
        }
        previous = target_id(order[best]);
        if (previous >= target_n_vocab()) {
            return;
        }
        a.draft->tokens.push_back(previous);
        if (!goes_on(previous)) {
            return;
        }
    }
}

float DraftDflash::confidence(std::span<const float> hidden, std::span<const float> markov_row) const {
    float sum = 0.0F;
    for (size_t k = 0; k < hidden.size(); ++k) {
        sum += confidence_[k] * hidden[k];
    }
    for (size_t k = 0; k < markov_row.size(); ++k) {
        sum += confidence_[hidden.size() + k] * markov_row[k];
    }
    return 1.0F / (1.0F + std::exp(-(sum + confidence_.back())));
}

Status DraftDflash::walk_markov(std::vector<Active>& active, const std::vector<Block>& blocks) {
    const auto n_vocab = static_cast<size_t>(params().n_vocab_draft);
    const auto width = static_cast<size_t>(net().draft().hparams().n_embd);
    const auto rank = static_cast<size_t>(params().markov_rank);
    std::vector<size_t> walking;
    std::vector<TokenId> previous;
    for (size_t s = 0; s < active.size(); ++s) {
        walking.push_back(s);
        previous.push_back(active[s].last());
    }
    biased_.resize(n_vocab);
    for (int32_t i = 0; !walking.empty(); ++i) {
        const auto n = static_cast<int32_t>(walking.size());
        FORESAY_TRY(NetPass pass,
                    markov_->pass(pass_key(kDflashMarkov, n, n), [n](NetGraph& g) { build_markov(g, n); }));
        for (size_t k = 0; k < walking.size(); ++k) {
            pass.ints(0)[k] = previous[walking[k]];
        }
        FORESAY_CHECK_OK(markov_->run(pass));
        std::vector<size_t> still;
        for (size_t k = 0; k < walking.size(); ++k) {
            const size_t s = walking[k];
            Active& a = active[s];
            const auto slot = static_cast<size_t>(i);
            const auto row = blocks[s].logits.subspan(slot * n_vocab, n_vocab);
            const auto bias = pass.output(0).subspan(k * n_vocab, n_vocab);
            for (size_t v = 0; v < n_vocab; ++v) {
                biased_[v] = row[v] + bias[v];
            }
            probe(a.slot(), i, biased_);
            if (has_confidence() && confidence(blocks[s].hidden.subspan(slot * width, width),
                                               pass.output(1).subspan(k * rank, rank)) < a.request->p_min) {
                continue;
            }
            const TenBest best = ten_best(biased_);
            const TokenId id = best.n == 0 ? vocab::kNoToken : target_id(best.ids[0]);
            if (id < 0 || id >= target_n_vocab()) {
                continue;
            }
            a.draft->tokens.push_back(id);
            previous[s] = id;
            if (i + 1 < std::min(a.n_max, blocks[s].n) && goes_on(id)) {
                still.push_back(s);
            }
        }
        walking = std::move(still);
    }
    return ok();
}

}  // namespace foresay::spec
