// The pattern table against the specification's split examples, and its cost on hostile megabytes.
#include "vocab/pretokenize.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace foresay::vocab {
namespace {

std::vector<std::string> split(std::string_view pre, std::string_view text) {
    const PreType* type = find_pre_type(pre);
    EXPECT_NE(type, nullptr) << pre;
    const auto tokenizer = PreTokenizer::create(type->steps);
    EXPECT_TRUE(tokenizer.has_value()) << pre;
    std::vector<std::string> words;
    for (const Word& word : (*tokenizer)->split(text)) {
        words.emplace_back(text.substr(word.begin, word.end - word.begin));
    }
    return words;
}

using Words = std::vector<std::string>;

#define E_ACUTE "\xC3\xA9"
#define COMBINING "\xCC\x81"
#define SMILE "\xF0\x9F\x99\x82"
constexpr std::string_view kExample = "I'LL  go\n\n 12345 it's A1" E_ACUTE COMBINING " x=(y);\t" SMILE " fooBAR  ";

TEST(PreTokenizer, SplitExamplesOfTheSpecification) {
    const Words by_default{"I",  "'", "LL",    " ",       " go", "\n\n", " ", "123", "45", " it", "'",       "s",
                           " A", "1", E_ACUTE, COMBINING, " x",  "=(",   "y", ");",  "\t", SMILE, " fooBAR", "  "};
    EXPECT_EQ(split("default", kExample), by_default);
    EXPECT_EQ(split("falcon", kExample), by_default);
    EXPECT_EQ(split("gpt-2", kExample),
              (Words{"I",     "'",       "LL", " ",  " go", "\n\n", " 12345", " it", "'s",      " A", "1",
                     E_ACUTE, COMBINING, " x", "=(", "y",   ");",   "\t",     SMILE, " fooBAR", "  "}));
    EXPECT_EQ(split("starcoder", kExample),
              (Words{"I",  "'", "LL",    " ",       " go", "\n\n ", "1", "2",  "3",  "4",   "5",       " it", "'s",
                     " A", "1", E_ACUTE, COMBINING, " x",  "=(",    "y", ");", "\t", SMILE, " fooBAR", "  "}));
    const Words llama3{"I", "'LL",   " ",       " go", "\n\n", " ", "123", "45", " it", "'s",      " A",
                       "1", E_ACUTE, COMBINING, " x",  "=(",   "y", ");",  "\t", SMILE, " fooBAR", "  "};
    EXPECT_EQ(split("llama-bpe", kExample), llama3);
    EXPECT_EQ(split("qwen2", kExample),
              (Words{"I",  "'LL", " ",     " go",     "\n\n", " ",  "1", "2",  "3",  "4",   "5",       " it", "'s",
                     " A", "1",   E_ACUTE, COMBINING, " x",   "=(", "y", ");", "\t", SMILE, " fooBAR", "  "}));
    EXPECT_EQ(split("qwen35", kExample), (Words{"I",  "'LL", " ", " go", "\n\n", " ",   "1",       "2",
                                                "3",  "4",   "5", " it", "'s",   " A",  "1",       E_ACUTE COMBINING,
                                                " x", "=(",  "y", ");",  "\t",   SMILE, " fooBAR", "  "}));
    EXPECT_EQ(split("deepseek-llm", kExample),
              (Words{"I",  "'", "LL",    " ",       " go", "\n", "\n", " ",  "12345",    " it",     "'", "s",
                     " A", "1", E_ACUTE, COMBINING, " x",  "=(", "y",  ");", "\t" SMILE, " fooBAR", "  "}));
    EXPECT_EQ(split("deepseek-coder", kExample),
              (Words{"I", "'", "LL", " ", " go",   "\n",      "\n", " ", "1", "2", "3",  "4",        "5",       " it",
                     "'", "s", " A", "1", E_ACUTE, COMBINING, " x", "=", "(", "y", ");", "\t" SMILE, " fooBAR", "  "}));
    EXPECT_EQ(split("deepseek-v3", kExample),
              (Words{"I",  "'LL", " ", " go", "\n\n", " ",   "123",     "45", " it", "'s", " A", "1", E_ACUTE COMBINING,
                     " x", "=(",  "y", ");",  "\t",   SMILE, " fooBAR", "  "}));
    EXPECT_EQ(split("tekken", kExample),
              (Words{"I",  "'LL", " ",     " go",     "\n\n", " ",  "1", "2",  "3",  "4",   "5",    " it", "'s",
                     " A", "1",   E_ACUTE, COMBINING, " x",   "=(", "y", ");", "\t", SMILE, " foo", "BAR", "  "}));
    EXPECT_EQ(split("gpt-4o", kExample),
              (Words{"I'LL",    " ",  " go", "\n\n", " ",  "123", "45",  " it's", " A",  "1", E_ACUTE,
                     COMBINING, " x", "=(",  "y",    ");", "\t",  SMILE, " foo",  "BAR", "  "}));
}

TEST(PreTokenizer, StepsOfTheirOwnKind) {
    EXPECT_EQ(split("superbpe", "a1234567b"), (Words{"a", "1", "234", "567", "b"}));
    EXPECT_EQ(split("superbpe", "123456"), (Words{"123", "456"}));
    EXPECT_EQ(split("tiny_aya", "x1234"), (Words{"x", "1", "234"}));
    EXPECT_EQ(split("afmoe", "123456"), (Words{"123", "456"}));
    EXPECT_EQ(split("gemma4", "a b\n\nc"), (Words{"a b", "\n\n", "c"}));
    // deepseek-llm: `\s+$` sees the end of its segment, and U+3000 is a blank, not CJK punctuation.
    EXPECT_EQ(split("deepseek-llm", "\xE4\xBD\xA0  5  "), (Words{"\xE4\xBD\xA0", "  ", "5", "  "}));
    EXPECT_EQ(split("deepseek-llm",
                    "a\xE3\x80\x80"
                    "b"),
              (Words{"a",
                     "\xE3\x80\x80"
                     "b"}));
}

TEST(PreTokenizer, LongRunsOfBlanksInJais2) {
    const auto blanks = [](size_t n) { return std::string(n, ' '); };
    EXPECT_EQ(split("jais-2", blanks(1300)), (Words{blanks(512), blanks(512), blanks(256), blanks(16), blanks(4)}));
    EXPECT_EQ(split("jais-2", blanks(1025) + "x"), (Words{blanks(512), blanks(512), " x"}));
    EXPECT_EQ(split("jais-2", blanks(1024) + "x"),
              (Words{blanks(512), blanks(256), blanks(128), blanks(64), blanks(32), blanks(16), blanks(8), blanks(4),
                     blanks(2), blanks(1), " x"}));
    EXPECT_EQ(split("jais-2", blanks(2000) + "\n"), (Words{blanks(2000) + "\n"}));
}

TEST(PreTokenizer, WhiteSpaceIsUnicodesAndNotPcres) {
    EXPECT_EQ(split("gpt-2", "a\xC2\xA0 b"), (Words{"a", "\xC2\xA0", " b"}));  // U+00A0 is a blank
    EXPECT_EQ(split("gpt-2",
                    "a\xE1\xA0\x8E"
                    " b"),
              (Words{"a", "\xE1\xA0\x8E", " b"}));                 // U+180E is a format character
    EXPECT_EQ(split("gpt-2", "\x1C\x1C."), (Words{"\x1C\x1C."}));  // U+001C isn't one either
}

TEST(PreTokenizer, EveryEntryCompilesAndLosesNothing) {
    std::mt19937 random(11);
    const std::vector<std::string> parts{"a",
                                         "B",
                                         "9",
                                         "'s",
                                         "'LL",
                                         " ",
                                         "  ",
                                         "\n",
                                         "\r\n",
                                         "\t",
                                         ".",
                                         "!?",
                                         "\xC3\xA9",
                                         COMBINING,
                                         "\xE4\xBD\xA0",
                                         SMILE,
                                         "\xE3\x80\x80",
                                         "\xD9\xA3",
                                         "<sentinel:7>",
                                         "\xE2\x96\x81",
                                         "/"};
    for (const PreType& type : pre_types()) {
        const auto tokenizer = PreTokenizer::create(type.steps);
        ASSERT_TRUE(tokenizer.has_value()) << type.name << ": " << tokenizer.error().to_string();
        for (int round = 0; round < 50; ++round) {
            std::string text;
            for (int i = 0; i < 40; ++i) {
                text += parts[random() % parts.size()];
            }
            size_t pos = 0;
            for (const Word& word : (*tokenizer)->split(text)) {
                ASSERT_EQ(word.begin, pos) << type.name;
                ASSERT_GT(word.end, word.begin) << type.name;
                pos = word.end;
            }
            ASSERT_EQ(pos, text.size()) << type.name;
        }
    }
}

// A quadratic pattern takes minutes here; the bound is generous so that a busy machine or a sanitiser doesn't trip it.
TEST(PreTokenizer, HostileTextsStayLinear) {
    constexpr size_t kBytes = 256 * 1024;
    const auto repeat = [](std::string_view part) {
        std::string text;
        while (text.size() < kBytes) {
            text += part;
        }
        return text;
    };
    const std::vector<std::string> texts{repeat(" "),
                                         repeat(" ") + "x",
                                         repeat("a"),
                                         repeat("A"),
                                         repeat("7"),
                                         repeat("\n"),
                                         repeat(" \n"),
                                         repeat("'"),
                                         repeat("\xE4\xBD\xA0"),
                                         repeat("."),
                                         std::string("a").append(repeat(COMBINING)),
                                         repeat(" ") + "7 "};
    const auto start = std::chrono::steady_clock::now();
    std::set<const SplitStep*> seen;  // many names share a list
    for (const PreType& type : pre_types()) {
        if (!seen.insert(type.steps.data()).second) {
            continue;
        }
        const auto tokenizer = PreTokenizer::create(type.steps);
        ASSERT_TRUE(tokenizer.has_value());
        for (const std::string& text : texts) {
            const auto words = (*tokenizer)->split(text);
            ASSERT_EQ(words.back().end, text.size()) << type.name;
        }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 120.0);
}

TEST(PreTokenizer, UnknownNamesAreUnknown) {
    EXPECT_EQ(find_pre_type("no-such-pre"), nullptr);
    EXPECT_EQ(find_pre_type(""), nullptr);
}

}  // namespace
}  // namespace foresay::vocab
