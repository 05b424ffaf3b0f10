// foresay run: one prompt in the terminal. Text goes to standard output as it comes, figures to standard error at the
// end.
#include <fmt/format.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/commands/figures.h"
#include "cli/progress.h"

namespace foresay::cli {
namespace {

/// Collects one request's events. Called by the engine thread; wait() by the main thread.
class TextSink : public engine::Sink {
  public:
    explicit TextSink(bool print) : print_(print) {}

    void token(const engine::TokenEvent& event) override { add(event.text, event.id); }

    void final(const engine::Final& result) override {
        add(result.text_tail, std::nullopt);
        end(result);
    }

    void failed(const Error& error) override { end(error); }

    /// Blocks until the request has ended.
    Result<engine::Final> wait() {
        std::unique_lock lock(mutex_);
        ended_.wait(lock, [this] { return outcome_.has_value(); });
        return *outcome_;
    }

    // After wait() only.
    const std::string& text() const { return text_; }

    const std::vector<vocab::TokenId>& ids() const { return ids_; }

  private:
    void add(const std::string& text, std::optional<vocab::TokenId> id) {
        text_ += text;
        if (id.has_value()) {
            ids_.push_back(*id);
        }
        if (print_ && !text.empty()) {
            (void)std::fwrite(text.data(), 1, text.size(), stdout);
            (void)std::fflush(stdout);
        }
    }

    void end(Result<engine::Final> outcome) {
        const std::lock_guard lock(mutex_);
        outcome_ = std::move(outcome);
        ended_.notify_all();
    }

    bool print_;
    std::string text_;                 // engine thread, then main thread once outcome_ is set
    std::vector<vocab::TokenId> ids_;  // the same
    std::mutex mutex_;
    std::condition_variable ended_;
    std::optional<Result<engine::Final>> outcome_;  // guarded by mutex_
};

engine::Request make_request(const Options& options, const std::vector<vocab::TokenId>& prompt) {
    engine::Request request;
    request.prompt = prompt;
    request.sampling = options.sampling;
    request.n_predict = options.n_predict < -1 ? -1 : options.n_predict;
    request.n_keep = options.engine.n_keep;
    request.stop = options.server.stop;
    return request;
}

Result<engine::Final> generate(engine::Engine& engine, engine::Request request, const std::shared_ptr<TextSink>& sink) {
    FORESAY_TRY([[maybe_unused]] const int64_t task, engine.submit(std::move(request), sink));
    return sink->wait();
}

Status run(const Options& options) {
    FORESAY_TRY(const std::string text, prompt_text(options.local));
    engine::EngineOptions engine_options = options.engine;
    engine_options.n_parallel = 1;
    engine_options.progress = make_progress(is_terminal());
    FORESAY_TRY(const auto engine, engine::Engine::create(engine_options));
    if (options.log.level == log::Level::kInfo) {
        // From here on a request's lines would cut the text in two on a terminal, and figures_line() says the same. The
        // engine thread is idle, so the log may be set up anew.
        log::Options quiet = options.log;
        quiet.level = log::Level::kWarn;
        log::configure(quiet);
    }
    const std::vector<vocab::TokenId> prompt = engine->vocab()->encode(text, true, true);
    if (options.local.print_prompt) {
        (void)std::fwrite(text.data(), 1, text.size(), stdout);
    }
    const auto sink = std::make_shared<TextSink>(true);
    FORESAY_TRY(const engine::Final result, generate(*engine, make_request(options, prompt), sink));
    (void)std::fputc('\n', stdout);
    (void)std::fflush(stdout);
    // The stream remembers a write that failed: a text on a full disk isn't a result.
    if (std::ferror(stdout) != 0) {
        return error(Code::kIo, "can't write the whole text", "standard output");
    }

    std::optional<Plain> plain;
    if (options.local.compare_plain && options.engine.spec.any()) {
        if (options.log.level <= log::Level::kInfo) {
            (void)std::fprintf(stderr, "the same without speculation ...\n");
        }
        engine::Request request = make_request(options, prompt);
        request.sampling.seed = result.seed;  // a random seed was drawn: the comparison needs the same one
        request.spec.n_max = 0;
        request.spec.n_min = 0;
        const auto plain_sink = std::make_shared<TextSink>(false);
        FORESAY_TRY(const engine::Final plain_result, generate(*engine, std::move(request), plain_sink));
        plain = Plain{plain_result.timings, plain_sink->ids() == sink->ids() && plain_sink->text() == sink->text()};
    }
    // Not through the log: these are the command's result, whatever the verbosity.
    (void)std::fprintf(stderr, "%s\n", figures_line(result.timings, plain).c_str());
    engine->shutdown();
    return ok();
}

}  // namespace

int run_command(const Options& options) {
    if (const Status status = run(options); !status) {
        log::error("{}", status.error().to_string());
        return 1;
    }
    return 0;
}

}  // namespace foresay::cli
