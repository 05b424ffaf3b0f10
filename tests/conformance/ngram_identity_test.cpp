// Every drafter without a model, alone and chained, on a tiny target: strict acceptance gives the text, ids and
// log-probabilities of plain decoding; with several slots, prompt reuse and context shifts; drafts come from the
// request's own text.
#include <algorithm>
#include <fstream>
#include <utility>

#include "base/test_paths.h"
#include "tests/conformance/engine_harness.h"

namespace foresay::test {
namespace {

using engine::SpecType;

const std::vector<SpecType> kNgramTypes{SpecType::kNgramSimple, SpecType::kNgramMapK,  SpecType::kNgramMapK4v,
                                        SpecType::kNgramMod,    SpecType::kNgramCache, SpecType::kNgramSuffix};

class NgramIdentity : public testing::Test {
  protected:
    void SetUp() override {
        path_ = shared_path("goldens/synthetic/pair-llama-target.gguf");
        if (!std::ifstream(path_).good()) {
            GTEST_SKIP() << "no goldens at " << path_;
        }
    }

    engine::EngineOptions options(std::vector<SpecType> types, int32_t n_parallel = 1) const {
        engine::EngineOptions options;
        options.model = path_;
        options.n_ctx = 256 * n_parallel;
        options.n_parallel = n_parallel;
        options.n_threads = 1;  // nothing to share out in so small a model
        options.context_shift = true;
        options.spec.types = std::move(types);
        options.spec.ngram.simple = options.spec.ngram.map_k = options.spec.ngram.map_k4v = {3, 6, 1};
        options.spec.ngram.mod_n_match = 3;
        options.spec.ngram.mod_n_min = 0;
        options.spec.ngram.mod_n_max = 8;
        options.spec.ngram.suffix_min_match = 2;
        if (!options.spec.types.empty() && options.spec.types.back() == SpecType::kDraftSimple) {
            options.spec.draft_model = path_;
        }
        return options;
    }

    /// A sentence over and over with a drift, so that drafts come, stand and fall.
    static engine::Request request(int32_t salt, float temperature, int32_t n_predict = 90) {
        engine::Request request;
        for (int32_t i = 0; i < 190; ++i) {
            request.prompt.push_back(97 + (i % 11 * 5 + salt + i / 50) % 26);
        }
        request.n_predict = n_predict;
        request.n_keep = 8;
        request.sampling.temperature = temperature;
        request.sampling.seed = 3;
        request.sampling.ignore_eos = true;
        request.n_probs = 1;
        return request;
    }

