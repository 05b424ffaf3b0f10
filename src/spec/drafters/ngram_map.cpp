#include "spec/drafters/ngram_map.h"

#include <algorithm>

#include "base/assert.h"

namespace foresay::spec {
namespace {

constexpr size_t kTableSize = 262144;
constexpr uint32_t kMultiplier = 2654435761U;
constexpr int32_t kMostHits = 16380;

}  // namespace

NgramMap::NgramMap(Kind kind, const NgramOptions::Copy& sizes, bool as_reference)
    : kind_(kind), n_(sizes.size_n), m_(sizes.size_m), min_hits_(sizes.min_hits), as_reference_(as_reference) {
    FORESAY_ASSERT(n_ >= 1 && m_ >= 1 && min_hits_ >= 1);
}

NgramMap::SlotState& NgramMap::state(int slot) {
    const auto i = static_cast<size_t>(slot);
    if (slots_.size() <= i) {
        slots_.resize(i + 1);
    }
    return slots_[i];
}

/// What was learnt from another text is forgotten: a request drafts from its own text only.
void NgramMap::clear(SlotState& slot, int32_t n_prompt) const {
    std::fill(slot.table.begin(), slot.table.end(), 0);
    std::fill(slot.key_of.begin(), slot.key_of.end(), 0);
    slot.keys.clear();
    slot.next_key.clear();
    slot.last = 0;
    slot.n_prompt = n_prompt;
    slot.n_seen = 0;
    slot.used_key = -1;
}

void NgramMap::begin(int slot, std::span<const TokenId> prompt) {
    // The prompt's last token is not evaluated "history" yet when the first draft is made, hence the plain size.
    clear(state(slot), static_cast<int32_t>(prompt.size()));
}

void NgramMap::reset(int slot) {
    clear(state(slot), 0);
}

void NgramMap::shifted(int slot, int32_t /*keep*/, int32_t /*discard*/) {
    // Positions have moved. Indexing a context anew costs far less than one token of the target.
    clear(state(slot), 0);
}

size_t NgramMap::memory_bytes() const {
    size_t bytes = 0;
    for (const SlotState& slot : slots_) {
        bytes += (slot.table.capacity() + slot.key_of.capacity() + slot.next_key.capacity()) * sizeof(int32_t) +
                 slot.keys.capacity() * sizeof(Key);
    }
    return bytes;
}

uint32_t NgramMap::hash(const TokenId* tokens) const {
    uint32_t h = 0;
    for (int32_t i = 0; i < n_; ++i) {
        h = h * kMultiplier + static_cast<uint32_t>(tokens[i]);
    }
    return h % kTableSize;
}

bool NgramMap::equal(const TokenId* a, const TokenId* b) const {
    return std::equal(a, a + n_, b);
}

/// A position before the pattern where it occurs too; 0: none (position 0 is never used).
int32_t NgramMap::find(const SlotState& slot, History history, const TokenId* pattern, uint32_t pattern_hash) const {
    const auto N = static_cast<int32_t>(history.size());
    const int32_t newest = N - n_ - m_ - 1;
    const int32_t q = slot.table[pattern_hash];
    if (q != 0 && q < newest && equal(&history[static_cast<size_t>(q)], pattern)) {
        return q;
    }
    // What the table doesn't hold yet: first the prompt, then the generated text, each from its newest position.
    const auto scan = [&](int32_t from, int32_t to) {
        for (int32_t j = from; j > to; --j) {
            if (equal(&history[static_cast<size_t>(j)], pattern)) {
                return j;
            }
        }
        return 0;
    };
    int32_t match = 0;
    if (slot.n_prompt > n_ + m_ + 1) {
        match = scan(std::min(slot.n_prompt - n_ - m_ - 1, newest), slot.last);
    }
    return match != 0 ? match : scan(newest, std::max(slot.n_prompt, slot.last));
}

void NgramMap::index(SlotState& slot, History history) const {
    const int32_t newest = static_cast<int32_t>(history.size()) - n_ - m_ - 1;
    const auto add = [&](int32_t from, int32_t to) {
        for (int32_t j = from; j > to; --j) {
            int32_t& entry = slot.table[hash(&history[static_cast<size_t>(j)])];
            entry = entry == 0 ? j : entry;
        }
    };
    if (slot.n_prompt > n_ + m_ + 1) {
        add(std::min(slot.n_prompt - n_ - m_ - 1, newest), slot.last);
    }
    add(newest, std::max(slot.n_prompt, slot.last));
    slot.last = std::max(slot.last, newest);
}

int32_t NgramMap::key_for(SlotState& slot, History history, const TokenId* pattern, uint32_t pattern_hash,
                          int32_t match) const {
    for (int32_t k = slot.key_of[pattern_hash]; k != 0; k = slot.next_key[static_cast<size_t>(k - 1)]) {
        if (equal(&history[static_cast<size_t>(slot.keys[static_cast<size_t>(k - 1)].pos)], pattern)) {
            return k - 1;
        }
    }
    Key key;
    key.pos = match;
    for (Value& value : key.values) {
        value.n_acc = m_;
    }
    slot.keys.push_back(key);
    slot.next_key.push_back(slot.key_of[pattern_hash]);
    slot.key_of[pattern_hash] = static_cast<int32_t>(slot.keys.size());
    return static_cast<int32_t>(slot.keys.size()) - 1;
}

int32_t NgramMap::choose_value(Key& key, History history, const TokenId* pattern, int32_t match) const {
    // match <= N-n-m-2, so n + m tokens from any counted position lie inside the history.
    const auto continuation = [&](int32_t pos) { return history.subspan(static_cast<size_t>(pos + n_)).data(); };
    for (int32_t i = key.stat_pos; i <= match; ++i) {
        if (!equal(&history[static_cast<size_t>(i)], pattern)) {
            continue;
        }
        for (Value& value : key.values) {
            if (value.pos < 0) {
                value.pos = i;
                value.count = 1;
                break;
            }
            if (std::equal(continuation(i), continuation(i) + m_, continuation(value.pos))) {
                ++value.count;
                break;
            }
        }
    }
    // The reference counts the last occurrence again next time; either way only the ratio of counts matters.
    key.stat_pos = as_reference_ ? match : std::max(key.stat_pos, match + 1);
    size_t best = 0;
    int32_t total = 0;
    for (size_t k = 0; k < key.values.size(); ++k) {
        total += key.values[k].count;
        best = key.values[k].count > key.values[best].count ? k : best;
    }
    const int32_t others = total - key.values[best].count;
    return others > 0 && key.values[best].count < 2 * others ? -1 : static_cast<int32_t>(best);
}

void NgramMap::propose_one(const DraftRequest& request, Draft& draft) {
    SlotState& slot = state(request.slot);
    slot.used_key = -1;
    if (request.tokens.empty() || request.n_max <= 0) {
        return;
    }
    const History history = request.tokens.first(request.tokens.size() - 1);
    const auto N = static_cast<int32_t>(history.size());
    if (N < slot.n_seen) {
        clear(slot, 0);  // another text than the one that was indexed
    }
    slot.n_seen = N;
    if (N < 2 * n_ + m_) {
        return;
    }
    if (slot.table.empty()) {
        slot.table.resize(kTableSize);
        slot.key_of.resize(kTableSize);
    }
    const TokenId* pattern = &request.tokens[request.tokens.size() - static_cast<size_t>(n_)];
    const uint32_t pattern_hash = hash(pattern);
    const int32_t match = find(slot, history, pattern, pattern_hash);
    index(slot, history);
    if (match == 0) {
        return;
    }
    const int32_t i_key = key_for(slot, history, pattern, pattern_hash, match);
    Key& key = slot.keys[static_cast<size_t>(i_key)];
    key.hits = std::min(key.hits + 1, kMostHits);
    int32_t i_value = 0;
    int32_t from = match;
    if (kind_ == Kind::kK4v) {
        if (key.hits < min_hits_) {
            return;
        }
        i_value = choose_value(key, history, pattern, match);
        if (i_value < 0) {
            return;
        }
        from = as_reference_ ? match : key.values[static_cast<size_t>(i_value)].pos;
        from = from < 0 ? match : from;
    } else if (!as_reference_ && key.hits < min_hits_) {
        return;
    }
    const int32_t n_draft = std::min({m_, key.values[static_cast<size_t>(i_value)].n_acc, request.n_max});
    if (n_draft <= 0 || n_draft < request.n_min) {
        return;
    }
    slot.used_key = i_key;
    slot.used_value = i_value;
    const auto begin = history.begin() + from + n_;
    draft.tokens.assign(begin, begin + n_draft);
}

Status NgramMap::propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) {
    drafts.assign(requests.size(), Draft{});
    for (size_t i = 0; i < requests.size(); ++i) {
        propose_one(requests[i], drafts[i]);
    }
    return ok();
}

void NgramMap::accepted(int slot, int32_t n_drafted, int32_t n_accepted, bool own) {
    SlotState& s = state(slot);
    if (!own || s.used_key < 0) {
        return;
    }
    int32_t& n_acc = s.keys[static_cast<size_t>(s.used_key)].values[static_cast<size_t>(s.used_value)].n_acc;
    if (as_reference_) {
        n_acc = n_accepted;
    } else if (n_accepted >= n_drafted) {
        n_acc = std::max(n_acc, std::min(m_, 2 * n_accepted));  // it all stood: try more
    } else {
        n_acc = std::max(1, n_accepted);  // never 0: one failure must not silence a key for good
    }
    s.used_key = -1;
}

}  // namespace foresay::spec
