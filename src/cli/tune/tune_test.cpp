// Plan, statistics and report of foresay tune, on a bench whose truth is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cli/tune/page.h"
#include "cli/tune/plot.h"
#include "cli/tune/race.h"
#include "cli/tune/report.h"
#include "cli/tune/steady.h"

namespace foresay::cli::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Setting one(std::string_view text) {
    const auto settings = parse_settings(text);
    EXPECT_TRUE(settings.has_value()) << settings.error().message;
    return settings->front();
}

/// A bench with a law: speed = 10 tok/s times a factor of the setting, a class factor and a noise of a few per cent.
class FakeBench : public Bench {
  public:
    std::map<std::string, double> factor;  ///< by name_of; 1 otherwise
    double slow_minute = 1.0;              ///< everything is slower while the clock is in an odd minute
    double clock = 0.0;
    std::vector<std::string> log;                             ///< names, in order
    std::map<std::string, std::multiset<std::string>> given;  ///< prompts by setting

    Result<Sample> run(const Setting& setting, const Condition& condition,
                       std::span<const std::string> prompts) override {
        const std::string name = name_of(setting);
        log.push_back(name);
        given[name].insert(prompts.begin(), prompts.end());
        const auto found = factor.find(name);
        double speed = 10.0 * (found == factor.end() ? 1.0 : found->second);
        noise_ = noise_ * 6364136223846793005U + 1442695040888963407U;
        speed *= 1.0 + 0.04 * (static_cast<double>(noise_ >> 40) / 16777216.0 - 0.5);
        speed *= static_cast<int>(clock / 60.0) % 2 == 1 ? slow_minute : 1.0;
        Sample sample;
        sample.n_tokens = 50 * static_cast<int32_t>(prompts.size());
        sample.n_timed = sample.n_tokens;
        sample.generate_s = sample.n_tokens / speed;
        sample.total_s = sample.generate_s + 1.0;
        if (!setting.is_plain()) {
            sample.n_drafted = 100;
            sample.n_verified = 50;
            sample.n_accepted = 60;
            sample.n_relaxed = setting.is_relaxed() ? 10 : 0;
            sample.rank_sum = setting.is_relaxed() ? 15 : 0;
            sample.gap_sum = setting.is_relaxed() ? 5 : 0;
            sample.accepted_at = {40, 20};
        }
        clock += sample.total_s;
        EXPECT_EQ(condition.clients == 1 ? 1 : 2 * condition.clients, static_cast<int32_t>(prompts.size()));
        return sample;
    }

    double seconds() override { return clock; }

  private:
    uint64_t noise_ = 1;
};

RaceOptions options_with(std::vector<Setting> settings, double seconds) {
    RaceOptions options;
    options.settings = std::move(settings);
    options.classes = {"code", "prose"};
    options.end_s = seconds;
    return options;
}

Report report_of(RaceResult result, std::vector<std::string> classes) {
    Report report;
    report.model = "models/<target>&.gguf";
    report.drafter = "drafter.gguf";
    report.classes = std::move(classes);
    Source source;
    source.name = "draft-simple";
    source.types = {spec::SpecType::kDraftSimple};
    source.flags = {"--spec-draft-model drafter.gguf"};
    report.sources = {source};
    report.curve = {{1, 10.0, 9.0, 11.0}, {2, 10.5, 10.0, 11.0}, {4, 13.0, 12.0, 14.0}};
    report.samples = std::move(result.samples);
    report.notes = std::move(result.notes);
    summarize(&report);
    return report;
}

const RaceProgress kQuiet = [](const std::string&, double) {};

