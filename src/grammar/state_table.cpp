#include "grammar/state_table.h"

#include <algorithm>

#include "base/assert.h"

namespace foresay::grammar {
namespace {

/// Mixes a word into a hash (the finaliser of splitmix64, Steele et al. 2014).
uint64_t mix(uint64_t hash, uint64_t word) {
    uint64_t z = hash ^ (word + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U));
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
}

}  // namespace

StateTable::StateTable(const Machine& machine) : machine_(machine) {
    stack_at_.resize(machine.n_states());
    mark_at_.assign(machine.n_states(), 0);
    is_pending_.assign(machine.n_states(), 0);
    stacks_.push_back({});  // kNoStack
    const StateId dead = intern_state({}, false);
    FORESAY_ASSERT(dead == kDead);
    steps_.front().fill(kDead);
}

size_t StateTable::bytes_used() const {
    constexpr size_t kPerHash = 48;  // a node of an unordered container, about
    return stack_edges_.size() * sizeof(StackEdge) + stacks_.size() * (sizeof(Stack) + kPerHash) +
           united_.size() * kPerHash + items_.size() * sizeof(Item) +
           states_.size() * (sizeof(State) + sizeof(steps_.front()) + kPerHash);
}

std::span<const StateTable::StackEdge> StateTable::edges_of(StackId stack) const {
    return std::span(stack_edges_).subspan(stacks_[stack].begin, stacks_[stack].end - stacks_[stack].begin);
}

std::span<const StateTable::Item> StateTable::items_of(StateId state) const {
    return std::span(items_).subspan(states_[state].begin, states_[state].end - states_[state].begin);
}

StateTable::StackId StateTable::intern_stack(std::vector<StackEdge> edges) {
    uint64_t hash = edges.size();
    uint32_t depth = 0;
    for (const StackEdge& edge : edges) {
        hash = mix(hash, (uint64_t{edge.target} << 32U) | edge.below);
        depth = std::max(depth, stacks_[edge.below].depth + 1);
    }
    const auto [first, last] = stacks_by_hash_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
        const auto known = edges_of(it->second);
        if (std::equal(known.begin(), known.end(), edges.begin(), edges.end())) {
            return it->second;
        }
    }
    Stack stack;
    stack.begin = static_cast<uint32_t>(stack_edges_.size());
    stack_edges_.insert(stack_edges_.end(), edges.begin(), edges.end());
    stack.end = static_cast<uint32_t>(stack_edges_.size());
    stack.depth = depth;
    stacks_.push_back(stack);
    const auto id = static_cast<StackId>(stacks_.size() - 1);
    stacks_by_hash_.emplace(hash, id);
    work_ += edges.size();
    return id;
}

StateTable::StackId StateTable::push(uint32_t target, StackId below) {
    return intern_stack({StackEdge{target, below}});
}

/// Recursion: as deep as the shallower stack, at most kMaxStackDepth.
StateTable::StackId StateTable::unite(StackId a, StackId b) {
    if (a == b || b == kNoStack) {
        return a;
    }
    if (a == kNoStack) {
        return b;
    }
    ++work_;
    const uint64_t key = (uint64_t{std::min(a, b)} << 32U) | std::max(a, b);
    if (const auto known = united_.find(key); known != united_.end()) {
        return known->second;
    }
    std::vector<StackEdge> edges;
    // By index: unite() may move the pool.
    size_t i = stacks_[a].begin;
    size_t j = stacks_[b].begin;
    const size_t i_end = stacks_[a].end;
    const size_t j_end = stacks_[b].end;
    while (i < i_end || j < j_end) {
        if (j == j_end || (i < i_end && stack_edges_[i].target < stack_edges_[j].target)) {
            edges.push_back(stack_edges_[i++]);
        } else if (i == i_end || stack_edges_[j].target < stack_edges_[i].target) {
            edges.push_back(stack_edges_[j++]);
        } else {
            const uint32_t target = stack_edges_[i].target;
            const StackId below = unite(stack_edges_[i++].below, stack_edges_[j++].below);
            edges.push_back({target, below});
        }
    }
    const StackId united = intern_stack(std::move(edges));
    united_.emplace(key, united);
    return united;
}

void StateTable::begin_closure() {
    if (++mark_ == 0) {
        std::fill(mark_at_.begin(), mark_at_.end(), 0);
        mark_ = 1;
    }
    reached_.clear();
    pending_.clear();
    accepts_ = false;
}

void StateTable::add(uint32_t at, StackId stack) {
    ++work_;
    if (at == kEnd) {
        accepts_ = true;
        return;
    }
    if (mark_at_[at] != mark_) {
        mark_at_[at] = mark_;
        stack_at_[at] = stack;
        reached_.push_back(at);
    } else {
        const StackId united = unite(stack_at_[at], stack);
        if (united == stack_at_[at]) {
            return;
        }
        stack_at_[at] = united;
        if (is_pending_[at] != 0) {
            return;
        }
    }
    is_pending_[at] = 1;
    pending_.push_back(at);
}

