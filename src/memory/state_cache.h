// Recurrent and convolution states: a ring of states per slot, one for each of the last positions, so that rolling back
// rejected drafts is forgetting a length, as in the KV cache. Owns storage and what each slot's ring still holds. Must
// not know models or HTTP. The ring's rule: graph::StateParams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"

namespace foresay::memory {

/// Sizes of one layer's state; zeros: the layer has none of that kind.
struct StateLayer {
    int64_t conv_width = 0;  ///< channels of the short convolution
    int64_t head_dim = 0;    ///< d of the delta net's d x d matrices
    int64_t n_heads = 0;
};

class StateCache {
  public:
    /// n_taps: of the convolutions. n_rollback: how many of the last tokens can be forgotten at any time.
    /// Errors: out_of_memory with the sizes; capacity when they are absurd.
    static Result<std::unique_ptr<StateCache>> create(backend::Backend& backend, const std::vector<StateLayer>& layers,
                                                      int32_t n_slots, int32_t n_taps, int32_t n_rollback);

    const graph::Storage* conv(int layer) const { return conv_[static_cast<size_t>(layer)].get(); }

    const graph::Storage* delta(int layer) const { return delta_[static_cast<size_t>(layer)].get(); }

    int32_t conv_ring() const { return conv_ring_; }

    int32_t delta_ring() const { return delta_ring_; }

    int32_t n_rollback() const { return n_rollback_; }

    size_t bytes() const;

    /// The largest count of tokens, at most n, whose state is held: evaluation may go on from there. 0 always is.
    int32_t usable(int slot, int32_t n) const;
    /// The slot's states up to `end` tokens are held now, evaluated from `begin`, which was usable.
    void advance(int slot, int32_t begin, int32_t end);

    /// What a slot file keeps of a slot that holds n tokens: the state after them and, where it is held, the one before
    /// (a drafter may want that token evaluated again). Empty when the state after n tokens isn't held.
    std::vector<std::byte> save(int slot, int32_t n) const;

    /// Most bytes that save() gives.
    size_t max_saved_bytes() const { return saved_bytes(kSavedStates); }

    /// Takes over what save() gave, also of a cache with other room to roll back. Errors: bad_file; the slot then holds
    /// nothing.
    Status restore(int slot, int32_t n, std::span<const std::byte> saved);

    /// The slot holds nothing any more.
    void forget(int slot) { held_[static_cast<size_t>(slot)] = {}; }

  private:
    struct Held {
        int32_t low = 0;
        int32_t high = 0;
    };

    static constexpr int32_t kSavedStates = 2;

    /// One range of a slot's ring cells: n_rows from a position on, which are not adjacent where the ring ends.
    struct Piece {
        const graph::Storage* storage = nullptr;
        size_t bytes = 0;  ///< of one row
        int32_t ring = 0;
        int32_t begin = 0;  ///< position of the first row
        int32_t n_rows = 0;
    };

    StateCache() = default;
    size_t saved_bytes(int32_t n_states) const;
    /// What the states after n - n_states + 1 .. n tokens consist of, in the order of the file.
    std::vector<Piece> pieces(int32_t n, int32_t n_states) const;
    std::byte* cell(const Piece& piece, int slot, int32_t row) const;

    backend::Backend* backend_ = nullptr;
    int32_t n_taps_ = 0;
    std::vector<std::unique_ptr<graph::Storage>> conv_;
    std::vector<std::unique_ptr<graph::Storage>> delta_;
    std::vector<Held> held_;  ///< by slot: counts of tokens whose state is in the ring
    int32_t conv_ring_ = 0;
    int32_t delta_ring_ = 0;
    int32_t n_rollback_ = 0;
};

}  // namespace foresay::memory