TEST(Settings, AreReadNamedAndTurnedIntoFlags) {
    EXPECT_EQ(name_of(one("n_max=2")), "strict n_max 2");
    EXPECT_EQ(name_of(one("n_max=16:p_min=0.8")), "strict n_max 16 p_min 0.8");
    EXPECT_EQ(name_of(one("n_max=4:top_n=20:delta=0.7")), "top-20 delta 0.7 n_max 4");
    EXPECT_EQ(name_of(one("rule=typical:n_max=4")), "typical n_max 4");
    EXPECT_EQ(name_of(one("adaptive:top_n=5")), "top-5 adaptive");
    EXPECT_EQ(name_of(Setting{}), "plain");
    Source source;
    source.types = {spec::SpecType::kDraftSimple};
    source.flags = {"--spec-draft-model d.gguf"};
    EXPECT_THAT(flags_of(one("n_max=4:top_n=5:p_min=0.8"), source),
                ElementsAre("--spec-draft-model d.gguf", "--spec-draft-n-max 4", "--spec-draft-p-min 0.8",
                            "--no-spec-draft-adaptive", "--spec-draft-relaxed-top-n 5"));
    source.types = {spec::SpecType::kNgramSuffix};
    source.flags = {"--spec-type ngram-suffix"};
    EXPECT_THAT(flags_of(one("n_max=8"), source),
                ElementsAre("--spec-type ngram-suffix", "--spec-ngram-suffix-n-max 8", "--no-spec-draft-adaptive"));
}

TEST(Settings, OfTheGridsAllDiffer) {
    for (const bool full : {false, true}) {
        std::set<std::string> names;
        const auto grid = model_grid(full);
        for (const Setting& setting : grid) {
            EXPECT_TRUE(names.insert(name_of(setting)).second) << name_of(setting);
        }
        EXPECT_TRUE(names.count("strict adaptive") == 1);
    }
}

TEST(Settings, MistakesAreNamed) {
    for (const auto& [text, part] : std::map<std::string, std::string>{{"n_max=x", "n_max=x"},
                                                                       {"n_max=0", "out of range"},
                                                                       {"top_n=5", "neither n_max nor adaptive"},
                                                                       {"n_max=2:n=5", "'n=5' is none of"},
                                                                       {"n_max=2:rule=nice", "nice"},
                                                                       {"n_max=2:rule=relaxed", "top_n of 2 or more"},
                                                                       {"n_max=2:rule=typical:top_n=4", "belong to"},
                                                                       {"n_max=2:delta=1", "belong to"},
                                                                       {"plain", "nothing beside plain"},
                                                                       {"", ""}}) {
        const auto settings = parse_settings(text);
        ASSERT_FALSE(settings.has_value()) << text;
        EXPECT_THAT(settings.error().to_string(), HasSubstr(part));
    }
}

TEST(Statistics, IntervalHoldsTheTruthAndNarrowsWithMorePairs) {
    std::vector<PairedLog> few;
    std::vector<PairedLog> many;
    for (int i = 0; i < 64; ++i) {
        const double noise = 0.1 * ((i * 5 % 8) - 3.5) / 3.5;
        (i < 8 ? few : many).push_back({i % 2 == 0 ? "a" : "b", std::log(1.5) + noise});
        if (i < 8) {
            many.push_back(few.back());
        }
    }
    const Figure a = geometric_mean(few);
    const Figure b = geometric_mean(many);
    EXPECT_EQ(a.n, 8);
    EXPECT_EQ(b.n, 64);
    EXPECT_LT(a.low, 1.5);
    EXPECT_GT(a.high, 1.5);
    EXPECT_LT(b.high - b.low, a.high - a.low);
    EXPECT_NEAR(b.value, 1.5, 0.05);
    EXPECT_EQ(geometric_mean({}).n, 0);
    EXPECT_EQ(geometric_mean({{"a", 0.0}}).low, 1.0);
    EXPECT_THAT(figure_text(geometric_mean({{"a", 0.0}})), "1.00 (1 pair)");
}

TEST(Statistics, OneValuePerClassIsNoCertainty) {
    const Figure figure = geometric_mean({{"a", 0.1}, {"b", 0.4}, {"c", -0.2}, {"d", 0.3}});
    EXPECT_LT(figure.low, figure.value - 0.05);
    EXPECT_GT(figure.high, figure.value + 0.05);
}

TEST(Statistics, ClassesWeighAlikeHoweverOftenTheyWereRun) {
    std::vector<PairedLog> logs(30, {"often", std::log(4.0)});
    logs.push_back({"once", std::log(1.0)});
    EXPECT_NEAR(geometric_mean(logs).value, 2.0, 1e-9);
}

