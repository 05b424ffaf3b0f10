// One round of the engine: shift full contexts, draft for all generating slots (draft.cpp), one pass over all rows,
// verify, emit.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "engine/block.h"
#include "engine/engine_impl.h"

namespace foresay::engine {
namespace {

double ms_since(Clock::time_point from) {
    return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

TokenMark mark_of(const sampling::Draw& draw, TokenId id) {
    TokenMark mark;
    mark.target = draw.id;
    bool found = false;
    for (const sampling::Candidate& candidate : draw.candidates) {
        if (candidate.id == id) {
            mark.p = candidate.p_rank;
            found = true;
        }
        if (candidate.id == draw.id) {
            mark.p_target = candidate.p_rank;
        }
    }
    if (found) {
        mark.rank = static_cast<int32_t>(std::count_if(draw.candidates.begin(), draw.candidates.end(),
                                                       [&](const auto& c) { return c.p_rank > mark.p; }));
    }
    return mark;
}

}  // namespace

void EngineImpl::shift_if_full(Slot& slot) {
    const int32_t n_ctx = runner_->kv().n_ctx_slot();
    if (!options_.context_shift || slot.n_past + 1 < n_ctx) {
        return;
    }
    const Request& request = slot.task->request;
    int32_t keep =
        request.n_keep < 0 ? slot.n_prompt : std::min(request.n_keep, slot.n_prompt) + (vocab_->adds_bos() ? 1 : 0);
    keep = std::min(keep, n_ctx - 4);
    const int32_t n_left = slot.n_past - keep;
    const int32_t discard =
        std::clamp(request.n_discard > 0 ? request.n_discard : n_left / 2, 1, std::max(1, n_left - 1));
    log::warn("slot {}: slot context shift, n_keep = {}, n_left = {}, n_discard = {}", slot.id, keep, n_left, discard);
    runner_->shift(slot.id, slot.n_past, keep, discard);
    if (drafter_ != nullptr) {
        drafter_->shifted(slot.id, keep, discard);
    }
    slot.context.erase(slot.context.begin() + keep, slot.context.begin() + keep + discard);
    slot.n_past -= discard;
    slot.n_pure = std::min(slot.n_pure, keep);
    slot.truncated = true;
}

int32_t EngineImpl::lay_out(std::vector<Block>& blocks) {
    std::vector<model::Row> all;
    for (Block& block : blocks) {
        const Slot& slot = *block.slot;
        block.rows.assign(1, {slot.context.back(), slot.n_past, slot.id, true});
        for (size_t i = 0; i < block.draft.tokens.size(); ++i) {
            block.rows.push_back({block.draft.tokens[i], slot.n_past + 1 + static_cast<int32_t>(i), slot.id, true});
        }
        all.insert(all.end(), block.rows.begin(), block.rows.end());
    }
    if (all.size() == blocks.size()) {
        return static_cast<int32_t>(all.size());
    }
    if (const Status room = runner_->reserve(all); !room.has_value()) {
        // No memory for the states that drafts may be rolled back to: this round goes on without drafts, the next ones
        // with shorter drafts.
        size_t n_longest = 0;
        for (Block& block : blocks) {
            n_longest = std::max(n_longest, block.draft.tokens.size());
            block.draft = {};
        }
        n_draft_room_ = static_cast<int32_t>(n_longest / 2);
        log::warn("{}: drafts of at most {} tokens from now on", room.error().to_string(), n_draft_room_);
        return lay_out(blocks);
    }
    return static_cast<int32_t>(all.size());
}

void EngineImpl::step() {
    std::vector<Block> blocks;
    for (Slot& slot : slots_) {
        if (slot.state == Slot::State::kGenerating) {
            shift_if_full(slot);
            blocks.push_back({&slot, false, {}, {}});
        }
    }
    if (const Status drafted = draft(blocks); !drafted.has_value()) {
        // A drafter's failure costs speed only: this round goes on without drafts.
        log::warn("drafting failed, decoding plainly: {}", drafted.error().to_string());
    }
    const int32_t n_rows = lay_out(blocks);
    // Prompts fill what is left; beside generating slots they get one pass's worth, so that nobody's stream stalls for
    // a whole prompt.
    int32_t budget = (blocks.empty() ? options_.n_batch : std::min(options_.n_batch, options_.n_ubatch)) - n_rows;
    for (Slot& slot : slots_) {
        if (slot.state != Slot::State::kPrompt || budget <= 0) {
            continue;
        }
        Block block{&slot, true, {}, {}};
        for (int32_t pos = slot.n_past; pos < slot.n_prompt && budget > 0; ++pos, --budget) {
            block.rows.push_back({slot.context[static_cast<size_t>(pos)], pos, slot.id, pos + 1 == slot.n_prompt});
        }
        blocks.push_back(std::move(block));
    }
    if (const Status decoded = decode(blocks); !decoded.has_value()) {
        for (const Block& block : blocks) {
            if (block.slot->busy()) {
                fail(*block.slot, decoded.error());
            }
        }
    }
    const sched::SchedulerStats& stats = runner_->scheduler_stats();
    const std::lock_guard lock(mutex_);
    if (controller_ != nullptr) {
        metrics_.adaptive_off_total = controller_->n_off();
        metrics_.adaptive_probes_total = controller_->n_probes();
    }
    metrics_.sched_hash_capacity = stats.hash_capacity;
    metrics_.sched_n_nodes = stats.n_nodes;
    metrics_.sched_n_leafs = stats.n_leafs;
    metrics_.sched_growths_total = stats.growths;
    metrics_.sched_plans_built_total = stats.plans_built;
    metrics_.sched_plan_hits_total = stats.plan_hits;
    metrics_.sched_buffer_bytes = stats.buffer_bytes;
    metrics_.state_bytes = runner_->state_bytes();
}

Status EngineImpl::decode(std::vector<Block>& blocks) {
    size_t i_block = 0;
    size_t i_row = 0;
    while (i_block < blocks.size()) {
        // One pass: whole verify blocks (never split, so that a slot's rows are verified together), pieces of prompts.
        std::vector<model::Row> rows;
        std::vector<std::pair<Block*, size_t>> parts;  // block, rows taken
        while (i_block < blocks.size()) {
            Block& block = blocks[i_block];
            const size_t left = block.rows.size() - i_row;
            const size_t room =
                static_cast<size_t>(options_.n_ubatch) - std::min(rows.size(), static_cast<size_t>(options_.n_ubatch));
            if (room == 0 || (!block.is_prompt && left > room && !rows.empty())) {
                break;
            }
            const size_t take = block.is_prompt ? std::min(left, room) : left;
            rows.insert(rows.end(), block.rows.begin() + static_cast<ptrdiff_t>(i_row),
                        block.rows.begin() + static_cast<ptrdiff_t>(i_row + take));
            parts.emplace_back(&block, take);
            i_row += take;
            if (i_row == block.rows.size()) {
                ++i_block;
                i_row = 0;
            }
        }
        const auto started = Clock::now();
        FORESAY_TRY(const auto logits, runner_->forward(rows));
        pass_.done_at = Clock::now();
        pass_.n_slots = static_cast<int32_t>(parts.size());
        pass_.n_rows = static_cast<int32_t>(rows.size());
        pass_.ms = std::chrono::duration<double, std::milli>(pass_.done_at - started).count();
        const bool verifies_only =
            std::none_of(parts.begin(), parts.end(), [](const auto& part) { return part.first->is_prompt; });
        if (controller_ != nullptr && verifies_only) {
            if (planned_.drafter >= 0) {
                log::debug(
                    "round: {} slots, {} of them asked for up to {} drafted tokens, {} to read: {:.2f} ms "
                    "(expected {:.2f} and reading); pass of {} rows {:.2f} ms (expected {:.2f})",
                    parts.size(), planned_.slots.size(), planned_.n_longest, planned_.n_missed, planned_.ms,
                    planned_.expected_ms, pass_.n_rows, pass_.ms, controller_->target().cost(pass_.n_rows));
            } else {
                log::debug("round: {} slots, pass of {} rows {:.2f} ms (expected {:.2f})", parts.size(), pass_.n_rows,
                           pass_.ms, controller_->target().cost(pass_.n_rows));
            }
            controller_->observe_pass(pass_.n_rows, pass_.ms);
        }
        observe(rows);
        {
            const std::lock_guard lock(mutex_);
            ++metrics_.n_decode_total;
            metrics_.n_busy_slots_total += parts.size();
        }
        size_t i_logits = 0;
        size_t i_hidden = 0;
        for (const auto& [block, n_taken] : parts) {
            Slot& slot = *block->slot;
            if (block->is_prompt && slot.task->request.embed) {
                const auto n_embd = static_cast<size_t>(info_.n_embd);
                pool(slot, runner_->hidden().subspan(i_hidden * n_embd, n_taken * n_embd));
            }
            i_hidden += n_taken;
            if (!block->is_prompt) {
                verify(*block, std::span(logits).subspan(i_logits, n_taken));
                runner_->settle(slot.id, slot.n_past);
                i_logits += n_taken;
                continue;
            }
            slot.n_past += static_cast<int32_t>(n_taken);
            slot.timings.prompt_n += static_cast<int32_t>(n_taken);
            slot.timings.prompt_ms = ms_since(slot.t_start);
            slot.task->sink->prompt_progress(slot.n_past, slot.timings.cache_n, slot.n_prompt, slot.timings.prompt_ms);
            if (slot.n_past == slot.n_prompt) {
                prompt_done(slot);
                if (slot.busy()) {
                    verify(*block, std::span(logits).subspan(i_logits, 1));
                }
                ++i_logits;
            } else {
                publish(slot);
            }
        }
    }
    return ok();
}

void EngineImpl::observe(std::span<const model::Row> rows) {
    if (drafter_ == nullptr) {
        return;
    }
    if (const Status seen = drafter_->observe(rows, *runner_); !seen.has_value()) {
        // Costs drafts, not text: the drafter forgets these slots and begins anew at their next rows.
        log::warn("the drafter lost its state: {}", seen.error().to_string());
        for (const model::Row& row : rows) {
            drafter_->reset(row.slot);
        }
    }
}

void EngineImpl::prompt_done(Slot& slot) {
    slot.state = Slot::State::kGenerating;
    {
        const std::lock_guard lock(mutex_);
        metrics_.prompt_tokens_total += static_cast<uint64_t>(slot.timings.prompt_n);
        metrics_.prompt_seconds_total += slot.timings.prompt_ms / 1000.0;
    }
    if (slot.task->request.embed) {
        finish_embedding(slot);
    } else if (slot.task->request.n_predict == 0) {
        finish(slot, StopType::kLimit, "", "");
    } else if (drafter_ != nullptr) {
        drafter_->begin(slot.id, slot.context);
    }
}

/// In the order of the positions, in double: the same bits whatever the pieces in which a prompt came.
void EngineImpl::pool(Slot& slot, std::span<const float> rows) {
    const auto n_embd = static_cast<size_t>(info_.n_embd);
    std::vector<double>& pooled = slot.pooled;
    switch (pooling_) {
        case Pooling::kNone:
            pooled.insert(pooled.end(), rows.begin(), rows.end());
            break;
        case Pooling::kMean:
            pooled.resize(n_embd);
            for (size_t i = 0; i < rows.size(); ++i) {
                pooled[i % n_embd] += static_cast<double>(rows[i]);
            }
            break;
        case Pooling::kCls:
            if (pooled.empty()) {
                pooled.assign(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(n_embd));
            }
            break;
        case Pooling::kLast:
            pooled.assign(rows.end() - static_cast<ptrdiff_t>(n_embd), rows.end());
            break;
    }
}

void EngineImpl::finish_embedding(Slot& slot) {
    const double divisor = pooling_ == Pooling::kMean ? slot.n_prompt : 1.0;
    std::vector<float> values(slot.pooled.size());
    std::transform(slot.pooled.begin(), slot.pooled.end(), values.begin(),
                   [&](double sum) { return static_cast<float>(sum / divisor); });
    slot.pooled.clear();
    slot.task->sink->embedding(std::move(values));
    finish(slot, StopType::kLimit, "", "");
}

void EngineImpl::verify(Block& block, std::span<const std::span<const float>> rows) {
    Slot& slot = *block.slot;
    Task& task = *slot.task;
    const Request& request = task.request;
    events_.clear();
    const auto on_emitted = [&](std::span<const float> logits, const sampling::Draw& draw,
                                const spec::Emitted& emitted) {
        TokenEvent event;
        event.id = emitted.id;
        event.pass = pass_;
        if (emitted.drafted) {
            event.kind = emitted.decision.verdict == spec::Verdict::kRelaxed ? TokenKind::kRelaxed : TokenKind::kExact;
            event.rank = std::max(0, emitted.decision.rank);
        }
        if (request.marks) {
            event.mark = mark_of(draw, emitted.id);
            event.mark.draft =
                events_.size() < block.draft.tokens.size() ? block.draft.tokens[events_.size()] : vocab::kNoToken;
        }
        if (request.n_probs > 0 && !request.post_sampling_probs) {
            float chosen = 0.0F;
            for (const auto& top : sampling::top_logprobs(logits, request.n_probs, emitted.id, &chosen)) {
                event.top.push_back({top.id, top.logprob});
            }
            event.chosen = {emitted.id, chosen};
        } else if (request.n_probs > 0) {
            std::vector<sampling::Candidate> sorted(draw.candidates.begin(), draw.candidates.end());
            std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.p > b.p; });
            event.chosen = {emitted.id, 0.0F};
            for (const auto& candidate : sorted) {
                if (candidate.id == emitted.id) {
                    event.chosen.value = candidate.p;
                }
                if (candidate.p > 0.0F && static_cast<int32_t>(event.top.size()) < request.n_probs) {
                    event.top.push_back({candidate.id, candidate.p});
                }
            }
        }
        events_.push_back(std::move(event));
    };
    const bool first = slot.n_decoded == 0;
    spec::verify(*task.sampler, *vocab_, rows, block.draft, slot.n_decoded, *task.acceptor, on_emitted, verify_result_);
    if (first) {
        slot.t_first_token = Clock::now();
    }
    if (!block.draft.tokens.empty()) {
        count_verdicts(block);
    }
    for (size_t i = 0; i < verify_result_.tokens.size(); ++i) {
        // Emitting token i means that everything before it is text and in the cache; what comes after an end is
        // forgotten with n_past.
        if (!block.is_prompt || i > 0) {
            ++slot.n_past;
        }
        slot.context.push_back(verify_result_.tokens[i].id);
        if (emit(slot, verify_result_.tokens[i], std::move(events_[i]))) {
            return;
        }
    }
    if (!task.sampler->status().has_value()) {
        const Error cause = task.sampler->status().error();  // a copy: fail() ends the task
        fail(slot, cause);
        return;
    }
    publish(slot);
}

