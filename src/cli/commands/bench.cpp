// foresay bench: the cost curve t(n) of a model, its prompt speed, both at depths of context, load time and peak
// memory, as a table and as JSON; beside another program where asked for.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <future>
#include <map>

#include "backend/cpu/cpu_backend.h"
#include "base/log.h"
#include "cli/commands/bench_report.h"
#include "cli/commands/commands.h"

namespace foresay::cli {
namespace {

constexpr int32_t kRounds = 9;         // medians of fewer move by several percent on shared machines
constexpr int32_t kRoundsAgainst = 3;  // each of kFewRounds passes per width
constexpr int32_t kFewRounds = 3;
constexpr int32_t kPromptSize = 512;
constexpr int32_t kDeepest = 1 << 20;

uint64_t peak_rss_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

Result<std::vector<int32_t>> parse_depths(const std::string& list) {
    std::vector<int32_t> depths;
    const char* at = list.data();
    const char* end = at + list.size();
    while (at < end) {
        int32_t depth = 0;
        const auto [rest, code] = std::from_chars(at, end, depth);
        if (code != std::errc() || depth < 0 || depth > kDeepest || (rest < end && *rest != ',')) {
            return error(Code::kInvalidArgument,
                         fmt::format("'{}' is no comma list of depths from 0 to {}", list, kDeepest), "--depths");
        }
        depths.push_back(depth);
        at = rest < end ? rest + 1 : end;
    }
    return depths;
}

/// Standard output of a shell command. Errors: what popen reports, or its exit status.
Result<std::string> output_of(const std::string& command) {
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
        return error(Code::kIo, fmt::format("can't start '{}': {}", command, std::strerror(errno)), "--against");
    }
    std::string text;
    char buffer[4096];
    for (size_t n = 0; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
        text.append(buffer, n);
    }
    const int status = pclose(pipe);
    if (status != 0) {
        return error(Code::kIo,
                     fmt::format("'{}' ended with {} {}", command, WIFEXITED(status) ? "exit code" : "signal",
                                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status)),
                     "--against");
    }
    return text;
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

void show_round(const char* what, int32_t round, int32_t rounds) {
    (void)std::fprintf(stderr, "\r%s: round %d of %d%s", what, round, rounds, round == rounds ? "\n" : "");
}

/// Ours and theirs in turn, so that a noisy minute hits both.
Result<std::vector<AgainstPoint>> measure_against(model::Runner& runner, const std::string& command,
                                                  const std::vector<int32_t>& ns) {
    std::map<std::string, std::vector<double>> ours;
    std::vector<std::string> order;
    std::map<std::string, std::vector<double>> theirs;
    for (int32_t round = 0; round < kRoundsAgainst; ++round) {
        show_round("against", round, kRoundsAgainst);
        FORESAY_TRY(const auto text, output_of(command));
        FORESAY_TRY(const auto passes, parse_other_report(text));
        for (const auto& [label, ms] : passes) {
            if (theirs[label].empty()) {
                order.push_back(label);
            }
            theirs[label].push_back(ms);
        }
        FORESAY_TRY(const auto curve, model::measure_cost_curve(runner, ns, kFewRounds, 0));
        for (const model::CostPoint& point : curve) {
            ours[pass_label(point.n)].push_back(point.median_ms);
        }
    }
    show_round("against", kRoundsAgainst, kRoundsAgainst);
    std::vector<AgainstPoint> points;
    for (const std::string& label : order) {
        if (ours.count(label) != 0) {
            points.push_back({label, median(ours[label]), median(theirs[label])});
        }
    }
    if (points.empty()) {
        return error(Code::kInvalidArgument, "the other program timed no width that bench times", "--against");
    }
    return points;
}

/// Waits for one request's end.
class BenchSink : public engine::Sink {
  public:
    void token(const engine::TokenEvent& /*event*/) override {}

    void final(const engine::Final& /*result*/) override { done_.set_value(ok()); }

    void failed(const Error& error) override { done_.set_value(Status(error)); }

    Status wait() { return done_.get_future().get(); }

