// From figures of a pair to the likely causes of low acceptance or low gain. Pure: must not know how they are measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace foresay::cli::doctor {

/// Drafts on one kind of text.
struct Acceptance {
    int32_t n_drafts = 0;
    int32_t n_max = 0;              ///< what the drafts went up to
    double share = 0.0;             ///< accepted by drafted
    std::vector<double> stands_at;  ///< [i]: share of drafts whose i-th token stood

    /// Share of drafts whose first token stood; 0 without drafts.
    double first() const { return stands_at.empty() ? 0.0 : stands_at.front(); }
};

/// What was measured on the pair. What is absent wasn't, and no cause is named by it.
struct Figures {
    std::string type;                        ///< "draft-simple"
    std::vector<std::string> pair_problems;  ///< of spec::check_pair
    int32_t n_texts_different = 0;           ///< token texts that differ
    int32_t n_ctx_train_target = 0;
    int32_t n_ctx_train_draft = 0;
    int32_t n_max = 3;  ///< as configured
    int32_t top_n = 0;  ///< as configured; 0, 1: strict
    float temperature = 0.0F;
    bool probabilistic = true;  ///< drafts are drawn with the target's noise, or can't be
    bool draft_cache_is_quantised = false;

    std::vector<double> cost_ms;  ///< [i]: a pass of the target over i + 1 rows
    double draft_ms = 0.0;        ///< per drafted token; 0: next to nothing (n-grams) or not known

    std::optional<Acceptance> own_short;  ///< the target drafts for itself: has to be 1
    std::optional<Acceptance> own_long;
    std::optional<Acceptance> greedy_short;  ///< temperature 0
    std::optional<Acceptance> greedy_long;   ///< behind `long_tokens` tokens of context
    std::optional<Acceptance> sampled;       ///< at `temperature`
    std::optional<Acceptance> full_cache;    ///< as greedy_short, the drafter's cache in f16
    int32_t long_tokens = 0;
    double rounds_with_draft = 1.0;  ///< share of rounds in which anything was drafted

    std::vector<int32_t> pool_sizes;  ///< candidates left by truncation, one per token
    double speed_up = 0.0;            ///< measured with the configuration; 0: not measured
};

/// How much a cause weighs: the reader looks at the first one first.
enum class Weight : uint8_t { kFatal, kMajor, kMinor };

struct Finding {
    std::string cause;  ///< "pair-mismatch", "position-error", ...: for scripts
    Weight weight = Weight::kMinor;
    std::string what;     ///< one sentence
    std::string figures;  ///< that it goes by
    std::string advice;
};

/// The heaviest first; empty: nothing stands out.
std::vector<Finding> diagnose(const Figures& figures);

/// Tokens per ms of drafting n tokens each round, by those of plain decoding, as acceptance and costs predict it.
/// n beyond the acceptance curve: its last position counts. 0 when there is no cost curve.
double predicted_speed_up(const Figures& figures, const Acceptance& acceptance, int32_t n);

/// The draft length with the highest prediction, up to n_most.
int32_t best_length(const Figures& figures, const Acceptance& acceptance, int32_t n_most);

}  // namespace foresay::cli::doctor
