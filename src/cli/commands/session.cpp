#include "cli/commands/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "backend/cpu/cpu_backend.h"
#include "base/log.h"
#include "cli/progress.h"

namespace foresay::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Collects one request's events. Filled by the engine thread; read after wait().
class Collector : public engine::Sink {
  public:
    explicit Collector(Clock::time_point start, bool pools) : start_(start), wants_pools_(pools) {}

    void token(const engine::TokenEvent& event) override {
        generation_.times_s.push_back(std::chrono::duration<double>(event.pass.done_at - start_).count());
        generation_.passes.push_back(event.pass);
        generation_.ids.push_back(event.id);
        generation_.logprobs.push_back(event.chosen.value);
        if (wants_pools_) {
            generation_.pool_sizes.push_back(static_cast<int32_t>(
                std::count_if(event.top.begin(), event.top.end(), [](const auto& top) { return top.value > 0.0F; })));
        }
    }

    void final(const engine::Final& result) override {
        const std::lock_guard lock(mutex_);
        generation_.result = result;
        has_ended_ = true;
        ended_.notify_all();
    }

    void failed(const Error& error) override {
        const std::lock_guard lock(mutex_);
        error_ = error;
        has_ended_ = true;
        ended_.notify_all();
    }

    Result<Generation> wait() {
        std::unique_lock lock(mutex_);
        ended_.wait(lock, [this] { return has_ended_; });
        if (error_.has_value()) {
            return *error_;
        }
        return generation_;
    }

  private:
    Clock::time_point start_;
    bool wants_pools_;
    Generation generation_;  // engine thread, then the waiting one once has_ended_ is set
    std::mutex mutex_;
    std::condition_variable ended_;
    bool has_ended_ = false;      // guarded by mutex_
    std::optional<Error> error_;  // guarded by mutex_
};

}  // namespace

Result<std::unique_ptr<Session>> Session::create(const engine::EngineOptions& options, bool raw) {
    std::unique_ptr<Session> session(new Session);
    FORESAY_TRY(session->engine_, engine::Engine::create(options));
    const auto vocab = session->engine_->vocab();
    if (!raw && !vocab->chat_template().empty()) {
        chat::Source source;
        source.model_template = std::string(vocab->chat_template());
        source.bos_token = vocab->piece(vocab->bos(), true);
        source.eos_token = vocab->piece(vocab->eos(), true);
        source.adds_bos = vocab->adds_bos();
        auto templates = chat::Templates::create(std::move(source));
        if (!templates) {
            Error cause = std::move(templates).error();
            cause.hint = "--raw gives the prompts without it";
            return std::move(cause).context("the model's chat template");
        }
        session->templates_.emplace(std::move(*templates));
    }
    return session;
}

Session::~Session() {
    if (engine_ != nullptr) {
        engine_->shutdown();
    }
}

Result<std::vector<vocab::TokenId>> Session::encode(const std::string& prompt) const {
    if (!templates_.has_value()) {
        return engine_->vocab()->encode(prompt, true, false);
    }
    chat::Request request;
    request.messages.push_back({{"role", "user"}, {"content", prompt}});
    FORESAY_TRY(const chat::Prompt rendered, templates_->render(request));
    return engine_->vocab()->encode(rendered.text, true, true);
}

Status Session::erase_slots() {
    std::mutex mutex;
    std::condition_variable changed;
    const int n_slots = engine_->info().n_parallel;
    int n_done = 0;
    Status outcome = ok();
    for (int slot = 0; slot < n_slots; ++slot) {
        const Status status = engine_->slot_action(engine::SlotAction::kErase, slot, {},
                                                   [&](const Result<engine::SlotFileResult>& result) {
                                                       const std::lock_guard lock(mutex);
                                                       if (!result) {
                                                           outcome = result.error();
                                                       }
                                                       ++n_done;
                                                       changed.notify_all();
                                                   });
        if (!status) {
            const std::lock_guard lock(mutex);
            outcome = status;
            ++n_done;
        }
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return n_done == n_slots; });
    return outcome;
}

Result<std::vector<Generation>> Session::run(const std::vector<engine::Request>& requests, size_t n_clients) {
    FORESAY_CHECK_OK(erase_slots());
    const Clock::time_point start = Clock::now();
    std::vector<std::shared_ptr<Collector>> collectors;
    Status submitted = ok();
    for (size_t i = 0; i < requests.size() && submitted; ++i) {
        engine::Request request = requests[i];
        request.id_slot = static_cast<int32_t>(i % n_clients);
        request.cache_prompt = false;
        auto collector = std::make_shared<Collector>(start, request.post_sampling_probs);
        const auto task = engine_->submit(std::move(request), collector);
        if (task) {
            collectors.push_back(std::move(collector));
        } else {
            submitted = task.error();
        }
    }
    std::vector<Generation> generations;
    for (const auto& collector : collectors) {
        Result<Generation> generation = collector->wait();
        if (generation) {
            generations.push_back(std::move(*generation));
        } else if (submitted) {
            submitted = std::move(generation).error();
        }
    }
    FORESAY_CHECK_OK(submitted);
    return generations;
}

Result<std::vector<model::CostPoint>> cost_curve_of(const engine::EngineOptions& options, const std::string& path,
                                                    int32_t n_widest, int32_t rounds) {
    cpu::CpuOptions cpu_options;
    cpu_options.n_threads = options.n_threads;
    cpu_options.isa = options.cpu_isa;
    cpu_options.repack = options.repack;
    FORESAY_TRY(const auto backend, cpu::CpuBackend::create(cpu_options));
    FORESAY_TRY(auto model, model::Model::load(path, *backend));
    constexpr int32_t kDepth = 128;
    model::RunnerOptions runner_options;
    runner_options.n_ctx_slot = kDepth + 2 * n_widest;
    runner_options.n_rollback = n_widest;
    runner_options.rollback_window = n_widest;  // each width starts from the same depth
    runner_options.type_k = options.cache_type_k;
    runner_options.type_v = options.cache_type_v;
    runner_options.label = "cost curve";
    FORESAY_TRY(const auto runner, model::Runner::create(std::move(model), {backend.get()}, runner_options));
    std::vector<int32_t> ns;
    for (int32_t n = 1; n <= n_widest; ++n) {
        ns.push_back(n);
    }
    return model::measure_cost_curve(*runner, ns, rounds, kDepth);
}

void quieten_log(const log::Options& options) {
    if (options.level == log::Level::kInfo) {
        log::Options quiet = options;
        quiet.level = log::Level::kWarn;
        log::configure(quiet);
    }
}

ProgressLine::~ProgressLine() {
    if (on_terminal_ && width_ > 0) {
        (void)std::fprintf(stderr, "\r%*s\r", static_cast<int>(width_), "");
    }
}

void ProgressLine::show(const std::string& text, double share) {
    const std::string head = text.substr(0, text.find(':'));
    const std::string line = fmt::format("{:3.0f} %  {}", 100.0 * share, on_terminal_ ? text : head);
    if (on_terminal_) {
        (void)std::fprintf(stderr, "\r%-*s", static_cast<int>(width_), line.c_str());
        width_ = std::max(width_, line.size());
    } else if (head != last_) {
        (void)std::fprintf(stderr, "%s\n", line.c_str());
    }
    (void)std::fflush(stderr);
    last_ = head;
}

}  // namespace foresay::cli
