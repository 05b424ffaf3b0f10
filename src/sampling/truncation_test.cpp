// Truncating samplers and temperature on rows made by hand: formulas, ties, min_keep, neutral values, order of the
// list.
#include "sampling/test_rows.h"

namespace foresay::sampling {
namespace {

using Ids = std::vector<TokenId>;

// Ids are shuffled against probabilities, so that "by id" and "by p" differ.
std::vector<float> five() {
    return row_of({0.1, 0.4, 0.05, 0.3, 0.15});
}

TEST(TopK, KeepsTheLargestInOrder) {
    Params params = only({"top_k"});
    params.top_k = 3;
    EXPECT_EQ(survivors(params, five()), (Ids{1, 3, 4}));
    params.top_k = 9;
    EXPECT_EQ(survivors(params, five()), (Ids{1, 3, 4, 0, 2}));
    params.min_keep = 4;  // ignored by top-k
    params.top_k = 1;
    EXPECT_EQ(survivors(params, five()), (Ids{1}));
}

TEST(TopK, TiesGoToTheLowerId) {
    Params params = only({"top_k"});
    params.top_k = 2;
    EXPECT_EQ(survivors(params, {0.0F, 1.0F, 1.0F, 1.0F, 0.0F}), (Ids{1, 2}));
    // Also across the 16-wide scan of long rows.
    std::vector<float> logits(1000, 0.5F);
    params.top_k = 40;
    Ids expected(40);
    for (int i = 0; i < 40; ++i) {
        expected[static_cast<size_t>(i)] = i;
    }
    EXPECT_EQ(survivors(params, logits), expected);
}

TEST(TopK, ZeroIsOff) {
    EXPECT_EQ(survivors(only({"top_k"}), five()), (Ids{0, 1, 2, 3, 4}));
}

TEST(TopP, KeepsTheShortestPrefixThatReachesP) {
    Params params = only({"top_p"});
    params.top_p = 0.69F;
    EXPECT_EQ(survivors(params, five()), (Ids{1, 3}));
    params.top_p = 0.71F;
    EXPECT_EQ(survivors(params, five()), (Ids{1, 3, 4}));
    params.top_p = 0.0F;
    EXPECT_EQ(survivors(params, five()), (Ids{1}));
    params.min_keep = 4;
    EXPECT_EQ(survivors(params, five()), (Ids{1, 3, 4, 0}));
    params.top_p = 1.0F;
    EXPECT_EQ(survivors(params, five()), (Ids{0, 1, 2, 3, 4}));
}

TEST(MinP, KeepsWhatReachesAShareOfTheBest) {
    Params params = only({"min_p"});
    params.min_p = 0.5F;  // bound 0.2
    EXPECT_EQ(survivors(params, five()), (Ids{1, 3}));
    params.min_p = 0.36F;  // bound 0.144; order stays that of the vocabulary
    EXPECT_EQ(survivors(params, five()), (Ids{1, 3, 4}));
    params.min_p = 0.5F;
    params.min_keep = 4;  // the fallback sorts
    EXPECT_EQ(survivors(params, five()), (Ids{1, 3, 4, 0}));
}

TEST(MinP, WorksOnAListAsOnTheRow) {
    Params params = only({"top_k", "min_p"});
    params.top_k = 4;
    params.min_p = 0.36F;
    EXPECT_EQ(survivors(params, five()), (Ids{1, 3, 4}));
    params.min_p = 0.9F;
    params.min_keep = 2;
    EXPECT_EQ(survivors(params, five()), (Ids{1, 3}));
}

TEST(Typical, TakesTheCandidatesNearestToTheEntropy) {
    // H = 1.3893; |-ln p - H|: 0.1 -> 0.913, 0.4 -> 0.473, 0.05 -> 1.606, 0.3 -> 0.185, 0.15 -> 0.508.
    Params params = only({"typ_p"});
    params.typical_p = 0.29F;
    EXPECT_EQ(survivors(params, five()), (Ids{3}));
    params.typical_p = 0.5F;
    EXPECT_EQ(survivors(params, five()), (Ids{3, 1}));
    params.typical_p = 0.8F;
    EXPECT_EQ(survivors(params, five()), (Ids{3, 1, 4}));
    params.typical_p = 0.29F;
    params.min_keep = 4;
    EXPECT_EQ(survivors(params, five()), (Ids{3, 1, 4, 0}));
}

TEST(TopNSigma, DropsWhatIsBelowMaxMinusSigmas) {
    // mean 2, population sigma sqrt(2) = 1.414; the sample sigma would be 1.581.
    const std::vector<float> logits{0.0F, 1.0F, 2.0F, 3.0F, 4.0F};
    Params params = only({"top_n_sigma"});
    params.top_n_sigma = 1.4F;  // bound 2.02
    EXPECT_EQ(survivors(params, logits), (Ids{3, 4}));
    params.top_n_sigma = 1.43F;  // bound 1.978; with the sample sigma 1.74
    EXPECT_EQ(survivors(params, logits), (Ids{2, 3, 4}));
    params.top_n_sigma = 2.0F;  // bound 1.17, with the sample sigma 0.84
    EXPECT_EQ(survivors(params, logits), (Ids{2, 3, 4}));
    params.top_n_sigma = 0.0F;
    EXPECT_EQ(survivors(params, logits).size(), 5U);
}

TEST(TopNSigma, BannedTokensDontCountInTheMoments) {
    Params params = only({"top_n_sigma"});
    params.top_n_sigma = 1.4F;
    params.logit_bias = {{5, -kInf}, {6, -kInf}};
    EXPECT_EQ(survivors(params, {0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 100.0F, -kInf}), (Ids{3, 4}));
}

TEST(Temperature, DividesLogitsAndKeepsTheOrder) {
    Params params = only({"temperature"});
    params.temperature = 0.5F;
    auto sampler = make(params, 3);
    const Draw draw = sampler->draw(row_of({0.25, 0.5, 0.25}), 0);
    // p^2 renormalised: 1/6, 4/6, 1/6; ranks are taken on p itself.
    ASSERT_EQ(ids(draw), (Ids{0, 1, 2}));
    EXPECT_NEAR(draw.candidates[1].p, 4.0 / 6.0, 1e-6);
    EXPECT_NEAR(draw.candidates[0].p, 1.0 / 6.0, 1e-6);
    EXPECT_NEAR(draw.candidates[1].p_rank, 0.5, 1e-6);
    EXPECT_FALSE(draw.sorted);
}

TEST(Temperature, DynamicFollowsTheEntropy) {
    Params params = only({"temperature"});
    params.temperature = 1.0F;
    params.dynatemp_range = 0.5F;
    params.dynatemp_exponent = 2.0F;
    auto sampler = make(params, 4);
    const std::vector<float> logits = row_of({0.7, 0.1, 0.1, 0.1});
    const Draw draw = sampler->draw(logits, 0);
    const double h = -(0.7 * std::log(0.7) + 0.3 * std::log(0.1)) / std::log(4.0);
    const double t = 0.5 + 1.0 * h * h;
    EXPECT_NEAR(draw.candidates[0].logit, std::log(0.7) / t, 1e-5);
    EXPECT_NEAR(draw.candidates[1].logit, std::log(0.1) / t, 1e-5);
}

TEST(Temperature, TinyValuesActAsZero) {
    Params params = only({"temperature"});
    params.temperature = 1e-40F;
    auto sampler = make(params, 3);
    const Draw draw = sampler->draw(std::vector<float>{5.0F, 7.0F, 6.0F}, 0);
    EXPECT_EQ(draw.id, 1);
    EXPECT_EQ(draw.candidates[1].p, 1.0F);
    EXPECT_EQ(draw.candidates[2].p, 0.0F);
}

TEST(Greedy, TakesTheLargestAndKeepsTheSurvivors) {
    Params params = only({"top_k", "temperature"});
    params.top_k = 3;
    params.temperature = 0.0F;
    auto sampler = make(params, 5);
    const Draw draw = sampler->draw(five(), 0);
    EXPECT_EQ(draw.id, 1);
    EXPECT_EQ(ids(draw), (Ids{1, 3, 4}));
    EXPECT_EQ(draw.candidates[0].p, 1.0F);
    EXPECT_EQ(draw.candidates[1].p, 0.0F);
    EXPECT_NEAR(draw.candidates[0].p_rank, 0.4 / 0.85, 1e-6);
    EXPECT_NEAR(draw.candidates[1].p_rank, 0.3 / 0.85, 1e-6);
    EXPECT_NEAR(draw.candidates[2].p_rank, 0.15 / 0.85, 1e-6);
    EXPECT_TRUE(draw.sorted);
}

TEST(Greedy, TiesGoToTheLowestId) {
    Params params = only({"temperature"});
    params.temperature = 0.0F;
    for (uint32_t seed = 0; seed < 8; ++seed) {
        params.seed = seed;
        EXPECT_EQ(make(params, 4)->draw(std::vector<float>{1.0F, 2.0F, 2.0F, 2.0F}, seed).id, 1);
    }
}

TEST(Greedy, NeedsTemperatureInTheList) {
    Params params = only({"top_k"});
    params.temperature = 0.0F;
    params.top_k = 2;
    auto sampler = make(params, 3);
    bool both[3] = {};
    for (int position = 0; position < 64; ++position) {
        both[sampler->draw(std::vector<float>{1.0F, 1.0F, 0.0F}, position).id] = true;
    }
    EXPECT_TRUE(both[0] && both[1]);
}

TEST(Chain, RanksMeanTheSameAtEveryTemperature) {
    std::vector<std::vector<float>> ranks;
    for (const float temperature : {0.0F, 0.2F, 1.0F, 3.0F}) {
        Params params;
        params.seed = 5;
        params.temperature = temperature;
        auto sampler = make(params, 500);
        const std::vector<float> logits = random_row(500, 3, 2.0F);
        ranks.emplace_back();
        for (const Candidate& c : sampler->draw(logits, 0).candidates) {
            ranks.back().push_back(c.p_rank);
        }
        EXPECT_GT(ranks.back().size(), 3U);
        EXPECT_EQ(ranks.back(), ranks.front());
    }
}

TEST(Chain, OrderOfTheListMatters) {
    // Temperature 2 first flattens (0.6, 0.25, 0.15) to (0.455, 0.294, 0.228)...: top-p 0.7 then keeps 2 of 3 either
    // way round differs at 0.55: alone 0.6 reaches it, flattened 0.455 doesn't.
    const std::vector<float> logits = row_of({0.6, 0.25, 0.15});
    Params params = only({"top_p", "temperature"});
    params.top_p = 0.55F;
    params.temperature = 2.0F;
    EXPECT_EQ(survivors(params, logits), (Ids{0}));
    params.samplers = {"temperature", "top_p"};
    EXPECT_EQ(survivors(params, logits), (Ids{0, 1}));
}

TEST(Chain, ASamplerListedTwiceActsTwice) {
    // The first keeps 0.4 + 0.35; renormalised the best has 0.533, and the second keeps it alone.
    const std::vector<float> logits = row_of({0.4, 0.35, 0.15, 0.1});
    Params params = only({"top_p"});
    params.top_p = 0.5F;
    EXPECT_EQ(survivors(params, logits), (Ids{0, 1}));
    params.samplers = {"top_p", "top_p"};
    EXPECT_EQ(survivors(params, logits), (Ids{0}));
}

TEST(Chain, OneLiveTokenSurvivesEverything) {
    Params params;
    params.top_n_sigma = 1.0F;
    params.typical_p = 0.5F;
    params.xtc_probability = 1.0F;
    params.dynatemp_range = 0.5F;
    auto sampler = make(params, 5);
    const Draw draw = sampler->draw(std::vector<float>{-kInf, -kInf, 3.0F, -kInf, std::nanf("")}, 0);
    EXPECT_EQ(draw.id, 2);
    ASSERT_EQ(ids(draw), (Ids{2}));
    EXPECT_EQ(draw.candidates[0].p, 1.0F);
    EXPECT_EQ(draw.candidates[0].p_rank, 1.0F);
}

TEST(Chain, HostileRowsGiveAToken) {
    Params params;
    params.top_n_sigma = 1.0F;
    for (const std::vector<float>& logits :
         {std::vector<float>(5, -kInf), std::vector<float>(5, kInf), std::vector<float>(5, std::nanf("")),
          std::vector<float>{kInf, -kInf, 0.0F, std::nanf(""), 3e38F}}) {
        for (const float temperature : {0.0F, 0.8F}) {
            params.temperature = temperature;
            auto sampler = make(params, 5);
            const Draw draw = sampler->draw(logits, 0);
            EXPECT_GE(draw.id, 0);
            EXPECT_LT(draw.id, 5);
            ASSERT_FALSE(draw.candidates.empty());
            double sum = 0.0;
            for (const Candidate& c : draw.candidates) {
                sum += c.p;
            }
            EXPECT_NEAR(sum, 1.0, 1e-5);
        }
    }
}

TEST(Chain, ProbabilitiesAreNormalisedAfterTruncation) {
    Params params;
    params.seed = 9;
    auto sampler = make(params, 2000);
    for (uint32_t i = 0; i < 20; ++i) {
        double p = 0.0;
        double p_rank = 0.0;
        const Draw draw = sampler->draw(random_row(2000, i, 3.0F), i);
        for (const Candidate& c : draw.candidates) {
            p += c.p;
            p_rank += c.p_rank;
        }
        EXPECT_NEAR(p, 1.0, 1e-5);
        EXPECT_NEAR(p_rank, 1.0, 1e-5);
        EXPECT_TRUE(draw.sorted);
        EXPECT_LE(draw.candidates.size(), 40U);
        EXPECT_NE(find(draw, draw.id), nullptr);
    }
}

TEST(Xtc, RemovesAllAboveTheThresholdButTheLeastLikely) {
    const std::vector<float> logits = row_of({0.1, 0.4, 0.05, 0.25, 0.2});
    Params params = only({"xtc"});
    params.xtc_probability = 1.0F;
    params.xtc_threshold = 0.15F;
    EXPECT_EQ(survivors(params, logits), (Ids{4, 0, 2}));
    params.xtc_threshold = 0.3F;  // one alone above: nothing to remove
    EXPECT_EQ(survivors(params, logits).size(), 5U);
    params.xtc_threshold = 0.15F;
    params.min_keep = 4;  // three would be left
    EXPECT_EQ(survivors(params, logits).size(), 5U);
    params.min_keep = 3;
    EXPECT_EQ(survivors(params, logits).size(), 3U);
    params.xtc_threshold = 0.51F;  // off
    EXPECT_EQ(survivors(params, row_of({0.5, 0.5})).size(), 2U);
}

TEST(Xtc, FiresWithItsProbabilityAlsoAtTemperatureZero) {
    const std::vector<float> logits = row_of({0.5, 0.5});
    Params params = only({"xtc", "temperature"});
    params.xtc_probability = 0.3F;
    params.temperature = 0.0F;
    auto sampler = make(params, 2);
    int fired = 0;
    for (int position = 0; position < 4000; ++position) {
        fired += sampler->draw(logits, position).id == 1 ? 1 : 0;
    }
    EXPECT_NEAR(fired / 4000.0, 0.3, 0.03);
}

TEST(Infill, EndsTheTextWhereAnEndIsLikely) {
    auto vocab = std::make_shared<vocab::FakeVocab>(std::vector<std::string>{"a", "bc", "b", "<end>", "z"});
    vocab->eog = {3};
    // 3 * 0.2 * 5 > 0.8: only the end stays.
    EXPECT_EQ(ids(make(only({"infill"}), vocab)->draw(row_of({0.4, 0.2, 0.1, 0.2, 0.1}), 0)), (Ids{3}));
}

TEST(Infill, MergesPrefixesAndCutsTheWeak) {
    auto vocab = std::make_shared<vocab::FakeVocab>(std::vector<std::string>{"a", "bc", "b", "<end>", "z"});
    vocab->eog = {3};
    // "b" (0.15) goes to "bc" (0.16): 0.31. "z" 0.18 is below 0.2. Then bound (0.5 + 0.31 + 0.01) / 3 = 0.273.
    auto sampler = make(only({"infill"}), vocab);
    EXPECT_EQ(ids(sampler->draw(row_of({0.5, 0.16, 0.15, 0.01, 0.18}), 0)), (Ids{0, 1, 3}));
    // Without the merge nothing of "b" would reach 0.2; and the second bound cuts 0.21 of 0.92 / 3 = 0.307.
    EXPECT_EQ(ids(sampler->draw(row_of({0.7, 0.11, 0.10, 0.01, 0.08}), 0)), (Ids{0, 3}));
}

}  // namespace
}  // namespace foresay::sampling
