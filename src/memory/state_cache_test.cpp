// What a ring of states still holds after evaluation and rollback.
#include "memory/state_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/reference/reference_backend.h"

namespace foresay::memory {
namespace {

TEST(StateCache, HoldsTheLastTokensOfEachSlot) {
    const auto backend = reference::ReferenceBackend::create();
    const auto made =
        StateCache::create(*backend, {{.conv_width = 8}, {.conv_width = 8, .head_dim = 4, .n_heads = 2}}, 2, 4, 3);
    ASSERT_TRUE(made.has_value());
    StateCache& cache = **made;
    EXPECT_EQ(cache.delta_ring(), 4);
    EXPECT_EQ(cache.conv_ring(), 6);
    EXPECT_EQ(cache.delta(0), nullptr);
    EXPECT_EQ(cache.bytes(), (2 * 8 * 2 * 6 + 4 * 8 * 2 * 4) * sizeof(float));

    EXPECT_EQ(cache.usable(0, 10), 0);
    cache.advance(0, 0, 20);
    EXPECT_EQ(cache.usable(0, 30), 20);
    EXPECT_EQ(cache.usable(0, 17), 17);
    EXPECT_EQ(cache.usable(0, 16), 0);
    EXPECT_EQ(cache.usable(1, 20), 0);
    cache.advance(0, 18, 19);  // two tokens forgotten, one new
    EXPECT_EQ(cache.usable(0, 20), 19);
    EXPECT_EQ(cache.usable(0, 17), 17);
    cache.advance(0, 0, 2);  // a new text
    EXPECT_EQ(cache.usable(0, 19), 2);
    EXPECT_EQ(cache.usable(0, 1), 1);
    cache.forget(0);
    EXPECT_EQ(cache.usable(0, 1), 0);
}

// A slot file's state may come back in another slot, with other room to roll back: rings of another length.
TEST(StateCache, ASavedStateComesBackInARingOfAnotherLength) {
    const auto backend = reference::ReferenceBackend::create();
    const std::vector<StateLayer> layers{{.conv_width = 8}, {.conv_width = 8, .head_dim = 4, .n_heads = 2}};
    constexpr int32_t kTaps = 4;
    const auto fill = [&](StateCache& cache, int slot, int32_t n) {
        // Every cell tells its position.
        for (int32_t p = 0; p <= n; ++p) {
            for (int layer = 0; layer < 2; ++layer) {
                auto* conv = reinterpret_cast<float*>(cache.conv(layer)->data);
                std::fill_n(conv + (slot * cache.conv_ring() + p % cache.conv_ring()) * 8, 8, 1.0F + p);
            }
            auto* delta = reinterpret_cast<float*>(cache.delta(1)->data);
            std::fill_n(delta + (slot * cache.delta_ring() + p % cache.delta_ring()) * 32, 32, 100.0F + p);
        }
        cache.advance(slot, 0, n);
    };
    for (const int32_t n : {1, 2, 3, 19}) {
        const auto from = StateCache::create(*backend, layers, 2, kTaps, 3);
        fill(**from, 0, n);
        const auto saved = (*from)->save(0, n);
        ASSERT_FALSE(saved.empty());
        EXPECT_LE(saved.size(), (*from)->max_saved_bytes());
        EXPECT_TRUE((*from)->save(0, n + 1).empty()) << "not held";
        EXPECT_TRUE((*from)->save(1, n).empty()) << "another slot";
        for (const int32_t n_rollback : {0, 1, 6}) {
            const auto to = StateCache::create(*backend, layers, 2, kTaps, n_rollback);
            StateCache& cache = **to;
            ASSERT_TRUE(cache.restore(1, n, saved).has_value());
            EXPECT_EQ(cache.usable(1, n + 5), n);
            EXPECT_EQ(cache.usable(1, n - 1), n_rollback > 0 && n > 1 ? n - 1 : 0);
            for (int32_t p = std::max(0, n - kTaps + 1); p < n; ++p) {
                const auto* conv = reinterpret_cast<const float*>(cache.conv(0)->data);
                EXPECT_EQ(conv[(cache.conv_ring() + p % cache.conv_ring()) * 8], 1.0F + p) << n << " " << p;
            }
            const auto* delta = reinterpret_cast<const float*>(cache.delta(1)->data);
            EXPECT_EQ(delta[(cache.delta_ring() + n % cache.delta_ring()) * 32 + 31], 100.0F + n);
            EXPECT_EQ(cache.usable(0, n), 0);
            EXPECT_EQ(cache.restore(1, n, std::span(saved).first(saved.size() - 1)).error().code, Code::kBadFile);
            EXPECT_EQ(cache.usable(1, n), 0);
        }
    }
}

TEST(StateCache, AbsurdSizesAreErrors) {
    const auto backend = reference::ReferenceBackend::create();
    EXPECT_EQ(StateCache::create(*backend, {{.conv_width = 8}}, 1, 4, 1 << 20).error().code, Code::kCapacity);
}

}  // namespace
}  // namespace foresay::memory
