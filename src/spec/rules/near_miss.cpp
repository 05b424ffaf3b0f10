#include "spec/rules/near_miss.h"

#include <algorithm>
#include <cmath>

namespace foresay::spec {

using sampling::Candidate;

const Candidate* find_near_miss(const sampling::Draw& draw, vocab::TokenId drafted, Decision* decision) {
    const auto it = std::find_if(draw.candidates.begin(), draw.candidates.end(),
                                 [drafted](const Candidate& c) { return c.id == drafted; });
    if (it == draw.candidates.end()) {
        return nullptr;  // truncation or a ban has ruled it out: no rule can bring it back
    }
    // Strictly greater, so that ties share the better rank: rank must not depend on the order of the set.
    int32_t rank = 0;
    for (const Candidate& c : draw.candidates) {
        rank += c.p_rank > it->p_rank ? 1 : 0;
        decision->p_max = std::max(decision->p_max, c.p_rank);
    }
    decision->rank = rank;
    decision->p_drafted = it->p_rank;
    if (!(it->p_rank > 0.0F)) {
        return nullptr;  // what the target holds for impossible isn't a near miss, however small the set
    }
    decision->gap = std::log(decision->p_max) - std::log(decision->p_drafted);
    return &*it;
}

bool is_protected(vocab::TokenId id, const vocab::Vocab& vocab) {
    return vocab.is_eog(id) || vocab.is_control(id);
}

}  // namespace foresay::spec
