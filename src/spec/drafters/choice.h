// Choosing a drafted token from a row of the drafter's logits: the ten best, and p_min on the best one's share of them.
// Source: shared/spec/draft-models.md, 3.3.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "vocab/vocab.h"

namespace foresay::spec {

/// The ten best entries of a row, best first; ties to the lower index. NaN is never among them.
struct TenBest {
    static constexpr size_t kSize = 10;
    std::array<vocab::TokenId, kSize> ids{};
    std::array<float, kSize> values{};
    size_t n = 0;

    /// The best one's share of the softmax over these ten; 0 when there is none.
    double top_share() const;
};

TenBest ten_best(std::span<const float> logits);

}  // namespace foresay::spec
