#include "base/thread_pool.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
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
// A chunk is some us of work, so that 4 are well below a slice of the system's scheduler.
constexpr uint32_t kChunksPerClock = 4;
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
void wait_while_equal(const std::atomic<uint32_t>& word, uint32_t old, Clock::duration budget) {
    if (word.load(std::memory_order_acquire) != old) {
        return;
    }
    const auto deadline = Clock::now() + budget;
    do {
        for (int i = 0; i < kPausesPerClock; ++i) {
            pause();
            if (word.load(std::memory_order_acquire) != old) {
                return;
            }
        }
    } while (Clock::now() < deadline);
    while (word.load(std::memory_order_acquire) == old) {
        word.wait(old, std::memory_order_acquire);
    }
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

/// Decides when a thread gives up its CPU between two chunks. A thread that is taken off with a chunk in its hand holds
/// up all others for a slice of the system's scheduler (some ms, many steps). So where another process wants the CPU,
/// the thread goes by itself, a little before its slice ends. Used by one thread.
class Courtesy {
  public:
    /// Whether it's time to leave the CPU, or to look whether others want it.
    bool is_due() {
        if (++n_chunks_ % kChunksPerClock != 0) {
            return false;
        }
        const auto now = Clock::now();
        if (now < next_) {
            return false;
        }
        if (n_free_ >= kFreeYields) {
            next_ = now + kLook;
            const int64_t n = n_preemptions();
            const bool is_wanted = n != n_seen_;
            n_seen_ = n;
            n_free_ = is_wanted ? 0 : n_free_;
            return is_wanted;
        }
        return true;
    }

    void give_way() {
        const auto before = Clock::now();
        std::this_thread::yield();
        const auto after = Clock::now();
        n_free_ = after - before > kTaken ? 0 : n_free_ + 1;
        n_seen_ = n_free_ >= kFreeYields ? n_preemptions() : n_seen_;
        next_ = after + kSlice;
    }

  private:
    // Linux gives slices of 1.4 ms on 2 CPUs and 2.8 ms on 8 (rounded up to a tick): 0.7, 1.2 and 2.5 ms were tried.
    static constexpr auto kSlice = std::chrono::microseconds(1200);
    static constexpr auto kLook = std::chrono::milliseconds(5);
    static constexpr auto kTaken = std::chrono::microseconds(100);  // a yield that took longer let another process run
    static constexpr int kFreeYields = 8;                           // in a row: nobody wants the CPU any more

    static int64_t n_preemptions() {
        rusage usage{};
        return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
    }

    Clock::time_point next_{};
    uint32_t n_chunks_ = 0;
    int64_t n_seen_ = 0;
    int n_free_ = kFreeYields;
};

/// What threads know of the step under way. A copy is good only if the epoch hasn't moved on meanwhile.
struct Work {
    int64_t step = 0;
    int64_t n_items = 0;
    int64_t chunk = 1;
    int64_t n_chunks = 0;  ///< 0: nothing to do between runs
};

/// Work as it's handed over. Two take turns, so that the next step can be written while a late thread reads the last.
struct alignas(64) Notice {
    std::atomic<int64_t> step{0};
    std::atomic<int64_t> n_items{0};
    std::atomic<int64_t> chunk{1};
    std::atomic<int64_t> n_chunks{0};

    // Release and acquire on every field: who reads a field of a later step then also sees the later epoch.
    void write(const Work& work) {
        step.store(work.step, std::memory_order_release);
        n_items.store(work.n_items, std::memory_order_release);
        chunk.store(work.chunk, std::memory_order_release);
        n_chunks.store(work.n_chunks, std::memory_order_release);
    }

    Work read() const {
        return {step.load(std::memory_order_acquire), n_items.load(std::memory_order_acquire),
                chunk.load(std::memory_order_acquire), n_chunks.load(std::memory_order_acquire)};
    }
};

}  // namespace

struct ThreadPool::Impl {
    // Each on its own cache line: what one writes must not disturb those who poll another.
    struct alignas(64) Epoch {
        std::atomic<uint32_t> value{0};
    };