/// Follows all that reads nothing until nothing changes: skips, calls, returns. Ends because without left recursion
/// only finitely many stacks can be reached, and stacks only grow.
StateId StateTable::close() {
    while (!pending_.empty()) {
        const uint32_t at = pending_.back();
        pending_.pop_back();
        is_pending_[at] = 0;
        if (is_over_limit()) {
            continue;  // empties the list; the caller sees the limit
        }
        const StackId stack = stack_at_[at];
        if (machine_.is_final(at)) {
            // By index: add() may move the pool.
            for (size_t i = stacks_[stack].begin, end = stacks_[stack].end; i < end; ++i) {
                const StackEdge edge = stack_edges_[i];
                add(edge.target, edge.below);
            }
        }
        for (const uint32_t target : machine_.skips(at)) {
            add(target, stack);
        }
        for (const CallEdge& call : machine_.calls(at)) {
            if (call.is_tail) {
                add(machine_.start(call.rule), stack);
            } else if (stacks_[stack].depth < kMaxStackDepth) {
                add(machine_.start(call.rule), push(call.target, stack));
            }
        }
    }
    if (is_over_limit()) {
        return kDead;
    }
    std::vector<Item> items;
    for (const uint32_t at : reached_) {
        if (!machine_.bytes(at).empty() || !machine_.tokens(at).empty()) {
            items.push_back({at, stack_at_[at]});
        }
    }
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.at < b.at; });
    return intern_state(std::move(items), accepts_);
}

StateId StateTable::intern_state(std::vector<Item> items, bool accepts) {
    uint64_t hash = mix(items.size(), accepts ? 1 : 0);
    for (const Item& item : items) {
        hash = mix(hash, (uint64_t{item.at} << 32U) | item.stack);
    }
    const auto [first, last] = states_by_hash_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
        const auto known = items_of(it->second);
        if (states_[it->second].accepts == accepts &&
            std::equal(known.begin(), known.end(), items.begin(), items.end())) {
            return it->second;
        }
    }
    State state;
    state.begin = static_cast<uint32_t>(items_.size());
    items_.insert(items_.end(), items.begin(), items.end());
    state.end = static_cast<uint32_t>(items_.size());
    state.accepts = accepts;
    states_.push_back(state);
    steps_.emplace_back().fill(kUnknown);
    const auto id = static_cast<StateId>(states_.size() - 1);
    states_by_hash_.emplace(hash, id);
    return id;
}

StateId StateTable::start() {
    begin_closure();
    add(machine_.root_start(), push(kEnd, kNoStack));
    return close();
}

StateId StateTable::step_anew(StateId state, uint8_t byte) {
    begin_closure();
    for (const Item& item : items_of(state)) {
        const auto edges = machine_.bytes(item.at);
        work_ += edges.size();
        for (const ByteEdge& edge : edges) {
            if (edge.low <= byte && byte <= edge.high) {
                add(edge.target, item.stack);
            }
        }
    }
    const StateId next = close();
    if (!is_over_limit()) {
        steps_[state][byte] = next;
    }
    return next;
}

StateId StateTable::step_token(StateId state, TokenId token) {
    begin_closure();
    for (const Item& item : items_of(state)) {
        for (const TokenEdge& edge : machine_.tokens(item.at)) {
            if ((edge.token == token) != edge.is_negated) {
                add(edge.target, item.stack);
            }
        }
    }
    return close();
}

StateId StateTable::merge(StateId a, StateId b) {
    if (a == kDead || b == kDead) {
        return a == kDead ? b : a;
    }
    begin_closure();
    for (const StateId state : {a, b}) {
        for (const Item& item : items_of(state)) {
            add(item.at, item.stack);
        }
        accepts_ = accepts_ || states_[state].accepts;
    }
    return close();
}

void StateTable::token_edges(StateId state, std::vector<TokenEdge>* out) const {
    for (const Item& item : items_of(state)) {
        const auto edges = machine_.tokens(item.at);
        out->insert(out->end(), edges.begin(), edges.end());
    }
}

StateTable::StackId StateTable::import_stack(const StateTable& other, StackId stack,
                                             std::unordered_map<StackId, StackId>* known) {
    if (stack == kNoStack) {
        return kNoStack;
    }
    if (const auto it = known->find(stack); it != known->end()) {
        return it->second;
    }
    std::vector<StackEdge> edges;
    for (const StackEdge& edge : other.edges_of(stack)) {
        edges.push_back({edge.target, import_stack(other, edge.below, known)});
    }
    const StackId id = intern_stack(std::move(edges));
    known->emplace(stack, id);
    return id;
}

StateId StateTable::import(const StateTable& other, StateId state) {
    FORESAY_ASSERT(&other.machine_ == &machine_);
    std::unordered_map<StackId, StackId> known;
    std::vector<Item> items;
    for (const Item& item : other.items_of(state)) {
        items.push_back({item.at, import_stack(other, item.stack, &known)});
    }
    return intern_state(std::move(items), other.accepts(state));
}

}  // namespace foresay::grammar
