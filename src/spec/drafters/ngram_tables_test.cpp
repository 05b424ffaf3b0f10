// ngram-map-k, ngram-map-k4v, ngram-mod and ngram-cache against the reference engine's traces and their definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "spec/drafters/ngram_cache.h"
#include "spec/drafters/ngram_map.h"
#include "spec/drafters/ngram_mod.h"
#include "spec/drafters/ngram_trace.h"

namespace foresay::spec {
namespace {

NgramOptions::Copy sizes(const nlohmann::json& params) {
    return {params["size_n"].get<int32_t>(), params["size_m"].get<int32_t>(), params["min_hits"].get<int32_t>()};
}

TEST(NgramMap, KEqualsTheReferencesTrace) {
    expect_reference_trace("ngram-map-k", 2, [](const nlohmann::json& params) {
        return std::make_unique<NgramMap>(NgramMap::Kind::kK, sizes(params), true);
    });
}

TEST(NgramMap, K4vEqualsTheReferencesTrace) {
    expect_reference_trace("ngram-map-k4v", 2, [](const nlohmann::json& params) {
        return std::make_unique<NgramMap>(NgramMap::Kind::kK4v, sizes(params), true);
    });
}

TEST(NgramMod, EqualsTheReferencesTrace) {
    for (const bool shared : {false, true}) {
        expect_reference_trace("ngram-mod", 2, [shared](const nlohmann::json& params) {
            return std::make_unique<NgramMod>(NgramMod::Options{params["n_match"].get<int32_t>(),
                                                                params["n_min"].get<int32_t>(),
                                                                params["n_max"].get<int32_t>(), shared, 512});
        });
    }
}

TEST(NgramCache, EqualsTheReferencesTrace) {
    expect_reference_trace("ngram-cache", 1, [](const nlohmann::json& /*params*/) {
        return std::make_unique<NgramCache>(NgramCache::Options{nullptr, nullptr, true});
    });
}

/// `n` tokens 0, 1, 2, ... modulo `period`, from `first`.
Ids counting(size_t n, TokenId period, TokenId first = 0) {
    Ids ids(n);
    for (size_t i = 0; i < n; ++i) {
        ids[i] = first + static_cast<TokenId>(i) % period;
    }
    return ids;
}

TEST(NgramMap, ALengthRecoversAfterAFailure) {
    NgramMap map(NgramMap::Kind::kK, {2, 4, 1}, false);
    const Ids text = counting(60, 7);
    map.begin(0, std::span(text).first(59));
    EXPECT_EQ(propose_for(map, text).size(), 4U);
    map.accepted(0, 4, 0, true);
    Ids longer = counting(67, 7);  // the same key again
    EXPECT_EQ(propose_for(map, longer).size(), 1U) << "short after a failure, but not silenced";
    map.accepted(0, 1, 1, true);
    longer = counting(74, 7);
    EXPECT_EQ(propose_for(map, longer).size(), 2U);
    map.accepted(0, 2, 2, false);
    longer = counting(81, 7);
    EXPECT_EQ(propose_for(map, longer).size(), 2U) << "another drafter's draft teaches nothing";
    map.accepted(0, 2, 2, true);
    longer = counting(88, 7);
    EXPECT_EQ(propose_for(map, longer).size(), 4U);
}

TEST(NgramMap, MinHitsDelaysDrafts) {
    for (const NgramMap::Kind kind : {NgramMap::Kind::kK, NgramMap::Kind::kK4v}) {
        NgramMap map(kind, {2, 4, 3}, false);
        for (size_t round = 0; round < 4; ++round) {
            EXPECT_EQ(propose_for(map, counting(60 + 7 * round, 7)).empty(), round < 2) << "round " << round;
        }
    }
}

TEST(NgramMap, K4vDraftsOnlyADominantContinuation) {
    // "1 2" is followed by 3 3 three times, then by 4 4; the newest occurrence is one of the rare ones.
    const Ids unit_a{1, 2, 3, 3, 9};
    const Ids unit_b{1, 2, 4, 4, 8};
    Ids text{0};
    for (const Ids& unit : {unit_a, unit_a, unit_a, unit_b}) {
        text.insert(text.end(), unit.begin(), unit.end());
    }
    text.insert(text.end(), {5, 6, 5, 7, 1, 2});
    NgramMap map(NgramMap::Kind::kK4v, {2, 2, 1}, false);
    EXPECT_EQ(propose_for(map, text), (Ids{3, 3})) << "the winner's own continuation";
    Ids even{0};
    for (const Ids& unit : {unit_a, unit_b}) {
        even.insert(even.end(), unit.begin(), unit.end());
    }
    even.insert(even.end(), {5, 6, 5, 7, 1, 2});
    NgramMap other(NgramMap::Kind::kK4v, {2, 2, 1}, false);
    EXPECT_EQ(propose_for(other, even), Ids{}) << "no continuation dominates";
}

TEST(NgramMod, DropsDraftsBelowItsLeast) {
    NgramMod::Options options{3, 10, 64, false, 512};
    Ids text = counting(40, 20);
    text.resize(38);
    text.insert(text.end(), {50, 51, 2, 3, 4});  // "2 3 4" goes on for 16 tokens, then "50 51" came once
    NgramMod mod(options);
    mod.begin(0, std::span(text).first(text.size() - 1));
    EXPECT_GE(propose_for(mod, text).size(), 10U);
    options.n_min = 60;
    NgramMod strict(options);
    strict.begin(0, std::span(text).first(text.size() - 1));
    EXPECT_TRUE(propose_for(strict, text).empty());
    EXPECT_EQ(propose_for(strict, text, 8).size(), 8U) << "a caller's smaller limit isn't a short draft";
}

TEST(NgramMod, AnUnseenNgramGivesNoDraftEvenInAFullTable) {
    NgramMod mod({2, 0, 8, false, 16});
    Ids text;
    uint32_t x = 1;
    for (int i = 0; i < 900; ++i) {
        x = x * 1664525U + 1013904223U;
        text.push_back(static_cast<TokenId>(x >> 12U));
    }
    mod.begin(0, text);
    for (TokenId id = 0; id < 2000; ++id) {
        Ids other = text;
        other.push_back(2000000 + id);
        EXPECT_TRUE(propose_for(mod, other).empty());
    }
}

TEST(NgramCache, TheFilesFillInAndWeigh) {
    auto dynamic = std::make_shared<NgramCounts>();
    (*dynamic)[{1, 2, -1, -1}] = {{7, 5}, {8, 1}};
    auto fixed = std::make_shared<NgramCounts>();
    (*fixed)[{7, 7, -1, -1}] = {{9, 3}};
    NgramCache cache({fixed, dynamic, false});
    EXPECT_EQ(propose_for(cache, Ids{5, 1, 2}), Ids{7}) << "5 of 6 is clear enough for the strict limits";
    NgramCache other({fixed, dynamic, false});
    EXPECT_EQ(propose_for(other, Ids{5, 7, 7}), Ids{9}) << "the static file alone";
    (*dynamic)[{1, 2, -1, -1}] = {{7, 2}, {8, 2}};
    NgramCache unclear({fixed, dynamic, false});
    EXPECT_EQ(propose_for(unclear, Ids{5, 1, 2}), Ids{});
}

TEST(NgramCache, LearnsAcrossRoundsOfOneToken) {
    NgramCache cache({});
    const Ids text = counting(30, 5);
    for (size_t n = 1; n < text.size(); ++n) {
        propose_for(cache, std::span(text).first(n));
    }
    EXPECT_EQ(propose_for(cache, text), (Ids{0, 1, 2, 3, 4, 0, 1, 2}));
}

std::vector<std::byte> bytes_of(const std::vector<int32_t>& values) {
    std::vector<std::byte> bytes;
    for (const int32_t value : values) {
        for (unsigned i = 0; i < 4; ++i) {
            bytes.push_back(static_cast<std::byte>((static_cast<uint32_t>(value) >> (8 * i)) & 0xFFU));
        }
    }
    return bytes;
}

TEST(LookupFile, ReadsWhatTheFormatSays) {
    const auto counts = parse_lookup(bytes_of({1, 2, -1, -1, 2, 7, 5, 8, 1, 3, -1, -1, -1, 1, 4, 9}), 100);
    ASSERT_TRUE(counts.has_value()) << counts.error().to_string();
    ASSERT_EQ(counts->size(), 2U);
    EXPECT_EQ(counts->at({1, 2, -1, -1})[1].count, 1);
    EXPECT_EQ(counts->at({3, -1, -1, -1})[0].token, 4);
    EXPECT_TRUE(parse_lookup({}, 100).value().empty());
}

TEST(LookupFile, RefusesHostileFilesWithTheirPlace) {
    const auto refused = [](const std::vector<int32_t>& values, size_t drop, const std::string& text) {
        auto bytes = bytes_of(values);
        bytes.resize(bytes.size() - drop);
        const auto counts = parse_lookup(bytes, 100);
        ASSERT_FALSE(counts.has_value()) << text;
        EXPECT_EQ(counts.error().code, Code::kBadFile);
        EXPECT_NE(counts.error().message.find(text), std::string::npos) << counts.error().message;
    };
    refused({1, 2, -1, -1, 1, 7, 5}, 1, "1 followers, but 7 bytes are left");
    refused({1, 2, -1, -1}, 0, "16 bytes are left, a record needs at least 20");
    refused({1, 2, -1, -1, 2147483647, 7, 5}, 0, "2147483647 followers");
    refused({1, 2, -1, -1, 0}, 0, "0 followers");
    refused({1, 2, -1, -1, -5, 1, 1}, 0, "-5 followers");
    refused({-1, 2, -1, -1, 1, 7, 5}, 0, "token -1 is outside the vocabulary of 100");
    refused({1, -1, 2, -1, 1, 7, 5}, 0, "a token stands behind padding");
    refused({1, 100, -1, -1, 1, 7, 5}, 0, "token 100 is outside");
    refused({1, 2, -1, -1, 1, 100, 5}, 0, "at byte 20: token 100");
    refused({1, 2, -1, -1, 1, 7, 0}, 0, "a count of 0");
    refused({1, 2, -1, -1, 1, 7, 5, 1, 2, -1, -1, 1, 7, 5}, 0, "a second time");
    EXPECT_EQ(read_lookup("/nonexistent/file", 100).error().code, Code::kIo);
    EXPECT_EQ(read_lookup("/tmp", 100).error().message, "not a regular file");
    const std::string path =
        (std::filesystem::temp_directory_path() / ("foresay-lookup-" + std::to_string(getpid()))).string();
    std::ofstream(path) << "not a cache";
    const auto counts = read_lookup(path, 100);
    std::filesystem::remove(path);
    ASSERT_FALSE(counts.has_value());
    EXPECT_NE(counts.error().to_string().find(path), std::string::npos);
}

}  // namespace
}  // namespace foresay::spec
