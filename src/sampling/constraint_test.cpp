// Sampling under a grammar: the draw stays what it was while it is legal, and is the best legal one otherwise.
#include <gmock/gmock.h>

#include "grammar/grammar.h"
#include "sampling/test_rows.h"

namespace foresay::sampling {
namespace {

using testing::HasSubstr;

/// Tokens: a b c ab { } "1" and the end, which is number 7.
std::shared_ptr<vocab::FakeVocab> letters() {
    auto vocab =
        std::make_shared<vocab::FakeVocab>(std::vector<std::string>{"a", "b", "c", "ab", "{", "}", "1", "<end>"});
    vocab->eog = {7};
    vocab->control = {7};
    return vocab;
}

Params with_grammar(std::string grammar, std::vector<std::string> samplers = {}) {
    Params params = only(std::move(samplers));
    params.grammar = std::move(grammar);
    return params;
}

TEST(Constraint, ALegalDrawIsUntouched) {
    Params params = with_grammar("root ::= [a-c]*");
    const auto free = make(only({}), letters());
    const auto bound = make(params, letters());
    EXPECT_TRUE(bound->has_grammar());
    EXPECT_FALSE(free->has_grammar());
    const auto logits = row_of({0.2, 0.2, 0.2, 0.1, 0.01, 0.01, 0.01, 0.1});
    for (int64_t position = 0; position < 200; ++position) {
        const TokenId id = free->draw(logits, position).id;
        const TokenId got = bound->draw(logits, position).id;
        if (id <= 3 || id == 7) {
            EXPECT_EQ(got, id);
        } else {
            EXPECT_TRUE(got <= 3 || got == 7);
        }
    }
}

TEST(Constraint, TheBestLegalTokenUnderTheSameNoiseIsDrawn) {
    const auto bound = make(with_grammar("root ::= [ab] [a-c]*"), letters());
    const auto logits = row_of({0.05, 0.05, 0.4, 0.02, 0.2, 0.1, 0.1, 0.08});
    size_t n_refused = 0;
    for (int64_t position = 0; position < 200; ++position) {
        double best = -1e9;
        TokenId expected = vocab::kNoToken;
        for (const TokenId id : {0, 1, 3}) {
            const double score = static_cast<double>(logits[static_cast<size_t>(id)] + gumbel_noise(1, position, id));
            if (score > best) {
                best = score;
                expected = id;
            }
        }
        const Draw draw = bound->draw(logits, position);
        EXPECT_EQ(draw.id, expected);
        EXPECT_TRUE(bound->status().has_value());
        n_refused += draw.candidates.size() == 3 ? 1 : 0;
        EXPECT_EQ(bound->draw(logits, position).id, draw.id) << "a draw changes nothing";
    }
    EXPECT_GT(n_refused, 100U);
}

TEST(Constraint, TruncationKeepsTheBestLegalTokens) {
    Params params = with_grammar("root ::= \"ab\"", {"top_k"});
    params.top_k = 1;
    const auto sampler = make(params, letters());
    // The three best are forbidden: top-k 1 must not leave nothing.
    const auto logits = row_of({0.01, 0.2, 0.3, 0.02, 0.3, 0.1, 0.05, 0.02});
    EXPECT_EQ(sampler->draw(logits, 0).id, 3);
    sampler->accept(3, true);
    EXPECT_EQ(sampler->draw(logits, 1).id, 7) << "complete: only the end may follow";
    sampler->reset();
    EXPECT_EQ(sampler->draw(logits, 0).id, 3);
}

TEST(Constraint, PromptTokensDontMoveTheGrammar) {
    const auto sampler = make(with_grammar("root ::= \"ab\""), letters());
    sampler->accept(2, false);
    sampler->accept(7, false);
    const auto logits = row_of({0.1, 0.1, 0.5, 0.1, 0.1, 0.05, 0.02, 0.03});
    for (int64_t position = 0; position < 20; ++position) {
        const TokenId id = sampler->draw(logits, position).id;
        EXPECT_TRUE(id == 0 || id == 3) << id;
    }
}

TEST(Constraint, TheEndIsLegalOnlyWhereTheGrammarEnds) {
    const auto sampler = make(with_grammar("root ::= \"{\" \"1\" \"}\""), letters());
    const auto logits = row_of({0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.993});
    std::string text;
    for (int64_t position = 0; position < 4; ++position) {
        const TokenId id = sampler->draw(logits, position).id;
        text += letters()->piece(id, true);
        sampler->accept(id, true);
    }
    EXPECT_EQ(text, "{1}<end>");
}

TEST(Constraint, ACompleteGrammarEndsTheTextAlsoUnderIgnoreEos) {
    Params params = with_grammar("root ::= \"a\"");
    params.ignore_eos = true;
    const auto sampler = make(params, letters());
    const auto logits = row_of({0.5, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05});
    sampler->accept(0, true);
    EXPECT_EQ(sampler->draw(logits, 1).id, 7);
    EXPECT_TRUE(sampler->status().has_value());
}

TEST(Constraint, DeadEndsAreErrors) {
    const auto logits = row_of({0.5, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05});
    const auto stuck = make(with_grammar("root ::= \"xyz\""), letters());
    stuck->draw(logits, 0);
    ASSERT_FALSE(stuck->status().has_value());
    EXPECT_THAT(stuck->status().error().message, HasSubstr("no token of the vocabulary can follow"));
    Params params = with_grammar("root ::= \"c\" \"a\"");
    params.logit_bias = {{2, -kInf}};
    const auto banned = make(params, letters());
    banned->draw(logits, 0);
    ASSERT_FALSE(banned->status().has_value());
    EXPECT_THAT(banned->status().error().message, HasSubstr("banned by the request"));
}

TEST(Constraint, BadGrammarsAndTriggersAreRefused) {
    const auto message = [](const Params& params) {
        const auto made = Sampler::create(params, letters());
        return made.has_value() ? std::string() : made.error().message;
    };
    EXPECT_THAT(message(with_grammar("root = a")), HasSubstr("Failed to initialize samplers: failed to parse grammar: "
                                                             "line 1, column 6"));
    Params lazy = with_grammar("root ::= \"a\"");
    lazy.grammar_lazy = true;
    EXPECT_THAT(message(lazy), HasSubstr("at least one trigger"));
    lazy.grammar_triggers = {{grammar::Trigger::Kind::kWord, "ab", vocab::kNoToken}};
    EXPECT_EQ(message(lazy), "");
}

TEST(Constraint, ForbiddenCandidatesCanBeDropped) {
    const auto sampler = make(with_grammar("root ::= [abc]+"), letters());
    const auto logits = row_of({0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05});
    for (int64_t position = 0; position < 10; ++position) {
        Draw draw = sampler->draw(logits, position);
        sampler->drop_forbidden(&draw);
        double sum = 0.0;
        double sum_rank = 0.0;
        for (const Candidate& c : draw.candidates) {
            EXPECT_LE(c.id, 3);
            sum += static_cast<double>(c.p);
            sum_rank += static_cast<double>(c.p_rank);
        }
        EXPECT_EQ(draw.candidates.size(), 4U);
        EXPECT_NEAR(sum, 1.0, 1e-6);
        EXPECT_NEAR(sum_rank, 1.0, 1e-6);
    }
}

TEST(Constraint, ALazyGrammarLetsTextPass) {
    Params params = with_grammar("root ::= \"{\" \"1\" \"}\"");
    params.grammar_lazy = true;
    params.grammar_triggers = {{grammar::Trigger::Kind::kWord, "{", vocab::kNoToken}};
    const auto sampler = make(params, letters());
    const auto logits = row_of({0.9, 0.01, 0.01, 0.01, 0.01, 0.01, 0.04, 0.01});
    EXPECT_EQ(sampler->draw(logits, 0).candidates.size(), 8U);
    sampler->accept(2, true);
    sampler->accept(4, true);
    EXPECT_EQ(sampler->draw(logits, 2).id, 6);
    sampler->accept(6, true);
    EXPECT_EQ(sampler->draw(logits, 3).id, 5);
}

}  // namespace
}  // namespace foresay::sampling
