// Recurrent and convolution states, so that rolling back rejected drafts is forgetting a length, as in the KV cache.
// Delta-net matrices are large: their snapshots lie in one pool of cells for all slots, which holds what the rows of
// one verify batch and the slots' last states need, and grows when a batch needs more. Convolution inputs are small: a
// ring per slot. Owns storage and which states each slot holds. Must not know models or HTTP.
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

struct StateOptions {
    int32_t n_slots = 1;
    int32_t n_taps = 0;      ///< of the convolutions
    int32_t n_rollback = 0;  ///< most tokens that one pass's rows can be taken back by
    int32_t n_window = 1;    ///< tokens that can be taken back at any time, over several passes (1..n_rollback)
};

/// A slot's rows in one pass: positions [begin, begin + n_rows).
struct StateRun {
    int slot = 0;
    int32_t begin = 0;
    int32_t n_rows = 0;
    int32_t n_wanted = 0;  ///< rows whose logits are wanted: only these may be taken back
};

/// The pool's cells that a row reads the state from and writes it to; kNoCell: from zeros.
struct StateStep {
    int32_t from = 0;
    int32_t to = 0;
};

class StateCache {
  public:
    static constexpr int32_t kNoCell = -1;

    /// Errors: out_of_memory with the sizes; capacity when they are absurd.
    static Result<std::unique_ptr<StateCache>> create(backend::Backend& backend, const std::vector<StateLayer>& layers,
                                                      const StateOptions& options);

    const graph::Storage* conv(int layer) const { return conv_[static_cast<size_t>(layer)].get(); }

    /// The pool of a layer: [d, d * heads, n_cells]. Another one whenever version() changes.
    const graph::Storage* delta(int layer) const { return delta_[static_cast<size_t>(layer)].get(); }

    int32_t conv_ring() const { return conv_ring_; }

    int32_t n_cells() const { return n_cells_; }

    /// Cells that would be needed if every slot drafted as much as it may in one batch.
    int32_t most_cells() const { return options_.n_slots * (n_undo_most_ + 1); }

    /// Changes when the pool moves: graphs that name it must be built anew.
    uint64_t version() const { return version_; }

    int32_t n_rollback() const { return options_.n_rollback; }

    size_t bytes() const;

    /// Of all layers' states after one token.
    size_t cell_bytes() const { return cell_bytes_; }

    /// The largest count of tokens, at most n, whose state is held: evaluation may go on from there. 0 always is.
    int32_t usable(int slot, int32_t n) const;

    /// Makes room for a pass with these runs (one per slot; begin is usable): forgets what they roll back and old
    /// states that nobody needs, grows the pool if that isn't enough. Errors: out_of_memory with the sizes; the slots
    /// then still hold their states up to `begin`.
    Status prepare(std::span<const StateRun> runs);

    /// The states behind a prepared run's rows are held from now on, the last n_wanted of them (at least n_window, at
    /// most n_rollback) and the one before these. Appends where each row reads and writes.
    void advance(const StateRun& run, std::vector<StateStep>& steps);

    /// Of a slot's last pass only the first n tokens of the text stand: the other states are free.
    void settle(int slot, int32_t n);

    /// What a slot file keeps of a slot that holds n tokens: the state after them and, where it is held, the one before
    /// (a drafter may want that token evaluated again). Empty when the state after n tokens isn't held.
    std::vector<std::byte> save(int slot, int32_t n) const;

    /// Most bytes that save() gives.
    size_t max_saved_bytes() const { return saved_bytes(kSavedStates); }

    /// Takes over what save() gave, also of a cache with other room to roll back. Errors: bad_file, out_of_memory; the
    /// slot then holds nothing.
    Status restore(int slot, int32_t n, std::span<const std::byte> saved);

    /// The slot holds nothing any more.
    void forget(int slot);

  private:
    /// States after low, low + 1, ... high tokens are held, in cells[0], cells[1], ...
    struct Held {
        int32_t low = 0;
        int32_t high = 0;
        int32_t needed = 0;  ///< the lowest that must stay; those below go when cells are short
        std::vector<int32_t> cells{kNoCell};
    };

    static constexpr int32_t kSavedStates = 2;

    /// Rows of a slot's state in one layer, from a position on.
    struct Piece {
        const graph::Storage* storage = nullptr;
        size_t bytes = 0;  ///< of one row
        bool in_pool = false;
        int32_t begin = 0;  ///< position of the first row (in the pool: count of tokens)
        int32_t n_rows = 0;
    };

    StateCache() = default;
    int32_t n_undo(const StateRun& run) const;
    int32_t take_cell();
    void release(int32_t cell);
    /// Releases states below `low`, or above `high`.
    void drop_below(Held& held, int32_t low);
    void drop_above(Held& held, int32_t high);
    Status make_room(int32_t n_free);
    Status grow(int32_t n_cells);
    size_t saved_bytes(int32_t n_states) const;
    /// What the states after n - n_states + 1 .. n tokens consist of, in the order of the file.
    std::vector<Piece> pieces(int32_t n, int32_t n_states) const;
    std::byte* row(const Piece& piece, int slot, int32_t i_row) const;

    backend::Backend* backend_ = nullptr;
    StateOptions options_;
    std::vector<StateLayer> layers_;
    std::vector<std::unique_ptr<graph::Storage>> conv_;
    std::vector<std::unique_ptr<graph::Storage>> delta_;
    std::vector<Held> held_;  ///< by slot
    std::vector<int32_t> free_;
    int32_t n_cells_ = 0;
    uint64_t version_ = 0;
    size_t cell_bytes_ = 0;
    int32_t conv_ring_ = 0;
    int32_t n_undo_most_ = 1;
};

}  // namespace foresay::memory
