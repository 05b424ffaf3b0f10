#include "spec/drafters/draft_simple.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "spec/drafters/choice.h"
#include "spec/drafters/slot_state.h"

namespace foresay::spec {
namespace {

constexpr int32_t kMaxVocabDifference = 128;  // padding of the embedding differs within a family by up to this
constexpr TokenId kFirstComparedId = 5;       // the first ids are special tokens that families name differently

}  // namespace

Status check_vocab_match(const vocab::Vocab& target, const vocab::Vocab& draft) {
    const auto mismatch = [](std::string message) {
        return error(Code::kInvalidArgument, std::move(message), "--spec-draft-model",
                     "use a drafter of the target's family");
    };
    if (target.kind() != draft.kind()) {
        return mismatch("the drafter's tokenizer is of another kind than the target's");
    }
    if (target.adds_bos() != draft.adds_bos() || (target.adds_bos() && target.bos() != draft.bos())) {
        return mismatch(fmt::format("the drafter's BOS (id {}, added: {}) differs from the target's (id {}, added: {})",
                                    draft.bos(), draft.adds_bos(), target.bos(), target.adds_bos()));
    }
    if (target.adds_eos() != draft.adds_eos() || (target.adds_eos() && target.eos() != draft.eos())) {
        return mismatch(fmt::format("the drafter's EOS (id {}, added: {}) differs from the target's (id {}, added: {})",
                                    draft.eos(), draft.adds_eos(), target.eos(), target.adds_eos()));
    }
    if (std::abs(target.n_tokens() - draft.n_tokens()) > kMaxVocabDifference) {
        return mismatch(fmt::format("the drafter has {} tokens, the target {}: more than {} apart", draft.n_tokens(),
                                    target.n_tokens(), kMaxVocabDifference));
    }
    const TokenId n = std::min(target.n_tokens(), draft.n_tokens());
    int32_t n_different = 0;
    TokenId first = vocab::kNoToken;
    for (TokenId id = kFirstComparedId; id < n; ++id) {
        if (target.text(id) != draft.text(id)) {
            first = n_different++ == 0 ? id : first;
        }
    }
    if (n_different > 0) {
        return mismatch(fmt::format("{} token texts differ, first id {}: '{}' in the target, '{}' in the drafter",
                                    n_different, first, target.text(first), draft.text(first)));
    }
    return ok();
}

Result<std::unique_ptr<DraftSimple>> DraftSimple::create(std::unique_ptr<model::Runner> runner,
                                                         std::shared_ptr<const vocab::Vocab> target, int32_t n_ubatch,
                                                         int32_t n_scored) {
    FORESAY_CHECK_OK(check_vocab_match(*target, *runner->model().vocab()));
    std::unique_ptr<DraftSimple> drafter(new DraftSimple);
    drafter->slots_.resize(static_cast<size_t>(runner->kv().n_slots()));
    drafter->scored_ = DraftVocab(runner->model(), n_scored);
    drafter->runner_ = std::move(runner);
    const auto& draft_vocab = *drafter->runner_->model().vocab();
    for (TokenId id = 0; id < std::min({kFirstComparedId, target->n_tokens(), draft_vocab.n_tokens()}); ++id) {
        if (target->text(id) != draft_vocab.text(id)) {
            drafter->differing_.push_back(id);
        }
    }
    drafter->target_vocab_ = std::move(target);
    drafter->n_ubatch_ = n_ubatch;
    return drafter;
}

void DraftSimple::reset(int slot) {
    slots_[static_cast<size_t>(slot)].tokens.clear();
}

void DraftSimple::shifted(int slot, int32_t keep, int32_t discard) {
    auto& tokens = slots_[static_cast<size_t>(slot)].tokens;
    const auto n = static_cast<int32_t>(tokens.size());
    if (n < keep + discard) {
        // The cache lags behind the dropped range: nothing past `keep` is usable.
        tokens.resize(static_cast<size_t>(std::min(n, keep)));
        return;
    }
    if (runner_->has_state()) {
        tokens.clear();  // such a state can't be shifted
        return;
    }
    runner_->shift(slot, n, keep, discard);
    tokens.erase(tokens.begin() + keep, tokens.begin() + keep + discard);
}

int32_t DraftSimple::n_common(int slot, std::span<const TokenId> text) const {
    const auto& held = slots_[static_cast<size_t>(slot)].tokens;
    return static_cast<int32_t>(std::mismatch(held.begin(), held.end(), text.begin(), text.end()).first - held.begin());
}

int32_t DraftSimple::n_missed(int slot, std::span<const TokenId> tokens) const {
    return std::max(0, static_cast<int32_t>(tokens.size()) - 1 - n_common(slot, tokens));
}

std::vector<std::byte> DraftSimple::save(int slot, std::span<const TokenId> text) const {
    SavedState state;
    state.tokens = slots_[static_cast<size_t>(slot)].tokens;
    std::vector<std::byte> recurrent;
    if (runner_->has_state()) {
        // Rejected drafts are still in the cache, and only some of its last lengths have a state.
        const int32_t n = runner_->usable(slot, n_common(slot, text));
        recurrent = runner_->save_state(slot, n);
        if (recurrent.empty()) {
            return {};  // it evaluates the text again
        }
        state.tokens.resize(static_cast<size_t>(n));
    }
    state.n_stored = state.n_cells = static_cast<int32_t>(state.tokens.size());
    std::vector<std::byte> bytes = pack_state(state, &runner_->kv(), slot);
    if (runner_->has_state()) {
        // Cells, recurrent state, and the state's bytes: where the two part.
        const uint64_t n_bytes = recurrent.size();
        const auto* size = reinterpret_cast<const std::byte*>(&n_bytes);
        bytes.insert(bytes.end(), recurrent.begin(), recurrent.end());
        bytes.insert(bytes.end(), size, size + sizeof(n_bytes));
    }
    return bytes;
}

Status DraftSimple::restore(int slot, std::span<const std::byte> state) {
    reset(slot);
    std::span<const std::byte> recurrent;
    if (runner_->has_state()) {
        uint64_t n_bytes = 0;
        if (state.size() < sizeof(n_bytes)) {
            return error(Code::kBadFile, "is too short", "the drafter's state");
        }
        std::memcpy(&n_bytes, state.data() + (state.size() - sizeof(n_bytes)), sizeof(n_bytes));
        state = state.first(state.size() - sizeof(n_bytes));
        if (n_bytes > state.size() || n_bytes > runner_->max_saved_state_bytes()) {
            return error(Code::kBadFile, "has impossible sizes", "the drafter's state");
        }
        recurrent = state.last(static_cast<size_t>(n_bytes));
        state = state.first(state.size() - recurrent.size());
    }
    FORESAY_TRY(SavedState read, unpack_state(state, 0, runner_->kv().n_ctx_slot(), runner_->model().hparams().n_vocab,
                                              &runner_->kv(), slot));
    if (read.base != 0 || read.n_cells != static_cast<int32_t>(read.tokens.size())) {
        return error(Code::kBadFile, "has another count of cells than of tokens", "the drafter's state");
    }
    if (runner_->has_state()) {
        FORESAY_CHECK_OK(runner_->restore_state(slot, read.n_cells, recurrent));
    }
    slots_[static_cast<size_t>(slot)].tokens = std::move(read.tokens);
    return ok();
}

size_t DraftSimple::memory_bytes() const {
    return runner_->model().weight_bytes() + state_bytes();
}

size_t DraftSimple::state_bytes() const {
    return runner_->kv().bytes() + runner_->state_bytes();
}

Status DraftSimple::catch_up(std::span<const DraftRequest> requests, const std::vector<size_t>& active,
                             std::vector<std::span<const float>>& logits) {
    // Prompt pieces first, slot by slot, so that the last rows of all slots share the final pass.
    for (const size_t i : active) {
        const DraftRequest& request = requests[i];
        auto& held = slots_[static_cast<size_t>(request.slot)].tokens;
        // The last token is always evaluated: its logits are needed.
        const int32_t n_kept =
            std::min(n_common(request.slot, request.tokens), static_cast<int32_t>(request.tokens.size()) - 1);
        held.resize(static_cast<size_t>(runner_->usable(request.slot, n_kept)));
        const auto budget = static_cast<size_t>(std::max(1, n_ubatch_ / static_cast<int32_t>(active.size())));
        while (request.tokens.size() - held.size() > budget) {
            std::vector<model::Row> rows;
            for (size_t n = 0; n < static_cast<size_t>(n_ubatch_) && request.tokens.size() - held.size() > 1; ++n) {
                rows.push_back({request.tokens[held.size()], static_cast<int32_t>(held.size()), request.slot, false});
                held.push_back(request.tokens[held.size()]);
            }
            FORESAY_CHECK_OK(runner_->forward(rows, scored_.n_ids()));
        }
    }
    std::vector<model::Row> rows;
    for (const size_t i : active) {
        const DraftRequest& request = requests[i];
        auto& held = slots_[static_cast<size_t>(request.slot)].tokens;
        while (held.size() < request.tokens.size()) {
            const bool last = held.size() + 1 == request.tokens.size();
            rows.push_back({request.tokens[held.size()], static_cast<int32_t>(held.size()), request.slot, last});
            held.push_back(request.tokens[held.size()]);
        }
    }
    FORESAY_TRY(logits, runner_->forward(rows, scored_.n_ids()));
    return ok();
}

Result<TokenId> DraftSimple::choose(const DraftRequest& request, std::span<const float> logits, int32_t i_draft,
                                    bool* stop, std::vector<DraftProb>* q) {
    // Padding above the target's vocabulary is no token: it must not be drawn, or q would not be what was drawn from.
    logits = logits.first(std::min(logits.size(), static_cast<size_t>(target_vocab_->n_tokens())));
    if (!differing_.empty()) {
        row_.assign(logits.begin(), logits.end());
        for (const TokenId id : differing_) {
            if (static_cast<size_t>(id) < row_.size()) {
                row_[static_cast<size_t>(id)] = -INFINITY;
            }
        }
        logits = row_;
    }
    const TenBest best = ten_best(logits);
    if (best.n == 0) {
        *stop = true;
        return vocab::kNoToken;
    }
    *stop = best.top_share() < request.p_min;
    TokenId id = best.ids[0];
    if (!*stop && NoiseDraw::wanted(request.sampling)) {
        NoiseDraw& noise = slots_[static_cast<size_t>(request.slot)].noise;
        FORESAY_TRY(id, noise.draw(request.sampling, logits, i_draft, runner_->model().vocab(), q));
    }
    return id;
}

Status DraftSimple::propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) {
    drafts.assign(requests.size(), Draft{});
    Status status = propose_all(requests, drafts);
    if (!status.has_value()) {
        // What the cache holds after a failed pass is unknown: start over next time.
        for (const DraftRequest& request : requests) {
            reset(request.slot);
        }
        drafts.assign(requests.size(), Draft{});
    }
    return status;
}

