// Structured output with drafts: the text is that of plain decoding under the same grammar, at every draft length; no
// rule lets a token stand that the grammar forbids; texts end only where the grammar may.
#include <fstream>

#include "base/test_paths.h"
#include "tests/conformance/structured_harness.h"

namespace foresay::test {
namespace {

TEST(StructuredOutput, TinyModelsWithDrafts) {
    const std::string target = shared_path("goldens/synthetic/pair-llama-target.gguf");
    if (!std::ifstream(target).good()) {
        GTEST_SKIP() << "no goldens at " << target;
    }
    // A drafter that knows no grammar is refused wherever the grammar changes the target's choice.
    check_pair({target, target}, gbnf_of(kSchema), {1, 3, 8}, 48);
    check_pair({target, target}, "root ::= ([a-m]+ [n-z]{2,3} | [0-9] \"x\"*)+", {4}, 32);
}

TEST(StructuredOutput, AForbiddenDraftNeverStandsInTheRelaxedRuleOfAnyReach) {
    const std::string target = shared_path("goldens/synthetic/pair-llama-target.gguf");
    if (!std::ifstream(target).good()) {
        GTEST_SKIP() << "no goldens at " << target;
    }
    engine::EngineOptions options;
    options.model = target;
    options.n_ctx = 512;
    options.n_threads = 1;  // short under load: no barriers
    options.spec.types = {engine::SpecType::kDraftSimple};
    options.spec.draft_model = target;
    options.spec.n_max = 8;
    options.spec.relaxed_top_n = 100000;
    const auto engine = make_engine(options);
    ASSERT_NE(engine, nullptr);
    const std::string gbnf = gbnf_of(R"({"items":{"type":"integer"},"minItems":3})");
    for (uint32_t seed = 1; seed <= 4; ++seed) {
        auto request = request_for(*engine, "numbers", 32, 1.5F, seed);
        request.sampling.grammar = gbnf;
        request.sampling.min_p = 0.0F;
        request.sampling.top_k = 0;  // every token is a candidate
        request.sampling.top_p = 1.0F;
        const auto relaxed = generate(*engine, request);
        expect_legal(*engine, gbnf, relaxed->text().ids);
    }
}

TEST(StructuredOutput, ADeadEndIsAnErrorAndLeavesTheSlotUsable) {
    const std::string target = shared_path("goldens/synthetic/pair-llama-target.gguf");
    if (!std::ifstream(target).good()) {
        GTEST_SKIP() << "no goldens at " << target;
    }
    engine::EngineOptions options;
    options.model = target;
    options.n_ctx = 256;
    options.n_threads = 1;  // short under load: no barriers
    const auto engine = make_engine(options);
    ASSERT_NE(engine, nullptr);
    auto request = request_for(*engine, "a", 8, 0.0F);
    request.sampling.grammar = "root ::= \"a\" <[1000000]>";
    const auto stuck = submit(*engine, request);
    stuck->wait();
    ASSERT_TRUE(stuck->error().has_value());
    EXPECT_NE(stuck->error()->message.find("no token of the vocabulary"), std::string::npos);
    EXPECT_EQ(stuck->text().text, "a") << "what was legal has been shown";
    request.sampling.grammar = "root ::= \"a";
    const auto bad = engine->submit(request, std::make_shared<Collector>());
    ASSERT_FALSE(bad.has_value());
    EXPECT_NE(bad.error().message.find("failed to parse grammar: line 1, column 10"), std::string::npos);
    request.sampling.grammar = "root ::= \"ab\"";
    EXPECT_EQ(generate(*engine, request)->text().text, "ab");
}

}  // namespace
}  // namespace foresay::test
