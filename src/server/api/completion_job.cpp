#include "server/api/completion_job.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"

namespace foresay::server {
namespace {

// A gathered reply holds at most so many probabilities: about 1 GB as JSON.
constexpr size_t kMaxProbValues = 8'000'000;

}  // namespace

/// The engine thread's end: turns each call into a step on the I/O thread.
class CompletionJob::TaskSink final : public engine::Sink {
  public:
    TaskSink(std::shared_ptr<CompletionJob> job, size_t index, std::shared_ptr<Ticket> ticket)
        : job_(std::move(job)), index_(index), ticket_(std::move(ticket)) {}

    void started(int slot) override {
        post([slot](CompletionJob& job, size_t i) { job.on_started(i, slot); });
    }

    void prompt_progress(int32_t processed, int32_t cached, int32_t total, double ms) override {
        post([p = Progress{total, cached, processed, ms}](CompletionJob& job, size_t i) { job.on_progress(i, p); });
    }

    void token(const engine::TokenEvent& event) override {
        post([event, at = Clock::now()](CompletionJob& job, size_t i) mutable {
            job.on_token(i, std::move(event), at);
        });
    }

    void final(const engine::Final& result) override {
        ticket_ = nullptr;
        post([result](CompletionJob& job, size_t i) { job.on_final(i, result); });
    }

    void failed(const Error& error) override {
        ticket_ = nullptr;
        post([error](CompletionJob& job, size_t i) { job.on_failed(i, error); });
    }

  private:
    template <typename Step>
    void post(Step step) {
        job_->writer_->post([job = job_, i = index_, step = std::move(step)]() mutable {
            job->deliver([job, i, step = std::move(step)]() mutable { step(*job, i); });
        });
    }

    std::shared_ptr<CompletionJob> job_;
    size_t index_;
    std::shared_ptr<Ticket> ticket_;
};

void CompletionJob::attach() {
    writer_->on_gone([weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
            self->client_gone();
        }
    });
}

void CompletionJob::submit(const std::string& body, Parse parse) {
    const auto self = shared_from_this();
    const auto refuse = [self](const ApiError& error) { self->writer_->post([self, error] { self->fail(error); }); };
    if (gone_) {
        return;
    }
    Result<CompletionRequest> parsed = parse(body, app_);
    if (!parsed) {
        refuse(to_api_error(parsed.error()));
        return;
    }
    ApiError busy;
    auto tickets = take_tickets(app_, parsed->tasks.size(), &busy);
    if (tickets.empty()) {
        refuse(busy);
        return;
    }
    prepare(std::move(*parsed));
    for (size_t i = 0; i < tasks_.size(); ++i) {
        if (tasks_[i].request.prompt.empty()) {
            continue;  // text "" without BOS: nothing to run, see activate()
        }
        auto sink = std::make_shared<TaskSink>(self, i, std::move(tickets[i]));
        Result<int64_t> id = app_->engine->submit(tasks_[i].request, std::move(sink));
        if (!id) {
            refuse(describe(id.error(), tasks_[i].request));
            // fail() cancels those that were submitted before.
            return;
        }
        tasks_[i].id = *id;
    }
    writer_->post([self] { self->activate(); });
}

void CompletionJob::prepare(CompletionRequest request) {
    reply_ = std::move(request.reply);
    style_ = std::move(request.style);
    static std::atomic<uint64_t> next_group{1};
    uint64_t group = 0;
    for (engine::Request& task : request.tasks) {
        if (reply_.n_choices > 1) {
            group = tasks_.size() % static_cast<size_t>(reply_.n_choices) == 0 ? next_group++ : group;
            task.prompt_group = group;
        }
        Task& added = tasks_.emplace_back();
        added.request = std::move(task);
        added.part.index = tasks_.size() - 1;
        added.part.n_evaluated = static_cast<int32_t>(added.request.prompt.size());
    }
    n_open_ = tasks_.size();
}

