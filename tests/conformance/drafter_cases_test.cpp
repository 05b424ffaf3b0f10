// Public failure reports about drafters, retold (shared/spec/cases.md), on tiny pairs: vocabularies that are nearly
// equal, settings of requests, relaxed acceptance beyond its scope, memory over time. CONTRIBUTING.md lists which case
// is tested where.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/test_paths.h"
#include "gguf/writer.h"
#include "spec/pair.h"
#include "tests/conformance/engine_harness.h"

namespace foresay::test {
namespace {

using gguf::ValueType;

/// How a copy's vocabulary differs from the original's.
struct VocabChange {
    int n_padding = 0;  ///< tokens appended. Their rows of the head are other tokens' times three: they often win
    const char* id_key = nullptr;  ///< "eos_token_id" and the like
    uint32_t id = 0;
    int changed_id = -1;  ///< a token with another text, which the head favours
    float noise = 0.0F;   ///< what rows of the head are stretched or shrunk by: a drafter that is often a bit wrong
};

template <typename T>
T number_of(const gguf::Value& value) {
    T number{};
    std::memcpy(&number, value.raw.data(), sizeof(number));
    return number;
}

/// A copy of a model of the goldens with another vocabulary; its path. Knows the value types that those files use.
std::string copy_of(const std::string& path, const VocabChange& change) {
    const auto file = *gguf::File::open(path);
    gguf::Writer writer;
    for (const gguf::Value& value : file->values()) {
        const std::string key(value.key);
        if (change.id_key != nullptr && key == std::string("tokenizer.ggml.") + change.id_key) {
            writer.set(key, change.id);
        } else if (value.type == ValueType::kString) {
            writer.set(key, *file->string(key));
        } else if (value.type == ValueType::kF32) {
            writer.set(key, number_of<float>(value));
        } else if (value.type == ValueType::kBool) {
            writer.set(key, *file->boolean(key));
        } else if (value.type == ValueType::kU32) {
            const auto n_added = static_cast<uint32_t>(key == "llama.vocab_size" ? change.n_padding : 0);
            writer.set(key, number_of<uint32_t>(value) + n_added);
        } else if (value.element == ValueType::kString) {
            const auto views = file->string_array(key);
            std::vector<std::string> texts(views->begin(), views->end());
            if (change.changed_id >= 0 && key == "tokenizer.ggml.tokens") {
                texts[static_cast<size_t>(change.changed_id)] = "[changed]";
            }
            for (int i = 0; i < change.n_padding && key == "tokenizer.ggml.tokens"; ++i) {
                texts.push_back("[PAD" + std::to_string(i) + "]");
            }
            writer.set(key, texts);
        } else {
            const auto wide = file->i64_array(key);
            std::vector<int32_t> ints(wide->begin(), wide->end());
            ints.resize(ints.size() + static_cast<size_t>(key == "tokenizer.ggml.token_type" ? change.n_padding : 0),
                        1);
            writer.set(key, ints);
        }
    }
    for (const gguf::TensorInfo& tensor : file->tensors()) {
        std::vector<std::byte> data(tensor.data.begin(), tensor.data.end());
        std::vector<int64_t> ne(tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims);
        if (change.changed_id >= 0 && tensor.name == "output.weight") {
            const size_t bytes = static_cast<size_t>(ne[0]) * sizeof(float);
            std::vector<float> row(static_cast<size_t>(ne[0]));
            std::memcpy(row.data(), data.data() + 100 * bytes, bytes);
            for (float& value : row) {
                value *= 5.0F;
            }
            std::memcpy(data.data() + static_cast<size_t>(change.changed_id) * bytes, row.data(), bytes);
        }
        if (change.noise > 0.0F && tensor.name == "output.weight") {
            std::vector<float> rows(data.size() / sizeof(float));
            std::memcpy(rows.data(), data.data(), data.size());
            for (size_t k = 0; k < rows.size(); ++k) {
                rows[k] *= 1.0F + change.noise * static_cast<float>(static_cast<int>(k / 64 * 7 % 3) - 1);
            }
            std::memcpy(data.data(), rows.data(), data.size());
        }
        if (change.n_padding > 0 && (tensor.name == "token_embd.weight" || tensor.name == "output.weight")) {
            std::vector<float> rows(data.size() / sizeof(float));
            std::memcpy(rows.data(), data.data(), data.size());
            const auto width = static_cast<size_t>(ne[0]);
            for (int i = 0; i < change.n_padding; ++i) {
                for (size_t k = 0; k < width; ++k) {
                    rows.push_back(3.0F * rows[static_cast<size_t>(97 + i) * width + k]);
                }
            }
            data.resize(rows.size() * sizeof(float));
            std::memcpy(data.data(), rows.data(), data.size());
            ne[1] += change.n_padding;
        }
        writer.add_tensor(tensor.name, tensor.type, ne, std::move(data));
    }
    const std::string made = testing::TempDir() + "foresay_vocab_" + std::to_string(::getpid()) + ".gguf";
    const Status written = writer.write(made);
    EXPECT_TRUE(written.has_value()) << written.error().to_string();
    return made;
}

class DrafterCases : public testing::Test {
  protected:
    void SetUp() override {
        target_ = golden("pair-llama-target");
        if (!std::ifstream(target_).good()) {
            GTEST_SKIP() << "no goldens at " << target_;
        }
    }

