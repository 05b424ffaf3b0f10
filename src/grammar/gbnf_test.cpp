// The notation: what is read how, and what is refused where.
#include "grammar/gbnf.h"

#include <gmock/gmock.h>

#include <string>

#include "grammar/test_match.h"
#include "grammar/utf8_ranges.h"

namespace foresay::grammar {
namespace {

using testing::HasSubstr;

TEST(Gbnf, TextsClassesAndEscapes) {
    EXPECT_TRUE(matches(R"(root ::= "a\n\t\r\\\"\[\]\x41\u00e9\U0001F600")", "a\n\t\r\\\"[]A\u00e9\U0001F600"));
    EXPECT_TRUE(matches("root ::= [a-c] [^a-c] [x-] .", "bz-\n"));
    EXPECT_FALSE(matches("root ::= [a-c] [^a-c] [x-] .", "bb-\n"));
    EXPECT_TRUE(matches("root ::= [\\]\\[\\n-]", "]"));
    EXPECT_TRUE(matches("root ::= \"\"", ""));
    EXPECT_TRUE(matches("root ::= [^\\x00-\\x7F]", "\u00e9"));
}

TEST(Gbnf, GroupsChoicesAndRepetitions) {
    const auto grammar = compiled(
        "# a comment\n"
        "root ::= item (\",\" item)* end? # another\n"
        "\n"
        "item ::= \"a\"{2,3} | (\n  \"b\"+\n  | \"c\"{2} # inside\n) |\n \"d\"{1,}\n"
        "  | \"e\"{0,2} \"f\"\n"
        "end ::= \"!\"");
    for (const char* text : {"aa", "aaa", "b,bbb", "cc!", "dddd,aa!", "f", "eef"}) {
        EXPECT_TRUE(matches(grammar, text)) << text;
    }
    for (const char* text : {"", "a", "aaaa", "c", "ccc", "eeef", "aa,", "aa!!", "aa b"}) {
        EXPECT_FALSE(matches(grammar, text)) << text;
    }
}

TEST(Gbnf, RepetitionOfNothingAndOfRepetitions) {
    EXPECT_TRUE(matches("root ::= (\"\")* \"a\"", "a"));
    EXPECT_TRUE(matches("root ::= ws* \"a\"\nws ::= \" \"*", "   a"));
    EXPECT_TRUE(matches("root ::= \"a\"{0} \"b\"", "b"));
    EXPECT_FALSE(matches("root ::= \"a\"{0} \"b\"", "ab"));
    EXPECT_TRUE(matches("root ::= (\"a\"{2})+{2}", "aaaa"));
    EXPECT_FALSE(matches("root ::= (\"a\"{2})+{2}", "aa"));
}

struct Bad {
    const char* gbnf;
    const char* message;
};

TEST(Gbnf, ErrorsSayWhereAndWhat) {
    const Bad cases[] = {
        {"", "a grammar needs a rule named 'root'"},
        {"start ::= \"a\"", "a grammar needs a rule named 'root'"},
        {"root ::= a", "line 1, column 10: rule 'a' is not defined"},
        {"root ::= \"a\"\n  root ::= \"b\"", "line 2, column 3: rule 'root' is defined twice, first in line 1"},
        {"root = \"a\"", "line 1, column 6: expected '::=' behind 'root', found '='"},
        {"root ::= \"a", "line 1, column 10: the text has no closing '\"'"},
        {"root ::= \"a\n\"", "line 1, column 10: the text has no closing '\"'"},
        {"root ::= [a-", "line 1, column 10: the character class has no closing ']'"},
        {"root ::= [z-a]", "line 1, column 13: the range ends before it begins"},
        {"root ::= []", "line 1, column 10: the character class is empty"},
        {"root ::= (\"a\"\n | \"b\"",
         "line 2, column 7: expected ')' for the '(' of line 1, found the end of the grammar"},
        {"root ::= \"a\")", "line 1, column 13: expected the end of rule 'root', found ')'"},
        {"root ::= *", "line 1, column 10: expected the end of rule 'root', found '*'"},
        {"root ::= \"\\q\"", "line 1, column 11: unknown escape"},
        {"root ::= \"\\x4\"", "line 1, column 11: the escape needs 2 hexadecimal digits"},
        {"root ::= \"\\uD800\"", "line 1, column 11: U+D800 is not a character"},
        {"root ::= \"\\U00110000\"", "line 1, column 11: U+110000 is not a character"},
        {"root ::= \"\xff\"", "line 1, column 11: the grammar is not valid UTF-8"},
        {"root ::= \"a\"{3,2}", "line 1, column 13: the repetition {3,2} allows nothing"},
        {"root ::= \"a\"{70000}", "line 1, column 14: repetition counts above 65536 are not supported"},
        {"root ::= \"a\"{99999999999}", "repetition counts above 65536"},
        {"root ::= \"a\"{x}", "line 1, column 14: expected a number, found 'x'"},
        {"root ::= \"a\"{2", "line 1, column 15: expected '}', found the end of the grammar"},
        {"root ::= (\"a\"{1000}){1000}", "rule 'root' makes the grammar too large"},
        {"root ::= <[12x]>", "line 1, column 10: '12x' is not a token id"},
        {"root ::= <[12]", "line 1, column 10: the token has no closing '>'"},
        {"root ::= <nothing>", "line 1, column 10: '<nothing>' is not one token of this model"},
        {"root ::= !a", "line 1, column 11: expected '<' behind '!', found 'a'"},
        {"root ::= \"a\"*****************", "more than 16 repetitions of one item"},
    };
    for (const Bad& bad : cases) {
        EXPECT_THAT(compile_error(bad.gbnf), HasSubstr(bad.message)) << bad.gbnf;
    }
}

TEST(Gbnf, LeftRecursionIsFoundDirectHiddenAndIndirect) {
    EXPECT_THAT(compile_error("root ::= root \"a\" | \"a\""), HasSubstr("rule 'root' is left-recursive"));
    EXPECT_THAT(compile_error("root ::= \"x\" a\na ::= b \"1\" | \"2\"\nb ::= a"), HasSubstr("is left-recursive"));
    EXPECT_THAT(compile_error("root ::= ws root \"a\" | \"a\"\nws ::= \" \"?"), HasSubstr("'root' is left-recursive"));
    EXPECT_THAT(compile_error("root ::= (\"\" | \"b\")* root"), HasSubstr("'root' is left-recursive"));
    // Also in a rule that nothing calls: it's a mistake all the same.
    EXPECT_THAT(compile_error("root ::= \"a\"\nb ::= b"), HasSubstr("line 2, column 1: rule 'b' is left-recursive"));
    EXPECT_EQ(compile_error("root ::= \"a\" root | \"b\" a | \"\"\na ::= root"), "");
}

TEST(Gbnf, LimitsHold) {
    EXPECT_THAT(compile_error(std::string(kMaxGbnfBytes + 1, ' ')), HasSubstr("more than 1048576"));
    EXPECT_THAT(compile_error(std::string("root ::= ").append(200, '(')), HasSubstr("nested deeper than 100"));
    std::string many = "root ::= ";
    for (size_t i = 0; i < kMaxNodes; ++i) {
        many += "a ";
    }
    EXPECT_THAT(compile_error(many + "\na ::= \"a\""), HasSubstr("more than 200000 parts"));
}

TEST(Utf8Ranges, CoverExactlyTheRange) {
    // All code points against a few ranges with awkward borders.
    for (const CodeRange& range : {CodeRange{0, 0x10FFFF},
                                   {0x7F, 0x80},
                                   {0x123, 0x4567},
                                   {0xD000, 0xE123},
                                   {0xFFFE, 0x10001},
                                   {0x10000, 0x10FFFF},
                                   {0x3FFFF, 0x40001}}) {
        std::vector<ByteSequence> sequences;
        append_utf8_ranges(range.low, range.high, &sequences);
        uint32_t n_wrong = 0;
        for (uint32_t c = 0; c <= 0x10FFFF; c += c < 0x11000 ? 1 : 61) {
            const bool is_surrogate = c >= 0xD800 && c <= 0xDFFF;
            std::string text;
            append_utf8(&text, c);
            bool is_in = false;
            for (const ByteSequence& sequence : sequences) {
                bool fits = sequence.size == text.size();
                for (size_t i = 0; fits && i < text.size(); ++i) {
                    const auto byte = static_cast<uint8_t>(text[i]);
                    fits = sequence.bytes[i].low <= byte && byte <= sequence.bytes[i].high;
                }
                is_in = is_in || fits;
            }
            n_wrong += is_in != (c >= range.low && c <= range.high && !is_surrogate) ? 1 : 0;
        }
        EXPECT_EQ(n_wrong, 0U) << range.low << " " << range.high;
    }
}

}  // namespace
}  // namespace foresay::grammar
