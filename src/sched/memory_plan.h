// Where every tensor and copy lives in its backend's buffer: interval colouring by best fit over (first step, last
// step). Owns lifetimes and reuse. Knows no memory: offsets only, so a plan survives the growth of a buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "sched/assignment.h"

namespace foresay::sched {

/// `last` of memory that stays after the last step: inputs (the caller may leave them as they are) and outputs.
inline constexpr int32_t kForever = std::numeric_limits<int32_t>::max();
/// Every offset and size is a multiple of this: a cache line, and what vector loads want.
inline constexpr size_t kMemoryAlignment = 64;

/// One piece of a backend's buffer in time. Steps are inclusive; first = -1: before the first step.
struct Block {
    int16_t backend = 0;
    bool handed_over =
        false;  ///< the node at step `last` writes its result here (in place): it ends before that result begins
    int32_t first = 0;
    int32_t last = 0;
    size_t offset = 0;
    size_t bytes = 0;
};

struct MemoryPlan {
    std::vector<size_t> offset;        ///< by tensor id, views resolved; meaningless for storage
    std::vector<size_t> buffer_bytes;  ///< by backend: high-water mark
    std::vector<Block> blocks;         ///< one per owner of memory and per copy: what verify checks
    uint64_t n_in_place = 0;
};

/// Places everything; fills CopyRecord::offset too. in_place: let element-wise nodes write over a first operand that
/// dies there (backends promise that add, mul, scale, swiglu, geglu and softcap allow result == first operand). Errors:
/// out_of_memory when the sizes don't fit size_t.
Result<MemoryPlan> place(const graph::Graph& graph, Assignment& assignment, const TensorTable& table, size_t n_backends,
                         bool in_place);

/// No two live blocks of a backend overlap; empty when all is well, else what is wrong. O(n log n), for debug builds
/// and tests.
std::string find_overlap(std::span<const Block> blocks);

}  // namespace foresay::sched