void CompletionJob::activate() {
    active_ = true;
    ++app_->counters.requests_total;
    if (gone_) {
        client_gone();
        return;
    }
    for (size_t i = 0; i < tasks_.size(); ++i) {
        if (tasks_[i].id < 0) {
            engine::Final nothing;
            nothing.seed = tasks_[i].request.sampling.seed;
            on_final(i, std::move(nothing));
        }
    }
    for (const auto& step : std::exchange(waiting_, {})) {
        step();
    }
}

void CompletionJob::deliver(std::function<void()> step) {
    if (over_) {
        return;
    }
    if (active_) {
        step();
    } else {
        waiting_.push_back(std::move(step));
    }
}

void CompletionJob::on_started(size_t i, int slot) {
    tasks_[i].slot = slot;
    tasks_[i].part.slot = slot;
    if (reply_.stream) {
        begin_stream();  // as early as this: proxies give up on a silent server
    }
}

void CompletionJob::on_progress(size_t i, const Progress& progress) {
    Task& task = tasks_[i];
    task.timings.cache_n = progress.cache;
    task.timings.prompt_n = progress.processed - progress.cache;
    task.timings.prompt_ms = progress.time_ms;
    if (reply_.stream && reply_.return_progress && !over_) {
        begin_stream();
        send(style_->progress(task.part, progress));
    }
}

void CompletionJob::on_token(size_t i, engine::TokenEvent event, Clock::time_point at) {
    if (over_) {
        return;
    }
    Task& task = tasks_[i];
    if (task.timings.predicted_n++ == 0) {
        task.first_token = at;
    }
    task.timings.predicted_ms = std::chrono::duration<double, std::milli>(at - task.first_token).count();
    if (reply_.stream) {
        stream_token(i, std::move(event));
    } else {
        store_token(task, std::move(event));
    }
}

void CompletionJob::store_token(Task& task, engine::TokenEvent event) {
    task.content += event.text;
    if (reply_.return_tokens) {
        task.tokens.push_back(event.id);
    }
    if (task.request.n_probs <= 0) {
        return;
    }
    n_prob_values_ += event.top.size() + 1;
    if (n_prob_values_ > kMaxProbValues) {
        fail(make_api_error(400,
                            fmt::format("n_probs {}: the reply would hold over {} probabilities; use \"stream\": true",
                                        task.request.n_probs, kMaxProbValues)));
        return;
    }
    task.probs.push_back({event.chosen, std::move(event.top)});
}

void CompletionJob::stream_token(size_t i, engine::TokenEvent event) {
    Task& task = tasks_[i];
    begin_stream();
    task.part.tokens.push_back(event.id);
    task.part.content += event.text;
    task.part.n_predicted = task.timings.predicted_n;
    if (task.request.n_probs > 0) {
        task.part.probs.push_back({event.chosen, std::move(event.top)});
    }
    if (task.request.marks) {
        task.part.marks.push_back({event.id, event.kind, event.mark});
    }
    task.characters.push(app_->format.vocab->piece(event.id, false));
    if (task.characters.has_pending() && task.part.content.empty()) {
        return;  // ends inside a character: the token that completes it brings the event
    }
    if (reply_.timings_per_token) {
        task.part.timings = task.timings;
    }
    Partial next = task.part;
    task.part.tokens.clear();
    task.part.content.clear();
    task.part.probs.clear();
    task.part.marks.clear();
    if (task.held) {
        send_partial(task, *std::exchange(task.held, std::nullopt));
    }
    if (next.content.empty()) {
        task.held = std::move(next);  // its text is withheld: if the answer ends here, the end brings it
    } else {
        send_partial(task, std::move(next));
    }
}

void CompletionJob::finish_stream(size_t i) {
    Task& task = tasks_[i];
    begin_stream();
    if (!task.part.tokens.empty()) {  // ended inside a character
        if (task.held) {
            send_partial(task, *std::exchange(task.held, std::nullopt));
        }
        task.held = std::move(task.part);
    }
    if (!task.result->text_tail.empty()) {
        if (!task.held) {
            task.held = task.part;
            task.held->n_predicted = task.timings.predicted_n;
        }
        task.held->content += task.result->text_tail;
    }
    if (task.held) {
        send_partial(task, *std::exchange(task.held, std::nullopt));
    }
    send(style_->final_event(completed(i)));
}

