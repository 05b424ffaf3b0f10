#include "spec/verifier.h"

#include <cstdio>

#include "base/assert.h"

namespace foresay::spec {

void verify(sampling::Sampler& sampler, const vocab::Vocab& vocab, std::span<const std::span<const float>> rows,
            const Draft& draft, int64_t position, Acceptor& acceptor, const OnEmitted& on_emitted,
            VerifyResult& result) {
    FORESAY_ASSERT(rows.size() == draft.tokens.size() + 1);
    FORESAY_ASSERT(draft.q.empty() || draft.q.size() == draft.tokens.size());
    const bool relaxed = acceptor.rule() != Rule::kStrict;
    const bool logs = acceptor.rule() == Rule::kRelaxed && relaxed_verify_log_enabled();
    result.tokens.clear();
    result.n_accepted = 0;
    result.n_relaxed = 0;
    result.n_rejected = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
        sampling::Draw draw = sampler.draw(rows[i], position + static_cast<int64_t>(i));
        if (!sampler.status().has_value()) {
            return;  // a grammar at a dead end: the draw is no token of the text
        }
        Emitted emitted{draw.id, false, {}};
        bool stands = false;
        if (i < draft.tokens.size()) {
            if (relaxed) {
                sampler.drop_forbidden(&draw);  // ranks count legal tokens, and no other may stand (sampling.md 13)
            }
            const vocab::TokenId drafted = draft.tokens[i];
            const std::span<const DraftProb> q = draft.q.empty() ? std::span<const DraftProb>() : draft.q[i];
            const Decision decision =
                relaxed ? acceptor.decide(draw, drafted, q, sampler.seed(), position + static_cast<int64_t>(i))
                        : decide_strict(draw, drafted);
            stands = decision.verdict != Verdict::kReject;
            if (logs && decision.verdict != Verdict::kExact) {
                std::fprintf(
                    stderr, "%s\n",
                    format_relaxed_verify(static_cast<int>(i), acceptor.relaxed_top_n(), draw, drafted, decision, vocab)
                        .c_str());
            }
            if (stands) {
                emitted = Emitted{drafted, true, decision};
                ++result.n_accepted;
                result.n_relaxed += decision.verdict == Verdict::kRelaxed ? 1 : 0;
            } else {
                ++result.n_rejected;
                emitted.id = decision.instead != vocab::kNoToken ? decision.instead : draw.id;
            }
        }
        on_emitted(rows[i], draw, emitted);
        sampler.accept(emitted.id, true);
        acceptor.emitted(emitted.id, emitted.drafted ? &emitted.decision : nullptr);
        result.tokens.push_back(emitted);
        if (!stands || vocab.is_eog(emitted.id)) {
            return;
        }
    }
}

}  // namespace foresay::spec
