// What holds for every drafter without a model: drafts come from the slot's own present text, within the limits, the
// same on every slot, whatever requests, context shifts and rejects came before; memory stays bounded.
#include "spec/ngram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "spec/drafters/ngram_suffix.h"
#include "spec/drafters/ngram_trace.h"

namespace foresay::spec {
namespace {

constexpr int32_t kContext = 600;

const std::vector<SpecType> kTypes{SpecType::kNgramSimple, SpecType::kNgramMapK,  SpecType::kNgramMapK4v,
                                   SpecType::kNgramMod,    SpecType::kNgramCache, SpecType::kNgramSuffix};

NgramOptions small_options() {
    NgramOptions options;
    options.simple = options.map_k = options.map_k4v = {3, 6, 1};
    options.mod_n_match = 3;
    options.mod_n_min = 0;
    options.mod_n_max = 8;
    options.suffix_min_match = 2;
    options.suffix_max_depth = 16;
    options.suffix_max_nodes = 1 << 16;
    return options;
}

std::unique_ptr<Drafter> make(SpecType type, const NgramOptions& options = small_options()) {
    auto made = make_ngram(type, options, kContext, 1000);
    EXPECT_TRUE(made.has_value()) << made.error().to_string();
    return std::move(*made);
}

/// A text that repeats phrases with mistakes, of tokens in [first, first + 40).
Ids phrases(uint32_t seed, size_t n, TokenId first) {
    std::mt19937 random(seed);
    std::vector<Ids> units(6);
    for (Ids& unit : units) {
        for (size_t i = 0; i < 5 + random() % 10; ++i) {
            unit.push_back(first + static_cast<TokenId>(random() % 40));
        }
    }
    Ids text;
    while (text.size() < n) {
        for (const TokenId token : units[random() % units.size()]) {
            text.push_back(random() % 16 == 0 ? first + static_cast<TokenId>(random() % 40) : token);
        }
    }
    text.resize(n);
    return text;
}

using Steps = std::vector<std::pair<size_t, Ids>>;

Steps steps_of(Drafter& drafter, const Ids& text, int slot) {
    Steps steps;
    replay(
        drafter, text, 200, [&](size_t pos, const Ids& draft, size_t) { steps.emplace_back(pos, draft); }, slot);
    return steps;
}

TEST(Ngram, EveryTypeDraftsOnRepetitiveText) {
    const Ids text = phrases(1, 600, 0);
    for (const SpecType type : kTypes) {
        const auto drafter = make(type);
        EXPECT_EQ(drafter->name(), name_of(type));
        const TraceCount count = replay(*drafter, text, 200, [](size_t, const Ids&, size_t) {});
        EXPECT_GT(count.accepted, 50) << name_of(type);
        EXPECT_GT(drafter->memory_bytes(), 0U);
    }
}

TEST(Ngram, ASecondRequestIsDraftedAsOnAFreshServer) {
    const Ids first = phrases(1, 600, 0);
    const Ids second = phrases(2, 500, 20);
    for (const SpecType type : kTypes) {
        const auto fresh = make(type);
        const Steps expected = steps_of(*fresh, second, 0);
        const auto used = make(type);
        steps_of(*used, first, 0);
        EXPECT_EQ(steps_of(*used, second, 0), expected) << name_of(type) << ": state of an earlier request shows";
    }
}

TEST(Ngram, SlotsDontSeeEachOther) {
    const Ids mine = phrases(3, 500, 0);
    const Ids other = phrases(4, 500, 0);
    for (const SpecType type : kTypes) {
        const auto alone = make(type);
        const Steps expected = steps_of(*alone, mine, 0);
        const auto shared = make(type);
        steps_of(*shared, other, 0);
        EXPECT_EQ(steps_of(*shared, mine, 3), expected) << name_of(type) << ": slot 3 behind a busy slot 0";
    }
}

TEST(Ngram, TheSharedTableIsTheUsersChoice) {
    const Ids text = phrases(5, 400, 0);
    NgramOptions options = small_options();
    options.mod_shared = true;
    const auto drafter = make(SpecType::kNgramMod, options);
    steps_of(*drafter, text, 0);
    const Ids head(text.begin(), text.begin() + 20);
    drafter->begin(1, std::span(head).first(19));
    EXPECT_FALSE(propose_for(*drafter, head, 8, 1).empty()) << "another request's text is what was asked for";
}

// Random life: requests, drafts, rejects, context shifts, resets on several slots in any order, with honest and
// dishonest accept counts. Every draft must consist of tokens of the slot's present text and keep the limits.
TEST(Ngram, AnyLifeKeepsTheRules) {
    for (const SpecType type : kTypes) {
        std::mt19937 random(7);
        const auto drafter = make(type);
        std::vector<Ids> contexts(3, Ids{1, 2, 3});
        size_t n_drafts = 0;
        for (int round = 0; round < 4000; ++round) {
            const int slot = static_cast<int>(random() % 3);
            Ids& context = contexts[static_cast<size_t>(slot)];
            const auto what = random() % 40;
            if (what == 0) {
                // The tokens of another request: nothing of the old text may come back.
                context = phrases(random(), 2 + random() % 300, static_cast<TokenId>(40 * (random() % 20)));
                if (random() % 2 == 0) {
                    drafter->reset(slot);
                }
                drafter->begin(slot, std::span(context).first(context.size() - 1));
            } else if (what == 1 && context.size() > 20) {
                const auto keep = static_cast<int32_t>(random() % 8);
                const auto discard = static_cast<int32_t>(1 + random() % (context.size() / 2));
                context.erase(context.begin() + keep, context.begin() + keep + discard);
                drafter->shifted(slot, keep, discard);
            }
            const auto n_max = static_cast<int32_t>(random() % 12);
            const Ids draft = propose_for(*drafter, context, n_max, slot);
            ASSERT_LE(static_cast<int32_t>(draft.size()), n_max) << name_of(type);
            const std::set<TokenId> known(context.begin(), context.end());
            for (const TokenId token : draft) {
                ASSERT_TRUE(known.count(token) != 0) << name_of(type) << ": token " << token << " of another text";
            }
            n_drafts += draft.empty() ? 0 : 1;
            const size_t n_kept = draft.empty() ? 0 : random() % (draft.size() + 1);
            if (!draft.empty()) {
                drafter->accepted(slot, static_cast<int32_t>(draft.size()), static_cast<int32_t>(n_kept),
                                  random() % 4 != 0);
            }
            context.insert(context.end(), draft.begin(), draft.begin() + static_cast<ptrdiff_t>(n_kept));
            context.push_back(context[random() % context.size()]);
            if (context.size() > kContext) {
                context.erase(context.begin() + 4, context.begin() + 300);
                drafter->shifted(slot, 4, 296);
            }
        }
        EXPECT_GT(n_drafts, 100U) << name_of(type);
    }
}

TEST(Ngram, MemoryFollowsTheContextNotTheTime) {
    for (const SpecType type : kTypes) {
        const auto drafter = make(type);
        std::mt19937 random(11);
        Ids context = phrases(11, 300, 0);
        drafter->begin(0, context);
        size_t early = 0;
        for (int round = 0; round < 6000; ++round) {
            context.push_back(static_cast<TokenId>(random() % 900));
            propose_for(*drafter, context);
            if (context.size() >= kContext) {
                context.erase(context.begin() + 4, context.begin() + 300);
                drafter->shifted(0, 4, 296);
            }
            early = round == 2000 ? drafter->memory_bytes() : early;
        }
        EXPECT_LE(drafter->memory_bytes(), early + early / 5) << name_of(type);
    }
}

TEST(Ngram, BadSizesAreRefusedByTheirFlag) {
    const auto refused = [](SpecType type, void (*change)(NgramOptions&), const std::string& flag) {
        NgramOptions options;
        change(options);
        const auto made = make_ngram(type, options, kContext, 1000);
        ASSERT_FALSE(made.has_value()) << flag;
        EXPECT_EQ(made.error().where.substr(0, flag.size()), flag) << made.error().to_string();
    };
    refused(
        SpecType::kNgramSimple, [](NgramOptions& o) { o.simple.size_n = 0; }, "--spec-ngram-simple-size-n");
    refused(
        SpecType::kNgramMapK, [](NgramOptions& o) { o.map_k.size_m = 1025; }, "--spec-ngram-map-k-size-m");
    refused(
        SpecType::kNgramMapK4v, [](NgramOptions& o) { o.map_k4v.min_hits = 0; }, "--spec-ngram-map-k4v-min-hits");
    refused(
        SpecType::kNgramMod, [](NgramOptions& o) { o.mod_n_max = 16; }, "--spec-ngram-mod-n-min");
    refused(
        SpecType::kNgramMod, [](NgramOptions& o) { o.mod_n_match = 0; }, "--spec-ngram-mod-n-match");
    refused(
        SpecType::kNgramCache, [](NgramOptions& o) { o.lookup_static = "/nonexistent"; }, "--lookup-cache-static");
    refused(
        SpecType::kNgramSuffix, [](NgramOptions& o) { o.suffix_min_match = 64; }, "--spec-ngram-suffix-min-match");
}

TEST(SuffixTrie, CountsLikeTheDefinition) {
    const Ids text = phrases(21, 300, 0);
    SuffixTrie trie(6, 1 << 16);
    for (const TokenId token : text) {
        ASSERT_TRUE(trie.push(token));
    }
    for (size_t at = 0; at + 6 <= text.size(); at += 7) {
        for (size_t length = 1; length <= 6; ++length) {
            const Ids part(text.begin() + static_cast<ptrdiff_t>(at),
                           text.begin() + static_cast<ptrdiff_t>(at + length));
            int32_t n = 0;
            for (size_t i = 0; i + length <= text.size(); ++i) {
                n += std::equal(part.begin(), part.end(), text.begin() + static_cast<ptrdiff_t>(i)) ? 1 : 0;
            }
            const int32_t node = trie.find(part);
            ASSERT_GE(node, 0);
            ASSERT_EQ(trie.count(node), n);
        }
    }
    EXPECT_EQ(trie.find(Ids{999}), -1);
    const int32_t best = trie.best_child(0);
    for (const TokenId token : std::set<TokenId>(text.begin(), text.end())) {
        EXPECT_LE(std::count(text.begin(), text.end(), token), trie.count(best));
    }
}

TEST(SuffixTrie, ItsBudgetHolds) {
    SuffixTrie trie(8, 100);
    int n = 0;
    while (trie.push(n)) {
        ++n;
    }
    EXPECT_LE(trie.n_nodes(), 100U);
    EXPECT_GT(n, 8);
}

}  // namespace
}  // namespace foresay::spec
