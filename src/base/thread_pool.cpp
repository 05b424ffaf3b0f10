#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/assert.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace foresay {
namespace {

using Clock = std::chrono::steady_clock;

// Waits inside a run are mostly a few us (threads finish a step together); 50 us covers the chunk that a peer still has
// in hand.
constexpr auto kSpinInRun = std::chrono::microseconds(50);
// Between runs the caller samples tokens; 100 us of spinning hides the 30-100 us that a wake-up costs, without heating
// an idle machine.
constexpr auto kSpinBetweenRuns = std::chrono::microseconds(100);
// With more threads than CPUs a spinning thread keeps the one it waits for from running.
constexpr auto kSpinOversubscribed = std::chrono::microseconds(2);
// A pause is 40-140 cycles by CPU; looking at the clock (about 25 ns) every 8 keeps the deadline within a microsecond.
constexpr int kPausesPerClock = 8;
// Range ends are 16 bits: at most this many chunks per thread, larger ones beyond.
constexpr int64_t kMaxChunks = 60000;

void pause() {
#if defined(__x86_64__)
    _mm_pause();
#else
    std::this_thread::yield();
#endif
}

/// Waits until word != old: spins until the budget is used up, then parks in the kernel.
uint32_t wait_while_equal(const std::atomic<uint32_t>& word, uint32_t old, Clock::duration budget) {
    uint32_t value = word.load(std::memory_order_acquire);
    if (value != old) {
        return value;
    }
    const auto deadline = Clock::now() + budget;
    do {
        for (int i = 0; i < kPausesPerClock; ++i) {
            pause();
            value = word.load(std::memory_order_acquire);
            if (value != old) {
                return value;
            }
        }
    } while (Clock::now() < deadline);
    while ((value = word.load(std::memory_order_acquire)) == old) {
        word.wait(old, std::memory_order_acquire);
    }
    return value;
}

/// epoch | begin | end, in chunks: one word, so that owner and thieves agree by compare-and-swap alone.
struct Range {
    uint32_t epoch;
    uint32_t begin;
    uint32_t end;
};

constexpr uint64_t pack(Range r) {
    return (uint64_t{r.epoch} << 32) | (uint64_t{r.begin} << 16) | r.end;
}

constexpr Range unpack(uint64_t word) {
    return {static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word >> 16) & 0xffffu,
            static_cast<uint32_t>(word) & 0xffffu};
}

}  // namespace

struct ThreadPool::Impl {
    // Each on its own cache line: arrivals must not disturb those who poll the release word.
    struct alignas(64) Line {
        std::atomic<uint32_t> value{0};
    };

    struct alignas(64) Slot {
        std::atomic<uint64_t> range{0};
        Worker worker;
    };

    Line arrived;
    Line released;
    Line started;
    std::atomic<bool> stop{false};
    // Written by the caller before `started` is raised (release), read by workers after they saw it (acquire).
    RunFn fn = nullptr;
    void* context = nullptr;
    Clock::duration spin_in_run{};
    Clock::duration spin_between_runs{};
    std::vector<Slot> slots;
    std::vector<std::thread> threads;

    explicit Impl(size_t n) : slots(n) {}

    void loop(size_t id) {
        uint32_t seen = 0;
        for (;;) {
            seen = wait_while_equal(started.value, seen, spin_between_runs);
            if (stop.load(std::memory_order_acquire)) {
                return;
            }
            Worker& worker = slots[id].worker;
            fn(context, worker);
            worker.barrier();
        }
    }
};

int ThreadPool::n_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        return std::max(1, CPU_COUNT(&set));
    }
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadPool::ThreadPool(int n_threads, std::unique_ptr<Impl> impl) : n_threads_(n_threads), impl_(std::move(impl)) {}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int n_threads) {
    constexpr int kMaxThreads = 1024;  // far above any machine that this engine meets; guards against typing errors
    if (n_threads < 1 || n_threads > kMaxThreads) {
        return error(
            Code::kInvalidArgument,
            "number of threads must be 1.." + std::to_string(kMaxThreads) + ", not " + std::to_string(n_threads),
            "threads");
    }
    std::unique_ptr<ThreadPool> pool(new ThreadPool(n_threads, std::make_unique<Impl>(static_cast<size_t>(n_threads))));
    Impl& impl = *pool->impl_;
    const bool oversubscribed = n_threads > n_cpus();
    impl.spin_in_run = oversubscribed ? kSpinOversubscribed : kSpinInRun;
    impl.spin_between_runs = oversubscribed ? kSpinOversubscribed : kSpinBetweenRuns;
    for (int i = 0; i < n_threads; ++i) {
        Worker& worker = impl.slots[static_cast<size_t>(i)].worker;
        worker.pool_ = pool.get();
        worker.id_ = i;
        worker.n_threads_ = n_threads;
    }
    try {
        for (int i = 1; i < n_threads; ++i) {
            impl.threads.emplace_back([&impl, i] { impl.loop(static_cast<size_t>(i)); });
        }
    } catch (const std::system_error& e) {
        return error(Code::kCapacity,
                     "cannot start thread " + std::to_string(impl.threads.size() + 1) + " of " +
                         std::to_string(n_threads) + ": " + e.what(),
                     "threads", "use fewer threads");
    }
    return pool;
}

