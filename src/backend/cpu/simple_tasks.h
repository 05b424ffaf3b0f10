// Nodes that become one task whatever stands around them: no fusion, no image. Read next: tasks_experts.h.
#pragma once

#include <memory>

#include "backend/cpu/task.h"
#include "graph/graph.h"

namespace foresay::cpu {

struct Kernels;

/// The task of a node of one of these ops: columns, mul_sigmoid, swiglu_oai, route_ids, route_weights, weighted_sum,
/// short_conv, decay, delta_net. Its extents are set.
std::unique_ptr<Task> make_simple_task(const Kernels& kernels, const graph::Graph& graph, graph::TensorId id,
                                       const backend::Placement& placement);

}  // namespace foresay::cpu
