// Typical acceptance, margins, budgets, the thinking span, and rejection sampling: what comes out follows the target's
// distribution, and the statistic that says so fails when the rule is broken on purpose.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "spec/acceptor.h"
#include "spec/verifier.h"
#include "vocab/fake_vocab.h"

namespace foresay::spec {
namespace {

using sampling::Candidate;
using sampling::Draw;
using vocab::FakeVocab;
using vocab::TokenId;

/// Ids 10, 11, ... with these probabilities, at T = 1 and after temperature alike.
struct Set {
    explicit Set(const std::vector<double>& p, size_t drawn = 0) {
        for (size_t i = 0; i < p.size(); ++i) {
            candidates.push_back(
                {static_cast<TokenId>(10 + i), 0.0F, static_cast<float>(p[i]), static_cast<float>(p[i])});
        }
        draw.id = static_cast<TokenId>(10 + drawn);
        draw.candidates = candidates;
        draw.sorted = true;
    }

    std::vector<Candidate> candidates;
    Draw draw;
};

TEST(RelaxedDelta, BoundsTheGap) {
    const FakeVocab vocab(100);
    const Set set({0.5, 0.3, 0.1, 0.1});
    const auto gap = static_cast<float>(std::log(0.5 / 0.3));
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 11, 4, vocab, gap + 0.01F).verdict, Verdict::kRelaxed);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 11, 4, vocab, gap - 0.01F).verdict, Verdict::kReject);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 12, 4, vocab, gap + 0.01F).verdict, Verdict::kReject);
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 12, 4, vocab).verdict, Verdict::kRelaxed) << "no margin";
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 12, 2, vocab, 100.0F).verdict, Verdict::kReject)
        << "the rank still counts";
    EXPECT_EQ(decide_relaxed_top_n(set.draw, 10, 4, vocab, 0.001F).verdict, Verdict::kExact);
}

TEST(Typical, FollowsItsFormula) {
    const FakeVocab vocab(100);
    const std::vector<double> p{0.55, 0.25, 0.1, 0.06, 0.04};
    const Set set(p);
    double entropy = 0.0;
    for (const double x : p) {
        entropy -= x * std::log(x);
    }
    for (const double epsilon : {0.02, 0.09, 0.3}) {
        for (const double delta : {0.1, 0.3, 0.9}) {
            const double threshold = std::min(epsilon, delta * std::exp(-entropy));
            for (size_t i = 1; i < p.size(); ++i) {
                const auto id = static_cast<TokenId>(10 + i);
                const Decision decision =
                    decide_typical(set.draw, id, static_cast<float>(epsilon), static_cast<float>(delta), vocab);
                EXPECT_EQ(decision.verdict == Verdict::kRelaxed, p[i] > threshold) << epsilon << " " << delta;
                EXPECT_EQ(decision.rank, static_cast<int32_t>(i));
                EXPECT_NEAR(decision.gap, std::log(p[0] / p[i]), 1e-5);
            }
        }
    }
    EXPECT_EQ(decide_typical(set.draw, 10, 0.09F, 0.3F, vocab).verdict, Verdict::kExact);
    EXPECT_EQ(decide_typical(set.draw, 99, 0.0F, 0.0F, vocab).verdict, Verdict::kReject);
}

TEST(Typical, GreedyIsExactAndEndTokensAreSafe) {
    FakeVocab vocab(100);
    vocab.eog = {11};
    Set greedy({0.5, 0.4, 0.1});
    for (Candidate& c : greedy.candidates) {
        c.p = c.id == 10 ? 1.0F : 0.0F;  // what temperature 0 leaves
    }
    EXPECT_EQ(decide_typical(greedy.draw, 12, 0.09F, 0.3F, vocab).verdict, Verdict::kReject);
    const Set flat({0.5, 0.4, 0.1});
    EXPECT_EQ(decide_typical(flat.draw, 11, 0.09F, 0.3F, vocab).verdict, Verdict::kReject);
    vocab.eog.clear();
    EXPECT_EQ(decide_typical(flat.draw, 11, 0.09F, 0.3F, vocab).verdict, Verdict::kRelaxed);
}

