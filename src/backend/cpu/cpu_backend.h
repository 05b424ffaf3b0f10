// The CPU backend: repacked weights, fused steps on a thread pool, kernels chosen by what the machine can do. Its
// results are those of backend/reference bit for bit, whatever the ISA, the number of threads and the width of the
// batch. Read next: tile_layout.h (weights), compiler.h (graph to tasks), kernels/kernel_abi.h.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/tile_layout.h"
#include "base/thread_pool.h"

namespace foresay::cpu {

struct CpuOptions {
    int n_threads = 0;         ///< 0: one per CPU that this process may use
    std::string isa = "auto";  ///< see parse_isa
    bool repack = true;  ///< off: products pack weights as they read them, each time: the load is short, all else slow
    bool fuse = true;    ///< off: one task per node, for tests and for finding faults
};

/// A weight or a cache. Weights of products are in tiles; data is null unless there is a plain layout too.
struct CpuStorage : graph::Storage {
    TileLayout layout;
    const uint8_t* tiles = nullptr;
    Arena::Piece piece;
    Memory memory;
};

class CpuBackend : public backend::Backend {
  public:
    /// Errors: those of parse_isa and ThreadPool::create.
    static Result<std::unique_ptr<CpuBackend>> create(const CpuOptions& options);

    std::string_view name() const override { return "cpu"; }

    Isa isa() const { return isa_; }

    int n_threads() const { return pool_->n_threads(); }

    /// What has been loaded so far, by type: "168 Q4_K: int8 dots over tiles (amx); 141 F32: plain". Empty: nothing.
    std::string weights_summary() const;

    bool supports(const graph::Graph& graph, graph::TensorId node) const override;

    /// Only its own: the scheduler's copies are cheap next to a wrong guess about another backend's memory.
    bool can_read(const Backend& other) const override { return &other == this; }

    Result<std::unique_ptr<backend::Buffer>> allocate(size_t bytes) override;
    void write(std::byte* dst, std::span<const std::byte> src) override;
    void read(std::span<std::byte> dst, const std::byte* src) override;

    /// Packs on all threads. Tied embeddings: rows are read from the mapping when it stays, else from the tiles.
    Result<std::unique_ptr<graph::Storage>> load_weight(const backend::WeightRequest& request) override;
    Result<std::unique_ptr<graph::Storage>> allocate_state(DType dtype, std::array<int64_t, 4> ne) override;

    Result<std::unique_ptr<backend::Program>> compile(const graph::Graph& graph, std::span<const graph::TensorId> nodes,
                                                      const backend::Placement& placement) override;
    void run(backend::Program& program) override;

  private:
    CpuBackend(Isa isa, const CpuOptions& options, std::unique_ptr<ThreadPool> pool)
        : isa_(isa), repack_(options.repack), fuse_(options.fuse), pool_(std::move(pool)) {}

    Isa isa_;
    bool repack_;
    bool fuse_;
    std::unique_ptr<ThreadPool> pool_;
    Arena arena_;
    std::map<std::pair<std::string_view, std::string>, int> n_weights_;  ///< by type and path
};

}  // namespace foresay::cpu

namespace foresay::backend {
using foresay::cpu::CpuBackend;
}
