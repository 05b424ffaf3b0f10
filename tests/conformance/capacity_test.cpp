// Promise 4 end to end: every n_max from 1 to 64 starts, answers and gives plain decoding's text; the scheduler starts
// with a table far too small for the model and grows.
#include <fstream>

#include "backend/cpu/cpu_backend.h"
#include "base/test_paths.h"
#include "model/runner.h"
#include "tests/conformance/engine_harness.h"

namespace foresay::test {
namespace {

TEST(Capacity, EveryNMaxStartsAnswersAndEqualsPlain) {
    const std::string path = shared_path("goldens/synthetic/pair-llama-target.gguf");
    if (!std::ifstream(path).good()) {
        GTEST_SKIP() << "no goldens at " << path;
    }
    engine::EngineOptions options;
    options.model = path;
    options.n_ctx = 512;
    options.n_threads = 2;
    engine::Request request;
    for (int32_t i = 0; i < 40; ++i) {
        request.prompt.push_back((i * 31 + 7) % 256);
    }
    request.n_predict = 80;
    request.sampling.temperature = 0.0F;
    request.sampling.ignore_eos = true;
    request.n_probs = 1;
    const auto plain = generate(*make_engine(options), request)->text();
    options.spec.draft_model = path;
    for (int32_t n_max = 1; n_max <= 64; ++n_max) {
        options.spec.n_max = n_max;
        const auto engine = make_engine(options);
        ASSERT_NE(engine, nullptr) << "n_max " << n_max;
        const auto got = generate(*engine, request);
        ASSERT_EQ(got->text(), plain) << "n_max " << n_max;
        EXPECT_EQ(got->result().timings.draft_n_accepted, got->result().timings.draft_n) << "n_max " << n_max;
        EXPECT_GT(engine->metrics().sched_n_nodes, 0U);
    }
}

TEST(Capacity, TheTableGrowsFromAnySizeInTheMiddleOfUse) {
    const std::string path = shared_path("goldens/synthetic/llama.gguf");
    if (!std::ifstream(path).good()) {
        GTEST_SKIP() << "no goldens at " << path;
    }
    auto backend = cpu::CpuBackend::create({});
    ASSERT_TRUE(backend.has_value());
    auto model = model::Model::load(path, **backend);
    ASSERT_TRUE(model.has_value());
    std::vector<float> expected;
    for (const size_t capacity : {size_t{65536}, size_t{1}, size_t{50}}) {
        model::RunnerOptions options;
        options.n_ctx_slot = 256;
        options.scheduler_capacity = capacity;
        auto runner = model::Runner::create(*model, {backend->get()}, options);
        ASSERT_TRUE(runner.has_value());
        std::vector<float> got;
        int32_t pos = 0;
        for (const int32_t n : {1, 9, 1, 3, 17, 1}) {
            std::vector<model::Row> rows;
            for (int32_t i = 0; i < n; ++i, ++pos) {
                rows.push_back({(pos * 13 + 5) % 256, pos, 0, true});
            }
            const auto logits = (*runner)->forward(rows);
            ASSERT_TRUE(logits.has_value());
            got.insert(got.end(), logits->back().begin(), logits->back().end());
        }
        if (expected.empty()) {
            expected = got;
            EXPECT_EQ((*runner)->scheduler_stats().growths, 0U);
        } else {
            EXPECT_EQ(got, expected) << "capacity " << capacity;
            EXPECT_GT((*runner)->scheduler_stats().growths, 0U);
        }
        EXPECT_EQ((*runner)->scheduler_stats().plans_built, 4U) << "one plan per shape";
        EXPECT_EQ((*runner)->scheduler_stats().plan_hits, 2U);
    }
}

}  // namespace
}  // namespace foresay::test
