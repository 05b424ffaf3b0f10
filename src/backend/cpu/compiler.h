// From the nodes of a split to phases of tasks: choice of fusions, images of quantised activations, where threads must
// meet. Read next: compiler.cpp from the bottom up.
#pragma once

#include <memory>
#include <span>

#include "backend/cpu/task.h"
#include "graph/graph.h"

namespace foresay::cpu {

struct Kernels;

struct CompileContext {
    const backend::Backend* backend = nullptr;  ///< owner of the storages that have tiles
    const Kernels* kernels = nullptr;
    int n_threads = 1;
    bool fuse = true;
};

/// Errors: unsupported for a weight whose layout only another backend knows; out_of_memory.
Result<std::unique_ptr<CpuProgram>> compile_program(const CompileContext& context, const graph::Graph& graph,
                                                    std::span<const graph::TensorId> nodes,
                                                    const backend::Placement& placement);

}  // namespace foresay::cpu
