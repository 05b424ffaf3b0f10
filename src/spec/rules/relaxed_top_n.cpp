// Relaxed acceptance by rank, with an optional margin. Ranks and gaps are taken on the probabilities after truncation
// and before temperature, so that n and delta mean the same at every temperature (sampling.md 13).
#include "base/assert.h"
#include "spec/rules/near_miss.h"

namespace foresay::spec {

Decision decide_relaxed_top_n(const sampling::Draw& draw, vocab::TokenId drafted, int32_t n, const vocab::Vocab& vocab,
                              float delta) {
    FORESAY_ASSERT(n >= 2);
    Decision decision;
    if (drafted == draw.id) {
        // First of all, and whatever the rank: the draw may have a rank of n or more, and refusing it gains nothing.
        decision.verdict = Verdict::kExact;
        return decision;
    }
    if (find_near_miss(draw, drafted, &decision) == nullptr) {
        return decision;
    }
    const bool is_near = decision.rank < n && (delta < 0.0F || decision.gap <= delta);
    decision.verdict = is_near && !is_protected(drafted, vocab) ? Verdict::kRelaxed : Verdict::kReject;
    return decision;
}

}  // namespace foresay::spec
