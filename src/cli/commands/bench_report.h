// What `foresay bench` measures, and the forms in which it says it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/cost_curve.h"

namespace foresay::cli {

struct DepthPoint {
    int32_t depth = 0;     ///< tokens in the context before
    double decode_ms = 0;  ///< one token
    double prompt_tok_s = 0;
};

/// Ratio of one measurement of another program to ours.
struct AgainstPoint {
    std::string what;  ///< "t(1)", "t(8)", "prompt 512"
    double ours_ms = 0;
    double theirs_ms = 0;
};

/// What one drafter costs beside its target, drafting as many tokens as --spec-draft-n-max says.
struct DrafterPoint {
    std::string name;
    double call_ms = 0.0;     ///< one draft: its catch-up with the last round and all its steps
    double token_ms = 0.0;    ///< of a drafted token
    double observe_ms = 0.0;  ///< per draft: taking over the target's rows
    double tokens = 0.0;      ///< per draft
    uint64_t weight_bytes = 0;
    uint64_t state_bytes = 0;  ///< of one slot
};

struct BenchReport {
    std::string model;
    std::string isa;
    int n_threads = 0;
    double load_s = 0.0;
    uint64_t file_bytes = 0;
    uint64_t peak_rss_bytes = 0;
    std::vector<model::CostPoint> curve;  ///< the last point is the prompt's
    std::vector<DepthPoint> depths;
    std::vector<AgainstPoint> against;
    std::vector<DrafterPoint> drafters;
    uint64_t plan_hits = 0;
    uint64_t plan_misses = 0;
};

nlohmann::ordered_json to_json(const BenchReport& report);
void print_report(const BenchReport& report);

/// Milliseconds per pass by label ("t(1)", "prompt 512") from the output of another program: the JSON report of a
/// foresay, or the array that llama-bench -o json prints (n_gen > 0: one token; n_prompt: a pass over so many). Errors:
/// invalid argument.
Result<std::vector<std::pair<std::string, double>>> parse_other_report(const std::string& text);

/// The label of a pass over n rows: passes wider than any draft are prompts.
std::string pass_label(int32_t n);

}  // namespace foresay::cli
