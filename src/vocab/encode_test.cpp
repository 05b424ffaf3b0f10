// Encoding and decoding with small vocabularies: frames, specials, bytes, merges against the naive loop, cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "vocab/common.h"
#include "vocab/merge.h"
#include "vocab/tiny_vocab.h"
#include "vocab/utf8.h"

namespace foresay::vocab {
namespace {

using Ids = std::vector<TokenId>;

std::shared_ptr<const Vocab> load(const TinyVocab& tiny) {
    auto vocab = tiny.load();
    EXPECT_TRUE(vocab.has_value()) << vocab.error().to_string();
    return vocab.has_value() ? *vocab : nullptr;
}

std::vector<std::string> texts(const Vocab& vocab, const Ids& ids) {
    std::vector<std::string> out;
    for (const TokenId id : ids) {
        out.emplace_back(vocab.text(id));
    }
    return out;
}

std::string pieces(const Vocab& vocab, const Ids& ids) {
    std::string out;
    for (const TokenId id : ids) {
        out += vocab.piece(id, true);
    }
    return out;
}

TEST(MergeQueue, EqualsTheNaiveLoop) {
    std::mt19937 random(5);
    for (int round = 0; round < 500; ++round) {
        // Random merges over ids 0..15; several pairs may share a priority, as equal scores do.
        std::vector<Merge> table(256);
        for (int i = 0; i < 60; ++i) {
            table[random() % 256] = {static_cast<uint32_t>(random() % 20), static_cast<TokenId>(random() % 16)};
        }
        const auto pair = [&](const Symbol& l, const Symbol& r) {
            return table[static_cast<size_t>(l.id) * 16 + static_cast<size_t>(r.id)];
        };
        MergeQueue queue;
        for (uint32_t i = 0; i < 1 + random() % 40; ++i) {
            queue.symbols.push_back({i, 1, static_cast<TokenId>(random() % 16)});
        }
        std::vector<Symbol> naive = queue.symbols;
        while (true) {
            size_t best = naive.size();
            Merge merge;
            for (size_t i = 0; i + 1 < naive.size(); ++i) {
                const Merge found = pair(naive[i], naive[i + 1]);
                if (found.priority < merge.priority) {
                    merge = found;
                    best = i;
                }
            }
            if (best == naive.size()) {
                break;
            }
            naive[best] = {naive[best].begin, naive[best].bytes + naive[best + 1].bytes, merge.id};
            naive.erase(naive.begin() + static_cast<std::ptrdiff_t>(best) + 1);
        }
        queue.run(pair);
        ASSERT_EQ(queue.symbols.size(), naive.size()) << round;
        for (size_t i = 0; i < naive.size(); ++i) {
            ASSERT_EQ(queue.symbols[i].id, naive[i].id) << round;
            ASSERT_EQ(queue.symbols[i].begin, naive[i].begin) << round;
        }
    }
}

TEST(Bpe, MergesAndSpecials) {
    const auto vocab = load(tiny_bpe());
    ASSERT_NE(vocab, nullptr);
    EXPECT_EQ(vocab->kind(), Kind::kBpe);
    EXPECT_EQ(texts(*vocab, vocab->encode("hello world", false, false)),
              (std::vector<std::string>{"hello", "\xC4\xA0w", "or", "l", "d"}));
    EXPECT_EQ(vocab->encode("<|im_start|>", false, true), Ids{257});
    EXPECT_GT(vocab->encode("<|im_start|>", false, false).size(), 5U);
    // User-defined tokens are cut out in any case; the longer one wins wherever it stands.
    EXPECT_EQ(vocab->encode("<tool><tool>x", false, false), (Ids{259, 260}));
    EXPECT_EQ(vocab->encode("", true, true), Ids{});
    EXPECT_EQ(vocab->newline(), vocab->encode("\n", false, false).front());
}

TEST(Bpe, FramesFollowTheFile) {
    TinyVocab tiny = tiny_bpe();
    tiny.flags = {{"add_bos_token", true}, {"add_eos_token", true}};
    const auto vocab = load(tiny);
    ASSERT_NE(vocab, nullptr);
    EXPECT_EQ(vocab->encode("", true, true), (Ids{256, 256}));
    EXPECT_EQ(vocab->encode("", false, true), Ids{});
    const Ids ids = vocab->encode("hello", true, false);
    EXPECT_EQ(ids.size(), 3U);
    EXPECT_EQ(vocab->decode(ids, true, true), "hello");
    EXPECT_EQ(vocab->decode(ids, false, true), "<|endoftext|>hello<|endoftext|>");
    EXPECT_EQ(vocab->decode(ids, false, false), "hello");
}

TEST(Bpe, InvalidUtf8BecomesReplacements) {
    const auto vocab = load(tiny_bpe());
    ASSERT_NE(vocab, nullptr);
    const std::string r(kReplacement);
    EXPECT_EQ(pieces(*vocab, vocab->encode("ab\xFF\xC3(\xE2\x82 ", false, false)), "ab" + r + r + "(" + r + r + " ");
    EXPECT_EQ(pieces(*vocab, vocab->encode("x\xED\xA0\x80y", false, false)), "x\xED\xA0\x80y");
    for (int byte = 0; byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        const std::string back = pieces(*vocab, vocab->encode({&c, 1}, true, true));
        EXPECT_EQ(back, byte < 0x80 ? std::string(1, c) : r);
    }
}

TEST(Spm, ScoresPrefixAndBytes) {
    const auto vocab = load(tiny_spm());
    ASSERT_NE(vocab, nullptr);
    EXPECT_EQ(vocab->kind(), Kind::kSpm);
    EXPECT_EQ(texts(*vocab, vocab->encode("hello", false, false)), (std::vector<std::string>{"\xE2\x96\x81hello"}));
    // A prefix blank comes again after a special token.
    EXPECT_EQ(texts(*vocab, vocab->encode("<tool>hello", true, false)),
              (std::vector<std::string>{"<s>", "<tool>", "\xE2\x96\x81hello"}));
    EXPECT_EQ(texts(*vocab, vocab->encode("\xF0\x9F", false, false)),
              (std::vector<std::string>{"\xE2\x96\x81", "<0xF0>", "<0x9F>"}));
    EXPECT_EQ(pieces(*vocab, vocab->encode("\xFF\xC3(", false, false)), " \xFF\xC3(");
    EXPECT_EQ(vocab->newline(), 3 + '\n');
    EXPECT_TRUE(vocab->is_byte(3 + '\n'));
    EXPECT_EQ(vocab->piece(3 + '\n', false), "\n");
    EXPECT_EQ(vocab->encode("", true, true), Ids{1});
}

TEST(Spm, DecodeKeepsTheBlankBehindBos) {
    const auto vocab = load(tiny_spm());
    ASSERT_NE(vocab, nullptr);
    const Ids with_bos = vocab->encode("hello", true, false);
    EXPECT_EQ(vocab->decode(with_bos, true, false), " hello");
    EXPECT_EQ(vocab->decode(with_bos, false, false), " hello");
    EXPECT_EQ(vocab->decode(vocab->encode("hello", false, false), false, false), "hello");
    EXPECT_EQ(vocab->decode(vocab->encode(" hello", false, false), false, false), " hello");
    EXPECT_EQ(vocab->decode({}, true, true), "");
}

TEST(Gemma4, BlanksNewlinesAndBytes) {
    const auto vocab = load(tiny_gemma4());
    ASSERT_NE(vocab, nullptr);
    EXPECT_TRUE(vocab->adds_bos());
    EXPECT_EQ(texts(*vocab, vocab->encode(" hello", true, false)),
              (std::vector<std::string>{"<bos>", "\xE2\x96\x81hell", "o"}));
    EXPECT_EQ(texts(*vocab, vocab->encode("\n\n", false, false)), (std::vector<std::string>{"\n\n"}));
    EXPECT_EQ(texts(*vocab, vocab->encode("\n\n\n", false, false)), (std::vector<std::string>{"\n\n", "\n"}));
    EXPECT_EQ(texts(*vocab, vocab->encode("z", false, false)), (std::vector<std::string>{"<0x7A>"}));
    EXPECT_EQ(pieces(*vocab, vocab->encode(" h\xC3\xA9 \xE4\xBD\xA0", false, false)), " h\xC3\xA9 \xE4\xBD\xA0");
}

TEST(Vocab, RoundTripsOfRandomText) {
    std::mt19937 random(9);
    const std::vector<std::string> parts{
        "hello",  " w", "aaaa", "a", " ",         "  ", "\n", "\t", "\xC3\xA9", "\xE4\xBD\xA0", "\xF0\x9F\x99\x82",
        "<tool>", "'s", "7",    ".", "<|im_end|>"};
    const auto bpe = load(tiny_bpe());
    const auto spm = load(tiny_spm());
    const auto gemma4 = load(tiny_gemma4());
    ASSERT_TRUE(bpe != nullptr && spm != nullptr && gemma4 != nullptr);
    for (int round = 0; round < 300; ++round) {
        std::string text;
        for (size_t n = random() % 30; n > 0; --n) {
            text += parts[random() % parts.size()];
        }
        for (const bool parse_special : {false, true}) {
            EXPECT_EQ(pieces(*bpe, bpe->encode(text, false, parse_special)), text);
            EXPECT_EQ(pieces(*gemma4, gemma4->encode(text, false, parse_special)), text);
        }
        if (text.find("<tool>") == std::string::npos) {
            EXPECT_EQ(spm->decode(spm->encode(text, false, false), false, true), text);
        }
    }
}

// Cutting at blanks and caching words are for speed only. Here a token joins a blank to what stands before it.
TEST(Vocab, CutsAndCachesChangeNothing) {
    TinyVocab joined = tiny_spm();
    joined.add("o\xE2\x96\x81", 1, 5);
    joined.add("o\xE2\x96\x81w", 1, 6);
    const auto vocab = load(joined);
    ASSERT_NE(vocab, nullptr);
    EXPECT_EQ(texts(*vocab, vocab->encode("o w", false, false)),
              (std::vector<std::string>{"\xE2\x96\x81", "o\xE2\x96\x81w"}));
    for (const TinyVocab& tiny : {tiny_bpe(), tiny_spm(), tiny_gemma4(), joined}) {
        const auto each = load(tiny);
        ASSERT_NE(each, nullptr);
        // A line ends every merge in these vocabularies, so a long text is the sum of its lines; short ones bypass the
        // cache.
        const std::string line = "hello w world\x20\x20hello \xC3\xA9 aaaa held\t";
        const Ids once = each->encode(line, false, false);
        std::string many;
        for (int i = 0; i < 400; ++i) {
            many += line;
        }
        const Ids all = each->encode(many, false, false);
        const size_t prefix = each->kind() == Kind::kSpm ? 1 : 0;  // the prefix blank comes once
        ASSERT_GE(all.size(), 400 * (once.size() - 2 * prefix));
        EXPECT_TRUE(std::equal(once.begin(), once.end(), all.begin()));
        EXPECT_EQ(pieces(*each, all), (prefix == 1 ? " " : "") + many);
        // The same line further on gives the same ids: compare the last two.
        const Ids two = each->encode(line + line, false, false);
        const size_t n = two.size() - once.size();
        EXPECT_TRUE(std::equal(two.end() - static_cast<std::ptrdiff_t>(n), two.end(),
                               all.end() - static_cast<std::ptrdiff_t>(n)));
    }
}

TEST(Vocab, OutsideIdsAreEmpty) {
    const auto vocab = load(tiny_bpe());
    ASSERT_NE(vocab, nullptr);
    for (const TokenId id : {-1, -1000000, vocab->n_tokens(), 0x7FFFFFFF}) {
        EXPECT_EQ(vocab->piece(id, true), "");
        EXPECT_EQ(vocab->text(id), "");
        EXPECT_FALSE(vocab->is_control(id) || vocab->is_eog(id) || vocab->is_byte(id));
    }
    EXPECT_EQ(vocab->decode(Ids{-5, 0x7FFFFFFF}, true, true), "");
}

TEST(Vocab, ManyThreadsEncodeAlike) {
    const auto vocab = load(tiny_bpe());
    ASSERT_NE(vocab, nullptr);
    const std::string text = "hello world <tool> hello 123 \xC3\xA9\xFF";
    const Ids expected = vocab->encode(text, false, true);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int n = 0; n < 200; ++n) {
                EXPECT_EQ(vocab->encode(text, false, true), expected);
            }
        });
    }
}

