// Tiny F32 models of each architecture against the reference engine's logits and greedy continuations
// (goldens/synthetic/README.md).
#include <algorithm>

#include "tests/conformance/test_models.h"

namespace foresay::test {
namespace {

struct Case {
    const char* name;
    float tolerance;
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name;
}

class SyntheticModel : public testing::TestWithParam<std::tuple<Case, const char*>> {};

TEST_P(SyntheticModel, LogitsAndGreedyTextEqualTheGoldens) {
    const auto& [c, device] = GetParam();
    const std::string base = shared_path(std::string("goldens/synthetic/") + c.name);
    if (!file_exists(base + ".json")) {
        GTEST_SKIP() << "no goldens at " << base;
    }
    const auto golden = read_json(base + ".json");
    Loaded m = load(base + ".gguf", device, 1, DType::kF32);
    ASSERT_NE(m.runner, nullptr);

    auto tokens = golden["prompt"].get<std::vector<int32_t>>();
    const auto logits = evaluate(*m.runner, tokens, tokens.size());
    ASSERT_EQ(logits.size(), tokens.size());
    const auto probe_ids = golden["probe_ids"].get<std::vector<size_t>>();
    float worst = 0.0F;
    for (size_t pos = 0; pos < logits.size(); ++pos) {
        const auto& expected = golden["positions"][pos];
        for (const auto& top : expected["top"]) {
            worst = std::max(worst, std::abs(logits[pos][top[0].get<size_t>()] - top[1].get<float>()));
        }
        for (size_t i = 0; i < probe_ids.size(); ++i) {
            worst = std::max(worst, std::abs(logits[pos][probe_ids[i]] - expected["probe"][i].get<float>()));
        }
    }
    EXPECT_LE(worst, c.tolerance);
    RecordProperty("worst_logit_difference", std::to_string(worst));

    auto last = logits.back();
    const auto greedy = golden["greedy"]["ids"].get<std::vector<int32_t>>();
    for (size_t k = 0; k < greedy.size(); ++k) {
        if (golden["greedy"]["gap"][k].get<float>() < 2.0F * worst) {
            break;  // a near-tie within the tolerance: texts may part here
        }
        const auto best = static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
        ASSERT_EQ(best, greedy[k]) << "greedy token " << k;
        const auto next =
            m.runner->forward(std::vector<model::Row>{{best, static_cast<int32_t>(tokens.size()), 0, true}});
        ASSERT_TRUE(next.has_value());
        tokens.push_back(best);
        last.assign((*next)[0].begin(), (*next)[0].end());
    }
}

INSTANTIATE_TEST_SUITE_P(
    Goldens, SyntheticModel,
    testing::Combine(testing::Values(Case{"llama", 5e-4F}, Case{"qwen2", 5e-4F}, Case{"qwen3", 5e-4F},
                                     Case{"gemma3", 1e-2F}, Case{"pair-llama-target", 5e-4F},
                                     Case{"pair-qwen3-target", 5e-4F}, Case{"phi3", 5e-4F}, Case{"qwen3moe", 5e-4F},
                                     Case{"gpt-oss", 5e-4F}, Case{"glm4moe", 5e-4F}, Case{"gemma4-e2b", 0.12F},
                                     Case{"gemma4-moe", 0.1F}, Case{"pair-gemma4-target", 0.03F}, Case{"lfm2", 5e-4F},
                                     Case{"lfm2moe", 5e-4F}, Case{"qwen35", 5e-4F}, Case{"qwen35moe", 5e-4F},
                                     Case{"qwen3next", 5e-4F}, Case{"pair-qwen35-nextn", 5e-4F}),
                     testing::Values("reference", "cpu")));

// The row contract on whole models: any chunking, slot, thread count and ISA gives the same bits as the reference
// backend.
struct Contract {
    const char* name;
    std::vector<int> threads;
    std::vector<size_t> chunks;
};

void PrintTo(const Contract& c, std::ostream* out) {
    *out << c.name;
}

class RowContract : public testing::TestWithParam<Contract> {};

TEST_P(RowContract, LogitsAreBitIdenticalForAnyBatchSlotThreadsAndIsa) {
    const Contract& c = GetParam();
    const std::string path = shared_path(std::string("goldens/synthetic/") + c.name + ".gguf");
    if (!file_exists(path)) {
        GTEST_SKIP() << "no goldens at " << path;
    }
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 90; ++i) {
        tokens.push_back((i * 37 + 11) % 256);
    }
    Loaded reference = load(path, "reference", 1, DType::kF16);
    ASSERT_NE(reference.runner, nullptr);
    const auto expected = evaluate(*reference.runner, tokens, tokens.size());
    for (const cpu::Isa isa : cpu::available_isas()) {
        for (const int n_threads : c.threads) {
            Loaded m = load(path, "cpu", 3, DType::kF16, 512, std::string(cpu::isa_name(isa)), n_threads);
            ASSERT_NE(m.runner, nullptr);
            for (const size_t chunk : c.chunks) {
                const auto got = evaluate(*m.runner, tokens, chunk, static_cast<int32_t>(chunk % 3));
                ASSERT_EQ(got, expected) << "isa " << cpu::isa_name(isa) << ", threads " << n_threads << ", chunk "
                                         << chunk;
            }
        }
    }
}

// The head over the first ids alone: the same bits for these, on each backend and in each layout of the weights.
TEST(HeadOfTheFirstIds, GivesTheSameBitsAsTheWholeHead) {
    for (const char* name : {"llama", "gemma3", "gpt-oss", "qwen35"}) {
        const std::string path = shared_path(std::string("goldens/synthetic/") + name + ".gguf");
        if (!file_exists(path)) {
            GTEST_SKIP() << "no goldens at " << path;
        }
        for (const char* device : {"reference", "cpu"}) {
            Loaded m = load(path, device, 1, DType::kF16);
            ASSERT_NE(m.runner, nullptr);
            const int32_t n_vocab = m.runner->model().hparams().n_vocab;
            const std::vector<model::Row> rows{{5, 0, 0, true}, {9, 1, 0, false}, {7, 2, 0, true}};
            const auto copy = [&](int32_t n_head) {
                auto logits = m.runner->forward(rows, n_head);
                EXPECT_TRUE(logits.has_value()) << logits.error().to_string();
                std::vector<std::vector<float>> result;
                for (const auto& row : *logits) {
                    result.emplace_back(row.begin(), row.end());
                }
                return result;
            };
            const auto whole = copy(0);
            ASSERT_EQ(whole[0].size(), static_cast<size_t>(n_vocab));
            for (const int32_t n : {1, 17, 64, n_vocab - 1, n_vocab, n_vocab + 1}) {
                const auto part = copy(n);
                ASSERT_EQ(part.size(), 2U);
                for (size_t i = 0; i < part.size(); ++i) {
                    ASSERT_EQ(part[i].size(), static_cast<size_t>(std::min(n, n_vocab)));
                    EXPECT_TRUE(std::equal(part[i].begin(), part[i].end(), whole[i].begin()))
                        << name << " on " << device << ", " << n << " ids";
                }
            }
            ASSERT_EQ(copy(0), whole) << "and back";
        }
    }
}

std::vector<Contract> contracts() {
    std::vector<Contract> all;
    for (const char* name : {"llama", "qwen2", "qwen3", "gemma3"}) {
        all.push_back({name, {1, 2, 3}, {1, 4, 7, 64, 90}});
    }
    // The rest differ in ops, not in how work is split: one thread, fewer widths (threads: backend/cpu/experts_test).
    for (const char* name : {"phi3", "qwen3moe", "gpt-oss", "glm4moe", "gemma4-e2b", "gemma4-moe", "lfm2", "lfm2moe",
                             "qwen35", "qwen35moe", "qwen3next"}) {
        all.push_back({name, {1}, {1, 7, 90}});
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(Goldens, RowContract, testing::ValuesIn(contracts()));

}  // namespace
}  // namespace foresay::test
