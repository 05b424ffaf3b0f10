// The planner's table: columns owned by one class, so that they can't be resized apart, plus a small index from foreign
// handles (pins) to rows. Rows of a graph are dense by tensor id: planning hashes nothing. Knows no backends' insides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace foresay::sched {

inline constexpr int16_t kNoBackend = -1;

/// One row: what planning knows of one tensor. Rows move together when the table grows.
struct TensorRow {
    int16_t backend = kNoBackend;  ///< where its memory is (for a memory's owner) or where it runs (for a node)
    int16_t pinned = kNoBackend;   ///< the caller's choice
    int32_t first_copy = -1;       ///< newest copy record of this tensor, chained
    int32_t last_use = -1;         ///< last step that reads the memory; owners only
};

/// Rows for foreign keys first, then the rows of the graph being planned.
/// Capacity is in rows; keys are found by an index of twice as many slots or more, so probes stay short.
/// Threads: one. Growth: 1.5 x and at least 1.25 x what's required. Reset: O(1).
class TensorTable {
  public:
    explicit TensorTable(size_t capacity);

    size_t capacity() const { return capacity_; }

    size_t n_keys() const { return keys_.size(); }

    /// Rows that a graph of n tensors needs, keys included.
    size_t required(size_t n_tensors) const { return n_tensors + keys_.size(); }

    /// The capacity after growth for `required` rows: the same when it fits.
    size_t grown_capacity(size_t required) const;
    /// Bytes of a table of this capacity; for the allocation check and the error message.
    static size_t bytes(size_t capacity);
    /// A copy with this capacity: keys, pins and generation move over. The old one stays as it is (transaction).
    TensorTable grown(size_t capacity) const;

    /// Row of a key, made when absent. The capacity must allow it. key: not null.
    TensorRow& insert(const void* key, bool transient);
    /// Row of a key or null. No allocation.
    const TensorRow* find(const void* key) const;
    /// Forgets all keys. O(1) but for the wrap of the 32-bit generation.
    void reset();
    /// Forgets the transient keys with an address in [begin, end): one graph's tensors. The others keep their rows'
    /// contents.
    void drop_transient(const void* begin, const void* end);

    /// Starts a graph: n fresh rows, addressed by tensor id until the next begin, insert or reset.
    void begin(size_t n_tensors);

    TensorRow& row(graph::TensorId id) { return rows_[keys_.size() + graph::index(id)]; }

    const TensorRow& row(graph::TensorId id) const { return rows_[keys_.size() + graph::index(id)]; }

    uint64_t n_probes() const { return n_probes_; }  ///< slots looked at by insert, in total

    size_t max_probe() const { return max_probe_; }  ///< longest search of insert

    uint32_t generation() const { return generation_; }

    /// For tests: makes the next reset wrap.
    void set_generation_for_test(uint32_t generation);

  private:
    struct Slot {
        uint32_t generation = 0;  ///< live only when it equals the table's
        uint32_t row = 0;
    };

    struct Key {
        const void* pointer;
        bool transient;
    };

    size_t first_slot(const void* key) const;
    void seat(uint32_t row);

    size_t capacity_;
    std::vector<TensorRow> rows_;  ///< capacity_ of them
    std::vector<Key> keys_;        ///< capacity reserved: insert never allocates
    std::vector<Slot> slots_;      ///< a power of two
    uint32_t generation_ = 1;
    uint64_t n_probes_ = 0;
    size_t max_probe_ = 0;
};

}  // namespace foresay::sched
