// Requests and slots: what happens between submit() and the first row, and after the last token.
#include "engine/engine_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <span>

#include "base/log.h"
#include "engine/slot_file.h"
#include "engine/spec_settings.h"

namespace foresay::engine {
namespace {

double ms_between(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
}

/// How many tokens two texts begin with in common.
size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
    return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

/// Cells of the slot that a prompt may take over: equal tokens, and as good as evaluated afresh.
size_t usable_prefix(const Slot& slot, const std::vector<TokenId>& prompt) {
    return common_prefix(std::span(slot.context).first(static_cast<size_t>(std::min(slot.n_past, slot.n_pure))),
                         prompt);
}

// As llama-server: a slot is taken for its content only when more than a tenth of the prompt is already there.
constexpr double kSlotSimilarity = 0.10;

}  // namespace

EngineImpl::~EngineImpl() {
    EngineImpl::shutdown();
}

void EngineImpl::shutdown() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) {
        thread_.join();
    }
}

Result<int64_t> EngineImpl::submit(Request request, std::shared_ptr<Sink> sink) {
    const auto n_prompt = static_cast<int32_t>(std::min<size_t>(request.prompt.size(), INT32_MAX));
    if (n_prompt == 0) {
        return error(Code::kInvalidArgument, "\"prompt\" must not be empty", "prompt");
    }
    for (const TokenId token : request.prompt) {
        if (token < 0 || token >= info_.n_vocab) {
            return error(Code::kInvalidArgument, "Prompt contains invalid tokens", "prompt");
        }
    }
    if (n_prompt >= info_.n_ctx_slot) {
        return error(
            Code::kCapacity,
            fmt::format("request ({} tokens) exceeds the available context size ({} tokens), try increasing it",
                        n_prompt, info_.n_ctx_slot));
    }
    if (request.id_slot < -1 || request.id_slot >= options_.n_parallel) {
        return error(Code::kInvalidArgument, "Invalid slot ID", "id_slot");
    }
    if (request.embed && !options_.embeddings) {
        return error(Code::kUnsupported, "embeddings are off", "--embeddings", "start with --embeddings");
    }
    Task task;
    FORESAY_TRY(task.spec, resolve_spec(request.spec, options_.spec, drafter_ == nullptr ? 0 : drafter_->n_max()));
    if (request.spec.p_min && drafter_ != nullptr) {
        if (const Status taken = drafter_->check_p_min(*request.spec.p_min); !taken.has_value()) {
            return error(Code::kInvalidArgument, taken.error().message, "speculative.p_min");
        }
    }
    if (request.spec.probabilistic.value_or(false) && drafter_ != nullptr && !drafter_->can_draw()) {
        return error(Code::kInvalidArgument,
                     fmt::format("{} can't draw its tokens, it drafts greedily", drafter_->name()),
                     "speculative.sampling");
    }
    task.acceptor.emplace(task.spec, vocab_);
    FORESAY_TRY(task.sampler, sampling::Sampler::create(request.sampling, vocab_, grammars_.get()));
    task.request = std::move(request);
    task.sink = std::move(sink);
    int64_t id = 0;
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) {
            return error(Code::kCancelled, "the server is shutting down");
        }
        id = next_task_++;
        task.id = id;
        queue_.push_back(std::move(task));
        metrics_.requests_deferred = static_cast<int32_t>(queue_.size());
    }
    wake_.notify_all();
    return id;
}

void EngineImpl::cancel(int64_t task) {
    {
        const std::lock_guard lock(mutex_);
        cancelled_.insert(task);
    }
    wake_.notify_all();
}

std::vector<SlotSnapshot> EngineImpl::slots() const {
    const std::lock_guard lock(mutex_);
    return snapshots_;
}

Metrics EngineImpl::metrics() const {
    const std::lock_guard lock(mutex_);
    return metrics_;
}

