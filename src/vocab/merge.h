// The merge loop that SPM and BPE share: a priority queue over a linked list of symbols, O(n log n) for a word of n
// symbols. A word can be a whole line or a hostile megabyte, so the naive loop (quadratic) isn't an option.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "vocab/vocab.h"

namespace foresay::vocab {

/// A run of bytes of the word that is one token so far, or one character that isn't a token (id is kNoToken).
struct Symbol {
    uint32_t begin = 0;
    uint32_t bytes = 0;
    TokenId id = kNoToken;
};

/// What a pair becomes. Lower priorities merge first; ties go to the leftmost pair.
struct Merge {
    static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
    uint32_t priority = kNone;
    TokenId id = kNoToken;
};

/// Scratch for merge_symbols; keep one per encode call so that words don't allocate.
class MergeQueue {
  public:
    std::vector<Symbol> symbols;  ///< in: the characters of a word; out: its tokens, in order

    /// Merges until no pair has a Merge. pair(left, right) -> Merge, called with adjacent symbols only.
    template <typename PairFn>
    void run(const PairFn& pair) {
        const size_t n = symbols.size();
        if (n < 2) {
            return;
        }
        links_.resize(n);
        heap_.clear();
        for (size_t i = 0; i < n; ++i) {
            links_[i] = {static_cast<uint32_t>(i) - 1, static_cast<uint32_t>(i) + 1, {}};
        }
        for (size_t i = 0; i + 1 < n; ++i) {
            consider(i, pair, false);
        }
        std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
            const uint64_t top = heap_.back();
            heap_.pop_back();
            const auto left = static_cast<size_t>(top & 0xFFFFFFFFU);
            // A stale entry: one of the two was merged since, so the pair at this place is another one or none.
            if (links_[left].merge.priority != static_cast<uint32_t>(top >> 32)) {
                continue;
            }
            join(left, pair);
        }
        compact();
    }

  private:
    struct Link {
        uint32_t prev;
        uint32_t next;
        Merge merge;  ///< of this symbol with its right neighbour; none once the symbol has been swallowed
    };

    template <typename PairFn>
    void consider(size_t left, const PairFn& pair, bool in_heap_order) {
        const size_t right = links_[left].next;
        links_[left].merge = right < symbols.size() ? pair(symbols[left], symbols[right]) : Merge{};
        if (links_[left].merge.priority != Merge::kNone) {
            heap_.push_back(static_cast<uint64_t>(links_[left].merge.priority) << 32 | left);
            if (in_heap_order) {
                std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
            }
        }
    }

    template <typename PairFn>
    void join(size_t left, const PairFn& pair) {
        const size_t right = links_[left].next;
        symbols[left].bytes += symbols[right].bytes;
        symbols[left].id = links_[left].merge.id;
        symbols[right].bytes = 0;
        links_[right].merge = {};
        links_[left].next = links_[right].next;
        if (links_[right].next < symbols.size()) {
            links_[links_[right].next].prev = static_cast<uint32_t>(left);
        }
        consider(left, pair, true);
        if (left != 0) {
            consider(links_[left].prev, pair, true);
        }
    }

    void compact() {
        symbols.erase(std::remove_if(symbols.begin(), symbols.end(), [](const Symbol& s) { return s.bytes == 0; }),
                      symbols.end());
    }

    std::vector<Link> links_;
    std::vector<uint64_t> heap_;  ///< priority << 32 | left index, smallest on top
};

}  // namespace foresay::vocab
