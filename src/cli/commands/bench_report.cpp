#include "cli/commands/bench_report.h"

#include <fmt/format.h>

#include "cli/commands/commands.h"

namespace foresay::cli {
namespace {

using Json = nlohmann::ordered_json;
using Passes = std::vector<std::pair<std::string, double>>;

constexpr int32_t kWidestDraft = 128;

Error not_a_report(const std::string& why) {
    return error(Code::kInvalidArgument, fmt::format("its output is no report: {}", why), "--against",
                 "use 'foresay bench --json -' or 'llama-bench -o json'");
}

double number_at(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
}

Passes foresay_passes(const Json& report) {
    Passes passes;
    for (const Json& point : report["cost_curve"]) {
        if (point.is_object() && number_at(point, "n") >= 1 && number_at(point, "ms") > 0) {
            passes.emplace_back(pass_label(static_cast<int32_t>(number_at(point, "n"))), number_at(point, "ms"));
        }
    }
    return passes;
}

Passes llama_bench_passes(const Json& rows) {
    Passes passes;
    for (const Json& row : rows) {
        if (!row.is_object() || number_at(row, "avg_ts") <= 0) {
            continue;
        }
        const auto n_prompt = static_cast<int32_t>(number_at(row, "n_prompt"));
        if (n_prompt > 0 && number_at(row, "n_gen") == 0) {
            passes.emplace_back(pass_label(n_prompt), 1000.0 * n_prompt / number_at(row, "avg_ts"));
        } else if (n_prompt == 0) {
            passes.emplace_back(pass_label(1), 1000.0 / number_at(row, "avg_ts"));
        }
    }
    return passes;
}

}  // namespace

std::string pass_label(int32_t n) {
    return n > kWidestDraft ? fmt::format("prompt {}", n) : fmt::format("t({})", n);
}

Result<Passes> parse_other_report(const std::string& text) {
    // Programs print lines before it: the report begins at the first bracket that opens one.
    const size_t start = text.find_first_of("[{");
    if (start == std::string::npos) {
        return not_a_report("no JSON in it");
    }
    const Json json = Json::parse(text.substr(start), nullptr, false);
    if (json.is_discarded()) {
        return not_a_report("JSON that can't be parsed");
    }
    Passes passes;
    if (json.is_object() && json.contains("cost_curve") && json["cost_curve"].is_array()) {
        passes = foresay_passes(json);
    } else if (json.is_array()) {
        passes = llama_bench_passes(json);
    }
    if (passes.empty()) {
        return not_a_report("no pass in it");
    }
    return passes;
}

Json to_json(const BenchReport& report) {
    Json json;
    json["model"] = report.model;
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
    for (const DepthPoint& point : report.depths) {
        json["depths"].push_back(
            {{"depth", point.depth}, {"decode_ms", point.decode_ms}, {"prompt_tok_s", point.prompt_tok_s}});
    }
    for (const AgainstPoint& point : report.against) {
        json["against"].push_back({{"what", point.what},
                                   {"ms", point.ours_ms},
                                   {"other_ms", point.theirs_ms},
                                   {"ratio", point.ours_ms / point.theirs_ms}});
    }
    for (const DrafterPoint& point : report.drafters) {
        json["drafters"].push_back({{"name", point.name},
                                    {"draft_ms", point.call_ms},
                                    {"tokens", point.tokens},
                                    {"ms_per_token", point.token_ms},
                                    {"observe_ms", point.observe_ms},
                                    {"ratio", point.token_ms / report.curve.front().median_ms},
                                    {"weight_bytes", point.weight_bytes},
                                    {"state_bytes", point.state_bytes}});
    }
    json["load_s"] = report.load_s;
    json["peak_rss_bytes"] = report.peak_rss_bytes;
    json["file_bytes"] = report.file_bytes;
    json["plan_cache"] = {{"hits", report.plan_hits}, {"misses", report.plan_misses}};
    return json;
}

void print_report(const BenchReport& report) {
    fmt::print("{}, {} threads, {}\n\n    n   median ms    p10     p90   t(n)/t(1)   tok/s\n", report.model,
               report.n_threads, report.isa);
    for (const model::CostPoint& point : report.curve) {
        fmt::print("{:5}  {:9.2f}  {:7.2f} {:7.2f}  {:9.2f}  {:8.1f}\n", point.n, point.median_ms, point.p10_ms,
                   point.p90_ms, point.median_ms / report.curve.front().median_ms, 1000.0 * point.n / point.median_ms);
    }
    if (!report.depths.empty()) {
        fmt::print("\ndepth   decode ms   prompt tok/s\n");
        for (const DepthPoint& point : report.depths) {
            fmt::print("{:5}  {:10.2f}  {:13.1f}\n", point.depth, point.decode_ms, point.prompt_tok_s);
        }
    }
    if (!report.against.empty()) {
        fmt::print("\n                 ms   other ms   ratio\n");
        for (const AgainstPoint& point : report.against) {
            fmt::print("{:<10} {:8.2f}  {:9.2f}  {:6.2f}\n", point.what, point.ours_ms, point.theirs_ms,
                       point.ours_ms / point.theirs_ms);
        }
    }
    if (!report.drafters.empty()) {
        fmt::print("\ndrafter        draft ms   tokens   ms/token   of t(1)   weights      state\n");
        for (const DrafterPoint& point : report.drafters) {
            fmt::print("{:<13} {:9.3f}  {:7.1f}  {:9.3f}  {:8.3f}   {:<10}   {}\n", point.name,
                       point.call_ms + point.observe_ms, point.tokens, point.token_ms,
                       point.token_ms / report.curve.front().median_ms, human_bytes(point.weight_bytes),
                       human_bytes(point.state_bytes));
        }
    }
    fmt::print("\nload {:.2f} s, peak memory {}, file {}, plans built {}, found again {}\n", report.load_s,
               human_bytes(report.peak_rss_bytes), human_bytes(report.file_bytes), report.plan_misses,
               report.plan_hits);
}

}  // namespace foresay::cli
