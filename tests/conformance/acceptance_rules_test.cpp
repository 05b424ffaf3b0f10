// Acceptance rules and the controller through the engine, on a tiny pair: what each rule promises, budgets, drift
// figures, and that an adaptive length never changes strict text.
#include <fstream>
#include <set>

#include "base/test_paths.h"
#include "tests/conformance/engine_harness.h"

namespace foresay::test {
namespace {

class AcceptanceRules : public testing::Test {
  protected:
    void SetUp() override {
        target_ = shared_path("goldens/synthetic/pair-llama-target.gguf");
        stranger_ = shared_path("goldens/synthetic/llama.gguf");
        if (!std::ifstream(target_).good() || !std::ifstream(stranger_).good()) {
            GTEST_SKIP() << "no goldens at " << target_;
        }
    }

    engine::EngineOptions options(const std::string& drafter, bool adaptive = false, int32_t n_parallel = 1) const {
        engine::EngineOptions options;
        options.model = target_;
        options.n_ctx = 512 * n_parallel;
        options.n_parallel = n_parallel;
        options.n_threads = 2;
        options.spec.draft_model = drafter;
        options.spec.n_max = 4;
        options.spec.adaptive = adaptive;
        return options;
    }

    static engine::Request request(float temperature, uint32_t seed = 42) {
        engine::Request request;
        for (int32_t i = 0; i < 24; ++i) {
            request.prompt.push_back(97 + i * 5 % 26);
        }
        request.n_predict = 100;
        request.sampling.temperature = temperature;
        request.sampling.seed = seed;
        request.sampling.ignore_eos = true;
        request.n_probs = 1;
        return request;
    }

