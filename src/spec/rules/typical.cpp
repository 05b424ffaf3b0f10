// Typical acceptance (Medusa, arXiv 2401.10774; sampling.md 12): where the target is unsure much may stand, where it is
// sure only the probable.
#include <algorithm>
#include <cmath>

#include "spec/rules/near_miss.h"

namespace foresay::spec {

Decision decide_typical(const sampling::Draw& draw, vocab::TokenId drafted, float epsilon, float delta,
                        const vocab::Vocab& vocab) {
    Decision decision;
    if (drafted == draw.id) {
        decision.verdict = Verdict::kExact;
        return decision;
    }
    const sampling::Candidate* candidate = find_near_miss(draw, drafted, &decision);
    if (candidate == nullptr) {
        return decision;
    }
    double entropy = 0.0;
    for (const sampling::Candidate& c : draw.candidates) {
        if (c.p > 0.0F) {
            entropy -= static_cast<double>(c.p) * std::log(static_cast<double>(c.p));
        }
    }
    const double threshold = std::min(static_cast<double>(epsilon), static_cast<double>(delta) * std::exp(-entropy));
    const bool is_typical = candidate->p > 0.0F && static_cast<double>(candidate->p) > threshold;
    decision.verdict = is_typical && !is_protected(drafted, vocab) ? Verdict::kRelaxed : Verdict::kReject;
    return decision;
}

}  // namespace foresay::spec
