// A grammar as a recursive transition network over bytes: one small automaton per rule, whose edges read bytes, read a
// whole token, or call a rule. Owns compilation, its limits and the search for left recursion; must not know the state
// of a match. Read next: state_table.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grammar/gbnf.h"

namespace foresay::grammar {

/// Bounds memory (about 16 bytes each) and the longest step of a match.
inline constexpr size_t kMaxStates = 200'000;
inline constexpr size_t kMaxEdges = 1'000'000;

/// Reads one byte of low..high.
struct ByteEdge {
    uint8_t low = 0;
    uint8_t high = 0;
    uint32_t target = 0;
};

/// Runs a rule, then goes on at target. A call whose target only ends the rule is a tail call: it needs no return
/// address, so that right recursion doesn't deepen the stack.
struct CallEdge {
    uint32_t rule = 0;
    uint32_t target = 0;
    bool is_tail = false;
};

/// Reads one token as a whole.
struct TokenEdge {
    TokenId token = vocab::kNoToken;
    bool is_negated = false;
    uint32_t target = 0;
};

class Machine {
  public:
    /// Errors: invalid_argument for left recursion (naming the rule and its line) and for exceeded limits.
    static Result<Machine> compile(const Ast& ast);

    size_t n_states() const { return is_final_.size(); }

    uint32_t root_start() const { return starts_[root_]; }

    uint32_t start(uint32_t rule) const { return starts_[rule]; }

    bool is_final(uint32_t state) const { return is_final_[state] != 0; }

    std::span<const ByteEdge> bytes(uint32_t state) const { return bytes_.of(state); }

    std::span<const CallEdge> calls(uint32_t state) const { return calls_.of(state); }

    std::span<const TokenEdge> tokens(uint32_t state) const { return tokens_.of(state); }

    std::span<const uint32_t> skips(uint32_t state) const { return skips_.of(state); }

  private:
    /// Edges grouped by the state they leave.
    template <typename Edge>
    struct Table {
        std::vector<Edge> edges;
        std::vector<uint32_t> begins;  ///< n_states + 1

        std::span<const Edge> of(uint32_t state) const {
            return std::span(edges).subspan(begins[state], begins[state + 1] - begins[state]);
        }
    };

    friend class MachineBuilder;
    Status check_left_recursion(const Ast& ast) const;

    Table<ByteEdge> bytes_;
    Table<CallEdge> calls_;
    Table<TokenEdge> tokens_;
    Table<uint32_t> skips_;         ///< targets reached without reading
    std::vector<uint32_t> starts_;  ///< per rule
    std::vector<uint8_t> is_final_;
    uint32_t root_ = 0;
};

/// Whether the text is a grammar. Errors: those of parse_gbnf and Machine::compile.
Status check_gbnf(std::string_view text, const FindToken& find_token);

}  // namespace foresay::grammar
