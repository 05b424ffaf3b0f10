// Structured output with drafts on real models: as structured_output_test.cpp, which has the tiny ones.
#include <fstream>

#include "base/test_paths.h"
#include "tests/conformance/structured_harness.h"

namespace foresay::test {
namespace {

TEST(StructuredOutput, RealModelsWithDrafts) {
    struct Names {
        const char* target;
        const char* drafter;
    };

    for (const Names& names : {Names{"smollm2-135m-q4_1.gguf", "smollm2-135m-q4_1.gguf"},
                               Names{"qwen2.5-coder-1.5b-q4_k_m.gguf", "qwen2.5-coder-0.5b-q4_k_m.gguf"}}) {
        const std::string target = model_path(names.target);
        const std::string drafter = model_path(names.drafter);
        if (!std::ifstream(target).good() || !std::ifstream(drafter).good()) {
            GTEST_SKIP() << "needs " << target << " and " << drafter << " (tools/fetch_models.py)";
        }
        check_pair({target, drafter}, gbnf_of(kSchema), {3, 8}, 40, 2);
    }
}

}  // namespace
}  // namespace foresay::test