    std::string target_;
    std::string stranger_;
};

TEST_F(AcceptanceRules, LosslessIsGreedyAtTemperatureZeroAndReproducibleAbove) {
    const auto engine = make_engine(options(stranger_));
    auto plain_request = request(0.0F);
    plain_request.spec.n_max = 0;
    const auto plain = generate(*engine, plain_request);
    auto r = request(0.0F);
    r.spec.rule = spec::Rule::kLossless;
    EXPECT_EQ(generate(*engine, r)->text(), plain->text());
    r = request(0.9F);
    r.spec.rule = spec::Rule::kLossless;
    const auto once = generate(*engine, r);
    EXPECT_EQ(generate(*engine, r)->text(), once->text());
    EXPECT_EQ(once->result().timings.draft_n_relaxed, 0);
    EXPECT_EQ(once->result().spec.rule, spec::Rule::kLossless);
    std::set<std::vector<int32_t>> texts;
    for (uint32_t seed = 1; seed <= 4; ++seed) {
        r.sampling.seed = seed;
        texts.insert(generate(*engine, r)->text().ids);
    }
    EXPECT_EQ(texts.size(), 4U);
}

TEST_F(AcceptanceRules, AcceptedAndRejectedAddUp) {
    const auto engine = make_engine(options(stranger_));
    for (const spec::Rule rule :
         {spec::Rule::kStrict, spec::Rule::kRelaxed, spec::Rule::kTypical, spec::Rule::kLossless}) {
        auto r = request(0.8F);
        r.spec.rule = rule;
        r.spec.relaxed_top_n = rule == spec::Rule::kRelaxed ? 5 : 0;
        const auto got = generate(*engine, r);
        const auto& t = got->result().timings;
        EXPECT_GT(t.draft_n, 0);
        EXPECT_LE(t.draft_n_accepted + t.draft_n_rejected, t.draft_n);
        EXPECT_LE(t.draft_n_rejected, t.verify_steps);
        EXPECT_LE(t.draft_n_relaxed, t.draft_n_accepted);
        EXPECT_EQ(got->text().ids.size(), 100U);
    }
}

TEST_F(AcceptanceRules, BudgetsHoldPerResponse) {
    const auto engine = make_engine(options(stranger_));
    auto r = request(0.0F);
    r.spec.relaxed_top_n = 40;
    r.sampling.min_p = 0.0F;
    const auto free = generate(*engine, r);
    ASSERT_GT(free->result().timings.draft_n_relaxed, 6);
    r.spec.relaxed_max_tokens = 3;
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(generate(*engine, r)->result().timings.draft_n_relaxed, 3) << "a new response has a new budget";
    }
    r.spec.relaxed_max_tokens = 0;
    auto plain_request = request(0.0F);
    plain_request.sampling.min_p = 0.0F;
    plain_request.spec.n_max = 0;
    EXPECT_EQ(generate(*engine, r)->text(), generate(*engine, plain_request)->text()) << "no budget is strict";
    r.spec.relaxed_max_tokens = -1;
    r.spec.relaxed_max_gap = 2.0F;
    const auto gap = generate(*engine, r);
    EXPECT_LE(gap->result().timings.relaxed_gap_sum, 2.0);
    EXPECT_GT(gap->result().timings.draft_n_relaxed, 0);
    r.spec.relaxed_max_gap = -1.0F;
    r.spec.relaxed_scope = spec::Scope::kThinking;
    EXPECT_EQ(generate(*engine, r)->result().timings.draft_n_relaxed, 0) << "this text never thinks";
}

TEST_F(AcceptanceRules, AdaptiveLengthKeepsStrictTextAndLeavesABadDrafterOut) {
    const auto plain_engine = make_engine(options(""));
    for (const float temperature : {0.0F, 0.9F}) {
        const auto plain = generate(*plain_engine, request(temperature));
        for (const std::string& drafter : {target_, stranger_}) {
            const auto engine = make_engine(options(drafter, true));
            for (int round = 0; round < 2; ++round) {
                EXPECT_EQ(generate(*engine, request(temperature))->text(), plain->text());
            }
        }
    }
    const auto engine = make_engine(options(stranger_, true, 3));
    std::vector<std::shared_ptr<Collector>> sinks;
    for (uint32_t seed = 0; seed < 3; ++seed) {
        auto r = request(0.9F, seed);
        r.spec.adaptive = seed != 1;
        sinks.push_back(submit(*engine, r));
    }
    for (uint32_t seed = 0; seed < 3; ++seed) {
        sinks[seed]->wait();
        EXPECT_EQ(sinks[seed]->text(), generate(*plain_engine, request(0.9F, seed))->text());
        EXPECT_EQ(sinks[seed]->result().spec.adaptive, seed != 1);
    }
    EXPECT_GT(sinks[1]->result().timings.draft_n, 200) << "a fixed length drafts whatever it costs";
}

// Measuring the cost curve at start runs passes in slot 0, whose state a text must not see.
TEST_F(AcceptanceRules, AdaptiveLengthKeepsTheTextOfModelsWithAState) {
    for (const char* name : {"lfm2", "qwen35"}) {
        engine::EngineOptions o;
        o.model = shared_path(std::string("goldens/synthetic/") + name + ".gguf");
        if (!std::ifstream(o.model).good()) {
            GTEST_SKIP() << "no goldens at " << o.model;
        }
        o.n_ctx = 512;
        o.n_threads = 2;
        auto r = request(0.0F);
        const auto plain = generate(*make_engine(o), r);
        o.spec.types = {spec::SpecType::kNgramSimple};
        o.spec.ngram.simple.size_n = 2;
        o.spec.adaptive = true;
        const auto engine = make_engine(o);
        for (int round = 0; round < 2; ++round) {
            EXPECT_EQ(generate(*engine, r)->text(), plain->text()) << name;
        }
    }
}

TEST_F(AcceptanceRules, BadValuesAreRefusedByField) {
    const auto engine = make_engine(options(stranger_));
    const auto refused = [&](void (*change)(engine::SpecRequest&), const std::string& field) {
        auto r = request(0.0F);
        change(r.spec);
        const auto result = engine->submit(r, std::make_shared<Collector>());
        ASSERT_FALSE(result.has_value()) << field;
        EXPECT_EQ(result.error().where, field);
    };
    refused([](engine::SpecRequest& s) { s.relaxed_delta = -0.5F; }, "speculative.relaxed_delta");
    refused([](engine::SpecRequest& s) { s.relaxed_max_gap = -2.0F; }, "speculative.relaxed_max_gap");
    refused([](engine::SpecRequest& s) { s.relaxed_max_tokens = -2; }, "speculative.relaxed_max_tokens");
    refused([](engine::SpecRequest& s) { s.typical_epsilon = 1.5F; }, "speculative.typical_epsilon");
    refused([](engine::SpecRequest& s) { s.typical_delta = -1.0F; }, "speculative.typical_delta");
    refused([](engine::SpecRequest& s) { s.rule = spec::Rule::kRelaxed; }, "speculative.rule");
}

}  // namespace
}  // namespace foresay::test
