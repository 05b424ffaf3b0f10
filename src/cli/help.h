// The text of --help, made from the flag table.
#pragma once

#include <string>

#include "cli/flags.h"

namespace foresay::cli {

/// Commands and one line each.
std::string short_usage();
/// The flags of the commands in `topic` (bits of Command), by group; those without effect and those refused are marked.
std::string full_help(unsigned topic);
/// One flag's entry.
std::string flag_help(const Flag& flag);
/// "foresay 0.1.0 (g++ 12.2.0, x86_64)".
std::string version_text();

}  // namespace foresay::cli
