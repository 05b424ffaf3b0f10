// Real models against goldens/real-models: greedy continuations of the reference engine and KL divergence to the
// float32 oracle (goldens/README.md, "How to judge an engine"), and the row contract on real weights.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/conformance/test_models.h"

namespace foresay::test {
namespace {

double log_sum_exp(const std::vector<float>& logits) {
    const double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0.0;
    for (const float value : logits) {
        sum += std::exp(value - top);
    }
    return top + std::log(sum);
}

/// KL(oracle || q) over the oracle's ten best and one bucket for the rest: the same measure for us and for the peer.
double truncated_kl(const std::vector<std::pair<size_t, double>>& oracle_top, const std::vector<double>& log_q) {
    double kl = 0.0;
    double p_rest = 1.0;
    double q_rest = 1.0;
    for (size_t i = 0; i < oracle_top.size(); ++i) {
        const double log_p = oracle_top[i].second;
        kl += std::exp(log_p) * (log_p - log_q[i]);
        p_rest -= std::exp(log_p);
        q_rest -= std::exp(log_q[i]);
    }
    if (p_rest > 1e-6 && q_rest > 1e-9) {
        kl += p_rest * (std::log(p_rest) - std::log(q_rest));
    }
    return kl;
}

class RealModel : public testing::TestWithParam<const char*> {};

// A gap under this is a near-tie between quantised engines (goldens/README.md).
constexpr float kNearTie = 0.5F;

TEST_P(RealModel, KlToTheOracleIsNotAboveThePeersAndGreedyTextAgrees) {
    const std::string name = GetParam();
    const std::string path = model_path(name + ".gguf");
    const std::string golden_path = shared_path("goldens/real-models/" + name + ".json");
    if (!file_exists(path) || !file_exists(golden_path)) {
        GTEST_SKIP() << "needs " << path << " (tools/fetch_models.py) and " << golden_path;
    }
    const auto golden = read_json(golden_path);
    Loaded m = load(path, "cpu");
    ASSERT_NE(m.runner, nullptr);
    double ours = 0.0;
    double peer = 0.0;
    double ours_without_last = 0.0;
    double peer_without_last = 0.0;
    int n_positions = 0;
    int n_compared = 0;
    const size_t n_prompts = golden["prompts"].size();
    for (size_t i_prompt = 0; i_prompt < n_prompts; ++i_prompt) {
        const auto& prompt = golden["prompts"][i_prompt];
        auto tokens = prompt["ids"].get<std::vector<int32_t>>();
        const auto greedy = prompt["greedy"].get<std::vector<int32_t>>();
        const size_t n_prompt = tokens.size();
        tokens.insert(tokens.end(), greedy.begin(), greedy.end() - 1);
        const auto logits = evaluate(*m.runner, tokens, 64, 0, n_prompt - 1);
        ASSERT_GE(logits.size(), greedy.size());
        const size_t skip = logits.size() - greedy.size();
        for (size_t k = 0; k < greedy.size(); ++k) {
            const auto& row = logits[skip + k];
            const double lse = log_sum_exp(row);
            std::vector<std::pair<size_t, double>> top;
            std::vector<double> log_q;
            std::vector<double> peer_q = prompt["peer_step_logprob_at_oracle_top"][k].get<std::vector<double>>();
            for (const auto& entry : prompt["oracle"][k]["top"]) {
                top.emplace_back(entry[0].get<size_t>(), entry[1].get<double>());
                log_q.push_back(row[top.back().first] - lse);
            }
            const double our_kl = truncated_kl(top, log_q);
            const double peer_kl = truncated_kl(top, peer_q);
            ours += our_kl;
            peer += peer_kl;
            if (i_prompt + 1 < n_prompts) {
                ours_without_last += our_kl;
                peer_without_last += peer_kl;
            }
            ++n_positions;
            const auto best = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
            const auto listed = [&](const char* key) {
                const auto at = prompt[key].get<std::vector<size_t>>();
                return std::find(at.begin(), at.end(), k) != at.end();
            };
            if (prompt["steps"][k]["gap"].get<float>() < kNearTie || listed("batch_top1_differs_at") ||
                listed("oracle_top1_differs_at")) {
                continue;  // a near-tie; the prefix is the golden one (teacher-forced), so later picks still compare
            }
            EXPECT_EQ(best, greedy[k]) << name << " prompt " << i_prompt << " token " << k;
            ++n_compared;
        }
    }
    const int n_last = static_cast<int>(golden["prompts"][n_prompts - 1]["greedy"].size());
    std::printf(
        "%s: mean KL to the oracle %.6f, peer %.6f; without the one-token prompt %.6f, peer %.6f; %d picks compared\n",
        name.c_str(), ours / n_positions, peer / n_positions, ours_without_last / (n_positions - n_last),
        peer_without_last / (n_positions - n_last), n_compared);
    EXPECT_GT(n_compared, 50);
    EXPECT_LE(ours, peer);
    EXPECT_LE(ours_without_last, peer_without_last);
}

TEST_P(RealModel, LogitsDontDependOnTheBatch) {
    const std::string name = GetParam();
    const std::string path = model_path(name + ".gguf");
    const std::string golden_path = shared_path("goldens/real-models/" + name + ".json");
    if (!file_exists(path) || !file_exists(golden_path)) {
        GTEST_SKIP() << "needs " << path << " (tools/fetch_models.py) and " << golden_path;
    }
    const auto golden = read_json(golden_path);
    auto tokens = golden["prompts"][0]["ids"].get<std::vector<int32_t>>();
    const auto greedy = golden["prompts"][0]["greedy"].get<std::vector<int32_t>>();
    tokens.insert(tokens.end(), greedy.begin(), greedy.end());
    tokens.resize(33);
    Loaded m = load(path, "cpu", 2);
    ASSERT_NE(m.runner, nullptr);
    const auto one_by_one = evaluate(*m.runner, tokens, 1);
    for (const size_t chunk : {size_t{2}, size_t{5}, size_t{16}, size_t{33}}) {
        ASSERT_EQ(evaluate(*m.runner, tokens, chunk, 1), one_by_one) << "chunk " << chunk;
    }
    const cpu::Isa best = dynamic_cast<cpu::CpuBackend&>(*m.backend).isa();
    for (const cpu::Isa isa : cpu::available_isas()) {
        if (isa == best || isa == cpu::Isa::kPortable) {
            continue;  // the portable path is covered by the tiny models: it is too slow here
        }
        m = Loaded{};
        m = load(path, "cpu", 1, DType::kF16, 512, std::string(cpu::isa_name(isa)), 1);
        ASSERT_EQ(evaluate(*m.runner, tokens, 5), one_by_one) << cpu::isa_name(isa);
    }
}

INSTANTIATE_TEST_SUITE_P(Files, RealModel,
                         testing::Values("smollm2-135m-q4_1", "gemma3-270m-q4_k_m", "qwen2.5-coder-0.5b-q4_k_m",
                                         "qwen2.5-coder-1.5b-q4_k_m"));

}  // namespace
}  // namespace foresay::test
