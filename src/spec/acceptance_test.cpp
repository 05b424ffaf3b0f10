// Acceptance rules on candidate sets made by hand and on real draws; the log line to the letter.
#include "spec/acceptance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "vocab/fake_vocab.h"

namespace foresay::spec {
namespace {

using sampling::Candidate;
using sampling::Draw;
using vocab::FakeVocab;
using vocab::TokenId;

constexpr int32_t kEveryone = 300000;  // above any vocabulary

/// Ids 10, 11, ... with these ranks' probabilities; the first is drawn, greedily.
struct Set {
    explicit Set(std::vector<float> p_rank, size_t drawn = 0) {
        for (size_t i = 0; i < p_rank.size(); ++i) {
            candidates.push_back({static_cast<TokenId>(10 + i), 0.0F, i == drawn ? 1.0F : 0.0F, p_rank[i]});
        }
        draw.id = static_cast<TokenId>(10 + drawn);
        draw.candidates = candidates;
        draw.sorted = true;
    }

    std::vector<Candidate> candidates;
    Draw draw;
};

TEST(Strict, AcceptsTheDrawOnly) {
    const Set set({0.5F, 0.5F});
    EXPECT_EQ(decide_strict(set.draw, 10).verdict, Verdict::kExact);
    EXPECT_EQ(decide_strict(set.draw, 11).verdict, Verdict::kReject);
    EXPECT_EQ(decide_strict(set.draw, 99).verdict, Verdict::kReject);
}

TEST(RelaxedTopN, AcceptsRanksBelowN) {
    const FakeVocab vocab(100);
    const Set set({0.4F, 0.3F, 0.2F, 0.1F});
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 10, 2, vocab).verdict, Verdict::kExact);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 11, 2, vocab).verdict, Verdict::kRelaxed);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 12, 2, vocab).verdict, Verdict::kReject);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 12, 3, vocab).verdict, Verdict::kRelaxed);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 13, 3, vocab).verdict, Verdict::kReject);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 13, 4, vocab).verdict, Verdict::kRelaxed);
}

TEST(RelaxedTopN, ReportsTheDistance) {
    const FakeVocab vocab(100);
    const Set set({0.4F, 0.3F, 0.2F, 0.1F}, 1);
    for (const int32_t n : {2, 4}) {  // rejected and accepted
        const Decision decision = decide_relaxed_top_n(set.draw, 12, n, vocab);
        EXPECT_EQ(decision.rank, 2);
        EXPECT_EQ(decision.p_drafted, 0.2F);
        EXPECT_EQ(decision.p_max, 0.4F);
        EXPECT_NEAR(decision.gap, std::log(2.0), 1e-6);
    }
    const Decision exact = decide_relaxed_top_n(set.draw, 11, 2, vocab);
    EXPECT_EQ(exact.verdict, Verdict::kExact);
    EXPECT_EQ(exact.gap, 0.0F);
    EXPECT_EQ(exact.p_drafted, 0.0F) << "only filled where drafted differs from sampled";
}

TEST(RelaxedTopN, AnExactMatchStandsWhateverItsRank) {
    const FakeVocab vocab(100);
    const Set set({0.4F, 0.3F, 0.2F, 0.1F}, 3);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 13, 2, vocab).verdict, Verdict::kExact);
}

TEST(RelaxedTopN, TiesShareTheBetterRank) {
    const FakeVocab vocab(100);
    const Set set({0.4F, 0.2F, 0.2F, 0.2F});
    for (const TokenId id : {11, 12, 13}) {
        EXPECT_EQ(decide_relaxed_top_n(set.draw, id, 2, vocab).rank, 1);
        EXPECT_EQ(decide_relaxed_top_n(set.draw, id, 2, vocab).verdict, Verdict::kRelaxed);
    }
}

TEST(RelaxedTopN, RankDoesNotDependOnTheOrderOfTheSet) {
    const FakeVocab vocab(100);
    const Set set({0.1F, 0.3F, 0.4F, 0.2F}, 2);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 11, 2, vocab).rank, 1);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 13, 2, vocab).rank, 2);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 13, 2, vocab).p_max, 0.4F);
}

TEST(RelaxedTopN, TokenOutsideTheSetIsRejectedAtAnyN) {
    const FakeVocab vocab(100);
    const Set set({0.6F, 0.4F});
    for (const int32_t n : {2, 40, kEveryone}) {
        for (const TokenId id : {0, 12, 99, -1, 1000000}) {
            const Decision decision = decide_relaxed_top_n(set.draw, id, n, vocab);
            EXPECT_EQ(decision.verdict, Verdict::kReject);
            EXPECT_EQ(decision.rank, -1);
        }
    }
}

TEST(RelaxedTopN, LargeNAcceptsEverythingInTheSet) {
    const FakeVocab vocab(100);
    const Set set({0.5F, 0.3F, 0.1F, 0.05F, 0.05F});
    for (TokenId id = 11; id < 15; ++id) {
        EXPECT_EQ(decide_relaxed_top_n(set.draw, id, kEveryone, vocab).verdict, Verdict::kRelaxed);
    }
}

TEST(RelaxedTopN, EndAndControlTokensNeedAnExactMatch) {
    FakeVocab vocab(100);
    vocab.eog = {11};
    vocab.control = {12};
    const Set set({0.4F, 0.3F, 0.3F});
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 11, kEveryone, vocab).verdict, Verdict::kReject);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 12, kEveryone, vocab).verdict, Verdict::kReject);
    const Set end_drawn({0.4F, 0.3F, 0.3F}, 1);
    EXPECT_EQ(decide_relaxed_top_n(end_drawn.draw, 11, 2, vocab).verdict, Verdict::kExact);
}

