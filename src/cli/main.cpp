// The program: parses the command line, sets the log up, calls the command. Nothing else happens here.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/commands/commands.h"
#include "cli/help.h"
#include "cli/parser.h"
#include "cli/progress.h"

namespace foresay::cli {
namespace {

int dispatch(const CommandLine& line) {
    switch (line.command) {
        case kRun:
            return run_command(line.options);
        case kInspect:
            return inspect_command(line.options);
        case kPair:
            return pair_command(line.options);
        case kTokenize:
            return tokenize_command(line.options);
        case kTune:
            return tune_command(line.options);
        case kDoctor:
            return doctor_command(line.options);
        case kBench:
            return bench_command(line.options);
        default:
            return serve_command(line.options);
    }
}

int main_with(const std::vector<std::string>& args) {
    auto line = parse_command_line(args, [](const char* name) -> const char* { return std::getenv(name); });
    if (!line) {
        std::fprintf(stderr, "%s\n", line.error().message.c_str());
        return 1;
    }
    Options& options = line->options;
    if (options.help) {
        fmt::print("{}", full_help(line->help_topic));
        return 0;
    }
    if (options.version) {
        fmt::print("{}\n", version_text());
        return 0;
    }
    if (options.list_devices) {
        fmt::print(
            "Available devices:\n  cpu        the processor\n  reference  the slow implementation that tests compare "
            "with\n");
        return 0;
    }
    options.log.colors = options.log_colors == "on" || (options.log_colors == "auto" && is_terminal());
    log::configure(options.log);
    for (const Notice& notice : line->notices) {
        if (notice.level == log::Level::kWarn) {
            log::warn("{}", notice.text);
        } else {
            log::info("{}", notice.text);
        }
    }
    return dispatch(*line);
}

}  // namespace
}  // namespace foresay::cli

int main(int argc, char** argv) {
    try {
        return foresay::cli::main_with(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
    } catch (const std::exception& e) {
        // A bug: nothing of ours throws past its module. Say what it was instead of aborting without a word.
        std::fprintf(stderr, "foresay: internal error: %s\n", e.what());
        return 1;
    }
}