TEST(Race, FindsTheBestOfEachFamilyThoughTheMachineSlowsDown) {
    FakeBench bench;
    bench.slow_minute = 0.5;
    bench.factor = {{"strict n_max 2", 1.2}, {"strict n_max 3", 1.4}, {"strict n_max 8", 0.8},
                    {"top-5 n_max 4", 1.6},  {"top-5 n_max 2", 1.3},  {"strict adaptive", 1.37}};
    PromptPool pool = builtin_prompts();
    auto result = race(options_with(model_grid(true), 4000.0), pool, bench, kQuiet);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    const Report report = report_of(std::move(*result), {"code", "prose"});
    ASSERT_TRUE(report.strict && report.relaxed && report.adaptive);
    EXPECT_EQ(name_of(report.strict->setting), "strict n_max 3");
    EXPECT_EQ(name_of(report.relaxed->setting), "top-5 n_max 4");
    EXPECT_EQ(name_of(report.adaptive->setting), "strict adaptive");
    EXPECT_LT(report.strict->confirmed.low, 1.4);
    EXPECT_GT(report.strict->confirmed.high, 1.4);
    EXPECT_GT(report.strict->confirmed.low, 1.3);
    // The slow ones left early: the time went to those that matter.
    const auto n_runs = [&](const char* name) { return std::count(bench.log.begin(), bench.log.end(), name); };
    EXPECT_LT(n_runs("strict n_max 8"), n_runs("strict n_max 3"));
    EXPECT_GT(bench.clock, 3000.0);
    EXPECT_LT(bench.clock, 4600.0);
}

TEST(Race, GivesNoPromptToASettingTwiceAndTheSameOnesToAllOfAGroup) {
    FakeBench bench;
    PromptPool pool = builtin_prompts();
    RaceOptions options = options_with(model_grid(false), 3000.0);
    options.clients = {1, 4};
    options.temperatures = {0.0F, 0.8F};
    const auto result = race(options, pool, bench, kQuiet);
    ASSERT_TRUE(result.has_value());
    for (const auto& [name, prompts] : bench.given) {
        for (const std::string& prompt : prompts) {
            EXPECT_EQ(prompts.count(prompt), 1U) << name << ": " << prompt;
        }
    }
    std::set<std::pair<float, int32_t>> places;
    for (const Sample& sample : result->samples) {
        places.insert({sample.condition.temperature, sample.condition.clients});
        const auto n_plain = std::count_if(result->samples.begin(), result->samples.end(), [&](const Sample& other) {
            return other.setting.is_plain() && other.group == sample.group;
        });
        EXPECT_EQ(n_plain, 1);
    }
    EXPECT_EQ(places, (std::set<std::pair<float, int32_t>>{{0.0F, 1}, {0.0F, 4}, {0.8F, 1}}));
}

TEST(Race, TheOrderWithinAGroupChanges) {
    FakeBench bench;
    PromptPool pool = builtin_prompts();
    RaceOptions options = options_with(model_grid(false), 500.0);
    options.prune = false;
    ASSERT_TRUE(race(options, pool, bench, kQuiet).has_value());
    std::set<size_t> at;
    for (size_t i = 0; i < bench.log.size(); ++i) {
        if (bench.log[i] == "plain") {
            at.insert(i % 6);
        }
    }
    EXPECT_GE(at.size(), 3U);
}

TEST(Race, SaysWhatItCouldNotMeasure) {
    FakeBench bench;
    PromptPool pool;
    pool.add("own", "one");
    RaceOptions options = options_with({one("n_max=2")}, 1000.0);
    options.classes = {"own"};
    options.clients = {2};
    const auto none = race(options, pool, bench, kQuiet);
    ASSERT_FALSE(none.has_value());
    EXPECT_EQ(none.error().where, "--prompts");
    for (const char* text : {"two", "three", "four"}) {
        pool.add("own", text);
    }
    options.clients = {2, 4};
    const auto some = race(options, pool, bench, kQuiet);
    ASSERT_TRUE(some.has_value());
    EXPECT_THAT(some->notes, testing::Contains(HasSubstr("no prompts were left for temperature 0 with 4 clients")));
}

