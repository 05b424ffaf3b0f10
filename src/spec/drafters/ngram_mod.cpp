#include "spec/drafters/ngram_mod.h"

#include <algorithm>

#include "base/assert.h"

namespace foresay::spec {
namespace {

constexpr size_t kSharedEntries = size_t{4} << 20U;
constexpr size_t kLeastEntries = 4096;
constexpr size_t kEntriesPerToken = 8;
constexpr uint64_t kMultiplier = 6364136223846793005U;
constexpr size_t kLag = 32;  // tokens that come before they are learnt in one go
constexpr int kMostLow = 5;
constexpr size_t kProbes = 8;

}  // namespace

NgramMod::NgramMod(const Options& options) : options_(options), n_(static_cast<size_t>(options.n_match)) {
    FORESAY_ASSERT(options.n_match >= 1 && options.n_min >= 0 && options.n_max >= 0 && options.n_ctx_slot >= 0);
    table_size_ = kLeastEntries;
    const size_t wanted = options.shared
                              ? kSharedEntries
                              : std::min(kSharedEntries, static_cast<size_t>(options.n_ctx_slot) * kEntriesPerToken);
    while (table_size_ < wanted) {
        table_size_ *= 2;
    }
}

NgramMod::SlotState& NgramMod::state(int slot) {
    const auto i = static_cast<size_t>(slot);
    if (slots_.size() <= i) {
        slots_.resize(i + 1);
    }
    return slots_[i];
}

void NgramMod::clear_table(SlotState& slot) {
    Table& table = table_of(slot);
    std::fill(table.entries.begin(), table.entries.end(), Entry{});
    table.n_used = 0;
    if (options_.shared) {
        for (SlotState& other : slots_) {
            other.n_learnt = 0;
        }
    }
    slot.n_learnt = 0;
}

uint64_t NgramMod::key(const TokenId* tokens) const {
    uint64_t r = 0;
    for (size_t i = 0; i < n_; ++i) {
        r = r * kMultiplier + static_cast<uint64_t>(static_cast<int64_t>(tokens[i]));
    }
    return r;
}

/// The plain hash has poor low bits in a small table.
NgramMod::Key NgramMod::mixed(uint64_t hash) {
    const uint64_t bits = (hash ^ (hash >> 29U)) * 0x9E3779B97F4A7C15U;
    return {static_cast<size_t>(bits >> 32U), static_cast<uint32_t>(bits)};
}

/// The key's entry, else an empty one near its home, else the home, to be overwritten.
NgramMod::Entry& NgramMod::place(Table& table, Key key) const {
    for (size_t probe = 0; probe < kProbes; ++probe) {
        Entry& entry = table.entries[(key.home + probe) % table_size_];
        if (entry.token < 0 || entry.tag == key.tag) {
            return entry;
        }
    }
    return table.entries[key.home % table_size_];
}

void NgramMod::learn(Table& table, std::span<const TokenId> history, size_t from) {
    if (table.entries.empty()) {
        table.entries.resize(table_size_);
    }
    for (size_t i = from; i + n_ < history.size(); ++i) {
        const Key k = mixed(key(&history[i]));
        Entry& entry = place(table, k);
        table.n_used += entry.token < 0 ? 1 : 0;
        entry = {history[i + n_], k.tag};
    }
}

void NgramMod::begin(int slot, std::span<const TokenId> prompt) {
    SlotState& s = state(slot);
    s.n_learnt = 0;
    s.n_low = 0;
    if (!options_.shared) {
        clear_table(s);  // another request's text must not be drafted
    }
    if (prompt.size() >= n_) {
        Table& table = table_of(s);
        learn(table, prompt, 0);
        s.n_learnt = prompt.size() - n_;
        if (table.n_used > table_size_ / 4) {
            clear_table(s);
        }
    }
}

void NgramMod::reset(int slot) {
    begin(slot, {});
}

void NgramMod::shifted(int slot, int32_t /*keep*/, int32_t /*discard*/) {
    SlotState& s = state(slot);
    if (options_.shared) {
        s.n_learnt = 0;  // learning twice changes nothing
    } else {
        clear_table(s);
    }
}

size_t NgramMod::memory_bytes() const {
    size_t bytes = shared_.entries.capacity() * sizeof(Entry);
    for (const SlotState& slot : slots_) {
        bytes += slot.table.entries.capacity() * sizeof(Entry);
    }
    return bytes;
}

void NgramMod::propose_one(const DraftRequest& request, Draft& draft) {
    SlotState& slot = state(request.slot);
    if (request.tokens.size() < n_ + 1 || request.n_max <= 0) {
        return;
    }
    Table& table = table_of(slot);
    const auto history = request.tokens.first(request.tokens.size() - 1);
    if (slot.n_learnt + n_ > history.size()) {
        slot.n_learnt = 0;  // another, shorter text
        if (!options_.shared) {
            clear_table(slot);
        }
    }
    if (slot.n_learnt + kLag < history.size()) {
        learn(table, history, slot.n_learnt);
        slot.n_learnt = history.size() - n_;
    }
    if (table.entries.empty()) {
        return;
    }
    window_.assign(request.tokens.end() - static_cast<ptrdiff_t>(n_), request.tokens.end());
    const auto n_max = static_cast<size_t>(std::min(request.n_max, options_.n_max));
    while (draft.tokens.size() < n_max) {
        const Key k = mixed(key(&window_[draft.tokens.size()]));
        const Entry& entry = place(table, k);
        if (entry.token < 0 || entry.tag != k.tag) {
            break;
        }
        draft.tokens.push_back(entry.token);
        window_.push_back(entry.token);
    }
    // A caller's limit below n_min isn't the table's fault: then as much as the limit allows is enough.
    const auto n_min = std::min(static_cast<size_t>(options_.n_min), n_max);
    if (draft.tokens.size() < std::max(n_min, static_cast<size_t>(std::max(0, request.n_min)))) {
        draft.tokens.clear();
    }
}

Status NgramMod::propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) {
    drafts.assign(requests.size(), Draft{});
    for (size_t i = 0; i < requests.size(); ++i) {
        propose_one(requests[i], drafts[i]);
    }
    return ok();
}

void NgramMod::accepted(int slot, int32_t n_drafted, int32_t n_accepted, bool own) {
    if (!own || n_drafted <= 0) {
        return;
    }
    SlotState& s = state(slot);
    s.n_low = 4 * n_accepted < n_drafted ? s.n_low + 1 : 0;
    if (s.n_low >= kMostLow) {
        s.n_low = 0;
        clear_table(s);
    }
}

}  // namespace foresay::spec