TEST(CleanSpaces, ThreePasses) {
    EXPECT_EQ(clean_spaces("Hello , world !"), "Hello, world!");
    EXPECT_EQ(clean_spaces("a  ."), "a .");
    EXPECT_EQ(clean_spaces("do ' not"), "do'not");
    EXPECT_EQ(clean_spaces("it 's I 'm they 're we 've"), "it's I'm they're we've");
    EXPECT_EQ(clean_spaces("don 't I 'd we 'll"), "don 't I 'd we 'll");
    EXPECT_EQ(clean_spaces(""), "");
    EXPECT_EQ(clean_spaces(" ' ' "), "'' ");
}

// A quadratic merge takes hours here; the bound only has to tell the two apart on a busy machine under a sanitiser.
TEST(Vocab, MegabytesStayNearLinear) {
    const auto start = std::chrono::steady_clock::now();
    for (const TinyVocab& tiny : {tiny_bpe(), tiny_spm(), tiny_gemma4()}) {
        const auto vocab = load(tiny);
        ASSERT_NE(vocab, nullptr);
        for (const char c : {'a', ' ', '\n', 'l', '<'}) {
            // The full megabyte where a word is longest; an eighth of it elsewhere, for the sanitisers' sake.
            const std::string text(size_t{1} << (c == 'a' ? 20 : 17), c);
            const std::string back = pieces(*vocab, vocab->encode(text, false, true));
            EXPECT_EQ(back.size(), text.size() + (vocab->kind() == Kind::kSpm ? 1 : 0));
        }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 120.0);
}

}  // namespace
}  // namespace foresay::vocab
