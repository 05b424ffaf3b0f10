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
    cache->backend_ = &backend;
    cache->n_taps_ = n_taps;
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

std::vector<StateCache::Piece> StateCache::pieces(int32_t n, int32_t n_states) const {
    std::vector<Piece> all;
    const int32_t first_state = n - n_states + 1;
    for (size_t layer = 0; layer < conv_.size(); ++layer) {
        if (conv_[layer] != nullptr) {
            // A state's inputs: the n_taps - 1 before its position. Below position 0 there are none; their rows are
            // kept all the same, so that a size says how many states there are.
            all.push_back({conv_[layer].get(), static_cast<size_t>(conv_[layer]->ne[0]) * sizeof(float), conv_ring_,
                           first_state - n_taps_ + 1, n_taps_ - 1 + n_states - 1});
        }
        if (delta_[layer] != nullptr) {
            all.push_back({delta_[layer].get(),
                           static_cast<size_t>(delta_[layer]->ne[0] * delta_[layer]->ne[1]) * sizeof(float),
                           delta_ring_, first_state, n_states});
        }
    }
    return all;
}

size_t StateCache::saved_bytes(int32_t n_states) const {
    size_t total = 0;
    for (const Piece& piece : pieces(n_states, n_states)) {
        total += piece.bytes * static_cast<size_t>(piece.n_rows);
    }
    return total;
}

std::byte* StateCache::cell(const Piece& piece, int slot, int32_t row) const {
    const int32_t position = piece.begin + row;
    const auto index = static_cast<size_t>(slot) * static_cast<size_t>(piece.ring) +
                       static_cast<size_t>((position % piece.ring + piece.ring) % piece.ring);
    return piece.storage->data + index * piece.bytes;
}

std::vector<std::byte> StateCache::save(int slot, int32_t n) const {
    if (n <= 0 || usable(slot, n) != n) {
        return {};
    }
    const int32_t n_states = n > 1 && usable(slot, n - 1) == n - 1 ? kSavedStates : 1;
    std::vector<std::byte> saved(saved_bytes(n_states));
    size_t at = 0;
    for (const Piece& piece : pieces(n, n_states)) {
        for (int32_t row = 0; row < piece.n_rows; ++row, at += piece.bytes) {
            if (piece.begin + row >= 0) {
                backend_->read(std::span(saved).subspan(at, piece.bytes), cell(piece, slot, row));
            }
        }
    }
    return saved;
}

Status StateCache::restore(int slot, int32_t n, std::span<const std::byte> saved) {
    forget(slot);
    int32_t n_states = 0;
    for (int32_t i = 1; i <= std::min(n, kSavedStates); ++i) {
        n_states = saved.size() == saved_bytes(i) ? i : n_states;
    }
    if (n_states == 0) {
        return error(Code::kBadFile, fmt::format("{} bytes of recurrent state for {} tokens can't be", saved.size(), n),
                     "the recurrent state");
    }
    size_t at = 0;
    for (const Piece& piece : pieces(n, n_states)) {
        for (int32_t row = 0; row < piece.n_rows; ++row, at += piece.bytes) {
            if (piece.begin + row >= 0) {
                backend_->write(cell(piece, slot, row), saved.subspan(at, piece.bytes));
            }
        }
    }
    held_[static_cast<size_t>(slot)] = {std::max(n - n_states + 1, n - n_rollback_), n};
    return ok();
}

void StateCache::advance(int slot, int32_t begin, int32_t end) {
    Held& held = held_[static_cast<size_t>(slot)];
    FORESAY_ASSERT(begin < end && (begin == 0 || (held.low <= begin && begin <= held.high)));
    held.low = std::max(begin == 0 ? 0 : held.low, end - n_rollback_);
    held.high = end;
}

}  // namespace foresay::memory