void EngineImpl::run() {
    while (take_work()) {
        try {
            step();
        } catch (const std::bad_alloc&) {
            for (Slot& slot : slots_) {
                if (slot.busy()) {
                    fail(slot, error(Code::kOutOfMemory, "out of memory during generation"));
                }
            }
        }
    }
    for (Slot& slot : slots_) {
        if (slot.busy()) {
            finish(slot, StopType::kNone, "", slot.text->finish());
        }
    }
    log_drafters();
    std::deque<Task> waiting;
    std::deque<SlotJob> jobs;
    {
        const std::lock_guard lock(mutex_);
        waiting.swap(queue_);
        jobs.swap(slot_jobs_);
    }
    for (const SlotJob& job : jobs) {
        job.done(error(Code::kCancelled, "the server is shutting down"));
    }
    for (const Task& task : waiting) {
        task.sink->failed(error(Code::kCancelled, "the server is shutting down"));
    }
}

bool EngineImpl::take_work() {
    const auto any_busy = [this] {
        return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.busy(); });
    };
    std::vector<Task> dropped;
    std::vector<std::pair<Slot*, Task>> starting;
    std::vector<Slot*> stopped;
    {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] {
            return stopping_ || !queue_.empty() || !cancelled_.empty() || !slot_jobs_.empty() || any_busy();
        });
        if (stopping_) {
            return false;
        }
        for (Slot& slot : slots_) {
            if (slot.busy() && cancelled_.count(slot.task->id) != 0) {
                stopped.push_back(&slot);
            }
        }
        for (auto it = queue_.begin(); it != queue_.end();) {
            if (cancelled_.count(it->id) != 0) {
                dropped.push_back(std::move(*it));
                it = queue_.erase(it);
            } else {
                ++it;
            }
        }
        cancelled_.clear();
    }
    for (Slot* slot : stopped) {
        fail(*slot, error(Code::kCancelled, "the request was cancelled"));
    }
    for (const Task& task : dropped) {
        task.sink->failed(error(Code::kCancelled, "the request was cancelled"));
    }
    do_slot_jobs();
    while (true) {
        std::optional<Task> task;
        Slot* slot = nullptr;
        {
            const std::lock_guard lock(mutex_);
            for (auto it = queue_.begin(); it != queue_.end() && slot == nullptr; ++it) {
                slot = slot_for(*it);
                if (slot != nullptr) {
                    task = std::move(*it);
                    queue_.erase(it);
                    break;
                }
            }
            metrics_.requests_deferred = static_cast<int32_t>(queue_.size());
        }
        if (slot == nullptr) {
            return true;
        }
        start(*slot, std::move(*task));
    }
}

Status EngineImpl::slot_action(SlotAction action, int slot, std::string path,
                               std::function<void(Result<SlotFileResult>)> done) {
    if (slot < 0 || slot >= options_.n_parallel) {
        return error(Code::kInvalidArgument, "Invalid slot ID");
    }
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) {
            return error(Code::kCancelled, "the server is shutting down");
        }
        slot_jobs_.push_back({action, slot, std::move(path), std::move(done)});
    }
    wake_.notify_all();
    return ok();
}

void EngineImpl::do_slot_jobs() {
    std::vector<SlotJob> ready;
    {
        const std::lock_guard lock(mutex_);
        for (auto it = slot_jobs_.begin(); it != slot_jobs_.end();) {
            if (slots_[static_cast<size_t>(it->slot)].busy()) {
                ++it;
                continue;
            }
            ready.push_back(std::move(*it));
            it = slot_jobs_.erase(it);
        }
    }
    for (const SlotJob& job : ready) {
        job.done(do_slot_job(job));
    }
}