TEST(Race, PassesOnWhatTheBenchReports) {
    class Broken : public Bench {
      public:
        Result<Sample> run(const Setting& /*setting*/, const Condition& /*condition*/,
                           std::span<const std::string> /*prompts*/) override {
            return error(Code::kOutOfMemory, "no memory");
        }

        double seconds() override { return 0.0; }
    };

    Broken bench;
    PromptPool pool = builtin_prompts();
    const auto result = race(options_with({one("n_max=2")}, 10.0), pool, bench, kQuiet);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, Code::kOutOfMemory);
}

/// Seconds and tokens in the times in which all clients write.
std::pair<double, int> written(const std::vector<std::vector<double>>& texts, size_t n_clients) {
    double seconds = 0.0;
    int n_tokens = 0;
    for (const Span& span : while_all_write(texts, n_clients)) {
        seconds += span.end_s - span.begin_s;
        for (const std::vector<double>& text : texts) {
            n_tokens +=
                static_cast<int>(std::count_if(text.begin(), text.end(), [&](double s) { return span.holds(s); }));
        }
    }
    return {seconds, n_tokens};
}

TEST(Spans, AreThoseInWhichAllClientsWrite) {
    // One client: from its first token on, pauses between its texts left out.
    EXPECT_EQ(written({{1, 2, 3}, {5, 6}}, 1), std::make_pair(3.0, 3));
    // Two: the second's first text ends at 4, its next one begins at 6, and the first one's only text ends at 8.
    EXPECT_EQ(written({{1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 3, 4}, {}, {6, 7, 9}}, 2), std::make_pair(4.0, 7));
    // A text that ends in the pass in which another client's begins: nobody waited.
    EXPECT_EQ(written({{1, 2, 3, 4}, {1, 2}, {}, {2, 3, 4}}, 2), std::make_pair(3.0, 7));
    EXPECT_TRUE(while_all_write({{1, 2}, {3, 4}}, 2).empty());  // never both
    EXPECT_TRUE(while_all_write({}, 2).empty());
    EXPECT_EQ(written({{1}}, 1).second, 0);  // one token says nothing of speed
}

/// A sample at some slowness of the machine: passes of (4, 4) that cost 50 ms, of (4, 8) that cost 60, and drafting
/// that costs draft_ms for each of the latter.
Sample sample_at(double slowness, int32_t n_plain, int32_t n_drafts, double draft_ms, bool plain, int32_t group) {
    Sample sample;
    sample.setting = plain ? Setting{} : one("adaptive");
    sample.condition = {"code", 0.0F, 4};
    sample.group = group;
    for (int32_t i = 0; i < n_plain; ++i) {
        sample.passes.push_back({{}, 4, 4, 50.0 * slowness});
    }
    for (int32_t i = 0; i < n_drafts; ++i) {
        sample.passes.push_back({{}, 4, 8, 60.0 * slowness});
    }
    sample.n_timed = 4 * n_plain + 7 * n_drafts;
    sample.generate_s = slowness * (50.0 * n_plain + (60.0 + draft_ms) * n_drafts) / 1000.0;
    return sample;
}

TEST(Steady, TakesTheMachinesUpsAndDownsOut) {
    std::vector<Sample> samples;
    for (int32_t group = 0; group < 8; ++group) {
        // The machine is at its slowest whenever the drafts' turn comes, in half of the groups by a third.
        samples.push_back(sample_at(1.0, 40, 0, 0.0, true, group));
        samples.push_back(sample_at(group % 2 == 0 ? 1.3 : 1.1, 10, 20, 20.0, false, group));
    }
    net_out_machine(&samples);
    const Setting adaptive = one("adaptive");
    const Filter measured{nullptr, 0.0F, 4};
    Filter steady = measured;
    steady.timing = Timing::kSteady;
    const double truth = (180.0 / 2.1) / (160.0 / 2.0);  // tokens per second by those of plain
    EXPECT_LT(speed_up(samples, adaptive, measured).value, 0.95 * truth);
    EXPECT_NEAR(speed_up(samples, adaptive, steady).value, truth, 0.025);  // kBelief leaves a little
    EXPECT_LT(speed_up(samples, adaptive, steady).high - speed_up(samples, adaptive, steady).low, 0.01);
    // What is slow by itself isn't put down to the machine: dearer drafts show.
    samples[1] = sample_at(1.0, 10, 20, 120.0, false, 0);
    net_out_machine(&samples);
    EXPECT_NEAR(samples[1].steady_s / samples[3].steady_s, 4.1 / 2.1, 0.03);
}