  private:
    std::promise<Status> done_;
};

/// Drafts of a fixed length on a text that repeats itself, so that n-gram types have something to find.
Result<std::vector<DrafterPoint>> measure_drafters(engine::EngineOptions options) {
    constexpr int32_t kPrompt = 256;
    constexpr int32_t kTokens = 96;
    options.n_parallel = 1;
    options.n_ctx = kPromptSize;
    options.spec.adaptive = false;  // what a draft costs, not whether it pays
    options.progress = nullptr;
    FORESAY_TRY(const auto engine, engine::Engine::create(options));
    const std::vector<vocab::TokenId> sentence =
        engine->vocab()->encode("The river runs past the old mill and the mill stands by the river. ", true, false);
    if (sentence.empty()) {
        return error(Code::kUnsupported, "the vocabulary can't write the text of the measurement");
    }
    engine::Request request;
    for (int32_t i = 0; i < kPrompt; ++i) {
        request.prompt.push_back(sentence[static_cast<size_t>(i) % sentence.size()]);
    }
    request.n_predict = kTokens;
    request.sampling.temperature = 0.0F;
    request.sampling.ignore_eos = true;
    // The first run plans the passes, the second is timed.
    std::vector<engine::DrafterFigures> before;
    std::vector<engine::DrafterFigures> after;
    for (auto* figures : {&before, &after}) {
        const auto sink = std::make_shared<BenchSink>();
        FORESAY_CHECK_OK(engine->submit(request, sink));
        FORESAY_CHECK_OK(sink->wait());
        *figures = engine->metrics().drafters;
    }
    std::vector<DrafterPoint> points;
    for (size_t i = 0; i < after.size(); ++i) {
        const engine::DrafterFigures& a = after[i];
        const engine::DrafterFigures& b = before[i];
        const auto calls = static_cast<double>(std::max<uint64_t>(1, a.calls - b.calls));
        const auto tokens = static_cast<double>(a.tokens - b.tokens);
        points.push_back({a.name, (a.draft_ms - b.draft_ms) / calls,
                          tokens > 0 ? (a.draft_ms - b.draft_ms + a.observe_ms - b.observe_ms) / tokens : 0.0,
                          (a.observe_ms - b.observe_ms) / calls, tokens / calls, a.weight_bytes, a.state_bytes});
    }
    return points;
}

Result<BenchReport> measure(const Options& options) {
    const engine::EngineOptions& engine = options.engine;
    if (engine.device != "cpu") {
        return error(Code::kInvalidArgument, "only the CPU backend is worth timing", "--device");
    }
    FORESAY_TRY(const auto depths, parse_depths(options.local.depths));
    BenchReport report;
    report.model = engine.model;
    cpu::CpuOptions cpu_options;
    cpu_options.n_threads = engine.n_threads;
    cpu_options.isa = engine.cpu_isa;
    cpu_options.repack = engine.repack;
    FORESAY_TRY(const auto backend, cpu::CpuBackend::create(cpu_options));
    report.isa = std::string(cpu::isa_name(backend->isa()));
    report.n_threads = backend->n_threads();
    const auto start = std::chrono::steady_clock::now();
    FORESAY_TRY(auto model, model::Model::load(engine.model, *backend));
    report.load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.file_bytes = model->file().file_bytes();
    model::RunnerOptions runner_options;
    const int32_t deepest = depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
    runner_options.n_ctx_slot = deepest + 2 * kPromptSize;
    runner_options.type_k = engine.cache_type_k;
    runner_options.type_v = engine.cache_type_v;
    runner_options.label = "bench";
    FORESAY_TRY(auto runner, model::Runner::create(std::move(model), {backend.get()}, runner_options));
    std::vector<int32_t> ns;
    for (int32_t n = 1; n <= 16; ++n) {
        ns.push_back(n);
    }
    ns.insert(ns.end(), {32, 64, 128, kPromptSize});
    if (!options.local.against.empty()) {
        FORESAY_TRY(report.against, measure_against(*runner, options.local.against, ns));
    }
    FORESAY_TRY(report.curve, model::measure_cost_curve(*runner, ns, kRounds, 0, [](int32_t round) {
                    show_round("cost curve", round, kRounds);
                }));
    report.plan_hits = runner->scheduler_stats().plan_hits;
    report.plan_misses = runner->scheduler_stats().plans_built;
    for (const int32_t depth : depths) {
        const std::vector<int32_t> both{1, kPromptSize};
        FORESAY_TRY(const auto curve,
                    model::measure_cost_curve(*runner, both, kFewRounds, depth, [depth](int32_t round) {
                        show_round(fmt::format("depth {}", depth).c_str(), round, kFewRounds);
                    }));
        report.depths.push_back({depth, curve[0].median_ms, 1000.0 * kPromptSize / curve[1].median_ms});
    }
    report.peak_rss_bytes = peak_rss_bytes();
    if (engine.spec.any()) {
        runner.reset();  // its weights: the engine loads them anew
        FORESAY_TRY(report.drafters, measure_drafters(engine));
    }
    return report;
}

/// Where the report goes as JSON; opened before minutes are spent on measuring.
Status open_json(const std::string& path, std::ofstream& file) {
    if (!path.empty() && path != "-") {
        file.open(path, std::ios::binary);
        if (!file) {
            return error(Code::kIo, fmt::format("can't write '{}': {}", path, std::strerror(errno)), "--json");
        }
    }
    return ok();
}

Status run_bench(const Options& options) {
    const std::string& path = options.local.json_file;
    std::ofstream file;
    FORESAY_CHECK_OK(open_json(path, file));
    FORESAY_TRY(const BenchReport report, measure(options));
    if (path != "-") {
        print_report(report);
    } else {
        fmt::print("{}\n", to_json(report).dump(2));
    }
    if (file.is_open()) {
        file << to_json(report).dump(2) << '\n';
        file.close();
        if (!file) {
            return error(Code::kIo, fmt::format("can't write '{}': {}", path, std::strerror(errno)), "--json");
        }
    }
    return ok();
}

}  // namespace

int bench_command(const Options& options) {
    const Status status = run_bench(options);
    if (!status.has_value()) {
        log::error("{}", status.error().to_string());
        return 1;
    }
    return 0;
}

}  // namespace foresay::cli
