// A limit on thinking: what it counts, when it closes, and that it draws nothing else then.
#include <gmock/gmock.h>

#include "sampling/test_rows.h"

namespace foresay::sampling {
namespace {

using Ids = std::vector<TokenId>;

/// Tokens: x, the marks as one token each, the closing mark in two, a message's, half of a character twice, the end
/// (8).
std::shared_ptr<vocab::FakeVocab> thinker() {
    auto vocab = std::make_shared<vocab::FakeVocab>(
        std::vector<std::string>{"x", "<t>", "</t>", "</", "t>", "!", "\xC3", "\xA4", "<end>"});
    vocab->eog = {8};
    vocab->control = {8};
    return vocab;
}

Params limited(int32_t tokens, bool starts_inside = true) {
    Params params = only({});
    params.reasoning = {tokens, "<t>", "</t>", "", starts_inside};
    return params;
}

/// What is drawn where the model always wants `wanted[i]`, then x.
Ids drawn(Sampler* sampler, const Ids& wanted, size_t n) {
    Ids ids;
    for (size_t i = 0; i < n; ++i) {
        std::vector<float> row(9, -100.0F);
        row[i < wanted.size() ? static_cast<size_t>(wanted[i]) : 0] = 0.0F;
        const TokenId id = sampler->draw(row, static_cast<int64_t>(i)).id;
        EXPECT_EQ(sampler->draw(row, static_cast<int64_t>(i)).id, id) << "a draw changes nothing";
        sampler->accept(id, true);
        ids.push_back(id);
    }
    return ids;
}

TEST(Budget, ThoughtsEndWhenTheyAreSpent) {
    for (int32_t n = 0; n < 4; ++n) {
        const auto sampler = make(limited(n), thinker());
        Ids expected(6, 0);
        expected[static_cast<size_t>(n)] = 2;
        EXPECT_EQ(drawn(sampler.get(), {}, 6), expected);
        sampler->reset();
        EXPECT_EQ(drawn(sampler.get(), {}, 6), expected);
    }
    EXPECT_EQ(drawn(make(limited(-1), thinker()).get(), {}, 6), Ids(6, 0));
}

TEST(Budget, OnlyThoughtsCount) {
    // Text, thoughts that end by themselves, text, then thoughts that have one token left.
    EXPECT_EQ(drawn(make(limited(3, false), thinker()).get(), {0, 0, 1, 0, 2, 0, 0, 1}, 11),
              (Ids{0, 0, 1, 0, 2, 0, 0, 1, 0, 2, 0}))
        << "the mark that the model wrote itself counts as one";
    EXPECT_EQ(drawn(make(limited(1, false), thinker()).get(), {}, 5), Ids(5, 0));
}

TEST(Budget, AMarkInTwoTokensAndACharacterInTwoAreNotCut) {
    EXPECT_EQ(drawn(make(limited(2), thinker()).get(), {0, 3, 4}, 5), (Ids{0, 3, 4, 0, 0}));
    EXPECT_EQ(drawn(make(limited(2), thinker()).get(), {0, 3, 0}, 5), (Ids{0, 3, 0, 2, 0})) << "it was none";
    EXPECT_EQ(drawn(make(limited(1), thinker()).get(), {6, 7}, 4), (Ids{6, 7, 2, 0}));
}

TEST(Budget, TheOneCandidateIsCertainAndAMessageComesFirst) {
    Params params = limited(1);
    params.reasoning.message = "!";
    params.logit_bias = {{2, -std::numeric_limits<float>::infinity()}};
    const auto sampler = make(params, thinker());
    EXPECT_EQ(drawn(sampler.get(), {}, 1), Ids{0});
    const std::vector<float> flat(9, 0.5F);
    const Draw draw = sampler->draw(flat, 1);
    EXPECT_EQ(draw.id, 5);
    ASSERT_EQ(draw.candidates.size(), 1U);
    EXPECT_EQ(draw.candidates[0].p, 1.0F);
    EXPECT_EQ(draw.candidates[0].p_rank, 1.0F);
    sampler->accept(5, true);
    EXPECT_EQ(drawn(sampler.get(), {}, 2), (Ids{2, 0}));
}

TEST(Budget, AGrammarHasTheLastWord) {
    Params params = limited(1);
    params.grammar = "root ::= \"x\"+";
    EXPECT_EQ(drawn(make(params, thinker()).get(), {}, 4), Ids(4, 0));
    params.grammar = "root ::= \"x\"* \"</t>\" \"!\" \"!\"";
    EXPECT_EQ(drawn(make(params, thinker()).get(), {}, 4), (Ids{0, 2, 5, 5}));
}

TEST(Budget, MarksAreNeeded) {
    Params params = limited(1);
    params.reasoning.close.clear();
    const auto sampler = Sampler::create(params, thinker());
    ASSERT_FALSE(sampler.has_value());
    EXPECT_EQ(sampler.error().where, "reasoning_budget_tokens");
}

}  // namespace
}  // namespace foresay::sampling
