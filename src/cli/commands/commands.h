// The commands: each takes the options and returns the process's exit code. Text goes to standard output, everything
// else to standard error (by the log or directly).
#pragma once

#include <string>

#include "cli/options.h"

namespace foresay::cli {

int serve_command(const Options& options);
int run_command(const Options& options);
int inspect_command(const Options& options);
int pair_command(const Options& options);
int tokenize_command(const Options& options);
int bench_command(const Options& options);
int tune_command(const Options& options);
int doctor_command(const Options& options);

/// The prompt of -p or -f, escapes replaced where asked for. Errors: io, naming the file.
Result<std::string> prompt_text(const LocalOptions& options);
/// "1.09 GiB".
std::string human_bytes(uint64_t bytes);
/// "1.54 B", "135 M": parameters.
std::string human_count(uint64_t count);

}  // namespace foresay::cli
