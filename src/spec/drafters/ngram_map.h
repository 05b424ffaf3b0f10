// ngram-map-k and ngram-map-k4v: a table from hashed n-grams to positions finds an earlier occurrence of the last n
// tokens; each key remembers how long its drafts stood. map-k4v also counts up to four different continuations per key
// and drafts only when one of them dominates. State is per slot and per request. Must not know the target or
// acceptance. Source: draft-models.md, section 11.2.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "spec/drafter.h"
#include "spec/ngram.h"

namespace foresay::spec {

class NgramMap final : public Drafter {
  public:
    enum class Kind { kK, kK4v };

    /// sizes within their flags' ranges. as_reference: a key's draft length never grows again, and a draft is copied
    /// from the newest match even when another one showed the winning continuation (for comparing traces).
    NgramMap(Kind kind, const NgramOptions::Copy& sizes, bool as_reference);

    std::string_view name() const override { return kind_ == Kind::kK ? "ngram-map-k" : "ngram-map-k4v"; }

    Status propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) override;
    void begin(int slot, std::span<const TokenId> prompt) override;
    void accepted(int slot, int32_t n_drafted, int32_t n_accepted, bool own) override;
    void shifted(int slot, int32_t keep, int32_t discard) override;
    void reset(int slot) override;
    size_t memory_bytes() const override;

  private:
    struct Value {
        int32_t pos = -1;  ///< where the key stood; -1: unused
        int32_t count = 0;
        int32_t n_acc = 0;  ///< drafts of it may be this long
    };

    struct Key {
        int32_t pos = 0;       ///< an occurrence of the key in the context
        int32_t stat_pos = 0;  ///< occurrences before this are counted
        int32_t hits = 0;
        std::array<Value, 4> values;
    };

    struct SlotState {
        std::vector<int32_t> table;  ///< hash -> position, 0 empty; allocated at the first draft
        std::vector<Key> keys;
        std::vector<int32_t> key_of;  ///< hash -> newest key with this hash + 1, chained by next_key
        std::vector<int32_t> next_key;
        int32_t last = 0;      ///< highest position indexed
        int32_t n_prompt = 0;  ///< context length at begin()
        int32_t n_seen = 0;    ///< context length at the last draft
        int32_t used_key = -1;
        int32_t used_value = 0;
    };

    /// tokens: the context without its last token.
    using History = std::span<const TokenId>;

    SlotState& state(int slot);
    void clear(SlotState& slot, int32_t n_prompt) const;
    void propose_one(const DraftRequest& request, Draft& draft);
    uint32_t hash(const TokenId* tokens) const;
    bool equal(const TokenId* a, const TokenId* b) const;
    int32_t find(const SlotState& slot, History history, const TokenId* pattern, uint32_t pattern_hash) const;
    void index(SlotState& slot, History history) const;
    int32_t key_for(SlotState& slot, History history, const TokenId* pattern, uint32_t pattern_hash,
                    int32_t match) const;
    /// Counts new occurrences of the key; the value to draft, -1 when none dominates.
    int32_t choose_value(Key& key, History history, const TokenId* pattern, int32_t match) const;

    Kind kind_;
    int32_t n_;
    int32_t m_;
    int32_t min_hits_;
    bool as_reference_;
    std::vector<SlotState> slots_;
};

}  // namespace foresay::spec