Status DraftSimple::propose_all(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) {
    std::vector<size_t> active;
    for (size_t i = 0; i < requests.size(); ++i) {
        // The drafted tokens but the last are stored behind the context.
        if (requests[i].n_max > 0 &&
            static_cast<int32_t>(requests[i].tokens.size()) + requests[i].n_max - 1 <= runner_->kv().n_ctx_slot()) {
            active.push_back(i);
        }
    }
    if (active.empty()) {
        return ok();
    }
    int32_t n_longest = 0;
    for (const size_t i : active) {
        scored_.look_at(requests[i].tokens, *target_vocab_);
        n_longest = std::max(n_longest, requests[i].n_max);
    }
    scored_.take(n_longest);
    std::vector<std::span<const float>> logits;
    FORESAY_CHECK_OK(catch_up(requests, active, logits));
    for (int32_t i_draft = 0; !active.empty(); ++i_draft) {
        std::vector<size_t> still;
        std::vector<model::Row> rows;
        for (size_t k = 0; k < active.size(); ++k) {
            const DraftRequest& request = requests[active[k]];
            bool stop = false;
            std::vector<DraftProb> q;
            FORESAY_TRY(const TokenId id, choose(request, logits[k], i_draft, &stop, &q));
            if (stop) {
                continue;
            }
            drafts[active[k]].tokens.push_back(id);
            if (!q.empty()) {
                drafts[active[k]].q.push_back(std::move(q));
            }
            if (i_draft + 1 < request.n_max && !target_vocab_->is_eog(id)) {
                auto& held = slots_[static_cast<size_t>(request.slot)].tokens;
                rows.push_back({id, static_cast<int32_t>(held.size()), request.slot, true});
                held.push_back(id);
                still.push_back(active[k]);
            }
        }
        active = std::move(still);
        if (!active.empty()) {
            FORESAY_TRY(logits, runner_->forward(rows, scored_.n_ids()));
        }
    }
    for (size_t i = 0; i < requests.size(); ++i) {
        if (static_cast<int32_t>(drafts[i].tokens.size()) < requests[i].n_min) {
            drafts[i] = Draft{};
        }
    }
    return ok();
}

}  // namespace foresay::spec