void CompletionJob::on_final(size_t i, engine::Final result) {
    Task& task = tasks_[i];
    if (over_ || task.done) {
        return;
    }
    task.done = true;
    task.content += result.text_tail;
    count(result.timings);
    task.result = std::move(result);
    --n_open_;
    if (reply_.stream) {
        finish_stream(i);
        if (n_open_ == 0) {
            send(style_->stream_end());
            over_ = true;
            writer_->end_stream();
        }
    } else if (n_open_ == 0) {
        reply_all();
    }
}

void CompletionJob::on_failed(size_t i, const Error& error) {
    if (!over_) {
        tasks_[i].done = true;
        fail(describe(error, tasks_[i].request));
    }
}

void CompletionJob::reply_all() {
    over_ = true;
    std::vector<Completed> choices;
    for (size_t i = 0; i < tasks_.size(); ++i) {
        choices.push_back(completed(i));
    }
    http::HttpReply reply;
    reply.body = dump(style_->whole(choices));
    writer_->send(std::move(reply));
}

Completed CompletionJob::completed(size_t i) {
    Task& task = tasks_[i];
    Completed completed;
    completed.index = i;
    completed.request = &task.request;
    completed.reply = &reply_;
    completed.result = &*task.result;
    if (!reply_.stream) {
        completed.content = std::move(task.content);
        cut_stop_word(&task.probs, *task.result, *app_->format.vocab);
        completed.probs = std::move(task.probs);
        completed.tokens = std::move(task.tokens);
    }
    return completed;
}

void CompletionJob::count(const engine::Timings& timings) {
    Counters& counters = app_->counters;
    counters.prompt_tokens_cached_total += static_cast<uint64_t>(timings.cache_n);
    counters.prompt_tokens += static_cast<uint64_t>(timings.prompt_n);
    counters.prompt_ms += timings.prompt_ms;
    counters.predicted_steps += static_cast<uint64_t>(std::max(timings.predicted_n - 1, 0));
    counters.predicted_ms += timings.predicted_ms;
}

void CompletionJob::begin_stream() {
    if (streaming_ || over_) {
        return;
    }
    streaming_ = true;
    http::HttpReply head;
    head.content_type = "text/event-stream";
    head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    writer_->begin_stream(std::move(head), reply_.sse_ping_interval_s, ":\n\n");
}

void CompletionJob::send(std::string bytes) {
    if (!bytes.empty()) {
        writer_->write(std::move(bytes));
    }
}

void CompletionJob::send_partial(Task& task, Partial partial) {
    partial.text_offset = task.text_offset;
    task.text_offset += partial.content.size();
    send(style_->partial(partial, task.request));
}

ApiError CompletionJob::describe(const Error& error, const engine::Request& request) const {
    ApiError result = to_api_error(error);
    if (error.code == Code::kCapacity) {
        result.n_prompt_tokens = static_cast<int64_t>(request.prompt.size());
        result.n_ctx = app_->engine->info().n_ctx_slot;
    }
    return result;
}

void CompletionJob::fail(const ApiError& error) {
    if (over_) {
        return;
    }
    over_ = true;
    if (streaming_) {
        writer_->write(style_->error_event(error));
        writer_->end_stream();
    } else {
        writer_->send(error_reply(error));
    }
    cancel_tasks();
}

void CompletionJob::client_gone() {
    gone_ = true;
    if (over_ || !active_) {
        return;  // a worker may still be submitting: activate() comes back here
    }
    over_ = true;
    ++app_->counters.requests_cancelled_total;
    cancel_tasks();
}

void CompletionJob::cancel_tasks() {
    for (Task& task : tasks_) {
        if (task.id >= 0 && !task.done) {
            task.done = true;
            log::warn("srv  {:>12}: cancel task, id_task = {}", "stop", task.id);
            app_->engine->cancel(task.id);
        }
    }
    waiting_.clear();
}

}  // namespace foresay::server