Result<SlotFileResult> EngineImpl::do_slot_job(const SlotJob& job) {
    const Clock::time_point begin = Clock::now();
    Slot& slot = slots_[static_cast<size_t>(job.slot)];
    const auto empty = [&] {
        slot.context.clear();
        slot.n_past = 0;
        slot.n_pure = std::numeric_limits<int32_t>::max();
        runner_->forget(slot.id);
        if (drafter_ != nullptr) {
            drafter_->reset(slot.id);
        }
    };
    SlotFileResult result;
    result.n_tokens = slot.n_past;
    if (job.action == SlotAction::kErase) {
        empty();
        return result;
    }
    if (fingerprint_ == 0) {
        fingerprint_ = model_fingerprint(runner_->model().file());
    }
    const SlotFileOwner owner{fingerprint_, draft_fingerprint_, info_.n_vocab, runner_->max_saved_state_bytes()};
    if (job.action == SlotAction::kSave) {
        SlotState state{
            slot.context, std::min(slot.n_pure, slot.n_past), runner_->save_state(slot.id, slot.n_past), {}};
        if (runner_->has_state() && slot.n_past > 0 && state.recurrent.empty()) {
            return error(Code::kUnsupported, "the slot's recurrent state isn't held any more: nothing to save");
        }
        if (drafter_ != nullptr) {
            state.draft = drafter_->save(slot.id, slot.context);
        }
        FORESAY_TRY(result.n_bytes, write_slot_file(job.path, owner, runner_->kv(), slot.id, state));
    } else {
        empty();
        FORESAY_TRY(SlotState state, read_slot_file(job.path, owner, runner_->kv(), slot.id, &result.n_bytes));
        if (runner_->has_state() && !state.tokens.empty()) {
            FORESAY_CHECK_OK(
                runner_->restore_state(slot.id, static_cast<int32_t>(state.tokens.size()), state.recurrent));
        }
        if (drafter_ != nullptr && !state.draft.empty()) {
            if (const Status restored = drafter_->restore(slot.id, state.draft); !restored.has_value()) {
                drafter_->reset(slot.id);  // it begins anew: costs drafts, not text
                log::warn("slot {}: {}", slot.id, restored.error().to_string());
            }
        }
        slot.context = std::move(state.tokens);
        slot.n_past = static_cast<int32_t>(slot.context.size());
        slot.n_pure = state.n_pure < slot.n_past ? state.n_pure : std::numeric_limits<int32_t>::max();
        slot.last_used = Clock::now();
        result.n_tokens = slot.n_past;
    }
    result.ms = ms_between(begin, Clock::now());
    return result;
}

/// A request of a group waits while another of its group evaluates the prompt that both have.
bool EngineImpl::waits_for_prompt(const Task& task) const {
    return task.request.prompt_group != 0 && std::any_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
               return slot.state == Slot::State::kPrompt &&
                      slot.task->request.prompt_group == task.request.prompt_group;
           });
}

Slot* EngineImpl::slot_for(const Task& task) {
    const Request& request = task.request;
    if (waits_for_prompt(task)) {
        return nullptr;
    }
    if (request.id_slot >= 0) {
        Slot& slot = slots_[static_cast<size_t>(request.id_slot)];
        return slot.busy() ? nullptr : &slot;
    }
    Slot* best = nullptr;
    double best_similarity = kSlotSimilarity;
    for (Slot& slot : slots_) {
        if (slot.busy() || slot.n_past == 0 || !request.cache_prompt) {
            continue;
        }
        const size_t n_common = usable_prefix(slot, request.prompt);
        const double similarity = static_cast<double>(n_common) / static_cast<double>(request.prompt.size());
        if (similarity > best_similarity) {
            best_similarity = similarity;
            best = &slot;
        }
    }
    if (best != nullptr) {
        log::debug("slot {}: selected by LCP similarity {:.3f}", best->id, best_similarity);
        return best;
    }
    for (Slot& slot : slots_) {
        if (!slot.busy() && (best == nullptr || slot.last_used < best->last_used)) {
            best = &slot;
        }
    }
    return best;
}

