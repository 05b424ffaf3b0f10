#include "spec/drafters/ngram_suffix.h"

#include <algorithm>

#include "base/assert.h"

namespace foresay::spec {
namespace {

constexpr size_t kFirstIndex = 1024;
constexpr double kFirstFloor = 0.1;
constexpr double kHighestFloor = 0.5;
constexpr int kLowRounds = 3;
constexpr int32_t kBeyondMatch = 8;  // a draft is at most this much longer than what matched

}  // namespace

SuffixTrie::SuffixTrie(int32_t depth, int32_t max_nodes)
    : depth_(static_cast<size_t>(depth)), max_nodes_(static_cast<size_t>(max_nodes)) {
    FORESAY_ASSERT(depth >= 1 && max_nodes >= 2);
    clear();
}

void SuffixTrie::clear() {
    nodes_.assign(1, Node{});
    std::fill(index_.begin(), index_.end(), 0);
    ends_.assign(1, 0);
}

size_t SuffixTrie::place(int32_t node, TokenId token) const {
    const uint64_t key = (static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32U) | static_cast<uint32_t>(token);
    size_t at = static_cast<size_t>((key * 0x9E3779B97F4A7C15U) >> 20U) & (index_.size() - 1);
    while (index_[at] != 0) {
        const Node& found = nodes_[static_cast<size_t>(index_[at])];
        if (found.parent == node && found.token == token) {
            break;
        }
        at = (at + 1) & (index_.size() - 1);
    }
    return at;
}

int32_t SuffixTrie::child(int32_t node, TokenId token) const {
    const int32_t found = index_.empty() ? 0 : index_[place(node, token)];
    return found == 0 ? -1 : found;
}

void SuffixTrie::grow() {
    index_.assign(index_.empty() ? kFirstIndex : index_.size() * 2, 0);
    for (size_t i = 1; i < nodes_.size(); ++i) {
        index_[place(nodes_[i].parent, nodes_[i].token)] = static_cast<int32_t>(i);
    }
}

int32_t SuffixTrie::add_child(int32_t node, TokenId token) {
    if (index_.size() < 2 * (nodes_.size() + 1)) {
        grow();
    }
    const auto id = static_cast<int32_t>(nodes_.size());
    index_[place(node, token)] = id;
    nodes_.push_back({node, token, 0, -1});
    return id;
}

bool SuffixTrie::push(TokenId token) {
    if (nodes_.size() + depth_ > max_nodes_) {
        return false;
    }
    // Every suffix of the text grows by this token; the longest ones drop out.
    std::vector<int32_t> ends{0};
    ends.reserve(depth_ + 1);
    ++nodes_[0].count;
    for (const int32_t end : ends_) {
        if (ends.size() > depth_) {
            break;
        }
        int32_t next = child(end, token);
        next = next < 0 ? add_child(end, token) : next;
        const int32_t count = ++nodes_[static_cast<size_t>(next)].count;
        int32_t& best = nodes_[static_cast<size_t>(end)].best;
        if (best < 0 || count > nodes_[static_cast<size_t>(best)].count) {
            best = next;
        }
        ends.push_back(next);
    }
    ends_ = std::move(ends);
    return true;
}

int32_t SuffixTrie::find(std::span<const TokenId> tokens) const {
    int32_t node = 0;
    for (const TokenId token : tokens) {
        node = child(node, token);
        if (node < 0) {
            return -1;
        }
    }
    return node;
}

size_t SuffixTrie::memory_bytes() const {
    return nodes_.capacity() * sizeof(Node) + (index_.capacity() + ends_.capacity()) * sizeof(int32_t);
}

NgramSuffix::NgramSuffix(const Options& options) : options_(options) {
    FORESAY_ASSERT(options.min_match >= 1 && options.n_max >= 0);
}

NgramSuffix::SlotState& NgramSuffix::state(int slot) {
    while (slots_.size() <= static_cast<size_t>(slot)) {
        slots_.emplace_back(options_);
    }
    return slots_[static_cast<size_t>(slot)];
}

void NgramSuffix::feed(SlotState& slot, std::span<const TokenId> tokens) const {
    if (slot.n_fed > tokens.size()) {
        slot.trie.clear();  // another, shorter text
        slot.n_fed = 0;
    }
    while (slot.n_fed < tokens.size()) {
        if (!slot.trie.push(tokens[slot.n_fed])) {
            // The budget is used up: start over from the newest text that half of it holds for sure.
            const auto n_kept = static_cast<size_t>(options_.max_nodes / options_.max_depth / 2);
            slot.trie.clear();
            slot.n_fed -= std::min(slot.n_fed, std::max<size_t>(n_kept, 1) - 1);
            continue;
        }
        ++slot.n_fed;
    }
}

void NgramSuffix::begin(int slot, std::span<const TokenId> prompt) {
    SlotState& s = state(slot);
    s.trie.clear();
    s.n_fed = 0;
    s.p_floor = kFirstFloor;
    s.n_low = 0;
    feed(s, prompt);
}

void NgramSuffix::reset(int slot) {
    begin(slot, {});
}

void NgramSuffix::shifted(int slot, int32_t /*keep*/, int32_t /*discard*/) {
    SlotState& s = state(slot);
    s.trie.clear();  // the dropped text is forgotten, the rest is fed anew
    s.n_fed = 0;
}

size_t NgramSuffix::memory_bytes() const {
    size_t bytes = 0;
    for (const SlotState& slot : slots_) {
        bytes += slot.trie.memory_bytes();
    }
    return bytes;
}

void NgramSuffix::propose_one(const DraftRequest& request, Draft& draft) {
    if (request.n_max <= 0) {
        return;
    }
    SlotState& slot = state(request.slot);
    slot.p_min = request.p_min;
    feed(slot, request.tokens);
    const double p_floor = std::max(slot.p_floor, static_cast<double>(request.p_min));
    double best_score = 0.0;
    const auto longest =
        static_cast<int32_t>(std::min(static_cast<size_t>(options_.max_depth - 1), request.tokens.size()));
    for (int32_t length = options_.min_match; length <= longest; ++length) {
        int32_t node = slot.trie.find(request.tokens.last(static_cast<size_t>(length)));
        if (node < 0 || slot.trie.best_child(node) < 0) {
            break;  // what never went on can't go on with more in front of it
        }
        const int32_t n_max = std::min({request.n_max, options_.n_max, length + kBeyondMatch});
        path_.clear();
        double p = 1.0;
        double score = 0.0;
        while (static_cast<int32_t>(path_.size()) < n_max) {
            const int32_t next = slot.trie.best_child(node);
            if (next < 0) {
                break;
            }
            p *= static_cast<double>(slot.trie.count(next)) / slot.trie.count(node);
            if (p < p_floor) {
                break;
            }
            score += p;
            path_.push_back(slot.trie.token(next));
            node = next;
        }
        if (score > best_score) {
            best_score = score;
            draft.tokens = path_;
        }
    }
    if (static_cast<int32_t>(draft.tokens.size()) < request.n_min) {
        draft.tokens.clear();
    }
}

Status NgramSuffix::propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) {
    drafts.assign(requests.size(), Draft{});
    for (size_t i = 0; i < requests.size(); ++i) {
        propose_one(requests[i], drafts[i]);
    }
    return ok();
}

void NgramSuffix::accepted(int slot, int32_t n_drafted, int32_t n_accepted, bool own) {
    if (!own || n_drafted <= 0) {
        return;
    }
    SlotState& s = state(slot);
    if (2 * n_accepted < n_drafted) {
        if (++s.n_low >= kLowRounds) {
            s.n_low = 0;
            s.p_floor = std::min(kHighestFloor, s.p_floor + 0.1);
        }
        return;
    }
    s.n_low = 0;
    s.p_floor = std::max(static_cast<double>(s.p_min), s.p_floor - 0.05);
}

}  // namespace foresay::spec