TEST(RelaxedTopN, ProbabilityZeroIsNoNearMiss) {
    const FakeVocab vocab(100);
    const Set set({1.0F, 0.0F});
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 11, kEveryone, vocab).verdict, Verdict::kReject);
}

TEST(RelaxedTopN, AtTemperatureZeroOnlyTheRanksOfTheModelCount) {
    // The trap of sampling.md 13: one-hot p would give every other candidate rank 1.
    sampling::Params params;
    params.seed = 1;
    params.temperature = 0.0F;
    params.logit_bias = {{7, -std::numeric_limits<float>::infinity()}};
    auto vocab = std::make_shared<FakeVocab>(200);
    auto sampler = sampling::Sampler::create(params, vocab);
    ASSERT_TRUE(sampler.has_value());
    std::mt19937 generator(3);
    std::normal_distribution<float> normal(0.0F, 1.5F);
    int n_relaxed = 0;
    for (int row = 0; row < 50; ++row) {
        std::vector<float> logits(200);
        for (float& logit : logits) {
            logit = normal(generator);
        }
        logits[7] = 50.0F;
        const Draw draw = (*sampler)->draw(logits, row);
        for (TokenId id = 0; id < 200; ++id) {
            int rank = 0;
            for (TokenId other = 0; other < 200; ++other) {
                const bool is_above = logits[static_cast<size_t>(other)] > logits[static_cast<size_t>(id)];
                rank += other != 7 && is_above ? 1 : 0;
            }
            const Verdict verdict = decide_relaxed_top_n(draw, id, 3, *vocab).verdict;
            if (id == 7 || rank >= 3) {
                EXPECT_EQ(verdict, Verdict::kReject) << "row " << row << " id " << id;
            } else if (rank == 0) {
                EXPECT_EQ(verdict, Verdict::kExact);
            } else {
                EXPECT_NE(verdict, Verdict::kExact);
                n_relaxed += verdict == Verdict::kRelaxed ? 1 : 0;
            }
        }
    }
    EXPECT_GT(n_relaxed, 60) << "of at most 100: truncation may leave fewer than three";
}

TEST(RelaxedLog, TheLineOfTheSeedFormat) {
    FakeVocab vocab(50000);
    vocab.tokens[8473] = " Code";
    vocab.tokens[42037] = " Algorithm";
    std::vector<Candidate> candidates(12);
    Draw draw;
    draw.id = 42037;
    draw.candidates = candidates;
    draw.sorted = true;
    Decision decision;
    decision.verdict = Verdict::kRelaxed;
    EXPECT_EQ(format_relaxed_verify(0, 5, draw, 8473, decision, vocab),
              "[RELAXED_VERIFY] pos=0 relaxed_top_n=5 cur_p.size=12 cur_p.sorted=1 draft=' Code'(id=8473) "
              "target_sample=' Algorithm'(id=42037) -> ACCEPT(relaxed)");
    decision.verdict = Verdict::kReject;
    draw.sorted = false;
    EXPECT_EQ(format_relaxed_verify(7, 2, draw, 8473, decision, vocab),
              "[RELAXED_VERIFY] pos=7 relaxed_top_n=2 cur_p.size=12 cur_p.sorted=0 draft=' Code'(id=8473) "
              "target_sample=' Algorithm'(id=42037) -> reject");
    decision.verdict = Verdict::kExact;
    EXPECT_EQ(format_relaxed_verify(1, 2, draw, 42037, decision, vocab),
              "[RELAXED_VERIFY] pos=1 relaxed_top_n=2 cur_p.size=12 cur_p.sorted=0 draft=' Algorithm'(id=42037) "
              "target_sample=' Algorithm'(id=42037) -> ACCEPT(exact)");
}

TEST(RelaxedLog, StaysOneLine) {
    FakeVocab vocab(std::vector<std::string>{"a\n\r\tb\x1b[0m\x7f", "\xc3\xa4"});
    Draw draw;
    draw.id = 1;
    EXPECT_EQ(format_relaxed_verify(0, 2, draw, 0, {}, vocab),
              "[RELAXED_VERIFY] pos=0 relaxed_top_n=2 cur_p.size=0 cur_p.sorted=0 "
              "draft='a\\n\\r\\tb\\x1b[0m\\x7f'(id=0) target_sample='\xc3\xa4'(id=1) -> reject");
}

TEST(RelaxedLog, ControlTokensShowTheirText) {
    FakeVocab vocab(std::vector<std::string>{"<|end|>", "x"});
    vocab.control = {0};
    EXPECT_NE(format_relaxed_verify(0, 2, Draw(), 0, {}, vocab).find("draft='<|end|>'(id=0)"), std::string::npos);
}

TEST(RelaxedLog, TheEnvironmentSwitchesIt) {
    ::unsetenv("RELAXED_VERIFY_LOG");
    EXPECT_FALSE(relaxed_verify_log_enabled());
    ::setenv("RELAXED_VERIFY_LOG", "0", 1);
    EXPECT_FALSE(relaxed_verify_log_enabled());
    ::setenv("RELAXED_VERIFY_LOG", "", 1);
    EXPECT_FALSE(relaxed_verify_log_enabled());
    ::setenv("RELAXED_VERIFY_LOG", "1", 1);
    EXPECT_TRUE(relaxed_verify_log_enabled());
    ::unsetenv("RELAXED_VERIFY_LOG");
}

}  // namespace
}  // namespace foresay::spec
