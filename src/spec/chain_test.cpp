// Several drafters as one: who is asked, whose draft stands, who hears what.
#include "spec/chain.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>

#include "spec/spec_type.h"

namespace foresay::spec {
namespace {

/// Drafts a fixed list per slot and writes down what it hears.
class Scripted final : public Drafter {
  public:
    Scripted(std::string name, std::map<int, std::vector<TokenId>> scripts)
        : name_(std::move(name)), scripts_(std::move(scripts)) {}

    std::string_view name() const override { return name_; }

    Status propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) override {
        if (fails) {
            return error(Code::kInternal, "no memory");
        }
        drafts.assign(requests.size(), Draft{});
        asked.clear();
        for (size_t i = 0; i < requests.size(); ++i) {
            asked.emplace_back(requests[i].slot, requests[i].n_max);
            probabilistic = requests[i].sampling.probabilistic;
            drafts[i].tokens = scripts_[requests[i].slot];
        }
        return ok();
    }

    void begin(int slot, std::span<const TokenId> prompt) override { begun.emplace_back(slot, prompt.size()); }

    void accepted(int slot, int32_t n_drafted, int32_t n_accepted, bool own) override {
        heard.push_back({slot, n_drafted, n_accepted, own ? 1 : 0});
    }

    void shifted(int slot, int32_t keep, int32_t discard) override { heard.push_back({slot, keep, discard, 2}); }

    void reset(int slot) override { heard.push_back({slot, 0, 0, 3}); }

    size_t memory_bytes() const override { return 100; }

    bool can_draw() const override { return draws; }

    bool draws_by_default() const override { return draws_unasked; }

    bool fails = false;
    bool draws = false;
    bool draws_unasked = false;
    bool probabilistic = false;  ///< what it was told last
    std::vector<std::pair<int, int32_t>> asked;
    std::vector<std::pair<int, size_t>> begun;
    std::vector<std::array<int, 4>> heard;

  private:
    std::string name_;
    std::map<int, std::vector<TokenId>> scripts_;
};

struct Pair {
    Pair() {
        auto a = std::make_unique<Scripted>("a", std::map<int, std::vector<TokenId>>{{0, {1, 2, 3}}});
        auto b = std::make_unique<Scripted>("b", std::map<int, std::vector<TokenId>>{{0, {9}}, {1, {7, 8}}});
        first = a.get();
        second = b.get();
        chain.add(std::move(a), 2, false);
        chain.add(std::move(b), 5, true);
    }

    std::vector<Draft> propose(int32_t n_max) {
        std::vector<DraftRequest> requests(3);
        for (int slot = 0; slot < 3; ++slot) {
            requests[static_cast<size_t>(slot)].slot = slot;
            requests[static_cast<size_t>(slot)].n_max = n_max;
        }
        std::vector<Draft> drafts;
        EXPECT_TRUE(chain.propose(requests, drafts).has_value());
        return drafts;
    }

