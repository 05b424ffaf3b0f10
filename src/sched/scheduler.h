// From a graph to its execution: backends for nodes, splits, copies, memory, programs; plans kept by the caller's key.
// Owns capacity, plans and activation buffers. Knows no models. Read next: assignment.h, memory_plan.h, tensor_table.h.
//
// Promises: no capacity is guessed (the table grows to the graph that arrives); a failure changes nothing and says the
// figures; a plan found by its key runs without planning, hashing of nodes or allocation. Graphs are never changed.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "graph/graph.h"
#include "sched/assignment.h"
#include "sched/memory_plan.h"
#include "sched/tensor_table.h"

namespace foresay::sched {

struct SchedulerOptions {
    size_t initial_capacity = 2053;  ///< rows of the tensor table: a start, not a limit
    int max_plans = 64;    ///< 16 verify widths, 16 draft shapes, prefill buckets; the least recently used goes
    bool in_place = true;  ///< let element-wise nodes write over an operand that dies there
    /// Test hook: asked before each allocation of the scheduler with its bytes; false makes it fail. May be empty.
    std::function<bool(size_t bytes)> allow_allocation{};
};

/// What a caller knows of a graph without building it (model, kind, width, ...), hashed by the caller.
struct PlanKey {
    uint64_t hi = 0;
    uint64_t lo = 0;
    bool operator==(const PlanKey&) const = default;
};

struct SchedulerStats {
    size_t hash_capacity = 0;  ///< rows of the tensor table
    size_t n_nodes = 0;        ///< of the last planned graph
    size_t n_leafs = 0;
    size_t required = 0;   ///< nodes + leafs + pins
    size_t max_probe = 0;  ///< longest search of an insert into the table
    uint64_t growths = 0;
    uint64_t plans_built = 0;
    uint64_t plan_hits = 0;
    uint64_t plan_misses = 0;
    uint64_t plan_evictions = 0;
    uint64_t plan_replacements = 0;  ///< recompiled because a buffer has moved
    uint64_t plan_failures = 0;
    uint64_t plan_us = 0;  ///< of the last build
    uint64_t buffer_growths = 0;
    size_t buffer_bytes = 0;  ///< of all backends' activation buffers
    uint64_t copies = 0;      ///< of the last planned graph
    uint64_t splits = 0;
    uint64_t in_place = 0;  ///< nodes that write over an operand, same
    uint64_t executions = 0;
};

class Scheduler;

/// A graph placed and compiled. Owned by the scheduler; valid until the next plan() (which may evict it).
/// Its memory is shared by all plans: fill inputs right before execute, read outputs before the next call of the
/// scheduler.
class Plan {
  public:
    ~Plan();
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;

    const graph::Graph& graph() const { return graph_; }

    /// Host memory to fill before execute; kept over executions as long as no other plan runs. id: an input of the
    /// graph.
    std::span<std::byte> input(graph::TensorId id);
    /// Host memory, readable after execute. For a host backend the tensor itself, without a copy. id: marked as output.
    std::span<const std::byte> output(graph::TensorId id);
    /// Index of the backend that runs a node or holds a leaf; for tests and diagnostics.
    int backend_of(graph::TensorId id) const;

    std::span<const Split> splits() const { return assignment_.splits; }

    std::span<const CopyRecord> copies() const { return assignment_.copies; }

    const MemoryPlan& memory() const { return memory_; }

  private:
    friend class Scheduler;
    class Operands;
    Plan() = default;

    /// Address of a tensor in the memory of its home.
    std::byte* address(const graph::Graph& graph, graph::TensorId id) const;

    graph::Graph graph_;
    PlanKey key_;
    Assignment assignment_;
    MemoryPlan memory_;
    std::vector<std::byte*> base_;                             ///< by backend
    std::vector<std::unique_ptr<backend::Program>> programs_;  ///< by split
    uint64_t epoch_ = 0;                                       ///< of the buffers that base_ points into
    const uint64_t* current_epoch_ = nullptr;                  ///< the scheduler's
    uint64_t last_used_ = 0;
    std::array<uint64_t, 2> hash_{};  ///< structural; debug builds only