    static std::string golden(const std::string& name) { return shared_path("goldens/synthetic/" + name + ".gguf"); }

    static engine::EngineOptions options(const std::string& target, const std::string& drafter, int32_t n_max,
                                         int32_t n_parallel = 1) {
        engine::EngineOptions options;
        options.model = target;
        options.n_ctx = 512 * n_parallel;
        options.n_parallel = n_parallel;
        options.n_threads = 1;
        options.spec.draft_model = drafter;
        options.spec.n_max = n_max;
        return options;
    }

    static engine::Request request(int32_t n_predict, float temperature = 0.0F, uint32_t seed = 42) {
        engine::Request request;
        for (int32_t i = 0; i < 24; ++i) {
            request.prompt.push_back(97 + (i * 5 + static_cast<int32_t>(seed)) % 26);
        }
        request.n_predict = n_predict;
        request.sampling.temperature = temperature;
        request.sampling.seed = seed;
        request.sampling.ignore_eos = true;
        request.n_probs = 1;
        return request;
    }

    static std::shared_ptr<Collector> plain(const std::string& target, engine::Request request) {
        request.id_slot = -1;
        return generate(*make_engine(options(target, "", 0)), request);
    }

    std::string target_;
};

// cases.md A3: 64 tokens of padding that only the drafter, or only the target, has. The pair is taken; an id outside of
// the other's table is neither drafted nor read past the end, greedy or sampled.
TEST_F(DrafterCases, PaddedVocabulariesDraftTheTokensThatBothHave) {
    const std::string padded = copy_of(target_, {.n_padding = 64});
    const auto n_tokens = (*vocab::Vocab::load(**gguf::File::open(target_)))->n_tokens();
    for (const std::string& target : {target_, padded}) {
        const std::string draft = target == target_ ? padded : target_;
        const auto report = spec::check_pair(**gguf::File::open(target), **gguf::File::open(draft));
        EXPECT_TRUE(report.fits());
        ASSERT_FALSE(report.notes.empty());
        EXPECT_NE(report.notes.back().find("padding"), std::string::npos) << report.notes.back();
        EXPECT_EQ(std::abs(report.vocab.n_target - report.vocab.n_draft), 64);
        const auto engine = make_engine(options(target, draft, 4));
        for (const float temperature : {0.0F, 0.8F}) {
            const auto want = plain(target, request(60, temperature));
            const auto got = generate(*engine, request(60, temperature));
            EXPECT_EQ(got->text(), want->text()) << target << ", temperature " << temperature;
            const auto& ids = got->text().ids;
            const bool shows_padding = std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= n_tokens; });
            EXPECT_EQ(shows_padding, target == padded) << "or this test shows nothing";
            EXPECT_GT(got->result().timings.draft_n, 0);
        }
        // A drafter that feeds on the target's rows and borrows its table.
        const std::string eagle = golden("pair-llama-eagle3");
        auto rows = options(target, eagle, 4);
        rows.spec.types = {spec::SpecType::kDraftEagle3};
        const auto with_rows = make_engine(rows);
        ASSERT_NE(with_rows, nullptr);
        EXPECT_EQ(generate(*with_rows, request(60))->text(), plain(target, request(60))->text());
    }
    std::remove(padded.c_str());
}

