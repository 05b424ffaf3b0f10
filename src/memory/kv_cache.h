// The KV cache: one contiguous run of cells per slot, cell order = position order. Owns storage, context shift and
// copies. Must not know models or HTTP. Why contiguous: a row then attends to kv_base..kv_base+pos and nothing else, so
// its result can't depend on the slot or on its neighbours (row contract), and rolling back is forgetting a length.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "graph/graph.h"

namespace foresay::memory {

/// Widths of one layer's rows; zeros: the layer has none of its own (no attention, or another layer's cache).
struct KvLayer {
    int64_t k_width = 0;  ///< D * n_head_kv
    int64_t v_width = 0;
    int64_t head_dim = 0;
};

/// How a layer's keys were rotated, for context shift.
struct KvRope {
    graph::RopeParams params;
    const float* factors = nullptr;  ///< [n_rot / 2] or null
};

class KvCache {
  public:
    /// Zeroed caches of n_slots * n_ctx_slot cells. Errors: unsupported type, out_of_memory with the size.
    static Result<std::unique_ptr<KvCache>> create(backend::Backend& backend, std::vector<KvLayer> layers,
                                                   int32_t n_slots, int32_t n_ctx_slot, DType type_k, DType type_v);

    /// Null for a layer without a cache of its own.
    const graph::Storage* k(int layer) const { return k_[static_cast<size_t>(layer)].get(); }

    const graph::Storage* v(int layer) const { return v_[static_cast<size_t>(layer)].get(); }

    int32_t n_ctx_slot() const { return n_ctx_slot_; }

    int32_t n_slots() const { return n_slots_; }

    int64_t n_cells() const { return int64_t{n_slots_} * n_ctx_slot_; }

    int32_t first_cell(int slot) const { return slot * n_ctx_slot_; }

    size_t bytes() const;

    /// Context shift: drops positions [keep, keep + discard) of the first n, moves the rest down and rotates their keys
    /// by -discard. rope(layer): how that layer's keys were rotated. Cost: one pass over the moved rows. Source:
    /// shared/spec/target-models.md, 5.5 (pure rotation, the magnitude isn't applied again).
    void shift(int slot, int32_t n, int32_t keep, int32_t discard, const std::function<KvRope(int layer)>& rope);

    int n_layer() const { return static_cast<int>(layers_.size()); }

    /// The first n cells of a slot as they are stored: one layer's keys or values. For slot files.
    size_t prefix_bytes(int layer, bool keys, int32_t n) const;
    void read_prefix(int slot, int layer, bool keys, std::span<std::byte> out) const;
    void write_prefix(int slot, int layer, bool keys, std::span<const std::byte> in);
    /// Copies the first n cells of one slot to another.
    void copy_prefix(int from, int to, int32_t n);

  private:
    KvCache() = default;
    void shift_rows(const graph::Storage& storage, int64_t width, int slot, int32_t n, int32_t keep, int32_t discard,
                    int64_t head_dim, const KvRope* rope);

    backend::Backend* backend_ = nullptr;
    std::vector<KvLayer> layers_;
    std::vector<std::unique_ptr<graph::Storage>> k_;
    std::vector<std::unique_ptr<graph::Storage>> v_;
    int32_t n_slots_ = 0;
    int32_t n_ctx_slot_ = 0;
};

}  // namespace foresay::memory
