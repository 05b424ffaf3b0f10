// Flags of every command, and those of run, tokenize and inspect.
#include "cli/flag_values.h"
#include "cli/flags.h"

namespace foresay::cli {

FlagGroup general_flags() {
    return {"General",
            {
                {.names = {"-h", "--usage", "--help"},
                 .help = "print this help and exit",
                 .set = to_switch([](Options& o) -> bool& { return o.help; }),
                 .commands = kAnyCommand},
                {.names = {"--version"},
                 .help = "print the version and exit",
                 .set = to_switch([](Options& o) -> bool& { return o.version; }),
                 .commands = kAnyCommand},
                {.names = {"--list-devices"},
                 .help = "print the devices that --device takes and exit",
                 .set = to_switch([](Options& o) -> bool& { return o.list_devices; })},
            }};
}

FlagGroup local_flags() {
    return {
        "foresay run, bench, tokenize and inspect",
        {
            {.names = {"-p", "--prompt"},
             .value = "TEXT",
             .help = "the prompt; taken as it is, no chat template",
             .set = to_text([](Options& o) -> std::string& { return o.local.prompt; }),
             .commands = kRun | kTokenize},
            {.names = {"-f", "--file"},
             .value = "FILE",
             .help = "read the prompt from FILE; - is standard input",
             .set = to_nonempty_text([](Options& o) -> std::string& { return o.local.prompt_file; }),
             .commands = kRun | kTokenize},
            {.names = {"--compare-plain"},
             .help = "run the same prompt without speculation too, in the same process, and print both figures",
             .set = to_switch([](Options& o) -> bool& { return o.local.compare_plain; }),
             .commands = kRun},
            {.names = {"--print-prompt"},
             .help = "print the prompt in front of the text",
             .set = to_switch([](Options& o) -> bool& { return o.local.print_prompt; }),
             .commands = kRun},
            {.names = {"--json"},
             .help = "print machine-readable JSON",
             .set = to_switch([](Options& o) -> bool& { return o.local.json; }),
             .commands = kInspect | kPair | kTokenize},
            {.names = {"--json"},
             .value = "FILE",
             .help = "bench: write the report to FILE as JSON; - is standard output",
             .set = to_nonempty_text([](Options& o) -> std::string& { return o.local.json_file; }),
             .commands = kBench},
            {.names = {"--depths"},
             .value = "LIST",
             .help = "bench: context depths at which decoding and prompts are timed too, like 0,2048,8192",
             .set = to_text([](Options& o) -> std::string& { return o.local.depths; }),
             .commands = kBench},
            {.names = {"--against"},
             .value = "CMD",
             .help = "bench: run the shell command CMD between rounds and print ratios. It prints JSON: the report of "
                     "another foresay (bench --json -), or that of llama-bench -o json",
             .set = to_nonempty_text([](Options& o) -> std::string& { return o.local.against; }),
             .commands = kBench},
            {.names = {"--ids"},
             .help = "print only the token ids, as one line: [1, 2, 3]",
             .set = to_switch([](Options& o) -> bool& { return o.local.ids_only; }),
             .commands = kTokenize},
            {.names = {"--no-bos"},
             .help = "do not add the tokens that the model wants at the beginning and end of a text",
             .set = to_switch([](Options& o) -> bool& { return o.local.add_bos; }, false),
             .commands = kTokenize},
            {.names = {"--no-parse-special"},
             .help = "take <|im_end|> and its kin as plain text",
             .set = to_switch([](Options& o) -> bool& { return o.local.parse_special; }, false),
             .commands = kTokenize},
        }};
}

FlagGroup log_flags() {
    return {"Log",
            {
                {.names = {"-lv", "--verbosity", "--log-verbosity"},
                 .env = "LLAMA_ARG_LOG_VERBOSITY",
                 .value = "N",
                 .fallback = "3",
                 .help = "0 nothing, 1 errors, 2 warnings, 3 information, 4 and 5 debugging",
                 .set = [](Options& o, std::string_view text) -> Status {
                     FORESAY_TRY(const int64_t n, parse_int(text, 0, kMaxInt));
                     static constexpr log::Level kLevels[] = {log::Level::kOff, log::Level::kError, log::Level::kWarn,
                                                              log::Level::kInfo};
                     o.log.level = n <= 3 ? kLevels[n] : log::Level::kDebug;
                     return ok();
                 },
                 .commands = kAnyCommand},
                {.names = {"-v", "--verbose", "--log-verbose"},
                 .help = "log everything",
                 .set = [](Options& o, std::string_view) -> Status {
                     o.log.level = log::Level::kDebug;
                     o.verbose = true;
                     return ok();
                 },
                 .commands = kAnyCommand},
                {.names = {"--log-disable"},
                 .help = "log nothing",
                 .set = [](Options& o, std::string_view) -> Status {
                     o.log.level = log::Level::kOff;
                     return ok();
                 },
                 .commands = kAnyCommand},
                {.names = {"--log-file"},
                 .env = "LLAMA_ARG_LOG_FILE",
                 .value = "FILE",
                 .help = "write the log to FILE as well",
                 .set = to_nonempty_text([](Options& o) -> std::string& { return o.log.file; }),
                 .commands = kAnyCommand},
                {.names = {"--log-colors"},
                 .env = "LLAMA_ARG_LOG_COLORS",
                 .value = "on|off|auto",
                 .fallback = "auto",
                 .help = "colours; auto: when standard error is a terminal",
                 .set = to_choice([](Options& o) -> std::string& { return o.log_colors; }, {"on", "off", "auto"}),
                 .commands = kAnyCommand},
                {.names = {"--log-prefix"},
                 .negated = {"--no-log-prefix"},
                 .env = "LLAMA_ARG_LOG_PREFIX",
                 .fallback = "on",
                 .help = "level letter in front of each line",
                 .set = to_bool([](Options& o) -> bool& { return o.log.prefix; }),
                 .commands = kAnyCommand},
                {.names = {"--log-timestamps"},
                 .negated = {"--no-log-timestamps"},
                 .env = "LLAMA_ARG_LOG_TIMESTAMPS",
                 .fallback = "on",
                 .help = "time since start in front of each line",
                 .set = to_bool([](Options& o) -> bool& { return o.log.timestamps; }),
                 .commands = kAnyCommand},
                {.names = {"--log-jsonl"},
                 .env = "LLAMA_ARG_LOG_JSONL",
                 .help = "JSON lines on standard output",
                 .support = Support::kUnsupported},
                {.names = {"--log-prompts-dir"},
                 .value = "DIR",
                 .help = "write each prompt into DIR",
                 .support = Support::kUnsupported},
            }};
}

}  // namespace foresay::cli
