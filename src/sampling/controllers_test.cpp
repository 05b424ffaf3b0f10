// Mirostat and adaptive-p: the cut, the reshaping, and that the controllers reach their targets and move in accept().
#include "sampling/test_rows.h"

namespace foresay::sampling {
namespace {

Params mirostat(int version) {
    Params params = only({"top_k"});
    params.top_k = 1;  // mirostat replaces the list, so this must not act
    params.mirostat = version;
    params.mirostat_tau = 3.0F;
    return params;
}

/// Mean surprise in bits of the last 100 of 200 accepted draws, by the probabilities drawn from.
double surprise(Sampler& sampler, const std::vector<float>& logits) {
    double sum = 0.0;
    for (int position = 0; position < 200; ++position) {
        const Draw draw = sampler.draw(logits, position);
        if (position >= 100) {
            sum -= std::log2(static_cast<double>(find(draw, draw.id)->p)) / 100.0;
        }
        sampler.accept(draw.id, true);
    }
    return sum;
}

TEST(Mirostat, ReachesItsTarget) {
    const std::vector<float> logits = random_row(5000, 21, 2.0F);
    for (const int version : {1, 2}) {
        auto sampler = make(mirostat(version), 5000);
        EXPECT_NEAR(surprise(*sampler, logits), 3.0, 0.45) << "version " << version;
    }
}

TEST(Mirostat, SecondVersionCutsAtMu) {
    // mu starts at 2 tau = 2 bits: p >= 1/4 stays.
    Params params = mirostat(2);
    params.mirostat_tau = 1.0F;
    auto sampler = make(params, 5);
    const std::vector<float> logits = row_of({0.1, 0.4, 0.05, 0.3, 0.15});
    EXPECT_EQ(ids(sampler->draw(logits, 0)), (std::vector<TokenId>{1, 3}));
    params.mirostat_tau = 1.4F;  // 2.8 bits: p >= 0.1436
    EXPECT_EQ(ids(make(params, 5)->draw(logits, 0)), (std::vector<TokenId>{1, 3, 4}));
}

TEST(Mirostat, FirstVersionKeepsTheEstimatedNumber) {
    // A Zipf row with exponent 2: p_i ~ 1 / i^2, so s = 2 exactly, epsilon = 1.
    std::vector<float> logits;
    for (int i = 1; i <= 1000; ++i) {
        logits.push_back(static_cast<float>(-2.0 * std::log(static_cast<double>(i))));
    }
    Params params = mirostat(1);
    params.mirostat_tau = 4.0F;  // mu = 8: k = sqrt(256 / (1 - 1/1000)) = 16.008
    EXPECT_EQ(make(params, 1000)->draw(logits, 0).candidates.size(), 16U);
    params.mirostat_tau = 3.0F;  // sqrt(64.06) = 8.004
    EXPECT_EQ(make(params, 1000)->draw(logits, 0).candidates.size(), 8U);
    params.mirostat_tau = -9.0F;
    EXPECT_EQ(make(params, 1000)->draw(logits, 0).candidates.size(), 1U);
}

TEST(Mirostat, FlatAndSingleRowsDontBreakTheEstimate) {
    EXPECT_GE(make(mirostat(1), 50)->draw(std::vector<float>(50, 1.0F), 0).candidates.size(), 1U);
    EXPECT_EQ(make(mirostat(1), 1)->draw(std::vector<float>{1.0F}, 0).id, 0);
    Params params = mirostat(1);
    params.temperature = 0.0F;
    EXPECT_EQ(make(params, 3)->draw(std::vector<float>{1.0F, 3.0F, 2.0F}, 0).id, 1);
}

TEST(Mirostat, OnlyAcceptMovesMu) {
    Params params = mirostat(2);
    params.mirostat_eta = 0.9F;
    const std::vector<float> logits = random_row(500, 5, 2.0F);
    auto sampler = make(params, 500);
    const size_t n = sampler->draw(logits, 0).candidates.size();
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(sampler->draw(logits, i).candidates.size(), n);
    }
    sampler->accept(3, false);
    EXPECT_EQ(sampler->draw(logits, 0).candidates.size(), n) << "prompt tokens don't steer";
    sampler->accept(sampler->draw(logits, 0).candidates.front().id, true);
    // The likeliest token has less than 3 bits, so mu grows and more survive.
    EXPECT_GT(sampler->draw(logits, 1).candidates.size(), n);
    sampler->reset();
    EXPECT_EQ(sampler->draw(logits, 1).candidates.size(), n);
}

TEST(Mirostat, TheAcceptedTokenSteersNotTheDrawnOne) {
    Params params = mirostat(2);
    params.mirostat_eta = 0.9F;
    const std::vector<float> logits = random_row(500, 5, 2.0F);
    auto best = make(params, 500);
    auto worst = make(params, 500);
    best->accept(best->draw(logits, 0).candidates.front().id, true);
    worst->accept(worst->draw(logits, 0).candidates.back().id, true);
    EXPECT_GT(best->draw(logits, 1).candidates.size(), worst->draw(logits, 1).candidates.size());
}

TEST(AdaptiveP, ReshapesAroundTheTarget) {
    Params params = only({"adaptive_p"});
    params.adaptive_target = 0.3F;
    auto sampler = make(params, 3);
    const Draw draw = sampler->draw(row_of({0.6, 0.3, 0.1}), 0);
    const auto shaped = [](double p) {
        const double d = std::abs(p - 0.3) / 0.3;
        return 5.0 - 10.0 * d * d / (1.0 + d);
    };
    ASSERT_EQ(draw.candidates.size(), 3U);
    EXPECT_NEAR(draw.candidates[0].logit, shaped(0.6), 1e-5);
    EXPECT_NEAR(draw.candidates[1].logit, 5.0, 1e-5);
    EXPECT_NEAR(draw.candidates[2].logit, shaped(0.1), 1e-5);
    EXPECT_NEAR(draw.candidates[0].p_rank, 0.6, 1e-6) << "ranks stay those of the model";
    EXPECT_FALSE(draw.candidates[0].p > draw.candidates[1].p);
}

TEST(AdaptiveP, MovesTheTargetByTheAcceptedProbability) {
    Params params = only({"adaptive_p"});
    params.adaptive_target = 0.3F;
    params.adaptive_decay = 0.5F;
    auto sampler = make(params, 3);
    const std::vector<float> logits = row_of({0.6, 0.3, 0.1});
    (void)sampler->draw(logits, 0);
    sampler->accept(0, true);
    // S = 0.6 + 0.5 * 0.6 = 0.9, W = 1 + 0.5 * 2 = 2: t' = 0.6 - 0.45 = 0.15.
    const Draw draw = sampler->draw(logits, 1);
    const double d = std::abs(0.1 - 0.15) / 0.3;
    EXPECT_NEAR(draw.candidates[2].logit, 5.0 - 10.0 * d * d / (1.0 + d), 1e-4);
}

TEST(AdaptiveP, MeanAcceptedProbabilityComesNearTheTarget) {
    const std::vector<float> logits = row_of({0.45, 0.25, 0.125, 0.0625, 0.0625, 0.05});
    double last = 0.0;
    for (const float target : {0.15F, 0.25F, 0.35F}) {
        Params params = only({"adaptive_p", "top_k"});  // the last step wherever it is listed
        params.adaptive_target = target;
        params.top_k = 6;
        auto sampler = make(params, 6);
        double sum = 0.0;
        for (int position = 0; position < 600; ++position) {
            const Draw draw = sampler->draw(logits, position);
            sum += static_cast<double>(find(draw, draw.id)->p_rank);
            sampler->accept(draw.id, true);
        }
        EXPECT_NEAR(sum / 600.0, target, 0.05);
        EXPECT_GT(sum, last);
        last = sum;
    }
}

}  // namespace
}  // namespace foresay::sampling
