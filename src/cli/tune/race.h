// The order of a tuning run: rounds of new prompts on which all settings still in the race run one after the other,
// the slowest leave, the finalists are measured on further prompts and under the other conditions. Pure: the bench
// behind it may be an engine or a test's model.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/tune/stats.h"
#include "cli/tune/texts.h"

namespace foresay::cli::tune {

/// Runs settings. Sample::group and stage are the race's to fill in.
class Bench {
  public:
    virtual ~Bench() = default;
    /// One prompt per client, all at once, cold: no cache of prompts or n-grams from before.
    virtual Result<Sample> run(const Setting& setting, const Condition& condition,
                               std::span<const std::string> prompts) = 0;
    /// Seconds since the run began.
    virtual double seconds() = 0;
};

struct RaceOptions {
    std::vector<Setting> settings;  ///< without plain; all of one source
    bool prune = true;              ///< false: every setting is measured to the end
    std::vector<std::string> classes;
    std::vector<float> temperatures{0.0F};  ///< the first one is screened at
    std::vector<int32_t> clients{1};        ///< as well
    double begin_s = 0.0;                   ///< on the bench's clock
    double end_s = 600.0;
    int32_t max_rounds = 1000;  ///< per stage
};

struct RaceResult {
    std::vector<Sample> samples;
    std::vector<std::string> notes;  ///< what was left out, and why
};

/// text: "screening 2: 13 of 22, code"; share: of the time budget.
using RaceProgress = std::function<void(const std::string& text, double share)>;

/// Errors: what the bench reports; invalid_argument when there isn't a prompt for one round.
Result<RaceResult> race(const RaceOptions& options, PromptPool& pool, Bench& bench, const RaceProgress& progress);

/// Those that stay after a round of screening: of the strict and of the relaxed ones the better half each, at least
/// `least` of them, and every adaptive one (it is the default that others have to beat).
std::vector<Setting> better_half(const std::vector<Sample>& samples, const std::vector<Setting>& settings,
                                 const Filter& filter, size_t least);

/// Strict and relaxed, fixed or adaptive: the one with the highest speed-up; null when none was measured.
const Setting* best_of(const std::vector<Sample>& samples, const std::vector<Setting>& settings, const Filter& filter,
                       bool relaxed);

}  // namespace foresay::cli::tune
