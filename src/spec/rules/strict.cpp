// The strict rule: a drafted token stands exactly when the target itself drew it. Text is that of plain decoding.
#include "spec/acceptance.h"

namespace foresay::spec {

Decision decide_strict(const sampling::Draw& draw, vocab::TokenId drafted) {
    Decision decision;
    decision.verdict = drafted == draw.id ? Verdict::kExact : Verdict::kReject;
    return decision;
}

}  // namespace foresay::spec
