// Every diagnosis from made-up measurements; the self-check's comparison against texts that differ in one bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cli/doctor/diagnose.h"
#include "cli/doctor/self_check.h"
#include "vocab/fake_vocab.h"

namespace foresay::cli::doctor {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Drafts of n tokens whose tokens stand with `rate` each.
Acceptance rate_of(double rate, int32_t n = 8) {
    Acceptance a;
    a.n_drafts = 100;
    a.n_max = n;
    double stands = 1.0;
    double sum = 0.0;
    for (int32_t i = 0; i < n; ++i) {
        stands *= rate;
        sum += stands;
        a.stands_at.push_back(stands);
    }
    a.share = sum / n;
    return a;
}

/// A good pair: cheap drafter, cheap verification, high acceptance.
Figures good() {
    Figures f;
    f.type = "draft-simple";
    f.n_max = 4;
    f.n_ctx_train_target = 32768;
    f.n_ctx_train_draft = 32768;
    for (int32_t n = 1; n <= 9; ++n) {
        f.cost_ms.push_back(100.0 + 3.0 * (n - 1));
    }
    f.draft_ms = 12.0;
    f.greedy_short = rate_of(0.8);
    f.greedy_long = rate_of(0.78);
    f.sampled = rate_of(0.76);
    f.temperature = 0.8F;
    f.long_tokens = 1000;
    return f;
}

std::vector<std::string> causes(const Figures& f) {
    std::vector<std::string> names;
    for (const Finding& finding : diagnose(f)) {
        EXPECT_FALSE(finding.what.empty() || finding.figures.empty() || finding.advice.empty()) << finding.cause;
        names.push_back(finding.cause);
    }
    return names;
}

TEST(Diagnose, FindsNothingInAGoodPair) {
    EXPECT_THAT(causes(good()), IsEmpty());
    EXPECT_THAT(causes(Figures{}), IsEmpty());
}

TEST(Diagnose, FilesThatDoNotFit) {
    Figures f;
    f.pair_problems = {"another vocabulary"};
    EXPECT_THAT(causes(f), testing::ElementsAre("pair-mismatch"));
}

TEST(Diagnose, ADrafterThatDisagreesFromTheFirstToken) {
    Figures f = good();
    f.greedy_short = rate_of(0.1);
    f.own_short = rate_of(1.0);
    const auto findings = diagnose(f);
    ASSERT_FALSE(findings.empty());
    EXPECT_EQ(findings.front().cause, "pair-mismatch");
    EXPECT_THAT(findings.front().figures, HasSubstr("engine is not at fault"));
    EXPECT_THAT(causes(f), Not(Contains("drafter-too-dear")));
}

TEST(Diagnose, AnEngineThatRejectsTheTargetsOwnDrafts) {
    Figures f = good();
    f.own_long = rate_of(0.9);
    EXPECT_EQ(causes(f).front(), "engine-error");
}

TEST(Diagnose, PositionsThatAreOffInLongText) {
    Figures f = good();
    f.greedy_long = rate_of(0.3);
    EXPECT_THAT(causes(f), Contains("position-error"));
    EXPECT_THAT(diagnose(f).front().what, HasSubstr("rope"));
    f.n_ctx_train_draft = 512;
    EXPECT_THAT(diagnose(f).front().what, HasSubstr("longer than what the drafter was trained for"));
}

TEST(Diagnose, AQuantisedCacheThatCosts) {
    Figures f = good();
    f.draft_cache_is_quantised = true;
    f.greedy_short = rate_of(0.6);
    f.full_cache = rate_of(0.8);
    EXPECT_THAT(causes(f), Contains("quantised-cache"));
    f.greedy_short = rate_of(0.2);
    EXPECT_THAT(causes(f), Not(Contains("pair-mismatch")));
    f.full_cache = rate_of(0.2);
    EXPECT_THAT(causes(f), Not(Contains("quantised-cache")));
}

TEST(Diagnose, APoolThatIsSmallerThanN) {
    Figures f = good();
    f.top_n = 20;
    f.pool_sizes = {1, 2, 3, 1, 25};
    EXPECT_THAT(causes(f), testing::ElementsAre("small-pool"));
    EXPECT_THAT(diagnose(f).front().figures, HasSubstr("6.4 candidates"));
    f.pool_sizes = {30, 40, 22, 25, 3};
    EXPECT_THAT(causes(f), IsEmpty());
}

TEST(Diagnose, VerificationThatIsBoundByArithmetic) {
    Figures f = good();
    for (size_t i = 0; i < f.cost_ms.size(); ++i) {
        f.cost_ms[i] = 100.0 * static_cast<double>(i + 1);
    }
    EXPECT_THAT(causes(f), Contains("compute-bound-verify"));
    EXPECT_THAT(causes(f), Not(Contains("drafter-too-dear")));
}

TEST(Diagnose, ADrafterThatIsTooDear) {
    Figures f = good();
    f.draft_ms = 90.0;
    EXPECT_THAT(causes(f), Contains("drafter-too-dear"));
    EXPECT_THAT(causes(f), Not(Contains("compute-bound-verify")));
}

TEST(Diagnose, ALengthPastTheOptimum) {
    Figures f = good();
    f.n_max = 8;
    f.greedy_short = rate_of(0.5);
    f.sampled = rate_of(0.5);
    f.greedy_long = rate_of(0.5);
    f.draft_ms = 20.0;
    const auto findings = diagnose(f);
    ASSERT_THAT(causes(f), testing::ElementsAre("n-max-past-optimum"));
    const int32_t best = best_length(f, *f.greedy_short, 8);
    EXPECT_GT(best, 0);
    EXPECT_LT(best, 4);
    EXPECT_THAT(findings.front().advice, HasSubstr("--spec-draft-n-max " + std::to_string(best)));
}

TEST(Diagnose, SamplingThatDrawsApart) {
    Figures f = good();
    f.sampled = rate_of(0.4);
    f.probabilistic = false;
    EXPECT_THAT(diagnose(f).front().advice, HasSubstr("--spec-draft-sampling probabilistic"));
    f.temperature = 0.0F;
    EXPECT_THAT(causes(f), IsEmpty());
}

TEST(Diagnose, TextThatGivesLookupsNothing) {
    Figures f = good();
    f.type = "ngram-simple";
    f.draft_ms = 0.0;
    f.greedy_short = rate_of(0.1);
    f.rounds_with_draft = 0.05;
    EXPECT_THAT(causes(f), Contains("text-does-not-repeat"));
}

TEST(Prediction, IsExpectedTokensByCost) {
    Figures f = good();
    f.draft_ms = 10.0;
    f.cost_ms = {100.0, 110.0, 120.0};
    const Acceptance a = rate_of(0.5, 2);
    EXPECT_NEAR(predicted_speed_up(f, a, 0), 1.0, 1e-12);
    EXPECT_NEAR(predicted_speed_up(f, a, 1), 1.5 / (0.1 + 1.1), 1e-12);
    EXPECT_NEAR(predicted_speed_up(f, a, 2), 1.75 / (0.2 + 1.2), 1e-12);
    EXPECT_NEAR(predicted_speed_up(f, a, 3), 1.875 / (0.3 + 1.3), 1e-12);  // both curves go on
    EXPECT_EQ(predicted_speed_up(Figures{}, a, 2), 0.0);
}

TEST(SelfCheck, SeesADifferentTokenALongerTextAndASingleBit) {
    const Text text{{1, 2, 3}, {-0.1F, -0.2F, -0.3F}};
    EXPECT_FALSE(first_difference(text, text).has_value());
    Text other = text;
    other.ids[1] = 7;
    EXPECT_EQ(first_difference(text, other)->at, 1U);
    other = text;
    other.logprobs[2] = std::nextafter(other.logprobs[2], 0.0F);
    EXPECT_EQ(first_difference(text, other)->at, 2U);
    other = text;
    other.ids.pop_back();
    other.logprobs.pop_back();
    EXPECT_EQ(first_difference(text, other)->drafted, vocab::kNoToken);
    const float nan = std::nanf("");
    EXPECT_FALSE(first_difference({{1}, {nan}}, {{1}, {nan}}).has_value());
}

TEST(SelfCheck, ComparesEveryCaseWithPlainAndNamesTheOneThatDiffers) {
    std::vector<std::string> asked;
    const auto generate = [&](const Case& which) -> Result<std::vector<Text>> {
        asked.push_back(name_of(which));
        Text text{{1, 2, 3}, {-0.1F, -0.2F, -0.3F}};
        Text second = text;
        if (which.n_max == 4 && !which.adaptive && which.temperature > 0.0F) {
            second.ids[2] = 1;  // a broken engine
        }
        return std::vector<Text>{text, second};
    };
    const auto result = check_strict({0.0F, 0.8F}, {2, 4}, generate);
    ASSERT_TRUE(result.has_value());
    EXPECT_THAT(asked, testing::ElementsAre("plain, temperature 0", "n_max 2, temperature 0", "n_max 4, temperature 0",
                                            "adaptive up to 4, temperature 0", "plain, temperature 0.8",
                                            "n_max 2, temperature 0.8", "n_max 4, temperature 0.8",
                                            "adaptive up to 4, temperature 0.8"));
    EXPECT_EQ(result->n_compared, 12);
    ASSERT_EQ(result->failures.size(), 1U);
    EXPECT_EQ(result->failures[0].prompt, 1U);
    EXPECT_EQ(result->failures[0].difference.at, 2U);
    const vocab::FakeVocab vocab(8);
    EXPECT_THAT(to_text(*result, vocab),
                HasSubstr("n_max 4, temperature 0.8, prompt 2: token 3 is 1 't1' instead of 3 't3'"));
}

TEST(SelfCheck, PassesOnErrors) {
    const auto result = check_strict(
        {0.0F}, {2}, [](const Case&) -> Result<std::vector<Text>> { return error(Code::kOutOfMemory, "no memory"); });
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, Code::kOutOfMemory);
}

}  // namespace
}  // namespace foresay::cli::doctor
