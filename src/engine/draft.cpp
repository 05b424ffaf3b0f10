// The drafts of one round: what each slot may ask for, how long a draft pays, how much of it is verified.
#include <algorithm>

#include "engine/block.h"
#include "engine/engine_impl.h"

namespace foresay::engine {
namespace {

bool uses(const sampling::Params& params, std::string_view sampler) {
    return std::find(params.samplers.begin(), params.samplers.end(), sampler) != params.samplers.end();
}

/// The target's truncation for the drafter that samples with shared noise: the nearer both sets, the more often both
/// draw alike.
spec::DraftSampling draft_sampling(const Task& task, int64_t position) {
    const sampling::Params& params = task.request.sampling;
    spec::DraftSampling sampling;
    sampling.asked = task.spec.probabilistic;
    sampling.seed = task.sampler->seed();
    sampling.position = position;
    sampling.temperature = uses(params, "temperature") ? params.temperature : 0.0F;
    sampling.top_k = uses(params, "top_k") ? params.top_k : 0;
    sampling.top_p = uses(params, "top_p") ? params.top_p : 1.0F;
    sampling.min_p = uses(params, "min_p") ? params.min_p : 0.0F;
    if (spec::effective_rule(task.spec) == spec::Rule::kLossless) {
        // Rejection sampling is exact only if drafts are drawn independently of the target (sampling.md 6).
        constexpr uint32_t kOtherNoise = 0x85ebca6bU;
        sampling.wants_q = true;
        sampling.seed ^= kOtherNoise;
    }
    return sampling;
}

}  // namespace

Status EngineImpl::draft(std::vector<Block>& blocks) {
    planned_ = {};
    if (drafter_ == nullptr) {
        return ok();
    }
    std::vector<spec::DraftRequest> requests;
    std::vector<Block*> owners;
    for (Block& block : blocks) {
        Slot& slot = *block.slot;
        const Task& task = *slot.task;
        int32_t n_limit = std::min(
            {task.spec.n_max, runner_->kv().n_ctx_slot() - slot.n_past - 2, runner_->max_rollback(), n_draft_room_});
        if (task.request.n_predict >= 0) {
            n_limit = std::min(n_limit, task.request.n_predict - slot.n_decoded - 1);
        }
        if (n_limit <= 0) {
            continue;
        }
        spec::DraftRequest request;
        request.slot = slot.id;
        request.tokens = slot.context;
        request.n_max = n_limit;
        request.n_block = task.spec.n_max;
        // Under rejection sampling no draft may be dropped for what is in it: that would favour other tokens.
        const bool is_lossless = spec::effective_rule(task.spec) == spec::Rule::kLossless;
        request.n_min = is_lossless ? 0 : task.spec.n_min;
        request.p_min = task.spec.p_min;
        request.sampling = draft_sampling(task, slot.n_decoded);
        ++slot.timings.draft_rounds;
        requests.push_back(request);
        owners.push_back(&block);
    }
    if (requests.empty()) {
        return ok();
    }
    std::vector<double> ms_before(drafter_->size());
    for (size_t i = 0; i < ms_before.size(); ++i) {
        ms_before[i] = drafter_->stats(i).draft_ms;
    }
    std::vector<spec::Draft> drafts;
    FORESAY_CHECK_OK(drafter_->propose(requests, drafts));
    if (planned_.drafter >= 0) {
        const auto i = static_cast<size_t>(planned_.drafter);
        planned_.expected_ms = controller_->draft_ms(planned_.drafter, planned_.n_longest);
        planned_.ms = drafter_->stats(i).draft_ms - ms_before[i];
        book_drafting(requests, drafts, planned_.ms);
    }
    for (size_t i = 0; i < drafts.size(); ++i) {
        auto& draft = drafts[i];
        const spec::Rule rule = spec::effective_rule(owners[i]->slot->task->spec);
        if (rule == spec::Rule::kRelaxed || rule == spec::Rule::kTypical) {
            // Only the target ends a text: under a relaxed rule a draft stops before an end token.
            auto& tokens = draft.tokens;
            const auto end = std::find_if(tokens.begin(), tokens.end(), [&](TokenId id) { return vocab_->is_eog(id); });
            tokens.erase(end, tokens.end());
        }
        owners[i]->draft = std::move(draft);
    }
    trim(owners, static_cast<int32_t>(blocks.size() - owners.size()));
    return ok();
}

std::string EngineImpl::why_no_drafts(const Slot& slot) const {
    if (drafter_ == nullptr || slot.timings.draft_n > 0 || slot.task->request.embed) {
        return {};
    }
    if (drafter_->n_max() == 0) {
        return "--spec-draft-n-max is 0";
    }
    if (slot.task->spec.n_max == 0) {
        return "the request set speculative.n_max to 0, or speculative.type to none";
    }
    if (slot.timings.draft_rounds == 0) {
        return n_draft_room_ == 0 ? "there was no memory for the states of drafted tokens"
                                  : "the text ended before a draft could be made";
    }
    return slot.timings.draft_rounds_unpaid == slot.timings.draft_rounds
               ? "drafts were found not to pay (speculative.adaptive)"
               : "the drafter proposed nothing";
}

void EngineImpl::plan(int drafter, std::span<spec::DraftRequest> requests) {
    std::vector<spec::PlanSlot> slots;
    for (const spec::DraftRequest& request : requests) {
        const Slot& slot = slots_[static_cast<size_t>(request.slot)];
        const int32_t n_predict = slot.task->request.n_predict;
        spec::PlanSlot planned{request.slot, request.n_max, request.n_min, slot.task->spec.adaptive};
        planned.n_missed = drafter_->drafter(static_cast<size_t>(drafter)).n_missed(request.slot, request.tokens);
        planned.n_left = n_predict < 0 ? INT32_MAX : n_predict - slot.n_decoded;
        slots.push_back(planned);
    }
    const auto n_generating = static_cast<int32_t>(std::count_if(
        slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.state == Slot::State::kGenerating; }));
    controller_->plan(slots, drafter, std::max(0, n_generating - static_cast<int32_t>(slots.size())));
    for (size_t i = 0; i < slots.size(); ++i) {
        requests[i].n_max = slots[i].n_planned;
        slots_[static_cast<size_t>(slots[i].slot)].timings.draft_rounds_unpaid += slots[i].n_planned == 0 ? 1 : 0;
        if (slots[i].n_planned > 0) {
            planned_.drafter = drafter;
            planned_.n_missed += slots[i].n_missed;
            planned_.n_longest = std::max(planned_.n_longest, slots[i].n_planned);
            planned_.slots.emplace_back(slots[i].slot, slots[i].n_planned);
        }
    }
}

