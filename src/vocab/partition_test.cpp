// The Aho-Corasick partition against the plain rule of the specification.
#include "vocab/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "vocab/special.h"
#include "vocab/tiny_vocab.h"

namespace foresay::vocab {
namespace {

struct Piece {
    std::string raw;
    TokenId id = kNoToken;

    bool operator==(const Piece& other) const { return raw == other.raw && id == other.id; }
};

bool is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Section 3.2 word by word: every candidate, longest first, cut out of every raw fragment.
std::vector<Piece> plain_rule(const TokenTable& tokens, std::vector<TokenId> candidates, const std::string& text,
                              bool parse_special) {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](TokenId a, TokenId b) { return tokens.text(a).size() > tokens.text(b).size(); });
    std::vector<Piece> pieces;
    if (!text.empty()) {
        pieces.push_back({text, kNoToken});
    }
    for (const TokenId id : candidates) {
        if (!parse_special && tokens.has(id, kControl | kUnknown)) {
            continue;
        }
        std::vector<Piece> next;
        for (const Piece& piece : pieces) {
            std::string rest = piece.raw;
            size_t hit = piece.id == kNoToken ? rest.find(tokens.text(id)) : std::string::npos;
            for (; hit != std::string::npos; hit = rest.find(tokens.text(id))) {
                std::string left = rest.substr(0, hit);
                rest = rest.substr(hit + tokens.text(id).size());
                while (tokens.has(id, kLstrip) && !left.empty() && is_blank(left.back())) {
                    left.pop_back();
                }
                while (tokens.has(id, kRstrip) && !rest.empty() && is_blank(rest.front())) {
                    rest.erase(0, 1);
                }
                if (!left.empty()) {
                    next.push_back({left, kNoToken});
                }
                next.push_back({"", id});
            }
            if (piece.id != kNoToken) {
                next.push_back(piece);
            } else if (!rest.empty()) {
                next.push_back({rest, kNoToken});
            }
        }
        pieces = next;
    }
    return pieces;
}

Result<TokenTable> table_of(const TinyVocab& tiny) {
    const std::vector<std::byte> bytes = tiny.bytes();
    FORESAY_TRY(const std::shared_ptr<const gguf::File> file, gguf::File::from_bytes(bytes));
    return TokenTable::read(*file);
}

TEST(Partition, EqualsThePlainRuleOnRandomVocabularies) {
    std::mt19937 random(3);
    for (int round = 0; round < 400; ++round) {
        TinyVocab tiny;
        for (int i = 0; i < 8; ++i) {
            std::string text;
            for (size_t n = 1 + random() % 5; n > 0; --n) {
                text.push_back("ab <"[random() % 4]);
            }
            if (std::find(tiny.tokens.begin(), tiny.tokens.end(), text) == tiny.tokens.end()) {
                tiny.add(text, static_cast<int32_t>(2 + random() % 3));
            }
        }
        auto tokens = table_of(tiny);
        ASSERT_TRUE(tokens.has_value());
        for (TokenId id = 0; id < tokens->size(); ++id) {
            if (random() % 4 == 0) {
                tokens->add_attributes(id, static_cast<uint8_t>(random() % 2 == 0 ? kLstrip : kRstrip));
            }
        }
        const std::vector<TokenId> candidates = partition_candidates(*tokens);
        const Partition partition(*tokens, candidates);
        for (int n = 0; n < 20; ++n) {
            std::string text;
            for (size_t left = random() % 30; left > 0; --left) {
                text.push_back("ab <"[random() % 4]);
            }
            for (const bool parse_special : {false, true}) {
                std::vector<Piece> pieces;
                for (const Fragment& fragment : partition.split(text, parse_special)) {
                    pieces.push_back({std::string(fragment.raw), fragment.id});
                }
                ASSERT_EQ(pieces, plain_rule(*tokens, candidates, text, parse_special))
                    << "round " << round << " '" << text << "'";
            }
        }
    }
}

TEST(Partition, NoCandidatesLeaveTheText) {
    TinyVocab tiny;
    tiny.add("a");
    const auto tokens = table_of(tiny);
    ASSERT_TRUE(tokens.has_value());
    const Partition partition(*tokens, {});
    ASSERT_EQ(partition.split("aaa", true).size(), 1U);
    EXPECT_EQ(partition.split("aaa", true)[0].raw, "aaa");
    EXPECT_TRUE(partition.split("", true).empty());
}

// Gemma stores runs of blanks as user-defined tokens: every place of a long run ends thirty of them.
TEST(Partition, RunsOfNestedTokensStayLinear) {
    TinyVocab tiny;
    for (size_t n = 1; n <= 31; ++n) {
        tiny.add(std::string(n, ' '), 4);
    }
    const auto tokens = table_of(tiny);
    ASSERT_TRUE(tokens.has_value());
    const Partition partition(*tokens, partition_candidates(*tokens));
    const std::string text(1 << 20, ' ');
    const auto fragments = partition.split(text, false);
    EXPECT_EQ(fragments.size(), (text.size() + 30) / 31);
    EXPECT_EQ(fragments.front().id, 30);
}

}  // namespace
}  // namespace foresay::vocab
