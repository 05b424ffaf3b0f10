// Rejected drafts leave no trace in layers with a state or a window: kept rows have the bits of plain decoding.
#include "tests/conformance/test_models.h"

namespace foresay::test {
namespace {

constexpr int32_t kRollback = 4;

class Rollback : public testing::TestWithParam<const char*> {
  protected:
    std::string path() const { return shared_path(std::string("goldens/synthetic/") + GetParam() + ".gguf"); }

    Loaded loaded() const { return load(path(), "cpu", 1, DType::kF16, 512, "auto", 1); }
};

TEST_P(Rollback, AnyAcceptedLengthGivesTheBitsOfPlainDecoding) {
    if (!file_exists(path())) {
        GTEST_SKIP() << "no goldens at " << path();
    }
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 60; ++i) {
        tokens.push_back((i * 37 + 11) % 256);
    }
    const Loaded plain = loaded();
    ASSERT_NE(plain.runner, nullptr);
    const auto expected = evaluate(*plain.runner, tokens, 20);

    model::RunnerOptions options;
    options.n_slots = 2;
    options.n_ctx_slot = 256;
    options.n_rollback = kRollback;
    const auto made = model::Runner::create(plain.model, {plain.backend.get()}, options);
    ASSERT_TRUE(made.has_value());
    model::Runner& runner = **made;
    size_t n = 0;
    for (int32_t round = 0; n + kRollback + 1 <= tokens.size(); ++round) {
        // The other slot is verified in the same pass, from its own place and with other drafts.
        const auto n_kept = static_cast<size_t>(round % (kRollback + 1) + 1);
        std::vector<model::Row> rows;
        for (size_t i = 0; i <= kRollback; ++i) {
            const int32_t wrong = (tokens[n + i] + 1 + round) % 256;
            rows.push_back({i < n_kept ? tokens[n + i] : wrong, static_cast<int32_t>(n + i), 1, true});
        }
        rows.push_back({round, round, 0, false});
        const auto logits = runner.forward(rows);
        ASSERT_TRUE(logits.has_value()) << logits.error().to_string();
        for (size_t i = 0; i < n_kept; ++i) {
            const auto row = (*logits)[i];
            ASSERT_EQ(std::vector<float>(row.begin(), row.end()), expected[n + i]) << "round " << round << " row " << i;
        }
        n += n_kept;
    }
}

TEST_P(Rollback, AStateThatIsGoneIsAnError) {
    if (!file_exists(path())) {
        GTEST_SKIP() << "no goldens at " << path();
    }
    const Loaded m = loaded();
    ASSERT_NE(m.runner, nullptr);
    const auto rows = [](int32_t first, int32_t n) {
        std::vector<model::Row> out;
        for (int32_t i = 0; i < n; ++i) {
            out.push_back({i, first + i, 0, true});
        }
        return out;
    };
    ASSERT_TRUE(m.runner->forward(rows(0, 20)).has_value());
    if (!m.model->hparams().has_state()) {
        EXPECT_EQ(m.runner->usable(0, 5), 5);
        return;
    }
    EXPECT_EQ(m.runner->usable(0, 20), 20);
    EXPECT_EQ(m.runner->usable(0, 5), 0);
    EXPECT_EQ(m.runner->forward(rows(5, 2)).error().code, Code::kInvalidArgument);
    EXPECT_EQ(m.runner->forward(rows(21, 1)).error().code, Code::kInvalidArgument);
    EXPECT_TRUE(m.runner->forward(rows(20, 2)).has_value());
    EXPECT_TRUE(m.runner->forward(rows(0, 2)).has_value());
}

INSTANTIATE_TEST_SUITE_P(Goldens, Rollback,
                         testing::Values("gemma4-e2b", "lfm2", "lfm2moe", "qwen35", "qwen35moe", "qwen3next"));

}  // namespace
}  // namespace foresay::test
