// What a device must offer: memory, weights in its own layout, and programs compiled from a split of a graph.
// Backends know ops and tensors, never models. The scheduler (sched/) decides what runs where.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace foresay::backend {
class Backend;
}

namespace foresay::graph {

/// Memory made by a backend that outlives graphs.
struct Storage {
    Storage() = default;
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;
    virtual ~Storage() = default;

    const backend::Backend* owner = nullptr;
    DType dtype = DType::kF32;
    std::array<int64_t, 4> ne{1, 1, 1, 1};
    std::byte* data = nullptr;  ///< plain (file) layout, or null when the backend keeps only its own layout
    size_t bytes = 0;           ///< resident bytes that this storage accounts for
};

}  // namespace foresay::graph

namespace foresay::backend {

/// A block of a backend's memory for activations. data(): an address that the owning backend's programs use.
class Buffer {
  public:
    virtual ~Buffer() = default;
    virtual std::byte* data() = 0;
    virtual size_t size() const = 0;
};

/// Where tensors live for one split: the plan's own operand table (graphs are never rewritten).
class Placement {
  public:
    virtual ~Placement() = default;
    /// Address of a node's result in the memory of the split's backend. It overlaps no operand, except: set_rows writes
    /// into its first operand, and for the element-wise ops (sched/memory_plan.cpp) it may equal source(node, 0) (in
    /// place).
    virtual std::byte* result(graph::TensorId node) const = 0;
    /// Address of a node's i-th operand in the memory of the split's backend (a copy's address where one was made).
    /// Null for weights whose storage has no plain layout; then use graph.tensor(src).storage.
    virtual std::byte* source(graph::TensorId node, int i) const = 0;
};

/// A compiled split: everything needed to run it again without thinking.
class Program {
  public:
    virtual ~Program() = default;

    /// Of its own memory: scratch and what lies between steps.
    virtual size_t bytes() const { return 0; }
};

struct WeightRequest {
    std::string_view name;  ///< for messages
    DType dtype = DType::kF32;
    std::array<int64_t, 4> ne{1, 1, 1, 1};
    std::span<const std::byte> bytes;  ///< file layout; read during the call only
    bool used_by_mul_mat = true;       ///< else only get_rows, norms and the like: keep plain, readable by row
    bool used_by_get_rows = false;     ///< both true: tied embeddings
    bool keep_mapped = false;          ///< bytes outlive the storage (mapping): the plain layout may point into them
    /// Called during the load for parts of `bytes` that have been copied: their pages may be dropped, so that a file
    /// and its copy are never in memory at once. May be empty. Rows may still be read from dropped pages: they come
    /// back.
    std::function<void(std::span<const std::byte>)> consumed = {};
};

class Backend {
  public:
    virtual ~Backend() = default;
    virtual std::string_view name() const = 0;
    /// True when it can run this node (op, types, shapes). Views are always supported.
    virtual bool supports(const graph::Graph& graph, graph::TensorId node) const = 0;
    /// True when programs of this backend can read memory of `other` without a copy.
    virtual bool can_read(const Backend& other) const = 0;

    /// True when its memory is ordinary host memory: the caller may then fill inputs and read outputs in place.
    virtual bool is_host() const { return true; }

    /// Activation memory, 64-byte aligned. Errors: out_of_memory with the size.
    virtual Result<std::unique_ptr<Buffer>> allocate(size_t bytes) = 0;
    /// Moves bytes between this backend's memory and the host.
    virtual void write(std::byte* dst, std::span<const std::byte> src) = 0;
    virtual void read(std::span<std::byte> dst, const std::byte* src) = 0;

    /// A weight in the layout that this backend wants (repacked or not). Errors: unsupported type (named),
    /// out_of_memory.
    virtual Result<std::unique_ptr<graph::Storage>> load_weight(const WeightRequest& request) = 0;
    /// Zeroed persistent state (KV cache): plain layout, `data` set. Errors: out_of_memory with the size.
    virtual Result<std::unique_ptr<graph::Storage>> allocate_state(DType dtype, std::array<int64_t, 4> ne) = 0;

    /// Compiles the nodes (in order, all supported) into a program. The graph and placement are read during the call
    /// only.
    virtual Result<std::unique_ptr<Program>> compile(const graph::Graph& graph, std::span<const graph::TensorId> nodes,
                                                     const Placement& placement) = 0;
    /// Runs to the end. One caller at a time. No allocation.
    virtual void run(Program& program) = 0;
};

}  // namespace foresay::backend
