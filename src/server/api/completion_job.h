// One completion request of any route from its body to its last byte: submits the tasks, gathers or streams what they
// emit, cancels them when the client goes. All state is the I/O thread's; engine threads only post. Source:
// shared/spec/server-api.md, sections 4, 6.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/api/app.h"
#include "server/api/errors.h"
#include "server/api/format_completion.h"
#include "server/api/reply_style.h"
#include "server/http/http_types.h"
#include "vocab/vocab.h"

namespace foresay::server {

class CompletionJob : public std::enable_shared_from_this<CompletionJob> {
  public:
    /// Body to tasks and the style of their answer; runs on a worker.
    using Parse = Result<CompletionRequest> (*)(const std::string& body, const std::shared_ptr<App>& app);

    CompletionJob(std::shared_ptr<App> app, std::shared_ptr<http::ResponseWriter> writer)
        : app_(std::move(app)), writer_(std::move(writer)) {}

    /// Watches the client. I/O thread, before submit().
    void attach();
    /// Parses the body and submits its tasks; every failure is answered. Any thread but the engine's; may take long for
    /// long prompts.
    void submit(const std::string& body, Parse parse);

  private:
    class TaskSink;
    using Clock = std::chrono::steady_clock;

    struct Task {
        engine::Request request;
        int64_t id = -1;
        int slot = -1;
        bool done = false;
        std::string content;
        std::vector<vocab::TokenId> tokens;
        std::vector<ProbEntry> probs;
        vocab::Utf8Stream characters;  ///< tells whether the tokens so far end inside a character
        Partial part;                  ///< grows until its text is whole
        size_t text_offset = 0;        ///< bytes of text sent so far
        std::optional<Partial> held;   ///< an event without text yet: the end may have text for it
        engine::Timings timings;       ///< so far, for timings_per_token
        Clock::time_point first_token;
        std::optional<engine::Final> result;
    };

    void prepare(CompletionRequest request);
    void activate();
    /// Runs the step now, or when all tasks are submitted.
    void deliver(std::function<void()> step);

    void on_started(size_t i, int slot);
    void on_progress(size_t i, const Progress& progress);
    void on_token(size_t i, engine::TokenEvent event, Clock::time_point at);
    void on_final(size_t i, engine::Final result);
    void on_failed(size_t i, const Error& error);

    void store_token(Task& task, engine::TokenEvent event);
    void stream_token(size_t i, engine::TokenEvent event);
    void finish_stream(size_t i);
    void reply_all();
    void begin_stream();
    void send(std::string bytes);
    void send_partial(Task& task, Partial partial);
    Completed completed(size_t i);
    void count(const engine::Timings& timings);

    ApiError describe(const Error& error, const engine::Request& request) const;
    void fail(const ApiError& error);
    void client_gone();
    void cancel_tasks();

    std::shared_ptr<App> app_;
    std::shared_ptr<http::ResponseWriter> writer_;
    ReplyOptions reply_;
    std::shared_ptr<ReplyStyle> style_;
    std::vector<Task> tasks_;
    std::vector<std::function<void()>> waiting_;
    size_t n_open_ = 0;
    size_t n_prob_values_ = 0;
    bool active_ = false;
    bool streaming_ = false;
    bool over_ = false;  ///< answered, failed or abandoned: later events are dropped
    std::atomic<bool> gone_{false};
};

}  // namespace foresay::server
