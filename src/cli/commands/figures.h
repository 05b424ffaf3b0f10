// The figures of a finished text, as the line that `foresay run` ends with.
#pragma once

#include <optional>
#include <string>

#include "engine/engine.h"

namespace foresay::cli {

/// Generated tokens per second: over n - 1 tokens, as the clock starts with the first; 0 for fewer than two.
double tokens_per_second(const engine::Timings& timings);
/// Evaluated prompt tokens per second; 0 when there were none.
double prompt_per_second(const engine::Timings& timings);

/// The same prompt without speculation.
struct Plain {
    engine::Timings timings;
    bool same_text = false;
};

/// "prompt 12 tokens 45.1 tok/s | text 128 tokens 14.20 tok/s | acceptance 0.574 (347/605), ... | plain 8.10 tok/s,
/// speed-up 1.75x, same text". The acceptance part is there only if something was drafted.
std::string figures_line(const engine::Timings& timings, const std::optional<Plain>& plain);

}  // namespace foresay::cli
