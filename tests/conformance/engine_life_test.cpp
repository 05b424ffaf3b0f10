// The engine's life cycle on a tiny model: refusals, limits, cancelling, shutting down, reuse, and every boundary of a
// draft.
#include <atomic>
#include <fstream>

#include "base/test_paths.h"
#include "tests/conformance/engine_harness.h"

namespace foresay::test {
namespace {

class EngineLife : public testing::Test {
  protected:
    void SetUp() override {
        path_ = shared_path("goldens/synthetic/pair-llama-target.gguf");
        if (!std::ifstream(path_).good()) {
            GTEST_SKIP() << "no goldens at " << path_;
        }
    }

    engine::EngineOptions options(int32_t n_max = 0) const {
        engine::EngineOptions options;
        options.model = path_;
        options.n_ctx = 256;
        options.n_threads = 2;
        if (n_max > 0) {
            options.spec.draft_model = path_;
            options.spec.n_max = n_max;
        }
        return options;
    }

    static engine::Request request(int32_t n_predict, int32_t salt = 7) {
        engine::Request request;
        for (int32_t i = 0; i < 24; ++i) {
            request.prompt.push_back(97 + (i * 5 + salt) % 26);
        }
        request.n_predict = n_predict;
        request.sampling.temperature = 0.0F;
        request.sampling.ignore_eos = true;
        request.n_probs = 1;
        return request;
    }

