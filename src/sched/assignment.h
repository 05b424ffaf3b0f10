// Which backend runs each node, where each memory lives, how nodes fall into splits and what must be copied between
// them. Reads graph, pins and backends; writes nothing but its result and the table's scratch rows. Read next:
// memory_plan.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "graph/graph.h"
#include "sched/tensor_table.h"

namespace foresay::sched {

/// A tensor made readable on another backend, before the split that needs it first. Sparse: most graphs have none.
struct CopyRecord {
    graph::TensorId tensor{};
    int16_t from = 0;        ///< backend that has it
    int16_t to = 0;          ///< backend that reads the copy
    int32_t split = 0;       ///< made right before this split
    int32_t first_step = 0;  ///< first node of that split, as a step
    int32_t last_step = 0;   ///< last node that reads it
    int32_t next = -1;       ///< older record of the same tensor
    size_t bytes = 0;
    size_t offset = 0;  ///< in the buffer of `to`; memory_plan.h fills it
};

/// A run of nodes on one backend. Ranges index Assignment::steps and Assignment::copies.
struct Split {
    int16_t backend = 0;
    int32_t first_step = 0, end_step = 0;
    int32_t first_copy = 0, end_copy = 0;
};

struct Assignment {
    std::vector<graph::TensorId> steps;  ///< the nodes that do work, in order; views do none
    std::vector<Split> splits;
    std::vector<CopyRecord> copies;       ///< sorted by split
    std::vector<int16_t> home;            ///< by tensor id: the backend whose memory holds it; kForeign: see storage
    std::vector<int32_t> step_of;         ///< by tensor id: its step, -1 for leafs and views
    std::vector<uint32_t> first_operand;  ///< by step: into operand_copy
    std::vector<int32_t> operand_copy;    ///< by operand: the copy record to read, or -1: read it at home
};

/// Home of storage that belongs to a backend outside of the scheduler's list.
inline constexpr int16_t kForeign = -2;

/// The tensor that owns the memory of `id`: itself, unless it is a view.
inline graph::TensorId owner_of(const graph::Graph& graph, graph::TensorId id) {
    const graph::Tensor& t = graph.tensor(id);
    return t.is_view() ? t.view_of : id;
}

/// Rules, in order: a pin; storage that only its owner can use (set_rows into it, no plain layout); the owner of the
/// first weight or cache among the sources; the backend of the first computed source; the previous node's; the first in
/// the list that supports the node. need_storage: weights and caches must have storage (reserve works without). On
/// success the table's rows hold last_use for each memory's owner. Errors: unsupported (no backend takes a node, a pin
/// contradicts storage), naming the node.
Result<Assignment> assign(const graph::Graph& graph, std::span<backend::Backend* const> backends, TensorTable& table,
                          bool need_storage);

}  // namespace foresay::sched
