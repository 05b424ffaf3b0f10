// Drawing a drafted token with the target's own noise for its position, so that target and drafter mostly draw alike
// (shared/spec/sampling.md, 11.1). One for each slot; any drafter that has logits over the target's ids may use it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sampling/sampler.h"
#include "spec/acceptance.h"
#include "spec/drafter.h"

namespace foresay::spec {

class NoiseDraw {
  public:
    /// True when a request wants its drafts drawn; else the best token is drafted.
    static bool wanted(const DraftSampling& sampling) { return sampling.probabilistic && sampling.temperature > 0.0F; }

    /// Draws from logits over token ids, for the i-th token of a draft. q: if not null and the request wants it, what
    /// it was drawn from. Errors: those of Sampler::create.
    Result<TokenId> draw(const DraftSampling& sampling, std::span<const float> logits, int32_t i_draft,
                         const std::shared_ptr<const vocab::Vocab>& vocab, std::vector<DraftProb>* q);

  private:
    std::unique_ptr<sampling::Sampler> sampler_;  ///< remade when the parameters change
    sampling::Params params_;
};

}  // namespace foresay::spec
