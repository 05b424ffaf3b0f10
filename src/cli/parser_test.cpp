// The rules of the command line: spelling, environment, order of precedence, errors that name the flag.
#include "cli/parser.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cli/flag_values.h"
#include "cli/flags.h"

namespace foresay::cli {
namespace {

using spec::SpecType;
using testing::HasSubstr;
using Types = std::vector<SpecType>;
using Variables = std::map<std::string, std::string>;

/// Splits at blanks; ' ' stands for an empty argument nowhere, so '' is written as "".
std::vector<std::string> words(const std::string& text) {
    std::vector<std::string> parts = split(text, ' ');
    for (std::string& part : parts) {
        if (part == "\"\"") {
            part.clear();
        }
    }
    return parts;
}

Result<CommandLine> parse(const std::string& text, const Variables& variables = {}) {
    const std::vector<std::string> args = words(text);
    return parse_command_line(args, [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

Options options_of(const std::string& text, const Variables& variables = {}) {
    auto line = parse(text, variables);
    EXPECT_TRUE(line.has_value()) << text << ": " << (line ? "" : line.error().message);
    return line ? line->options : Options{};
}

std::string notices_of(const std::string& text, const Variables& variables = {}) {
    auto line = parse(text, variables);
    std::string all;
    if (line) {
        for (const Notice& notice : line->notices) {
            all += notice.text + "\n";
        }
    }
    return all;
}

struct Bad {
    const char* args;
    const char* part;
    const char* another = "";
};

class BadCommandLine : public testing::TestWithParam<Bad> {};

TEST_P(BadCommandLine, IsRefusedWithAMessageThatNamesTheFlag) {
    const auto line = parse(GetParam().args);
    ASSERT_FALSE(line.has_value());
    EXPECT_THAT(line.error().message, HasSubstr(GetParam().part));
    EXPECT_THAT(line.error().message, HasSubstr(GetParam().another));
    EXPECT_TRUE(line.error().code == Code::kInvalidArgument || line.error().code == Code::kUnsupported ||
                line.error().code == Code::kIo);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadCommandLine,
    testing::Values(
        Bad{"", "no command", "serve"}, Bad{"-m x --bogus", "error: invalid argument: --bogus"},
        Bad{"-m x --spec-draft-max 3", "invalid argument: --spec-draft-max", "Did you mean --spec-draft-n-max?"},
        Bad{"-m x --ctx-siez 3", "--ctx-siez", "Did you mean --ctx-size?"},
        Bad{"-model x", "invalid argument: -model", "Did you mean --model?"},
        Bad{"-m x --prot 3", "--prot", "Did you mean --port"},
        Bad{"sreve -m x", "unknown command: sreve", "Did you mean serve?"},
        Bad{"-m x extra", "invalid argument: extra"}, Bad{"-m x -c", "argument \"-c\"", "expected value for argument"},
        Bad{"-m x -c 12abc", "error while handling argument \"-c\"", "'12abc' is not a whole number"},
        Bad{"-m x -c -5", "argument \"-c\"", "out of range"},
        Bad{"-m x -c \"\"", "argument \"-c\"", "not a whole number"},
        Bad{"-m x -c 99999999999999999999", "argument \"-c\"", "too large"},
        Bad{"-m x --port 65536", "argument \"--port\"", "0 to 65535"},
        Bad{"-m x -np 0", "argument \"-np\"", "out of range"},
        Bad{"-m x --host \"\"", "argument \"--host\"", "must not be empty"},
        Bad{"-m x -ctk q4_0", "argument \"-ctk\"", "not supported yet"},
        Bad{"-m x -ctv q9", "argument \"-ctv\"", "unknown cache type"},
        Bad{"-m x --device vulkan", "argument \"--device\"", "unknown value 'vulkan'"},
        Bad{"-m x -fa --port 1", "argument \"-fa\"", "unknown value '--port'"},
        Bad{"-m x -ngl many", "argument \"-ngl\"", "not a whole number"},
        Bad{"-m x --temp warm", "argument \"--temp\"", "not a number"},
        Bad{"-m x --temp nan", "argument \"--temp\"", "not a number"},
        Bad{"-m x --top-p 1.5", "argument \"--top-p\"", "0 to 1"},
        Bad{"-m x --repeat-penalty 0", "argument \"--repeat-penalty\"", "out of range"},
        Bad{"-m x -l 12", "argument \"-l\"", "ID+BIAS"},
        Bad{"-m x --sampling-seq kz", "argument \"--sampling-seq\"", "'z'"},
        Bad{"-m x --spec-type draft-simpel", "argument \"--spec-type\"", "did you mean 'draft-simple'?"},
        Bad{"-m x --spec-type draft-simple", "draft-simple needs a draft model", "--spec-draft-model"},
        Bad{"-m x --spec-type ngram-mod --spec-ngram-mod-n-match 0", "argument \"--spec-ngram-mod-n-match\""},
        Bad{"-m x --spec-draft-n-max -1", "argument \"--spec-draft-n-max\"", "out of range"},
        Bad{"-m x --spec-draft-n-min-adaptive 0", "argument \"--spec-draft-n-min-adaptive\"", "out of range"},
        Bad{"-m x --spec-type draft-mtp-adaptiv", "did you mean 'draft-mtp-adaptive'?"},
        Bad{"-m x -md y --spec-draft-n-min 4", "--spec-draft-n-min", "above --spec-draft-n-max (3)"},
        Bad{"-m x --spec-draft-p-min 2", "argument \"--spec-draft-p-min\"", "0 to 1"},
        Bad{"-m x --spec-draft-vocab 0", "argument \"--spec-draft-vocab\"", "out of range"},
        Bad{"-m x --spec-draft-vocab some", "argument \"--spec-draft-vocab\"", "not a whole number"},
        Bad{"-m x --spec-draft-relaxed-top-n -1", "argument \"--spec-draft-relaxed-top-n\"", "out of range"},
        Bad{"-m x --spec-ngram-simple-size-n 0", "--spec-ngram-simple-size-n", "out of range"},
        Bad{"-m x --spec-ngram-size-n 3", "--spec-ngram-size-n", "--spec-ngram-simple-size-n"},
        Bad{"-m x --spec-ngram-size-m 3", "--spec-ngram-size-m", "it was removed"},
        Bad{"-m x --grammar a", "argument \"--grammar\"", "line 1, column 2: expected '::='"},
        Bad{"-m x -j [", "argument \"-j\"", "parse error"}, Bad{"-m x -j 5", "argument \"-j\"", "a schema must be"},
        Bad{"-m x -jf /nowhere", "argument \"-jf\"", "/nowhere"},
        Bad{"-m x --grammar-file /nowhere", "argument \"--grammar-file\"", "/nowhere"},
        Bad{"-m x --lora f", "--lora", "not supported yet"},
        Bad{"-m x --reranking", "--reranking", "not supported yet"},
        Bad{"-m x --mmproj f", "--mmproj", "not supported yet"},
        Bad{"-hf a/b", "argument \"-hf\"", "downloads no models"},
        Bad{"-m x --no-webui=maybe", "--no-webui", "neither on"},
        Bad{"-m x --ignore-eos=1", "--ignore-eos", "takes no value"}, Bad{"--port 1", "no model", "-m FILE"},
        Bad{"run -m x", "no prompt", "-p TEXT"},
        Bad{"run -m x -p y --port 1", "argument \"--port\"", "does not apply to 'foresay run'"},
        Bad{"inspect", "no file"}, Bad{"pair", "TARGET"}, Bad{"pair a b c", "TARGET"},
        Bad{"-m x --api-key-file /nonexistent", "--api-key-file", "/nonexistent"},
        Bad{"-m x --chat-template-file /nonexistent", "--chat-template-file", "cannot read"},
        Bad{"-m x --chat-template chatml2", "argument \"--chat-template\"", "chatml, "},
        Bad{"-m x --chat-template {%x%}", "argument \"--chat-template\"", "line 1"},
        Bad{"-m x --no-jinja --chat-template {{x}}", "argument \"--chat-template\"",
            "the supplied chat template is not supported: {{x}}"},
        Bad{"-m x --chat-template-kwargs 5", "--chat-template-kwargs", "must be a JSON object"},
        Bad{"-m x --reasoning-format x", "--reasoning-format", "deepseek"},
        Bad{"-m x --log-verbosity high", "--log-verbosity", "not a whole number"},
        Bad{"-m x --reasoning-budget -2", "--reasoning-budget", "-1"}));

// The command line of the seed guide, as it stands there.
constexpr const char* kSeed =
    "--model t.gguf --port 8089 --host 127.0.0.1 --no-webui --offline -c 4096 -np 1 --log-verbosity 4 --no-log-prefix "
    "--no-log-timestamps --no-jinja --chat-template chatml --spec-type draft-simple --spec-draft-n-max 4 "
    "--spec-draft-relaxed-top-n 3 --spec-draft-backend-sampling --spec-draft-model d.gguf -ngl 99 --spec-draft-ngl 99 "
    "--flash-attn auto -b 1024 -ub 256 --context-shift --keep 7";

TEST(Parser, TakesTheSeedCommandLineAsItStands) {
    const auto line = parse(kSeed);
    ASSERT_TRUE(line.has_value()) << line.error().message;
    EXPECT_EQ(line->command, kServe);
    const Options& o = line->options;
    EXPECT_EQ(o.engine.model, "t.gguf");
    EXPECT_EQ(o.server.port, 8089);
    EXPECT_EQ(o.server.host, "127.0.0.1");
    EXPECT_EQ(o.engine.n_ctx, 4096);
    EXPECT_EQ(o.engine.n_parallel, 1);
    EXPECT_EQ(o.log.level, log::Level::kDebug);
    EXPECT_FALSE(o.log.prefix);
    EXPECT_FALSE(o.log.timestamps);
    EXPECT_EQ(o.engine.spec.types, Types{SpecType::kDraftSimple});
    EXPECT_EQ(o.engine.spec.n_max, 4);
    EXPECT_EQ(o.engine.spec.relaxed_top_n, 3);
    EXPECT_EQ(o.engine.spec.draft_model, "d.gguf");
    EXPECT_EQ(o.engine.n_batch, 1024);
    EXPECT_EQ(o.engine.n_ubatch, 256);
    EXPECT_TRUE(o.engine.context_shift);
    EXPECT_EQ(o.engine.n_keep, 7);
}

TEST(Parser, SaysOnceThatNoGpuBackendIsBuiltIn) {
    const std::string notices = notices_of(kSeed);
    const size_t first = notices.find("no GPU backend is built in");
    ASSERT_NE(first, std::string::npos);
    EXPECT_EQ(notices.find("no GPU backend is built in", first + 1), std::string::npos);
}

TEST(Parser, UnderscoresAreDashesBehindTwoDashes) {
    EXPECT_EQ(options_of("--model x --ctx_size 77").engine.n_ctx, 77);
}

TEST(Parser, TakesAValueBehindAnEqualsSign) {
    EXPECT_EQ(options_of("--model=x --ctx-size=77").engine.n_ctx, 77);
    EXPECT_FALSE(options_of("--model=x --metrics=off").server.metrics);
    EXPECT_TRUE(options_of("--model=x --no-metrics=off").server.metrics);
    EXPECT_EQ(options_of("--model=a=b").engine.model, "a=b");
}

TEST(Parser, TheNextArgumentIsTheValueWhateverItBeginsWith) {
    EXPECT_EQ(options_of("run -m x -p --port").local.prompt, "--port");
    EXPECT_EQ(options_of("-m x -n -1").n_predict, -1);
}

TEST(Parser, TheLastUseWinsAndTheUserIsTold) {
    EXPECT_EQ(options_of("-m x -c 10 --ctx-size 20").engine.n_ctx, 20);
    EXPECT_THAT(notices_of("-m x -c 10 --ctx-size 20"), HasSubstr("'--ctx-size' was given more than once"));
}

TEST(Parser, NoneInAListMakesTheListNone) {
    EXPECT_EQ(options_of("-m x --spec-type none,ngram-simple").engine.spec.types, Types{});
    EXPECT_EQ(options_of("-m x --spec-type ngram-simple --spec-type none").engine.spec.types,
              Types{SpecType::kNgramSimple})
        << "beside another list it has no effect";
    EXPECT_EQ(options_of("-m x --spec-type ngram-simple --spec-type ngram-simple").engine.spec.types,
              Types{SpecType::kNgramSimple});
}

TEST(Parser, SeveralTypesAreTriedInAFixedOrder) {
    const Types both{SpecType::kNgramSimple, SpecType::kDraftSimple};
    EXPECT_EQ(options_of("-m x -md y --spec-type draft-simple,ngram-simple").engine.spec.types, both);
    EXPECT_EQ(options_of("-m x -md y --spec-type draft-simple --spec-type ngram-simple").engine.spec.types, both);
}

TEST(Parser, ADraftModelAloneIsMeantToDraft) {
    EXPECT_EQ(options_of("-m x -md y").engine.spec.types, Types{}) << "the engine asks the file";
    EXPECT_EQ(options_of("-m x -md y").engine.spec.draft_model, "y");
    EXPECT_THAT(notices_of("-m x -md y"), HasSubstr("its file says which --spec-type it is"));
    EXPECT_EQ(options_of("-m x -md y --spec-type none").engine.spec.types, Types{});
    const Options adaptive = options_of("-m x --no-spec-draft-adaptive --spec-type draft-mtp-adaptive");
    EXPECT_EQ(adaptive.engine.spec.types, Types{SpecType::kDraftMtp});
    EXPECT_TRUE(adaptive.engine.spec.adaptive);
    EXPECT_THAT(notices_of("-m x --spec-draft-n-min-adaptive 3"), HasSubstr("--spec-draft-n-min-adaptive"));
}

TEST(Parser, OldNamesWorkAndNameTheirSuccessor) {
    for (const std::string name : {"--draft", "--draft-n", "--draft-max"}) {
        EXPECT_EQ(options_of("-m x -md y " + name + " 9").engine.spec.n_max, 9) << name;
        EXPECT_THAT(notices_of("-m x -md y " + name + " 9"), HasSubstr("--spec-draft-n-max")) << name;
    }
    EXPECT_EQ(options_of("-m x -md y --draft-min 2").engine.spec.n_min, 2);
    EXPECT_EQ(options_of("-m x -md y", {{"LLAMA_ARG_DRAFT_MAX", "8"}}).engine.spec.n_max, 8);
}

TEST(Parser, TheSmallerBatchFollowsTheLarger) {
    EXPECT_EQ(options_of("-m x -b 128").engine.n_ubatch, 128);
    EXPECT_EQ(options_of("-m x -b 128 -ub 256").engine.n_ubatch, 128);
    EXPECT_THAT(notices_of("-m x -b 128 -ub 256"), HasSubstr("--ubatch-size is lowered"));
}

TEST(Parser, ServeIsTheCommandWithoutAName) {
    EXPECT_EQ(parse("-m x --port 1")->command, kServe);
    EXPECT_EQ(parse("run -m x -p y")->command, kRun);
    EXPECT_EQ(parse("inspect x")->command, kInspect);
    EXPECT_EQ(parse("pair x y")->options.local.files.size(), 2U);
    EXPECT_EQ(parse("tokenize -m x -p y")->command, kTokenize);
    EXPECT_EQ(parse("bench -m x")->command, kBench);
}

TEST(Parser, HelpAndVersionNeedNoModelAndNoGoodEnvironment) {
    EXPECT_TRUE(options_of("--help", {{"LLAMA_ARG_CTX_SIZE", "x"}}).help);
    EXPECT_TRUE(options_of("help").help);
    EXPECT_EQ(parse("help run")->help_topic, static_cast<unsigned>(kRun));
    EXPECT_TRUE(options_of("run -h").help);
    EXPECT_TRUE(options_of("--version").version);
    EXPECT_TRUE(options_of("version").version);
    EXPECT_TRUE(options_of("--list-devices").list_devices);
}

TEST(Environment, SetsWhatTheCommandLineDoesNot) {
    EXPECT_EQ(options_of("--port 1", {{"LLAMA_ARG_MODEL", "m"}}).engine.model, "m");
    EXPECT_EQ(options_of("-m x", {{"FORESAY_CTX_SIZE", "5"}, {"LLAMA_ARG_CTX_SIZE", "6"}}).engine.n_ctx, 5);
    EXPECT_EQ(options_of("-m x -c 7", {{"LLAMA_ARG_CTX_SIZE", "6"}}).engine.n_ctx, 7);
    EXPECT_THAT(notices_of("-m x -c 7", {{"LLAMA_ARG_CTX_SIZE", "6"}}), HasSubstr("LLAMA_ARG_CTX_SIZE is overridden"));
    EXPECT_EQ(options_of("-m x", {{"FORESAY_SPEC_DRAFT_RELAXED_TOP_N", "4"}}).engine.spec.relaxed_top_n, 4);
    EXPECT_THAT(options_of("-m x", {{"LLAMA_API_KEY", "a,b"}}).server.api_keys, testing::ElementsAre("a", "b"));
}

TEST(Environment, TakesWordsForBooleans) {
    for (const std::string word : {"1", "true", "on", "enabled"}) {
        EXPECT_TRUE(options_of("-m x", {{"LLAMA_ARG_CONTEXT_SHIFT", word}}).engine.context_shift) << word;
    }
    for (const std::string word : {"0", "false", "off", "disabled"}) {
        EXPECT_FALSE(options_of("-m x", {{"LLAMA_ARG_ENDPOINT_SLOTS", word}}).server.slots) << word;
    }
    EXPECT_FALSE(options_of("-m x", {{"LLAMA_ARG_NO_ENDPOINT_SLOTS", "1"}}).server.slots);
}

TEST(Environment, ABadValueNamesTheVariable) {
    const auto number = parse("-m x", {{"LLAMA_ARG_CTX_SIZE", "big"}});
    ASSERT_FALSE(number.has_value());
    EXPECT_THAT(number.error().message, HasSubstr("error while handling environment variable \"LLAMA_ARG_CTX_SIZE\""));
    const auto word = parse("-m x", {{"LLAMA_ARG_CONTEXT_SHIFT", "maybe"}});
    ASSERT_FALSE(word.has_value());
    EXPECT_THAT(word.error().message, HasSubstr("LLAMA_ARG_CONTEXT_SHIFT"));
}

TEST(Server, EmbeddingsAndTheirPooling) {
    const Options o = options_of("-m x --embeddings --pooling last --embd-normalize -1");
    EXPECT_TRUE(o.engine.embeddings);
    EXPECT_EQ(o.engine.pooling, engine::Pooling::kLast);
    EXPECT_EQ(o.server.embd_normalize, -1);
    EXPECT_FALSE(options_of("-m x").engine.pooling.has_value());
    EXPECT_FALSE(parse("-m x --pooling rank").has_value());
    EXPECT_FALSE(parse("-m x --slot-save-path /no/such/folder").has_value());
    EXPECT_FALSE(parse("-m x --chat-template nonsense").has_value());
}

TEST(Environment, VariablesOfOtherCommandsAreNotRead) {
    EXPECT_TRUE(parse("run -m x -p y", {{"LLAMA_ARG_PORT", "bad"}}).has_value());
    EXPECT_TRUE(parse("-m x", {{"LLAMA_ARG_RERANKING", "0"}}).has_value());
    EXPECT_FALSE(parse("-m x", {{"LLAMA_ARG_RERANKING", "1"}}).has_value());
}

TEST(Sampling, FlagsReachTheDefaultsOfRequests) {
    const Options o =
        options_of("-m x --temp 0 --top-k 5 --min-p 0.1 -s 42 -l 7-inf -l 8+1.5 --samplers top_k;temperature -n 9");
    EXPECT_EQ(o.server.sampling_defaults.temperature, 0.0F);
    EXPECT_EQ(o.server.sampling_defaults.top_k, 5);
    EXPECT_EQ(o.server.sampling_defaults.seed, 42U);
    ASSERT_EQ(o.server.sampling_defaults.logit_bias.size(), 2U);
    EXPECT_EQ(o.server.sampling_defaults.logit_bias[1].first, 8);
    EXPECT_THAT(o.server.sampling_defaults.samplers, testing::ElementsAre("top_k", "temperature"));
    EXPECT_EQ(o.server.n_predict, 9);
    EXPECT_EQ(options_of("-m x -s -1").sampling.seed, 4294967295U);
    EXPECT_EQ(options_of("-m x --temp -3").sampling.temperature, 0.0F);
}

TEST(Sampling, TheFirstBreakerClearsTheDefaults) {
    EXPECT_THAT(options_of("-m x --dry-sequence-breaker a --dry-sequence-breaker b").sampling.dry_sequence_breakers,
                testing::ElementsAre("a", "b"));
    EXPECT_THAT(options_of("-m x --dry-sequence-breaker none").sampling.dry_sequence_breakers, testing::IsEmpty());
}

TEST(Unescape, KnowsThePeersEscapes) {
    EXPECT_EQ(unescape(R"(a\nb\t\\\"\x41\q\)"), "a\nb\t\\\"A\\q\\");
    EXPECT_EQ(unescape(R"(\xZZ)"), "\\xZZ");
}

}  // namespace
}  // namespace foresay::cli
