// The plainest correct implementation of every op: the oracle of kernel tests, and the second device that makes splits
// and copies real in tests. Its arithmetic is docs/numerics.md line by line. Read next: step.h, then one file per group
// of ops.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace foresay::reference {

/// Runs every valid node, on host memory. Other backends' memory counts as foreign, so that tests make real copies.
class ReferenceBackend : public backend::Backend {
  public:
    static std::unique_ptr<ReferenceBackend> create();

    std::string_view name() const override { return "reference"; }

    bool supports(const graph::Graph& graph, graph::TensorId node) const override;

    bool can_read(const Backend& other) const override { return &other == this; }

    Result<std::unique_ptr<backend::Buffer>> allocate(size_t bytes) override;
    void write(std::byte* dst, std::span<const std::byte> src) override;
    void read(std::span<std::byte> dst, const std::byte* src) override;

    Result<std::unique_ptr<graph::Storage>> load_weight(const backend::WeightRequest& request) override;
    Result<std::unique_ptr<graph::Storage>> allocate_state(DType dtype, std::array<int64_t, 4> ne) override;

    /// Errors: unsupported for a weight without a plain layout (another backend's).
    Result<std::unique_ptr<backend::Program>> compile(const graph::Graph& graph, std::span<const graph::TensorId> nodes,
                                                      const backend::Placement& placement) override;
    void run(backend::Program& program) override;
};

}  // namespace foresay::reference

namespace foresay::backend {
using foresay::reference::ReferenceBackend;
}
