// The shared noise: determinism, the drawn distribution, and how often two distributions draw the same token.
#include "sampling/noise.h"

#include <algorithm>
#include <array>

#include "sampling/math.h"
#include "sampling/test_rows.h"

namespace foresay::sampling {
namespace {

TEST(Math, AgreesWithTheLibrary) {
    std::mt19937_64 generator(11);
    std::uniform_real_distribution<double> exponent(-699.0, 709.0);
    for (int i = 0; i < 20000; ++i) {
        const double x = exponent(generator);
        EXPECT_NEAR(exp_fixed(x) / std::exp(x), 1.0, 1e-14);
        const double y = std::exp(x) * (1.0 + x * 1e-3);
        if (y > 0.0 && std::isfinite(y)) {
            EXPECT_NEAR(log_fixed(y), std::log(y), 1e-15 * std::max(1.0, std::abs(std::log(y))));
        }
    }
    EXPECT_EQ(exp_fixed(0.0), 1.0);
    EXPECT_EQ(log_fixed(1.0), 0.0);
    EXPECT_EQ(exp_fixed(-1e9), 0.0);
    EXPECT_EQ(exp_fixed(std::nan("")), 0.0);
    EXPECT_NEAR(log_fixed(5e-324), std::log(5e-324), 1e-12);
    EXPECT_NEAR(pow_fixed(1.75, 3.0), 5.359375, 1e-14);
    EXPECT_EQ(pow_fixed(0.0, 2.0), 0.0);
    EXPECT_EQ(pow_fixed(0.0, 0.0), 1.0);
}

TEST(Math, SumsAndMaximaOfOddLengths) {
    for (const size_t n : {1U, 7U, 8U, 17U, 100U}) {
        const std::vector<float> row = random_row(n, static_cast<uint32_t>(n), 5.0F);
        const float max = *std::max_element(row.begin(), row.end());
        double sum = 0.0;
        for (const float x : row) {
            sum += std::exp(static_cast<double>(x) - static_cast<double>(max));
        }
        EXPECT_EQ(max_of(row), max);
        EXPECT_NEAR(sum_exp(row, max) / sum, 1.0, 1e-13);
    }
    EXPECT_EQ(max_of({}), -kInf);
}

TEST(Noise, IsFixed) {
    // Written down once: texts of a seed must not change between versions, compilers and machines.
    EXPECT_EQ(gumbel_noise(1, 0, 0), gumbel_noise(1, 0, 0));
    EXPECT_FLOAT_EQ(gumbel_noise(1, 0, 0), -1.33150661F);
    EXPECT_FLOAT_EQ(gumbel_noise(42, 7, 1234), -0.283036053F);
    EXPECT_NE(gumbel_noise(1, 0, 0), gumbel_noise(2, 0, 0));
    EXPECT_NE(gumbel_noise(1, 0, 0), gumbel_noise(1, 1, 0));
    EXPECT_NE(gumbel_noise(1, 0, 0), gumbel_noise(1, 0, 1));
    EXPECT_NE(uniform_of(noise_key({1, 0}, Purpose::kXtc), 0), uniform_of(noise_key({1, 0}, Purpose::kGumbel), 0));
}

TEST(Noise, IsGumbel) {
    // Mean 0.5772, variance pi^2 / 6; over tokens and over positions.
    for (const bool over_tokens : {true, false}) {
        double sum = 0.0;
        double squares = 0.0;
        constexpr int kN = 200000;
        for (int i = 0; i < kN; ++i) {
            const auto g = static_cast<double>(over_tokens ? gumbel_noise(3, 17, i) : gumbel_noise(3, i, 17));
            sum += g;
            squares += g * g;
        }
        const double mean = sum / kN;
        EXPECT_NEAR(mean, 0.57722, 0.012);
        EXPECT_NEAR(squares / kN - mean * mean, 1.64493, 0.03);
    }
    for (const double v : {0x1p-53, 0.25, 0.5, 1.0 - 0x1p-53}) {
        EXPECT_TRUE(std::isfinite(gumbel_of(v)));
        EXPECT_LE(gumbel_of(v), -std::log(v) + 1e-5) << "the bound that draws rely on";
    }
}

double chi_squared(const Params& params, const std::vector<float>& logits, int n_draws, size_t* n_classes) {
    auto sampler = make(params, static_cast<int32_t>(logits.size()));
    std::vector<int> counts(logits.size());
    std::vector<double> p(logits.size());
    for (int position = 0; position < n_draws; ++position) {
        const Draw draw = sampler->draw(logits, position);
        ++counts[static_cast<size_t>(draw.id)];
        if (position == 0) {
            for (const Candidate& c : draw.candidates) {
                p[static_cast<size_t>(c.id)] = c.p;
            }
        }
    }
    double chi = 0.0;
    *n_classes = 0;
    for (size_t i = 0; i < p.size(); ++i) {
        if (p[i] == 0.0) {
            EXPECT_EQ(counts[i], 0);
            continue;
        }
        const double expected = p[i] * n_draws;
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
        ++*n_classes;
    }
    return chi;
}

TEST(Draw, MarginalIsP) {
    for (uint32_t seed = 0; seed < 4; ++seed) {
        Params params = only({"top_k", "temperature"});
        params.seed = seed;
        params.top_k = 12;
        for (const float temperature : {0.7F, 1.0F, 2.0F}) {
            params.temperature = temperature;
            size_t n = 0;
            const double chi = chi_squared(params, random_row(20, seed + 50, 1.0F), 20000, &n);
            ASSERT_EQ(n, 12U);
            EXPECT_LT(chi, 31.3) << "seed " << seed;  // 99.9 % of chi-squared with 11 degrees of freedom
        }
    }
}

TEST(Draw, IsTheArgmaxOfLogitPlusNoise) {
    // What a drafter does with the public function must be what the sampler does.
    Params params = only({"temperature"});
    params.temperature = 0.7F;
    params.seed = 77;
    auto sampler = make(params, 4000);
    for (int position = 0; position < 50; ++position) {
        const std::vector<float> logits = random_row(4000, static_cast<uint32_t>(position), 2.0F);
        TokenId best = 0;
        double best_score = -1e9;
        for (TokenId id = 0; id < 4000; ++id) {
            const double score = static_cast<double>(logits[static_cast<size_t>(id)] / 0.7F) +
                                 static_cast<double>(gumbel_noise(77, position, id));
            if (score > best_score) {
                best_score = score;
                best = id;
            }
        }
        EXPECT_EQ(sampler->draw(logits, position).id, best);
        EXPECT_EQ(sampler->draw(logits, position).id, best) << "a second draw is the same draw";
    }
}

/// Mean match rate and its bounds for two rows that differ by normal noise on the logits.
struct Match {
    double rate = 0.0;
    double lower = 0.0;  ///< (1 - TV) / (1 + TV)
    double upper = 0.0;  ///< 1 - TV
};

Match match_rate(float noise) {
    Match match;
    constexpr int kRows = 12;
    constexpr int kDraws = 4000;
    for (uint32_t row = 0; row < kRows; ++row) {
        const std::vector<float> target = random_row(20, 100 + row, 1.5F);
        std::vector<float> drafter = random_row(20, 900 + row, noise);
        for (size_t i = 0; i < drafter.size(); ++i) {
            drafter[i] += target[i];
        }
        Params params = only({"temperature"});
        params.seed = 1000 + row;
        auto a = make(params, 20);
        auto b = make(params, 20);
        double tv = 0.0;
        int same = 0;
        for (int position = 0; position < kDraws; ++position) {
            const Draw x = a->draw(target, position);
            const Draw y = b->draw(drafter, position);
            same += x.id == y.id ? 1 : 0;
            if (position == 0) {
                for (size_t i = 0; i < 20; ++i) {
                    tv += std::abs(static_cast<double>(x.candidates[i].p) - static_cast<double>(y.candidates[i].p)) / 2;
                }
            }
        }
        match.rate += static_cast<double>(same) / kDraws / kRows;
        match.lower += (1.0 - tv) / (1.0 + tv) / kRows;
        match.upper += (1.0 - tv) / kRows;
    }
    return match;
}

TEST(Draw, SharedNoiseMatchesWithinTheBounds) {
    double last = 1.0;
    for (const float noise : {0.3F, 0.7F, 1.2F}) {
        const Match match = match_rate(noise);
        EXPECT_GE(match.rate, match.lower - 0.01) << noise;
        EXPECT_LE(match.rate, match.upper + 0.005) << noise;
        EXPECT_LT(match.rate, last);
        last = match.rate;
    }
    EXPECT_NEAR(match_rate(0.3F).rate, 0.90, 0.03) << "the figure of sampling.md 11.1";
    EXPECT_EQ(match_rate(0.0F).rate, 1.0);
}

TEST(Draw, SeedsDecide) {
    const std::vector<float> logits = random_row(1000, 1, 1.0F);
    const auto text = [&](uint32_t seed) {
        Params params;
        params.seed = seed;
        auto sampler = make(params, 1000);
        std::vector<TokenId> out;
        for (int position = 0; position < 30; ++position) {
            out.push_back(sampler->draw(logits, position).id);
        }
        return std::pair(out, sampler->seed());
    };
    EXPECT_EQ(text(4).first, text(4).first);
    for (uint32_t seed = 0; seed < 4; ++seed) {
        EXPECT_EQ(text(seed).second, seed);
        for (uint32_t other = 0; other < seed; ++other) {
            EXPECT_NE(text(seed).first, text(other).first);
        }
    }
    const auto random = text(4294967295U);
    EXPECT_NE(random.second, 4294967295U);
    EXPECT_EQ(text(random.second).first, random.first) << "the reported seed reproduces the run";
}

TEST(Draw, DoesNotDependOnOtherDraws) {
    Params params;
    params.seed = 6;
    auto a = make(params, 300);
    auto b = make(params, 300);
    const std::vector<float> logits = random_row(300, 2, 1.0F);
    for (int i = 0; i < 10; ++i) {
        (void)b->draw(random_row(300, static_cast<uint32_t>(i), 1.0F), i);
    }
    EXPECT_EQ(a->draw(logits, 3).id, b->draw(logits, 3).id);
}

}  // namespace
}  // namespace foresay::sampling
