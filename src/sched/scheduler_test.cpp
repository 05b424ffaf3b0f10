// The scheduler's promises, from shared/spec/scheduler-and-kernels.md, 1.6: boundaries, growth, failure, pins, copies,
// scale.
#include "sched/scheduler.h"

#include <fstream>

#include "base/log.h"
#include "sched/test_graphs.h"

namespace foresay::sched {
namespace {

using namespace foresay::sched::testing;  // NOLINT: tests
using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(FORESAY_DEBUG)
constexpr size_t kHuge = 50000;
#else
constexpr size_t kHuge = 1000000;
#endif

struct SchedulerTest : ::testing::Test {
    TestDevice a;
    TestDevice b;

    Outputs fresh(const Graph& graph) {
        const auto scheduler = make_scheduler({&a});
        Graph copy = graph;
        return run_plan(*scheduler, *must_plan(*scheduler, 1, std::move(copy)));
    }
};

TEST_F(SchedulerTest, TheDraftCrashInNumbers) {
    const auto scheduler = make_scheduler({&a});
    ASSERT_TRUE(scheduler->reserve(chain_graph(1706, 294)).has_value());
    EXPECT_EQ(scheduler->stats().hash_capacity, 2053U);
    EXPECT_EQ(scheduler->stats().required, 2000U);
    EXPECT_EQ(scheduler->stats().growths, 0U);
    const Graph larger = chain_graph(1760, 294);
    Graph copy = larger;
    Plan* plan = must_plan(*scheduler, 9, std::move(copy));
    EXPECT_EQ(scheduler->stats().required, 2054U);
    EXPECT_EQ(scheduler->stats().n_nodes, 1760U);
    EXPECT_EQ(scheduler->stats().n_leafs, 294U);
    EXPECT_GE(scheduler->stats().hash_capacity * 4, 2054U * 5);
    EXPECT_EQ(scheduler->stats().growths, 1U);
    EXPECT_EQ(run_plan(*scheduler, *plan), fresh(larger));
    EXPECT_EQ(read_outputs(*plan), naive_outputs(larger));
    const Graph smaller = chain_graph(1706, 294);
    copy = smaller;
    EXPECT_EQ(run_plan(*scheduler, *must_plan(*scheduler, 8, std::move(copy))), fresh(smaller));
    for (size_t n_max = 8; n_max <= 64; ++n_max) {
        copy = chain_graph(2000 - 294 + 54 * (n_max - 8), 294);
        run_plan(*scheduler, *must_plan(*scheduler, n_max, std::move(copy)));
    }
    EXPECT_LE(scheduler->stats().growths, 3U);
}

TEST_F(SchedulerTest, BoundariesOfTheCapacityThroughEachEntryPoint) {
    for (const size_t capacity : {2U, 3U, 64U, 2048U, 2053U}) {
        for (const size_t n : {capacity * 3 / 4, capacity * 3 / 4 + 1, capacity - 1, capacity, capacity + 1}) {
            const size_t n_nodes = n < 2 ? 1 : n - 1;
            const auto reserved = make_scheduler({&a}, {.initial_capacity = capacity});
            EXPECT_TRUE(reserved->reserve(chain_graph(n_nodes, 1)).has_value());
            const auto planned = make_scheduler({&a}, {.initial_capacity = capacity});
            run_plan(*planned, *must_plan(*planned, 1, chain_graph(n_nodes, 1)));
            EXPECT_EQ(planned->stats().growths, n_nodes + 1 > capacity ? 1U : 0U) << capacity << " " << n;
            EXPECT_EQ(reserved->stats().growths, planned->stats().growths);
        }
    }
}

TEST_F(SchedulerTest, AlternatingSizesBuildEachPlanOnce) {
    const auto scheduler = make_scheduler({&a}, {.initial_capacity = 16});
    const std::vector<size_t> sizes{1, 9, 1, 3, 9, 40, 3, 200, 1};
    std::vector<std::byte*> address(300);
    for (int round = 0; round < 100; ++round) {
        for (const size_t size : sizes) {
            Plan* plan = must_find(*scheduler, size);
            if (plan == nullptr) {
                plan = must_plan(*scheduler, size, chain_graph(size, 2));
            }
            const Outputs out = run_plan(*scheduler, *plan);
            if (round == 0) {
                EXPECT_EQ(out, naive_outputs(chain_graph(size, 2)));
            } else if (round == 1) {
                address[size] = plan->input(TensorId{0}).data();
            } else {
                EXPECT_EQ(address[size], plan->input(TensorId{0}).data());
            }
        }
    }
    EXPECT_EQ(scheduler->stats().plans_built, 5U);
    EXPECT_EQ(scheduler->stats().plan_misses, 5U);
    EXPECT_EQ(scheduler->stats().plan_hits, 100 * sizes.size() - 5);
}

TEST_F(SchedulerTest, BufferGrowthRecompilesOlderPlans) {
    const auto wide = [](int64_t rows) {
        Builder builder;
        const TensorId x = builder.input("x", DType::kF32, {64, rows, 1, 1});
        builder.output(builder.scale(builder.rms_norm(x, graph::kNoTensor, 1e-6F), 3.0F));
        return std::move(*std::move(builder).finish());
    };
    const auto scheduler = make_scheduler({&a});
    Plan* small = must_plan(*scheduler, 1, wide(2));
    const Outputs before = run_plan(*scheduler, *small);
    must_plan(*scheduler, 2, wide(200));
    EXPECT_EQ(scheduler->stats().buffer_growths, 2U);
    const Status stale = scheduler->execute(*small);
    ASSERT_FALSE(stale.has_value());
    EXPECT_THAT(stale.error().to_string(), HasSubstr("find() it again"));
    small = must_find(*scheduler, 1);
    EXPECT_EQ(scheduler->stats().plan_replacements, 1U);
    EXPECT_EQ(run_plan(*scheduler, *small), before);
    EXPECT_EQ(run_plan(*scheduler, *must_find(*scheduler, 2)), naive_outputs(wide(200)));
}

TEST_F(SchedulerTest, LeastRecentlyUsedPlanGoes) {
    const auto scheduler = make_scheduler({&a}, {.max_plans = 3});
    for (uint64_t key = 1; key <= 3; ++key) {
        must_plan(*scheduler, key, chain_graph(key, 1));
    }
    must_find(*scheduler, 1);
    must_plan(*scheduler, 4, chain_graph(4, 1));
    EXPECT_EQ(scheduler->stats().plan_evictions, 1U);
    EXPECT_EQ(must_find(*scheduler, 2), nullptr);
    EXPECT_NE(must_find(*scheduler, 1), nullptr);
    EXPECT_NE(must_find(*scheduler, 3), nullptr);
}

TEST_F(SchedulerTest, EqualKeysMustMeanEqualStructure) {
    const auto scheduler = make_scheduler({&a});
    must_plan(*scheduler, 1, chain_graph(5, 1));
    EXPECT_TRUE(scheduler->check_key({0, 1}, chain_graph(5, 1)).has_value());
    EXPECT_TRUE(scheduler->check_key({0, 2}, chain_graph(6, 1)).has_value());
    EXPECT_FALSE(scheduler->check_key({0, 1}, chain_graph(6, 1)).has_value());
    auto again = scheduler->plan({0, 1}, chain_graph(6, 1));
#ifdef FORESAY_DEBUG
    EXPECT_FALSE(again.has_value());
#else
    ASSERT_TRUE(again.has_value());  // replaced: never a wrong plan
    EXPECT_EQ((*again)->graph().nodes().size(), 6U);
#endif
}

TEST_F(SchedulerTest, GrowthIsLoggedWithItsFigures) {
    const std::string path = ::testing::TempDir() + "sched_growth.log";
    std::remove(path.c_str());
    log::configure({.level = log::Level::kDebug, .file = path});
    const auto scheduler = make_scheduler({&a}, {.initial_capacity = 10});
    scheduler->set_context("draft-simple n_max=9 batch=10");
    must_plan(*scheduler, 1, chain_graph(20, 2));
    log::configure({});  // closes the file
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_THAT(
        text, HasSubstr("hash_capacity=28 n_nodes=20 n_leafs=2 required=22 growths=1 (draft-simple n_max=9 batch=10)"));
}

// --- failure ----------------------------------------------------------------------------------------------------

TEST_F(SchedulerTest, EveryRefusedAllocationLeavesTheSchedulerAsItWas) {
    int countdown = -1;  // the k-th request fails, and all after it: a full machine stays full
    const auto allow = [&countdown](size_t) { return countdown < 0 || (countdown > 0 && countdown-- > 0); };
    const auto scheduler = make_scheduler({&a}, {.initial_capacity = 64, .allow_allocation = allow});
    Plan* first = must_plan(*scheduler, 1, chain_graph(50, 4));
    const Outputs first_out = run_plan(*scheduler, *first);
    const Graph large = chain_graph(500, 200);
    int n_failures = 0;
    for (int k = 0;; ++k) {
        const SchedulerStats before = scheduler->stats();
        countdown = k;
        Graph copy = large;
        const auto plan = scheduler->plan({0, 2}, std::move(copy));
        if (plan.has_value()) {
            break;
        }
        countdown = -1;
        ++n_failures;
        const std::string text = plan.error().to_string();
        EXPECT_EQ(plan.error().code, Code::kOutOfMemory);
        for (const char* word : {"n_nodes 500", "n_leafs 200", "required 700", "hash_capacity 64", "bytes"}) {
            EXPECT_THAT(text, HasSubstr(word));
        }
        EXPECT_EQ(scheduler->stats().hash_capacity, before.hash_capacity);
        EXPECT_EQ(scheduler->stats().buffer_bytes, before.buffer_bytes);
        EXPECT_EQ(scheduler->stats().growths, before.growths);
        EXPECT_EQ(copy.structural_hash(), large.structural_hash());  // still the caller's
        EXPECT_EQ(run_plan(*scheduler, *first), first_out);
    }
    countdown = -1;
    EXPECT_EQ(n_failures, 4);  // the table, the plan, the buffer (roomy, then exact), the programs
    EXPECT_EQ(scheduler->stats().plan_failures, static_cast<uint64_t>(n_failures));
    EXPECT_EQ(run_plan(*scheduler, *must_find(*scheduler, 2)), naive_outputs(large));
    EXPECT_EQ(run_plan(*scheduler, *must_find(*scheduler, 1)), first_out);
}

TEST_F(SchedulerTest, ADeviceWithoutMemoryIsAnErrorWithFigures) {
    const auto scheduler = make_scheduler({&a});
    a.fail_allocate = true;
    const auto plan = scheduler->plan({0, 1}, chain_graph(10, 2));
    ASSERT_FALSE(plan.has_value());
    EXPECT_THAT(plan.error().to_string(), HasSubstr("the device is full: n_nodes 10, n_leafs 2, required 12"));
    a.fail_allocate = false;
    run_plan(*scheduler, *must_plan(*scheduler, 1, chain_graph(10, 2)));
}

TEST_F(SchedulerTest, ABrokenGraphChangesNothing) {
    const auto scheduler = make_scheduler({&a});
    Graph graph = chain_graph(3, 1);
    graph::Tensor node = graph.tensor(graph.nodes().back());
    node.src[0] = TensorId{77};
    graph.add_node_unchecked(node);
    EXPECT_FALSE(scheduler->reserve(graph).has_value());
    const auto plan = scheduler->plan({0, 1}, std::move(graph));
    ASSERT_FALSE(plan.has_value());
    EXPECT_THAT(plan.error().to_string(), HasSubstr("node 4"));
    EXPECT_EQ(scheduler->stats().plans_built, 0U);
}

TEST_F(SchedulerTest, NoBackendForANodeIsAnErrorNamingIt) {
    a.refused_ops = 1U << static_cast<int>(graph::Op::kScale);
    const auto scheduler = make_scheduler({&a});
    const auto plan = scheduler->plan({0, 1}, chain_graph(3, 1));
    ASSERT_FALSE(plan.has_value());
    EXPECT_EQ(plan.error().code, Code::kUnsupported);
    EXPECT_THAT(plan.error().to_string(), HasSubstr("node 3 (scale"));
}

TEST_F(SchedulerTest, MissingStorageIsFineForReserveOnly) {
    const auto make = [] {
        Builder builder;
        const TensorId x = builder.input("x", DType::kF32, {32, 1, 1, 1});
        builder.output(builder.mul_mat(builder.weight("w", DType::kF32, {32, 4, 1, 1}, nullptr), x));
        return std::move(*std::move(builder).finish());
    };
    const auto scheduler = make_scheduler({&a});
    EXPECT_TRUE(scheduler->reserve(make()).has_value());
    EXPECT_FALSE(scheduler->plan({0, 1}, make()).has_value());
}

// --- backends ---------------------------------------------------------------------------------------------------

TEST_F(SchedulerTest, TwoDevicesAlternateWithRealCopies) {
    for (const bool host : {true, false}) {
        a.host = host;
        b.host = host;
        a.refused_ops = 1U << static_cast<int>(graph::Op::kScale);
        b.refused_ops = 1U << static_cast<int>(graph::Op::kAdd);
        const auto scheduler = make_scheduler({&a, &b});
        const Graph graph = chain_graph(300, 7);
        Graph copy = graph;
        Plan* plan = must_plan(*scheduler, 1, std::move(copy));
        EXPECT_EQ(scheduler->stats().splits, 200U);
        EXPECT_GE(scheduler->stats().copies, 199U);
        EXPECT_EQ(find_overlap(plan->memory().blocks), "");
        EXPECT_EQ(run_plan(*scheduler, *plan), naive_outputs(graph)) << host;
        EXPECT_GE(a.n_writes + b.n_writes, 199);
    }
}

TEST_F(SchedulerTest, PinsSurviveGrowthReserveAndFailure) {
    const auto scheduler = make_scheduler({&a, &b}, {.initial_capacity = 4});
    Graph graph = chain_graph(300, 3);
    for (size_t i = 0; i < 300; i += 3) {
        ASSERT_TRUE(scheduler->pin(graph, graph.nodes()[i], 1).has_value());
    }
    ASSERT_TRUE(scheduler->reserve(graph).has_value());
    a.fail_allocate = true;
    b.fail_allocate = true;
    Builder big;
    big.output(big.scale(big.input("x", DType::kF32, {100000, 1, 1, 1}), 1.0F));
    EXPECT_FALSE(scheduler->plan({0, 9}, std::move(*std::move(big).finish())).has_value());
    a.fail_allocate = false;
    b.fail_allocate = false;
    const Outputs expected = naive_outputs(graph);
    Plan* plan = must_plan(*scheduler, 1, std::move(graph));
    for (size_t i = 0; i < 300; i += 3) {
        EXPECT_EQ(plan->backend_of(plan->graph().nodes()[i]), 1);
    }
    EXPECT_EQ(run_plan(*scheduler, *plan), expected);
    EXPECT_EQ(scheduler->table().n_keys(), 0U);  // used up
    EXPECT_FALSE(scheduler->pin(plan->graph(), TensorId{9999}, 0).has_value());
    EXPECT_FALSE(scheduler->pin(plan->graph(), TensorId{0}, 2).has_value());
}

TEST_F(SchedulerTest, StoragePinMovesItsReadersAndStays) {
    const std::vector<float> numbers(32 * 4, 0.5F);
    const auto storage =
        std::move(*a.load_weight({.name = "w", .ne = {32, 4, 1, 1}, .bytes = std::as_bytes(std::span(numbers))}));
    const auto make = [&] {
        Builder builder;
        const TensorId x = builder.input("x", DType::kF32, {32, 2, 1, 1});
        builder.output(builder.mul_mat(builder.weight("w", DType::kF32, {32, 4, 1, 1}, storage.get()), x));
        return std::move(*std::move(builder).finish());
    };
    const auto scheduler = make_scheduler({&a, &b});
    EXPECT_EQ(must_plan(*scheduler, 1, make())->backend_of(TensorId{2}), 0);
    ASSERT_TRUE(scheduler->pin(storage.get(), 1).has_value());
    for (uint64_t key = 2; key < 4; ++key) {
        Plan* plan = must_plan(*scheduler, key, make());
        EXPECT_EQ(plan->backend_of(TensorId{2}), 1);
        EXPECT_EQ(run_plan(*scheduler, *plan), naive_outputs(plan->graph()));
    }
    scheduler->reset_pins();
    EXPECT_EQ(must_plan(*scheduler, 4, make())->backend_of(TensorId{2}), 0);
}

TEST_F(SchedulerTest, RandomGraphsAgreeWithTheNaivePlan) {
    std::vector<backend::Backend*> backends{&a, &b};
    const auto one = make_scheduler({&a});
    const auto two = make_scheduler({&a, &b}, {.initial_capacity = 4, .max_plans = 2});
    const auto without = make_scheduler({&b, &a}, {.in_place = false});
    for (uint32_t seed = 0; seed < 60; ++seed) {
        RandomGraph on_a(seed, 5 + static_cast<int>(seed) * 3, std::span(backends).first(1));
        RandomGraph on_both(seed, 5 + static_cast<int>(seed) * 3, backends);
        const auto hash = on_both.graph.structural_hash();
        const Outputs expected = naive_outputs(on_a.graph);
        for (Scheduler* scheduler : {one.get(), two.get(), without.get()}) {
            RandomGraph& random = scheduler == one.get() ? on_a : on_both;
            random.reset_caches();
            Graph copy = random.graph;
            Plan* plan = must_plan(*scheduler, seed, std::move(copy));
            EXPECT_EQ(find_overlap(plan->memory().blocks), "");
            ASSERT_EQ(run_plan(*scheduler, *plan), expected) << "seed " << seed;
        }
        EXPECT_EQ(on_both.graph.structural_hash(), hash);  // planning doesn't change the graph
    }
    EXPECT_GT(one->stats().in_place + two->stats().in_place, 0U);
    EXPECT_GT(two->stats().copies, 0U);
}

// --- scale ------------------------------------------------------------------------------------------------------

TEST_F(SchedulerTest, AMillionNodesInAChain) {
    const auto scheduler = make_scheduler({&a});
    Graph graph = chain_graph(kHuge, 100);
    Plan* plan = must_plan(*scheduler, 1, std::move(graph));
    RecordProperty("plan_ms", static_cast<int>(scheduler->stats().plan_us / 1000));
    EXPECT_LT(scheduler->stats().buffer_bytes, 16384U);  // 100 inputs and a few rows, however long the chain
    EXPECT_LT(TensorTable::bytes(scheduler->stats().hash_capacity) / kHuge, 80U);
    run_plan(*scheduler, *plan);
    std::vector<float> inputs;  // the chain by hand, element 0
    for (size_t i = 0; i < 100; ++i) {
        float value = 0.0F;
        std::memcpy(&value, plan->input(TensorId{static_cast<int32_t>(i)}).data(), 4);
        inputs.push_back(value);
    }
    float y = inputs[0];
    for (size_t i = 0; i < kHuge; ++i) {
        y = i % 3 == 2 ? y * 0.5F : y + inputs[i % 100];
    }
    float last = 0.0F;
    std::memcpy(&last, plan->output(plan->graph().nodes().back()).data(), 4);
    EXPECT_EQ(last, y);
}

TEST_F(SchedulerTest, AMillionNodesWideAndAcrossTwoDevices) {
    // All of a wide layer is alive at once; then one chain eats it, alternating between the devices.
    const size_t half = kHuge / 2;
    Builder builder;
    const TensorId x = builder.input("x", DType::kF32, {8, 1, 1, 1});
    std::vector<TensorId> wide;
    for (size_t i = 0; i < half; ++i) {
        wide.push_back(builder.add(x, x));
    }
    TensorId sum = x;
    for (size_t i = 0; i < half; ++i) {
        sum = i % 10 == 9 ? builder.scale(sum, 0.5F) : builder.add(sum, wide[i]);
    }
    builder.output(sum);
    a.refused_ops = 1U << static_cast<int>(graph::Op::kScale);
    b.refused_ops = 1U << static_cast<int>(graph::Op::kAdd);
    const auto scheduler = make_scheduler({&a, &b});
    Plan* plan = must_plan(*scheduler, 1, std::move(*std::move(builder).finish()));
    RecordProperty("plan_ms", static_cast<int>(scheduler->stats().plan_us / 1000));
    EXPECT_GT(scheduler->stats().splits, half / 10);
    run_plan(*scheduler, *plan);
    std::vector<float> value(1);
    std::memcpy(value.data(), plan->input(x).data(), 4);
    float y = value[0];
    for (size_t i = 0; i < half; ++i) {
        y = i % 10 == 9 ? y * 0.5F : y + (value[0] + value[0]);
    }
    float out = 0.0F;
    std::memcpy(&out, plan->output(sum).data(), 4);
    EXPECT_EQ(out, y);
}

TEST(FindOverlap, SeesWhatIsWrong) {
    const Block first{.first = 0, .last = 5, .offset = 0, .bytes = 128};
    Block second{.first = 5, .last = 6, .offset = 64, .bytes = 64};
    EXPECT_NE(find_overlap(std::vector<Block>{first, second}), "");
    second.first = 6;
    EXPECT_EQ(find_overlap(std::vector<Block>{first, second}), "");
    second.first = 5;
    second.backend = 1;
    EXPECT_EQ(find_overlap(std::vector<Block>{first, second}), "");
    Block handed = first;
    handed.handed_over = true;
    const Block taker{.first = 5, .last = 9, .offset = 0, .bytes = 128};
    EXPECT_EQ(find_overlap(std::vector<Block>{handed, taker}), "");
    EXPECT_NE(find_overlap(std::vector<Block>{first, taker}), "");
}

}  // namespace
}  // namespace foresay::sched
