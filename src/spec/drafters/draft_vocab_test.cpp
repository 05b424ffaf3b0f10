#include "spec/drafters/draft_vocab.h"

#include <gtest/gtest.h>

#include <vector>

#include "vocab/fake_vocab.h"

namespace foresay::spec {
namespace {

constexpr int32_t kVocab = 100000;
constexpr double kHalf = 0.5;  // the head's share: half of what a drafted token reads

std::vector<vocab::TokenId> text_of(size_t n, size_t n_rare, vocab::TokenId rare) {
    std::vector<vocab::TokenId> text(n, 100);
    std::fill(text.begin(), text.begin() + static_cast<ptrdiff_t>(n_rare), rare);
    return text;
}

TEST(DraftVocab, AUsualTextNeedsAPartAndOneOfRareIdsAll) {
    const vocab::FakeVocab vocab(kVocab);
    DraftVocab scored(kVocab, kHalf, 0);
    const int32_t unknown = scored.take(3);
    EXPECT_GT(unknown, 0) << "no text yet: the usual one";
    EXPECT_LT(unknown, kVocab / 2);

    scored.look_at(text_of(400, 0, 0), vocab);
    EXPECT_LE(scored.take(3), unknown) << "frequent ids alone";
    scored.look_at(text_of(400, 200, 90000), vocab);
    EXPECT_EQ(scored.take(3), 0) << "every other token has a high id";
    EXPECT_EQ(scored.n_ids(), 0);
    scored.look_at(text_of(400, 200, 45000), vocab);
    EXPECT_GT(scored.take(3), 45000) << "the level that holds them";
    EXPECT_EQ(scored.take(3), unknown) << "texts are forgotten";
}

TEST(DraftVocab, LongDraftsMissMore) {
    const vocab::FakeVocab vocab(kVocab);
    DraftVocab scored(kVocab, kHalf, 0);
    scored.look_at(text_of(400, 40, 45000), vocab);
    const int32_t of_short = scored.take(1);
    scored.look_at(text_of(400, 40, 45000), vocab);
    const int32_t of_long = scored.take(16);
    EXPECT_LT(of_short, 45000);
    EXPECT_GT(of_long, 45000);
}

TEST(DraftVocab, OneTextOfSeveralWidensThePassForAll) {
    const vocab::FakeVocab vocab(kVocab);
    DraftVocab scored(kVocab, kHalf, 0);
    scored.look_at(text_of(400, 0, 0), vocab);
    scored.look_at(text_of(400, 400, 99000), vocab);
    EXPECT_EQ(scored.take(3), 0);
}

TEST(DraftVocab, OnlyTheLastTokensCountAndControlTokensDont) {
    vocab::FakeVocab vocab(kVocab);
    vocab.control = {99999};
    DraftVocab scored(kVocab, kHalf, 0);
    scored.look_at(text_of(2000, 1000, 99000), vocab);
    EXPECT_GT(scored.take(3), 0) << "the rare ones are long past";
    scored.look_at(text_of(40, 30, 99999), vocab);
    EXPECT_GT(scored.take(3), 0);
}

TEST(DraftVocab, ACheapHeadAndASmallVocabularyAreScoredWhole) {
    const vocab::FakeVocab vocab(kVocab);
    DraftVocab cheap(kVocab, 0.001, 0);
    cheap.look_at(text_of(400, 10, 99000), vocab);
    EXPECT_EQ(cheap.take(3), 0) << "a thousandth saved isn't worth a token missed";
    DraftVocab small(8000, 0.9, 0);
    EXPECT_EQ(small.take(3), 0);
    EXPECT_EQ(DraftVocab().take(3), 0);
}

TEST(DraftVocab, AFixedCountIsKept) {
    const vocab::FakeVocab vocab(kVocab);
    DraftVocab fixed(kVocab, kHalf, 1234);
    fixed.look_at(text_of(400, 400, 99000), vocab);
    EXPECT_EQ(fixed.take(3), 1234);
    EXPECT_EQ(DraftVocab(kVocab, kHalf, kVocab + 5).take(3), 0) << "all";
    EXPECT_EQ(DraftVocab(5000, kHalf, 1234).take(3), 1234) << "of a small one too";
}

}  // namespace
}  // namespace foresay::spec
