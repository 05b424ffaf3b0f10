// States of a match, interned: equal sets of continuations are the same id, whatever text led to them. So the states of
// a grammar form a growing table of a deterministic automaton, in which a step that was taken once costs one look-up.
//
// A state is a set of (state of the machine, stack). A "stack" here is a set of stacks in one: a node lists the
// possible return addresses and for each the node below. Equal nodes are one node, and nodes that meet at one place of
// the machine are merged; so ambiguity costs nodes, not copies, and the depth of nesting is the only thing that grows
// with the text. Must not know tokens' texts or sampling. Not thread-safe. Read next: grammar.h.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/machine.h"

namespace foresay::grammar {

using StateId = uint32_t;
inline constexpr StateId kDead = 0;  ///< nothing can follow

/// Deepest nesting of rules (return addresses on the stack). What would go deeper isn't offered: it counts as
/// forbidden.
inline constexpr uint32_t kMaxStackDepth = 2048;

class StateTable {
  public:
    explicit StateTable(const Machine& machine);

    /// Before anything is read.
    StateId start();

    /// After one byte; kDead when the grammar forbids it, and when the work limit is reached.
    StateId step(StateId state, uint8_t byte) {
        const StateId known = steps_[state][byte];
        return known != kUnknown ? known : step_anew(state, byte);
    }

    /// After one token taken as a whole (edges for tokens, not its text).
    StateId step_token(StateId state, TokenId token);
    /// What holds when either does.
    StateId merge(StateId a, StateId b);

    /// Whether the text may end here.
    bool accepts(StateId state) const { return states_[state].accepts; }

    /// Whether anything but the end may follow.
    bool has_items(StateId state) const { return states_[state].end > states_[state].begin; }

    /// The token edges that leave the state.
    void token_edges(StateId state, std::vector<TokenEdge>* out) const;
    /// The same state of another table of the same machine.
    StateId import(const StateTable& other, StateId state);

    /// Elementary steps since creation; a caller that wants to bound its work sets a limit on the sum.
    uint64_t work() const { return work_; }

    void set_work_limit(uint64_t limit) { work_limit_ = limit; }

    bool is_over_limit() const { return work_ > work_limit_; }

    /// Memory held, in bytes, about.
    size_t bytes_used() const;

  private:
    using StackId = uint32_t;
    static constexpr StackId kNoStack = 0;

    struct StackEdge {
        uint32_t target = 0;  ///< state of the machine to return to; kEnd: the text may end
        StackId below = kNoStack;
        bool operator==(const StackEdge&) const = default;
    };

    struct Stack {
        uint32_t begin = 0;  ///< into stack_edges_, ascending by target
        uint32_t end = 0;
        uint32_t depth = 0;
    };

    struct Item {
        uint32_t at = 0;  ///< state of the machine that reads something
        StackId stack = kNoStack;
        bool operator==(const Item&) const = default;
    };

    struct State {
        uint32_t begin = 0;  ///< into items_, ascending by `at`
        uint32_t end = 0;
        bool accepts = false;
    };

    static constexpr uint32_t kEnd = 0xFFFFFFFFU;
    static constexpr StateId kUnknown = 0xFFFFFFFFU;

    StateId step_anew(StateId state, uint8_t byte);
    std::span<const StackEdge> edges_of(StackId stack) const;
    std::span<const Item> items_of(StateId state) const;
    StackId intern_stack(std::vector<StackEdge> edges);
    StackId push(uint32_t target, StackId below);
    StackId unite(StackId a, StackId b);
    StackId import_stack(const StateTable& other, StackId stack, std::unordered_map<StackId, StackId>* known);

    void begin_closure();
    void add(uint32_t at, StackId stack);
    StateId close();
    StateId intern_state(std::vector<Item> items, bool accepts);

    const Machine& machine_;
    std::vector<StackEdge> stack_edges_;
    std::vector<Stack> stacks_;
    std::unordered_multimap<uint64_t, StackId> stacks_by_hash_;
    std::unordered_map<uint64_t, StackId> united_;  ///< (a, b) to their union
    std::vector<Item> items_;
    std::vector<State> states_;
    std::unordered_multimap<uint64_t, StateId> states_by_hash_;
    std::deque<std::array<StateId, 256>> steps_;  ///< per state
    uint64_t work_ = 0;
    uint64_t work_limit_ = ~uint64_t{0};

    // Scratch of one closure.
    std::vector<StackId> stack_at_;  ///< per state of the machine; valid where mark_at_ is mark_
    std::vector<uint32_t> mark_at_;
    std::vector<uint8_t> is_pending_;
    std::vector<uint32_t> reached_;
    std::vector<uint32_t> pending_;
    uint32_t mark_ = 0;
    bool accepts_ = false;
};

}  // namespace foresay::grammar
