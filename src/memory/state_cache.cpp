#include "memory/state_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace foresay::memory {
namespace {

constexpr int32_t kMaxRollback = 1 << 16;
constexpr int32_t kFirstCells = 2;  // a slot that decodes plainly: its state and the one before

}  // namespace

Result<std::unique_ptr<StateCache>> StateCache::create(backend::Backend& backend, const std::vector<StateLayer>& layers,
                                                       const StateOptions& options) {
    if (options.n_rollback < 0 || options.n_rollback > kMaxRollback) {
        return error(Code::kCapacity, fmt::format("states for {} drafted tokens are too many", options.n_rollback));
    }
    std::unique_ptr<StateCache> cache(new StateCache);
    cache->backend_ = &backend;
    cache->layers_ = layers;
    cache->options_ = options;
    cache->n_undo_most_ = std::max(1, options.n_rollback);
    cache->options_.n_window = std::clamp(options.n_window, 1, cache->n_undo_most_);
    // A convolution looks n_taps - 1 rows further back than the oldest state.
    cache->conv_ring_ = cache->n_undo_most_ + std::max(0, options.n_taps - 1);
    cache->held_.resize(static_cast<size_t>(options.n_slots));
    for (const StateLayer& layer : layers) {
        std::unique_ptr<graph::Storage> conv;
        if (layer.conv_width > 0) {
            auto made = backend.allocate_state(DType::kF32,
                                               {layer.conv_width, int64_t{options.n_slots} * cache->conv_ring_, 1, 1});
            if (!made.has_value()) {
                return std::move(made).error().context(
                    fmt::format("convolution state of {} slots with room to take back {} tokens", options.n_slots,
                                options.n_rollback));
            }
            conv = std::move(*made);
        }
        cache->conv_.push_back(std::move(conv));
        cache->delta_.emplace_back();
        cache->cell_bytes_ += static_cast<size_t>(layer.head_dim * layer.head_dim * layer.n_heads) * sizeof(float);
    }
    FORESAY_CHECK_OK(cache->grow(options.n_slots * kFirstCells));
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

int32_t StateCache::take_cell() {
    FORESAY_ASSERT(!free_.empty());
    const int32_t cell = free_.back();
    free_.pop_back();
    return cell;
}

void StateCache::release(int32_t cell) {
    if (cell != kNoCell) {
        free_.push_back(cell);
    }
}

void StateCache::drop_below(Held& held, int32_t low) {
    const int32_t n = std::clamp(low - held.low, 0, held.high - held.low);
    std::for_each(held.cells.begin(), held.cells.begin() + n, [this](int32_t cell) { release(cell); });
    held.cells.erase(held.cells.begin(), held.cells.begin() + n);
    held.low += n;
}

void StateCache::drop_above(Held& held, int32_t high) {
    while (held.high > std::max(high, held.low)) {
        release(held.cells.back());
        held.cells.pop_back();
        --held.high;
    }
}

void StateCache::forget(int slot) {
    Held& held = held_[static_cast<size_t>(slot)];
    std::for_each(held.cells.begin(), held.cells.end(), [this](int32_t cell) { release(cell); });
    held = {};
}

int32_t StateCache::n_undo(const StateRun& run) const {
    return std::clamp(run.n_wanted, options_.n_window, n_undo_most_);
}

Status StateCache::prepare(std::span<const StateRun> runs) {
    int32_t n_new = 0;
    for (const StateRun& run : runs) {
        Held& held = held_[static_cast<size_t>(run.slot)];
        if (run.begin < held.low) {
            forget(run.slot);  // a new text
        }
        drop_above(held, run.begin);
        const int32_t end = run.begin + run.n_rows;
        const int32_t first = std::max(0, end - n_undo(run));
        if (first <= run.begin) {
            drop_below(held, std::min(run.begin, end - n_undo_most_));
            held.needed = std::max(held.low, first);
            n_new += run.n_rows;
        } else {
            // The state before the run becomes the first that is kept: its cell is overwritten row by row.
            drop_below(held, run.begin);
            held.needed = held.low;
            n_new += end - first + (held.cells.front() == kNoCell ? 1 : 0);
        }
    }
    return make_room(n_new);
}

Status StateCache::make_room(int32_t n_free) {
    const auto missing = [&] { return n_free - static_cast<int32_t>(free_.size()); };
    for (Held& held : held_) {
        while (missing() > 0 && held.low < held.needed) {
            drop_below(held, held.low + 1);
        }
    }
    if (missing() <= 0) {
        return ok();
    }
    // A quarter more than now, so that slowly longer drafts don't move the pool each time.
    return grow(std::max(n_cells_ + missing(), std::min(n_cells_ + n_cells_ / 4, most_cells())));
}

Status StateCache::grow(int32_t n_cells) {
    for (size_t i = 0; i < layers_.size(); ++i) {
        const StateLayer& layer = layers_[i];
        if (layer.head_dim == 0 || (delta_[i] != nullptr && delta_[i]->ne[2] >= n_cells)) {
            continue;
        }
        auto made = backend_->allocate_state(DType::kF32, {layer.head_dim, layer.head_dim * layer.n_heads, n_cells, 1});
        if (!made.has_value()) {
            return std::move(made).error().context(
                fmt::format("recurrent state: {} snapshots of {} KiB over all layers", n_cells, cell_bytes_ / 1024));
        }
        if (delta_[i] != nullptr) {
            std::vector<std::byte> cell(delta_[i]->bytes / static_cast<size_t>(delta_[i]->ne[2]));
            for (int32_t at = 0; at < n_cells_; ++at) {
                const size_t offset = static_cast<size_t>(at) * cell.size();
                backend_->read(cell, delta_[i]->data + offset);
                backend_->write((*made)->data + offset, cell);
            }
        }
        delta_[i] = std::move(*made);
        ++version_;
    }
    for (int32_t cell = n_cells - 1; cell >= n_cells_; --cell) {
        free_.push_back(cell);
    }
    n_cells_ = n_cells;
    return ok();
}

void StateCache::advance(const StateRun& run, std::vector<StateStep>& steps) {
    Held& held = held_[static_cast<size_t>(run.slot)];
    FORESAY_ASSERT(run.n_rows > 0 && held.high == run.begin);
    const int32_t end = run.begin + run.n_rows;
    const int32_t first = std::max(0, end - n_undo(run));
    int32_t from = held.cells.back();
    if (first > run.begin) {
        if (held.cells.front() == kNoCell) {
            held.cells.front() = take_cell();
        }
        held.low = held.high = first;
    }
    while (held.high < end) {
        held.cells.push_back(take_cell());
        ++held.high;
    }
    held.needed = std::max(held.low, first);
    for (int32_t n = run.begin + 1; n <= end; ++n) {
        const int32_t to = held.cells[static_cast<size_t>(std::max(n, first) - held.low)];
        steps.push_back({from, to});
        from = to;
    }
}

void StateCache::settle(int slot, int32_t n) {
    Held& held = held_[static_cast<size_t>(slot)];
    if (n >= held.low) {
        drop_above(held, n);
        held.needed = std::max(held.low, held.high - options_.n_window);
    }
}

std::vector<StateCache::Piece> StateCache::pieces(int32_t n, int32_t n_states) const {
    std::vector<Piece> all;
    const int32_t first_state = n - n_states + 1;
    for (size_t layer = 0; layer < conv_.size(); ++layer) {
        if (conv_[layer] != nullptr) {
            // A state's inputs: the n_taps - 1 before its position. Below position 0 there are none; their rows are
            // kept all the same, so that a size says how many states there are.
            all.push_back({conv_[layer].get(), static_cast<size_t>(conv_[layer]->ne[0]) * sizeof(float), false,
                           first_state - options_.n_taps + 1, options_.n_taps - 1 + n_states - 1});
        }
        if (delta_[layer] != nullptr) {
            all.push_back({delta_[layer].get(),
                           static_cast<size_t>(delta_[layer]->ne[0] * delta_[layer]->ne[1]) * sizeof(float), true,
                           first_state, n_states});
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

std::byte* StateCache::row(const Piece& piece, int slot, int32_t i_row) const {
    const int32_t position = piece.begin + i_row;
    const Held& held = held_[static_cast<size_t>(slot)];
    const auto index = piece.in_pool ? static_cast<size_t>(held.cells[static_cast<size_t>(position - held.low)])
                                     : static_cast<size_t>(slot) * static_cast<size_t>(conv_ring_) +
                                           static_cast<size_t>(position % conv_ring_);
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
        for (int32_t i = 0; i < piece.n_rows; ++i, at += piece.bytes) {
            if (piece.begin + i >= 0) {
                backend_->read(std::span(saved).subspan(at, piece.bytes), row(piece, slot, i));
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
    FORESAY_CHECK_OK(make_room(n_states));
    Held& held = held_[static_cast<size_t>(slot)];
    held.low = held.needed = n - n_states + 1;
    held.high = n;
    held.cells.clear();
    for (int32_t i = 0; i < n_states; ++i) {
        held.cells.push_back(take_cell());
    }
    size_t at = 0;
    for (const Piece& piece : pieces(n, n_states)) {
        for (int32_t i = 0; i < piece.n_rows; ++i, at += piece.bytes) {
            if (piece.begin + i >= 0) {
                backend_->write(row(piece, slot, i), saved.subspan(at, piece.bytes));
            }
        }
    }
    return ok();
}

}  // namespace foresay::memory
