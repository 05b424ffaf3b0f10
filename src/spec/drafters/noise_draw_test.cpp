// Shared noise: a drafter whose distribution is the target's draws the target's own token, position by position.
#include "spec/drafters/noise_draw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "vocab/fake_vocab.h"

namespace foresay::spec {
namespace {

std::vector<float> logits_of(int32_t n, int32_t position, float noise) {
    std::vector<float> logits;
    for (int32_t i = 0; i < n; ++i) {
        const auto x = static_cast<float>(i * 7 + position * 13);
        logits.push_back(2.0F * std::sin(x) + noise * std::cos(3.0F * x));
    }
    return logits;
}

TEST(NoiseDraw, EqualLogitsGiveTheTargetsToken) {
    const auto vocab = std::make_shared<vocab::FakeVocab>(200);
    sampling::Params params;
    params.seed = 77;
    params.temperature = 0.9F;
    params.top_k = 20;
    params.top_p = 0.9F;
    params.min_p = 0.02F;
    const auto target = sampling::Sampler::create(params, vocab);
    ASSERT_TRUE(target.has_value());
    DraftSampling sampling{.probabilistic = true,
                           .seed = params.seed,
                           .temperature = params.temperature,
                           .top_k = params.top_k,
                           .top_p = params.top_p,
                           .min_p = params.min_p};
    NoiseDraw noise;
    int n_best = 0;
    int n_near = 0;
    int n_other_seed = 0;
    constexpr int32_t kPositions = 200;
    for (int32_t position = 0; position < kPositions; ++position) {
        const std::vector<float> logits = logits_of(200, position, 0.0F);
        const TokenId drawn = (*target)->draw(logits, position).id;
        // Token i of a draft that begins at position - i.
        const int32_t i_draft = position % 4;
        sampling.position = position - i_draft;
        const auto same = noise.draw(sampling, logits, i_draft, vocab, nullptr);
        ASSERT_TRUE(same.has_value());
        EXPECT_EQ(*same, drawn) << position;
        n_best += std::max_element(logits.begin(), logits.end()) - logits.begin() == drawn ? 1 : 0;
        n_near += noise.draw(sampling, logits_of(200, position, 0.3F), i_draft, vocab, nullptr).value() == drawn;
        DraftSampling other = sampling;
        other.seed ^= 0x85ebca6bU;
        n_other_seed += noise.draw(other, logits, i_draft, vocab, nullptr).value() == drawn ? 1 : 0;
    }
    EXPECT_LT(n_best, kPositions / 2) << "else drawing is no different from taking the best";
    EXPECT_GT(n_near, n_best) << "a near distribution agrees more often than a greedy draft";
    EXPECT_LT(n_other_seed, kPositions / 2) << "other noise agrees by chance only";
}

TEST(NoiseDraw, TellsWhatItDrewFrom) {
    const auto vocab = std::make_shared<vocab::FakeVocab>(50);
    DraftSampling sampling{.probabilistic = true, .seed = 5, .temperature = 1.0F, .top_k = 4, .top_p = 1.0F};
    NoiseDraw noise;
    std::vector<DraftProb> q;
    const std::vector<float> logits = logits_of(50, 3, 0.0F);
    ASSERT_TRUE(noise.draw(sampling, logits, 0, vocab, &q).has_value());
    EXPECT_TRUE(q.empty()) << "nobody asked";
    sampling.wants_q = true;
    const auto id = noise.draw(sampling, logits, 0, vocab, &q);
    ASSERT_TRUE(id.has_value());
    ASSERT_EQ(q.size(), 4U);
    double sum = 0.0;
    bool found = false;
    for (const DraftProb& p : q) {
        sum += static_cast<double>(p.p);
        found = found || p.id == *id;
    }
    EXPECT_NEAR(sum, 1.0, 1e-5);
    EXPECT_TRUE(found);
}

TEST(NoiseDraw, IsWantedAtTemperatureOnly) {
    EXPECT_TRUE(NoiseDraw::wanted({.probabilistic = true, .temperature = 0.1F}));
    EXPECT_FALSE(NoiseDraw::wanted({.probabilistic = true, .temperature = 0.0F}));
    EXPECT_FALSE(NoiseDraw::wanted({.probabilistic = false, .temperature = 0.1F}));
}

}  // namespace
}  // namespace foresay::spec
