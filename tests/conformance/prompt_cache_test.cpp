// What slots keep and hand on: prefixes taken over from other slots, choices that share a prompt, contexts that were
// shifted, slot files. One rule everywhere: reuse changes the time, never the text.
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>

#include "base/test_paths.h"
#include "tests/conformance/engine_harness.h"

namespace foresay::test {
namespace {

class PromptCache : public testing::Test {
  protected:
    void SetUp() override {
        path_ = shared_path("goldens/synthetic/pair-llama-target.gguf");
        if (!std::ifstream(path_).good()) {
            GTEST_SKIP() << "no goldens at " << path_;
        }
        folder_ = std::filesystem::temp_directory_path() / ("foresay-slots-" + std::to_string(::getpid()));
        std::filesystem::create_directories(folder_);
    }

    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::unique_ptr<engine::Engine> engine(int32_t n_parallel, bool shift = false) const {
        engine::EngineOptions options;
        options.model = path_;
        options.n_ctx = 256 * n_parallel;
        options.n_parallel = n_parallel;
        options.n_threads = 2;
        options.context_shift = shift;
        options.spec.draft_model = path_;
        options.spec.n_max = 4;
        return make_engine(options);
    }

    static engine::Request request(int32_t n_prompt, int32_t n_predict, int32_t salt = 7) {
        engine::Request request;
        for (int32_t i = 0; i < n_prompt; ++i) {
            request.prompt.push_back(97 + (i * i + salt) % 26);
        }
        request.n_predict = n_predict;
        request.sampling.temperature = 0.9F;
        request.sampling.seed = 5;
        request.sampling.ignore_eos = true;
        request.n_probs = 1;
        return request;
    }

    static Text alone(engine::Engine& engine, engine::Request request) {
        request.cache_prompt = false;
        return generate(engine, std::move(request))->text();
    }

    static Result<engine::SlotFileResult> act(engine::Engine& engine, engine::SlotAction action, int slot,
                                              const std::string& path) {
        std::promise<Result<engine::SlotFileResult>> promise;
        auto future = promise.get_future();
        const Status queued =
            engine.slot_action(action, slot, path, [&](auto result) { promise.set_value(std::move(result)); });
        if (!queued.has_value()) {
            return queued.error();
        }
        return future.get();
    }

