// Flags of speculative decoding: draft models here, n-gram drafters at the end.
#include <fmt/format.h>

#include <algorithm>

#include "cli/flag_values.h"
#include "cli/flags.h"

namespace foresay::cli {
namespace {

const std::vector<std::string> kTypes{"none",          "draft-simple", "draft-eagle3", "draft-mtp",
                                      "draft-dflash",  "draft-dspark", "ngram-simple", "ngram-map-k",
                                      "ngram-map-k4v", "ngram-mod",    "ngram-cache"};
const std::vector<std::string> kBuiltTypes{"none", "draft-simple", "ngram-simple"};

/// Adds up over repeated flags; finish() in parser.cpp makes one type of it.
Status take_types(Options& options, std::string_view text) {
    const std::vector<std::string> parts = split(text, ',');
    if (parts.empty()) {
        return error(Code::kInvalidArgument, "the value must not be empty");
    }
    for (const std::string& part : parts) {
        FORESAY_TRY(const std::string type, parse_choice(part, kTypes));
        if (std::find(kBuiltTypes.begin(), kBuiltTypes.end(), type) == kBuiltTypes.end()) {
            return error(Code::kUnsupported,
                         fmt::format("the speculation type '{}' is not supported yet; supported: none, "
                                     "draft-simple, ngram-simple",
                                     type));
        }
        options.spec_types.push_back(type);
    }
    options.spec_type_given = true;
    return ok();
}

Status take_draft_sampling(Options& options, std::string_view text) {
    FORESAY_TRY(const std::string how, parse_choice(text, {"greedy", "probabilistic"}));
    options.engine.spec.probabilistic = how == "probabilistic";
    return ok();
}

Flag ignored(std::vector<std::string> names, std::string env, std::string value, std::string help, std::string note,
             Setter check) {
    return {.names = std::move(names),
            .env = std::move(env),
            .value = std::move(value),
            .help = std::move(help),
            .note = std::move(note),
            .set = std::move(check),
            .support = Support::kNoEffect};
}

Flag refused(std::vector<std::string> names, std::string env, std::string value, std::string help,
             std::string note = {}) {
    return {.names = std::move(names),
            .env = std::move(env),
            .value = std::move(value),
            .help = std::move(help),
            .note = std::move(note),
            .support = Support::kUnsupported};
}

Flag renamed(std::vector<std::string> names, std::string env, std::string successor) {
    return {.names = std::move(names),
            .env = std::move(env),
            .value = "N",
            .help = "old name of " + successor,
            .note = std::move(successor),
            .support = Support::kRenamed};
}

Flag removed(std::string name, std::string successors) {
    return {.names = {std::move(name)},
            .value = "N",
            .help = "removed: use " + successors,
            .note = std::move(successors),
            .support = Support::kRemoved};
}

constexpr const char* kAsTarget = "the drafter uses the target's";

}  // namespace

FlagGroup speculation_flags() {
    return {
        "Speculative decoding",
        {
            {.names = {"--spec-type"},
             .env = "LLAMA_ARG_SPEC_TYPE",
             .value = "TYPE",
             .fallback = "draft-simple with a draft model, else none",
             .help = "what proposes tokens: none, draft-simple (a smaller model), ngram-simple (earlier text)",
             .set = take_types,
             .repeatable = true},
            {.names = {"-md", "--model-draft", "--spec-draft-model"},
             .env = "LLAMA_ARG_SPEC_DRAFT_MODEL",
             .value = "FILE",
             .help = "the GGUF file of the draft model",
             .set = to_nonempty_text([](Options& o) -> std::string& { return o.engine.spec.draft_model; })},
            {.names = {"--spec-draft-n-max"},
             .env = "LLAMA_ARG_SPEC_DRAFT_N_MAX",
             .value = "N",
             .fallback = "3",
             .help = "most tokens drafted per step; 0: no drafting",
             .set = to_int([](Options& o) -> int32_t& { return o.engine.spec.n_max; }, 0, 1024)},
            {.names = {"--spec-draft-n-min"},
             .env = "LLAMA_ARG_SPEC_DRAFT_N_MIN",
             .value = "N",
             .fallback = "0",
             .help = "a shorter draft is dropped; not above --spec-draft-n-max",
             .set = to_int([](Options& o) -> int32_t& { return o.engine.spec.n_min; }, 0, 1024)},
            {.names = {"--draft-p-min", "--spec-draft-p-min"},
             .env = "LLAMA_ARG_SPEC_DRAFT_P_MIN",
             .value = "P",
             .fallback = "0",
             .help = "drafting stops before a token that the drafter finds less probable",
             .set = to_float([](Options& o) -> float& { return o.engine.spec.p_min; }, 0, 1)},
            {.names = {"--spec-draft-relaxed-top-n"},
             .env = "FORESAY_SPEC_DRAFT_RELAXED_TOP_N",
             .value = "N",
             .fallback = "0",
             .help =
                 "accept a drafted token that is among the target's N most probable candidates; changes the text; 0: "
                 "strict, the text is that of plain decoding",
             .set = to_int([](Options& o) -> int32_t& { return o.engine.spec.relaxed_top_n; }, 0, 1 << 20)},
            {.names = {"--spec-draft-sampling"},
             .env = "LLAMA_ARG_SPEC_DRAFT_SAMPLING",
             .value = "HOW",
             .fallback = "probabilistic",
             .help = "greedy, or probabilistic: at temperature above 0, draw with the target's noise (the peer's "
                     "default is "
                     "greedy); the text is the same",
             .set = take_draft_sampling},
            ignored({"-cd", "--ctx-size-draft"}, "", "N", "context of the drafter", "it follows the target's",
                    check_int(0, kMaxInt)),
            ignored({"--draft-p-split", "--spec-draft-p-split"}, "LLAMA_ARG_SPEC_DRAFT_P_SPLIT", "P",
                    "probability to branch", "it has none in the peer's server either", check_float(0, 1)),
            {.names = {"--spec-draft-backend-sampling"},
             .negated = {"--no-spec-draft-backend-sampling"},
             .env = "LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING",
             .help = "sample drafts on the device",
             .note = "sampling runs on the CPU",
             .set = check_bool(),
             .support = Support::kNoEffect},
            ignored({"-td", "--threads-draft", "--spec-draft-threads"}, "", "N", "threads of the drafter", kAsTarget,
                    check_int(-1, 1024)),
            ignored({"-tbd", "--threads-batch-draft", "--spec-draft-threads-batch"}, "", "N",
                    "threads of the drafter for prompts", kAsTarget, check_int(-1, 1024)),
            ignored({"-ctkd", "--cache-type-k-draft", "--spec-draft-type-k"}, "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K",
                    "TYPE", "type of the drafter's K cache", kAsTarget,
                    [](Options&, std::string_view text) -> Status {
                        FORESAY_TRY([[maybe_unused]] const DType type, parse_cache_type(text));
                        return ok();
                    }),
            ignored({"-ctvd", "--cache-type-v-draft", "--spec-draft-type-v"}, "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V",
                    "TYPE", "type of the drafter's V cache", kAsTarget,
                    [](Options&, std::string_view text) -> Status {
                        FORESAY_TRY([[maybe_unused]] const DType type, parse_cache_type(text));
                        return ok();
                    }),
            refused({"-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf"}, "LLAMA_ARG_SPEC_DRAFT_HF_REPO", "REPO",
                    "download a draft model",
                    "Foresay downloads no models: fetch the file and give it with --spec-draft-model"),
            refused({"--spec-synth-len"}, "LLAMA_ARG_SPEC_SYNTH_LEN", "X", "benchmark with made-up acceptance"),
            refused({"--spec-synth-rates"}, "LLAMA_ARG_SPEC_SYNTH_RATES", "LIST", "benchmark with made-up acceptance"),
            refused({"--fim-qwen-7b-spec"}, "", "", "preset that downloads a pair",
                    "name the files with -m and --spec-draft-model"),
            refused({"--fim-qwen-14b-spec"}, "", "", "preset that downloads a pair",
                    "name the files with -m and --spec-draft-model"),
            refused({"--gpt-oss-20b-default"}, "", "", "preset that downloads a model", "name the file with -m"),
            refused({"--mtp"}, "", "", "flag of the peer's download tool"),
            refused({"--dflash"}, "", "", "flag of the peer's download tool"),
            refused({"--eagle3"}, "", "", "flag of the peer's download tool"),
            refused({"--nextn"}, "", "", "flag of the peer's importance-matrix tool"),
            renamed({"--draft", "--draft-n", "--draft-max"}, "LLAMA_ARG_DRAFT_MAX", "--spec-draft-n-max"),
            renamed({"--draft-n-min", "--draft-min"}, "LLAMA_ARG_DRAFT_MIN", "--spec-draft-n-min"),
        }};
}

FlagGroup ngram_flags() {
    FlagGroup group{"Speculation from earlier text",
                    {
                        {.names = {"--spec-ngram-simple-size-n"},
                         .value = "N",
                         .fallback = "12",
                         .help = "tokens that must match to look up what followed",
                         .set = to_int([](Options& o) -> int32_t& { return o.engine.spec.ngram_size_n; }, 1, 1024)},
                        {.names = {"--spec-ngram-simple-size-m"},
                         .value = "N",
                         .fallback = "48",
                         .help = "most tokens taken from there",
                         .set = to_int([](Options& o) -> int32_t& { return o.engine.spec.ngram_size_m; }, 1, 1024)},
                        ignored({"--spec-ngram-simple-min-hits"}, "", "N", "least number of matches",
                                "one match is enough", check_int(1, kMaxInt)),
                    }};
    for (const std::string type : {"map-k", "map-k4v"}) {
        const std::string note = fmt::format("it belongs to ngram-{}, which is not supported yet", type);
        group.flags.push_back(ignored({fmt::format("--spec-ngram-{}-size-n", type)}, "", "N", "tokens that must match",
                                      note, check_int(1, 1024)));
        group.flags.push_back(ignored({fmt::format("--spec-ngram-{}-size-m", type)}, "", "N", "most tokens taken", note,
                                      check_int(1, 1024)));
        group.flags.push_back(ignored({fmt::format("--spec-ngram-{}-min-hits", type)}, "", "N",
                                      "least number of matches", note, check_int(1, kMaxInt)));
    }
    const std::string mod = "it belongs to ngram-mod, which is not supported yet";
    group.flags.push_back(
        ignored({"--spec-ngram-mod-n-match"}, "", "N", "tokens that must match", mod, check_int(1, 1024)));
    group.flags.push_back(ignored({"--spec-ngram-mod-n-min"}, "", "N", "least tokens taken", mod, check_int(0, 1024)));
    group.flags.push_back(ignored({"--spec-ngram-mod-n-max"}, "", "N", "most tokens taken", mod, check_int(0, 1024)));
    group.flags.push_back(
        refused({"--spec-default"}, "", "", "ngram-mod with 24, 48, 64", "try --spec-type ngram-simple"));
    group.flags.push_back(refused({"-lcs", "--lookup-cache-static"}, "", "FILE", "file of ngram-cache"));
    group.flags.push_back(refused({"-lcd", "--lookup-cache-dynamic"}, "", "FILE", "file of ngram-cache"));
    group.flags.push_back(
        removed("--spec-ngram-size-n", "--spec-ngram-simple-size-n (or -map-k-, -map-k4v-, --spec-ngram-mod-n-match)"));
    group.flags.push_back(removed("--spec-ngram-size-m", "--spec-ngram-simple-size-m (or -map-k-, -map-k4v-)"));
    group.flags.push_back(removed("--spec-ngram-min-hits", "--spec-ngram-simple-min-hits (or -map-k-, -map-k4v-)"));
    return group;
}

}  // namespace foresay::cli
