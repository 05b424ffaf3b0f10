// The one table of flags: spelling, environment name, value, default, help and setter of every flag of every command.
// Parser, --help, environment and the documents' tests all read it. Groups live in flags_<group>.cpp.
// Must not know the commands' code. Read next: parser.h.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/options.h"

namespace foresay::cli {

/// Takes one value ("" for a switch, "1"/"0" for a boolean) into the options; an Error's message is the reason shown to
/// the user.
using Setter = std::function<Status(Options& options, std::string_view value)>;

/// What using a flag does here.
enum class Support {
    kWorks,
    kNoEffect,     ///< accepted for compatibility; ignoring it can't change what a model says
    kUnsupported,  ///< refused: ignoring it would change results or break a promise to the user
    kRenamed,      ///< still works, the user is told the present name
    kRemoved,      ///< refused: `note` names the successor
};

enum class ValueKind { kNone, kBoolean, kValue };

struct Flag {
    std::vector<std::string> names{};    ///< shortest first; the last is the canonical one
    std::vector<std::string> negated{};  ///< spellings that mean "off"; booleans only
    std::string env{};                   ///< in full: LLAMA_ARG_CTX_SIZE; FORESAY_CTX_SIZE is then read too
    std::string value{};                 ///< what stands for the value in --help; empty for switches and booleans
    std::string fallback{};              ///< the default as --help shows it
    std::string help{};
    std::string note{};  ///< why it has no effect or isn't supported; the successor of a removed flag
    Setter set{};
    unsigned commands = kEngineCommands;
    Support support = Support::kWorks;
    bool repeatable = false;  ///< adds up instead of "last one wins"

    const std::string& canonical() const { return names.back(); }

    ValueKind kind() const;
};

struct FlagGroup {
    std::string title;
    std::vector<Flag> flags;
};

/// The table, in the order of --help. Built once; immutable afterwards. Threads: any.
const std::vector<FlagGroup>& flag_groups();

struct FlagMatch {
    const Flag* flag = nullptr;
    bool negated = false;
};

/// The flag with this spelling (underscores after "--" count as dashes): the row of one of `commands` where several
/// rows share it, else any; flag is null when there is none.
FlagMatch find_flag(std::string_view spelling, unsigned commands = kAnyCommand);

/// The spelling that a mistyped flag probably meant, among those of `commands`; empty when nothing is close.
std::string nearest_flag(std::string_view spelling, unsigned commands);

/// The closest word by edit distance, empty when none is within a third of the typed length.
std::string nearest_word(std::string_view typed, std::span<const std::string> words);

// The groups, one file each.
FlagGroup general_flags();
FlagGroup model_flags();
FlagGroup compute_flags();
FlagGroup server_flags();
FlagGroup template_flags();
FlagGroup sampling_flags();
FlagGroup speculation_flags();
FlagGroup ngram_flags();
FlagGroup placement_flags();
FlagGroup log_flags();
FlagGroup local_flags();
FlagGroup tune_flags();

}  // namespace foresay::cli
