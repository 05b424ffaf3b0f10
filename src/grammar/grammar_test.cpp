// Matching: tokens, masks, forks, triggers, ambiguity and bounds.
#include "grammar/grammar.h"

#include <chrono>
#include <random>
#include <string>

#include "grammar/test_match.h"

namespace foresay::grammar {
namespace {

constexpr std::string_view kJson = R"(
root   ::= ws value ws
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (pair ("," ws pair)*)? "}"
pair   ::= string ws ":" ws value ws
array  ::= "[" ws (value ws ("," ws value ws)*)? "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws     ::= [ \t\n\r]*
)";

TEST(Matcher, Json) {
    const auto json = compiled(kJson);
    for (const char* text : {"{}", "[]", "[1, -2.5e+7, \"a\\u00e9\\n\"]", " {\"a\" : {\"b\": [true, null]}, \"c\": 0} ",
                             "\"\u65e5\U0001F600\""}) {
        EXPECT_TRUE(matches(json, text)) << text;
    }
    for (const char* text : {"{", "[1,]", "01", "\"\n\"", "{\"a\"}", "tru", "\"\xff\"", "\"\xed\xa0\x80\"", "[1] x"}) {
        EXPECT_FALSE(matches(json, text)) << text;
    }
}

TEST(Matcher, TokensMayEndInsideCharactersAndRules) {
    const auto grammar = compiled(kJson, {"{\"", "\":", "\"}", "\xe6\x97", "\xa5\"", "e\":1}", "x]"});
    const TokenTrie& tokens = grammar->tokens();
    const auto id = [&](std::string_view text) {
        for (TokenId i = 256; i < tokens.n_tokens(); ++i) {
            if (tokens.piece(i) == text) {
                return i;
            }
        }
        return vocab::kNoToken;
    };
    Matcher matcher(grammar);
    EXPECT_TRUE(matcher.allows(id("{\"")));
    EXPECT_TRUE(matcher.allows(id("\":")));  // a string that begins with a colon
    EXPECT_FALSE(matcher.allows(id("e\":1}")));
    matcher.accept(id("{\""));
    EXPECT_TRUE(matcher.allows(id("\xe6\x97")));
    EXPECT_FALSE(matcher.allows(id("\xa5\"")));
    EXPECT_TRUE(matcher.allows(id("e\":1}")));
    EXPECT_TRUE(matcher.allows(id("x]")));  // inside the string
    matcher.accept(id("\xe6\x97"));
    EXPECT_FALSE(matcher.allows('x'));
    EXPECT_TRUE(matcher.allows(id("\xa5\"")));
    matcher.accept(id("\xa5\""));
    EXPECT_FALSE(matcher.allows(id("x]")));
    EXPECT_FALSE(matcher.is_complete());
    EXPECT_EQ(n_taken(matcher, ":1}"), 3U);
    EXPECT_TRUE(matcher.allows(tokens.eog_tokens().front()));
    matcher.accept(tokens.eog_tokens().front());
    EXPECT_FALSE(matcher.allows(' '));
    EXPECT_EQ(matcher.trouble(), Trouble::kNone);
}

TEST(Matcher, MaskIsWhatAllowsSays) {
    const auto grammar =
        compiled(kJson, {"{\"", "\": ", "\"}", "\xe6\x97", "true", "tr", "null,", "[[", "[[1", "]]", ""});
    std::mt19937 random(7);
    for (int round = 0; round < 30; ++round) {
        Matcher matcher(grammar);
        for (int step = 0; step < 40; ++step) {
            const auto mask = matcher.mask();
            ASSERT_NE(mask, nullptr);
            std::vector<TokenId> legal;
            for (TokenId id = 0; id < grammar->tokens().n_tokens(); ++id) {
                Matcher copy = matcher;
                ASSERT_EQ(mask->has(id), copy.allows(id)) << id;
                if (mask->has(id)) {
                    legal.push_back(id);
                }
            }
            ASSERT_EQ(mask->count(), legal.size());
            if (legal.empty()) {
                break;
            }
            matcher.accept(legal[random() % legal.size()]);
            ASSERT_EQ(matcher.trouble(), Trouble::kNone);
        }
    }
}

TEST(Matcher, ForkAndRollBack) {
    Matcher matcher(compiled("root ::= \"a\" (\"b\" \"c\" | \"d\")"));
    EXPECT_EQ(n_taken(matcher, "a"), 1U);
    const Matcher before = matcher;
    EXPECT_EQ(n_taken(matcher, "bc"), 2U);
    EXPECT_TRUE(matcher.is_complete());
    matcher = before;
    EXPECT_FALSE(matcher.is_complete());
    EXPECT_FALSE(matcher.allows('c'));
    EXPECT_EQ(n_taken(matcher, "d"), 1U);
    EXPECT_TRUE(matcher.is_complete());
}

TEST(Matcher, AForbiddenTokenIsTrouble) {
    Matcher matcher(compiled("root ::= \"ab\""));
    matcher.accept('b');
    EXPECT_EQ(matcher.trouble(), Trouble::kRefused);
    EXPECT_FALSE(matcher.allows('a'));
    ASSERT_NE(matcher.mask(), nullptr);
    EXPECT_TRUE(matcher.mask()->empty());
}

TEST(Matcher, NamedTokens) {
    // 256 is "ab", 257 the end.
    const auto grammar = compiled("root ::= <[256]> !<[97]> \"z\"", {"ab"});
    Matcher matcher(grammar);
    EXPECT_FALSE(matcher.allows('a'));
    EXPECT_TRUE(matcher.allows(256));
    EXPECT_FALSE(matcher.allows(257));
    EXPECT_EQ(matcher.mask()->count(), 1U);
    matcher.accept(256);
    EXPECT_FALSE(matcher.allows(97));
    EXPECT_TRUE(matcher.allows(98));
    EXPECT_EQ(matcher.mask()->count(), 256U);  // all but 97 and the end
    matcher.accept(256);
    EXPECT_EQ(n_taken(matcher, "z"), 1U);
    EXPECT_TRUE(matcher.is_complete());
    // By its text; and both ways at once.
    auto vocab = byte_vocab({"<think>"});
    vocab->control.insert(256);
    const auto by_text = Grammar::compile("root ::= <think> \"x\" | \"<\"", std::make_shared<TokenTrie>(vocab));
    ASSERT_TRUE(by_text.has_value());
    Matcher named(*by_text);
    EXPECT_TRUE(named.allows(256));
    EXPECT_TRUE(named.allows('<'));
    named.accept(256);
    EXPECT_TRUE(named.allows('x'));
}

TEST(Matcher, RightRecursionDoesNotDeepenTheStack) {
    const auto grammar = compiled("root ::= \"a\" root | \"b\" rest\nrest ::= \"c\" rest | \"\"");
    Matcher matcher(grammar);
    n_taken(matcher, "aaaa");
    const size_t before = grammar->bytes_used();
    EXPECT_EQ(n_taken(matcher, std::string(10'000, 'a')), 10'000U);
    EXPECT_EQ(n_taken(matcher, std::string("b").append(10'000, 'c')), 10'001U);
    EXPECT_LT(grammar->bytes_used(), before + 20'000);
}

TEST(Matcher, NestingIsBoundedAndCanBeClosed) {
    const auto grammar = compiled("root ::= \"[\" root \"]\" | \"x\"");
    Matcher matcher(grammar);
    const size_t depth = n_taken(matcher, std::string(10'000, '['));
    EXPECT_EQ(depth, size_t{kMaxStackDepth} - 1);
    EXPECT_EQ(n_taken(matcher, std::string("x").append(depth, ']')), depth + 1);
    EXPECT_TRUE(matcher.is_complete());
}

TEST(Matcher, AmbiguityCostsNodesNotCopies) {
    // Every text of a's and b's has exponentially many derivations.
    const auto grammar = compiled(
        "root ::= \"a\" p root | \"a\" q root | \"a\" root r | \"\"\np ::= \"a\" | \"\"\nq ::= \"a\" | \"a\" \"a\"\nr "
        "::= "
        "\"a\" | \"\"");
    Matcher matcher(grammar);
    EXPECT_EQ(n_taken(matcher, std::string(40, 'a')), 40U);
    EXPECT_TRUE(matcher.allows(256));
    EXPECT_LT(grammar->bytes_used(), size_t{64} << 20);
}

TEST(Matcher, WorkIsBounded) {
    // 60,000 alternatives that all begin alike, each deep in its own rule: one step is expensive, but ends.
    std::string gbnf = "root ::= (x{300} | y{300})*\nx ::= \"a\"{0,200} y?\ny ::= \"a\"{0,200} x?\n";
    const auto grammar = Grammar::compile(gbnf, std::make_shared<TokenTrie>(byte_vocab()));
    if (!grammar.has_value()) {
        EXPECT_NE(grammar.error().message, "");
        return;
    }
    const auto begin = std::chrono::steady_clock::now();
    Matcher matcher(*grammar);
    for (int i = 0; i < 50 && matcher.trouble() == Trouble::kNone && matcher.allows('a'); ++i) {
        matcher.accept('a');
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(Matcher, LazyWakesAtAWord) {
    const auto grammar = compiled("root ::= \"<call>\" [0-9]+", {"<ca", "ll>", "ll>1", "ll>x", "go<call>7"});
    auto triggers = Triggers::create({{Trigger::Kind::kWord, "<call>", vocab::kNoToken}}, 262);
    ASSERT_TRUE(triggers.has_value());
    const auto shared = std::make_shared<const Triggers>(*triggers);
    Matcher matcher(grammar, shared);
    const TokenId end = grammar->tokens().eog_tokens().front();
    EXPECT_TRUE(matcher.is_asleep());
    EXPECT_TRUE(matcher.allows(end));
    EXPECT_EQ(n_taken(matcher, "any text <cal"), 13U);
    EXPECT_TRUE(matcher.is_asleep());
    EXPECT_TRUE(matcher.allows('x'));
    n_taken(matcher, "x ");
    matcher.accept(256);  // <ca
    EXPECT_TRUE(matcher.allows(257));
    EXPECT_TRUE(matcher.allows(258));
    EXPECT_FALSE(matcher.allows(259));  // wakes it and breaks it at once
    EXPECT_FALSE(matcher.mask()->has(259));
    EXPECT_TRUE(matcher.mask()->has(258));
    const Matcher before = matcher;
    matcher.accept(258);
    EXPECT_FALSE(matcher.is_asleep());
    EXPECT_FALSE(matcher.allows('x'));
    EXPECT_TRUE(matcher.allows('5'));
    EXPECT_TRUE(matcher.allows(end));
    matcher = before;
    EXPECT_TRUE(matcher.is_asleep());
    matcher.accept(257);
    EXPECT_FALSE(matcher.allows(end));
    Matcher whole(grammar, shared);
    EXPECT_TRUE(whole.allows(260));
    whole.accept(260);
    EXPECT_FALSE(whole.is_asleep());
    EXPECT_TRUE(whole.allows(end));
}

TEST(Matcher, LazyWakesAtAToken) {
    const auto grammar = compiled("root ::= <[256]> \"1\"", {"<tool>"});
    auto triggers = Triggers::create({{Trigger::Kind::kToken, "", 256}}, 258);
    ASSERT_TRUE(triggers.has_value());
    Matcher matcher(grammar, std::make_shared<const Triggers>(*triggers));
    EXPECT_EQ(n_taken(matcher, "<tool>x"), 7U);
    EXPECT_TRUE(matcher.is_asleep());
    matcher.accept(256);
    EXPECT_FALSE(matcher.allows('x'));
    EXPECT_TRUE(matcher.allows('1'));
}

TEST(Matcher, LazyWakesAtAPattern) {
    const auto grammar = compiled("root ::= \"{\" [0-9]+ \"}\"", {"{1", "{x", "\u00e9"});
    const auto lazy = [&](Trigger::Kind kind, const char* pattern) {
        auto triggers = Triggers::create({{kind, pattern, vocab::kNoToken}}, 260);
        EXPECT_TRUE(triggers.has_value());
        return Matcher(grammar, std::make_shared<const Triggers>(*triggers));
    };
    Matcher found = lazy(Trigger::Kind::kPattern, R"(call: *(\{))");
    EXPECT_EQ(n_taken(found, "call { call: \xC3\xA9 call: "), 22U);
    EXPECT_TRUE(found.is_asleep());
    EXPECT_TRUE(found.allows(257)) << "text that the grammar doesn't take hasn't woken it";
    Matcher not_woken = found;
    not_woken.accept(257);
    EXPECT_TRUE(not_woken.is_asleep());
    EXPECT_TRUE(found.mask()->has(257));
    found.accept(256);
    EXPECT_FALSE(found.is_asleep());
    EXPECT_FALSE(found.allows('x'));
    EXPECT_EQ(n_taken(found, "2}"), 2U);
    Matcher full = lazy(Trigger::Kind::kPatternFull, R"(\s*(\{)[\s\S]*)");
    Matcher text = full;
    n_taken(full, "\n {");
    EXPECT_FALSE(full.is_asleep());
    n_taken(text, "a {1");
    EXPECT_TRUE(text.is_asleep()) << "the pattern must match all of the text";
    Matcher costly = lazy(Trigger::Kind::kPattern, R"(^(a+)+$b)");
    EXPECT_EQ(n_taken(costly, std::string(300, 'a')), 300U);
    EXPECT_TRUE(costly.is_asleep());
    Matcher cut = lazy(Trigger::Kind::kPatternFull, R"([\s\S]*(\{))");
    n_taken(cut, std::string(300, 'a'));
    EXPECT_TRUE(cut.is_asleep());
}

TEST(Triggers, AreChecked) {
    EXPECT_FALSE(Triggers::create({{Trigger::Kind::kPattern, "(", vocab::kNoToken}}, 10).has_value());
    EXPECT_FALSE(Triggers::create({{Trigger::Kind::kPatternFull, "\\C", vocab::kNoToken}}, 10).has_value());
    EXPECT_FALSE(Triggers::create({}, 10).has_value());
    EXPECT_FALSE(Triggers::create({{Trigger::Kind::kWord, "", vocab::kNoToken}}, 10).has_value());
    EXPECT_FALSE(Triggers::create({{Trigger::Kind::kToken, "", 10}}, 10).has_value());
    EXPECT_FALSE(Triggers::create({{Trigger::Kind::kToken, "", -1}}, 10).has_value());
    EXPECT_FALSE(Triggers::create(std::vector<Trigger>(65, {Trigger::Kind::kToken, "", 1}), 10).has_value());
    EXPECT_FALSE(Triggers::create({{Trigger::Kind::kWord, std::string(2000, 'x'), vocab::kNoToken}}, 10).has_value());
}

TEST(Library, KeepsTheLatest) {
    Library library(byte_vocab());
    const auto first = library.get("root ::= \"a\"");
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(*library.get("root ::= \"a\""), *first);
    EXPECT_NE(*library.get("root ::= \"b\""), *first);
    EXPECT_FALSE(library.get("root ::= (").has_value());
}

TEST(TokenTrie, HoldsEveryPieceOnce) {
    auto vocab = byte_vocab({"abc", "ab", "abd", "abc", ""});
    const TokenTrie trie(vocab);
    // 256 bytes, "ab" below 'a', "abc" and "abd" below it, and the sentinel.
    EXPECT_EQ(trie.nodes().size(), 256U + 3U + 1U);
    EXPECT_EQ(trie.tokens().size(), 256U + 4U);
    EXPECT_EQ(trie.piece(256), "abc");
    EXPECT_EQ(trie.piece(261), "");  // the end
    EXPECT_EQ(trie.piece(-1), "");
    EXPECT_EQ(trie.max_depth(), 3U);
}

}  // namespace
}  // namespace foresay::grammar
