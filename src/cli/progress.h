// Load progress: a bar on a terminal, one line per stage otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace foresay::cli {

/// The text of a bar: "loading weights  [#####     ]  50%". Stage names longer than the column push the bar to the
/// right.
std::string bar_text(const std::string& stage, float fraction);

/// For EngineOptions::progress. Writes to standard error unless the log is below info. Threads: any.
/// on_terminal: draw a bar in place; otherwise each stage is one log line when it begins.
std::function<void(const std::string& stage, float fraction)> make_progress(bool on_terminal);

/// Whether standard error is a terminal.
bool is_terminal();

}  // namespace foresay::cli
