#include "spec/verifier.h"

#include <cstdio>

#include "base/assert.h"

namespace foresay::spec {

void verify(sampling::Sampler& sampler, const vocab::Vocab& vocab, std::span<const std::span<const float>> rows,
            std::span<const vocab::TokenId> draft, int64_t position, const VerifyOptions& options,
            const OnEmitted& on_emitted, VerifyResult& result) {
    FORESAY_ASSERT(rows.size() == draft.size() + 1);
    const bool relaxed = options.relaxed_top_n > 1;
    result.tokens.clear();
    result.n_accepted = 0;
    result.n_relaxed = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
        sampling::Draw draw = sampler.draw(rows[i], position + static_cast<int64_t>(i));
        if (!sampler.status().has_value()) {
            return;  // a grammar at a dead end: the draw is no token of the text
        }
        Emitted emitted{draw.id, false, {}};
        bool stands = false;
        if (i < draft.size()) {
            if (relaxed) {
                sampler.drop_forbidden(&draw);  // ranks count legal tokens, and no other may stand (sampling.md 13)
            }
            const Decision decision = relaxed ? decide_relaxed_top_n(draw, draft[i], options.relaxed_top_n, vocab)
                                              : decide_strict(draw, draft[i]);
            stands = decision.verdict != Verdict::kReject;
            if (relaxed && decision.verdict != Verdict::kExact && relaxed_verify_log_enabled()) {
                std::fprintf(
                    stderr, "%s\n",
                    format_relaxed_verify(static_cast<int>(i), options.relaxed_top_n, draw, draft[i], decision, vocab)
                        .c_str());
            }
            if (stands) {
                emitted = Emitted{draft[i], true, decision};
                ++result.n_accepted;
                result.n_relaxed += decision.verdict == Verdict::kRelaxed ? 1 : 0;
            }
        }
        on_emitted(rows[i], draw, emitted);
        sampler.accept(emitted.id, true);
        result.tokens.push_back(emitted);
        if (!stands || vocab.is_eog(emitted.id)) {
            return;
        }
    }
}

}  // namespace foresay::spec
