// Cuts special tokens out of a text: global longest-first priority, found with one Aho-Corasick pass.
// Must not know algorithms or files. Source: shared/spec/tokenizers.md, sections 3.2 and 3.3; Aho & Corasick 1975.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "vocab/token_table.h"

namespace foresay::vocab {

/// A piece of text that the algorithm encodes (id is kNoToken) or a special token.
struct Fragment {
    std::string_view raw;
    TokenId id = kNoToken;
};

/// The matcher over one vocabulary's special tokens. Threads: const after construction.
class Partition {
  public:
    Partition() = default;
    /// tokens: read during construction only. candidates: ids, ascending.
    Partition(const TokenTable& tokens, const std::vector<TokenId>& candidates);

    /// Fragments in text order, empty ones left out; views into text. parse_special false leaves control and unknown
    /// tokens as text. Cost: linear in the text plus the number of matches, whatever the count of candidates.
    std::vector<Fragment> split(std::string_view text, bool parse_special) const;

  private:
    struct Node {
        int32_t fail = 0;          ///< longest proper suffix that is a prefix of some token
        int32_t output = -1;       ///< nearest node on the fail chain, itself included, that ends a token
        int32_t next_output = -1;  ///< the one after that: shorter tokens that end at the same place
        int32_t depth = 0;         ///< bytes from the root
        TokenId id = kNoToken;     ///< the token that ends here
        uint8_t attributes = 0;
    };

    struct Hit {
        int32_t node;
        size_t end;
    };

    int32_t child(int32_t node, unsigned char byte) const;
    void insert(std::string_view text, TokenId id, uint8_t attributes);
    void link();
    int32_t usable(int32_t node, bool parse_special) const;
    std::vector<std::vector<Hit>> find_hits(std::string_view text, bool parse_special) const;

    std::vector<Node> nodes_;
    std::array<int32_t, 256> root_children_{};        ///< 0 where there is none: nothing leads back to the root
    std::unordered_map<uint64_t, int32_t> children_;  ///< node << 8 | byte, for all nodes but the root
    size_t max_bytes_ = 0;
};

}  // namespace foresay::vocab