void EngineImpl::count_verdicts(const Block& block) {
    Timings& timings = block.slot->timings;
    const auto n_drafted = static_cast<int32_t>(block.draft.tokens.size());
    double rank_sum = 0.0;
    double gap_sum = 0.0;
    for (const spec::Emitted& emitted : verify_result_.tokens) {
        if (emitted.drafted && emitted.decision.verdict == spec::Verdict::kRelaxed) {
            rank_sum += emitted.decision.rank;
            gap_sum += static_cast<double>(emitted.decision.gap);
        }
    }
    timings.draft_n += n_drafted;
    timings.draft_n_accepted += verify_result_.n_accepted;
    timings.draft_n_relaxed += verify_result_.n_relaxed;
    timings.draft_n_rejected += verify_result_.n_rejected;
    timings.relaxed_rank_sum += rank_sum;
    timings.relaxed_gap_sum += gap_sum;
    ++timings.verify_steps;
    drafter_->accepted(block.slot->id, n_drafted, verify_result_.n_accepted, true);
    controller_->observe_verdict(block.slot->id, block.draft.drafter, n_drafted, verify_result_.n_accepted);
    const std::lock_guard lock(mutex_);
    metrics_.draft_n_total += static_cast<uint64_t>(n_drafted);
    metrics_.draft_n_accepted_total += static_cast<uint64_t>(verify_result_.n_accepted);
    metrics_.draft_n_relaxed_total += static_cast<uint64_t>(verify_result_.n_relaxed);
    metrics_.draft_n_rejected_total += static_cast<uint64_t>(verify_result_.n_rejected);
    metrics_.relaxed_rank_sum_total += rank_sum;
    metrics_.relaxed_gap_sum_total += gap_sum;
    ++metrics_.verify_steps_total;
    DraftCounts& counts =
        metrics_
            .drafts[{std::string(drafter_->name()), std::string(spec::name_of(block.slot->task->acceptor->rule()))}];
    ++counts.drafts;
    counts.tokens += static_cast<uint64_t>(n_drafted);
    counts.accepted += static_cast<uint64_t>(verify_result_.n_accepted);
    counts.relaxed += static_cast<uint64_t>(verify_result_.n_relaxed);
    const auto n_accepted = static_cast<size_t>(verify_result_.n_accepted);
    metrics_.accepted_per_position.resize(std::max(metrics_.accepted_per_position.size(), n_accepted));
    for (size_t i = 0; i < n_accepted; ++i) {
        ++metrics_.accepted_per_position[i];
    }
}

