// Flags of tune and doctor.
#include "cli/flag_values.h"
#include "cli/flags.h"

namespace foresay::cli {

FlagGroup tune_flags() {
    return {
        "foresay tune and doctor",
        {
            {.names = {"--prompts"},
             .value = "FILE",
             .fallback = "built-in prompts",
             .help = "measure on these: texts with lines of --- between them, or JSON lines with \"prompt\" and "
                     "\"class\"",
             .set = to_nonempty_text([](Options& o) -> std::string& { return o.tune.prompts; }),
             .commands = kTune | kDoctor},
            {.names = {"--raw"},
             .help = "give the prompts to the model as they are, without its chat template",
             .set = to_switch([](Options& o) -> bool& { return o.tune.raw; }),
             .commands = kTune | kDoctor},
            {.names = {"--minutes"},
             .value = "N",
             .fallback = "20; 3 with --quick",
             .help = "tune: how long to measure, loading left out; the round that is under way ends first",
             .set = to_float([](Options& o) -> float& { return o.tune.minutes; }, 0.1, 10000),
             .commands = kTune},
            {.names = {"--quick"},
             .help = "tune: few settings, three text classes, short texts: a first look",
             .set = to_switch([](Options& o) -> bool& { return o.tune.quick; }),
             .commands = kTune},
            {.names = {"--settings"},
             .value = "LIST",
             .help = "tune: measure exactly these: a comma list, each a colon list of n_max=N, p_min=P, top_n=N, "
                     "delta=NATS, rule=NAME, adaptive; like n_max=2,n_max=4:top_n=5,adaptive",
             .set = to_nonempty_text([](Options& o) -> std::string& { return o.tune.settings; }),
             .commands = kTune},
            {.names = {"--classes"},
             .value = "LIST",
             .fallback = "all",
             .help = "tune: text classes, of code, prose, chat, summary, extraction, or of the prompts' file",
             .set = to_nonempty_text([](Options& o) -> std::string& { return o.tune.classes; }),
             .commands = kTune},
            {.names = {"--temps"},
             .value = "LIST",
             .fallback = "0",
             .help = "tune: temperatures; all settings are measured at the first, the best ones at the others too",
             .set = to_nonempty_text([](Options& o) -> std::string& { return o.tune.temps; }),
             .commands = kTune},
            {.names = {"--clients"},
             .value = "LIST",
             .fallback = "1",
             .help = "tune: how many texts at a time, 1 to 8; all settings are measured with the first count",
             .set = to_nonempty_text([](Options& o) -> std::string& { return o.tune.clients; }),
             .commands = kTune},
            {.names = {"--json"},
             .value = "FILE",
             .help = "write the report to FILE as JSON; - is standard output",
             .set = to_nonempty_text([](Options& o) -> std::string& { return o.local.json_file; }),
             .commands = kTune | kDoctor},
            {.names = {"--html"},
             .value = "FILE",
             .help = "tune: write the report to FILE as one HTML page with plots",
             .set = to_nonempty_text([](Options& o) -> std::string& { return o.tune.html; }),
             .commands = kTune},
            {.names = {"--self-check"},
             .help = "doctor: prove that strict drafts leave tokens and log-probabilities those of plain decoding, on "
                     "these files; exit status 1 on a difference",
             .set = to_switch([](Options& o) -> bool& { return o.tune.self_check; }),
             .commands = kDoctor},
        }};
}

}  // namespace foresay::cli