TEST(EffectiveRule, NeutralParametersAreStrict) {
    AcceptanceOptions o;
    EXPECT_EQ(effective_rule(o), Rule::kStrict);
    o.relaxed_top_n = 1;
    EXPECT_EQ(effective_rule(o), Rule::kStrict);
    o.relaxed_top_n = 3;
    EXPECT_EQ(effective_rule(o), Rule::kRelaxed);
    o.relaxed_delta = 0.0F;
    EXPECT_EQ(effective_rule(o), Rule::kStrict);
    o.relaxed_delta = 0.5F;
    o.relaxed_max_tokens = 0;
    EXPECT_EQ(effective_rule(o), Rule::kStrict);
    o.rule = Rule::kTypical;
    EXPECT_EQ(effective_rule(o), Rule::kStrict);
    o.relaxed_max_tokens = 1;
    EXPECT_EQ(effective_rule(o), Rule::kTypical);
    o.rule = Rule::kLossless;
    EXPECT_EQ(effective_rule(o), Rule::kLossless);
    o.rule = Rule::kStrict;
    EXPECT_EQ(effective_rule(o), Rule::kStrict);
    for (const std::string_view name : kRuleNames) {
        EXPECT_EQ(name_of(*rule_of(name)), name);
    }
    EXPECT_FALSE(rule_of("magic").has_value());
    EXPECT_EQ(scope_of("thinking"), Scope::kThinking);
}

/// Emits what decide() says; true when the drafted token stood by the relaxed rule.
bool take(Acceptor& acceptor, const Draw& draw, TokenId drafted) {
    const Decision decision = acceptor.decide(draw, drafted, {}, 1, 0);
    const bool stands = decision.verdict != Verdict::kReject;
    acceptor.emitted(stands ? drafted : draw.id, stands ? &decision : nullptr);
    return decision.verdict == Verdict::kRelaxed;
}

TEST(Budget, CountEndsIt) {
    AcceptanceOptions o;
    o.relaxed_top_n = 4;
    o.relaxed_max_tokens = 2;
    Acceptor acceptor(o, std::make_shared<FakeVocab>(100));
    const Set set({0.5, 0.3, 0.2});
    EXPECT_TRUE(take(acceptor, set.draw, 11));
    EXPECT_FALSE(take(acceptor, set.draw, 10)) << "exact: costs nothing";
    EXPECT_TRUE(take(acceptor, set.draw, 12));
    for (int i = 0; i < 5; ++i) {
        EXPECT_FALSE(take(acceptor, set.draw, 11));
    }
    EXPECT_EQ(acceptor.n_relaxed(), 2);
    EXPECT_EQ(acceptor.decide(set.draw, 10, {}, 1, 0).verdict, Verdict::kExact);
}

TEST(Budget, SummedGapEndsIt) {
    AcceptanceOptions o;
    o.relaxed_top_n = 4;
    o.relaxed_max_gap = 1.3F;
    Acceptor acceptor(o, std::make_shared<FakeVocab>(100));
    const Set set({0.5, 0.3, 0.1});
    const double near = std::log(0.5 / 0.3);
    EXPECT_FALSE(take(acceptor, set.draw, 12)) << "ln 5 alone is above the budget";
    EXPECT_TRUE(take(acceptor, set.draw, 11));
    EXPECT_TRUE(take(acceptor, set.draw, 11));
    EXPECT_FALSE(take(acceptor, set.draw, 11)) << "a third would be above it";
    EXPECT_NEAR(acceptor.gap(), 2.0 * near, 1e-6);
}

TEST(Scope, OnlyBetweenTheMarksAndNeverAtThem) {
    auto vocab = std::make_shared<FakeVocab>(20);
    vocab->tokens[1] = "<think>";
    vocab->tokens[2] = "</think>";
    vocab->tokens[3] = "</";
    vocab->tokens[4] = "think>";
    vocab->tokens[5] = "x < y";
    AcceptanceOptions o;
    o.relaxed_top_n = 9;
    o.relaxed_scope = Scope::kThinking;
    const Set set({0.5, 0.3, 0.2});
    const auto relaxes = [&](const Acceptor& acceptor, TokenId drafted) {
        Set with = set;
        with.candidates[1].id = drafted;
        with.draw.candidates = with.candidates;
        return acceptor.decide(with.draw, drafted, {}, 1, 0).verdict == Verdict::kRelaxed;
    };
    Acceptor acceptor(o, vocab);
    EXPECT_FALSE(relaxes(acceptor, 11)) << "the answer";
    acceptor.start(std::vector<TokenId>{7, 1, 8});  // the template opened the span
    EXPECT_TRUE(relaxes(acceptor, 11));
    EXPECT_TRUE(relaxes(acceptor, 5)) << "a sign inside a token is no mark";
    EXPECT_FALSE(relaxes(acceptor, 2)) << "the mark itself";
    EXPECT_FALSE(relaxes(acceptor, 3)) << "what may begin the mark";
    acceptor.emitted(3, nullptr);
    EXPECT_FALSE(relaxes(acceptor, 11)) << "a mark is under way";
    acceptor.emitted(7, nullptr);
    EXPECT_TRUE(relaxes(acceptor, 11)) << "it was none";
    acceptor.emitted(3, nullptr);
    acceptor.emitted(4, nullptr);
    EXPECT_FALSE(relaxes(acceptor, 11)) << "the answer again";
    acceptor.emitted(1, nullptr);
    EXPECT_TRUE(relaxes(acceptor, 11));
    acceptor.emitted(2, nullptr);
    EXPECT_FALSE(relaxes(acceptor, 11));
}