bool EngineImpl::emit(Slot& slot, const spec::Emitted& emitted, TokenEvent event) {
    const Request& request = slot.task->request;
    ++slot.n_decoded;
    const auto& shown_tokens = request.shown_tokens;
    const bool is_mark = std::find(shown_tokens.begin(), shown_tokens.end(), emitted.id) != shown_tokens.end();
    const std::string piece = vocab_->piece(emitted.id, is_mark);
    TextOut::Step shown = slot.text->push(piece);
    if (piece.find('\n') != std::string::npos) {
        slot.has_new_line = true;
        slot.line_seen = true;
    }
    event.text = std::move(shown.text);
    slot.task->sink->token(event);
    if (shown.stopped) {
        finish(slot, StopType::kWord, std::move(shown.stopping_word), "");
        return true;
    }
    StopType stop = StopType::kNone;
    if (!options_.context_shift && slot.n_past + 1 >= runner_->kv().n_ctx_slot()) {
        slot.truncated = true;
        stop = StopType::kLimit;
    }
    if (request.n_predict >= 0 && slot.n_decoded >= request.n_predict) {
        stop = StopType::kLimit;
    }
    if (request.t_max_predict_ms >= 0 && slot.line_seen &&
        ms_since(slot.t_first_token) > static_cast<double>(request.t_max_predict_ms)) {
        stop = StopType::kLimit;
    }
    if (vocab_->is_eog(emitted.id)) {
        stop = StopType::kEos;
    }
    if (stop == StopType::kNone) {
        return false;
    }
    finish(slot, stop, "", slot.text->finish());
    return true;
}

}  // namespace foresay::engine
