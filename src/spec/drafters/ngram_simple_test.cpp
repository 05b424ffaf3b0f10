// ngram-simple against the reference engine's trace, against a search by the definition, and at its limits.
#include "spec/drafters/ngram_simple.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "spec/drafters/ngram_trace.h"

namespace foresay::spec {
namespace {

Ids propose(Drafter& drafter, std::span<const TokenId> tokens, int32_t n_max = 1024, int32_t n_min = 0) {
    DraftRequest request;
    request.tokens = tokens;
    request.n_max = n_max;
    request.n_min = n_min;
    std::vector<Draft> drafts;
    EXPECT_TRUE(drafter.propose({&request, 1}, drafts).has_value());
    EXPECT_EQ(drafts.size(), 1U);
    return drafts.at(0).tokens;
}

TEST(NgramSimple, EqualsTheReferencesTrace) {
    expect_reference_trace("ngram-simple", 2, [](const nlohmann::json& params) {
        return make_ngram_simple(params["size_n"].get<int32_t>(), params["size_m"].get<int32_t>());
    });
}

/// Section 11.1 word by word.
Ids by_definition(const Ids& tokens, int64_t n, int64_t m) {
    const auto N = static_cast<int64_t>(tokens.size()) - 1;
    if (N <= n + m + 1) {
        return {};
    }
    for (int64_t j = N - n - 1; j >= 1; --j) {
        if (!std::equal(tokens.begin() + j, tokens.begin() + j + n, tokens.end() - n)) {
            continue;
        }
        const int64_t c = std::min(m, N - (j + n));
        return c < n ? Ids() : Ids(tokens.begin() + j + n, tokens.begin() + j + n + c);
    }
    return {};
}

TEST(NgramSimple, EqualsTheDefinitionOnRandomTexts) {
    std::mt19937 generator(5);
    int n_drafts = 0;
    for (int round = 0; round < 3000; ++round) {
        Ids tokens(1 + generator() % 60);
        const uint32_t alphabet = 1 + generator() % 4;
        for (TokenId& token : tokens) {
            token = static_cast<TokenId>(generator() % alphabet);
        }
        const auto n = static_cast<int32_t>(1 + generator() % 5);
        const auto m = static_cast<int32_t>(1 + generator() % 9);
        const auto drafter = make_ngram_simple(n, m);
        const Ids expected = by_definition(tokens, n, m);
        ASSERT_EQ(propose(*drafter, tokens), expected) << "round " << round << " n " << n << " m " << m;
        n_drafts += expected.empty() ? 0 : 1;
    }
    EXPECT_GT(n_drafts, 500);
}

TEST(NgramSimple, ObeysTheRequestsLimits) {
    const auto drafter = make_ngram_simple(2, 4);
    const Ids tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2};
    EXPECT_EQ(propose(*drafter, tokens), (Ids{3, 4, 5, 6}));
    EXPECT_EQ(propose(*drafter, tokens, 3), (Ids{3, 4, 5}));
    EXPECT_EQ(propose(*drafter, tokens, 0), Ids());
    EXPECT_EQ(propose(*drafter, tokens, 3, 3), (Ids{3, 4, 5}));
    EXPECT_EQ(propose(*drafter, tokens, 3, 4), Ids()) << "shorter than n_min";
}

TEST(NgramSimple, ServesAllRequestsAndForgetsTheLastRound) {
    const auto drafter = make_ngram_simple(2, 3);
    const Ids repeats{0, 1, 2, 3, 4, 5, 6, 1, 2};
    const Ids fresh{0, 1, 2, 3, 4, 5, 6, 7, 8};
    std::vector<DraftRequest> requests(3);
    requests[0].tokens = fresh;
    requests[1].tokens = repeats;
    for (DraftRequest& request : requests) {
        request.n_max = 8;
    }
    std::vector<Draft> drafts(1, Draft{{42}, {}, -1});
    ASSERT_TRUE(drafter->propose(requests, drafts).has_value());
    ASSERT_EQ(drafts.size(), 3U);
    EXPECT_TRUE(drafts[0].tokens.empty()) << "an old draft must not stay";
    EXPECT_EQ(drafts[1].tokens, (Ids{3, 4, 5}));
    EXPECT_TRUE(drafts[2].tokens.empty()) << "an empty context";
}

TEST(NgramSimple, LongRepetitiveTextsTakeLinearTime) {
    // Nearly periodic: a search that compares n tokens at every place would do 2 * 10^9 comparisons here.
    Ids tokens(2000000, 1);
    for (size_t i = 500; i < tokens.size(); i += 1000) {
        tokens[i] = 2;
    }
    tokens[tokens.size() - 1000] = 3;
    const auto drafter = make_ngram_simple(1024, 8);
    EXPECT_TRUE(propose(*drafter, tokens).empty());
}

}  // namespace
}  // namespace foresay::spec
