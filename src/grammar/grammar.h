// Grammars over the tokens of one vocabulary: which tokens may follow, and what follows when one was taken. This is all
// that `sampling` knows of the module. In reading order: gbnf.h (text to tree), machine.h (tree to automata),
// state_table.h (states of a match), this file, trigger.h (grammars that sleep), schema.h (JSON Schema to GBNF).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/machine.h"
#include "grammar/state_table.h"
#include "grammar/token_trie.h"
#include "grammar/trigger.h"

namespace foresay::grammar {

/// One bit per token of the vocabulary.
class Mask {
  public:
    explicit Mask(int32_t n_tokens) : bits_((static_cast<size_t>(n_tokens) + 63) / 64, 0) {}

    bool has(TokenId id) const {
        const auto i = static_cast<size_t>(id);
        return id >= 0 && i / 64 < bits_.size() && ((bits_[i / 64] >> (i % 64)) & 1U) != 0;
    }

    void set(TokenId id, bool value);
    bool empty() const;
    size_t count() const;

  private:
    std::vector<uint64_t> bits_;
};

/// Why a match can't go on.
enum class Trouble : uint8_t {
    kNone,
    kRefused,   ///< a token was accepted that the grammar forbids
    kTooCostly  ///< the grammar is so ambiguous that one step exceeds the work limit
};

/// A compiled grammar with the states seen so far; shared by all matches of it. Threads: any (one lock per operation).
class Grammar {
  public:
    /// Errors: those of parse_gbnf and Machine::compile.
    static Result<std::shared_ptr<Grammar>> compile(std::string_view gbnf, std::shared_ptr<const TokenTrie> tokens);

    const TokenTrie& tokens() const { return *tokens_; }

    /// Memory of the states, in bytes, about.
    size_t bytes_used() const;

  private:
    friend class Matcher;

    /// The states, replaced when they take too much memory: matches that still use the old table bring their state
    /// over.
    struct Table {
        explicit Table(const Machine& machine) : states(machine) {}

        StateTable states;
        std::unordered_map<StateId, std::shared_ptr<const Mask>> masks;
        std::deque<StateId> mask_order;  ///< oldest first
    };

    Grammar(Machine machine, std::shared_ptr<const TokenTrie> tokens);

    /// The table to go on with; brings the state over if it is a new one.
    void refresh(std::shared_ptr<Table>* table, StateId* state);
    StateId after_token(Table& table, StateId state, TokenId id);
    std::shared_ptr<const Mask> mask(std::shared_ptr<Table>* table, StateId* state);
    bool walk_trie(std::shared_ptr<Table>* table, StateId* state, Mask* mask);

    const Machine machine_;
    std::shared_ptr<const TokenTrie> tokens_;
    mutable std::mutex mutex_;
    std::shared_ptr<Table> table_;  // guarded by mutex_, like the contents of every table
};

/// One match: a value. A copy is a fork; going back is assigning an older copy. Costs nothing per token of the text.
class Matcher {
  public:
    /// With triggers the match sleeps, and allows everything, until one is met; the grammar then reads the text from
    /// the trigger on.
    explicit Matcher(std::shared_ptr<Grammar> grammar, std::shared_ptr<const Triggers> triggers = nullptr);

    /// Whether the token may come next. End-of-generation tokens: whether the grammar may end here.
    bool allows(TokenId id);
    /// All tokens that allows() holds for. Null when the work limit was met (trouble() says so).
    /// Cost: the first time in a state a walk over the vocabulary, then a look-up.
    std::shared_ptr<const Mask> mask();
    /// The token is part of the text now.
    void accept(TokenId id);
    /// The text may end here, and nothing else may follow.
    bool is_complete();

    bool is_asleep() const { return asleep_; }

    Trouble trouble() const { return trouble_; }

  private:
    struct Next {
        StateId state = kDead;
        bool asleep = false;
        std::string tail;
        bool is_cut = false;
    };

    Next after(TokenId id, bool with_patterns);
    StateId read(StateId state, std::string_view bytes);
    void begin_work();
    void check_work();

    std::shared_ptr<Grammar> grammar_;
    std::shared_ptr<const Triggers> triggers_;
    std::shared_ptr<Grammar::Table> table_;
    StateId state_ = kDead;
    bool asleep_ = false;
    bool ended_ = false;   ///< an end-of-generation token was accepted
    std::string tail_;     ///< of a sleeping match: the end of the text, where a trigger may have begun
    bool is_cut_ = false;  ///< the text had more in front of the tail
    Trouble trouble_ = Trouble::kNone;
};

/// The compiled grammars of one vocabulary, the latest kept: clients repeat the same schema. Threads: any.
class Library {
  public:
    explicit Library(std::shared_ptr<const vocab::Vocab> vocab) : vocab_(std::move(vocab)) {}

    /// Errors: those of Grammar::compile.
    Result<std::shared_ptr<Grammar>> get(std::string_view gbnf);

  private:
    std::shared_ptr<const vocab::Vocab> vocab_;
    std::mutex mutex_;
    std::shared_ptr<const TokenTrie> tokens_;  // guarded by mutex_; made when first needed
    std::deque<std::pair<std::string, std::shared_ptr<Grammar>>> grammars_;  // guarded by mutex_; oldest first
};

}  // namespace foresay::grammar
