// Loading: defaults and fix-ups, and files that lie. Every hostile file gives an Error that names the place.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "vocab/tiny_vocab.h"

namespace foresay::vocab {
namespace {

using Ids = std::vector<TokenId>;

void expect_error(const TinyVocab& tiny, Code code, std::string_view where, std::string_view message) {
    const auto vocab = tiny.load();
    ASSERT_FALSE(vocab.has_value()) << message;
    EXPECT_EQ(vocab.error().code, code) << vocab.error().to_string();
    EXPECT_NE(vocab.error().to_string().find(where), std::string::npos) << vocab.error().to_string();
    EXPECT_NE(vocab.error().to_string().find(message), std::string::npos) << vocab.error().to_string();
}

Ids eog_of(const TinyVocab& tiny) {
    const auto vocab = tiny.load();
    EXPECT_TRUE(vocab.has_value()) << vocab.error().to_string();
    return vocab.has_value() ? Ids((*vocab)->eog_tokens().begin(), (*vocab)->eog_tokens().end()) : Ids();
}

TEST(Load, UnsupportedKindsAreNamed) {
    for (const char* model : {"bert", "t5", "rwkv", "plamo2", "hybriddna", "no_vocab", "something-new"}) {
        TinyVocab tiny = tiny_bpe();
        tiny.model = model;
        expect_error(tiny, Code::kUnsupported, "tokenizer.ggml.model", model);
    }
}

TEST(Load, UnknownPreTokenizerIsNamedAndAMissingOneIsDefault) {
    TinyVocab tiny = tiny_bpe();
    tiny.pre = "shiny-new-pre";
    expect_error(tiny, Code::kUnsupported, "tokenizer.ggml.pre", "shiny-new-pre");
    tiny.pre = "";
    EXPECT_TRUE(tiny.load().has_value());
}

TEST(Load, HostileTokens) {
    TinyVocab tiny = tiny_bpe();
    tiny.tokens.clear();
    expect_error(tiny, Code::kBadFile, "tokenizer.ggml.tokens", "0 tokens");

    tiny = tiny_bpe();
    tiny.types.pop_back();
    expect_error(tiny, Code::kBadFile, "tokenizer.ggml.token_type", "entries for");

    tiny = tiny_bpe();
    tiny.scores.pop_back();
    expect_error(tiny, Code::kBadFile, "tokenizer.ggml.scores", "entries for");

    tiny = tiny_bpe();
    tiny.tokens[7] = tiny.tokens[8];
    expect_error(tiny, Code::kBadFile, "tokenizer.ggml.tokens", "tokens 7 and 8");
}

TEST(Load, HostileMerges) {
    for (const auto& [merge, message] : std::vector<std::pair<std::string, std::string>>{{"h zzz", "right part"},
                                                                                         {"zzz h", "left part"},
                                                                                         {"h q", "joined text"},
                                                                                         {"nospace", "two parts"},
                                                                                         {"", "two parts"},
                                                                                         {" ", "two parts"}}) {
        TinyVocab tiny = tiny_bpe();
        tiny.merges.push_back(merge);
        expect_error(tiny, Code::kBadFile, "tokenizer.ggml.merges", message);
    }
    TinyVocab tiny = tiny_bpe();
    tiny.merges.clear();
    EXPECT_TRUE(tiny.load().has_value());
    tiny.merges = {"l l", "l l"};  // of duplicates the first counts
    EXPECT_TRUE(tiny.load().has_value());
}

TEST(Load, SpecialIdsOutsideTheVocabularyAreIgnored) {
    TinyVocab tiny = tiny_bpe();
    tiny.ids = {{"bos_token_id", 0xFFFFFFFFU}, {"eos_token_id", 256}, {"eot_token_id", 100000}};
    const auto vocab = tiny.load();
    ASSERT_TRUE(vocab.has_value()) << vocab.error().to_string();
    EXPECT_EQ((*vocab)->bos(), 11);   // the kind's default stays
    EXPECT_EQ((*vocab)->eot(), 258);  // found by its text

    tiny.ids.clear();
    tiny.extra = [](gguf::Writer* writer) { writer->set("tokenizer.ggml.bos_token_id", "two"); };
    expect_error(tiny, tiny.load().error().code, "tokenizer.ggml.bos_token_id", "");

    TinyVocab small;
    small.add("a");
    const auto tiny_one = small.load();
    ASSERT_TRUE(tiny_one.has_value()) << tiny_one.error().to_string();
    EXPECT_EQ((*tiny_one)->bos(), kNoToken);
    EXPECT_EQ((*tiny_one)->eos(), kNoToken);
}

TEST(Load, AddBosWithoutABosIsAnError) {
    TinyVocab small;
    small.add("a");
    small.flags = {{"add_bos_token", true}};
    expect_error(small, Code::kBadFile, "add_bos_token", "names none");
    small.flags = {{"add_eos_token", true}};
    expect_error(small, Code::kBadFile, "add_eos_token", "names none");
}

TEST(Load, WeirdScoresAndTypesAreHarmless) {
    TinyVocab tiny = tiny_spm();
    for (size_t i = 259; i < tiny.scores.size(); ++i) {
        tiny.scores[i] = i % 3 == 0   ? std::numeric_limits<float>::quiet_NaN()
                         : i % 3 == 1 ? std::numeric_limits<float>::infinity()
                                      : -0.0F;
    }
    tiny.types[10] = -7;
    tiny.types[11] = 1000;
    tiny.add("<0xZZ>", 6);
    tiny.add("<0x", 6);
    tiny.add("");
    const auto vocab = tiny.load();
    ASSERT_TRUE(vocab.has_value()) << vocab.error().to_string();
    EXPECT_FALSE((*vocab)->encode("hello aaaa hello", true, true).empty());
    EXPECT_EQ((*vocab)->piece((*vocab)->n_tokens() - 3, true), "");
    EXPECT_EQ((*vocab)->text((*vocab)->n_tokens() - 1), "[EMPTY_" + std::to_string((*vocab)->n_tokens() - 1) + "]");
}

TEST(Load, EndTokensByText) {
    TinyVocab tiny = tiny_bpe();
    EXPECT_EQ(eog_of(tiny), (Ids{256, 258}));
    const TokenId next = static_cast<TokenId>(tiny.tokens.size());
    tiny.add("</s>");
    tiny.add("<|fim_pad|>", 3);
    EXPECT_EQ(eog_of(tiny), (Ids{256, 258, next, next + 1}));
    tiny.add("<|tool_response>", 4);  // makes `</s>` ordinary text
    EXPECT_EQ(eog_of(tiny), (Ids{256, 258, next + 1, next + 2}));
    const auto vocab = tiny.load();
    ASSERT_TRUE(vocab.has_value());
    EXPECT_FALSE((*vocab)->is_control(next));
    EXPECT_TRUE((*vocab)->is_control(next + 2));
    EXPECT_EQ((*vocab)->piece(next + 2, false), "");
}

TEST(Load, HarmonyMarkersAreVisibleAndEndIsNoEnd) {
    TinyVocab tiny = tiny_bpe();
    const TokenId first = static_cast<TokenId>(tiny.tokens.size());
    for (const char* text : {"<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"}) {
        tiny.add(text, 3);
    }
    const auto vocab = tiny.load();
    ASSERT_TRUE(vocab.has_value());
    EXPECT_EQ((*vocab)->piece(first, false), "<|channel|>");
    EXPECT_FALSE((*vocab)->is_eog(first + 2));
    EXPECT_EQ((*vocab)->piece(first + 2, false), "<|end|>");
    EXPECT_TRUE((*vocab)->is_eog(first + 3));
    EXPECT_TRUE((*vocab)->is_eog(first + 4));
}

TEST(Load, SuppressedTokensAndTemplate) {
    TinyVocab tiny = tiny_bpe();
    tiny.extra = [](gguf::Writer* writer) {
        writer->set("tokenizer.ggml.suppress_tokens", std::vector<int32_t>{9, -1, 3, 100000, 3});
        writer->set("tokenizer.chat_template", "{{ messages }}");
        writer->set("tokenizer.chat_template.tool_use", "{{ tools }}");
        writer->set("tokenizer.chat_templates", std::vector<std::string>{"tool_use"});  // the list of names: not needed
    };
    const auto vocab = tiny.load();
    ASSERT_TRUE(vocab.has_value()) << vocab.error().to_string();
    EXPECT_EQ(Ids((*vocab)->suppressed().begin(), (*vocab)->suppressed().end()), (Ids{3, 9}));
    EXPECT_EQ((*vocab)->chat_template(), "{{ messages }}");
    const auto named = (*vocab)->named_chat_templates();
    ASSERT_EQ(named.size(), 1U);
    EXPECT_EQ(named[0], (std::pair<std::string, std::string>("tool_use", "{{ tools }}")));
    tiny.extra = [](gguf::Writer* writer) { writer->set("tokenizer.chat_template.rag", uint32_t{7}); };
    const auto wrong = tiny.load();
    ASSERT_FALSE(wrong.has_value());
    EXPECT_NE(wrong.error().to_string().find("tokenizer.chat_template.rag"), std::string::npos);
}

TEST(Load, PreTypeFlags) {
    TinyVocab tiny = tiny_bpe();
    tiny.pre = "llama-bpe";
    auto vocab = tiny.load();
    ASSERT_TRUE(vocab.has_value());
    EXPECT_TRUE((*vocab)->adds_bos());
    tiny.flags = {{"add_bos_token", false}};
    vocab = tiny.load();
    ASSERT_TRUE(vocab.has_value());
    EXPECT_FALSE((*vocab)->adds_bos());
    TinyVocab gemma = tiny_gemma4();
    gemma.flags = {{"add_bos_token", false}};
    vocab = gemma.load();
    ASSERT_TRUE(vocab.has_value());
    EXPECT_TRUE((*vocab)->adds_bos());  // forced
}

// A whole word that is a token needs no merges, but only where the pre-tokenizer says so.
TEST(Load, IgnoreMerges) {
    TinyVocab tiny = tiny_bpe();
    tiny.add("wor");
    EXPECT_EQ((*tiny.load())->encode("wor", false, false).size(), 2U);
    tiny.pre = "llama-bpe";
    EXPECT_EQ((*tiny.load())->encode("wor", false, false).size(), 1U);
}

TEST(Load, TruncatedFilesNeverCrash) {
    const std::vector<std::byte> bytes = tiny_bpe().bytes();
    for (size_t n = 0; n < bytes.size(); n += 37) {
        const auto file = gguf::File::from_bytes(std::span(bytes).first(n));
        if (file.has_value()) {
            const auto vocab = Vocab::load(**file);
            EXPECT_FALSE(vocab.has_value() && (*vocab)->n_tokens() == 0);
        }
    }
}

}  // namespace
}  // namespace foresay::vocab
