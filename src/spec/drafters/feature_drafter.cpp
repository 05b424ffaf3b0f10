#include "spec/drafters/feature_drafter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "spec/drafters/choice.h"
#include "spec/drafters/slot_state.h"

namespace foresay::spec {
namespace {

// Rows wait for the next proposal, so that rejected ones are never computed; a slot that isn't drafted for, or a
// prompt, would pile them up: from this many on they are stored when the next pass shows that they stand.
constexpr int32_t kMaxPending = 64;

constexpr int32_t kGgufI64 = 27;

}  // namespace

Result<std::vector<TokenId>> read_d2t(const model::Model& draft, int32_t n_vocab_target) {
    std::vector<TokenId> map;
    const gguf::TensorInfo* tensor = draft.file().tensor("d2t");
    if (tensor == nullptr) {
        return map;
    }
    if (tensor->type != kGgufI64) {
        return error(Code::kBadFile, fmt::format("tensor type id {}, expected I64", tensor->type), "d2t");
    }
    for (int64_t i = 0; i < tensor->ne[0]; ++i) {
        int64_t id = 0;
        std::memcpy(&id, tensor->data.data() + static_cast<size_t>(i) * sizeof(id), sizeof(id));
        if (id < 0 || id >= n_vocab_target) {
            return error(Code::kBadFile,
                         fmt::format("row {} stands for token {}, the target has {}", i, id, n_vocab_target), "d2t");
        }
        map.push_back(static_cast<TokenId>(id));
    }
    return map;
}

FeatureDrafter::FeatureDrafter(std::unique_ptr<Net> net, size_t row_width, const FeatureDrafterSetup& setup)
    : net_(std::move(net)),
      logs_(static_cast<size_t>(setup.net.n_slots), FeatureLog(row_width)),
      target_vocab_(setup.target->vocab()),
      n_vocab_target_(setup.target->hparams().n_vocab),
      n_ubatch_(std::max(1, setup.n_ubatch)),
      n_ctx_(setup.net.n_ctx_slot),
      n_max_(setup.n_max),
      noise_(static_cast<size_t>(setup.net.n_slots)) {}

void FeatureDrafter::copy_row(const model::Runner& target, size_t i_row, std::span<float> row) const {
    const auto width = static_cast<size_t>(target.model().hparams().n_embd);
    for (size_t i = 0; i < target.taps().layers.size(); ++i) {
        const auto from = target.tap(i).subspan(i_row * width, width);
        std::copy(from.begin(), from.end(), row.begin() + static_cast<ptrdiff_t>(i * width));
    }
}

Status FeatureDrafter::observe(std::span<const model::Row> rows, const model::Runner& target) {
    for (size_t first = 0; first < rows.size();) {
        size_t end = first + 1;
        while (end < rows.size() && rows[end].slot == rows[first].slot) {
            ++end;
        }
        FeatureLog& log = log_of(rows[first].slot);
        log.rewind_to(rows[first].pos);
        if (log.n_pending() >= kMaxPending) {
            std::vector<Pending> cells;
            for (int32_t cell = log.n_stored(); cell < log.n_known(); ++cell) {
                const TokenId next = cell + 1 < log.n_known() ? log.token(cell + 1) : rows[first].token;
                cells.push_back({rows[first].slot, cell, next, log.row(cell)});
            }
            for (size_t at = 0; at < cells.size(); at += static_cast<size_t>(n_ubatch_)) {
                FORESAY_CHECK_OK(
                    store(std::span(cells).subspan(at, std::min(cells.size() - at, static_cast<size_t>(n_ubatch_)))));
            }
            log.mark_stored(log.n_known());
        }
        for (size_t i = first; i < end; ++i) {
            copy_row(target, i, log.append(rows[i].pos, rows[i].token));
        }
        first = end;
    }
    return ok();
}

Status FeatureDrafter::propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) {
    drafts.assign(requests.size(), Draft{});
    const auto forget = [&](Status status) {
        for (const DraftRequest& request : requests) {
            reset(request.slot);
        }
        drafts.assign(requests.size(), Draft{});
        return status;
    };
    std::vector<Active> active;
    std::vector<Pending> cells;
    int32_t n_pending = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
        const DraftRequest& request = requests[i];
        FeatureLog& log = log_of(request.slot);
        if (request.n_max <= 0 || !log.leads_to(request.tokens)) {
            continue;
        }
        const int32_t cell = static_cast<int32_t>(request.tokens.size()) - 1 - log.base();
        const int32_t room = net_->has_cache() ? net_->kv().n_ctx_slot() - 1 - cell - extra_cells() : INT32_MAX;
        const int32_t n_block = std::min({std::max(request.n_block, request.n_max), n_max_limit(), n_max_, room});
        const int32_t n_max = std::min(request.n_max, n_block);
        if (n_max <= 0) {
            continue;
        }
        if (catches_up() && log.n_stored() >= cell) {
            continue;  // the row it starts from is gone; the target's next pass brings another
        }
        active.push_back({&request, &drafts[i], &log, n_max, n_block, cell});
        n_pending += cell - log.n_stored();
    }
    if (active.empty()) {
        return ok();
    }
    // A short catch-up and the first step make one pass; a long one goes first, in pieces.
    const bool merge = catches_up() && n_pending <= n_ubatch_;
    for (Active& a : active) {
        const int32_t end = merge ? a.log->n_stored() : catches_up() ? a.cell - 1 : a.cell;
        for (int32_t c = a.log->n_stored(); c < end; ++c) {
            cells.push_back(
                {a.slot(), c, a.request->tokens[static_cast<size_t>(a.log->base() + c) + 1], a.log->row(c)});
        }
    }
    for (size_t at = 0; at < cells.size(); at += static_cast<size_t>(n_ubatch_)) {
        const auto part = std::span(cells).subspan(at, std::min(cells.size() - at, static_cast<size_t>(n_ubatch_)));
        if (Status stored = store(part); !stored.has_value()) {
            return forget(std::move(stored));
        }
    }
    if (!merge) {
        for (const Active& a : active) {
            a.log->mark_stored(std::max(a.log->n_stored(), catches_up() ? a.cell - 1 : a.cell));
        }
    }
    if (Status drafted = draft_all(active); !drafted.has_value()) {
        return forget(std::move(drafted));
    }
    for (const Active& a : active) {
        // A block's length bounds n_min as it does n_max: else nothing would ever be drafted.
        if (static_cast<int32_t>(a.draft->tokens.size()) < std::min(a.request->n_min, n_max_limit())) {
            *a.draft = Draft{};
        }
    }
    return ok();
}

