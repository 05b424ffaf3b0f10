// What the relaxed rules look at: where a drafted token stands among the target's candidates.
#pragma once

#include "spec/acceptance.h"

namespace foresay::spec {

/// A reject with rank, p_drafted, p_max and gap filled in; rank -1 when the token isn't among the candidates, gap 0
/// when its probability is 0. The candidate, null when there is none with a probability above 0.
const sampling::Candidate* find_near_miss(const sampling::Draw& draw, vocab::TokenId drafted, Decision* decision);

/// End and control tokens change the length and the structure of a text: only the target may choose them.
bool is_protected(vocab::TokenId id, const vocab::Vocab& vocab);

}  // namespace foresay::spec
