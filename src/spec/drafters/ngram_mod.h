// ngram-mod: a hash table from the last n tokens to the token that followed them; a draft follows it token by token.
// One table per slot and request, or one that all requests share and add to when the user asks for it: then a text may
// be drafted from another request's text. Must not know the target or acceptance. Source: draft-models.md,
// section 11.3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/drafter.h"

namespace foresay::spec {

class NgramMod final : public Drafter {
  public:
    struct Options {
        int32_t n_match = 24;
        int32_t n_min = 48;  ///< a shorter draft is dropped
        int32_t n_max = 64;
        bool shared = false;
        int32_t n_ctx_slot = 4096;  ///< sizes a table of its own
    };

    explicit NgramMod(const Options& options);

    std::string_view name() const override { return "ngram-mod"; }

    Status propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) override;
    void begin(int slot, std::span<const TokenId> prompt) override;
    void accepted(int slot, int32_t n_drafted, int32_t n_accepted, bool own) override;
    void shifted(int slot, int32_t keep, int32_t discard) override;
    void reset(int slot) override;
    size_t memory_bytes() const override;

  private:
    struct Entry {
        TokenId token = -1;  ///< -1: empty
        uint32_t tag = 0;    ///< more bits of the key's hash: an n-gram that was never seen gives no draft
    };

    struct Table {
        std::vector<Entry> entries;  ///< a power of two
        size_t n_used = 0;
    };

    struct SlotState {
        Table table;
        size_t n_learnt = 0;  ///< n-grams that begin before this are in the table
        int n_low = 0;        ///< drafts in a row of which little stood
    };

    SlotState& state(int slot);

    Table& table_of(SlotState& slot) { return options_.shared ? shared_ : slot.table; }

    void clear_table(SlotState& slot);

    struct Key {
        size_t home = 0;
        uint32_t tag = 0;
    };

    uint64_t key(const TokenId* tokens) const;
    static Key mixed(uint64_t hash);
    Entry& place(Table& table, Key key) const;
    /// Adds every n-gram of `history` that begins at `from` or later and has a follower.
    void learn(Table& table, std::span<const TokenId> history, size_t from);
    void propose_one(const DraftRequest& request, Draft& draft);

    Options options_;
    size_t n_;
    size_t table_size_;
    Table shared_;
    std::vector<SlotState> slots_;
    std::vector<TokenId> window_;
};

}  // namespace foresay::spec
