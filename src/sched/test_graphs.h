// Graphs and devices for the scheduler's tests: chains of exact size, random graphs, a device that counts.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "backend/reference/naive_run.h"
#include "backend/reference/reference_backend.h"
#include "graph/builder.h"
#include "sched/scheduler.h"

namespace foresay::sched::testing {

using graph::Builder;
using graph::Graph;
using graph::TensorId;

/// A reference device that refuses chosen ops, may pretend to be no host, and counts what it's asked.
class TestDevice : public reference::ReferenceBackend {
  public:
    bool supports(const Graph& graph, TensorId node) const override {
        return (refused_ops >> static_cast<int>(graph.tensor(node).op) & 1U) == 0 &&
               ReferenceBackend::supports(graph, node);
    }

    bool is_host() const override { return host; }

    void write(std::byte* dst, std::span<const std::byte> src) override {
        ++n_writes;
        ReferenceBackend::write(dst, src);
    }

    void read(std::span<std::byte> dst, const std::byte* src) override {
        ++n_reads;
        ReferenceBackend::read(dst, src);
    }

    Result<std::unique_ptr<backend::Buffer>> allocate(size_t bytes) override {
        if (fail_allocate) {
            return error(Code::kOutOfMemory, "the device is full", "test device");
        }
        return ReferenceBackend::allocate(bytes);
    }

    uint32_t refused_ops = 0;
    bool host = true;
    bool fail_allocate = false;
    int n_writes = 0;
    int n_reads = 0;
};

/// n_leafs inputs of one row [8] and a chain of n_nodes adds over them; the last node is the output.
inline Graph chain_graph(size_t n_nodes, size_t n_leafs) {
    Builder b;
    std::vector<TensorId> leafs;
    for (size_t i = 0; i < n_leafs; ++i) {
        leafs.push_back(b.input("x", DType::kF32, {8, 1, 1, 1}));
    }
    TensorId last = leafs[0];
    for (size_t i = 0; i < n_nodes; ++i) {
        last = i % 3 == 2 ? b.scale(last, 0.5F) : b.add(last, leafs[i % n_leafs]);
    }
    b.output(last);
    auto graph = std::move(b).finish();
    EXPECT_TRUE(graph.has_value());
    return std::move(*graph);
}

/// Fills every F32 input from its position, small values; I32 inputs with row numbers below 4.
inline void fill_value(const Graph& graph, TensorId id, std::span<std::byte> bytes) {
    const graph::Tensor& t = graph.tensor(id);
    for (int64_t i = 0; i < t.n_elements(); ++i) {
        const auto seed = static_cast<uint32_t>(graph::index(id) * 7919 + static_cast<size_t>(i) * 104729);
        if (t.dtype == DType::kI32) {
            const auto value = static_cast<int32_t>(seed % 4);
            std::memcpy(bytes.data() + i * 4, &value, 4);
        } else {
            const float value = static_cast<float>(seed % 1000) / 500.0F - 1.0F;
            std::memcpy(bytes.data() + i * 4, &value, 4);
        }
    }
}

inline void fill_inputs(Plan& plan) {
    for (const TensorId id : plan.graph().leafs()) {
        if ((plan.graph().tensor(id).flags & graph::kInput) != 0) {
            fill_value(plan.graph(), id, plan.input(id));
        }
    }
}

using Outputs = std::vector<std::vector<std::byte>>;

inline Outputs read_outputs(Plan& plan) {
    Outputs out;
    for (size_t i = 0; i < plan.graph().n_tensors(); ++i) {
        const TensorId id{static_cast<int32_t>(i)};
        if ((plan.graph().tensor(id).flags & graph::kOutput) != 0) {
            const auto bytes = plan.output(id);
            out.emplace_back(bytes.begin(), bytes.end());
        }
    }
    return out;
}

/// Fill, execute, read.
inline Outputs run_plan(Scheduler& scheduler, Plan& plan) {
    fill_inputs(plan);
    const Status status = scheduler.execute(plan);
    EXPECT_TRUE(status.has_value()) << status.error().to_string();
    return read_outputs(plan);
}

/// The graph's outputs without a scheduler: every tensor has its own memory.
inline Outputs naive_outputs(const Graph& graph) {
    const auto backend = reference::ReferenceBackend::create();
    auto run = reference::NaiveRun::create(graph, *backend);
    EXPECT_TRUE(run.has_value());
    for (const TensorId id : graph.leafs()) {
        if ((graph.tensor(id).flags & graph::kInput) != 0) {
            fill_value(graph, id, (*run)->bytes(id));
        }
    }
    (*run)->run();
    Outputs out;
    for (size_t i = 0; i < graph.n_tensors(); ++i) {
        const TensorId id{static_cast<int32_t>(i)};
        if ((graph.tensor(id).flags & graph::kOutput) != 0) {
            const auto bytes = (*run)->bytes(id);
            out.emplace_back(bytes.begin(), bytes.end());
        }
    }
    return out;
}

inline std::unique_ptr<Scheduler> make_scheduler(std::vector<backend::Backend*> backends,
                                                 SchedulerOptions options = {}) {
    auto scheduler = Scheduler::create(std::move(backends), std::move(options));
    EXPECT_TRUE(scheduler.has_value());
    return std::move(*scheduler);
}

inline Plan* must_plan(Scheduler& scheduler, uint64_t key, Graph&& graph) {
    auto plan = scheduler.plan({0, key}, std::move(graph));
    EXPECT_TRUE(plan.has_value()) << plan.error().to_string();
    return plan ? *plan : nullptr;
}

inline Plan* must_find(Scheduler& scheduler, uint64_t key) {
    auto plan = scheduler.find({0, key});
    EXPECT_TRUE(plan.has_value()) << plan.error().to_string();
    return plan ? *plan : nullptr;
}

/// A random graph of element-wise ops, norms, products, views, row writes and rows of a shared cache; width [32, rows].
class RandomGraph {
  public:
    RandomGraph(uint32_t seed, int n_nodes, std::span<backend::Backend* const> owners);
    Graph graph;
    std::vector<std::unique_ptr<graph::Storage>> storages;
    /// The caches back to zeros, so that a second run starts from the same state.
    void reset_caches();
};

}  // namespace foresay::sched::testing
