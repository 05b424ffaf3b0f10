// Rejection sampling (Leviathan et al. 2211.17192, Chen et al. 2302.01318; sampling.md 11): whatever q is, what comes
// out follows p. Holds only if the token was drawn from q, and independently of the numbers used here.
#include <algorithm>
#include <limits>

#include "sampling/math.h"
#include "sampling/noise.h"
#include "spec/acceptance.h"

namespace foresay::spec {

using sampling::Candidate;
using sampling::Purpose;

Decision decide_lossless(const sampling::Draw& draw, vocab::TokenId drafted, std::span<const DraftProb> q,
                         uint32_t seed, int64_t position) {
    const auto q_of = [&](vocab::TokenId id) {
        if (q.empty()) {
            return id == drafted ? 1.0 : 0.0;
        }
        const auto it = std::find_if(q.begin(), q.end(), [id](const DraftProb& d) { return d.id == id; });
        return it == q.end() ? 0.0 : static_cast<double>(it->p);
    };
    double p_drafted = 0.0;
    for (const Candidate& c : draw.candidates) {
        p_drafted = c.id == drafted ? static_cast<double>(c.p) : p_drafted;
    }
    Decision decision;
    const double u = sampling::uniform_of(sampling::noise_key({seed, position}, Purpose::kAccept), 0);
    if (p_drafted > 0.0 && u * q_of(drafted) < p_drafted) {
        decision.verdict = Verdict::kExact;
        return decision;
    }
    // A draw from the positive part of p - q, by Gumbel-max with noise of its own. The part is empty only by rounding.
    const uint64_t stream = sampling::noise_key({seed, position}, Purpose::kResidual);
    double best = -std::numeric_limits<double>::infinity();
    decision.instead = draw.id;
    for (const Candidate& c : draw.candidates) {
        const double rest = static_cast<double>(c.p) - q_of(c.id);
        if (!(rest > 0.0)) {
            continue;
        }
        const double noise = sampling::gumbel_of(sampling::uniform_of(stream, static_cast<uint32_t>(c.id)));
        const double score = sampling::log_fixed(rest) + noise;
        if (score > best || (score == best && c.id < decision.instead)) {
            best = score;
            decision.instead = c.id;
        }
    }
    return decision;
}

}  // namespace foresay::spec
