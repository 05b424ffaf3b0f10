// What is held of states after evaluation and rollback, in how many cells.
#include "memory/state_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "backend/reference/reference_backend.h"

namespace foresay::memory {
namespace {

/// A pass over one slot: where each row reads and writes.
std::vector<StateStep> pass(StateCache& cache, const StateRun& run) {
    std::vector<StateStep> steps;
    EXPECT_TRUE(cache.prepare(std::span(&run, 1)).has_value());
    cache.advance(run, steps);
    EXPECT_EQ(steps.size(), static_cast<size_t>(run.n_rows));
    return steps;
}

std::unique_ptr<StateCache> make(backend::Backend& backend, const std::vector<StateLayer>& layers,
                                 const StateOptions& options) {
    auto made = StateCache::create(backend, layers, options);
    EXPECT_TRUE(made.has_value());
    return made.has_value() ? std::move(*made) : nullptr;
}

TEST(StateCache, HoldsWhatAPassCanBeTakenBackBy) {
    const auto backend = reference::ReferenceBackend::create();
    const auto made = make(*backend, {{.conv_width = 8}, {.conv_width = 8, .head_dim = 4, .n_heads = 2}},
                           {.n_slots = 2, .n_taps = 4, .n_rollback = 3});
    StateCache& cache = *made;
    EXPECT_EQ(cache.conv_ring(), 6);
    EXPECT_EQ(cache.delta(0), nullptr);
    EXPECT_EQ(cache.n_cells(), 4);
    EXPECT_EQ(cache.bytes(), (2 * 8 * 2 * 6 + 4 * 8 * 4) * sizeof(float));

    EXPECT_EQ(cache.usable(0, 10), 0);
    const auto prompt = pass(cache, {0, 0, 20, 1});
    EXPECT_EQ(cache.usable(0, 30), 20);
    EXPECT_EQ(cache.usable(0, 19), 19);
    EXPECT_EQ(cache.usable(0, 18), 0);
    EXPECT_EQ(cache.usable(1, 20), 0);
    // A long prompt takes two cells: all rows but the last go through the first of them, in place.
    EXPECT_EQ(prompt[0].from, StateCache::kNoCell);
    for (size_t i = 1; i < prompt.size(); ++i) {
        EXPECT_EQ(prompt[i].from, prompt[i - 1].to);
        EXPECT_EQ(prompt[i].to == prompt[0].to, i + 1 < prompt.size());
    }
    EXPECT_EQ(cache.n_cells(), 4);

    // A verify batch: a cell for each row, and the states before it stay.
    const auto verify = pass(cache, {0, 20, 4, 4});
    EXPECT_EQ(verify[0].from, prompt.back().to);
    for (int32_t n = 21; n <= 24; ++n) {
        EXPECT_EQ(cache.usable(0, n), n);
    }
    EXPECT_EQ(cache.usable(0, 20), 0) << "the first row is never taken back with three drafts";
    cache.settle(0, 22);
    EXPECT_EQ(cache.usable(0, 30), 22);
    EXPECT_EQ(cache.usable(0, 21), 21);
    const auto next = pass(cache, {0, 22, 1, 1});
    EXPECT_EQ(next[0].from, verify[1].to);
    EXPECT_EQ(cache.usable(0, 30), 23);

    const auto fresh = pass(cache, {0, 0, 2, 2});  // a new text
    EXPECT_EQ(fresh[0].from, StateCache::kNoCell);
    EXPECT_EQ(cache.usable(0, 19), 2);
    EXPECT_EQ(cache.usable(0, 1), 1);
    cache.forget(0);
    EXPECT_EQ(cache.usable(0, 1), 0);
}

// Whatever passes come and go: a row reads the state that was left for its position, no cell holds two states that can
// still be wanted, and the pool never has more than every slot's longest draft needs.
TEST(StateCache, EveryRowFindsTheStateOfThePositionBefore) {
    const auto backend = reference::ReferenceBackend::create();
    constexpr int32_t kSlots = 4;
    for (const int32_t n_rollback : {0, 1, 3, 16}) {
        for (const int32_t window : {1, 4}) {
            const auto cache = make(*backend, {{.head_dim = 1, .n_heads = 1}},
                                    {.n_slots = kSlots, .n_rollback = n_rollback, .n_window = window});
            std::mt19937 random(17);
            std::vector<std::vector<uint32_t>> texts(kSlots);  // what has been evaluated, position by position
            std::map<int32_t, uint32_t> cells;                 // a cell's text, as a hash of all its tokens
            const auto hash = [](const std::vector<uint32_t>& text, size_t n) {
                uint32_t h = 0;
                for (size_t i = 0; i < n; ++i) {
                    h = h * 31 + text[i] + 1;
                }
                return h;
            };
            for (int32_t round = 0; round < 2000; ++round) {
                std::vector<StateRun> runs;
                for (int slot = 0; slot < kSlots; ++slot) {
                    auto& text = texts[static_cast<size_t>(slot)];
                    const auto dice = random() % 8;
                    if (dice == 0) {
                        continue;  // not in this pass
                    }
                    auto begin = static_cast<int32_t>(text.size());
                    if (dice == 1) {
                        begin = 0;
                    } else if (dice == 2) {
                        begin = cache->usable(slot, static_cast<int32_t>(random() % (text.size() + 1)));
                    }
                    const auto n =
                        static_cast<int32_t>(random() % (dice == 3 ? 40 : static_cast<uint32_t>(n_rollback + 1)) + 1);
                    runs.push_back({slot, begin, n, dice == 3 ? 1 : n});
                }
                ASSERT_TRUE(cache->prepare(runs).has_value());
                std::vector<std::vector<StateStep>> steps(runs.size());
                for (size_t i = 0; i < runs.size(); ++i) {
                    cache->advance(runs[i], steps[i]);
                }
                // Rows of the slots one after another, as a kernel goes through them.
                for (size_t i = 0; i < runs.size(); ++i) {
                    auto& text = texts[static_cast<size_t>(runs[i].slot)];
                    text.resize(static_cast<size_t>(runs[i].begin));
                    for (const StateStep& step : steps[i]) {
                        ASSERT_EQ(step.from == StateCache::kNoCell ? 0 : cells[step.from], hash(text, text.size()));
                        text.push_back(random());
                        cells[step.to] = hash(text, text.size());
                        ASSERT_LT(step.to, cache->n_cells());
                    }
                }
                for (const StateRun& run : runs) {
                    if (run.n_wanted > 1) {
                        // Verified: at least one row stands.
                        auto& text = texts[static_cast<size_t>(run.slot)];
                        const auto n_more = static_cast<int32_t>(random() % static_cast<uint32_t>(run.n_rows));
                        const int32_t n_kept = run.begin + n_more + 1;
                        ASSERT_EQ(cache->usable(run.slot, n_kept), n_kept);
                        text.resize(static_cast<size_t>(n_kept));
                        cache->settle(run.slot, n_kept);
                    }
                    const auto n = static_cast<int32_t>(texts[static_cast<size_t>(run.slot)].size());
                    ASSERT_EQ(cache->usable(run.slot, n), n);
                }
            }
            EXPECT_LE(cache->n_cells(), cache->most_cells());
        }
    }
}

// The pool belongs to the batch: what one slot's long draft needed serves the next slot's too. The figures of a
// Qwen3.5-like model with 4 slots and n-gram drafts of 64 tokens, by the formula: 24 delta-net layers of 32 heads of
// 128 x 128 floats are 48 MiB per snapshot.
TEST(StateCache, ThePoolGrowsWithTheLargestBatchNotWithTheSlots) {
    constexpr int32_t kSlots = 4;
    constexpr int32_t kMax = 64;
    constexpr size_t kSnapshot = size_t{24} * 32 * 128 * 128 * sizeof(float);
    const auto backend = reference::ReferenceBackend::create();
    const auto cache = make(*backend, {{.conv_width = 4, .head_dim = 2, .n_heads = 1}},
                            {.n_slots = kSlots, .n_taps = 4, .n_rollback = kMax});
    const auto mib = [&] { return (static_cast<size_t>(cache->n_cells()) * kSnapshot) >> 20; };
    const size_t before = (size_t{kSlots} * (kMax + 1) * kSnapshot) >> 20;
    EXPECT_EQ(before, 12480U) << "a ring of n_max + 1 snapshots for each slot";
    EXPECT_EQ(mib(), 384U);
    for (int slot = 0; slot < kSlots; ++slot) {
        pass(*cache, {slot, 0, 100, 1});
    }
    EXPECT_EQ(mib(), 384U) << "prompts and plain decoding: two snapshots for each slot";
    for (int32_t round = 0; round < 20; ++round) {
        const int slot = round % kSlots;
        const int32_t begin = cache->usable(slot, 1 << 20);
        pass(*cache, {slot, begin, kMax + 1, kMax + 1});
        cache->settle(slot, begin + 1 + round);
    }
    const size_t one_drafts = mib();
    EXPECT_LE(cache->n_cells(), (kMax + 1 + 2 * kSlots) * 5 / 4);
    const uint64_t version = cache->version();
    std::vector<StateRun> runs;
    runs.reserve(kSlots);
    for (int slot = 0; slot < kSlots; ++slot) {
        runs.push_back({slot, cache->usable(slot, 1 << 20), 9, 9});
    }
    ASSERT_TRUE(cache->prepare(runs).has_value());
    EXPECT_EQ(cache->version(), version) << "four short drafts fit where one long one did";
    std::printf(
        "4 slots, n_max 64, 48 MiB per snapshot: rings %zu MiB; the pool 384 MiB without drafts, %zu MiB when "
        "one slot at a time drafts 64 tokens\n",
        before, one_drafts);
    EXPECT_LT(one_drafts, before / 2);
}

/// Has memory for so many states.
class SmallBackend final : public reference::ReferenceBackend {
  public:
    int n_left = 100;