/// How many cells of the slot the prompt may keep, after taking over what another slot or moving chunks can give.
int32_t EngineImpl::reuse_prefix(Slot& slot, const Request& request) {
    size_t n_common = usable_prefix(slot, request.prompt);
    const Slot* donor = nullptr;
    // A recurrent state belongs to its slot's own text, and so do the target's rows that a drafter feeds on: with
    // copied cells such a drafter would know less of the text than in the slot that evaluated it.
    const bool drafts_from_rows = drafter_ != nullptr && drafter_->taps().any();
    for (const Slot& other : slots_) {
        if (runner_->has_state() || drafts_from_rows) {
            break;
        }
        if (const size_t n = usable_prefix(other, request.prompt); other.id != slot.id && n > n_common) {
            n_common = n;
            donor = &other;
        }
    }
    if (donor != nullptr) {
        log::debug("slot {}: takes {} cells from slot {}", slot.id, n_common, donor->id);
        runner_->kv().copy_prefix(donor->id, slot.id, static_cast<int32_t>(n_common));
    }
    slot.n_pure = std::numeric_limits<int32_t>::max();
    // At least one token is evaluated: its logits start the text.
    n_common = std::min(n_common, request.prompt.size() - 1);
    if (request.n_cache_reuse > 0 && donor == nullptr && !runner_->has_state()) {
        move_chunks(slot, request);
        const size_t n = common_prefix(std::span(slot.context).first(static_cast<size_t>(slot.n_past)),
                                       std::span(request.prompt).first(request.prompt.size() - 1));
        if (n > n_common) {
            slot.n_pure = static_cast<int32_t>(n_common);
            n_common = n;
        }
    }
    if (drafter_ != nullptr) {
        n_common = static_cast<size_t>(std::max(0, drafter_->reusable(slot.id, static_cast<int32_t>(n_common))));
        if (donor != nullptr) {
            drafter_->reset(slot.id);  // what it holds belongs to the slot's old text
        }
    }
    return runner_->usable(slot.id, static_cast<int32_t>(n_common));
}

/// --cache-reuse: runs of at least n_cache_reuse equal tokens move down to where the prompt has them. What lies between
/// is dropped. Only asked for by the user: a moved cell has seen the tokens that were dropped.
void EngineImpl::move_chunks(Slot& slot, const Request& request) {
    const auto& prompt = request.prompt;
    auto& context = slot.context;
    context.resize(static_cast<size_t>(slot.n_past));
    size_t at = common_prefix(context, prompt);
    size_t from = at;
    while (from < context.size() && at < prompt.size()) {
        const size_t n = common_prefix(std::span(context).subspan(from), std::span(prompt).subspan(at));
        if (n < static_cast<size_t>(request.n_cache_reuse)) {
            ++from;
            continue;
        }
        if (const size_t discard = from - at; discard > 0) {
            runner_->shift(slot.id, slot.n_past, static_cast<int32_t>(at), static_cast<int32_t>(discard));
            if (drafter_ != nullptr) {
                drafter_->shifted(slot.id, static_cast<int32_t>(at), static_cast<int32_t>(discard));
            }
            context.erase(context.begin() + static_cast<ptrdiff_t>(at), context.begin() + static_cast<ptrdiff_t>(from));
            slot.n_past -= static_cast<int32_t>(discard);
        }
        at += n;
        from = at;
    }
}

