// The table: growth, pins, reset, probing.
#include "sched/tensor_table.h"

#include <gtest/gtest.h>

#include <chrono>

namespace foresay::sched {
namespace {

const void* key(size_t i) {
    return reinterpret_cast<const void*>(0x10000 + i * 384);
}  // an arena's stride

TEST(TensorTable, GrowthRule) {
    const TensorTable table(2053);
    EXPECT_EQ(table.grown_capacity(2053), 2053U);
    EXPECT_GE(table.grown_capacity(2054), 2568U);
    EXPECT_EQ(table.grown_capacity(2054), 2053U + 1026U);
    EXPECT_EQ(table.grown_capacity(10000), 12500U);
}

TEST(TensorTable, PinsSurviveGrowth) {
    for (const size_t n : {1U, 10U, 1000U}) {
        TensorTable table(1000);
        for (size_t i = 0; i < n; ++i) {
            table.insert(key(i), i % 2 == 0).pinned = static_cast<int16_t>(i % 5);
        }
        const TensorTable grown = table.grown(5000);
        for (size_t i = 0; i < n; ++i) {
            ASSERT_NE(grown.find(key(i)), nullptr);
            EXPECT_EQ(grown.find(key(i))->pinned, static_cast<int16_t>(i % 5));
        }
        EXPECT_EQ(grown.find(key(n)), nullptr);
        EXPECT_EQ(table.capacity(), 1000U);  // the old one is untouched
    }
}

TEST(TensorTable, ResetForgetsEverything) {
    TensorTable table(100);
    table.insert(key(1), false).pinned = 3;
    table.reset();
    EXPECT_EQ(table.find(key(1)), nullptr);
    EXPECT_EQ(table.insert(key(1), false).pinned, kNoBackend);  // the same address again is a new key
}

TEST(TensorTable, GenerationWrapClearsStaleStamps) {
    TensorTable table(100);
    table.set_generation_for_test(1);
    table.insert(key(1), false);
    table.set_generation_for_test(UINT32_MAX);
    table.insert(key(2), false);
    table.reset();
    EXPECT_EQ(table.generation(), 1U);
    EXPECT_EQ(table.find(key(1)), nullptr);
    EXPECT_EQ(table.find(key(2)), nullptr);
}

TEST(TensorTable, DropTransientKeepsTheOthers) {
    TensorTable table(100);
    for (size_t i = 0; i < 50; ++i) {
        table.insert(key(i), i % 3 == 0).pinned = static_cast<int16_t>(i);
    }
    table.drop_transient(key(0), key(40));
    for (size_t i = 0; i < 50; ++i) {
        const bool stays = i % 3 != 0 || i >= 40;
        ASSERT_EQ(table.find(key(i)) != nullptr, stays) << i;
        if (stays) {
            EXPECT_EQ(table.find(key(i))->pinned, static_cast<int16_t>(i));
        }
    }
    EXPECT_EQ(table.n_keys(), 36U);
}

TEST(TensorTable, ProbesStayShortAtFullLoad) {
    TensorTable table(100000);
    for (size_t i = 0; i < 100000; ++i) {
        table.insert(key(i), false);
    }
    EXPECT_LT(static_cast<double>(table.n_probes()) / 100000.0, 2.5);
    EXPECT_LT(table.max_probe(), 64U);
}

TEST(TensorTable, ResetDoesntDependOnCapacity) {
    const auto time_resets = [](size_t capacity) {
        TensorTable table(capacity);
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < 10000; ++i) {
            table.reset();
        }
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    // A real clear of 10^6 rows takes longer than 10^4 resets of any size.
    EXPECT_LT(time_resets(1000000), time_resets(1000) * 20 + 0.01);
}

}  // namespace
}  // namespace foresay::sched
