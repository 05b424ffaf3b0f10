// A persistent pool of threads that run one function together, split work in chunks and meet at barriers.
// Owns the waiting policy: spin for a bounded time, then park, so that a busy neighbour costs its share and not more.
// A program of many steps runs inside one run(): threads meet at barriers, they aren't woken per step.
// Knows nothing of tensors. Read next: backend/cpu/program.h, the only heavy user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"

namespace foresay {

class ThreadPool;

/// One thread's view of a run: its number, work splitting and the barrier. Lives as long as the pool; used by its own
/// thread only. All threads of a run must make the same sequence of for_chunks() and barrier() calls.
class Worker {
  public:
    int id() const { return id_; }

    int n_threads() const { return n_threads_; }

    /// Splits 0..n_items among the threads and calls fn(begin, end) on chunks of at most `chunk` items until none is
    /// left. Each thread owns a contiguous range and takes chunks from its front; a thread that is done takes chunks
    /// from the tail of the fullest other range. Doesn't wait at the end: a barrier() must come before the next
    /// for_chunks(), or a thread that is ahead would take the unfinished range of one behind for a new one. Doesn't
    /// call fn when others took everything.
    template <typename Fn>
    void for_chunks(int64_t n_items, int64_t chunk, Fn&& fn) {
        using Plain = std::remove_reference_t<Fn>;
        for_chunks_erased(
            n_items, chunk,
            [](void* context, int64_t begin, int64_t end) { (*static_cast<Plain*>(context))(begin, end); },
            const_cast<void*>(static_cast<const void*>(&fn)));
    }

    /// Returns once every thread of the run has called it; what others wrote before is visible after.
    void barrier();

  private:
    friend class ThreadPool;
    using ChunkFn = void (*)(void* context, int64_t begin, int64_t end);
    void for_chunks_erased(int64_t n_items, int64_t chunk, ChunkFn fn, void* context);

    ThreadPool* pool_ = nullptr;
    int id_ = 0;
    int n_threads_ = 1;
    uint32_t epoch_ = 0;          // counts for_chunks() calls: tags the ranges, so that they need no reset
    uint32_t barrier_phase_ = 0;  // the generation that this thread will wait for next
};

/// A fixed set of threads; the caller of run() is thread 0. Threads: run() from one thread at a time.
class ThreadPool {
  public:
    /// n_threads >= 1. Errors: invalid_argument; capacity when the system refuses a thread.
    static Result<std::unique_ptr<ThreadPool>> create(int n_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int n_threads() const { return n_threads_; }

    /// Calls fn(Worker&) on every thread and returns when all are done.
    template <typename Fn>
    void run(Fn&& fn) {
        using Plain = std::remove_reference_t<Fn>;
        run_erased([](void* context, Worker& worker) { (*static_cast<Plain*>(context))(worker); },
                   const_cast<void*>(static_cast<const void*>(&fn)));
    }

    /// CPUs that this process may use: the affinity mask (never 0).
    static int n_cpus();

  private:
    friend class Worker;
    using RunFn = void (*)(void* context, Worker& worker);
    struct Impl;
    ThreadPool(int n_threads, std::unique_ptr<Impl> impl);
    void run_erased(RunFn fn, void* context);

    int n_threads_ = 1;
    std::unique_ptr<Impl> impl_;
};

}  // namespace foresay