TEST(Steady, LeavesOneSampleAlone) {
    std::vector<Sample> samples = {sample_at(1.3, 10, 20, 20.0, false, 0)};
    net_out_machine(&samples);
    EXPECT_NEAR(samples[0].steady_s, samples[0].generate_s, 1e-9);
    samples[0].passes.clear();
    samples[0].steady_s = 0.0;
    net_out_machine(&samples);
    EXPECT_EQ(samples[0].steady_s, 0.0);  // nothing is known of its passes
    EXPECT_EQ(samples[0].steady_tok_s(), 0.0);
}

TEST(Choice, IsMadeOnScreeningAndJudgedOnOtherPrompts) {
    // A setting that was lucky while screening and is worse than plain afterwards must not look good.
    std::vector<Sample> samples;
    for (int32_t group = 0; group < 8; ++group) {
        for (const char* text : {"plain", "n_max=2"}) {
            Sample sample;
            sample.setting = std::string_view(text) == "plain" ? Setting{} : one(text);
            sample.condition = {"code", 0.0F, 1};
            sample.stage = group < 4 ? Stage::kScreen : Stage::kConfirm;
            sample.group = group;
            sample.n_tokens = 100;
            sample.n_timed = 100;
            sample.generate_s = sample.setting.is_plain() ? 10.0 : (group < 4 ? 5.0 : 12.5);
            sample.total_s = sample.generate_s;
            samples.push_back(sample);
        }
    }
    RaceResult result;
    result.samples = samples;
    const Report report = report_of(std::move(result), {"code"});
    ASSERT_TRUE(report.strict.has_value());
    EXPECT_NEAR(report.strict->confirmed.value, 0.8, 1e-9);
    EXPECT_THAT(to_text(report), HasSubstr("reaches below plain"));
}

TEST(Prompts, BuiltInOnesAreManyAndAllDifferent) {
    PromptPool pool = builtin_prompts();
    std::set<std::string> seen;
    for (const std::string& text_class : builtin_classes()) {
        const size_t n = pool.left(text_class);
        EXPECT_GE(n, 60U) << text_class;
        for (const std::string& prompt : pool.take(text_class, n)) {
            EXPECT_TRUE(seen.insert(prompt).second) << prompt;
        }
        EXPECT_TRUE(pool.take(text_class, 1).empty());
    }
}

TEST(Prompts, OfAFileAreReadInBothForms) {
    auto blocks = parse_prompts("\nfirst line\nsecond line\n---\n\n---\r\nanother\n");
    ASSERT_TRUE(blocks.has_value());
    EXPECT_THAT(blocks->take("own", 2), ElementsAre("first line\nsecond line", "another"));
    auto lines = parse_prompts("{\"prompt\": \"a\", \"class\": \"code\"}\n\n{\"prompt\": \"b\"}\n");
    ASSERT_TRUE(lines.has_value());
    EXPECT_THAT(lines->classes(), ElementsAre("code", "own"));
    EXPECT_THAT(lines->take("own", 1), ElementsAre("b"));
    for (const char* bad : {"", " \n", "---\n---\n", "{\"prompt\": 3}", "{\"prompt\": \" \"}", "{oops",
                            "{\"prompt\": \"a\", \"class\": 1}"}) {
        const auto pool = parse_prompts(bad);
        ASSERT_FALSE(pool.has_value()) << bad;
        EXPECT_EQ(pool.error().where, "--prompts");
    }
    EXPECT_THAT(parse_prompts("{\"prompt\": \"a\"}\n{\"x\": 1}").error().message, HasSubstr("line 2"));
}