    std::string path_;
};

TEST_F(EngineLife, RefusesWhatCantBeRightAndNamesIt) {
    const auto engine = make_engine(options(4));
    const auto refused = [&](engine::Request bad, Code code, const std::string& part) {
        const auto result = engine->submit(std::move(bad), std::make_shared<Collector>());
        ASSERT_FALSE(result.has_value()) << part;
        EXPECT_EQ(result.error().code, code);
        EXPECT_NE(result.error().to_string().find(part), std::string::npos) << result.error().to_string();
    };
    engine::Request r = request(4);
    r.prompt.clear();
    refused(r, Code::kInvalidArgument, "must not be empty");
    for (const int32_t token : {-1, 320, INT32_MAX}) {
        r = request(4);
        r.prompt.push_back(token);
        refused(r, Code::kInvalidArgument, "invalid tokens");
    }
    r = request(4);
    r.prompt.resize(256, 97);
    refused(r, Code::kCapacity, "request (256 tokens) exceeds the available context size (256 tokens)");
    for (const int32_t slot : {-2, 1, 1000}) {
        r = request(4);
        r.id_slot = slot;
        refused(r, Code::kInvalidArgument, "Invalid slot ID");
    }
    r = request(4);
    r.spec.n_max = -1;
    refused(r, Code::kInvalidArgument, "speculative.n_max");
    r = request(4);
    r.spec.n_min = -3;
    refused(r, Code::kInvalidArgument, "speculative.n_min");
    r = request(4);
    r.spec.p_min = 1.5F;
    refused(r, Code::kInvalidArgument, "speculative.p_min");
    r = request(4);
    r.spec.relaxed_top_n = -1;
    refused(r, Code::kInvalidArgument, "speculative.relaxed_top_n");
    r = request(4);
    r.sampling.repeat_penalty = 0.0F;
    refused(r, Code::kInvalidArgument, "penalty_repeat");
    // After all that the engine still answers.
    EXPECT_EQ(generate(*engine, request(4))->text().ids.size(), 4U);
}

TEST_F(EngineLife, BadOptionsAreErrorsThatNameTheFlag) {
    const auto refused = [&](engine::EngineOptions bad, const std::string& part) {
        const auto made = engine::Engine::create(bad);
        ASSERT_FALSE(made.has_value()) << part;
        EXPECT_NE(made.error().to_string().find(part), std::string::npos) << made.error().to_string();
    };
    auto o = options();
    o.model = "/nonexistent.gguf";
    refused(o, "/nonexistent.gguf");
    o = options();
    o.model.clear();
    refused(o, "--model");
    o = options();
    o.n_parallel = 0;
    refused(o, "--parallel");
    o = options();
    o.cpu_isa = "mmx";
    refused(o, "mmx");
    o = options();
    o.device = "gpu";
    refused(o, "--device");
    o = options(4);
    o.spec.n_min = 5;
    refused(o, "--spec-draft-n-min");
    o = options(4);
    o.spec.p_min = 2.0F;
    refused(o, "--spec-draft-p-min");
    o = options();
    o.spec.types = {engine::SpecType::kDraftSimple};
    refused(o, "--spec-draft-model");
    o = options(4);
    o.spec.draft_model = shared_path("goldens/tokenizers/ggml-vocab-qwen2.gguf");
    refused(o, "ggml-vocab-qwen2");
}

TEST_F(EngineLife, NPredictZeroEvaluatesThePromptOnly) {
    const auto engine = make_engine(options());
    const auto got = generate(*engine, request(0));
    EXPECT_TRUE(got->text().ids.empty());
    EXPECT_EQ(got->result().timings.prompt_n, 24);
    EXPECT_EQ(got->result().tokens_cached, 24);
}

TEST_F(EngineLife, ReusedPrefixesGiveTheSameText) {
    const auto engine = make_engine(options(4));
    const auto first = generate(*engine, request(20));
    const auto again = generate(*engine, request(20));
    EXPECT_EQ(again->text(), first->text());
    EXPECT_EQ(again->result().timings.prompt_n, 1) << "an exact repeat evaluates one token";
    EXPECT_EQ(again->result().timings.cache_n, 23);
    auto longer = request(20);
    longer.prompt.insert(longer.prompt.end(), first->text().ids.begin(), first->text().ids.begin() + 10);
    longer.n_predict = 10;
    const auto continued = generate(*engine, longer);
    EXPECT_GT(continued->result().timings.cache_n, 23);
    EXPECT_EQ(continued->text().ids, std::vector<int32_t>(first->text().ids.begin() + 10, first->text().ids.end()));
}

TEST_F(EngineLife, EveryBudgetAndStopBoundaryInsideADraftEqualsPlain) {
    const auto plain_engine = make_engine(options());
    const auto spec_engine = make_engine(options(5));
    const auto full = generate(*plain_engine, request(24));
    for (int32_t n = 1; n <= 24; ++n) {
        auto r = request(n);
        const auto plain = generate(*plain_engine, r);
        const auto spec = generate(*spec_engine, r);
        ASSERT_EQ(spec->text(), plain->text()) << "n_predict " << n;
        ASSERT_EQ(spec->text().ids.size(), static_cast<size_t>(n));
        EXPECT_EQ(spec->result().tokens_cached, plain->result().tokens_cached)
            << "nothing past the end may stay in the cache";
        EXPECT_EQ(spec->result().stop_type, engine::StopType::kLimit);
    }
    const std::string& text = full->text().text;
    for (size_t at = 0; at + 2 <= text.size(); ++at) {
        auto r = request(24);
        r.stop = {text.substr(at, 2)};
        const auto plain = generate(*plain_engine, r);
        const auto spec = generate(*spec_engine, r);
        ASSERT_EQ(spec->text(), plain->text()) << "stop at " << at;
        ASSERT_EQ(spec->result().tokens_cached, plain->result().tokens_cached) << "stop at " << at;
        EXPECT_EQ(spec->result().stop_type, plain->result().stop_type);
    }
}

TEST_F(EngineLife, AFullContextEndsWithTruncated) {
    for (const int32_t n_max : {0, 6}) {
        const auto engine = make_engine(options(n_max));
        const auto got = generate(*engine, request(-1));
        EXPECT_EQ(got->result().stop_type, engine::StopType::kLimit);
        EXPECT_TRUE(got->result().truncated);
        EXPECT_EQ(got->result().tokens_cached, 255);
        EXPECT_EQ(got->text().ids.size(), 256U - 24U);
    }
}

/// Cancels its own task at the n-th token.
class CancelAt : public Collector {
  public:
    CancelAt(engine::Engine* engine, int n) : engine_(engine), n_(n) {}

    void token(const engine::TokenEvent& event) override {
        Collector::token(event);
        // The id may come a few tokens late: submit() returns it while the engine already works.
        if (++count_ >= n_ && !sent_ && task_.load() >= 0) {
            sent_ = true;
            engine_->cancel(task_.load());
        }
    }

    std::atomic<int64_t> task_{-1};

