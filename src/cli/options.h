// What a command line and the environment add up to. Filled by the flag table (flags.h), read by the commands.
// Must not know how a flag is spelled; the table must not know what a command does with a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/engine.h"
#include "sampling/sampler.h"
#include "server/server.h"

namespace foresay::cli {

/// The commands, as bits: a flag says which of them it applies to.
enum Command : unsigned {
    kServe = 1U,
    kRun = 2U,
    kBench = 4U,
    kInspect = 8U,
    kTokenize = 16U,
    kPair = 32U,
    kTune = 64U,
    kDoctor = 128U,
    kAnyCommand = 255U,
    kEngineCommands = kServe | kRun | kBench | kTune | kDoctor,  ///< those that load a model to compute with it
};

/// `foresay run`, `foresay tokenize` and `foresay inspect`: what only they need.
struct LocalOptions {
    std::string prompt;
    std::string prompt_file;         ///< read instead of `prompt` when not empty; "-" is standard input
    bool escape = true;              ///< \n, \t, \\ and the like in the prompt are meant as characters
    bool compare_plain = false;      ///< run: the same without speculation too
    bool print_prompt = false;       ///< run: echo the prompt before the text
    bool json = false;               ///< inspect, pair: machine-readable
    std::string json_file;           ///< bench: where the report goes as JSON; empty: nowhere
    std::string depths;              ///< bench: comma list of context depths
    std::string against;             ///< bench: a command to compare with
    bool ids_only = false;           ///< tokenize: ids on one line
    bool add_bos = true;             ///< tokenize: what the model asks for at the beginning of a text
    bool parse_special = true;       ///< tokenize: "<|im_end|>" in the text is the token
    std::vector<std::string> files;  ///< inspect, pair: the positional arguments
};

/// `foresay tune` and `foresay doctor`: what only they need.
struct TuneOptions {
    std::string prompts;   ///< file; empty: the built-in ones
    bool raw = false;      ///< no chat template
    float minutes = 0.0F;  ///< 0: by the form
    bool quick = false;
    std::string settings;  ///< empty: a grid that is narrowed down
    std::string classes;
    std::string temps;
    std::string clients;
    std::string html;
    bool self_check = false;
};

struct Options {
    /// Speculation that doesn't pay is what users suffer from: here the length adapts unless they say otherwise.
    Options() { engine.spec.adaptive = true; }

    engine::EngineOptions engine;
    server::ServerOptions server;  ///< sampling_defaults and n_predict are those below, filled in at the end
    sampling::Params sampling;     ///< defaults of requests
    int32_t n_predict = -1;
    bool verbose = false;
    int32_t n_ubatch_given = 0;  ///< 0: not given; the default follows --batch-size
    bool spec_type_given = false;
    log::Options log;
    std::string log_colors = "auto";
    LocalOptions local;
    TuneOptions tune;
    bool help = false;
    bool version = false;
    bool list_devices = false;
};

}  // namespace foresay::cli
