// From arguments and environment to Options. Owns the rules of shared/spec/server-api.md, section 15.1; the flags
// themselves are in the table (flags.h). Must not start anything: commands/ does.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "cli/options.h"

namespace foresay::cli {

/// Something the user should know that is no error; logged once the logger is set up.
struct Notice {
    log::Level level = log::Level::kInfo;
    std::string text;
};

struct CommandLine {
    Command command = kServe;
    Options options;
    std::vector<Notice> notices;
    unsigned help_topic = kAnyCommand;  ///< whose flags --help lists
};

/// The value of an environment variable, or null.
using Environment = std::function<const char*(const char* name)>;

/// args: without the program's name. Without a command's name in front the command is serve, so that llama-server's
/// command lines work unchanged. Errors: invalid_argument or unsupported; the message is complete and may have several
/// lines.
Result<CommandLine> parse_command_line(std::span<const std::string> args, const Environment& environment);

/// The name users type: "serve".
std::string_view command_name(Command command);

/// \n, \t, \r, \\, \', \", \xHH as the characters they stand for; anything else stays.
std::string unescape(std::string_view text);

}  // namespace foresay::cli
