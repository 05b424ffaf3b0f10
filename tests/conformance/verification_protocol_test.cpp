// The verification protocol on a real target and drafter (Qwen2.5-Coder 1.5B and 0.5B): control, positive, extreme; and
// the classic mistake when tuning N, a candidate pool that min_p has made small.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "base/test_paths.h"
#include "tests/conformance/engine_harness.h"

namespace foresay::test {
namespace {

/// Runs f and returns what it wrote to standard error.
template <typename F>
std::string captured_stderr(F f) {
    testing::internal::CaptureStderr();
    f();
    return testing::internal::GetCapturedStderr();
}

size_t count_matches(const std::string& text, const std::string& pattern) {
    const std::regex regex(pattern);
    return static_cast<size_t>(
        std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

bool is_valid_utf8(const std::string& text) {
    size_t i = 0;
    while (i < text.size()) {
        const auto lead = static_cast<unsigned char>(text[i]);
        const size_t n = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
        if (n == 0 || i + n > text.size()) {
            return false;
        }
        for (size_t k = 1; k < n; ++k) {
            if ((static_cast<unsigned char>(text[i + k]) & 0xC0U) != 0x80U) {
                return false;
            }
        }
        i += n;
    }
    return true;
}

const char* const kPrompt =
    "<|im_start|>user\nWrite a Python class for a bank account.<|im_end|>\n<|im_start|>assistant\n";
const char* const kLine =
    R"(\[RELAXED_VERIFY\] pos=\d+ relaxed_top_n=\d+ cur_p\.size=\d+ cur_p\.sorted=[01] draft='[^\n]*'\(id=\d+\) target_sample='[^\n]*'\(id=\d+\) -> (ACCEPT\(relaxed\)|reject)\n)";

class VerificationProtocol : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        setenv("RELAXED_VERIFY_LOG", "1", 1);
        const std::string target = model_path("qwen2.5-coder-1.5b-q4_k_m.gguf");
        const std::string drafter = model_path("qwen2.5-coder-0.5b-q4_k_m.gguf");
        if (!std::ifstream(target).good() || !std::ifstream(drafter).good()) {
            return;
        }
        engine::EngineOptions options;
        options.model = target;
        options.n_ctx = 1024;
        options.n_threads = 2;
        options.spec.draft_model = drafter;
        options.spec.n_max = 4;
        engine_ = make_engine(options);
    }

    static void TearDownTestSuite() { engine_.reset(); }

    void SetUp() override {
        if (engine_ == nullptr) {
            GTEST_SKIP() << "needs the Qwen pair (tools/fetch_models.py)";
        }
    }

    static engine::Request request(int32_t n_predict, int32_t relaxed_top_n) {
        auto request = request_for(*engine_, kPrompt, n_predict, 0.0F);
        request.spec.relaxed_top_n = relaxed_top_n;
        return request;
    }

    static std::unique_ptr<engine::Engine> engine_;
};

std::unique_ptr<engine::Engine> VerificationProtocol::engine_;

TEST_F(VerificationProtocol, ControlStrictEqualsPlainAndPrintsNoVerifyLine) {
    auto plain_request = request(64, 0);
    plain_request.spec.n_max = 0;
    const auto plain = generate(*engine_, plain_request);
    EXPECT_EQ(plain->result().timings.draft_n, 0);
    std::shared_ptr<Collector> strict;
    const std::string log = captured_stderr([&] { strict = generate(*engine_, request(64, 0)); });
    EXPECT_EQ(strict->text(), plain->text());
    EXPECT_GT(strict->result().timings.draft_n_accepted, 0);
    EXPECT_EQ(strict->result().timings.draft_n_relaxed, 0);
    EXPECT_EQ(log.find("[RELAXED_VERIFY]"), std::string::npos);
    // N = 1 is the strict rule too.
    const std::string log_one = captured_stderr([&] { strict = generate(*engine_, request(64, 1)); });
    EXPECT_EQ(strict->text(), plain->text());
    EXPECT_EQ(log_one.find("[RELAXED_VERIFY]"), std::string::npos);
}

TEST_F(VerificationProtocol, PositiveShowsAMixOfAcceptsAndRejects) {
    std::shared_ptr<Collector> relaxed;
    const std::string log = captured_stderr([&] { relaxed = generate(*engine_, request(160, 5)); });
    const size_t n_accept = count_matches(log, R"(-> ACCEPT\(relaxed\)\n)");
    const size_t n_reject = count_matches(log, R"(-> reject\n)");
    EXPECT_GT(n_accept, 0U);
    EXPECT_GT(n_reject, 0U);
    EXPECT_EQ(count_matches(log, kLine), n_accept + n_reject) << "a verify line has another form";
    const auto& timings = relaxed->result().timings;
    EXPECT_EQ(static_cast<size_t>(timings.draft_n_relaxed), n_accept);
    EXPECT_GT(timings.draft_n_accepted, timings.draft_n_relaxed);
    EXPECT_GT(timings.relaxed_gap_sum, 0.0);
    EXPECT_GE(timings.relaxed_rank_sum, static_cast<double>(timings.draft_n_relaxed))
        << "an inexact token ranks at least second";
    EXPECT_LT(timings.relaxed_rank_sum, 5.0 * timings.draft_n_relaxed);
    std::printf("positive: N 5, n_max 4: %d of %d drafted tokens accepted, %d of them relaxed, %zu rejects\n",
                timings.draft_n_accepted, timings.draft_n, timings.draft_n_relaxed, n_reject);
}

TEST_F(VerificationProtocol, ExtremeAcceptsEverythingAndStaysValid) {
    auto extreme = request(200, 300000);
    extreme.sampling.min_p = 0.0F;
    extreme.sampling.top_k = 0;
    extreme.sampling.top_p = 1.0F;
    extreme.sampling.ignore_eos = true;
    std::shared_ptr<Collector> got;
    const std::string log = captured_stderr([&] { got = generate(*engine_, extreme); });
    const auto& timings = got->result().timings;
    EXPECT_GT(timings.draft_n, 100);
    EXPECT_EQ(timings.draft_n_accepted, timings.draft_n);
    EXPECT_NE(log.find("draft acceptance = 1.00000 ("), std::string::npos) << log;
    EXPECT_TRUE(is_valid_utf8(got->text().text));
    EXPECT_EQ(got->text().ids.size(), 200U);
}

// The same N with min_p at its default: the pool that ranks are taken in is small, so a large N changes little beyond
// its size.
TEST_F(VerificationProtocol, MinPAtItsDefaultKeepsThePoolSmall) {
    std::shared_ptr<Collector> got;
    const std::string log = captured_stderr([&] { got = generate(*engine_, request(160, 300000)); });
    const std::regex size_regex(R"(cur_p\.size=(\d+))");
    int largest = 0;
    for (auto it = std::sregex_iterator(log.begin(), log.end(), size_regex); it != std::sregex_iterator(); ++it) {
        largest = std::max(largest, std::stoi((*it)[1]));
    }
    EXPECT_GT(largest, 0);
    EXPECT_LE(largest, 40) << "top_k alone bounds it";
    const auto& timings = got->result().timings;
    EXPECT_LT(timings.draft_n_accepted, timings.draft_n) << "tokens outside the pool are rejected at any N";
    std::printf("min_p at its default: largest pool %d, %d of %d accepted at N 300000\n", largest,
                timings.draft_n_accepted, timings.draft_n);
}

}  // namespace
}  // namespace foresay::test
