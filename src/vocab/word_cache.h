// Words of a text that were encoded before: natural text repeats most of them. One cache per encode call, so no locks.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "vocab/vocab.h"

namespace foresay::vocab {

/// Remembers where in the output the ids of a word lie: a hit copies them from there.
class WordCache {
  public:
    /// text_bytes: of the text to encode; a short one isn't worth the table.
    explicit WordCache(size_t text_bytes) : entries_(text_bytes < kMinTextBytes ? 0 : kEntries) {}

    /// Appends the ids of `word`: a copy of earlier ones, or what encode(word) appends. word must stay valid while the
    /// cache lives, and *out may only grow.
    template <typename EncodeFn>
    void append(std::string_view word, std::vector<TokenId>* out, const EncodeFn& encode) {
        if (entries_.empty() || word.size() > kMaxWordBytes) {
            encode(word);
            return;
        }
        Entry& entry = entries_[std::hash<std::string_view>{}(word) % kEntries];
        if (entry.word == word) {
            for (size_t i = 0; i < entry.n_ids; ++i) {
                const TokenId id = (*out)[entry.first + i];  // a copy: push_back may move the array
                out->push_back(id);
            }
            return;
        }
        const size_t first = out->size();
        encode(word);
        entry = {word, first, out->size() - first};
    }

  private:
    // Direct-mapped: 8,192 entries of 32 bytes fit a second-level cache and hold the words of a long prompt.
    static constexpr size_t kEntries = 8192;
    static constexpr size_t kMinTextBytes = 2048;
    static constexpr size_t kMaxWordBytes = 64;

    struct Entry {
        std::string_view word;  ///< empty: unused (no word is)
        size_t first = 0;
        size_t n_ids = 0;
    };

    std::vector<Entry> entries_;
};

}  // namespace foresay::vocab