void EngineImpl::start(Slot& slot, Task task) {
    const Request& request = task.request;
    const int32_t n_common = request.cache_prompt && !request.embed ? reuse_prefix(slot, request) : 0;
    if (n_common == 0 && drafter_ != nullptr) {
        drafter_->reset(slot.id);
    }
    slot.state = Slot::State::kPrompt;
    slot.context = request.prompt;
    slot.n_past = n_common;
    slot.n_prompt = static_cast<int32_t>(request.prompt.size());
    slot.n_decoded = 0;
    slot.truncated = false;
    slot.has_new_line = false;
    slot.line_seen = false;
    slot.timings = Timings{};
    slot.pooled.clear();
    slot.timings.cache_n = slot.n_past;
    slot.text.emplace(request.stop);
    slot.t_start = Clock::now();
    for (const TokenId token : request.prompt) {
        task.sampler->accept(token, false);
    }
    task.acceptor->start(request.prompt);
    if (controller_ != nullptr) {
        controller_->begin(slot.id);
    }
    slot.task = std::move(task);
    slot.task->sink->started(slot.id);
    slot.task->sink->prompt_progress(slot.n_past, slot.n_past, slot.n_prompt, 0.0);
    {
        const std::lock_guard lock(mutex_);
        ++metrics_.requests_processing;
        SlotSnapshot& snapshot = snapshots_[static_cast<size_t>(slot.id)];
        snapshot.request = slot.task->request;
        snapshot.request.prompt.clear();
    }
    publish(slot);
}

void EngineImpl::publish(const Slot& slot) {
    const std::lock_guard lock(mutex_);
    SlotSnapshot& s = snapshots_[static_cast<size_t>(slot.id)];
    s.id = slot.id;
    s.is_processing = slot.busy();
    s.n_ctx = runner_->kv().n_ctx_slot();
    s.speculative = drafter_ != nullptr;
    if (slot.task) {
        s.id_task = slot.task->id;
        s.n_prompt_tokens = slot.n_prompt;
        s.n_prompt_tokens_cache = slot.timings.cache_n;
        s.n_prompt_tokens_processed = slot.timings.prompt_n;
        s.n_decoded = slot.n_decoded;
        const int32_t n_predict = slot.task->request.n_predict;
        s.n_remaining = n_predict < 0 ? -1 : n_predict - slot.n_decoded;
    }
}

void EngineImpl::release(Slot& slot) {
    slot.state = Slot::State::kIdle;
    slot.last_used = Clock::now();
    // What isn't in the cache is not part of what the slot holds.
    slot.context.resize(static_cast<size_t>(slot.n_past));
    publish(slot);
    slot.task.reset();
    slot.text.reset();
    const std::lock_guard lock(mutex_);
    --metrics_.requests_processing;
}

void EngineImpl::finish(Slot& slot, StopType stop_type, std::string stopping_word, std::string text_tail) {
    Final final;
    final.slot = slot.id;
    final.stop_type = stop_type;
    final.stopping_word = std::move(stopping_word);
    final.text_tail = std::move(text_tail);
    final.truncated = slot.truncated;
    final.has_new_line = slot.has_new_line;
    final.tokens_cached = slot.n_past;
    final.seed = slot.task->sampler->seed();
    if (slot.n_decoded > 0) {
        slot.timings.predicted_ms = ms_between(slot.t_first_token, Clock::now());
    }
    slot.timings.predicted_n = slot.n_decoded;
    slot.timings.draft_off = why_no_drafts(slot);
    if (!slot.timings.draft_off.empty()) {
        log::info("slot {}: nothing was drafted: {}", slot.id, slot.timings.draft_off);
    }
    final.timings = slot.timings;
    final.spec = slot.task->spec;
    log_timings(slot);
    auto drafters = drafter_figures();
    const size_t bytes = memory_bytes();
    {
        const std::lock_guard lock(mutex_);
        metrics_.drafters = std::move(drafters);
        metrics_.memory_bytes = bytes;
        metrics_.tokens_predicted_total += static_cast<uint64_t>(slot.n_decoded);
        metrics_.predicted_seconds_total += slot.timings.predicted_ms / 1000.0;
        metrics_.n_tokens_max = std::max(metrics_.n_tokens_max, static_cast<uint64_t>(slot.n_past));
    }
    const std::shared_ptr<Sink> sink = slot.task->sink;
    release(slot);
    sink->final(final);
}

