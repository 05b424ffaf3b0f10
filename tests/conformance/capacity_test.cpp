// Promise 4 end to end: every target with every drafter that fits it, n_max from 1 to 64, starts, answers and gives
// plain decoding's text; the scheduler starts with a table far too small for the model and grows.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/log.h"
#include "base/test_paths.h"
#include "model/runner.h"
#include "spec/pair.h"
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

// 9 and 10: where a table that was sized once for a mixture-of-experts target with a DSpark drafter ran over.
constexpr std::array<int32_t, 9> kNMax{1, 2, 4, 8, 9, 10, 16, 33, 64};

std::vector<std::string> models_in(const std::string& folder) {
    std::vector<std::string> paths;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
        if (entry.path().extension() == ".gguf") {
            paths.push_back(entry.path().string());
        }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

/// What drafts for a target: a file (empty: none, or the target's own), and the type.
struct Drafter {
    std::string path;
    engine::SpecType type = engine::SpecType::kNone;
};

/// The target itself as a small model, n-gram types, and every file made to draft that the start-up check lets pass.
std::vector<Drafter> drafters_of(const std::string& target, const std::vector<std::string>& files) {
    using engine::SpecType;
    std::vector<Drafter> all{{target, SpecType::kDraftSimple}, {"", SpecType::kNgramSimple},
                             {"", SpecType::kNgramMapK},       {"", SpecType::kNgramMapK4v},
                             {"", SpecType::kNgramMod},        {"", SpecType::kNgramCache},
                             {"", SpecType::kNgramSuffix}};
    const auto target_file = gguf::File::open(target);
    if (spec::check_pair(**target_file, **target_file, "draft-mtp").fits()) {
        all.push_back({"", SpecType::kDraftMtp});
    }
    for (const std::string& path : files) {
        const auto file = gguf::File::open(path);
        const auto type = spec::spec_type_of(spec::detect_type(**file));
        if (path != target && type != SpecType::kDraftSimple && type != SpecType::kDraftMtp &&
            spec::check_pair(**target_file, **file).fits()) {
            all.push_back({path, *type});
        } else if (path.find("assistant") != std::string::npos && spec::check_pair(**target_file, **file).fits()) {
            all.push_back({path, SpecType::kDraftMtp});
        }
    }
    return all;
}

engine::EngineOptions options_for(const std::string& target, const Drafter& drafter, int32_t n_max) {
    engine::EngineOptions options;
    options.model = target;
    options.n_ctx = 256;
    options.n_threads = 1;
    if (drafter.type == engine::SpecType::kNone) {
        return options;
    }
    options.spec.types = {drafter.type};
    options.spec.draft_model = drafter.path;
    options.spec.n_max = n_max;
    options.spec.ngram.simple = options.spec.ngram.map_k = options.spec.ngram.map_k4v = {2, n_max, 1};
    options.spec.ngram.mod_n_match = 2;
    options.spec.ngram.mod_n_min = 0;
    options.spec.ngram.mod_n_max = n_max;
    options.spec.ngram.suffix_min_match = 1;
    options.spec.ngram.suffix_n_max = n_max;
    return options;
}

/// A prompt that repeats itself, so that n-gram types draft too. Long drafts need texts with room for them.
engine::Request request_for_n_max(int32_t n_max) {
    engine::Request request;
    for (int32_t i = 0; i < 36; ++i) {
        request.prompt.push_back(97 + i % 9 * 2);
    }
    request.n_predict = n_max > 16 ? n_max + 6 : 22;
    request.sampling.temperature = 0.0F;
    request.sampling.ignore_eos = true;
    request.n_probs = 1;
    request.cache_prompt = false;
    return request;
}

std::string name_of(const std::string& path) {
    return path.empty() ? "-" : std::filesystem::path(path).stem().string();
}

// One test drives all. Which slot drafts doesn't matter, and what can't work is refused with a sentence.
void drive_all(const std::string& folder, size_t least_targets) {
    const auto files = models_in(folder);
    size_t n_targets = 0;
    size_t n_runs = 0;
    std::map<engine::SpecType, int64_t> drafted_by_type;
    for (const std::string& target : files) {
        const auto file = gguf::File::open(target);
        ASSERT_TRUE(file.has_value());
        if (!model::unsupported_reasons(**file).empty() ||
            model::find_architecture(*(*file)->string("general.architecture"))->build == nullptr) {
            continue;  // a drafter
        }
        ++n_targets;
        std::map<int32_t, Text> plain;
        const auto plain_engine = make_engine(options_for(target, {}, 0));
        for (const int32_t n_max : kNMax) {
            plain[n_max] = generate(*plain_engine, request_for_n_max(n_max))->text();
        }
        auto shifting = options_for(target, {}, 0);
        shifting.context_shift = true;
        const auto shifted = engine::Engine::create(shifting);
        if (!shifted.has_value()) {
            EXPECT_NE(shifted.error().message.find("can't be shifted"), std::string::npos) << target;
        }
        for (const Drafter& drafter : drafters_of(target, files)) {
            int64_t drafted = 0;
            int64_t accepted = 0;
            std::string figures;
            for (const int32_t n_max : kNMax) {
                auto options = options_for(target, drafter, n_max);
                if (n_max == 4) {
                    options.n_parallel = 4;
                    options.n_ctx *= 4;
                }
                const auto engine = make_engine(options);
                ASSERT_NE(engine, nullptr) << target << " + " << drafter.path << ", n_max " << n_max;
                auto request = request_for_n_max(n_max);
                request.id_slot = 0;
                const auto got = generate(*engine, request);
                ASSERT_EQ(got->text(), plain[n_max]) << target << " + " << drafter.path << ", n_max " << n_max;
                const auto& timings = got->result().timings;
                EXPECT_LE(timings.draft_n_accepted, timings.draft_n);
                drafted += timings.draft_n;
                accepted += timings.draft_n_accepted;
                if (n_max == 4) {
                    request.id_slot = 3;
                    const auto last = generate(*engine, request);
                    EXPECT_EQ(last->text(), plain[n_max]) << target << " + " << drafter.path << ", slot 3";
                    EXPECT_EQ(last->result().timings.draft_n, timings.draft_n) << target << " + " << drafter.path;
                    EXPECT_EQ(last->result().timings.draft_n_accepted, timings.draft_n_accepted);
                }
                const auto metrics = engine->metrics();
                EXPECT_GT(metrics.sched_n_nodes, 0U);
                figures = std::to_string(metrics.sched_n_nodes) + " nodes + " + std::to_string(metrics.sched_n_leafs) +
                          " leafs in a table of " + std::to_string(metrics.sched_hash_capacity) + ", grown " +
                          std::to_string(metrics.sched_growths_total) + " times, " +
                          std::to_string(metrics.sched_plans_built_total) + " plans";
                ++n_runs;
            }
            // A text that never repeats gives n-gram types nothing to find: they must draft for some target.
            if (spec::is_draft_model(drafter.type)) {
                EXPECT_GT(drafted, 0) << target << " + " << drafter.path;
            }
            drafted_by_type[drafter.type] += drafted;
            std::printf("%-18s %-13s %-18s %5lld drafted %5lld accepted; n_max 64: %s\n", name_of(target).c_str(),
                        std::string(spec::name_of(drafter.type)).c_str(), name_of(drafter.path).c_str(),
                        static_cast<long long>(drafted), static_cast<long long>(accepted), figures.c_str());
        }
    }
    std::printf("%zu targets, %zu configurations\n", n_targets, n_runs);
    EXPECT_GE(n_targets, least_targets);
    for (const auto& [type, drafted] : drafted_by_type) {
        EXPECT_GT(drafted, 0) << spec::name_of(type);
    }
}

class QuietLog : public testing::Test {
  protected:
    void SetUp() override { log::configure({log::Level::kError, true, true, false, ""}); }

    void TearDown() override { log::configure({}); }
};

TEST_F(QuietLog, EveryTargetWithEveryDrafterAtEveryNMax) {
    const std::string folder = shared_path("goldens/synthetic");
    if (!std::filesystem::exists(folder)) {
        GTEST_SKIP() << "no goldens at " << folder;
    }
    drive_all(folder, 18);
}

TEST_F(QuietLog, EveryPairOfTheSecondSetAtEveryNMax) {
    const std::string folder = model_path("synthetic-pairs");
    if (!std::filesystem::exists(folder)) {
        GTEST_SKIP() << "no models in " << folder << ": tools/make_synthetic.sh makes them";
    }
    drive_all(folder, 14);
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