    Result<std::unique_ptr<graph::Storage>> allocate_state(DType dtype, std::array<int64_t, 4> ne) override {
        if (n_left-- <= 0) {
            return error(Code::kOutOfMemory, "no memory left");
        }
        return ReferenceBackend::allocate_state(dtype, ne);
    }
};

TEST(StateCache, WithoutMemoryTheSlotsKeepWhatTheyHold) {
    SmallBackend backend;
    const auto cache =
        make(backend, {{.head_dim = 1, .n_heads = 1}, {.head_dim = 1, .n_heads = 1}}, {.n_slots = 1, .n_rollback = 64});
    const auto steps = pass(*cache, {0, 0, 5, 1});
    reinterpret_cast<float*>(cache->delta(0)->data)[steps.back().to] = 7.0F;
    backend.n_left = 1;  // the first layer's pool grows, the second's doesn't
    const StateRun run{0, 5, 65, 65};
    const auto refused = cache->prepare(std::span(&run, 1));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kOutOfMemory);
    EXPECT_NE(refused.error().to_string().find("snapshots of"), std::string::npos);
    EXPECT_EQ(cache->n_cells(), 2);
    EXPECT_EQ(cache->usable(0, 9), 5);
    const auto next = pass(*cache, {0, 5, 1, 1});
    EXPECT_EQ(next[0].from, steps.back().to);
    EXPECT_EQ(reinterpret_cast<const float*>(cache->delta(0)->data)[next[0].from], 7.0F);
    backend.n_left = 100;
    EXPECT_EQ(pass(*cache, {0, 6, 65, 65}).size(), 65U);
}

// A slot file's state may come back in another slot, with other room to roll back: rings of another length.
TEST(StateCache, ASavedStateComesBackInARingOfAnotherLength) {
    const auto backend = reference::ReferenceBackend::create();
    const std::vector<StateLayer> layers{{.conv_width = 8}, {.conv_width = 8, .head_dim = 4, .n_heads = 2}};
    constexpr int32_t kTaps = 4;
    const auto fill = [&](StateCache& cache, int slot, int32_t n) {
        // Every cell tells its position.
        const auto steps = pass(cache, {slot, 0, n, 1});
        for (int32_t p = 0; p < n; ++p) {
            for (int layer = 0; layer < 2; ++layer) {
                auto* conv = reinterpret_cast<float*>(cache.conv(layer)->data);
                std::fill_n(conv + (slot * cache.conv_ring() + p % cache.conv_ring()) * 8, 8, 1.0F + p);
            }
            auto* delta = reinterpret_cast<float*>(cache.delta(1)->data);
            std::fill_n(delta + steps[static_cast<size_t>(p)].to * 32, 32, 101.0F + p);
        }
    };
    for (const int32_t n : {1, 2, 3, 19}) {
        const auto from = make(*backend, layers, {.n_slots = 2, .n_taps = kTaps, .n_rollback = 3});
        fill(*from, 0, n);
        const auto saved = from->save(0, n);
        ASSERT_FALSE(saved.empty());
        EXPECT_LE(saved.size(), from->max_saved_bytes());
        EXPECT_TRUE(from->save(0, n + 1).empty()) << "not held";
        EXPECT_TRUE(from->save(1, n).empty()) << "another slot";
        for (const int32_t n_rollback : {0, 1, 6}) {
            const auto to = make(*backend, layers, {.n_slots = 2, .n_taps = kTaps, .n_rollback = n_rollback});
            StateCache& cache = *to;
            ASSERT_TRUE(cache.restore(1, n, saved).has_value());
            EXPECT_EQ(cache.usable(1, n + 5), n);
            EXPECT_EQ(cache.usable(1, n - 1), n - 1);
            for (int32_t p = std::max(0, n - kTaps + 1); p < n; ++p) {
                const auto* conv = reinterpret_cast<const float*>(cache.conv(0)->data);
                EXPECT_EQ(conv[(cache.conv_ring() + p % cache.conv_ring()) * 8], 1.0F + p) << n << " " << p;
            }
            std::vector<StateStep> steps;
            const StateRun next{1, n, 1, 1};
            ASSERT_TRUE(cache.prepare(std::span(&next, 1)).has_value());
            cache.advance(next, steps);
            const auto* delta = reinterpret_cast<const float*>(cache.delta(1)->data);
            EXPECT_EQ(delta[steps[0].from * 32 + 31], 100.0F + n);
            EXPECT_EQ(cache.usable(0, n), 0);
            EXPECT_EQ(cache.restore(1, n, std::span(saved).first(saved.size() - 1)).error().code, Code::kBadFile);
            EXPECT_EQ(cache.usable(1, n), 0);
        }
    }
}

TEST(StateCache, AbsurdSizesAreErrors) {
    const auto backend = reference::ReferenceBackend::create();
    EXPECT_EQ(StateCache::create(*backend, {{.conv_width = 8}}, {.n_taps = 4, .n_rollback = 1 << 20}).error().code,
              Code::kCapacity);
}

}  // namespace
}  // namespace foresay::memory
