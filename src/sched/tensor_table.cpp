#include "sched/tensor_table.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/assert.h"

namespace foresay::sched {
namespace {

/// Slots for so many rows: load 0.5 at most even when every row is a key, so an insert looks at 2.5 slots on average.
size_t slot_count(size_t capacity) {
    return std::bit_ceil(std::max<size_t>(2 * capacity, 4));
}

}  // namespace

TensorTable::TensorTable(size_t capacity)
    : capacity_(std::max<size_t>(capacity, 1)), rows_(capacity_), slots_(slot_count(capacity_)) {
    keys_.reserve(capacity_);
}

size_t TensorTable::bytes(size_t capacity) {
    return capacity * (sizeof(TensorRow) + sizeof(Key)) + slot_count(capacity) * sizeof(Slot);
}

size_t TensorTable::grown_capacity(size_t required) const {
    if (required <= capacity_) {
        return capacity_;
    }
    // 1.5 for amortised growth step by step; a quarter above what's asked, so that the next n_max finds room.
    return std::max(capacity_ + capacity_ / 2, required + (required + 3) / 4);
}

TensorTable TensorTable::grown(size_t capacity) const {
    FORESAY_ASSERT(capacity >= keys_.size());
    TensorTable next(capacity);
    next.generation_ = generation_;
    next.n_probes_ = n_probes_;
    next.max_probe_ = max_probe_;
    std::copy_n(rows_.begin(), keys_.size(), next.rows_.begin());
    for (const Key& key : keys_) {
        next.keys_.push_back(key);
        next.seat(static_cast<uint32_t>(next.keys_.size() - 1));
    }
    return next;
}

size_t TensorTable::first_slot(const void* key) const {
    // Fibonacci hashing: the product's high bits depend on all of the address, whatever stride the arena has.
    const uint64_t mixed = (reinterpret_cast<uintptr_t>(key) >> 3) * 0x9E3779B97F4A7C15ULL;
    return static_cast<size_t>(mixed >> (64 - std::countr_zero(slots_.size())));
}

void TensorTable::seat(uint32_t row) {
    size_t slot = first_slot(keys_[row].pointer);
    size_t n = 1;
    while (slots_[slot].generation == generation_) {
        slot = (slot + 1) & (slots_.size() - 1);
        ++n;
    }
    slots_[slot] = {generation_, row};
    n_probes_ += n;
    max_probe_ = std::max(max_probe_, n);
}

TensorRow& TensorTable::insert(const void* key, bool transient) {
    FORESAY_ASSERT(key != nullptr);
    if (const TensorRow* found = find(key); found != nullptr) {
        return rows_[static_cast<size_t>(found - rows_.data())];
    }
    FORESAY_ASSERT(keys_.size() < capacity_);
    keys_.push_back({key, transient});
    rows_[keys_.size() - 1] = TensorRow{};
    seat(static_cast<uint32_t>(keys_.size() - 1));
    return rows_[keys_.size() - 1];
}

const TensorRow* TensorTable::find(const void* key) const {
    size_t slot = first_slot(key);
    while (slots_[slot].generation == generation_) {
        const uint32_t row = slots_[slot].row;
        if (keys_[row].pointer == key) {
            return &rows_[row];
        }
        slot = (slot + 1) & (slots_.size() - 1);
    }
    return nullptr;
}

void TensorTable::reset() {
    keys_.clear();
    ++generation_;
    if (generation_ == 0) {
        // After 2^32 resets old stamps would look live again: the one real clear.
        std::fill(slots_.begin(), slots_.end(), Slot{});
        generation_ = 1;
    }
}

void TensorTable::drop_transient(const void* begin, const void* end) {
    const std::less<> before;
    size_t kept = 0;
    for (size_t i = 0; i < keys_.size(); ++i) {
        const bool inside = !before(keys_[i].pointer, begin) && before(keys_[i].pointer, end);
        if (!keys_[i].transient || !inside) {
            keys_[kept] = keys_[i];
            rows_[kept] = rows_[i];
            ++kept;
        }
    }
    if (kept == keys_.size()) {
        return;
    }
    // Re-seating the kept ones under a new generation: removal from a probed table would need tombstones.
    const auto first_dropped = static_cast<std::ptrdiff_t>(kept);
    std::vector<Key> none;
    keys_.erase(keys_.begin() + first_dropped, keys_.end());
    keys_.swap(none);
    reset();
    keys_.swap(none);
    for (uint32_t i = 0; i < kept; ++i) {
        seat(i);
    }
}

void TensorTable::begin(size_t n_tensors) {
    FORESAY_ASSERT(required(n_tensors) <= capacity_);
    const auto first = rows_.begin() + static_cast<std::ptrdiff_t>(keys_.size());
    std::fill_n(first, n_tensors, TensorRow{});
}

void TensorTable::set_generation_for_test(uint32_t generation) {
    reset();
    std::fill(slots_.begin(), slots_.end(), Slot{});
    generation_ = generation;
}

}  // namespace foresay::sched