void FeatureDrafter::shifted(int slot, int32_t keep, int32_t discard) {
    int32_t n = 0;
    int32_t cell_keep = 0;
    int32_t cell_discard = 0;
    if (log_of(slot).shift(keep, discard, &n, &cell_keep, &cell_discard) && net_->has_cache()) {
        net_->shift(slot, n + extra_cells(), cell_keep, cell_discard);
    }
}

void FeatureDrafter::reset(int slot) {
    log_of(slot).clear();
}

std::optional<TokenId> FeatureDrafter::draw_next(Active& a, int32_t i_draft, std::span<const float> row) {
    const auto n_tokens = static_cast<size_t>(target_vocab_->n_tokens());
    if (d2t_.empty()) {
        row = row.first(std::min(row.size(), n_tokens));  // padding is no token
    } else {
        // The noise is keyed by the target's ids.
        target_row_.assign(n_tokens, -INFINITY);
        for (size_t i = 0; i < std::min(row.size(), d2t_.size()); ++i) {
            if (const auto id = static_cast<size_t>(d2t_[i]); id < n_tokens) {
                target_row_[id] = row[i];
            }
        }
        row = target_row_;
    }
    std::vector<DraftProb> q;
    const auto drawn = noise_[static_cast<size_t>(a.slot())].draw(a.request->sampling, row, i_draft, target_vocab_, &q);
    if (!drawn.has_value()) {
        return std::nullopt;
    }
    if (!q.empty()) {
        a.draft->q.push_back(std::move(q));
    }
    return *drawn;
}

std::optional<TokenId> FeatureDrafter::take_next(Active& a, int32_t i_draft, std::span<const float> row) {
    probe(a.slot(), i_draft, row);
    const TenBest best = ten_best(row);
    if (best.n == 0 || best.top_share() < a.request->p_min) {
        return std::nullopt;
    }
    const std::optional<TokenId> id =
        NoiseDraw::wanted(a.request->sampling) ? draw_next(a, i_draft, row) : target_id(best.ids[0]);
    if (!id || *id >= target_n_vocab()) {
        return std::nullopt;
    }
    a.draft->tokens.push_back(*id);
    return i_draft + 1 < a.n_max && goes_on(*id) ? id : std::nullopt;
}

int32_t FeatureDrafter::n_missed(int slot, std::span<const TokenId> tokens) const {
    const FeatureLog& log = logs_[static_cast<size_t>(slot)];
    const int32_t n_usual = std::min(n_max_, n_max_limit()) + 1;  // a round's own rows wait for the next
    return log.leads_to(tokens) ? std::max(0, log.n_pending() - n_usual) : 0;
}

std::vector<std::byte> FeatureDrafter::save(int slot, std::span<const TokenId> /*text*/) const {
    const FeatureLog& log = logs_[static_cast<size_t>(slot)];
    const auto tokens = log.tokens();
    const auto rows = log.pending();
    SavedState state;
    state.base = log.base();
    state.n_stored = log.n_stored();
    state.n_cells = cells_of(log.n_stored());
    state.tokens.assign(tokens.begin(), tokens.end());
    state.rows.assign(rows.begin(), rows.end());
    return pack_state(state, net_->has_cache() ? &net_->kv() : nullptr, slot);
}

Status FeatureDrafter::restore(int slot, std::span<const std::byte> state) {
    FeatureLog& log = log_of(slot);
    log.clear();
    FORESAY_TRY(SavedState read, unpack_state(state, log.width(), n_ctx_, n_vocab_target_,
                                              net_->has_cache() ? &net_->kv() : nullptr, slot));
    if (read.n_cells != cells_of(read.n_stored)) {
        return error(Code::kBadFile, "has another count of cells than of tokens", "the drafter's state");
    }
    log.assign(read.base, std::move(read.tokens), read.n_stored, std::move(read.rows));
    return ok();
}

size_t FeatureDrafter::memory_bytes() const {
    return net_->draft().weight_bytes() + state_bytes();
}

size_t FeatureDrafter::state_bytes() const {
    size_t bytes = net_->has_cache() ? net_->kv().bytes() : 0;
    for (const FeatureLog& log : logs_) {
        bytes += log.bytes();
    }
    return bytes;
}

}  // namespace foresay::spec