void EngineImpl::fail(Slot& slot, const Error& error) {
    const std::shared_ptr<Sink> sink = slot.task->sink;
    release(slot);
    sink->failed(error);
}

size_t EngineImpl::memory_bytes() const {
    return runner_->model().weight_bytes() + runner_->kv().bytes() + runner_->state_bytes() + runner_->compute_bytes() +
           (drafter_ == nullptr ? 0 : drafter_->memory_bytes() + drafter_->compute_bytes());
}

std::vector<DrafterFigures> EngineImpl::drafter_figures() const {
    std::vector<DrafterFigures> all;
    for (size_t i = 0; drafter_ != nullptr && i < drafter_->size(); ++i) {
        const spec::Drafter& drafter = std::as_const(*drafter_).drafter(i);
        const spec::DrafterStats& stats = drafter_->stats(i);
        const size_t state = drafter.state_bytes();
        all.push_back({std::string(drafter.name()), stats.calls, stats.drafts, stats.tokens, stats.acc_tokens,
                       stats.draft_ms, stats.observe_ms, drafter.memory_bytes() - state, state});
    }
    return all;
}

/// One line for each drafter that was asked, since start.
void EngineImpl::log_drafters() const {
    for (const DrafterFigures& d : drafter_figures()) {
        if (d.calls > 0) {
            log::info(
                "statistics {:>16}: {} calls, {} drafts of {} tokens, {} accepted ({:.3f}), {:.2f} ms per call, {:.3f} "
                "ms per token, {:.1f} ms on the target's rows",
                d.name, d.calls, d.drafts, d.tokens, d.accepted,
                static_cast<double>(d.accepted) / static_cast<double>(std::max<uint64_t>(1, d.tokens)),
                d.draft_ms / static_cast<double>(d.calls),
                d.draft_ms / static_cast<double>(std::max<uint64_t>(1, d.tokens)), d.observe_ms);
        }
    }
}

void EngineImpl::log_timings(const Slot& slot) const {
    const Timings& t = slot.timings;
    const auto line = [&](std::string_view name, double ms, int32_t n, int32_t n_rate) {
        const double per_token = n_rate > 0 ? ms / n_rate : 0.0;
        const double per_second = ms > 0.0 ? 1000.0 * n_rate / ms : 0.0;
        log::info(
            "slot print_timing: id {:2d} | task {} | {} = {:10.2f} ms / {:5d} tokens ({:8.2f} ms per token, {:8.2f} "
            "tokens per second)",
            slot.id, slot.task->id, name, ms, n, per_token, per_second);
    };
    line("prompt eval time", t.prompt_ms, t.prompt_n, t.prompt_n);
    line("       eval time", t.predicted_ms, slot.n_decoded, slot.n_decoded - 1);
    log::info("slot print_timing: id {:2d} | task {} |       total time = {:10.2f} ms / {:5d} tokens", slot.id,
              slot.task->id, t.prompt_ms + t.predicted_ms, t.prompt_n + slot.n_decoded);
    if (t.draft_n > 0) {
        const double mean_len = 1.0 + static_cast<double>(t.draft_n_accepted) / std::max(1, t.verify_steps);
        log::info(
            "slot print_timing: id {:2d} | task {} | draft acceptance = {:.5f} ({:5d} accepted / {:5d} generated), "
            "mean len = {:5.2f}",
            slot.id, slot.task->id, static_cast<double>(t.draft_n_accepted) / t.draft_n, t.draft_n_accepted, t.draft_n,
            mean_len);
        if (t.draft_n_relaxed > 0) {
            log::info(
                "slot print_timing: id {:2d} | task {} | relaxed = {:5d} tokens, mean rank = {:.2f}, summed log-prob "
                "gap = {:.3f}",
                slot.id, slot.task->id, t.draft_n_relaxed, t.relaxed_rank_sum / t.draft_n_relaxed, t.relaxed_gap_sum);
        }
    }
}

}  // namespace foresay::engine