    struct alignas(64) Count {
        std::atomic<int64_t> value{0};
    };

    struct alignas(64) Slot {
        std::atomic<uint64_t> range{0};
        Courtesy courtesy;  // its thread's own
    };

    // Counts steps, and the time after a run's last as one more. Everything that is handed over hangs on it.
    Epoch epoch;
    std::array<Notice, 2> notices;  // [epoch % 2]
    Count n_done;                   // chunks of this epoch's step that are finished
    std::atomic<bool> stop{false};
    Run run;  // written between runs; read only by who holds a chunk, or has just finished a step's last one
    Clock::duration spin_in_run{};
    Clock::duration spin_between_runs{};
    int n_threads;
    std::vector<Slot> slots;
    std::vector<std::thread> threads;

    explicit Impl(int n) : n_threads(n), slots(static_cast<size_t>(n)) {}

    /// First of a thread's chunks: ranges follow each other.
    int64_t first_chunk(const Work& work, int thread) const { return work.n_chunks * thread / n_threads; }

    void begin_step(uint32_t next_epoch, int64_t step);
    bool read_work(uint32_t at, Work* work) const;
    bool load_range(uint32_t at, const Work& work, int thread, uint64_t* word, Range* range) const;
    int64_t take_chunks(uint32_t at, const Work& work, int self);
    void report(uint32_t at, const Work& work, int64_t n);
    bool take_own(uint32_t at, const Work& work, int self, int64_t* chunk);
    bool steal(uint32_t at, const Work& work, int64_t* chunk);
    void loop(int self);
};

/// Publishes step `step` of the run, or the first after it that has items, or the run's end.
void ThreadPool::Impl::begin_step(uint32_t next_epoch, int64_t step) {
    Work work;
    for (; step < run.n_steps; ++step) {
        const PoolStep next = run.step_of(run.context, step);
        FORESAY_DCHECK(next.chunk > 0 && next.n_items >= 0);
        if (next.n_items > 0) {
            const int64_t per_thread = (next.n_items + n_threads - 1) / n_threads;
            const int64_t chunk = std::max(next.chunk, (per_thread + kMaxChunks - 1) / kMaxChunks);
            work = {step, next.n_items, chunk, (next.n_items + chunk - 1) / chunk};
            break;
        }
    }
    n_done.value.store(0, std::memory_order_relaxed);
    notices[next_epoch % 2].write(work);
    epoch.value.store(next_epoch, std::memory_order_release);
    epoch.value.notify_all();
}

/// False if the epoch has moved on.
bool ThreadPool::Impl::read_work(uint32_t at, Work* work) const {
    *work = notices[at % 2].read();
    return epoch.value.load(std::memory_order_acquire) == at;
}

/// What is left of a thread's range in this epoch; false if the epoch is over. A range whose tag is older hasn't been
/// touched yet: it still is what the split says.
bool ThreadPool::Impl::load_range(uint32_t at, const Work& work, int thread, uint64_t* word, Range* range) const {
    *word = slots[static_cast<size_t>(thread)].range.load(std::memory_order_acquire);
    *range = unpack(*word);
    const uint32_t tag = range->epoch;
    if (tag == at) {
        return true;
    }
    *range = {at, 0, static_cast<uint32_t>(first_chunk(work, thread + 1) - first_chunk(work, thread))};
    return static_cast<int32_t>(tag - at) < 0;
}

bool ThreadPool::Impl::take_own(uint32_t at, const Work& work, int self, int64_t* chunk) {
    uint64_t word = 0;
    Range own{};
    while (load_range(at, work, self, &word, &own) && own.begin < own.end) {
        // An epoch can't end while a chunk of it isn't taken: if the word is still the same, this is the step under
        // way.
        if (slots[static_cast<size_t>(self)].range.compare_exchange_weak(word, pack({at, own.begin + 1, own.end}),
                                                                         std::memory_order_acq_rel)) {
            *chunk = first_chunk(work, self) + own.begin;
            return true;
        }
    }
    return false;
}

