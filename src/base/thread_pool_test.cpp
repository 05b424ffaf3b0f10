#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace foresay {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, ChunksCoverEveryItemOnce) {
    auto pool = ThreadPool::create(GetParam());
    ASSERT_TRUE(pool.has_value());
    for (const int64_t n : {0, 1, 2, 3, 7, 64, 1000, 200000}) {
        for (const int64_t chunk : {1, 3, 64}) {
            std::vector<uint8_t> hits(static_cast<size_t>(n), 0);
            (*pool)->for_chunks(n, chunk, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                    ++hits[static_cast<size_t>(i)];
                }
            });
            EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), n) << "n=" << n << " chunk=" << chunk;
        }
    }
}

TEST_P(ThreadPoolTest, EarlierStepsAreVisible) {
    auto pool = ThreadPool::create(GetParam());
    ASSERT_TRUE(pool.has_value());
    constexpr int64_t kN = 257;
    std::vector<int64_t> a(kN, 1);
    std::vector<int64_t> b(kN, 0);
    constexpr int64_t kSteps = 200;
    (*pool)->run_steps(
        kSteps,
        [](int64_t) {
            return PoolStep{kN, 8};
        },
        [&](const PoolChunk& chunk) {
            auto& from = chunk.step % 2 == 0 ? a : b;
            auto& to = chunk.step % 2 == 0 ? b : a;
            for (int64_t i = chunk.begin; i < chunk.end; ++i) {
                to[static_cast<size_t>(i)] = from[static_cast<size_t>(kN - 1 - i)] + 1;
            }
        });
    for (const int64_t value : a) {
        EXPECT_EQ(value, 1 + kSteps);
    }
}

TEST_P(ThreadPoolTest, StepsOfUnlikeSizesRunInOrder) {
    auto pool = ThreadPool::create(GetParam());
    ASSERT_TRUE(pool.has_value());
    // Empty steps, steps with fewer items than threads and wide ones, over many runs: late threads meet every mixture.
    const std::vector<int64_t> sizes{0, 1, 300, 2, 0, 0, 7, 1, 64, 3, 0};
    int64_t expected = 0;
    for (const int64_t size : sizes) {
        expected += size;
    }
    for (int repeat = 0; repeat < 500; ++repeat) {
        std::atomic<int64_t> n_items{0};
        std::atomic<int64_t> newest{0};
        std::atomic<int> n_wrong{0};
        (*pool)->run_steps(
            static_cast<int64_t>(sizes.size()),
            [&](int64_t step) {
                return PoolStep{sizes[static_cast<size_t>(step)], 1 + repeat % 3};
            },
            [&](const PoolChunk& chunk) {
                const bool in_range = chunk.begin >= 0 && chunk.begin < chunk.end &&
                                      chunk.end <= sizes[static_cast<size_t>(chunk.step)] && chunk.thread >= 0 &&
                                      chunk.thread < GetParam();
                const int64_t seen = newest.exchange(chunk.step);
                n_wrong.fetch_add(in_range && seen <= chunk.step ? 0 : 1);
                n_items.fetch_add(chunk.end - chunk.begin);
            });
        ASSERT_EQ(n_items.load(), expected);
        ASSERT_EQ(n_wrong.load(), 0);
    }
    (*pool)->run_steps(
        0, [](int64_t) { return PoolStep{}; }, [](const PoolChunk&) { FAIL() << "no step, no chunk"; });
}

TEST_P(ThreadPoolTest, AStalledThreadHoldsUpItsChunkOnly) {
    if (GetParam() == 1) {
        GTEST_SKIP() << "needs two threads";
    }
    auto pool = ThreadPool::create(GetParam());
    ASSERT_TRUE(pool.has_value());
    std::atomic<int64_t> by_others{0};
    constexpr int64_t kN = 64;
    (*pool)->run_steps(
        1,
        [](int64_t) {
            return PoolStep{kN, 1};
        },
        [&](const PoolChunk& chunk) {
            if (chunk.begin == 0) {
                // Whoever takes the first item waits for all the rest: it ends only if others take them.
                while (by_others.load() < kN - 1) {
                }
            } else {
                by_others.fetch_add(1);
            }
        });
    EXPECT_EQ(by_others.load(), kN - 1);
}

TEST_P(ThreadPoolTest, StepsGoOnWithoutAThreadThatHoldsNothing) {
    if (GetParam() == 1) {
        GTEST_SKIP() << "needs two threads";
    }
    auto pool = ThreadPool::create(GetParam());
    ASSERT_TRUE(pool.has_value());
    // In each run one thread stays in its first chunk of step 0; later runs begin while it may not be back at work yet.
    for (int repeat = 0; repeat < 200; ++repeat) {
        std::atomic<int64_t> n{0};
        (*pool)->run_steps(
            20,
            [](int64_t) {
                return PoolStep{1, 1};
            },
            [&](const PoolChunk&) { n.fetch_add(1); });
        ASSERT_EQ(n.load(), 20);
    }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, RefusesSillyNumbers) {
    EXPECT_EQ(ThreadPool::create(0).error().code, Code::kInvalidArgument);
    EXPECT_EQ(ThreadPool::create(-3).error().code, Code::kInvalidArgument);
    EXPECT_EQ(ThreadPool::create(1 << 20).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace foresay
