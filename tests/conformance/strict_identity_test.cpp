// Promise 1: with strict acceptance, ids, text and log-probabilities are those of plain decoding, bit for bit: for any
// drafter (itself, a perturbed copy of itself, a smaller sibling, n-grams), any n_max, greedy or sampled, any threads,
// slots, ISA and prompt chunk size.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <span>

#include <unistd.h>

#include "backend/cpu/cpu_backend.h"
#include "base/test_paths.h"
#include "gguf/gguf.h"
#include "tests/conformance/engine_harness.h"

namespace foresay::test {
namespace {

const char* const kCode = "def quicksort(items):\n    \"\"\"Sort a list.\"\"\"\n";
const char* const kLetter = "Dear Sir or Madam,\n\nI am writing to";
const char* const kArticle = "# How to choose a database\n\nThere are many";
const char* const kProse = "Once upon a time, in a small village by the sea, there lived an old";

/// A copy of a Q4_1 model whose feed-forward scales are off by up to six percent: a drafter that is often, not always,
/// right.
std::string perturbed_copy(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto file = gguf::File::from_bytes(std::as_bytes(std::span(bytes)));
    EXPECT_TRUE(file.has_value());
    std::mt19937 random(7);
    std::uniform_int_distribution<int> step(-1, 1);
    constexpr size_t kBlockBytes = 20;  // Q4_1: starts with its f16 scale
    constexpr int kSixPercent = 64;     // of an f16 mantissa
    for (const gguf::TensorInfo& tensor : (*file)->tensors()) {
        if (tensor.type != static_cast<int32_t>(DType::kQ4_1) || tensor.name.find("ffn") == std::string::npos) {
            continue;
        }
        char* data = bytes.data() + (reinterpret_cast<const char*>(tensor.data.data()) - bytes.data());
        for (size_t at = 0; at + kBlockBytes <= tensor.bytes; at += kBlockBytes) {
            uint16_t scale = 0;
            std::memcpy(&scale, data + at, sizeof(scale));
            scale = static_cast<uint16_t>(scale + step(random) * kSixPercent);
            std::memcpy(data + at, &scale, sizeof(scale));
        }
    }
    const std::string copy =
        (std::filesystem::temp_directory_path() / ("foresay-perturbed-" + std::to_string(getpid()) + ".gguf")).string();
    std::ofstream(copy, std::ios::binary) << bytes;
    return copy;
}

engine::EngineOptions options_for(const std::string& target, const std::string& drafter = "") {
    engine::EngineOptions options;
    options.model = target;
    options.n_ctx = 512;
    options.n_threads = 2;
    options.spec.n_max = drafter.empty() ? 0 : 16;
    if (!drafter.empty() && drafter != "ngram") {
        options.spec.types = {engine::SpecType::kDraftSimple};
        options.spec.draft_model = drafter;
        if (drafter == target) {
            options.spec.draft_vocab = std::numeric_limits<int32_t>::max();  // only then it is always right
        }
    } else if (drafter == "ngram") {
        options.spec.types = {engine::SpecType::kNgramSimple};
        options.spec.ngram.simple.size_n = 2;
        options.spec.ngram.simple.size_m = 16;
    }
    return options;
}

#define REQUIRE_MODEL(path)                                               \
    if (!std::ifstream(path).good()) {                                    \
        GTEST_SKIP() << "needs " << (path) << " (tools/fetch_models.py)"; \
    }

struct Job {
    const char* prompt;
    float temperature;
};

const Job kJobs[] = {{kCode, 0.0F}, {kProse, 0.8F}};

std::vector<Text> plain_texts(engine::Engine& engine, int32_t n_predict) {
    std::vector<Text> texts;
    for (const Job& job : kJobs) {
        auto request = request_for(engine, job.prompt, n_predict, job.temperature);
        request.spec.n_max = 0;
        texts.push_back(generate(engine, request)->text());
        EXPECT_GE(texts.back().ids.size(), 1U);
    }
    return texts;
}

/// Every job at every n_max against the plain texts; returns drafted and accepted counts over all.
std::pair<int, int> expect_strict(engine::Engine& engine, const std::vector<Text>& plain, int32_t n_predict,
                                  std::vector<int32_t> n_maxs) {
    int drafted = 0;
    int accepted = 0;
    for (const int32_t n_max : n_maxs) {
        for (size_t i = 0; i < std::size(kJobs); ++i) {
            auto request = request_for(engine, kJobs[i].prompt, n_predict, kJobs[i].temperature);
            request.spec.n_max = n_max;
            const auto got = generate(engine, request);
            EXPECT_EQ(got->text(), plain[i]) << "n_max " << n_max << ", temperature " << kJobs[i].temperature
                                             << "\nplain: " << plain[i].text << "\n  got: " << got->text().text;
            drafted += got->result().timings.draft_n;
            accepted += got->result().timings.draft_n_accepted;
        }
    }
    return {drafted, accepted};
}

std::vector<int32_t> one_to_sixteen() {
    std::vector<int32_t> n;
    for (int32_t i = 1; i <= 16; ++i) {
        n.push_back(i);
    }
    return n;
}

TEST(StrictIdentity, SmolLm2WithItselfAPerturbedCopyAndNgrams) {
    const std::string target = model_path("smollm2-135m-q4_1.gguf");
    REQUIRE_MODEL(target);
    const auto plain_engine = make_engine(options_for(target));
    const auto plain = plain_texts(*plain_engine, 40);
    {
        const auto twin = make_engine(options_for(target, target));
        const auto [drafted, accepted] = expect_strict(*twin, plain, 40, one_to_sixteen());
        EXPECT_GT(drafted, 0);
        EXPECT_EQ(accepted, drafted) << "a drafter that is the target draws the same tokens";
    }
    {
        // Choosing among a few ids alone makes worse drafts, never another text.
        auto options = options_for(target, target);
        options.spec.draft_vocab = 1000;
        const auto narrow = make_engine(options);
        const auto [drafted, accepted] = expect_strict(*narrow, plain, 40, {1, 3, 8});
        EXPECT_GT(accepted, 0);
        EXPECT_LT(accepted, drafted);
    }
    {
        const std::string copy = perturbed_copy(target);
        const auto perturbed = make_engine(options_for(target, copy));
        const auto [drafted, accepted] = expect_strict(*perturbed, plain, 40, {1, 2, 3, 4, 6, 8, 11, 16});
        EXPECT_GT(accepted, 0);
        EXPECT_LT(accepted, drafted) << "the perturbation should cause rejects, or this test shows nothing";
        std::filesystem::remove(copy);
    }
    const auto ngram = make_engine(options_for(target, "ngram"));
    const auto [drafted, accepted] = expect_strict(*ngram, plain, 40, {1, 2, 3, 5, 8, 16});
    EXPECT_GT(drafted, 0);
    (void)accepted;
}

TEST(StrictIdentity, SmolLm2ThreadsIsasAndPromptChunks) {
    const std::string target = model_path("smollm2-135m-q4_1.gguf");
    REQUIRE_MODEL(target);
    const auto plain = plain_texts(*make_engine(options_for(target)), 24);
    for (const int n_threads : {1, 2, 3}) {
        auto options = options_for(target, target);
        options.n_threads = n_threads;
        expect_strict(*make_engine(options), plain, 24, {3, 8});
    }
    for (const cpu::Isa isa : cpu::available_isas()) {
        if (isa == cpu::Isa::kPortable) {
            continue;  // covered by the tiny models; minutes here
        }
        auto options = options_for(target, target);
        options.cpu_isa = std::string(cpu::isa_name(isa));
        expect_strict(*make_engine(options), plain, 24, {3, 8});
    }
    for (const int32_t n_ubatch : {1, 7, 512}) {
        auto options = options_for(target, target);
        options.n_ubatch = n_ubatch;
        expect_strict(*make_engine(options), plain, 24, {4});
    }
}

TEST(StrictIdentity, FourBusySlotsEqualOneAlone) {
    const std::string target = model_path("smollm2-135m-q4_1.gguf");
    REQUIRE_MODEL(target);
    const Job jobs[] = {{kCode, 0.0F}, {kCode, 0.8F}, {kProse, 0.0F}, {kProse, 0.8F}};
    std::vector<Text> plain;
    {
        const auto plain_engine = make_engine(options_for(target));
        for (const Job& job : jobs) {
            plain.push_back(
                generate(*plain_engine, request_for(*plain_engine, job.prompt, 32, job.temperature))->text());
        }
    }
    auto options = options_for(target, target);
    options.n_parallel = 4;
    options.n_ctx = 2048;
    const auto engine = make_engine(options);
    for (int round = 0; round < 3; ++round) {
        std::vector<std::shared_ptr<Collector>> sinks;
        for (size_t i = 0; i < std::size(jobs); ++i) {
            auto request = request_for(*engine, jobs[i].prompt, 32, jobs[i].temperature);
            request.spec.n_max = 1 + (static_cast<int32_t>(i) + round) * 3 % 9;
            sinks.push_back(submit(*engine, request));
        }
        for (size_t i = 0; i < sinks.size(); ++i) {
            sinks[i]->wait();
            EXPECT_EQ(sinks[i]->text(), plain[i]) << "round " << round << ", slot " << sinks[i]->result().slot;
        }
    }
    EXPECT_GT(engine->metrics().n_busy_slots_total, engine->metrics().n_decode_total)
        << "slots should have shared passes";
}

TEST(StrictIdentity, PrefixReuseAndContextShiftKeepTheText) {
    const std::string target = model_path("smollm2-135m-q4_1.gguf");
    REQUIRE_MODEL(target);
    auto options = options_for(target);
    options.n_ctx = 256;
    options.context_shift = true;
    const auto plain_engine = make_engine(options);
    auto request = request_for(*plain_engine, kProse, 400, 0.0F);
    request.n_keep = 4;
    request.sampling.ignore_eos = true;
    const auto plain = generate(*plain_engine, request);
    EXPECT_TRUE(plain->result().truncated);
    EXPECT_EQ(plain->text().ids.size(), 400U);
    auto spec_options = options_for(target, target);
    spec_options.n_ctx = 256;
    spec_options.context_shift = true;
    const auto spec_engine = make_engine(spec_options);
    for (const int32_t n_max : {1, 4, 16}) {
        request.spec.n_max = n_max;
        request.cache_prompt = true;
        const auto got = generate(*spec_engine, request);
        EXPECT_EQ(got->text(), plain->text()) << "n_max " << n_max;
        EXPECT_GE(got->result().timings.draft_n_accepted, 199) << "a drafter that is the target is always right";
    }
}

TEST(StrictIdentity, Gemma3) {
    const std::string target = model_path("gemma3-270m-q4_k_m.gguf");
    REQUIRE_MODEL(target);
    const auto plain = plain_texts(*make_engine(options_for(target)), 24);
    const auto twin = make_engine(options_for(target, target));
    const auto [drafted, accepted] = expect_strict(*twin, plain, 24, {1, 2, 3, 4, 7, 8, 12, 16});
    EXPECT_GT(drafted, 0);
    EXPECT_EQ(accepted, drafted);
    const auto ngram = make_engine(options_for(target, "ngram"));
    expect_strict(*ngram, plain, 24, {2, 8});
}

TEST(StrictIdentity, QwenPair) {
    const std::string target = model_path("qwen2.5-coder-1.5b-q4_k_m.gguf");
    const std::string drafter = model_path("qwen2.5-coder-0.5b-q4_k_m.gguf");
    REQUIRE_MODEL(target);
    REQUIRE_MODEL(drafter);
    const auto engine = make_engine(options_for(target, drafter));
    // n_max 0 on this engine is plain decoding: no drafter runs, no verify block is formed.
    const auto plain = plain_texts(*engine, 24);
    const auto [drafted, accepted] = expect_strict(*engine, plain, 24, one_to_sixteen());
    EXPECT_GT(accepted, 0);
    EXPECT_LT(accepted, drafted);
}

// Shared noise (sampling.md 11.1): at temperature 0.8 a drafter that draws with the target's noise is accepted far more
// often than a greedy one, and the text is that of plain decoding either way.
TEST(SharedNoise, AcceptanceAtTemperatureIsWellAboveAGreedyDrafters) {
    const std::string target = model_path("qwen2.5-coder-1.5b-q4_k_m.gguf");
    const std::string drafter = model_path("qwen2.5-coder-0.5b-q4_k_m.gguf");
    REQUIRE_MODEL(target);
    REQUIRE_MODEL(drafter);
    double rates[2] = {0.0, 0.0};
    std::vector<Text> texts[2];
    for (const bool probabilistic : {false, true}) {
        auto options = options_for(target, drafter);
        options.spec.probabilistic = probabilistic;
        const auto engine = make_engine(options);
        int drafted = 0;
        int accepted = 0;
        for (uint32_t seed = 1; seed <= 4; ++seed) {
            auto request = request_for(*engine, seed % 2 == 0 ? kLetter : kArticle, 48, 0.8F, seed);
            request.spec.n_max = 4;
            request.sampling.ignore_eos = true;
            const auto got = generate(*engine, request);
            drafted += got->result().timings.draft_n;
            accepted += got->result().timings.draft_n_accepted;
            texts[probabilistic ? 1 : 0].push_back(got->text());
        }
        rates[probabilistic ? 1 : 0] = static_cast<double>(accepted) / drafted;
    }
    std::printf("acceptance at temperature 0.8: greedy drafter %.3f, shared noise %.3f\n", rates[0], rates[1]);
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_GT(rates[1], rates[0] * 1.15);
}

}  // namespace
}  // namespace foresay::test