    std::string path_;
    std::filesystem::path folder_;
};

TEST_F(PromptCache, APrefixInAnotherSlotIsTakenOver) {
    const auto engine = this->engine(2);
    auto first = request(60, 12);
    first.id_slot = 0;
    generate(*engine, first);
    auto second = request(60, 12);
    second.id_slot = 1;
    const auto got = generate(*engine, second);
    EXPECT_EQ(got->result().slot, 1);
    EXPECT_EQ(got->result().timings.cache_n, 59);
    EXPECT_EQ(got->result().timings.prompt_n, 1);
    EXPECT_EQ(got->text(), alone(*engine, request(60, 12)));
}

TEST_F(PromptCache, ChoicesOfOnePromptEvaluateItOnce) {
    const auto engine = this->engine(3);
    std::vector<std::shared_ptr<Collector>> sinks;
    std::vector<engine::Request> requests;
    for (uint32_t choice = 0; choice < 3; ++choice) {
        requests.push_back(request(80, 16));
        requests.back().sampling.seed = 100 + choice;
        requests.back().prompt_group = 1;
        sinks.push_back(submit(*engine, requests.back()));
    }
    int32_t evaluated = 0;
    for (const auto& sink : sinks) {
        sink->wait();
        ASSERT_FALSE(sink->error().has_value());
        evaluated += sink->result().timings.prompt_n;
    }
    EXPECT_EQ(evaluated, 80 + 1 + 1);
    for (size_t i = 0; i < sinks.size(); ++i) {
        EXPECT_EQ(sinks[i]->text(), alone(*engine, requests[i])) << i;
    }
}

TEST_F(PromptCache, CellsThatWereMovedByAShiftAreNotReused) {
    const auto engine = this->engine(1, true);
    auto longer = request(40, 300);
    longer.n_keep = 4;
    const auto sink = generate(*engine, longer);
    ASSERT_TRUE(sink->result().truncated);
    // A prompt that equals what the slot holds now: kept tokens, then the tail of the text.
    engine::Request next = request(40, 8);
    next.prompt.resize(4);
    const auto& ids = sink->text().ids;
    next.prompt.insert(next.prompt.end(), ids.end() - 60, ids.end());
    const Text fresh = alone(*engine, next);
    generate(*engine, longer);
    EXPECT_EQ(generate(*engine, next)->text(), fresh);
}

TEST_F(PromptCache, ChunksMoveOnlyWhenAsked) {
    const auto engine = this->engine(1);
    const auto whole = request(90, 4);
    generate(*engine, whole);
    auto without_middle = whole;
    without_middle.prompt.erase(without_middle.prompt.begin() + 20, without_middle.prompt.begin() + 30);
    without_middle.n_cache_reuse = 16;
    EXPECT_EQ(generate(*engine, without_middle)->result().timings.cache_n, 79);
    // What was moved must not pass for evaluated afresh.
    without_middle.n_cache_reuse = 0;
    const auto strict = generate(*engine, without_middle);
    EXPECT_LE(strict->result().timings.cache_n, 20);
    EXPECT_EQ(strict->text(), alone(*engine, without_middle));
}

TEST_F(PromptCache, ASavedSlotComesBackWithTheSameText) {
    const std::string file = folder_ / "slot.bin";
    const auto next = [](const Text& text) {
        auto request = PromptCache::request(50, 20);
        request.prompt.insert(request.prompt.end(), text.ids.begin(), text.ids.end());
        request.prompt.push_back(99);
        return request;
    };
    Text expected;
    Text first;
    {
        const auto engine = this->engine(2);
        const auto sink = generate(*engine, request(50, 20));
        first = sink->text();
        const auto saved = act(*engine, engine::SlotAction::kSave, sink->result().slot, file);
        ASSERT_TRUE(saved.has_value()) << saved.error().to_string();
        EXPECT_EQ(saved->n_tokens, sink->result().tokens_cached);
        EXPECT_EQ(saved->n_bytes, std::filesystem::file_size(file));

        struct stat info {};

        ASSERT_EQ(::stat(file.c_str(), &info), 0);
        EXPECT_EQ(info.st_mode & 0777U, 0600U);
        expected = alone(*engine, next(first));
    }
    const auto engine = this->engine(2);
    const auto restored = act(*engine, engine::SlotAction::kRestore, 1, file);
    ASSERT_TRUE(restored.has_value()) << restored.error().to_string();
    EXPECT_EQ(restored->n_bytes, std::filesystem::file_size(file));
    auto request = next(first);
    request.id_slot = 1;
    const auto sink = generate(*engine, request);
    EXPECT_EQ(sink->result().timings.cache_n, restored->n_tokens);
    EXPECT_EQ(sink->text(), expected);
    const auto erased = act(*engine, engine::SlotAction::kErase, 1, "");
    ASSERT_TRUE(erased.has_value());
    EXPECT_EQ(erased->n_tokens, sink->result().tokens_cached);
    EXPECT_EQ(generate(*engine, request)->result().timings.cache_n, 0);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "no temporary file stays";
}

TEST_F(PromptCache, DamagedAndForeignFilesAreRefusedAndTheSlotStaysUsable) {
    const std::string file = folder_ / "slot.bin";
    const auto engine = this->engine(1);
    const Text expected = generate(*engine, request(50, 20))->text();
    ASSERT_TRUE(act(*engine, engine::SlotAction::kSave, 0, file).has_value());
    std::ifstream in(file, std::ios::binary);
    const std::string good((std::istreambuf_iterator<char>(in)), {});
    const auto refused = [&](const std::string& bytes, const std::string& part) {
        std::ofstream(folder_ / "bad.bin", std::ios::binary) << bytes;
        const auto result = act(*engine, engine::SlotAction::kRestore, 0, folder_ / "bad.bin");
        ASSERT_FALSE(result.has_value()) << part;
        EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
        const auto sink = generate(*engine, request(50, 20));
        EXPECT_EQ(sink->result().timings.cache_n, 0) << "the slot is empty after a failed restore";
        EXPECT_EQ(sink->text(), expected);
    };
    const auto with = [&](size_t at, char value) {
        std::string bytes = good;
        bytes[at] = value;
        return bytes;
    };
    refused("", "not a slot file");
    refused("nonsense", "not a slot file");
    refused(with(0, 'X'), "not a slot file");
    refused(with(8, 9), "version 9");
    refused(with(12, 77), "other cache types");
    refused(with(16, static_cast<char>(good[16] + 1)), "another model");
    refused(with(24, 99), "other cache types");
    refused(with(35, 127), "has room for 256");
    refused(with(32, static_cast<char>(good[32] + 1)), "other cache types");
    refused(good.substr(0, good.size() - 1), "bytes, ");
    refused(good + "x", "bytes, ");
    refused(with(good.size() / 2, static_cast<char>(good[good.size() / 2] + 1)), "damaged");
    refused(with(good.size() - 1, static_cast<char>(good.back() + 1)), "damaged");
    const auto missing = act(*engine, engine::SlotAction::kRestore, 0, folder_ / "none.bin");
    ASSERT_FALSE(missing.has_value());
    EXPECT_EQ(missing.error().code, Code::kNotFound);
    std::filesystem::create_symlink(file, folder_ / "link.bin");
    EXPECT_FALSE(act(*engine, engine::SlotAction::kRestore, 0, folder_ / "link.bin").has_value());
    EXPECT_FALSE(act(*engine, engine::SlotAction::kRestore, 0, folder_).has_value());
    EXPECT_FALSE(act(*engine, engine::SlotAction::kSave, 0, folder_ / "no" / "such" / "folder").has_value());
    EXPECT_FALSE(act(*engine, engine::SlotAction::kErase, 1, "").has_value());
}

}  // namespace
}  // namespace foresay::test