bool ThreadPool::Impl::steal(uint32_t at, const Work& work, int64_t* chunk) {
    for (;;) {
        int victim = -1;
        uint64_t victim_word = 0;
        Range most{};
        for (int thread = 0; thread < n_threads; ++thread) {
            uint64_t word = 0;
            Range range{};
            if (!load_range(at, work, thread, &word, &range)) {
                return false;
            }
            if (range.end > range.begin && (victim < 0 || range.end - range.begin > most.end - most.begin)) {
                victim = thread;
                victim_word = word;
                most = range;
            }
        }
        if (victim < 0) {
            return false;
        }
        if (slots[static_cast<size_t>(victim)].range.compare_exchange_weak(
                victim_word, pack({at, most.begin, most.end - 1}), std::memory_order_acq_rel)) {
            *chunk = first_chunk(work, victim) + most.end - 1;
            return true;
        }
    }
}

/// Works until no chunk of the epoch's step is left to take. Returns how many it did and hasn't reported yet.
int64_t ThreadPool::Impl::take_chunks(uint32_t at, const Work& work, int self) {
    Courtesy& courtesy = slots[static_cast<size_t>(self)].courtesy;
    int64_t n = 0;
    int64_t i = 0;
    while (take_own(at, work, self, &i) || steal(at, work, &i)) {
        run.fn(run.context, {work.step, i * work.chunk, std::min((i + 1) * work.chunk, work.n_items), self});
        ++n;
        if (courtesy.is_due()) {
            // Nobody must wait for what this thread has done while it's off its CPU.
            report(at, work, n);
            n = 0;
            courtesy.give_way();
        }
    }
    return n;
}

/// n chunks are done; whoever finishes a step's last one begins the next.
void ThreadPool::Impl::report(uint32_t at, const Work& work, int64_t n) {
    if (n > 0 && n_done.value.fetch_add(n, std::memory_order_acq_rel) + n == work.n_chunks) {
        begin_step(at + 1, work.step + 1);
    }
}

/// Thread 0 returns at the end of the run, the others when the pool stops.
void ThreadPool::Impl::loop(int self) {
    for (;;) {
        const uint32_t at = epoch.value.load(std::memory_order_acquire);
        Work work;
        if (!read_work(at, &work)) {
            continue;
        }
        if (work.n_chunks > 0) {
            report(at, work, take_chunks(at, work, self));
            wait_while_equal(epoch.value, at, spin_in_run);
        } else if (self == 0 || stop.load(std::memory_order_acquire)) {
            return;
        } else {
            wait_while_equal(epoch.value, at, spin_between_runs);
        }
    }
}

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
    std::unique_ptr<ThreadPool> pool(new ThreadPool(n_threads, std::make_unique<Impl>(n_threads)));
    Impl& impl = *pool->impl_;
    const bool oversubscribed = n_threads > n_cpus();
    impl.spin_in_run = oversubscribed ? kSpinOversubscribed : kSpinInRun;
    impl.spin_between_runs = oversubscribed ? kSpinOversubscribed : kSpinBetweenRuns;
    try {
        for (int i = 1; i < n_threads; ++i) {
            impl.threads.emplace_back([&impl, i] { impl.loop(i); });
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
    impl_->epoch.value.fetch_add(2, std::memory_order_acq_rel);  // 2: the same notice, "nothing to do", goes on
    impl_->epoch.value.notify_all();
    for (std::thread& thread : impl_->threads) {
        thread.join();
    }
}

void ThreadPool::run_erased(const Run& run) {
    if (n_threads_ == 1) {
        for (int64_t step = 0; step < run.n_steps; ++step) {
            const int64_t n_items = run.step_of(run.context, step).n_items;
            if (n_items > 0) {
                // One call: without other threads chunks have no use.
                run.fn(run.context, {step, 0, n_items, 0});
            }
        }
        return;
    }
    Impl& impl = *impl_;
    impl.run = run;
    impl.begin_step(impl.epoch.value.load(std::memory_order_relaxed) + 1, 0);
    impl.loop(0);
}

}  // namespace foresay
