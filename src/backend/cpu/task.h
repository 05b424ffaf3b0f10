// What a program is made of: tasks, each split into items that any thread may run, gathered into phases of tasks that
// don't touch each other's results. Threads meet once per phase. Read next: compiler.cpp (graph to tasks), tasks.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/memory.h"

namespace foresay::cpu {

/// A piece of memory that a task reads or writes.
struct Extent {
    const std::byte* begin = nullptr;
    size_t bytes = 0;
};

/// One (possibly fused) step. Items are independent and write disjoint memory, so who runs which doesn't matter.
class Task {
  public:
    virtual ~Task() = default;
    virtual int64_t n_items() const = 0;

    /// Per thread, 64-byte aligned.
    virtual size_t scratch_bytes() const { return 0; }

    virtual void run(int64_t item, std::byte* scratch) const = 0;

    std::vector<Extent> reads;
    std::vector<Extent> writes;
};

/// Tasks that may run at the same time; first_item[i] is task i's first item in the phase's numbering.
struct Phase {
    std::vector<std::unique_ptr<Task>> tasks;
    std::vector<int64_t> first_item;
    int64_t n_items = 0;
};

struct CpuProgram : backend::Program {
    std::vector<Phase> phases;
    std::vector<Memory> memory;   ///< images, rope tables
    std::vector<Memory> scratch;  ///< per thread

    size_t bytes() const override {
        size_t total = 0;
        for (const auto* blocks : {&memory, &scratch}) {
            for (const Memory& block : *blocks) {
                total += block.size();
            }
        }
        return total;
    }
};

}  // namespace foresay::cpu