    Chain chain;
    Scripted* first;
    Scripted* second;
};

using Asked = std::vector<std::pair<int, int32_t>>;

TEST(Chain, ALaterDrafterIsAskedOnlyWhereTheEarlierOnesGaveNothing) {
    Pair pair;
    EXPECT_EQ(pair.chain.name(), "a,b");
    EXPECT_EQ(pair.chain.n_max(), 5);
    const auto drafts = pair.propose(100);
    EXPECT_EQ(pair.first->asked, (Asked{{0, 2}, {1, 2}, {2, 2}})) << "its own n_max caps the caller's";
    EXPECT_EQ(pair.second->asked, (Asked{{1, 5}, {2, 5}}));
    EXPECT_EQ(drafts[0].tokens, (std::vector<TokenId>{1, 2})) << "cut to its n_max";
    EXPECT_EQ(drafts[0].drafter, 0);
    EXPECT_EQ(drafts[1].tokens, (std::vector<TokenId>{7, 8}));
    EXPECT_EQ(drafts[1].drafter, 1);
    EXPECT_TRUE(drafts[2].tokens.empty());
    EXPECT_EQ(drafts[2].drafter, -1);
}

TEST(Chain, TheCallersLimitHolds) {
    Pair pair;
    const auto drafts = pair.propose(1);
    EXPECT_EQ(drafts[0].tokens.size(), 1U);
    EXPECT_EQ(drafts[1].tokens.size(), 1U);
    const auto none = pair.propose(0);
    EXPECT_TRUE(none[0].tokens.empty() && none[1].tokens.empty());
}

TEST(Chain, EveryoneHearsAndTheOwnerIsToldApart) {
    Pair pair;
    pair.chain.begin(1, std::vector<TokenId>{4, 5, 6});
    EXPECT_EQ(pair.first->begun, (std::vector<std::pair<int, size_t>>{{1, 3}}));
    EXPECT_EQ(pair.second->begun, pair.first->begun);
    pair.propose(100);
    pair.chain.accepted(1, 2, 1, true);
    pair.chain.shifted(1, 4, 8);
    pair.chain.reset(1);
    using Heard = std::vector<std::array<int, 4>>;
    EXPECT_EQ(pair.first->heard, (Heard{{1, 2, 1, 0}, {1, 4, 8, 2}, {1, 0, 0, 3}}));
    EXPECT_EQ(pair.second->heard, (Heard{{1, 2, 1, 1}, {1, 4, 8, 2}, {1, 0, 0, 3}}));
    EXPECT_EQ(pair.chain.memory_bytes(), 200U);
}

TEST(Chain, ThePlannerRulesOnCostlyDraftersOnly) {
    Pair pair;
    pair.chain.set_planner([](int drafter, std::span<DraftRequest> requests) {
        EXPECT_EQ(drafter, 1);
        for (DraftRequest& request : requests) {
            request.n_max = request.slot == 1 ? 1 : 0;
        }
    });
    auto drafts = pair.propose(100);
    EXPECT_EQ(drafts[0].tokens.size(), 2U);
    EXPECT_EQ(drafts[1].tokens.size(), 1U);
    pair.chain.set_planner([](int, std::span<DraftRequest> requests) {
        for (DraftRequest& request : requests) {
            request.n_max = 0;
        }
    });
    const uint64_t calls = pair.chain.stats(1).calls;
    drafts = pair.propose(100);
    EXPECT_TRUE(drafts[1].tokens.empty());
    EXPECT_EQ(pair.chain.stats(1).calls, calls) << "not even asked";
}

TEST(Chain, CountsPerDrafter) {
    Pair pair;
    pair.propose(100);
    pair.chain.accepted(0, 2, 0, true);
    pair.chain.accepted(1, 2, 2, true);
    pair.propose(100);
    pair.chain.accepted(0, 2, 1, true);
    EXPECT_EQ(pair.chain.stats(0).calls, 2U);
    EXPECT_EQ(pair.chain.stats(0).drafts, 2U);
    EXPECT_EQ(pair.chain.stats(0).tokens, 4U);
    EXPECT_EQ(pair.chain.stats(0).acc_drafts, 1U);
    EXPECT_EQ(pair.chain.stats(0).acc_tokens, 1U);
    EXPECT_EQ(pair.chain.stats(1).acc_tokens, 2U);
}

TEST(Chain, AFailureLeavesNoDraft) {
    Pair pair;
    pair.second->fails = true;
    std::vector<DraftRequest> requests(2);
    requests[1].slot = 1;
    requests[0].n_max = requests[1].n_max = 4;
    std::vector<Draft> drafts;
    EXPECT_FALSE(pair.chain.propose(requests, drafts).has_value());
    ASSERT_EQ(drafts.size(), 2U);
    EXPECT_TRUE(drafts[0].tokens.empty());
}

TEST(SpecType, NamesAndOrder) {
    for (const std::string_view name : kSpecTypeNames) {
        ASSERT_TRUE(spec_type_of(name).has_value());
        EXPECT_EQ(name_of(*spec_type_of(name)), name);
    }
    EXPECT_FALSE(spec_type_of("ngram").has_value());
    const auto types = in_order(
        {SpecType::kDraftMtp, SpecType::kNgramCache, SpecType::kNone, SpecType::kNgramSimple, SpecType::kNgramCache});
    EXPECT_EQ(join_names(types), "ngram-simple,ngram-cache,draft-mtp");
    EXPECT_EQ(join_names({}), "none");
}

TEST(Chain, ADrafterDrawsIfItCanAndIsAskedOrDoesItUnasked) {
    for (const bool can : {false, true}) {
        for (const bool unasked : {false, true}) {
            for (const std::optional<bool> asked : {std::optional<bool>(), std::optional(false), std::optional(true)}) {
                auto drafter = std::make_unique<Scripted>("a", std::map<int, std::vector<TokenId>>{{0, {1}}});
                Scripted* raw = drafter.get();
                raw->draws = can;
                raw->draws_unasked = unasked;
                Chain chain;
                chain.add(std::move(drafter), 4, true);
                EXPECT_EQ(chain.can_draw(), can);
                DraftRequest request;
                request.n_max = 1;
                request.sampling.asked = asked;
                std::vector<Draft> drafts;
                ASSERT_TRUE(chain.propose(std::span(&request, 1), drafts).has_value());
                EXPECT_EQ(raw->probabilistic, can && asked.value_or(unasked));
            }
        }
    }
}

}  // namespace
}  // namespace foresay::spec
