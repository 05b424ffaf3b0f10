// What a ring of states still holds after evaluation and rollback.
#include "memory/state_cache.h"

#include <gtest/gtest.h>

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

TEST(StateCache, AbsurdSizesAreErrors) {
    const auto backend = reference::ReferenceBackend::create();
    EXPECT_EQ(StateCache::create(*backend, {{.conv_width = 8}}, 1, 4, 1 << 20).error().code, Code::kCapacity);
}

}  // namespace
}  // namespace foresay::memory