TEST(Report, JsonTextAndPageSayTheSame) {
    FakeBench bench;
    bench.factor = {{"strict n_max 4", 1.5}, {"top-5 n_max 4", 1.8}};
    PromptPool pool = builtin_prompts();
    RaceOptions options = options_with(model_grid(false), 1500.0);
    options.clients = {1, 2};
    auto result = race(options, pool, bench, kQuiet);
    ASSERT_TRUE(result.has_value());
    const Report report = report_of(std::move(*result), {"code", "prose"});
    const auto json = to_json(report);
    EXPECT_EQ(json["best_strict"]["setting"]["name"], "strict n_max 4");
    EXPECT_EQ(json["best_relaxed"]["setting"]["top_n"], 5);
    EXPECT_EQ(json["samples"].size(), report.samples.size());
    EXPECT_EQ(json["rows"][0]["setting"]["name"], "plain");
    EXPECT_TRUE(json["rows"][0]["acceptance"].is_null());
    const auto& row = *std::find_if(json["rows"].begin(), json["rows"].end(), [](const auto& candidate) {
        return candidate["setting"]["name"] == "top-5 n_max 4" && candidate["clients"] == 1;
    });
    EXPECT_NEAR(row["acceptance"].get<double>(), 0.6, 1e-9);
    EXPECT_NEAR(row["mean_length"].get<double>(), 2.2, 1e-9);
    EXPECT_NEAR(row["relaxed_share"].get<double>(), 0.2, 1e-9);
    EXPECT_NEAR(row["mean_rank"].get<double>(), 1.5, 1e-9);
    EXPECT_NEAR(row["gap_per_token"].get<double>(), 0.1, 1e-9);
    EXPECT_NEAR(row["stands_at"][0].get<double>(), 0.8, 1e-9);
    EXPECT_NEAR(row["speed_up"]["value"].get<double>(), 1.8, 0.05);
    EXPECT_LT(row["speed_up_with_prompt"]["value"].get<double>(), row["speed_up"]["value"].get<double>());
    const std::string text = to_text(report);
    EXPECT_THAT(text, HasSubstr("--spec-draft-relaxed-top-n 5"));
    EXPECT_THAT(text, HasSubstr("2 clients"));
    const std::string page = to_html(report);
    EXPECT_THAT(page, HasSubstr("--spec-draft-relaxed-top-n 5"));
    EXPECT_THAT(page, HasSubstr("&lt;target&gt;&amp;.gguf"));
    EXPECT_THAT(page, Not(HasSubstr("<target>")));
    EXPECT_THAT(page, Not(HasSubstr("://")));
    EXPECT_THAT(page, Not(HasSubstr("<script")));
    EXPECT_THAT(page, Not(HasSubstr("nan")));
    size_t n_plots = 0;
    for (size_t at = page.find("<svg"); at != std::string::npos; at = page.find("<svg", at + 1)) {
        ++n_plots;
    }
    EXPECT_EQ(n_plots, 5U);
}

TEST(Report, OfNothingIsStillAReport) {
    Report report;
    summarize(&report);
    EXPECT_THAT(to_text(report), HasSubstr("none was measured"));
    EXPECT_THAT(to_html(report), HasSubstr("</html>"));
    EXPECT_TRUE(to_json(report)["best_strict"].is_null());
}

TEST(Plots, TicksCoverTheRangeInRoundSteps) {
    EXPECT_THAT(ticks(0.0, 1.0), ElementsAre(0.0, testing::DoubleNear(0.2, 1e-9), testing::DoubleNear(0.4, 1e-9),
                                             testing::DoubleNear(0.6, 1e-9), testing::DoubleNear(0.8, 1e-9), 1.0));
    for (const double high : {0.013, 0.9, 7.0, 1234.0}) {
        const auto values = ticks(-high / 3, high);
        EXPECT_GE(values.size(), 3U);
        EXPECT_LE(values.size(), 9U);
    }
    EXPECT_EQ(ticks(2.0, 2.0).size(), 1U);
}

TEST(Plots, OnePointAndNoPointAreDrawn) {
    EXPECT_THAT(xy_plot({}, {}), HasSubstr("Not measured"));
    EXPECT_THAT(xy_plot({}, {{"a", {{1.0, 1.0, 1.0, 1.0, "x"}}}}), HasSubstr("<circle"));
    EXPECT_THAT(interval_plot("t", "x", {{"a<b", 1.0, 1.0, 1.0, 0}}), HasSubstr("a&lt;b"));
}

}  // namespace
}  // namespace foresay::cli::tune
