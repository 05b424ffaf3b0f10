// ngram-suffix (suffix decoding): a trie of all suffixes of the text counts what followed what; a draft follows the
// most frequent branch as long as its probability holds. Per slot and request, with a budget of nodes. Must not know
// the target or acceptance. Source: draft-models.md, section 12.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/drafter.h"

namespace foresay::spec {

/// Counts of all token sequences up to `depth` long. Memory is bounded by `max_nodes`.
class SuffixTrie {
  public:
    SuffixTrie(int32_t depth, int32_t max_nodes);

    /// One more token of the text. False: the budget is used up and the token was not taken.
    bool push(TokenId token);
    void clear();

    /// The node of a sequence; -1 when it never occurred.
    int32_t find(std::span<const TokenId> tokens) const;

    /// The most frequent child, -1 for a leaf.
    int32_t best_child(int32_t node) const { return nodes_[static_cast<size_t>(node)].best; }

    int32_t count(int32_t node) const { return nodes_[static_cast<size_t>(node)].count; }

    TokenId token(int32_t node) const { return nodes_[static_cast<size_t>(node)].token; }

    size_t n_nodes() const { return nodes_.size(); }

    size_t memory_bytes() const;

  private:
    struct Node {
        int32_t parent = -1;
        TokenId token = -1;
        int32_t count = 0;
        int32_t best = -1;
    };

    int32_t child(int32_t node, TokenId token) const;
    int32_t add_child(int32_t node, TokenId token);
    size_t place(int32_t node, TokenId token) const;
    void grow();

    size_t depth_;
    size_t max_nodes_;
    std::vector<Node> nodes_;     ///< 0 is the root
    std::vector<int32_t> index_;  ///< open addressing by (parent, token); 0 empty
    std::vector<int32_t> ends_;   ///< the nodes of the text's newest suffixes, the root first
};

class NgramSuffix final : public Drafter {
  public:
    struct Options {
        int32_t min_match = 5;   ///< tokens that must match
        int32_t max_depth = 64;  ///< longest sequence that is counted
        int32_t n_max = 16;
        int32_t max_nodes = 1 << 20;  ///< per slot, 24 bytes each
    };

    explicit NgramSuffix(const Options& options);

    std::string_view name() const override { return "ngram-suffix"; }

    Status propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) override;
    void begin(int slot, std::span<const TokenId> prompt) override;
    void accepted(int slot, int32_t n_drafted, int32_t n_accepted, bool own) override;
    void shifted(int slot, int32_t keep, int32_t discard) override;
    void reset(int slot) override;
    size_t memory_bytes() const override;

  private:
    struct SlotState {
        explicit SlotState(const Options& options) : trie(options.max_depth, options.max_nodes) {}

        SuffixTrie trie;
        size_t n_fed = 0;  ///< tokens of the context that the trie has seen
        double p_floor = 0.1;
        int n_low = 0;
        float p_min = 0.0F;  ///< of the last request
    };

    SlotState& state(int slot);
    void feed(SlotState& slot, std::span<const TokenId> tokens) const;
    void propose_one(const DraftRequest& request, Draft& draft);

    Options options_;
    std::vector<SlotState> slots_;
    std::vector<TokenId> path_;
};

}  // namespace foresay::spec
