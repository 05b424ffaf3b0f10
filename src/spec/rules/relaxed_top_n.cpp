// Relaxed acceptance by rank: the one rule that trades exactness for speed. Ranks are taken on the probabilities after
// truncation and before temperature, so that n means the same at every temperature (sampling.md 13).
#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "spec/acceptance.h"

namespace foresay::spec {

using sampling::Candidate;

Decision decide_relaxed_top_n(const sampling::Draw& draw, vocab::TokenId drafted, int32_t n,
                              const vocab::Vocab& vocab) {
    FORESAY_ASSERT(n >= 2);
    Decision decision;
    if (drafted == draw.id) {
        // First of all, and whatever the rank: the draw may have a rank of n or more, and refusing it gains nothing.
        decision.verdict = Verdict::kExact;
        return decision;
    }
    const auto it = std::find_if(draw.candidates.begin(), draw.candidates.end(),
                                 [drafted](const Candidate& c) { return c.id == drafted; });
    if (it == draw.candidates.end()) {
        return decision;  // truncation or a ban has ruled it out: no rank can bring it back
    }
    // Strictly greater, so that ties share the better rank: rank must not depend on the order of the set.
    int32_t rank = 0;
    for (const Candidate& c : draw.candidates) {
        rank += c.p_rank > it->p_rank ? 1 : 0;
        decision.p_max = std::max(decision.p_max, c.p_rank);
    }
    decision.rank = rank;
    decision.p_drafted = it->p_rank;
    if (!(it->p_rank > 0.0F)) {
        return decision;  // what the target holds for impossible isn't a near miss, however small the set
    }
    decision.gap = std::log(decision.p_max) - std::log(decision.p_drafted);
    // End and control tokens change the length and the structure of a text: only the target may choose them.
    const bool is_protected = vocab.is_eog(drafted) || vocab.is_control(drafted);
    decision.verdict = rank < n && !is_protected ? Verdict::kRelaxed : Verdict::kReject;
    return decision;
}

}  // namespace foresay::spec