// ---- Rejection sampling ----

using Law = std::vector<double>;  // by id, summing to 1

constexpr int kDraws = 40000;
constexpr double kCritical = 45.0;  // chi-squared of at most 7 degrees of freedom: p = 1e-7

double chi_squared(const std::vector<int>& counts, const Law& law) {
    double sum = 0.0;
    int total = 0;
    for (const int n : counts) {
        total += n;
    }
    for (size_t i = 0; i < law.size(); ++i) {
        const double expected = law[i] * total;
        if (expected == 0.0) {
            if (counts[i] > 0) {
                return 1e9;
            }
            continue;
        }
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return sum;
}

size_t sample(const Law& law, std::mt19937& random) {
    double u = std::uniform_real_distribution<double>(0.0, 1.0)(random);
    for (size_t i = 0; i < law.size(); ++i) {
        u -= law[i];
        if (u < 0.0) {
            return i;
        }
    }
    return law.size() - 1;
}

using RuleUnderTest =
    std::function<Decision(const Draw& draw, TokenId drafted, const std::vector<DraftProb>& q, uint32_t seed)>;

/// Emits kDraws tokens under the rule, drafts drawn from q; the statistic against p. accepted: share of drafts.
double statistic(const Law& p, const Law& q, const RuleUnderTest& rule, double* accepted = nullptr) {
    std::mt19937 random(11);
    std::vector<DraftProb> q_list;
    for (size_t i = 0; i < q.size(); ++i) {
        if (q[i] > 0.0) {
            q_list.push_back({static_cast<TokenId>(10 + i), static_cast<float>(q[i])});
        }
    }
    std::vector<int> counts(p.size());
    int n_accepted = 0;
    for (int i = 0; i < kDraws; ++i) {
        const Set set(p, sample(p, random));
        const auto drafted = static_cast<TokenId>(10 + sample(q, random));
        const Decision decision = rule(set.draw, drafted, q_list, static_cast<uint32_t>(i));
        const bool stands = decision.verdict != Verdict::kReject;
        n_accepted += stands ? 1 : 0;
        ++counts[static_cast<size_t>((stands ? drafted : decision.instead) - 10)];
    }
    if (accepted != nullptr) {
        *accepted = static_cast<double>(n_accepted) / kDraws;
    }
    return chi_squared(counts, p);
}

const Law kP{0.40, 0.25, 0.15, 0.10, 0.05, 0.03, 0.02, 0.0};
const Law kFlat{0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125};
const Law kOther{0.05, 0.05, 0.3, 0.3, 0.1, 0.1, 0.1, 0.0};
const Law kDisjoint{0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0};

Decision the_rule(const Draw& draw, TokenId drafted, const std::vector<DraftProb>& q, uint32_t seed) {
    return decide_lossless(draw, drafted, q, seed, 5);
}

TEST(Lossless, TheOutputFollowsTheTarget) {
    for (const Law& q : {kP, kFlat, kOther, kDisjoint}) {
        double accepted = 0.0;
        const double chi = statistic(kP, q, the_rule, &accepted);
        double overlap = 0.0;
        for (size_t i = 0; i < kP.size(); ++i) {
            overlap += std::min(kP[i], q[i]);
        }
        EXPECT_LT(chi, kCritical);
        EXPECT_NEAR(accepted, overlap, 4.0 * std::sqrt(0.25 / kDraws)) << "accepts the sum of min(p, q)";
        std::printf("chi-squared %.1f (critical %.0f), accepted %.3f of %.3f\n", chi, kCritical, accepted, overlap);
    }
}

TEST(Lossless, NoQMeansNoChoiceAndIsExactHoweverTheTokenCame) {
    const double chi =
        statistic(kP, kOther, [](const Draw& draw, TokenId drafted, const std::vector<DraftProb>&, uint32_t seed) {
            return decide_lossless(draw, drafted, {}, seed, 5);
        });
    EXPECT_LT(chi, kCritical);
}

TEST(Lossless, AGreedyDrafterTooWhereQIsOne) {
    for (const size_t drafted : {0U, 1U, 4U, 7U}) {
        Law q(kP.size(), 0.0);
        q[drafted] = 1.0;
        double accepted = 0.0;
        const double chi = statistic(
            kP, q,
            [](const Draw& draw, TokenId id, const std::vector<DraftProb>&, uint32_t seed) {
                return decide_lossless(draw, id, {}, seed, 5);
            },
            &accepted);
        EXPECT_LT(chi, kCritical);
        EXPECT_NEAR(accepted, kP[drafted], 0.01);
    }
}

// The same statistic must see a broken rule, or the tests above show nothing.
TEST(Lossless, TheStatisticSeesABrokenRule) {
    EXPECT_GT(statistic(kP, kOther,
                        [](const Draw& draw, TokenId drafted, const std::vector<DraftProb>& q, uint32_t seed) {
                            Decision decision = the_rule(draw, drafted, q, seed);
                            decision.instead = draw.id;  // a reject draws from p instead of from what is left of it
                            return decision;
                        }),
              2.0 * kCritical);
    EXPECT_GT(statistic(kP, kOther,
                        [](const Draw& draw, TokenId drafted, const std::vector<DraftProb>& q, uint32_t seed) {
                            std::vector<DraftProb> flat = q;  // q isn't what the token was drawn from
                            for (DraftProb& entry : flat) {
                                entry.p = 1.0F / static_cast<float>(flat.size());
                            }
                            return decide_lossless(draw, drafted, flat, seed, 5);
                        }),
              2.0 * kCritical);
    EXPECT_GT(statistic(kP, kOther,
                        [](const Draw& draw, TokenId drafted, const std::vector<DraftProb>& q, uint32_t seed) {
                            Decision decision = the_rule(draw, drafted, q, seed);
                            if (drafted == 12) {
                                decision.verdict = Verdict::kExact;  // one token is always let through
                            }
                            return decision;
                        }),
              2.0 * kCritical);
}

// Through the verifier, with real draws: the first token, the second after an accept, and the one behind all drafts.
TEST(Lossless, HoldsThroughTheVerifier) {
    auto vocab = std::make_shared<FakeVocab>(8);
    const std::vector<float> logits_a{2.0F, 1.5F, 1.0F, 0.5F, 0.0F, -1.0F, -1.5F, -3.0F};
    const std::vector<float> logits_b{0.0F, 0.2F, 0.4F, 1.6F, 0.8F, 0.1F, -0.5F, 1.0F};
    const auto softmax = [](const std::vector<float>& logits) {
        Law law;
        double sum = 0.0;
        for (const float logit : logits) {
            law.push_back(std::exp(static_cast<double>(logit)));
            sum += law.back();
        }
        for (double& x : law) {
            x /= sum;
        }
        return law;
    };
    const Law p[2] = {softmax(logits_a), softmax(logits_b)};
    const Law q = kFlat;
    std::vector<DraftProb> q_list;
    for (size_t i = 0; i < q.size(); ++i) {
        q_list.push_back({static_cast<TokenId>(i), static_cast<float>(q[i])});
    }
    AcceptanceOptions options;
    options.rule = Rule::kLossless;
    std::vector<std::vector<int>> counts(3, std::vector<int>(8));
    std::mt19937 random(3);
    const std::vector<std::span<const float>> rows{logits_a, logits_b, logits_a};
    for (int i = 0; i < kDraws; ++i) {
        sampling::Params params;
        params.seed = static_cast<uint32_t>(i);
        params.temperature = 1.0F;
        params.samplers = {"temperature"};
        auto sampler = sampling::Sampler::create(params, vocab);
        ASSERT_TRUE(sampler.has_value());
        Acceptor acceptor(options, vocab);
        Draft draft;
        for (int k = 0; k < 2; ++k) {
            draft.tokens.push_back(static_cast<TokenId>(sample(q, random)));
            draft.q.push_back(q_list);
        }
        VerifyResult result;
        verify(
            **sampler, *vocab, rows, draft, 0, acceptor, [](auto, const auto&, const auto&) {}, result);
        for (size_t k = 0; k < result.tokens.size(); ++k) {
            ++counts[k][static_cast<size_t>(result.tokens[k].id)];
        }
        ASSERT_EQ(result.n_rejected, result.n_accepted == 2 ? 0 : 1);
        ASSERT_EQ(result.tokens.size(), static_cast<size_t>(result.n_accepted) + 1);
    }
    EXPECT_LT(chi_squared(counts[0], p[0]), kCritical);
    EXPECT_LT(chi_squared(counts[1], p[1]), kCritical);
    EXPECT_LT(chi_squared(counts[2], p[0]), kCritical);
}

TEST(Lossless, IsReproducible) {
    const Set set(kP);
    for (uint32_t seed = 0; seed < 200; ++seed) {
        const Decision a = decide_lossless(set.draw, 13, {}, seed, 9);
        const Decision b = decide_lossless(set.draw, 13, {}, seed, 9);
        EXPECT_EQ(a.verdict, b.verdict);
        EXPECT_EQ(a.instead, b.instead);
        EXPECT_NE(a.instead, 13) << "a rejected token isn't drawn again";
    }
}

}  // namespace
}  // namespace foresay::spec
