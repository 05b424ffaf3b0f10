// GBNF text to a syntax tree. Owns the notation and its limits; must not know how a grammar is matched.
// Source of the notation: shared/spec/sampling.md, section 5. Read next: machine.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vocab/vocab.h"

namespace foresay::grammar {

using vocab::TokenId;

/// What a grammar may hold. A text within them takes at most some tens of MB once compiled.
inline constexpr size_t kMaxGbnfBytes = size_t{1} << 20;
inline constexpr size_t kMaxNodes = 200'000;
inline constexpr int kMaxGroupDepth = 100;
inline constexpr uint32_t kMaxRepetition = 65'536;
inline constexpr uint32_t kUnbounded = 0xFFFFFFFFU;

/// Code points low..high.
struct CodeRange {
    uint32_t low = 0;
    uint32_t high = 0;
};

/// Sorts, joins what touches.
std::vector<CodeRange> normalised(std::vector<CodeRange> ranges);
/// All code points but these and the surrogates; `ranges` must be normalised.
std::vector<CodeRange> complement(const std::vector<CodeRange>& ranges);
/// Appends the code point in UTF-8.
void append_utf8(std::string* out, uint32_t code_point);

struct Node {
    enum class Kind : uint8_t { kText, kClass, kToken, kRule, kSequence, kChoice, kRepeat };

    Kind kind = Kind::kSequence;
    bool is_negated = false;          ///< kToken: every token but this one
    uint32_t rule = 0;                ///< kRule: index into Ast::rules
    TokenId token = vocab::kNoToken;  ///< kToken
    uint32_t min = 0;                 ///< kRepeat
    uint32_t max = 0;                 ///< kRepeat; kUnbounded
    std::string text;                 ///< kText, UTF-8
    std::vector<CodeRange> ranges;    ///< kClass, normalised
    std::vector<uint32_t> children;   ///< kSequence, kChoice, kRepeat (one)
};

struct Rule {
    std::string name;
    uint32_t body = 0;  ///< index into Ast::nodes
    int line = 0;       ///< of its definition, from 1
    int column = 0;
};

struct Ast {
    std::vector<Node> nodes;
    std::vector<Rule> rules;
    uint32_t root = 0;  ///< the rule named "root"
};

/// The token that a text is, or kNoToken; for `<text>` in a grammar.
using FindToken = std::function<TokenId(std::string_view)>;

/// Errors: invalid_argument "line L, column C: what was wrong", for syntax, unknown and repeated rules and limits.
Result<Ast> parse_gbnf(std::string_view text, const FindToken& find_token);

}  // namespace foresay::grammar
