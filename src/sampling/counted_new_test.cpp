// Counts allocations of the test program. In a unit of its own: inlined into callers, g++ 12 takes the pair for a
// mismatch of new and free.
#include "sampling/counted_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> n_allocations_so_far{0};
}  // namespace

long foresay::n_allocations() {
    return n_allocations_so_far.load();
}

void* operator new(std::size_t size) {
    n_allocations_so_far.fetch_add(1, std::memory_order_relaxed);
    if (void* memory = std::malloc(size); memory != nullptr) {
        return memory;
    }
    std::abort();
}

// std::stable_sort takes its buffer with this form and gives it back with the plain delete.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return operator new(size);
}

void operator delete(void* memory) noexcept {
    std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
