#include "grammar/grammar.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"

namespace foresay::grammar {
namespace {

/// A table above this is replaced by a fresh one.
constexpr size_t kMaxTableBytes = size_t{64} << 20;
/// Masks kept per table: 32 KB each for 260,000 tokens.
constexpr size_t kMaxMasks = 128;
/// Elementary steps that one operation may take: about half a second. Ordinary grammars need a thousandth.
constexpr uint64_t kMaxWork = 50'000'000;

}  // namespace

void Mask::set(TokenId id, bool value) {
    const auto i = static_cast<size_t>(id);
    FORESAY_ASSERT(id >= 0 && i / 64 < bits_.size());
    const uint64_t bit = uint64_t{1} << (i % 64);
    bits_[i / 64] = value ? bits_[i / 64] | bit : bits_[i / 64] & ~bit;
}

bool Mask::empty() const {
    return std::all_of(bits_.begin(), bits_.end(), [](uint64_t word) { return word == 0; });
}

size_t Mask::count() const {
    size_t n = 0;
    for (const uint64_t word : bits_) {
        n += static_cast<size_t>(std::popcount(word));
    }
    return n;
}

Grammar::Grammar(Machine machine, std::shared_ptr<const TokenTrie> tokens)
    : machine_(std::move(machine)), tokens_(std::move(tokens)), table_(std::make_shared<Table>(machine_)) {}

Result<std::shared_ptr<Grammar>> Grammar::compile(std::string_view gbnf, std::shared_ptr<const TokenTrie> tokens) {
    FORESAY_ASSERT(tokens != nullptr);
    const vocab::Vocab& vocab = tokens->vocab();
    const auto find_token = [&vocab](std::string_view text) {
        const std::vector<TokenId> ids = vocab.encode(text, false, true);
        return ids.size() == 1 ? ids.front() : vocab::kNoToken;
    };
    FORESAY_TRY(const Ast ast, parse_gbnf(gbnf, find_token));
    FORESAY_TRY(Machine machine, Machine::compile(ast));
    return std::shared_ptr<Grammar>(new Grammar(std::move(machine), std::move(tokens)));
}

size_t Grammar::bytes_used() const {
    const std::lock_guard lock(mutex_);
    return table_->states.bytes_used();
}

void Grammar::refresh(std::shared_ptr<Table>* table, StateId* state) {
    if (table_->states.bytes_used() > kMaxTableBytes) {
        table_ = std::make_shared<Table>(machine_);
    }
    if (*table != table_) {
        *state = table_->states.import((*table)->states, *state);
        *table = table_;
    }
}

/// A token may go two ways at once: by its text, and as a token that the grammar names.
StateId Grammar::after_token(Table& table, StateId state, TokenId id) {
    const StateId named = table.states.step_token(state, id);
    StateId read = state;
    const std::string_view piece = tokens_->piece(id);
    for (size_t i = 0; i < piece.size() && read != kDead; ++i) {
        read = table.states.step(read, static_cast<uint8_t>(piece[i]));
    }
    return piece.empty() ? named : table.states.merge(read, named);
}

/// Sets the bits of all tokens whose text may follow. False: over the work limit. May replace the table when a grammar
/// has a state of its own for almost every beginning of a token: memory stays bounded, and the walk goes on.
bool Grammar::walk_trie(std::shared_ptr<Table>* table, StateId* state, Mask* mask) {
    const auto nodes = tokens_->nodes();
    const auto tokens = tokens_->tokens();
    std::vector<StateId> path(tokens_->max_depth() + 1, kDead);
    path[0] = *state;
    constexpr uint32_t kCheckEvery = 1024;
    uint32_t n_visited = 0;
    for (uint32_t i = 0; i + 1 < nodes.size();) {
        const TokenTrie::Node& node = nodes[i];
        StateTable& states = (*table)->states;
        const StateId next = states.step(path[node.depth - 1U], node.byte);
        if (next == kDead) {
            if (states.is_over_limit()) {
                return false;
            }
            i = node.end;
            continue;
        }
        path[node.depth] = next;
        for (uint32_t j = node.first_token; j < nodes[i + 1].first_token; ++j) {
            mask->set(tokens[j], true);
        }
        ++i;
        if (++n_visited % kCheckEvery == 0 && states.bytes_used() > 2 * kMaxTableBytes) {
            auto fresh = std::make_shared<Table>(machine_);
            for (size_t depth = 0; depth <= node.depth; ++depth) {
                path[depth] = fresh->states.import(states, path[depth]);
            }
            // The work done so far counts on.
            fresh->states.set_work_limit(fresh->states.work() + kMaxWork - std::min(kMaxWork, states.work()));
            *state = path[0];
            *table = fresh;
            table_ = std::move(fresh);
        }
    }
    return true;
}

std::shared_ptr<const Mask> Grammar::mask(std::shared_ptr<Table>* table, StateId* state) {
    if (const auto known = (*table)->masks.find(*state); known != (*table)->masks.end()) {
        return known->second;
    }
    auto mask = std::make_shared<Mask>(tokens_->n_tokens());
    if (!walk_trie(table, state, mask.get())) {
        return nullptr;
    }
    std::vector<TokenEdge> edges;
    (*table)->states.token_edges(*state, &edges);
    for (const TokenEdge& edge : edges) {
        if (!edge.is_negated && edge.token < tokens_->n_tokens()) {
            mask->set(edge.token, true);
        }
        for (TokenId id = 0; edge.is_negated && id < tokens_->n_tokens(); ++id) {
            if (id != edge.token) {
                mask->set(id, true);
            }
        }
    }
    for (const TokenId id : tokens_->eog_tokens()) {
        mask->set(id, (*table)->states.accepts(*state));
    }
    auto& order = (*table)->mask_order;
    if (order.size() >= kMaxMasks) {
        (*table)->masks.erase(order.front());
        order.pop_front();
    }
    order.push_back(*state);
    (*table)->masks.emplace(*state, mask);
    return mask;
}

Matcher::Matcher(std::shared_ptr<Grammar> grammar, std::shared_ptr<const Triggers> triggers)
    : grammar_(std::move(grammar)), triggers_(std::move(triggers)), asleep_(triggers_ != nullptr) {
    const std::lock_guard lock(grammar_->mutex_);
    table_ = grammar_->table_;
    begin_work();
    state_ = table_->states.start();
    check_work();
}

/// Before each operation, under the lock: a table that isn't full, and a limit on the work.
void Matcher::begin_work() {
    grammar_->refresh(&table_, &state_);
    table_->states.set_work_limit(table_->states.work() + kMaxWork);
}

void Matcher::check_work() {
    if (table_->states.is_over_limit()) {
        trouble_ = Trouble::kTooCostly;
    }
}

StateId Matcher::read(StateId state, std::string_view bytes) {
    for (size_t i = 0; i < bytes.size() && state != kDead; ++i) {
        state = table_->states.step(state, static_cast<uint8_t>(bytes[i]));
    }
    return state;
}

/// Where the token leads. Dead: it is forbidden.
Matcher::Next Matcher::after(TokenId id, bool with_patterns) {
    if (!asleep_) {
        return {grammar_->after_token(*table_, state_, id), false, {}, false};
    }
    if (triggers_->has_token(id)) {
        return {grammar_->after_token(*table_, state_, id), false, {}, false};
    }
    const std::string_view piece = grammar_->tokens().piece(id);
    std::string text =
        with_patterns ? tail_ : tail_.substr(tail_.size() - std::min(tail_.size(), triggers_->word_tail_size()));
    text += piece;
    if (const size_t at = triggers_->find_word(text); at != std::string::npos) {
        // The rest of the token belongs to the grammar too: a token that starts it wrongly is refused.
        return {read(state_, std::string_view(text).substr(at)), false, {}, false};
    }
    if (with_patterns) {
        // A text that the grammar doesn't take hasn't woken it: so patterns, which are costly, never forbid a token.
        const size_t at = triggers_->find_pattern(text, !is_cut_);
        const StateId state = at == std::string::npos ? kDead : read(state_, std::string_view(text).substr(at));
        if (state != kDead) {
            return {state, false, {}, false};
        }
    }
    const size_t keep = std::min(text.size(), triggers_->tail_size());
    return {state_, true, text.substr(text.size() - keep), is_cut_ || keep < text.size()};
}

bool Matcher::allows(TokenId id) {
    if (trouble_ != Trouble::kNone || ended_) {
        return false;
    }
    const std::lock_guard lock(grammar_->mutex_);
    begin_work();
    if (grammar_->tokens().is_eog(id)) {
        return asleep_ || table_->states.accepts(state_);
    }
    const Next next = after(id, false);
    check_work();
    return trouble_ == Trouble::kNone && next.state != kDead;
}

std::shared_ptr<const Mask> Matcher::mask() {
    if (trouble_ != Trouble::kNone || ended_) {
        return std::make_shared<Mask>(grammar_->tokens().n_tokens());
    }
    const std::lock_guard lock(grammar_->mutex_);
    begin_work();
    if (asleep_) {
        // Rare: only a token that completes a trigger and goes on against the grammar is forbidden here.
        auto mask = std::make_shared<Mask>(grammar_->tokens().n_tokens());
        for (TokenId id = 0; id < grammar_->tokens().n_tokens(); ++id) {
            mask->set(id, grammar_->tokens().is_eog(id) || after(id, false).state != kDead);
        }
        check_work();
        return trouble_ == Trouble::kNone ? mask : nullptr;
    }
    auto mask = grammar_->mask(&table_, &state_);
    if (mask == nullptr) {
        trouble_ = Trouble::kTooCostly;
    }
    return mask;
}

void Matcher::accept(TokenId id) {
    if (trouble_ != Trouble::kNone || ended_) {
        trouble_ = trouble_ == Trouble::kNone ? Trouble::kRefused : trouble_;
        return;
    }
    const std::lock_guard lock(grammar_->mutex_);
    begin_work();
    if (grammar_->tokens().is_eog(id)) {
        trouble_ = asleep_ || table_->states.accepts(state_) ? Trouble::kNone : Trouble::kRefused;
        ended_ = true;
        return;
    }
    Next next = after(id, true);
    check_work();
    if (trouble_ == Trouble::kNone && next.state == kDead) {
        trouble_ = Trouble::kRefused;
    }
    state_ = next.state;
    asleep_ = next.asleep;
    tail_ = std::move(next.tail);
    is_cut_ = next.is_cut;
}

bool Matcher::is_complete() {
    const std::lock_guard lock(grammar_->mutex_);
    return trouble_ == Trouble::kNone && !asleep_ && !ended_ && table_->states.accepts(state_) &&
           !table_->states.has_items(state_);
}

Result<std::shared_ptr<Grammar>> Library::get(std::string_view gbnf) {
    constexpr size_t kMost = 8;
    const std::lock_guard lock(mutex_);
    for (auto it = grammars_.begin(); it != grammars_.end(); ++it) {
        if (it->first == gbnf) {
            auto found = std::move(*it);
            grammars_.erase(it);
            grammars_.push_back(std::move(found));
            return grammars_.back().second;
        }
    }
    if (tokens_ == nullptr) {
        tokens_ = std::make_shared<TokenTrie>(vocab_);
    }
    FORESAY_TRY(std::shared_ptr<Grammar> grammar, Grammar::compile(gbnf, tokens_));
    if (grammars_.size() >= kMost) {
        grammars_.pop_front();
    }
    grammars_.emplace_back(gbnf, grammar);
    return grammar;
}

}  // namespace foresay::grammar
