// What one and two threads can read from memory: the ceiling for products with one column.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "backend/cpu/memory.h"
#include "base/thread_pool.h"

namespace foresay {
namespace {

void BM_ReadBandwidth(benchmark::State& state) {
    constexpr int64_t kBytes = int64_t{512} << 20;
    constexpr int64_t kPiece = int64_t{64} << 10;
    const auto memory = cpu::Memory::allocate(kBytes);
    std::memset(memory.data(), 1, kBytes);
    auto pool = *ThreadPool::create(static_cast<int>(state.range(0)));
    std::atomic<uint64_t> total{0};
    for (auto _ : state) {
        pool->for_chunks(kBytes / kPiece, 16, [&](int64_t begin, int64_t end) {
            uint64_t sum[8] = {};
            const auto* p = reinterpret_cast<const uint64_t*>(memory.data() + begin * kPiece);
            const auto* last = reinterpret_cast<const uint64_t*>(memory.data() + end * kPiece);
            for (; p < last; p += 8) {
                for (int i = 0; i < 8; ++i) {
                    sum[i] += p[i];
                }
                __builtin_prefetch(p + 512);
            }
            for (const uint64_t part : sum) {
                total.fetch_add(part, std::memory_order_relaxed);
            }
        });
    }
    benchmark::DoNotOptimize(total.load());
    state.counters["GB/s"] =
        benchmark::Counter(static_cast<double>(state.iterations() * kBytes) * 1e-9, benchmark::Counter::kIsRate);
}

BENCHMARK(BM_ReadBandwidth)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foresay
