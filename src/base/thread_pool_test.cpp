#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace foresay {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, EveryThreadRunsOnce) {
    auto pool = ThreadPool::create(GetParam());
    ASSERT_TRUE(pool.has_value());
    for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<std::atomic<int>> calls(static_cast<size_t>(GetParam()));
        (*pool)->run([&](Worker& worker) { calls[static_cast<size_t>(worker.id())].fetch_add(1); });
        for (const auto& count : calls) {
            EXPECT_EQ(count.load(), 1);
        }
    }
}

TEST_P(ThreadPoolTest, ChunksCoverEveryItemOnce) {
    auto pool = ThreadPool::create(GetParam());
    ASSERT_TRUE(pool.has_value());
    for (const int64_t n : {0, 1, 2, 3, 7, 64, 1000, 200000}) {
        for (const int64_t chunk : {1, 3, 64}) {
            std::vector<uint8_t> hits(static_cast<size_t>(n), 0);
            (*pool)->run([&](Worker& worker) {
                worker.for_chunks(n, chunk, [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                        ++hits[static_cast<size_t>(i)];
                    }
                });
            });
            EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), n) << "n=" << n << " chunk=" << chunk;
        }
    }
}

TEST_P(ThreadPoolTest, BarrierMakesEarlierStepsVisible) {
    auto pool = ThreadPool::create(GetParam());
    ASSERT_TRUE(pool.has_value());
    constexpr int64_t kN = 257;
    std::vector<int64_t> a(kN, 1);
    std::vector<int64_t> b(kN, 0);
    constexpr int kSteps = 200;
    (*pool)->run([&](Worker& worker) {
        for (int step = 0; step < kSteps; ++step) {
            auto& from = step % 2 == 0 ? a : b;
            auto& to = step % 2 == 0 ? b : a;
            worker.for_chunks(kN, 8, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                    to[static_cast<size_t>(i)] = from[static_cast<size_t>(kN - 1 - i)] + 1;
                }
            });
            worker.barrier();
        }
    });
    for (const int64_t value : a) {
        EXPECT_EQ(value, 1 + kSteps);
    }
}

TEST_P(ThreadPoolTest, OthersTakeTheWorkOfAThreadThatStalls) {
    if (GetParam() == 1) {
        GTEST_SKIP() << "needs two threads";
    }
    auto pool = ThreadPool::create(GetParam());
    ASSERT_TRUE(pool.has_value());
    std::atomic<int64_t> by_others{0};
    constexpr int64_t kN = 64;
    (*pool)->run([&](Worker& worker) {
        if (worker.id() == 0) {
            // Thread 0 joins the loop only once all of its work has been taken: it can end only by stealing.
            while (by_others.load() < kN) {
            }
        }
        worker.for_chunks(kN, 1, [&](int64_t begin, int64_t end) { by_others.fetch_add(end - begin); });
    });
    EXPECT_EQ(by_others.load(), kN);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, RefusesSillyNumbers) {
    EXPECT_EQ(ThreadPool::create(0).error().code, Code::kInvalidArgument);
    EXPECT_EQ(ThreadPool::create(-3).error().code, Code::kInvalidArgument);
    EXPECT_EQ(ThreadPool::create(1 << 20).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace foresay