ThreadPool::~ThreadPool() {
    impl_->stop.store(true, std::memory_order_release);
    impl_->started.value.fetch_add(1, std::memory_order_acq_rel);
    impl_->started.value.notify_all();
    for (std::thread& thread : impl_->threads) {
        thread.join();
    }
}

void ThreadPool::run_erased(RunFn fn, void* context) {
    Worker& worker = impl_->slots[0].worker;
    if (n_threads_ == 1) {
        fn(context, worker);
        return;
    }
    impl_->fn = fn;
    impl_->context = context;
    impl_->started.value.fetch_add(1, std::memory_order_acq_rel);
    impl_->started.value.notify_all();
    fn(context, worker);
    worker.barrier();
}

void Worker::barrier() {
    if (n_threads_ == 1) {
        return;
    }
    ThreadPool::Impl& impl = *pool_->impl_;
    const uint32_t phase = barrier_phase_++;
    if (impl.arrived.value.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(n_threads_)) {
        impl.arrived.value.store(0, std::memory_order_relaxed);
        impl.released.value.store(phase + 1, std::memory_order_release);
        impl.released.value.notify_all();
        return;
    }
    wait_while_equal(impl.released.value, phase, impl.spin_in_run);
}

void Worker::for_chunks_erased(int64_t n_items, int64_t chunk, ChunkFn fn, void* context) {
    FORESAY_DCHECK(chunk > 0 && n_items >= 0);
    if (n_threads_ == 1) {
        // One call: without other threads chunks have no use.
        if (n_items > 0) {
            fn(context, 0, n_items);
        }
        return;
    }
    const uint32_t epoch = ++epoch_;
    const int64_t per_thread = (n_items + n_threads_ - 1) / n_threads_;
    chunk = std::max(chunk, (per_thread + kMaxChunks - 1) / kMaxChunks);
    const int64_t n_chunks = (n_items + chunk - 1) / chunk;
    const auto first_chunk = [&](int thread) { return n_chunks * thread / n_threads_; };
    const auto run_chunk = [&](int thread, uint32_t i) {
        const int64_t begin = (first_chunk(thread) + i) * chunk;
        fn(context, begin, std::min(begin + chunk, n_items));
    };
    auto& slots = pool_->impl_->slots;
    // A range whose tag is older hasn't been touched in this call: it still is what the split says.
    const auto load = [&](int thread, uint64_t* word) {
        *word = slots[static_cast<size_t>(thread)].range.load(std::memory_order_acquire);
        const Range range = unpack(*word);
        return range.epoch == epoch
                   ? range
                   : Range{epoch, 0, static_cast<uint32_t>(first_chunk(thread + 1) - first_chunk(thread))};
    };
    const auto replace = [&](int thread, uint64_t word, Range range) {
        return slots[static_cast<size_t>(thread)].range.compare_exchange_weak(word, pack(range),
                                                                              std::memory_order_acq_rel);
    };
    for (;;) {
        uint64_t word = 0;
        Range own = load(id_, &word);
        if (own.begin >= own.end) {
            break;
        }
        if (replace(id_, word, {epoch, own.begin + 1, own.end})) {
            run_chunk(id_, own.begin);
        }
    }
    for (;;) {
        int victim = -1;
        uint64_t victim_word = 0;
        Range victim_range{};
        for (int thread = 0; thread < n_threads_; ++thread) {
            uint64_t word = 0;
            const Range range = load(thread, &word);
            if (range.end > range.begin &&
                (victim < 0 || range.end - range.begin > victim_range.end - victim_range.begin)) {
                victim = thread;
                victim_word = word;
                victim_range = range;
            }
        }
        if (victim < 0) {
            return;
        }
        if (replace(victim, victim_word, {epoch, victim_range.begin, victim_range.end - 1})) {
            run_chunk(victim, victim_range.end - 1);
        }
    }
}

}  // namespace foresay
