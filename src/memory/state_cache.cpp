#include "memory/state_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace foresay::memory {
namespace {

constexpr int32_t kMaxRollback = 1 << 16;

}  // namespace

Result<std::unique_ptr<StateCache>> StateCache::create(backend::Backend& backend, const std::vector<StateLayer>& layers,
                                                       int32_t n_slots, int32_t n_taps, int32_t n_rollback) {
    if (n_rollback < 0 || n_rollback > kMaxRollback) {
        return error(Code::kCapacity, fmt::format("states for {} drafted tokens are too many", n_rollback));
    }
    std::unique_ptr<StateCache> cache(new StateCache);
    cache->n_rollback_ = n_rollback;
    // The state after each of the n_rollback last tokens and the newest; a convolution looks n_taps - 1 rows further
    // back.
    cache->delta_ring_ = std::max(2, n_rollback + 1);
    cache->conv_ring_ = std::max(n_taps, n_rollback + n_taps - 1);
    cache->held_.resize(static_cast<size_t>(n_slots));
    const auto allocate = [&](std::array<int64_t, 4> ne) -> Result<std::unique_ptr<graph::Storage>> {
        if (ne[0] == 0) {
            return std::unique_ptr<graph::Storage>();
        }
        auto storage = backend.allocate_state(DType::kF32, ne);
        if (!storage.has_value()) {
            return std::move(storage).error().context(
                fmt::format("recurrent state of {} slots with room to take back {} tokens", n_slots, n_rollback));
        }
        return storage;
    };
    for (const StateLayer& layer : layers) {
        FORESAY_TRY(auto conv, allocate({layer.conv_width, int64_t{n_slots} * cache->conv_ring_, 1, 1}));
        FORESAY_TRY(auto delta, allocate({layer.head_dim, layer.head_dim * layer.n_heads,
                                          int64_t{n_slots} * cache->delta_ring_, 1}));
        cache->conv_.push_back(std::move(conv));
        cache->delta_.push_back(std::move(delta));
    }
    return cache;
}

size_t StateCache::bytes() const {
    size_t total = 0;
    for (size_t layer = 0; layer < conv_.size(); ++layer) {
        total += conv_[layer] == nullptr ? 0 : conv_[layer]->bytes;
        total += delta_[layer] == nullptr ? 0 : delta_[layer]->bytes;
    }
    return total;
}

int32_t StateCache::usable(int slot, int32_t n) const {
    const Held& held = held_[static_cast<size_t>(slot)];
    return n >= held.low ? std::min(n, held.high) : 0;
}

void StateCache::advance(int slot, int32_t begin, int32_t end) {
    Held& held = held_[static_cast<size_t>(slot)];
    FORESAY_ASSERT(begin < end && (begin == 0 || (held.low <= begin && begin <= held.high)));
    held.low = std::max(begin == 0 ? 0 : held.low, end - n_rollback_);
    held.high = end;
}

}  // namespace foresay::memory
