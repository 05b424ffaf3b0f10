#include "cli/commands/figures.h"

#include <fmt/format.h>

namespace foresay::cli {

double tokens_per_second(const engine::Timings& timings) {
    const bool has_rate = timings.predicted_n > 1 && timings.predicted_ms > 0.0;
    return has_rate ? (timings.predicted_n - 1) * 1000.0 / timings.predicted_ms : 0.0;
}

double prompt_per_second(const engine::Timings& timings) {
    return timings.prompt_n > 0 && timings.prompt_ms > 0.0 ? timings.prompt_n * 1000.0 / timings.prompt_ms : 0.0;
}

std::string figures_line(const engine::Timings& timings, const std::optional<Plain>& plain) {
    std::string line = fmt::format("prompt {} tokens {:.1f} tok/s | text {} tokens {:.2f} tok/s", timings.prompt_n,
                                   prompt_per_second(timings), timings.predicted_n, tokens_per_second(timings));
    if (timings.draft_n > 0) {
        const double mean =
            timings.verify_steps > 0 ? 1.0 + static_cast<double>(timings.draft_n_accepted) / timings.verify_steps : 1.0;
        line += fmt::format(" | acceptance {:.3f} ({}/{}), mean length {:.2f}, relaxed {}",
                            static_cast<double>(timings.draft_n_accepted) / timings.draft_n, timings.draft_n_accepted,
                            timings.draft_n, mean, timings.draft_n_relaxed);
        if (timings.draft_n_relaxed > 0) {
            line +=
                fmt::format(" (mean rank {:.2f}, mean gap {:.2f})", timings.relaxed_rank_sum / timings.draft_n_relaxed,
                            timings.relaxed_gap_sum / timings.draft_n_relaxed);
        }
    }
    if (plain.has_value()) {
        const double rate = tokens_per_second(plain->timings);
        line += fmt::format(" | plain {:.2f} tok/s, speed-up {:.2f}x, {}", rate,
                            rate > 0.0 ? tokens_per_second(timings) / rate : 0.0,
                            plain->same_text ? "same text" : "other text");
    }
    return line;
}

}  // namespace foresay::cli
