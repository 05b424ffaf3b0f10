// Flags of speculative decoding: draft models here, n-gram drafters at the end.
#include <fmt/format.h>

#include <algorithm>

#include "cli/flag_values.h"
#include "cli/flags.h"

namespace foresay::cli {
namespace {

using spec::SpecType;

constexpr const char* kAdaptiveMtp = "draft-mtp-adaptive";  // draft-models.md 7: draft-mtp with a length that moves

/// Adds up over repeated flags; settle_speculation() in parser.cpp puts them in order. "none" in a list makes the list
/// none, beside other lists it has no effect, as with llama-server.
Status take_types(Options& options, std::string_view text) {
    const std::vector<std::string> parts = split(text, ',');
    if (parts.empty()) {
        return error(Code::kInvalidArgument, "the value must not be empty");
    }
    std::vector<std::string> names(spec::kSpecTypeNames.begin(), spec::kSpecTypeNames.end());
    names.emplace_back(kAdaptiveMtp);
    std::vector<SpecType> types;
    for (const std::string& part : parts) {
        FORESAY_TRY(const std::string name, parse_choice(part, names));
        if (name == kAdaptiveMtp) {
            options.engine.spec.adaptive = true;
        }
        types.push_back(name == kAdaptiveMtp ? SpecType::kDraftMtp : *spec::spec_type_of(name));
    }
    if (std::find(types.begin(), types.end(), SpecType::kNone) == types.end()) {
        auto& all = options.engine.spec.types;
        all.insert(all.end(), types.begin(), types.end());
    }
    options.spec_type_given = true;
    return ok();
}

Status take_draft_sampling(Options& options, std::string_view text) {
    FORESAY_TRY(const std::string how, parse_choice(text, {"greedy", "probabilistic"}));
    options.engine.spec.probabilistic = how == "probabilistic";
    return ok();
}

Status take_draft_vocab(Options& options, std::string_view text) {
    if (text == "auto" || text == "all") {
        options.engine.spec.draft_vocab = text == "auto" ? 0 : std::numeric_limits<int32_t>::max();
        return ok();
    }
    return to_int([](Options& o) -> int32_t& { return o.engine.spec.draft_vocab; }, 1, kMaxInt)(options, text);
}

Status take_rule(Options& options, std::string_view text) {
    FORESAY_TRY(const std::string name,
                parse_choice(text, std::vector<std::string>(spec::kRuleNames.begin(), spec::kRuleNames.end())));
    options.engine.spec.rule = *spec::rule_of(name);
    return ok();
}

Status take_scope(Options& options, std::string_view text) {
    FORESAY_TRY(const std::string name,
                parse_choice(text, std::vector<std::string>(spec::kScopeNames.begin(), spec::kScopeNames.end())));
    options.engine.spec.relaxed_scope = *spec::scope_of(name);
    return ok();
}

/// -1 (none), or 0 and more.
Setter to_limit(Target<float> target) {
    return [target](Options& options, std::string_view text) -> Status {
        FORESAY_TRY(const double value, parse_float(text, -1, 1e30));
        if (value < 0.0 && value != -1.0) {
            return error(Code::kInvalidArgument, "must be -1 (none) or at least 0");
        }
        target(options) = static_cast<float>(value);
        return ok();
    };
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

Flag renamed(std::vector<std::string> names, std::string env, const std::string& successor) {
    return {.names = std::move(names),
            .env = std::move(env),
            .value = "N",
            .help = "old name of " + successor,
            .note = successor,
            .support = Support::kRenamed};
}

Flag removed(std::string name, const std::string& successors) {
    return {.names = {std::move(name)},
            .value = "N",
            .help = "removed: use " + successors,
            .note = successors,
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
             .fallback = "what the draft model's file says, else none",
             .help = "what proposes tokens: none; with a model draft-simple, draft-eagle3, draft-mtp (or "
                     "draft-mtp-adaptive: with --spec-draft-adaptive), draft-dflash, draft-dspark; from earlier text "
                     "ngram-simple, ngram-map-k, ngram-map-k4v, ngram-mod, ngram-cache, ngram-suffix; several, comma "
                     "between: a later one drafts where the earlier ones find nothing, n-gram types first",
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
            ignored({"--spec-draft-n-min-adaptive"}, "LLAMA_ARG_SPEC_DRAFT_N_MIN_ADAPTIVE", "N",
                    "least length of draft-mtp-adaptive", "the length follows what was measured, down to nothing",
                    check_int(1, 1024)),
            {.names = {"--draft-p-min", "--spec-draft-conf-min", "--spec-draft-p-min"},
             .env = "LLAMA_ARG_SPEC_DRAFT_P_MIN",
             .value = "P",
             .fallback = "0",
             .help = "drafting stops before a token that the drafter finds less probable; draft-dspark: the confidence "
                     "floor",
             .set = to_float([](Options& o) -> float& { return o.engine.spec.p_min; }, 0, 1)},
            {.names = {"--spec-draft-relaxed-top-n"},
             .env = "FORESAY_SPEC_DRAFT_RELAXED_TOP_N",
             .value = "N",
             .fallback = "0",
             .help =
                 "accept a drafted token that is among the target's N most probable candidates; changes the text; 0: "
                 "strict, the text is that of plain decoding",
             .set = to_int([](Options& o) -> int32_t& { return o.engine.spec.relaxed_top_n; }, 0, 1 << 20)},
            {.names = {"--spec-draft-rule"},
             .env = "FORESAY_SPEC_DRAFT_RULE",
             .value = "RULE",
             .fallback = "auto",
             .help =
                 "how drafted tokens are judged: strict (text of plain decoding), relaxed (top-n), typical (entropy), "
                 "lossless (rejection sampling: the target's distribution, another text); auto: relaxed if "
                 "--spec-draft-relaxed-top-n is above 1, else strict",
             .set = take_rule},
            {.names = {"--spec-draft-relaxed-delta"},
             .env = "FORESAY_SPEC_DRAFT_RELAXED_DELTA",
             .value = "NATS",
             .fallback = "-1",
             .help = "relaxed rule: and at most so far below the best candidate's log-probability; -1: any",
             .set = to_limit([](Options& o) -> float& { return o.engine.spec.relaxed_delta; })},
            {.names = {"--spec-draft-relaxed-max-tokens"},
             .env = "FORESAY_SPEC_DRAFT_RELAXED_MAX_TOKENS",
             .value = "N",
             .fallback = "-1",
             .help = "most relaxed tokens in a response, strict behind them; -1: any number",
             .set = to_int([](Options& o) -> int32_t& { return o.engine.spec.relaxed_max_tokens; }, -1, kMaxInt)},
            {.names = {"--spec-draft-relaxed-max-gap"},
             .env = "FORESAY_SPEC_DRAFT_RELAXED_MAX_GAP",
             .value = "NATS",
             .fallback = "-1",
             .help = "most log-probability that relaxed tokens may give up in a response, summed; -1: any",
             .set = to_limit([](Options& o) -> float& { return o.engine.spec.relaxed_max_gap; })},
            {.names = {"--spec-draft-relaxed-scope"},
             .env = "FORESAY_SPEC_DRAFT_RELAXED_SCOPE",
             .value = "WHERE",
             .fallback = "all",
             .help = "where tokens may be relaxed: all, or thinking (between <think> and </think>)",
             .set = take_scope},
            {.names = {"--spec-draft-typical-epsilon"},
             .env = "FORESAY_SPEC_DRAFT_TYPICAL_EPSILON",
             .value = "P",
             .fallback = "0.09",
             .help = "typical rule: accept above min(epsilon, delta * exp(-entropy))",
             .set = to_float([](Options& o) -> float& { return o.engine.spec.typical_epsilon; }, 0, 1)},
            {.names = {"--spec-draft-typical-delta"},
             .env = "FORESAY_SPEC_DRAFT_TYPICAL_DELTA",
             .value = "P",
             .fallback = "0.3",
             .help = "typical rule: see --spec-draft-typical-epsilon",
             .set = to_float([](Options& o) -> float& { return o.engine.spec.typical_delta; }, 0, 1)},
            {.names = {"--spec-draft-adaptive"},
             .negated = {"--no-spec-draft-adaptive"},
             .env = "FORESAY_SPEC_DRAFT_ADAPTIVE",
             .fallback = "on",
             .help = "draft only as much as pays, measured as it goes, down to nothing; off: always up to n-max",
             .set = to_bool([](Options& o) -> bool& { return o.engine.spec.adaptive; })},
            {.names = {"--spec-draft-sampling"},
             .env = "LLAMA_ARG_SPEC_DRAFT_SAMPLING",
             .value = "HOW",
             .fallback = "by type",
             .help = "how drafts are chosen at temperature above 0: greedy (the likeliest token), or probabilistic "
                     "(drawn with the target's noise; under --spec-draft-rule lossless from the drafter's own "
                     "distribution): draft-simple, draft-mtp and draft-eagle3 can; without the flag only draft-simple "
                     "draws; under the strict rule the text is the same",
             .set = take_draft_sampling},
            {.names = {"--spec-draft-vocab"},
             .env = "FORESAY_SPEC_DRAFT_VOCAB",
             .value = "N",
             .fallback = "auto",
             .help =
                 "draft-simple: choose among the first N ids alone, which are the frequent ones; auto: as many as the "
                 "text needs; all: every id; the text is the same",
             .set = take_draft_vocab},
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
            {.names = {"-ctkd", "--cache-type-k-draft", "--spec-draft-type-k"},
             .env = "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K",
             .value = "TYPE",
             .fallback = "f16",
             .help = "type of the drafter's K cache: f32, f16 or q8_0",
             .set = [](Options& o, std::string_view text) -> Status {
                 FORESAY_TRY(o.engine.spec.draft_cache_type_k, parse_cache_type(text));
                 return ok();
             }},
            {.names = {"-ctvd", "--cache-type-v-draft", "--spec-draft-type-v"},
             .env = "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V",
             .value = "TYPE",
             .fallback = "f16",
             .help = "type of the drafter's V cache: f32, f16 or q8_0",
             .set = [](Options& o, std::string_view text) -> Status {
                 FORESAY_TRY(o.engine.spec.draft_cache_type_v, parse_cache_type(text));
                 return ok();
             }},
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

namespace {

using NgramOptions = spec::NgramOptions;

/// A size flag: most of this group look alike.
Flag size_flag(std::string name, std::string fallback, std::string help, Setter set) {
    return {.names = {std::move(name)},
            .value = "N",
            .fallback = std::move(fallback),
            .help = std::move(help),
            .set = std::move(set)};
}

/// The three sizes of a type that copies what followed an earlier occurrence.
template <NgramOptions::Copy NgramOptions::*kWhich>
void add_copy_flags(const std::string& type, const std::string& min_hits_help, std::vector<Flag>* flags) {
    flags->push_back(
        size_flag(fmt::format("--spec-{}-size-n", type), "12", "tokens that must match to look up what followed",
                  to_int([](Options& o) -> int32_t& { return (o.engine.spec.ngram.*kWhich).size_n; }, 1, 1024)));
    flags->push_back(
        size_flag(fmt::format("--spec-{}-size-m", type), "48", "most tokens taken from there",
                  to_int([](Options& o) -> int32_t& { return (o.engine.spec.ngram.*kWhich).size_m; }, 1, 1024)));
    flags->push_back(
        size_flag(fmt::format("--spec-{}-min-hits", type), "1", min_hits_help,
                  to_int([](Options& o) -> int32_t& { return (o.engine.spec.ngram.*kWhich).min_hits; }, 1, kMaxInt)));
}

}  // namespace

FlagGroup ngram_flags() {
    FlagGroup group{"Speculation from earlier text", {}};
    auto& flags = group.flags;
    add_copy_flags<&NgramOptions::simple>("ngram-simple", "checked only: one match is enough, as with llama-server",
                                          &flags);
    const std::string hits = "drafts begin when the key has come so often";
    add_copy_flags<&NgramOptions::map_k>("ngram-map-k", hits, &flags);
    add_copy_flags<&NgramOptions::map_k4v>("ngram-map-k4v", hits, &flags);
    flags.push_back(size_flag("--spec-ngram-mod-n-match", "24", "tokens that must match",
                              to_int([](Options& o) -> int32_t& { return o.engine.spec.ngram.mod_n_match; }, 1, 1024)));
    flags.push_back(size_flag("--spec-ngram-mod-n-min", "48", "a shorter draft is dropped; not above n-max",
                              to_int([](Options& o) -> int32_t& { return o.engine.spec.ngram.mod_n_min; }, 0, 1024)));
    flags.push_back(size_flag("--spec-ngram-mod-n-max", "64", "most tokens drafted",
                              to_int([](Options& o) -> int32_t& { return o.engine.spec.ngram.mod_n_max; }, 0, 1024)));
    flags.push_back({.names = {"--spec-ngram-mod-shared"},
                     .help = "one table for all requests and slots, as llama-server has it: faster on recurring text, "
                             "but a draft may then come from another request's text",
                     .set = to_switch([](Options& o) -> bool& { return o.engine.spec.ngram.mod_shared; })});
    flags.push_back(
        {.names = {"--spec-default"}, .help = "ngram-mod with 24, 48, 64", .set = [](Options& o, std::string_view) {
             const NgramOptions defaults;
             o.engine.spec.types.push_back(SpecType::kNgramMod);
             o.engine.spec.ngram.mod_n_match = defaults.mod_n_match;
             o.engine.spec.ngram.mod_n_min = defaults.mod_n_min;
             o.engine.spec.ngram.mod_n_max = defaults.mod_n_max;
             o.spec_type_given = true;
             return ok();
         }});
    flags.push_back(
        {.names = {"-lcs", "--lookup-cache-static"},
         .value = "FILE",
         .help = "counts for ngram-cache that weigh its candidates",
         .set = to_nonempty_text([](Options& o) -> std::string& { return o.engine.spec.ngram.lookup_static; })});
    flags.push_back(
        {.names = {"-lcd", "--lookup-cache-dynamic"},
         .value = "FILE",
         .help = "counts for ngram-cache used where the text gives none; read at start, never written",
         .set = to_nonempty_text([](Options& o) -> std::string& { return o.engine.spec.ngram.lookup_dynamic; })});
    flags.push_back(
        size_flag("--spec-ngram-suffix-min-match", "5", "tokens that must match",
                  to_int([](Options& o) -> int32_t& { return o.engine.spec.ngram.suffix_min_match; }, 1, 1023)));
    flags.push_back(
        size_flag("--spec-ngram-suffix-max-depth", "64", "longest sequence that is counted",
                  to_int([](Options& o) -> int32_t& { return o.engine.spec.ngram.suffix_max_depth; }, 2, 1024)));
    flags.push_back(
        size_flag("--spec-ngram-suffix-n-max", "16", "most tokens drafted",
                  to_int([](Options& o) -> int32_t& { return o.engine.spec.ngram.suffix_n_max; }, 0, 1024)));
    flags.push_back(size_flag(
        "--spec-ngram-suffix-max-nodes", "1048576", "size of each slot's tree, 24 bytes a node",
        to_int([](Options& o) -> int32_t& { return o.engine.spec.ngram.suffix_max_nodes; }, 1 << 16, 1 << 28)));
    group.flags.push_back(
        removed("--spec-ngram-size-n", "--spec-ngram-simple-size-n (or -map-k-, -map-k4v-, --spec-ngram-mod-n-match)"));
    group.flags.push_back(removed("--spec-ngram-size-m", "--spec-ngram-simple-size-m (or -map-k-, -map-k4v-)"));
    group.flags.push_back(removed("--spec-ngram-min-hits", "--spec-ngram-simple-min-hits (or -map-k-, -map-k4v-)"));
    return group;
}

}  // namespace foresay::cli
