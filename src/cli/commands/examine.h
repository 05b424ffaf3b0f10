// What foresay doctor measures on a pair, and the requests that it makes; the self-check makes the same ones.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/session.h"
#include "cli/doctor/diagnose.h"
#include "cli/options.h"

namespace foresay::cli {

/// Of the user's or the built-in prompts, at most n, of different classes in turn. Errors: the file's.
Result<std::vector<std::string>> choose_prompts(const Options& options, size_t n);

/// A request under the user's sampling flags, with a fixed seed where none is given and a fixed draft length.
engine::Request make_request(const Options& options, std::vector<vocab::TokenId> prompt, float temperature);

/// The user's engine with room for the acceptance curve.
engine::EngineOptions engine_options(const Options& options, int32_t n_parallel);

/// Measures the configured pair. notes: what could not be measured. Errors: no drafter; what loading and running
/// report. A pair that can't work is no error: Figures::pair_problems.
Result<doctor::Figures> examine(const Options& options, std::vector<std::string>* notes);

}  // namespace foresay::cli