void EngineImpl::book_drafting(std::span<const spec::DraftRequest> requests, std::span<const spec::Draft> given,
                               double ms) {
    spec::DraftRun run;
    run.drafter = planned_.drafter;
    run.n_slots = static_cast<int32_t>(planned_.slots.size());
    run.n_missed = planned_.n_missed;
    run.n_steps = 1;
    run.ms = ms;
    for (const auto& [slot, n_planned] : planned_.slots) {
        for (size_t i = 0; i < requests.size(); ++i) {
            if (requests[i].slot != slot) {
                continue;
            }
            const auto n_given = static_cast<int32_t>(given[i].tokens.size());
            run.n_steps = std::max(run.n_steps, std::min(n_given + 1, n_planned));
            if (n_given < n_planned && (n_given == 0 || !vocab_->is_eog(given[i].tokens.back()))) {
                controller_->observe_short(slot, planned_.drafter, n_given);
            }
        }
    }
    controller_->observe_draft(run);
}

void EngineImpl::trim(std::span<Block* const> blocks, int32_t n_other_rows) {
    std::vector<spec::TrimSlot> slots;
    std::vector<Block*> owners;
    for (Block* block : blocks) {
        const auto n_drafted = static_cast<int32_t>(block->draft.tokens.size());
        if (n_drafted == 0) {
            ++n_other_rows;
            continue;
        }
        const SpecInForce& spec = block->slot->task->spec;
        // A sampled draft must not be cut for what is in it under rejection sampling (q is filled then).
        slots.push_back(
            {block->slot->id, block->draft.drafter, n_drafted, spec.n_min, spec.adaptive && block->draft.q.empty(), 0});
        owners.push_back(block);
    }
    if (slots.empty()) {
        return;
    }
    controller_->trim(slots, n_other_rows);
    for (size_t i = 0; i < slots.size(); ++i) {
        spec::Draft& draft = owners[i]->draft;
        draft.tokens.resize(static_cast<size_t>(slots[i].n_kept));
        draft.q.resize(std::min(draft.q.size(), draft.tokens.size()));
    }
}

}  // namespace foresay::engine
