// What `foresay tune` found, and the forms in which it says it: text, JSON, one HTML page (page.h).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/tune/race.h"
#include "model/cost_curve.h"

namespace foresay::cli::tune {

/// One setting under one temperature and number of clients.
struct Row {
    Setting setting;
    float temperature = 0.0F;
    int32_t clients = 1;
    double tok_s = 0.0;
    Figure speed_up;                                       ///< over all samples
    Figure whole;                                          ///< the same with the prompts' time
    Figure steady;                                         ///< speed-up with the machine's ups and downs taken out
    std::vector<std::pair<std::string, Figure>> by_class;  ///< speed-up
    std::vector<std::pair<std::string, Figure>> steady_by_class;
    double acceptance = 0.0;        ///< accepted by drafted; 0 when nothing was drafted
    double mean_length = 1.0;       ///< tokens per verified draft
    double relaxed_share = 0.0;     ///< of all tokens
    double mean_rank = 0.0;         ///< of relaxed tokens
    double gap_per_token = 0.0;     ///< nats given up, by all tokens
    std::vector<double> stands_at;  ///< [i]: share of drafts whose i-th token stood
    bool drafted = false;
    int32_t n_samples = 0;
};

/// A setting that was chosen: on the screening prompts, measured on others.
struct Choice {
    Setting setting;
    Figure confirmed;
    std::string text_class_worst;  ///< where it gains least ...
    Figure worst;                  ///< ... and what it does there
    std::vector<std::string> flags;
};

struct Report {
    std::string model;
    std::string drafter;  ///< path; empty: n-grams
    std::string isa;
    std::string description;
    int32_t n_threads = 0;
    int32_t n_predict = 0;
    double seconds = 0.0;
    bool chat_template = false;
    bool own_prompts = false;
    std::vector<std::string> classes;
    std::vector<Source> sources;
    std::vector<model::CostPoint> curve;  ///< of the target
    double draft_ms = 0.0;                ///< one token of the drafter; 0: not known
    std::vector<Sample> samples;
    std::vector<Row> rows;  ///< plain first
    std::optional<Choice> strict;
    std::optional<Choice> relaxed;
    std::optional<Choice> adaptive;  ///< strict and adaptive: what runs when nothing is set
    std::vector<std::string> notes;
};

/// Fills rows and choices from samples and sources.
void summarize(Report* report);

nlohmann::ordered_json to_json(const Report& report);
/// The tables and the flags, for a terminal.
std::string to_text(const Report& report);
/// With fewer pairs an interval would say nothing.
inline constexpr int32_t kFewPairs = 4;

/// "1.42 (1.36..1.49)", "1.42 (2 pairs)".
std::string figure_text(const Figure& figure);

}  // namespace foresay::cli::tune
