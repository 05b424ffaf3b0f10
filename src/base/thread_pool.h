// A persistent pool of threads that work through the steps of a run together. A step is over when its items are done,
// not when every thread has come by: a thread that the system took off its CPU holds up at most the chunk in its hand.
// Owns the waiting policy: spin for a bounded time, then park, so that a busy neighbour costs its share and not more.
// Knows nothing of tensors. Read next: backend/cpu/cpu_backend.cpp, the only heavy user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/result.h"

namespace foresay {

/// What a step consists of.
struct PoolStep {
    int64_t n_items = 0;
    int64_t chunk = 1;  ///< items that a thread takes at a time, >= 1
};

/// One chunk of a step, in a thread's hand.
struct PoolChunk {
    int64_t step = 0;
    int64_t begin = 0;
    int64_t end = 0;
    int thread = 0;  ///< 0..n_threads-1: names scratch memory
};

/// A fixed set of threads; the caller of run_steps() is thread 0. Threads: runs come from one thread at a time.
class ThreadPool {
  public:
    /// n_threads >= 1. Errors: invalid_argument; capacity when the system refuses a thread.
    static Result<std::unique_ptr<ThreadPool>> create(int n_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int n_threads() const { return n_threads_; }

    /// Does n_steps steps one after another: step_of(i) gives a PoolStep, fn(const PoolChunk&) does a part of it. What
    /// a step wrote is visible to the next. Each thread owns a contiguous range of a step and takes chunks from its
    /// front; a thread that is done takes chunks from the tail of the fullest other range. step_of and fn are called
    /// from any thread; fn must not throw.
    template <typename StepOf, typename Fn>
    void run_steps(int64_t n_steps, StepOf&& step_of, Fn&& fn) {
        struct Both {
            std::remove_reference_t<StepOf>* step_of;
            std::remove_reference_t<Fn>* fn;
        } both{&step_of, &fn};

        run_erased({.n_steps = n_steps,
                    .step_of = [](void* context, int64_t step) -> PoolStep {
                        return (*static_cast<Both*>(context)->step_of)(step);
                    },
                    .fn = [](void* context, const PoolChunk& chunk) { (*static_cast<Both*>(context)->fn)(chunk); },
                    .context = &both});
    }

    /// A run of one step; fn(begin, end).
    template <typename Fn>
    void for_chunks(int64_t n_items, int64_t chunk, Fn&& fn) {
        run_steps(
            1,
            [&](int64_t) {
                return PoolStep{n_items, chunk};
            },
            [&](const PoolChunk& piece) { fn(piece.begin, piece.end); });
    }

    /// CPUs that this process may use: the affinity mask (never 0).
    static int n_cpus();

  private:
    struct Run {
        int64_t n_steps = 0;
        PoolStep (*step_of)(void* context, int64_t step) = nullptr;
        void (*fn)(void* context, const PoolChunk& chunk) = nullptr;
        void* context = nullptr;
    };

    struct Impl;
    ThreadPool(int n_threads, std::unique_ptr<Impl> impl);
    void run_erased(const Run& run);

    int n_threads_ = 1;
    std::unique_ptr<Impl> impl_;
};

}  // namespace foresay