// cases.md A3: the first five ids may have other texts (families name their special tokens differently): said in a
// note, and never drafted. The drafter is the target but for such a token that its head favours.
TEST_F(DrafterCases, FirstIdsWithOtherTextsAreNeverDrafted) {
    const std::string changed = copy_of(target_, {.changed_id = 3});
    const auto report = spec::check_pair(**gguf::File::open(target_), **gguf::File::open(changed));
    EXPECT_TRUE(report.fits());
    ASSERT_FALSE(report.notes.empty());
    EXPECT_NE(report.notes[0].find("1 of the first 5 token texts differ (id 3: "), std::string::npos);
    const auto engine = make_engine(options(target_, changed, 4));
    for (const float temperature : {0.0F, 0.8F}) {
        const auto got = generate(*engine, request(80, temperature));
        EXPECT_EQ(got->text(), plain(target_, request(80, temperature))->text());
        EXPECT_GT(got->result().timings.draft_n, 0);
        EXPECT_EQ(got->result().timings.draft_n_accepted, got->result().timings.draft_n);
    }
    std::remove(changed.c_str());
}

// cases.md A3: other ids of begin and end are named when they are added to prompts; a tokenizer of another kind is
// refused. (Changed texts: drafters_test.cpp.)
TEST_F(DrafterCases, OtherSpecialIdsAndTokenizersAreNamed) {
    const std::string other = copy_of(target_, {.n_padding = 200});
    const auto far = spec::check_pair(**gguf::File::open(target_), **gguf::File::open(other));
    ASSERT_FALSE(far.fits());
    EXPECT_NE(far.problems[0].find("520 tokens, the target 320: more than 128 apart"), std::string::npos);
    for (const char* key : {"eos_token_id", "bos_token_id"}) {
        const std::string ids = copy_of(target_, {.id_key = key, .id = 259});
        // Neither is added to prompts here, so the pair drafts; the ids' texts are equal. The text stays plain.
        EXPECT_EQ(generate(*make_engine(options(target_, ids, 4)), request(40))->text(),
                  plain(target_, request(40))->text());
        std::remove(ids.c_str());
    }
    const auto spm = gguf::File::open(shared_path("goldens/tokenizers/ggml-vocab-llama-spm.gguf"));
    if (spm.has_value()) {
        const auto report = spec::check_pair(**gguf::File::open(target_), **spm);
        ASSERT_FALSE(report.fits());
        EXPECT_TRUE(std::any_of(report.problems.begin(), report.problems.end(), [](const std::string& problem) {
            return problem.find("tokenizer is of another kind") != std::string::npos;
        }));
    }
}

// cases.md A5: what a request asks of drafting is in force for it alone, capped by the server's and echoed, also beside
// a neighbour that asks for something else.
TEST_F(DrafterCases, SettingsOfARequestAreItsOwn) {
    const auto engine = make_engine(options(target_, target_, 6, 2));  // itself: every draft is as long as asked
    const auto want = plain(target_, request(61));

    struct Setting {
        std::optional<int32_t> n_max;
        std::optional<int32_t> n_min;
        int32_t in_force;
        int32_t n_min_in_force;
    };

    const std::vector<Setting> settings{{0, {}, 0, 0}, {1, {}, 1, 0},    {4, {}, 4, 0},  {6, 2, 6, 2},
                                        {7, {}, 6, 0}, {1000, {}, 6, 0}, {{}, {}, 6, 0}, {1000, 9, 6, 6}};
    for (size_t i = 0; i < settings.size(); ++i) {
        std::vector<std::shared_ptr<Collector>> sinks;
        const Setting* const both[2] = {&settings[i], &settings[(i + 1) % settings.size()]};
        for (int slot = 0; slot < 2; ++slot) {
            auto r = request(61);
            r.id_slot = slot;
            r.spec.n_max = both[slot]->n_max;
            r.spec.n_min = both[slot]->n_min;
            sinks.push_back(submit(*engine, r));
        }
        for (size_t slot = 0; slot < 2; ++slot) {
            sinks[slot]->wait();
            ASSERT_FALSE(sinks[slot]->error().has_value());
            const auto& result = sinks[slot]->result();
            const int32_t n = both[slot]->in_force;
            EXPECT_EQ(result.spec.n_max, n) << "setting " << i << ", slot " << slot;
            EXPECT_EQ(result.spec.n_min, both[slot]->n_min_in_force);
            EXPECT_EQ(sinks[slot]->text(), want->text());
            EXPECT_LE(result.timings.draft_n, n * result.timings.verify_steps);
            EXPECT_GE(result.timings.draft_n, n * (result.timings.verify_steps - 1)) << "drafts as long as asked";
            EXPECT_EQ(result.timings.draft_n > 0, n > 0);
        }
    }
}