  private:
    engine::Engine* engine_;
    int n_;
    int count_ = 0;
    bool sent_ = false;
};

TEST_F(EngineLife, CancelEndsARunningTaskWithinOneStepAndFreesTheSlot) {
    auto o = options(4);
    o.context_shift = true;  // generates until cancelled
    const auto engine = make_engine(o);
    auto sink = std::make_shared<CancelAt>(engine.get(), 50);
    const auto id = engine->submit(request(-1), sink);
    ASSERT_TRUE(id.has_value());
    sink->task_ = *id;
    sink->wait();
    ASSERT_TRUE(sink->error().has_value());
    EXPECT_EQ(sink->error()->code, Code::kCancelled);
    EXPECT_FALSE(engine->slots()[0].is_processing);
    const auto plain = generate(*make_engine(options()), request(8));
    EXPECT_EQ(generate(*engine, request(8))->text(), plain->text());
}

TEST_F(EngineLife, WaitingTasksCanBeCancelledAndTheOthersGoOn) {
    auto o = options();
    o.context_shift = true;
    const auto engine = make_engine(o);
    auto running = std::make_shared<Collector>();
    const auto running_id = engine->submit(request(-1), running);
    ASSERT_TRUE(running_id.has_value());
    auto waiting = std::make_shared<Collector>();
    const auto waiting_id = engine->submit(request(4, 9), waiting);
    auto last = std::make_shared<Collector>();
    ASSERT_TRUE(engine->submit(request(4, 11), last).has_value());
    engine->cancel(*waiting_id);
    waiting->wait();
    EXPECT_EQ(waiting->error()->code, Code::kCancelled);
    engine->cancel(*running_id);
    last->wait();
    EXPECT_FALSE(last->error().has_value());
    EXPECT_EQ(last->text().ids.size(), 4U);
}

TEST_F(EngineLife, ShutdownAnswersRunningTasksWithWhatTheyHave) {
    auto o = options();
    o.context_shift = true;
    const auto engine = make_engine(o);
    auto sink = std::make_shared<Collector>();
    ASSERT_TRUE(engine->submit(request(-1), sink).has_value());
    auto waiting = std::make_shared<Collector>();
    ASSERT_TRUE(engine->submit(request(-1), waiting).has_value());
    engine->shutdown();
    sink->wait();
    waiting->wait();
    // The first may have been taken or not; nobody is left without an answer, and nothing is accepted any more.
    EXPECT_TRUE(waiting->error().has_value());
    EXPECT_FALSE(engine->submit(request(1), std::make_shared<Collector>()).has_value());
}

TEST_F(EngineLife, TheReferenceDeviceGivesTheSameText) {
    auto o = options(3);
    const auto expected = generate(*make_engine(o), request(16));
    o.device = "reference";
    EXPECT_EQ(generate(*make_engine(o), request(16))->text(), expected->text());
}

TEST_F(EngineLife, RelaxedCountsAddUpAndNOneIsStrict) {
    auto o = options(4);
    o.spec.draft_model = shared_path("goldens/synthetic/llama.gguf");  // a stranger: same vocabulary, other weights
    const auto engine = make_engine(o);
    auto r = request(60);
    r.spec.n_max = 0;
    const auto plain = generate(*engine, r);
    for (const int32_t n : {0, 1}) {
        r.spec.n_max = 4;
        r.spec.relaxed_top_n = n;
        const auto strict = generate(*engine, r);
        EXPECT_EQ(strict->text(), plain->text());
        EXPECT_EQ(strict->result().timings.draft_n_relaxed, 0);
    }
    r.spec.relaxed_top_n = 300000;
    r.sampling.top_k = 0;
    r.sampling.min_p = 0.0F;
    r.sampling.top_p = 1.0F;
    const auto relaxed = generate(*engine, r);
    const auto& t = relaxed->result().timings;
    EXPECT_EQ(t.draft_n, t.draft_n_accepted);
    EXPECT_GT(t.draft_n_relaxed, 0);
    int n_exact = 0;
    int n_relaxed = 0;
    for (const auto kind : relaxed->kinds()) {
        n_exact += kind == engine::TokenKind::kExact ? 1 : 0;
        n_relaxed += kind == engine::TokenKind::kRelaxed ? 1 : 0;
    }
    EXPECT_EQ(n_relaxed, t.draft_n_relaxed);
    EXPECT_EQ(n_exact + n_relaxed, t.draft_n_accepted);
    EXPECT_GT(t.relaxed_gap_sum, 0.0);
}

}  // namespace
}  // namespace foresay::test
