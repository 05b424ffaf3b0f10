// Figures from samples: paired ratios, their geometric mean, bootstrap intervals. Pure; the same samples give the same
// figures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/tune/setting.h"
#include "engine/engine.h"

namespace foresay::cli::tune {

/// Where a setting is measured.
struct Condition {
    std::string text_class;
    float temperature = 0.0F;
    int32_t clients = 1;

    bool operator==(const Condition& other) const = default;
};

/// Screening chooses, confirming measures what was chosen on other prompts: a winner's own luck stays out of its
/// figure.
enum class Stage : uint8_t { kScreen, kConfirm };

/// One setting on one group of prompts (several clients: each asks two, one after the other).
struct Sample {
    Setting setting;
    Condition condition;
    Stage stage = Stage::kScreen;
    int32_t group = 0;  ///< samples of one group and source had the same prompts, one after the other
    int32_t n_tokens = 0;
    int32_t n_timed = 0;      ///< of them in generate_s
    double generate_s = 0.0;  ///< while all clients' texts were being written: while_all_write
    double total_s = 0.0;     ///< from the request to the last token: prompts included
    int64_t n_drafted = 0;
    int64_t n_accepted = 0;
    int64_t n_relaxed = 0;
    int64_t n_verified = 0;  ///< steps that carried a draft
    double rank_sum = 0.0;
    double gap_sum = 0.0;
    std::vector<uint64_t> accepted_at;     ///< [i]: drafts whose i-th token stood
    std::vector<engine::PassInfo> passes;  ///< in generate_s
    double steady_s = 0.0;  ///< generate_s with the machine's ups and downs taken out (steady.h); 0: unknown

    /// Generated tokens per second, all clients together; 0 when there was nothing to time.
    double tok_s() const { return n_timed > 0 && generate_s > 0.0 ? n_timed / generate_s : 0.0; }

    double steady_tok_s() const { return n_timed > 0 && steady_s > 0.0 ? n_timed / steady_s : 0.0; }

    double total_tok_s() const { return n_tokens > 0 && total_s > 0.0 ? n_tokens / total_s : 0.0; }
};

struct Span {
    double begin_s = 0.0;
    double end_s = 0.0;

    /// What comes at its end belongs to it, what comes at its begin doesn't.
    bool holds(double s) const { return s > begin_s && s <= end_s; }
};

/// The times in which every client has a text being written (behind its first token, up to its last). Prompts that are
/// read and clients that are done stay out: they are another load, and drafts move when texts end. texts: the times of
/// each text's tokens, ascending; text i is of client i % n_clients, whose texts follow one another.
std::vector<Span> while_all_write(const std::vector<std::vector<double>>& texts, size_t n_clients);

/// A figure and the interval that holds it with 95 % confidence.
struct Figure {
    double value = 0.0;
    double low = 0.0;
    double high = 0.0;
    int32_t n = 0;  ///< pairs; 0: not measured
};

/// log(setting / plain) of one group.
struct PairedLog {
    std::string stratum;  ///< the text class
    double value = 0.0;
};

/// exp of the mean over strata of the strata's means, and its percentile interval: values are drawn anew within each
/// stratum, or from all of them where a stratum has fewer than four. One value in all: the interval is the value.
Figure geometric_mean(const std::vector<PairedLog>& logs);

/// What of a sample's time counts: that of generating, with the prompts', or steady_s.
enum class Timing : uint8_t { kGenerating, kWhole, kSteady };

/// Which samples count.
struct Filter {
    const Condition* condition = nullptr;  ///< null: any text class ...
    float temperature = 0.0F;              ///< ... at this temperature
    int32_t clients = 1;                   ///< ... and this many clients
    bool confirmed_only = false;
    Timing timing = Timing::kGenerating;
};

/// Speed of a setting by that of plain on the same prompts. Groups without a plain sample don't count.
Figure speed_up(const std::vector<Sample>& samples, const Setting& setting, const Filter& filter);

/// All samples of a setting that pass the filter, added up.
Sample total(const std::vector<Sample>& samples, const Setting& setting, const Filter& filter);

bool passes(const Sample& sample, const Filter& filter);

}  // namespace foresay::cli::tune
