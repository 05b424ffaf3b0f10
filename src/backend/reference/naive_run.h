// Runs a graph on one backend with memory of its own for every tensor: no plan, no reuse, no splits. For tests and
// tools: what a scheduler's result is compared with, and the shortest way to run one op.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace foresay::reference {

class NaiveRun {
  public:
    /// Compiles the whole graph on `backend` (host memory). The graph and the backend must outlive the run.
    /// Errors: those of compile.
    static Result<std::unique_ptr<NaiveRun>> create(const graph::Graph& graph, backend::Backend& backend);

    /// The tensor's bytes: fill inputs before run(), read results after. Storage of weights and caches included.
    std::span<std::byte> bytes(graph::TensorId id);
    std::span<float> f32(graph::TensorId id);
    std::span<int32_t> i32(graph::TensorId id);

    void run() { backend_->run(*program_); }

  private:
    NaiveRun(const graph::Graph& graph, backend::Backend& backend) : graph_(&graph), backend_(&backend) {}

    const graph::Graph* graph_;
    backend::Backend* backend_;
    std::vector<std::vector<float>> own_;  ///< by tensor id; floats for the alignment
    std::vector<std::byte*> address_;      ///< by tensor id
    std::unique_ptr<backend::Program> program_;
};

}  // namespace foresay::reference
