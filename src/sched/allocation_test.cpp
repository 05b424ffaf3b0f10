// Counts and fails real allocations through a replaced operator new: the steady state makes none, and every failing one
// during a plan leaves the scheduler usable.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "sched/test_graphs.h"

// g++ 12 inlines one half of a replaced pair and then warns about the other.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace {

std::atomic<int64_t> n_allocations{0};
std::atomic<int64_t> fail_at{-1};  // counts down; the allocation that finds 0 fails

}  // namespace

void* operator new(size_t bytes) {
    ++n_allocations;
    if (fail_at >= 0 && fail_at-- == 0) {
        throw std::bad_alloc();
    }
    void* p = std::malloc(bytes == 0 ? 1 : bytes);
    if (p == nullptr) {
        throw std::bad_alloc();
    }
    return p;
}

void operator delete(void* p) noexcept {
    std::free(p);
}

void operator delete(void* p, size_t) noexcept {
    std::free(p);
}

namespace foresay::sched {
namespace {

using namespace foresay::sched::testing;  // NOLINT: tests

TEST(Allocation, ACachedPlanRunsWithoutAny) {
    TestDevice a;
    TestDevice b;
    a.refused_ops = 1U << static_cast<int>(graph::Op::kScale);
    const auto scheduler = make_scheduler({&a, &b}, {.initial_capacity = 8});
    const std::vector<uint64_t> sizes{9, 1, 300, 3};
    for (int warm_up = 0; warm_up < 2; ++warm_up) {
        for (const uint64_t size : sizes) {
            Plan* plan = must_find(*scheduler, size);
            run_plan(*scheduler, plan == nullptr ? *must_plan(*scheduler, size, chain_graph(size, 2)) : *plan);
        }
    }
    const SchedulerStats warm = scheduler->stats();
    const int64_t before = n_allocations;
    bool all_found = true;
    for (int round = 0; round < 1000; ++round) {
        for (const uint64_t size : sizes) {
            auto plan = scheduler->find({0, size});
            all_found = all_found && plan.has_value() && *plan != nullptr;
            fill_inputs(**plan);
            all_found = all_found && scheduler->execute(**plan).has_value();
        }
        scheduler->reset_pins();
    }
    EXPECT_EQ(n_allocations - before, 0);
    EXPECT_TRUE(all_found);
    EXPECT_EQ(scheduler->stats().plans_built, sizes.size());
    EXPECT_EQ(scheduler->stats().growths, warm.growths);
    EXPECT_EQ(scheduler->stats().buffer_growths, warm.buffer_growths);
}

TEST(Allocation, EveryFailingOneDuringAPlanIsAnErrorAndNothingMore) {
    TestDevice a;
    TestDevice b;
    a.refused_ops = 1U << static_cast<int>(graph::Op::kScale);
    const Graph large = chain_graph(40, 9);
    const Outputs expected = naive_outputs(large);
    const auto scheduler = make_scheduler({&a, &b}, {.initial_capacity = 16});
    Plan* first = must_plan(*scheduler, 1, chain_graph(7, 1));
    const Outputs first_out = run_plan(*scheduler, *first);
    bool planned = false;
    int64_t k = 0;
    for (; !planned; ++k) {
        Graph copy = large;
        fail_at = k;
        auto plan = scheduler->plan({0, 2}, std::move(copy));
        fail_at = -1;
        planned = plan.has_value();
        if (!planned) {
            ASSERT_EQ(plan.error().code, Code::kOutOfMemory) << plan.error().to_string();
            ASSERT_EQ(scheduler->stats().hash_capacity, 16U);
            ASSERT_EQ(run_plan(*scheduler, *first), first_out) << k;
        }
    }
    EXPECT_GT(k, 40);
    EXPECT_EQ(run_plan(*scheduler, *must_find(*scheduler, 2)), expected);
    EXPECT_EQ(run_plan(*scheduler, *must_find(*scheduler, 1)), first_out);
}

}  // namespace
}  // namespace foresay::sched
