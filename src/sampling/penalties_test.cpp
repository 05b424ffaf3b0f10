// Bias, penalties and DRY: what they do to single logits, on the row and on a list.
#include <cmath>

#include "sampling/dry.h"
#include "sampling/test_rows.h"

namespace foresay::sampling {
namespace {

using Ids = std::vector<TokenId>;

void feed(Sampler& sampler, const Ids& text) {
    for (const TokenId id : text) {
        sampler.accept(id, false);
    }
}

TEST(Penalties, FormulaForBothSigns) {
    Params params = only({"penalties"});
    params.repeat_penalty = 2.0F;
    params.frequency_penalty = 0.5F;
    params.presence_penalty = 0.25F;
    auto sampler = make(params, 5);
    feed(*sampler, {0, 1, 1, 3});
    const std::vector<float> logits{3.0F, -1.0F, 0.5F, 0.0F, 1.0F};
    const Draw draw = sampler->draw(logits, 0);
    ASSERT_EQ(draw.candidates.size(), 5U);
    EXPECT_FLOAT_EQ(draw.candidates[0].logit, 3.0F / 2.0F - 0.5F - 0.25F);
    EXPECT_FLOAT_EQ(draw.candidates[1].logit, -1.0F * 2.0F - 2 * 0.5F - 0.25F);
    EXPECT_FLOAT_EQ(draw.candidates[2].logit, 0.5F);
    EXPECT_FLOAT_EQ(draw.candidates[3].logit, 0.0F - 0.5F - 0.25F);
    EXPECT_FLOAT_EQ(draw.candidates[4].logit, 1.0F);
    EXPECT_EQ(logits[0], 3.0F) << "the caller's row must not change";
}

TEST(Penalties, OnlyTheWindowCounts) {
    Params params = only({"penalties"});
    params.presence_penalty = 1.0F;
    params.repeat_last_n = 2;
    auto sampler = make(params, 4);
    feed(*sampler, {0, 1, 2, 2});
    const std::vector<float> logits(4, 0.0F);
    const auto at = [&](int i) { return sampler->draw(logits, 0).candidates[static_cast<size_t>(i)].logit; };
    EXPECT_EQ(at(0), 0.0F);
    EXPECT_EQ(at(1), 0.0F);
    EXPECT_EQ(at(2), -1.0F);
    sampler->accept(3, true);
    EXPECT_EQ(at(2), -1.0F) << "one of the two is still inside";
    EXPECT_EQ(at(3), -1.0F);
    sampler->accept(0, true);
    EXPECT_EQ(at(2), 0.0F);
    sampler->reset();
    EXPECT_EQ(at(0), 0.0F);
    EXPECT_EQ(at(3), 0.0F);
}

TEST(Penalties, SameOnTheRowAndOnAList) {
    Params params = only({"penalties", "top_k"});
    params.repeat_penalty = 1.3F;
    params.frequency_penalty = 0.2F;
    params.top_k = 300;
    params.logit_bias = {{7, 1.5F}, {8, -kInf}, {100, -2.0F}};
    auto before = make(params, 300);
    params.samplers = {"top_k", "penalties", "top_k"};  // the list form: everything is sorted again at the end
    auto after = make(params, 300);
    const std::vector<float> logits = random_row(300, 1, 2.0F);
    for (TokenId id = 0; id < 60; ++id) {
        before->accept(id * 3 % 40, true);
        after->accept(id * 3 % 40, true);
    }
    const Draw a = before->draw(logits, 0);
    const Draw b = after->draw(logits, 0);
    EXPECT_EQ(ids(a), ids(b));
    EXPECT_EQ(a.candidates.size(), 299U);
    for (size_t i = 0; i < a.candidates.size(); ++i) {
        EXPECT_EQ(a.candidates[i].logit, b.candidates[i].logit);
    }
}

TEST(Penalties, OddIdsAreHarmless) {
    Params params = only({"penalties", "dry"});
    params.repeat_penalty = 1.3F;
    params.dry_multiplier = 1.0F;
    params.repeat_last_n = 3;
    auto sampler = make(params, 4);
    feed(*sampler, {-1, 4, 1000000, -1, -7, -1, 4, 1000000, -1});
    EXPECT_EQ(sampler->draw(std::vector<float>(4, 1.0F), 0).candidates.size(), 4U);
}

TEST(Bias, AddsAndBans) {
    auto vocab = std::make_shared<vocab::FakeVocab>(6);
    vocab->eog = {4};
    vocab->suppressed_tokens = {1};
    Params params = only({});
    params.logit_bias = {{0, 1.0F}, {0, 0.5F}, {2, -kInf}, {2, kInf}, {99, 1.0F}, {-1, 1.0F}};
    auto sampler = make(params, vocab);
    Draw draw = sampler->draw(std::vector<float>(6, 1.0F), 0);
    EXPECT_EQ(ids(draw), (Ids{0, 3, 4, 5}));
    EXPECT_EQ(draw.candidates[0].logit, 2.5F);
    EXPECT_TRUE(sampler->is_banned(1));
    EXPECT_TRUE(sampler->is_banned(2));
    EXPECT_FALSE(sampler->is_banned(0));
    EXPECT_FALSE(sampler->is_banned(4));
    params.ignore_eos = true;
    sampler = make(params, vocab);
    draw = sampler->draw(std::vector<float>(6, 1.0F), 0);
    EXPECT_EQ(ids(draw), (Ids{0, 3, 5}));
    EXPECT_TRUE(sampler->is_banned(4));
}

TEST(Dry, MatchLengthsOfTheSpecsExample) {
    Window window(64);
    for (const TokenId id : {1, 2, 3, 1, 2, 3, 1, 2}) {
        (void)window.push(id);
    }
    std::vector<int32_t> lengths;
    match_lengths(window, 8, 8, lengths);
    // The spec lists positions from the oldest: 0 2 0 0 5 0 0 0; distance k is position 7 - k.
    EXPECT_EQ(lengths, (std::vector<int32_t>{0, 0, 0, 5, 0, 0, 2, 0}));
    match_lengths(window, 8, 3, lengths);
    EXPECT_EQ(lengths, (std::vector<int32_t>{0, 0, 0, 3, 0, 0, 2, 0}));
}

TEST(Dry, MatchLengthsEqualTheNaiveOnes) {
    std::mt19937 generator(7);
    for (int round = 0; round < 200; ++round) {
        const auto n = static_cast<int32_t>(2 + generator() % 40);
        Window window(64);
        for (int32_t i = 0; i < n; ++i) {
            (void)window.push(static_cast<TokenId>(generator() % 2));
        }
        std::vector<int32_t> lengths;
        match_lengths(window, n, n, lengths);
        for (int32_t k = 1; k < n; ++k) {
            int32_t naive = 0;
            while (k + naive < n &&
                   window.back(static_cast<size_t>(naive)) == window.back(static_cast<size_t>(k + naive))) {
                ++naive;
            }
            ASSERT_EQ(lengths[static_cast<size_t>(k)], naive) << "round " << round << " k " << k;
        }
    }
}

Params dry_params() {
    Params params = only({"dry"});
    params.dry_multiplier = 0.8F;
    return params;
}

TEST(Dry, PunishesTheTokenThatWouldGoOn) {
    auto sampler = make(dry_params(), 6);
    feed(*sampler, {1, 2, 3, 1, 2, 3, 1, 2});
    const Draw draw = sampler->draw(std::vector<float>(6, 0.0F), 0);
    EXPECT_FLOAT_EQ(find(draw, 3)->logit, -0.8F * 5.359375F);
    EXPECT_EQ(find(draw, 1)->logit, 0.0F);
    EXPECT_EQ(find(draw, 2)->logit, 0.0F);
}

TEST(Dry, TheWindowBoundsTheMatch) {
    Params params = dry_params();
    params.dry_penalty_last_n = 6;  // 3 1 2 3 1 2: the match is 3 long
    auto sampler = make(params, 6);
    feed(*sampler, {1, 2, 3, 1, 2, 3, 1, 2});
    EXPECT_FLOAT_EQ(find(sampler->draw(std::vector<float>(6, 0.0F), 0), 3)->logit, -0.8F * 1.75F);
    params.dry_penalty_last_n = 2;  // not above the allowed length
    sampler = make(params, 6);
    feed(*sampler, {1, 1, 1, 1});
    EXPECT_EQ(find(sampler->draw(std::vector<float>(6, 0.0F), 0), 1)->logit, 0.0F);
}

TEST(Dry, ABreakerShortensTheMatchAndIsExempt) {
    // Token 3 ends a sequence: from the newest back, "1 2" stands in front of it: limit 2.
    auto vocab = std::make_shared<vocab::FakeVocab>(std::vector<std::string>{"t0", "t1", "t2", "x\n", "t4", "t5"});
    auto sampler = make(dry_params(), vocab);
    feed(*sampler, {1, 2, 3, 1, 2, 3, 1, 2});
    EXPECT_EQ(find(sampler->draw(std::vector<float>(6, 0.0F), 0), 3)->logit, 0.0F) << "exempt";
    // 4 1 2 5 | 3 | 1 2: the match "1 2" has length 2, its follower is punished with m * B^0.
    sampler = make(dry_params(), vocab);
    feed(*sampler, {3, 1, 2, 5, 3, 1, 2});
    EXPECT_FLOAT_EQ(find(sampler->draw(std::vector<float>(6, 0.0F), 0), 5)->logit, -0.8F);
    // Without the bound it would be 3 long ("3 1 2").
    Params params = dry_params();
    params.dry_sequence_breakers = {"nowhere"};
    sampler = make(params, vocab);
    feed(*sampler, {3, 1, 2, 5, 3, 1, 2});
    EXPECT_FLOAT_EQ(find(sampler->draw(std::vector<float>(6, 0.0F), 0), 5)->logit, -0.8F * 1.75F);
    // A breaker one step back leaves less than the allowed length: nothing happens.
    sampler = make(dry_params(), vocab);
    feed(*sampler, {1, 2, 1, 2, 3, 1});
    EXPECT_EQ(find(sampler->draw(std::vector<float>(6, 0.0F), 0), 2)->logit, 0.0F);
}

TEST(Dry, ABreakerMayReachOverTokens) {
    auto vocab =
        std::make_shared<vocab::FakeVocab>(std::vector<std::string>{"a", "b", "c", "x<", "e", "nd>", "<", "n"});
    const std::vector<std::string> texts{"<end>"};
    const Breakers breakers(texts, *vocab);
    Window window(64);
    for (const TokenId id : {0, 3, 4, 5, 0, 1}) {  // a x< e nd> a b
        (void)window.push(id);
    }
    EXPECT_EQ(breakers.limit(window, 6), 2) << "head at distance 4, tail of 2";
    EXPECT_FALSE(breakers.breaks_alone(3));
    window.clear();
    for (const TokenId id : {0, 3, 4, 7, 0, 1}) {  // the tail doesn't follow
        (void)window.push(id);
    }
    EXPECT_EQ(breakers.limit(window, 6), 6);
    window.clear();
    for (const TokenId id : {0, 1, 2, 3, 4}) {  // the tail isn't complete yet
        (void)window.push(id);
    }
    EXPECT_EQ(breakers.limit(window, 5), 5);
}

TEST(Dry, TheExponentIsCapped) {
    Params params = dry_params();
    params.dry_penalty_last_n = 1000;
    params.dry_multiplier = 1.0F;
    auto sampler = make(params, 3);
    for (int i = 0; i < 500; ++i) {
        sampler->accept(1, true);
    }
    // B = 1.75: at most 158, or the punishment would be infinite and ban the token.
    const Draw draw = sampler->draw(std::vector<float>(3, 0.0F), 0);
    ASSERT_NE(find(draw, 1), nullptr);
    EXPECT_NEAR(find(draw, 1)->logit / -std::pow(1.75, 158.0), 1.0, 1e-4);
}

}  // namespace
}  // namespace foresay::sampling
