// The pieces of a vocabulary as a trie in one array, so that a grammar sees every beginning once. Made once per
// vocabulary. Must not know grammars. Read next: grammar.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vocab/vocab.h"

namespace foresay::grammar {

using vocab::TokenId;

/// Control tokens and others without text aren't in the trie: a grammar reaches them only by name (`<[id]>`).
/// End-of-generation tokens aren't either: they are legal exactly where the grammar may end.
class TokenTrie {
  public:
    /// Cost: a sort of the vocabulary, about 0.1 s for 150,000 tokens.
    explicit TokenTrie(std::shared_ptr<const vocab::Vocab> vocab);

    /// Nodes in preorder: a node's children follow it, the subtree ends at `end`.
    struct Node {
        uint32_t end = 0;
        uint32_t first_token = 0;  ///< its tokens go up to the next node's first
        uint16_t depth = 0;        ///< bytes from the root, this one included
        uint8_t byte = 0;
    };

    /// The last one is a sentinel.
    std::span<const Node> nodes() const { return nodes_; }

    /// Ids in the order of their texts.
    std::span<const TokenId> tokens() const { return tokens_; }

    /// Longest piece; pieces above 4096 bytes aren't in the trie.
    size_t max_depth() const { return max_depth_; }

    /// What the grammar reads for the token; empty: nothing.
    std::string_view piece(TokenId id) const;

    bool is_eog(TokenId id) const { return vocab_->is_eog(id); }

    std::span<const TokenId> eog_tokens() const { return vocab_->eog_tokens(); }

    int32_t n_tokens() const { return n_tokens_; }

    const vocab::Vocab& vocab() const { return *vocab_; }

  private:
    std::shared_ptr<const vocab::Vocab> vocab_;
    int32_t n_tokens_ = 0;
    std::string text_;               ///< all pieces
    std::vector<uint32_t> offsets_;  ///< n_tokens + 1
    std::vector<Node> nodes_;
    std::vector<TokenId> tokens_;
    size_t max_depth_ = 0;
};

}  // namespace foresay::grammar