    std::string path_;
};

TEST_F(NgramIdentity, StrictEqualsPlainWithEachTypeAndInChains) {
    std::vector<std::vector<SpecType>> sets;
    for (const SpecType type : kNgramTypes) {
        sets.push_back({type});
    }
    sets.push_back(kNgramTypes);
    sets.push_back({SpecType::kNgramMod, SpecType::kNgramSimple, SpecType::kDraftSimple});
    const auto plain_engine = make_engine(options({}));
    std::vector<std::shared_ptr<Collector>> plain;
    for (const float temperature : {0.0F, 0.9F}) {
        plain.push_back(generate(*plain_engine, request(1, temperature)));
        EXPECT_EQ(plain.back()->text().ids.size(), 90U);
        EXPECT_TRUE(plain.back()->result().truncated) << "the context should have shifted";
    }
    for (const auto& types : sets) {
        const auto engine = make_engine(options(types));
        const std::string name = engine->info().spec_types;
        for (int round = 0; round < 2; ++round) {  // the second time the prompt is in the cache
            for (size_t i = 0; i < plain.size(); ++i) {
                const auto got = generate(*engine, request(1, i == 0 ? 0.0F : 0.9F));
                EXPECT_EQ(got->text(), plain[i]->text()) << name << ", round " << round;
                EXPECT_GT(got->result().timings.draft_n, 0) << name;
                EXPECT_LE(got->result().timings.draft_n_accepted, got->result().timings.draft_n);
                EXPECT_EQ(got->result().timings.draft_n_relaxed, 0);
            }
        }
    }
}

TEST_F(NgramIdentity, ThreeSlotsAtOnceEqualOneAlone) {
    std::vector<Text> plain;
    const auto plain_engine = make_engine(options({}));
    for (int32_t i = 0; i < 3; ++i) {
        plain.push_back(generate(*plain_engine, request(i * 7, 0.0F, 50))->text());
    }
    for (const SpecType type : kNgramTypes) {
        const auto engine = make_engine(options({type}, 3));
        std::vector<std::shared_ptr<Collector>> sinks;
        for (int32_t i = 0; i < 3; ++i) {
            auto r = request(i * 7, 0.0F, 50);
            r.id_slot = 2 - i;
            sinks.push_back(submit(*engine, r));
        }
        for (size_t i = 0; i < sinks.size(); ++i) {
            sinks[i]->wait();
            EXPECT_EQ(sinks[i]->text(), plain[i]) << engine->info().spec_types;
        }
    }
}

TEST_F(NgramIdentity, AcceptanceDependsNeitherOnTheSlotNorOnEarlierRequests) {
    for (const SpecType type : kNgramTypes) {
        const auto engine = make_engine(options({type}, 3));
        std::vector<std::pair<int32_t, int32_t>> counts;
        for (const int slot : {1, 0, 2, 1}) {
            auto other = request(13, 0.0F, 20);
            other.id_slot = slot;
            other.cache_prompt = false;
            generate(*engine, other);
            auto r = request(1, 0.0F, 40);
            r.id_slot = slot;
            const auto got = generate(*engine, r);
            counts.emplace_back(got->result().timings.draft_n, got->result().timings.draft_n_accepted);
        }
        for (const auto& count : counts) {
            EXPECT_EQ(count, counts.front()) << engine->info().spec_types;
        }
    }
}

// cases.md A8: shifts in the middle of a text leave no position behind that is no more: all tokens come, drafts too.
TEST_F(NgramIdentity, DraftsGoOnBehindContextShifts) {
    std::vector<engine::EngineOptions> all;
    for (const SpecType type : kNgramTypes) {
        all.push_back(options({type}));
    }
    all.push_back(options({SpecType::kDraftSimple}));
    for (const int32_t n_keep : {0, 16}) {
        auto r = request(1, 0.0F, 600);
        r.n_keep = n_keep;
        const Text plain = generate(*make_engine(options({})), r)->text();
        for (const auto& o : all) {
            const auto engine = make_engine(o);
            const auto got = generate(*engine, r);
            // 190 + 600 tokens in 256 cells, each shift frees about half of them: there are several.
            EXPECT_EQ(got->text(), plain) << engine->info().spec_types << ", n_keep " << n_keep;
            EXPECT_EQ(got->text().ids.size(), 600U);
            const auto& kinds = got->kinds();
            EXPECT_GT(std::count(kinds.end() - 200, kinds.end(), engine::TokenKind::kExact), 0)
                << engine->info().spec_types << ", n_keep " << n_keep << ": nothing drafted in the last 200 tokens";
            EXPECT_EQ(generate(*engine, request(5, 0.0F, 8))->text().ids.size(), 8U);
        }
    }
}

// cases.md A9: a long request, a shorter one, the long one again and again: each is drafted as on a fresh server, with
// the prompt reused or not, so nothing is replayed from an earlier request.
TEST_F(NgramIdentity, RequestsAreDraftedAsOnAFreshServer) {
    const auto shorter = [this](bool cached) {
        auto r = request(9, 0.0F, 40);
        r.prompt.resize(90);
        r.cache_prompt = cached;
        return r;
    };
    const auto counts = [](engine::Engine& engine, const engine::Request& r) {
        const auto got = generate(engine, r);
        return std::pair(got->result().timings.draft_n, got->result().timings.draft_n_accepted);
    };
    for (const SpecType type : kNgramTypes) {
        for (const bool cached : {false, true}) {
            auto longer = request(1, 0.0F);
            longer.cache_prompt = cached;
            const auto expected = counts(*make_engine(options({type})), shorter(cached));
            const auto engine = make_engine(options({type}));
            const auto first = counts(*engine, longer);
            EXPECT_GT(first.first, 0) << engine->info().spec_types;
            EXPECT_EQ(counts(*engine, shorter(cached)), expected) << engine->info().spec_types << ", second request";
            for (int round = 0; round < 5; ++round) {
                EXPECT_EQ(counts(*engine, longer), first) << engine->info().spec_types << ", round " << round;
            }
        }
    }
}

TEST_F(NgramIdentity, TheirLengthsAreTheirOwnAndARequestMayLowerThem) {
    auto o = options({SpecType::kNgramSimple});
    o.spec.n_max = 1;  // of draft models: n-gram types ignore it
    const auto engine = make_engine(o);
    EXPECT_EQ(engine->info().spec_n_max, 6);
    const auto most = generate(*engine, request(1, 0.0F));
    EXPECT_EQ(most->result().spec.n_max, 6);
    EXPECT_GT(most->result().timings.draft_n, most->result().timings.verify_steps) << "longer than one token";
    auto r = request(1, 0.0F);
    r.spec.n_max = 1;
    const auto one = generate(*engine, r);
    EXPECT_EQ(one->result().timings.draft_n, one->result().timings.verify_steps);
    r.spec.n_max = 1000;
    EXPECT_EQ(generate(*engine, r)->result().spec.n_max, 6);
    r.spec.n_max = 0;
    EXPECT_EQ(generate(*engine, r)->result().timings.draft_n, 0);
}

TEST_F(NgramIdentity, WhatCantWorkIsRefusedByName) {
    const auto refused = [](const engine::EngineOptions& bad, const std::string& part) {
        const auto made = engine::Engine::create(bad);
        ASSERT_FALSE(made.has_value()) << part;
        EXPECT_NE(made.error().to_string().find(part), std::string::npos) << made.error().to_string();
    };
    auto o = options({SpecType::kNgramCache});
    o.spec.ngram.lookup_dynamic = path_;  // a model is no lookup cache
    refused(o, "--lookup-cache-dynamic: " + path_);
    o = options({SpecType::kNgramMod});
    o.spec.ngram.mod_n_match = 0;
    refused(o, "--spec-ngram-mod-n-match");
    o = options({SpecType::kDraftSimple, SpecType::kDraftEagle3});
    o.spec.draft_model = path_;
    refused(o, "draft-simple,draft-eagle3: two types that run a draft model");
}

}  // namespace
}  // namespace foresay::test
