// The parts of DRY ("don't repeat yourself", text-generation-webui #5677) that can be tested by themselves: sequence
// breakers and match lengths. The step is in dry.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sampling/window.h"
#include "vocab/vocab.h"

namespace foresay::sampling {

/// Texts that end every repetition, as tokens: a token that contains a breaker breaks alone (empty tail); one whose end
/// begins a breaker needs the rest of it as the tokens that follow.
class Breakers {
  public:
    /// Cost: one pass over the vocabulary for all texts.
    Breakers(std::span<const std::string> texts, const vocab::Vocab& vocab);

    bool breaks_alone(vocab::TokenId id) const;
    /// The longest match that may count, bounded by the newest breaker among the last n tokens; n when there is none.
    int32_t limit(const Window& window, int32_t n) const;

  private:
    struct Breaker {
        vocab::TokenId head = 0;
        std::vector<vocab::TokenId> tail;
    };

    std::span<const Breaker> of(vocab::TokenId head) const;

    std::vector<Breaker> breakers_;  ///< ascending by head, then longest tail first
};

/// lengths[k], k in [1, n): how many of the newest tokens equal those that end k steps back, at most limit.
/// lengths[0] is unused. Z-algorithm on the reversed window: linear time.
void match_lengths(const Window& window, int32_t n, int32_t limit, std::vector<int32_t>& lengths);

}  // namespace foresay::sampling
