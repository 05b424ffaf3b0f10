// Defaults of the sampling fields of a request.
#include <fmt/format.h>

#include <limits>

#include "base/log.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "grammar/machine.h"
#include "grammar/schema.h"

namespace foresay::cli {
namespace {

constexpr double kAnyFloat = 3.0e38;

/// "edskypmxt": the peer's one-letter names.
Status take_sequence(Options& options, std::string_view text) {
    std::vector<std::string> chain;
    for (const char letter : text) {
        switch (letter) {
            case 'e':
                chain.emplace_back("penalties");
                break;
            case 'd':
                chain.emplace_back("dry");
                break;
            case 's':
                chain.emplace_back("top_n_sigma");
                break;
            case 'k':
                chain.emplace_back("top_k");
                break;
            case 'y':
                chain.emplace_back("typ_p");
                break;
            case 'p':
                chain.emplace_back("top_p");
                break;
            case 'm':
                chain.emplace_back("min_p");
                break;
            case 'x':
                chain.emplace_back("xtc");
                break;
            case 't':
                chain.emplace_back("temperature");
                break;
            case 'a':
                chain.emplace_back("adaptive_p");
                break;
            default:
                return error(Code::kInvalidArgument,
                             fmt::format("unknown sampler '{}' in '{}'; known letters: edskypmxta", letter, text));
        }
    }
    options.sampling.samplers = std::move(chain);
    return ok();
}

/// "1234+1.5", "1234-100": token and bias. "1234-inf" bans it.
Status take_bias(Options& options, std::string_view text) {
    const size_t sign = text.find_first_of("+-");
    if (sign == std::string_view::npos || sign == 0) {
        return error(Code::kInvalidArgument, fmt::format("'{}' is not of the form ID+BIAS or ID-BIAS", text));
    }
    FORESAY_TRY(const int64_t id, parse_int(text.substr(0, sign), 0, kMaxInt));
    float bias = 0.0F;
    if (text.substr(sign) == "-inf") {
        bias = -std::numeric_limits<float>::infinity();
    } else {
        FORESAY_TRY(const double value, parse_float(text.substr(sign), -kAnyFloat, kAnyFloat));
        bias = static_cast<float>(value);
    }
    options.sampling.logit_bias.emplace_back(static_cast<vocab::TokenId>(id), bias);
    return ok();
}

Status take_temperature(Options& options, std::string_view text) {
    FORESAY_TRY(const double value, parse_float(text, -kAnyFloat, kAnyFloat));
    options.sampling.temperature = value < 0.0 ? 0.0F : static_cast<float>(value);
    return ok();
}

Status take_seed(Options& options, std::string_view text) {
    FORESAY_TRY(const int64_t value, parse_int(text, -1, 4294967295));
    options.sampling.seed = static_cast<uint32_t>(value);
    return ok();
}

/// The first use clears the defaults; "none" leaves none.
Setter take_breaker() {
    return [](Options& options, std::string_view text) -> Status {
        static const std::vector<std::string> kDefaults = sampling::Params{}.dry_sequence_breakers;
        std::vector<std::string>& breakers = options.sampling.dry_sequence_breakers;
        if (breakers == kDefaults || text == "none") {
            breakers.clear();
        }
        if (text != "none") {
            breakers.emplace_back(text);
        }
        return ok();
    };
}

Status take_grammar(Options& options, std::string_view text) {
    // Whether `<text>` is a token of the model shows when there is one.
    const auto any_token = [](std::string_view) { return vocab::TokenId{0}; };
    FORESAY_CHECK_OK(grammar::check_gbnf(text, any_token));
    options.sampling.grammar = text;
    return ok();
}

Status take_schema(Options& options, std::string_view text) {
    FORESAY_TRY(grammar::SchemaGrammar compiled,
                grammar::schema_to_gbnf(text == "{}" ? std::string_view(R"({"type":"object"})") : text));
    for (const std::string& what : compiled.ignored) {
        log::warn("JSON schema: ignored: {}", what);
    }
    options.sampling.grammar = std::move(compiled.gbnf);
    return ok();
}

Setter from_file(Status (*take)(Options&, std::string_view)) {
    return [take](Options& options, std::string_view path) -> Status {
        FORESAY_TRY(const std::string text, read_text_file(std::string(path)));
        return take(options, text);
    };
}

Flag number(std::vector<std::string> names, std::string env, std::string fallback, std::string help,
            Target<float> target, double low, double high) {
    return {.names = std::move(names),
            .env = std::move(env),
            .value = "X",
            .fallback = std::move(fallback),
            .help = std::move(help),
            .set = to_float(target, low, high)};
}

Flag integer(std::vector<std::string> names, std::string env, std::string fallback, std::string help,
             Target<int32_t> target, int64_t low, int64_t high) {
    return {.names = std::move(names),
            .env = std::move(env),
            .value = "N",
            .fallback = std::move(fallback),
            .help = std::move(help),
            .set = to_int(target, low, high)};
}

using F = float&;
using I = int32_t&;

}  // namespace

FlagGroup sampling_flags() {
    return {
        "Sampling (defaults of requests)",
        {
            {.names = {"--samplers"},
             .value = "A;B;C",
             .fallback = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",
             .help = "the samplers in their order",
             .set = [](Options& o, std::string_view text) -> Status {
                 o.sampling.samplers = split(text, ';');
                 return ok();
             }},
            {.names = {"--sampler-seq", "--sampling-seq"},
             .value = "LETTERS",
             .fallback = "edskypmxt",
             .help = "the same in short",
             .set = take_sequence},
            {.names = {"-s", "--seed"},
             .value = "N",
             .fallback = "-1",
             .help = "seed of the draws; -1: another each time",
             .set = take_seed},
            {.names = {"--temperature", "--temp"},
             .env = "LLAMA_ARG_TEMPERATURE",
             .value = "X",
             .fallback = "0.8",
             .help = "temperature; 0: always the most probable token",
             .set = take_temperature},
            integer(
                {"--top-k"}, "LLAMA_ARG_TOP_K", "40", "keep the N most probable; 0: off",
                [](Options& o) -> I { return o.sampling.top_k; }, -1, kMaxInt),
            number(
                {"--top-p"}, "LLAMA_ARG_TOP_P", "0.95", "keep the smallest set with this probability; 1: off",
                [](Options& o) -> F { return o.sampling.top_p; }, 0, 1),
            number(
                {"--min-p"}, "LLAMA_ARG_MIN_P", "0.05",
                "keep tokens with at least X times the best probability; 0: off. Bounds what relaxed acceptance "
                "can pick",
                [](Options& o) -> F { return o.sampling.min_p; }, 0, 1),
            number(
                {"--top-nsigma", "--top-n-sigma"}, "", "-1", "keep logits within X deviations of the best; -1: off",
                [](Options& o) -> F { return o.sampling.top_n_sigma; }, -1, kAnyFloat),
            number(
                {"--xtc-probability"}, "", "0", "chance of leaving the top choices out",
                [](Options& o) -> F { return o.sampling.xtc_probability; }, 0, 1),
            number(
                {"--xtc-threshold"}, "", "0.1", "probability of a top choice",
                [](Options& o) -> F { return o.sampling.xtc_threshold; }, 0, 1),
            number(
                {"--typical", "--typical-p"}, "", "1", "locally typical sampling; 1: off",
                [](Options& o) -> F { return o.sampling.typical_p; }, 0, 1),
            integer(
                {"--repeat-last-n"}, "", "64", "tokens that penalties look at; 0: off",
                [](Options& o) -> I { return o.sampling.repeat_last_n; }, 0, kMaxInt),
            number(
                {"--repeat-penalty"}, "LLAMA_ARG_REPEAT_PENALTY", "1", "penalty for tokens seen; 1: off",
                [](Options& o) -> F { return o.sampling.repeat_penalty; }, 1e-6, kAnyFloat),
            number(
                {"--presence-penalty"}, "LLAMA_ARG_PRESENCE_PENALTY", "0", "",
                [](Options& o) -> F { return o.sampling.presence_penalty; }, -kAnyFloat, kAnyFloat),
            number(
                {"--frequency-penalty"}, "LLAMA_ARG_FREQUENCY_PENALTY", "0", "",
                [](Options& o) -> F { return o.sampling.frequency_penalty; }, -kAnyFloat, kAnyFloat),
            number(
                {"--dry-multiplier"}, "", "0", "strength of the DRY penalty; 0: off",
                [](Options& o) -> F { return o.sampling.dry_multiplier; }, 0, kAnyFloat),
            {.names = {"--dry-base"},
             .value = "X",
             .fallback = "1.75",
             .help = "growth of the DRY penalty; below 1: ignored",
             .set = [](Options& o, std::string_view text) -> Status {
                 FORESAY_TRY(const double value, parse_float(text, -kAnyFloat, kAnyFloat));
                 o.sampling.dry_base = value >= 1.0 ? static_cast<float>(value) : o.sampling.dry_base;
                 return ok();
             }},
            integer(
                {"--dry-allowed-length"}, "", "2", "repetitions that cost nothing",
                [](Options& o) -> I { return o.sampling.dry_allowed_length; }, 0, kMaxInt),
            integer(
                {"--dry-penalty-last-n"}, "", "64", "tokens that DRY looks at; 0: off",
                [](Options& o) -> I { return o.sampling.dry_penalty_last_n; }, 0, kMaxInt),
            {.names = {"--dry-sequence-breaker"},
             .value = "TEXT",
             .fallback = "newline : \" *",
             .help = "text that ends a repetition; the first use clears the defaults; none: no breakers",
             .set = take_breaker(),
             .repeatable = true},
            number(
                {"--adaptive-target"}, "", "-1", "adaptive-p: probability aimed at; -1: off",
                [](Options& o) -> F { return o.sampling.adaptive_target; }, -1, 1),
            number(
                {"--adaptive-decay"}, "", "0.9", "adaptive-p: memory",
                [](Options& o) -> F { return o.sampling.adaptive_decay; }, 0, 0.99),
            number(
                {"--dynatemp-range"}, "", "0", "dynamic temperature: range; 0: off",
                [](Options& o) -> F { return o.sampling.dynatemp_range; }, 0, kAnyFloat),
            number(
                {"--dynatemp-exp"}, "", "1", "dynamic temperature: exponent",
                [](Options& o) -> F { return o.sampling.dynatemp_exponent; }, 0, kAnyFloat),
            integer(
                {"--mirostat"}, "", "0", "1 or 2: Mirostat instead of the chain",
                [](Options& o) -> I { return o.sampling.mirostat; }, 0, 2),
            number(
                {"--mirostat-lr"}, "", "0.1", "Mirostat: learning rate",
                [](Options& o) -> F { return o.sampling.mirostat_eta; }, 0, kAnyFloat),
            number(
                {"--mirostat-ent"}, "", "5", "Mirostat: entropy aimed at",
                [](Options& o) -> F { return o.sampling.mirostat_tau; }, 0, kAnyFloat),
            {.names = {"-l", "--logit-bias"},
             .value = "ID+B",
             .help = "add B to the logit of token ID; ID-inf bans it",
             .set = take_bias,
             .repeatable = true},
            {.names = {"--ignore-eos"},
             .help = "never end the text by itself",
             .set = to_switch([](Options& o) -> bool& { return o.sampling.ignore_eos; })},
            {.names = {"--grammar"}, .value = "GBNF", .help = "grammar that the text must follow", .set = take_grammar},
            {.names = {"--grammar-file"},
             .value = "FILE",
             .help = "the same from a file",
             .set = from_file(take_grammar)},
            {.names = {"-j", "--json-schema"},
             .value = "JSON",
             .help = "JSON schema that the text must follow; {}: any object",
             .set = take_schema},
            {.names = {"-jf", "--json-schema-file"},
             .value = "FILE",
             .help = "the same from a file",
             .set = from_file(take_schema)},
            {.names = {"-bs", "--backend-sampling"},
             .env = "LLAMA_ARG_BACKEND_SAMPLING",
             .help = "sample on the device",
             .note = "sampling runs on the CPU",
             .set = check_anything(),
             .support = Support::kNoEffect},
        }};
}

}  // namespace foresay::cli
