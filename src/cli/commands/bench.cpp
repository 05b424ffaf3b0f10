// foresay bench: the cost curve t(n) of a model, its prompt speed, load time and peak memory, as a table or as JSON.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_backend.h"
#include "base/log.h"
#include "cli/commands/commands.h"
#include "model/cost_curve.h"

namespace foresay::cli {
namespace {

constexpr int32_t kRounds = 9;  // medians of fewer move by several percent on shared machines
constexpr int32_t kPromptSize = 512;

struct Report {
    std::string isa;
    int n_threads = 0;
    double load_s = 0.0;
    size_t file_bytes = 0;
    std::vector<model::CostPoint> curve;
    uint64_t plan_hits = 0;
    uint64_t plan_misses = 0;
};

uint64_t peak_rss_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

Result<Report> measure(const engine::EngineOptions& options) {
    if (options.device != "cpu") {
        return error(Code::kInvalidArgument, "only the CPU backend is worth timing", "--device");
    }
    Report report;
    cpu::CpuOptions cpu_options;
    cpu_options.n_threads = options.n_threads;
    cpu_options.isa = options.cpu_isa;
    FORESAY_TRY(const auto backend, cpu::CpuBackend::create(cpu_options));
    report.isa = std::string(cpu::isa_name(backend->isa()));
    report.n_threads = backend->n_threads();
    const auto start = std::chrono::steady_clock::now();
    FORESAY_TRY(auto model, model::Model::load(options.model, *backend));
    report.load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.file_bytes = model->file().file_bytes();
    model::RunnerOptions runner_options;
    runner_options.n_ctx_slot = 2 * kPromptSize;
    runner_options.type_k = options.cache_type_k;
    runner_options.type_v = options.cache_type_v;
    runner_options.label = "bench";
    FORESAY_TRY(const auto runner, model::Runner::create(std::move(model), {backend.get()}, runner_options));
    std::vector<int32_t> ns;
    for (int32_t n = 1; n <= 16; ++n) {
        ns.push_back(n);
    }
    ns.insert(ns.end(), {32, 64, 128, kPromptSize});
    FORESAY_TRY(report.curve, model::measure_cost_curve(*runner, ns, kRounds, 0, [](int32_t round) {
                    std::fprintf(stderr, "\rround %d of %d%s", round, kRounds, round == kRounds ? "\n" : "");
                }));
    report.plan_hits = runner->scheduler_stats().plan_hits;
    report.plan_misses = runner->scheduler_stats().plans_built;
    return report;
}

nlohmann::ordered_json to_json(const Report& report, const std::string& model) {
    nlohmann::ordered_json json;
    json["model"] = model;
    json["isa"] = report.isa;
    json["threads"] = report.n_threads;
    for (const model::CostPoint& point : report.curve) {
        json["cost_curve"].push_back({{"n", point.n},
                                      {"ms", point.median_ms},
                                      {"p10_ms", point.p10_ms},
                                      {"p90_ms", point.p90_ms},
                                      {"ratio", point.median_ms / report.curve.front().median_ms}});
    }
    const model::CostPoint& prompt = report.curve.back();
    json["prompt"].push_back({{"n", prompt.n}, {"tok_s", 1000.0 * prompt.n / prompt.median_ms}});
    json["load_s"] = report.load_s;
    json["peak_rss_bytes"] = peak_rss_bytes();
    json["file_bytes"] = report.file_bytes;
    json["plan_cache"] = {{"hits", report.plan_hits}, {"misses", report.plan_misses}};
    return json;
}

}  // namespace

int bench_command(const Options& options) {
    const auto report = measure(options.engine);
    if (!report.has_value()) {
        log::error("{}", report.error().to_string());
        return 1;
    }
    if (options.local.json) {
        fmt::print("{}\n", to_json(*report, options.engine.model).dump(2));
        return 0;
    }
    fmt::print("{}, {} threads, {}\n\n    n   median ms    p10     p90   t(n)/t(1)   tok/s\n", options.engine.model,
               report->n_threads, report->isa);
    for (const model::CostPoint& point : report->curve) {
        fmt::print("{:5}  {:9.2f}  {:7.2f} {:7.2f}  {:9.2f}  {:8.1f}\n", point.n, point.median_ms, point.p10_ms,
                   point.p90_ms, point.median_ms / report->curve.front().median_ms, 1000.0 * point.n / point.median_ms);
    }
    fmt::print("\nload {:.2f} s, peak memory {}, file {}, plans built {}, found again {}\n", report->load_s,
               human_bytes(peak_rss_bytes()), human_bytes(report->file_bytes), report->plan_misses, report->plan_hits);
    return 0;
}

}  // namespace foresay::cli
