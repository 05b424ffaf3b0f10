// Tokenizers against the goldens: tests as data. Formats: shared/goldens/README.md and tokenizers/README.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/test_paths.h"
#include "gguf/gguf.h"
#include "vocab/vocab.h"

namespace foresay::vocab {
namespace {

constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Result<std::shared_ptr<const Vocab>> load(const std::string& path) {
    FORESAY_TRY(const std::shared_ptr<const gguf::File> file, gguf::File::open(path));
    return Vocab::load(*file);
}

std::vector<std::string> split_texts(const std::string& inp) {
    std::vector<std::string> texts;
    for (size_t pos = 0; pos < inp.size();) {
        const size_t hit = inp.find(kSeparator, pos);
        if (hit == std::string::npos) {
            texts.push_back(inp.substr(pos));
            break;
        }
        texts.push_back(inp.substr(pos, hit - pos));
        pos = hit + kSeparator.size();
    }
    return texts;
}

std::vector<std::vector<TokenId>> split_ids(const std::string& out) {
    std::vector<std::vector<TokenId>> lines;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);) {
        std::istringstream numbers(line);
        lines.emplace_back(std::istream_iterator<TokenId>(numbers), std::istream_iterator<TokenId>());
    }
    return lines;
}

std::string pieces(const Vocab& vocab, const std::vector<TokenId>& ids) {
    std::string text;
    for (const TokenId id : ids) {
        text += vocab.piece(id, true);
    }
    return text;
}

/// The text that the pieces of an encoding give back: SPM adds a blank in front.
std::string expected_pieces(const Vocab& vocab, const std::string& text) {
    return vocab.kind() == Kind::kSpm && !text.empty() ? " " + text : text;
}

class Goldens : public testing::TestWithParam<std::string> {};

