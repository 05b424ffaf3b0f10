#include "cli/doctor/diagnose.h"

#include <fmt/format.h>

#include <algorithm>

namespace foresay::cli::doctor {
namespace {

// Thresholds: well away from what good pairs show (first position 0.6 and more on code), and from noise.
constexpr double kSelfLeast = 0.999;   // the target's own drafts
constexpr double kFirstLeast = 0.35;   // below this no length pays on any machine that we know
constexpr double kLongLoss = 0.6;      // long text keeps at least this part of short text's acceptance
constexpr double kCacheGain = 0.05;    // acceptance that an f16 cache would bring
constexpr double kSampledLoss = 0.15;  // acceptance lost by sampling
constexpr double kPoolShare = 0.5;     // of tokens with fewer candidates than N
constexpr double kPays = 1.05;
constexpr double kMatters = 0.95;  // a cause that takes 5 % of the speed
constexpr double kFewRounds = 0.3;

double cost_ratio(const Figures& f, int32_t n_rows) {
    const auto last = static_cast<int32_t>(f.cost_ms.size());
    const double one = f.cost_ms.front();
    if (n_rows <= last) {
        return f.cost_ms[static_cast<size_t>(n_rows - 1)] / one;
    }
    // Beyond what was measured the last step goes on.
    const double step =
        last >= 2 ? f.cost_ms[static_cast<size_t>(last - 1)] - f.cost_ms[static_cast<size_t>(last - 2)] : 0.0;
    return (f.cost_ms.back() + std::max(0.0, step) * (n_rows - last)) / one;
}

double expected_tokens(const Acceptance& acceptance, int32_t n) {
    double sum = 1.0;
    double stands = 1.0;
    for (int32_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(i);
        const auto n_known = static_cast<int32_t>(acceptance.stands_at.size());
        if (at < acceptance.stands_at.size()) {
            stands = acceptance.stands_at[at];
        } else if (i < acceptance.n_max || n_known == 0) {
            stands = 0.0;  // it was drafted and never stood
        } else {
            // The ratio of the last two known positions goes on.
            const double before = n_known >= 2 ? acceptance.stands_at[static_cast<size_t>(n_known - 2)] : 1.0;
            stands *= before > 0.0 ? acceptance.stands_at.back() / before : 0.0;
        }
        sum += stands;
    }
    return sum;
}

double draft_ratio(const Figures& f) {
    return f.draft_ms / f.cost_ms.front();
}

std::string positions_text(const Acceptance& a) {
    std::string text;
    for (const double value : a.stands_at) {
        text += fmt::format("{}{:.2f}", text.empty() ? "" : " ", value);
    }
    return text.empty() ? "none" : text;
}

Finding make(std::string cause, Weight weight, std::string what, std::string figures, std::string advice) {
    return {std::move(cause), weight, std::move(what), std::move(figures), std::move(advice)};
}

void look_at_pair(const Figures& f, std::vector<Finding>* out) {
    if (!f.pair_problems.empty()) {
        std::string all;
        for (const std::string& problem : f.pair_problems) {
            all += (all.empty() ? "" : "; ") + problem;
        }
        out->push_back(make("pair-mismatch", Weight::kFatal, "The drafter doesn't fit this target.", all,
                            "take a drafter of the same family and tokenizer; foresay pair compares the files"));
    }
}

void look_at_engine(const Figures& f, std::vector<Finding>* out) {
    const auto is_broken = [](const std::optional<Acceptance>& a) {
        return a.has_value() && a->n_drafts > 0 && a->share < kSelfLeast;
    };
    if (is_broken(f.own_short) || is_broken(f.own_long)) {
        out->push_back(make(
            "engine-error", Weight::kFatal,
            "The target rejects drafts that it made itself: that is a fault of the engine, not of the pair.",
            fmt::format("own drafts accepted: {:.3f} on short text, {:.3f} on long text",
                        f.own_short ? f.own_short->share : 1.0, f.own_long ? f.own_long->share : 1.0),
            "please report it with the two files' names; foresay doctor --self-check shows whether the text suffers"));
    }
}

/// True when acceptance is so low that the rest explains nothing.
bool look_at_acceptance(const Figures& f, std::vector<Finding>* out) {
    if (!f.greedy_short.has_value()) {
        return false;
    }
    const Acceptance& a = *f.greedy_short;
    const bool is_ngram = f.type.rfind("ngram", 0) == 0;
    if (is_ngram) {
        if (f.rounds_with_draft < kFewRounds) {
            out->push_back(
                make("text-does-not-repeat", Weight::kMajor,
                     "The text hardly repeats itself, so that lookups find nothing to propose.",
                     fmt::format("{:.0f} % of the rounds had a draft, {:.2f} of the drafted tokens stood",
                                 100.0 * f.rounds_with_draft, a.share),
                     "n-gram types suit edits, extraction and code with its source in the prompt; else use a "
                     "draft model"));
        }
        return false;
    }
    if (a.n_drafts == 0 || a.first() >= kFirstLeast) {
        return false;
    }
    const bool cache_helps = f.full_cache.has_value() && f.full_cache->first() >= kFirstLeast;
    if (cache_helps) {
        return false;  // look_at_cache names it
    }
    const bool own_is_fine = f.own_short.has_value() && f.own_short->share >= kSelfLeast;
    out->push_back(make(
        "pair-mismatch", Weight::kFatal,
        "The drafter disagrees with the target from the first token on: another training, another version of the "
        "model, or "
        "a damaged or wrongly converted file (positions included).",
        fmt::format("first drafted token accepted {:.2f} of the time at temperature 0; by position: {}{}", a.first(),
                    positions_text(a),
                    own_is_fine ? "; the target's own drafts are accepted, so that the engine is not at fault" : ""),
        "take another drafter, of the same family and made from the same version; check that chats go through the "
        "template that both were trained with"));
    return true;
}

void look_at_positions(const Figures& f, std::vector<Finding>* out) {
    if (!f.greedy_short || !f.greedy_long || f.greedy_long->n_drafts == 0 || f.greedy_short->share <= 0.0) {
        return;
    }
    const double kept = f.greedy_long->share / f.greedy_short->share;
    if (kept >= kLongLoss) {
        return;
    }
    const bool is_outside = f.n_ctx_train_draft > 0 && f.long_tokens > f.n_ctx_train_draft;
    out->push_back(make("position-error", Weight::kMajor,
                        is_outside
                            ? "The context is longer than what the drafter was trained for."
                            : "The drafter loses its place in long texts: its positions are off (rope settings in "
                              "its file) or its window is shorter than stated.",
                        fmt::format("acceptance {:.2f} on short text, {:.2f} behind {} tokens; trained for {} tokens "
                                    "(target: {})",
                                    f.greedy_short->share, f.greedy_long->share, f.long_tokens, f.n_ctx_train_draft,
                                    f.n_ctx_train_target),
                        "compare the rope settings that foresay inspect shows for both files; take a drafter with a "
                        "longer window"));
}

void look_at_cache(const Figures& f, std::vector<Finding>* out) {
    if (!f.draft_cache_is_quantised || !f.full_cache || !f.greedy_short) {
        return;
    }
    const double gain = f.full_cache->share - f.greedy_short->share;
    if (gain > kCacheGain) {
        out->push_back(
            make("quantised-cache", Weight::kMajor, "The drafter's quantised cache costs acceptance.",
                 fmt::format("acceptance {:.2f}, with an f16 cache {:.2f}", f.greedy_short->share, f.full_cache->share),
                 "leave out --spec-draft-type-k and --spec-draft-type-v: the drafter's cache is small"));
    }
}

void look_at_sampling(const Figures& f, std::vector<Finding>* out) {
    if (!f.sampled || !f.greedy_short || f.temperature <= 0.0F || f.sampled->n_drafts == 0) {
        return;
    }
    const double loss = f.greedy_short->share - f.sampled->share;
    if (loss > kSampledLoss) {
        out->push_back(make(
            "temperature", Weight::kMinor,
            fmt::format("Sampling at temperature {:g} costs acceptance: target and drafter draw apart.", f.temperature),
            fmt::format("acceptance {:.2f} at temperature 0, {:.2f} at {:g}", f.greedy_short->share, f.sampled->share,
                        f.temperature),
            f.probabilistic ? "a lower temperature, or --spec-draft-rule lossless where the text need not "
                              "be that of plain decoding"
                            : "--spec-draft-sampling probabilistic lets both draw with the same noise"));
    }
}

void look_at_pool(const Figures& f, std::vector<Finding>* out) {
    if (f.top_n < 2 || f.pool_sizes.empty()) {
        return;
    }
    double sum = 0.0;
    int32_t n_small = 0;
    for (const int32_t size : f.pool_sizes) {
        sum += size;
        n_small += size < f.top_n ? 1 : 0;
    }
    const auto n = static_cast<double>(f.pool_sizes.size());
    const double share = n_small / n;
    if (share > kPoolShare) {
        out->push_back(make(
            "small-pool", Weight::kMinor,
            fmt::format("N = {} of the relaxed rule is larger than the set of candidates that it counts in: "
                        "the cut of min_p, top_p and top_k decides, not N.",
                        f.top_n),
            fmt::format("{:.1f} candidates on average, fewer than N at {:.0f} % of the tokens", sum / n, 100.0 * share),
            "a smaller N means the same; --min-p 0 and a larger --top-k make N count, and let worse tokens in"));
    }
}

void look_at_costs(const Figures& f, std::vector<Finding>* out) {
    if (f.cost_ms.size() < 2 || !f.greedy_short || f.greedy_short->n_drafts == 0 || f.n_max < 1) {
        return;
    }
    const Acceptance& a = *f.greedy_short;
    const double now = predicted_speed_up(f, a, f.n_max);
    const int32_t most = std::max(f.n_max, a.n_max);
    const int32_t best = best_length(f, a, most);
    const double at_best = predicted_speed_up(f, a, best);
    const std::string curve =
        fmt::format("a pass over {} rows costs {:.2f} passes over one", f.n_max + 1, cost_ratio(f, f.n_max + 1));
    if (f.n_max > best && now < kMatters * at_best) {
        out->push_back(make("n-max-past-optimum", now < 1.0 ? Weight::kMajor : Weight::kMinor,
                            fmt::format("n_max {} is past the optimum.", f.n_max),
                            fmt::format("predicted speed-up {:.2f} at n_max {}, {:.2f} at {}; by position: {}", now,
                                        f.n_max, at_best, best, positions_text(a)),
                            best > 0
                                ? fmt::format("--spec-draft-n-max {}, or --spec-draft-adaptive, which finds it", best)
                                : "--spec-draft-adaptive drafts nothing where nothing pays"));
    }
    // What is lost at the best length, or at 1 where none pays.
    const int32_t n = std::max(1, best);
    const double tokens = expected_tokens(a, n);
    const double real = predicted_speed_up(f, a, n);
    const double free_drafts = tokens / cost_ratio(f, n + 1);
    const double free_verify = tokens / (1.0 + n * draft_ratio(f));
    if (f.draft_ms > 0.0 && free_drafts > kPays && real < kPays) {
        out->push_back(
            make("drafter-too-dear", Weight::kMajor, "The drafter costs too much of what its drafts save.",
                 fmt::format("a drafted token costs {:.2f} passes of the target ({:.1f} of {:.1f} ms); predicted "
                             "speed-up {:.2f}, with free drafts {:.2f}",
                             draft_ratio(f), f.draft_ms, f.cost_ms.front(), real, free_drafts),
                 "a smaller or more strongly quantised drafter; drafters with a head on the target (eagle3, "
                 "mtp) cost less; n-gram types cost nothing"));
    }
    if (cost_ratio(f, n + 1) > 1.0 + 0.25 * n && free_verify > kPays && real < kPays) {
        out->push_back(make("compute-bound-verify", Weight::kMajor,
                            "Verifying is bound by arithmetic: each further row costs nearly a pass of its own.",
                            fmt::format("{}; predicted speed-up {:.2f}, with free verification {:.2f}",
                                        n == f.n_max ? curve
                                                     : fmt::format("a pass over {} rows costs {:.2f} passes over one",
                                                                   n + 1, cost_ratio(f, n + 1)),
                                        real, free_verify),
                            "fewer clients at a time, more threads, or a weight type with faster products; else "
                            "speculation can't gain on this machine"));
    }
}

}  // namespace

double predicted_speed_up(const Figures& figures, const Acceptance& acceptance, int32_t n) {
    if (figures.cost_ms.empty() || figures.cost_ms.front() <= 0.0) {
        return 0.0;
    }
    if (n <= 0) {
        return 1.0;
    }
    return expected_tokens(acceptance, n) / (n * draft_ratio(figures) + cost_ratio(figures, n + 1));
}

int32_t best_length(const Figures& figures, const Acceptance& acceptance, int32_t n_most) {
    int32_t best = 0;
    for (int32_t n = 1; n <= n_most; ++n) {
        if (predicted_speed_up(figures, acceptance, n) > predicted_speed_up(figures, acceptance, best)) {
            best = n;
        }
    }
    return best;
}

std::vector<Finding> diagnose(const Figures& figures) {
    std::vector<Finding> findings;
    look_at_pair(figures, &findings);
    look_at_engine(figures, &findings);
    const bool is_hopeless = look_at_acceptance(figures, &findings);
    look_at_cache(figures, &findings);
    look_at_pool(figures, &findings);
    if (!is_hopeless) {
        look_at_positions(figures, &findings);
        look_at_sampling(figures, &findings);
        look_at_costs(figures, &findings);
    }
    std::stable_sort(findings.begin(), findings.end(),
                     [](const Finding& a, const Finding& b) { return a.weight < b.weight; });
    return findings;
}

}  // namespace foresay::cli::doctor