// cases.md A13: relaxed acceptance is the request's own; a neighbour stays strict; a banned token and one that the
// grammar forbids never comes; a stop text ends it; more choice doesn't accept less.
TEST_F(DrafterCases, RelaxedAcceptanceStaysInItsScope) {
    const std::string near = copy_of(target_, {.noise = 0.3F});
    const auto engine = make_engine(options(target_, near, 4, 2));
    const auto relaxed = [&](int32_t n) {
        auto r = request(120);
        r.spec.relaxed_top_n = n;
        r.sampling.min_p = 0.0F;
        r.id_slot = 0;
        return r;
    };
    auto strict = request(120);
    strict.id_slot = 1;
    const auto want = plain(target_, strict);
    double last_rate = 0.0;
    for (const int32_t n : {1, 2, 3, 5, 40, 320}) {
        const auto first = submit(*engine, relaxed(n));
        const auto second = submit(*engine, strict);
        first->wait();
        second->wait();
        EXPECT_EQ(second->text(), want->text()) << "beside N " << n;
        EXPECT_EQ(second->result().timings.draft_n_relaxed, 0);
        const auto& timings = first->result().timings;
        EXPECT_EQ(timings.draft_n_relaxed > 0, n > 1) << "N " << n;
        const double rate = static_cast<double>(timings.draft_n_accepted) / timings.draft_n;
        EXPECT_GE(rate, last_rate - 0.03) << "N " << n;
        last_rate = rate;
    }
    const auto loose = generate(*engine, relaxed(40));
    ASSERT_GT(loose->result().timings.draft_n_relaxed, 20);
    // The token that relaxing brings in most often is banned: it must not come.
    std::vector<int32_t> counts(400);
    for (size_t i = 0; i < loose->kinds().size(); ++i) {
        counts[static_cast<size_t>(loose->text().ids[i])] += loose->kinds()[i] == engine::TokenKind::kRelaxed ? 1 : 0;
    }
    const auto banned = static_cast<int32_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
    auto r = relaxed(40);
    r.sampling.logit_bias = {{banned, -std::numeric_limits<float>::infinity()}};
    const auto without = generate(*engine, r);
    EXPECT_GT(without->result().timings.draft_n_relaxed, 0);
    EXPECT_EQ(std::count(without->text().ids.begin(), without->text().ids.end(), banned), 0);
    r = relaxed(320);
    r.sampling.grammar = "root ::= [a-f]*";
    const auto formed = generate(*engine, r);
    EXPECT_EQ(formed->text().text.find_first_not_of("abcdef"), std::string::npos) << formed->text().text;
    EXPECT_GT(formed->text().ids.size(), 20U);
    r = relaxed(40);
    r.stop = {loose->text().text.substr(30, 2)};
    const auto stopped = generate(*engine, r);
    EXPECT_EQ(stopped->result().stop_type, engine::StopType::kWord);
    EXPECT_LE(stopped->text().text.size(), 32U);
    std::remove(near.c_str());
}

/// Private memory of this process.
int64_t anonymous_kib() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        if (word == "RssAnon:") {
            int64_t kib = 0;
            status >> kib;
            return kib;
        }
    }
    return -1;
}

// cases.md A14: the same and other prompts over and over, with and without drafts: memory stays what it was.
TEST_F(DrafterCases, MemoryDoesNotGrowWithRequests) {
    if (anonymous_kib() < 0) {
        GTEST_SKIP() << "no /proc";
    }
    auto ngram = options(target_, "", 4);
    ngram.spec.types = {spec::SpecType::kNgramMapK, spec::SpecType::kNgramSuffix};
    ngram.spec.ngram.map_k = {3, 6, 1};
    auto eagle = options(target_, golden("pair-llama-eagle3"), 4);
    for (const auto& tried : {options(target_, "", 0), options(target_, target_, 4), eagle, ngram}) {
        const auto engine = make_engine(tried);
        int64_t after_20 = 0;
        for (uint32_t i = 1; i <= 60; ++i) {
            auto r = request(300, i % 2 == 0 ? 0.9F : 0.0F, i % 3 == 0 ? 1 : i);
            r.prompt.resize(24 + i % 3, 100);
            generate(*engine, r);
            after_20 = i == 20 ? anonymous_kib() : after_20;
        }
        const int64_t grown = anonymous_kib() - after_20;
        constexpr int64_t kNoise = 512;  // KiB: the allocator's, and the tables of this test
        EXPECT_LT(grown, after_20 / 100 + kNoise) << engine->info().spec_types << ", " << after_20 << " KiB";
    }
}

}  // namespace
}  // namespace foresay::test