    /// A tensor of a backend whose memory the host can't touch.
    struct Staging {
        graph::TensorId id;
        std::vector<std::byte> bytes;
        bool is_input;
    };

    std::vector<Staging> staging_;
    std::vector<std::byte> bounce_;  ///< for copies between two devices
};

/// Threads: one at a time.
class Scheduler {
  public:
    /// backends: in order of priority, the last is the fallback; they must outlive the scheduler. Errors: none given,
    /// or more than 64.
    static Result<std::unique_ptr<Scheduler>> create(std::vector<backend::Backend*> backends,
                                                     SchedulerOptions options = {});
    ~Scheduler();
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    /// Nodes that read this storage run on that backend, until reset_pins. Errors: invalid_argument, out_of_memory.
    Status pin(const graph::Storage* storage, int backend);
    /// This node runs there (or this input lives there) in the next plan of this graph; moving the graph keeps the pin,
    /// adding tensors to it doesn't. Survives growth, reserve and failed plans; used up by a successful plan().
    Status pin(const graph::Graph& graph, graph::TensorId id, int backend);

    /// Forgets all pins. O(1).
    void reset_pins() { table_.reset(); }

    /// Plans the graph and makes room for it, without keeping a plan. Storage may be missing. Errors: as plan().
    Status reserve(const graph::Graph& graph);
    /// The plan of this key, ready to execute, or null. A plan made before the buffers moved is compiled again (errors:
    /// its).
    Result<Plan*> find(const PlanKey& key);
    /// Builds and keeps a plan; an older one of the same key goes. On an error the graph stays with the caller and the
    /// scheduler is as before. Errors: invalid_argument (broken graph, names the node), unsupported, out_of_memory
    /// (with nodes, leafs, required, capacity and bytes).
    Result<Plan*> plan(const PlanKey& key, graph::Graph&& graph);
    /// Runs to the end. No allocation. Errors: invalid_argument for a plan older than the buffers (find it again).
    Status execute(Plan& plan);

    /// For debug builds of callers that rebuild a graph on a hit: internal when the key's plan has another structure.
    Status check_key(const PlanKey& key, const graph::Graph& graph) const;

    const SchedulerStats& stats() const { return stats_; }

    /// Memory of passes: activation buffers, and what the programs of the kept plans hold of their own.
    size_t compute_bytes() const;

    /// What is being run, for the log line of a growth: "draft-simple n_max=8 batch=9".
    void set_context(std::string text) { context_ = std::move(text); }

    const TensorTable& table() const { return table_; }

  private:
    struct Draft;
    Scheduler(std::vector<backend::Backend*> backends, SchedulerOptions options);

    Status allow(size_t bytes, std::string_view what) const;
    Status make_room_for_pin();
    Status prepare(const graph::Graph& graph, bool need_storage, Draft& draft);
    Status get_buffers(Draft& draft);
    Status compile(const graph::Graph& graph, Plan& plan, std::span<std::byte* const> base);
    void add_staging(const graph::Graph& graph, Plan& plan);
    void commit(Draft& draft, const graph::Graph& graph);
    void log_growth(std::string_view entry) const;
    Error annotate(Error error, const graph::Graph& graph, size_t bytes) const;
    template <typename F>
    Status guarded(const graph::Graph& graph, Draft& draft, F&& body);
    size_t find_index(const PlanKey& key) const;

    std::vector<backend::Backend*> backends_;
    SchedulerOptions options_;
    TensorTable table_;
    std::vector<std::unique_ptr<backend::Buffer>> buffers_;  ///< by backend; null until needed
    uint64_t epoch_ = 1;                                     ///< changes when a buffer moves
    std::vector<std::unique_ptr<Plan>> plans_;               ///< at most max_plans, reserved
    uint64_t clock_ = 0;                                     ///< of last_used_
    SchedulerStats stats_;
    std::string context_;
};

}  // namespace foresay::sched