TEST_P(Goldens, EveryVectorGivesTheReferenceIds) {
    const std::string path = shared_path(fmt::format("goldens/tokenizers/ggml-vocab-{}.gguf", GetParam()));
    if (!std::filesystem::exists(path)) {
        GTEST_SKIP() << "no " << path;
    }
    const auto vocab = load(path);
    ASSERT_TRUE(vocab.has_value()) << vocab.error().to_string();
    const std::vector<std::string> texts = split_texts(read_file(path + ".inp"));
    const std::vector<std::vector<TokenId>> lines = split_ids(read_file(path + ".out"));
    ASSERT_EQ(texts.size(), lines.size());
    ASSERT_GE(texts.size(), 46U);
    for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ((*vocab)->encode(texts[i], false, false), lines[i]) << "text " << i << ": '" << texts[i] << "'";
        EXPECT_EQ(pieces(**vocab, lines[i]), expected_pieces(**vocab, texts[i])) << "text " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Goldens,
                         testing::Values("llama-spm", "phi-3", "gemma-4", "llama-bpe", "qwen2", "gpt-2", "deepseek-llm",
                                         "deepseek-coder", "falcon", "starcoder", "refact", "command-r", "mpt",
                                         "qwen35"),
                         [](const auto& param) {
                             std::string name = param.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(Conformance, WordPieceIsUnsupportedAndNamed) {
    const std::string path = shared_path("goldens/tokenizers/ggml-vocab-bert-bge.gguf");
    if (!std::filesystem::exists(path)) {
        GTEST_SKIP() << "no " << path;
    }
    const auto vocab = load(path);
    ASSERT_FALSE(vocab.has_value());
    EXPECT_EQ(vocab.error().code, Code::kUnsupported);
    EXPECT_NE(vocab.error().message.find("bert"), std::string::npos);
    EXPECT_NE(vocab.error().message.find("WordPiece"), std::string::npos);
}

class RealModels : public testing::TestWithParam<std::string> {};

TEST_P(RealModels, PromptsGiveTheReferenceIds) {
    const std::string golden = shared_path(fmt::format("goldens/real-models/{}.json", GetParam()));
    const std::string model = model_path(GetParam() + ".gguf");
    if (!std::filesystem::exists(golden) || !std::filesystem::exists(model)) {
        GTEST_SKIP() << "no " << golden << " or no " << model;
    }
    const auto vocab = load(model);
    ASSERT_TRUE(vocab.has_value()) << vocab.error().to_string();
    const nlohmann::json prompts = nlohmann::json::parse(read_file(golden), nullptr, false)["prompts"];
    ASSERT_FALSE(prompts.empty());
    for (const nlohmann::json& prompt : prompts) {
        const auto text = prompt["text"].get<std::string>();
        EXPECT_EQ((*vocab)->encode(text, true, true), prompt["ids"].get<std::vector<TokenId>>()) << text;
        EXPECT_EQ((*vocab)->encode(text, true, false), prompt["ids_no_special"].get<std::vector<TokenId>>()) << text;
        const auto ids = prompt["ids_no_bos"].get<std::vector<TokenId>>();
        EXPECT_EQ((*vocab)->encode(text, false, true), ids) << text;
        EXPECT_EQ(pieces(**vocab, ids), text);
    }
}

INSTANTIATE_TEST_SUITE_P(Models, RealModels,
                         testing::Values("smollm2-135m-q4_1", "gemma3-270m-q4_k_m", "qwen2.5-coder-0.5b-q4_k_m",
                                         "qwen2.5-coder-1.5b-q4_k_m"),
                         [](const auto& param) {
                             std::string name = param.param;
                             std::replace_if(
                                 name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
                             return name;
                         });

TEST(Conformance, SyntheticPairsVocabulary) {
    const std::string golden = shared_path("goldens/synthetic-pairs/tokenizer.json");
    // Not stored in the shared folder for size: gen_synthetic.py writes it.
    const std::string model = model_path("synthetic-pairs/llama-target.gguf");
    if (!std::filesystem::exists(golden) || !std::filesystem::exists(model)) {
        GTEST_SKIP() << "no " << golden << " or no " << model;
    }
    const auto vocab = load(model);
    ASSERT_TRUE(vocab.has_value()) << vocab.error().to_string();
    for (const nlohmann::json& entry : nlohmann::json::parse(read_file(golden), nullptr, false)) {
        const auto text = entry["text"].get<std::string>();
        EXPECT_EQ((*vocab)->encode(text, false, true), entry["ids"].get<std::vector<TokenId>>()) << text;
        EXPECT_EQ((*vocab)->encode(text, false, false), entry["ids_plain"].get<std::vector<TokenId>>()) << text;
    }
}

TEST(Conformance, SyntheticModelsLoad) {
    const std::string folder = shared_path("goldens/synthetic");
    if (!std::filesystem::exists(folder)) {
        GTEST_SKIP() << "no " << folder;
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".gguf") {
            continue;
        }
        const auto file = gguf::File::open(entry.path().string());
        ASSERT_TRUE(file.has_value()) << entry.path();
        if ((*file)->find("tokenizer.ggml.model") == nullptr) {
            continue;
        }
        const auto vocab = Vocab::load(**file);
        ASSERT_TRUE(vocab.has_value()) << entry.path() << ": " << vocab.error().to_string();
        EXPECT_EQ(pieces(**vocab, (*vocab)->encode("The quick brown fox", false, true)), "The quick brown fox");
    }
}

// phi-3 carries no flag for it: RSTRIP comes from the model's name.
TEST(Conformance, Phi3SpecialsSwallowTheBlanksBehindThem) {
    const std::string path = shared_path("goldens/tokenizers/ggml-vocab-phi-3.gguf");
    if (!std::filesystem::exists(path)) {
        GTEST_SKIP() << "no " << path;
    }
    const auto vocab = load(path);
    ASSERT_TRUE(vocab.has_value()) << vocab.error().to_string();
    const auto with_blanks = (*vocab)->encode("<|user|> \n hello<|end|>\n<|assistant|>\n", false, true);
    EXPECT_EQ(with_blanks, (*vocab)->encode("<|user|>hello<|end|><|assistant|>", false, true));
    EXPECT_EQ(with_blanks.size(), 4U);
}

// Gemma 4 has `</s>` as ordinary text and `<|tool_response>` as an end.
TEST(Conformance, Gemma4EndTokens) {
    const std::string path = shared_path("goldens/tokenizers/ggml-vocab-gemma-4.gguf");
    if (!std::filesystem::exists(path)) {
        GTEST_SKIP() << "no " << path;
    }
    const auto vocab = load(path);
    ASSERT_TRUE(vocab.has_value()) << vocab.error().to_string();
    std::vector<std::string> texts;
    for (const TokenId id : (*vocab)->eog_tokens()) {
        texts.emplace_back((*vocab)->text(id));
        EXPECT_TRUE((*vocab)->is_control(id));
    }
    EXPECT_EQ(texts, (std::vector<std::string>{"<eos>", "<|tool_response>", "<turn|>"}));
    EXPECT_TRUE((*vocab)->adds_bos());
    EXPECT_EQ((*vocab)->bos(), 2);
    EXPECT_EQ((*vocab)->newline(), 107);
    EXPECT_EQ((*vocab)->piece(48, false), "<|tool_call>");
    EXPECT_EQ((*vocab)->piece(50, false), "");
    EXPECT_EQ((*vocab)->encode(std::string(31, '\n'), false, false).size(), 1U);
    EXPECT_EQ((*vocab)->encode("a  b", false, false).size(), 3U);
}

}  // namespace
}  // namespace foresay::vocab
