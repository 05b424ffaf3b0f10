#include "spec/drafters/noise_draw.h"

namespace foresay::spec {
namespace {

bool same_chain(const sampling::Params& a, const sampling::Params& b) {
    return a.seed == b.seed && a.temperature == b.temperature && a.top_k == b.top_k && a.top_p == b.top_p &&
           a.min_p == b.min_p;
}

}  // namespace

Result<TokenId> NoiseDraw::draw(const DraftSampling& sampling, std::span<const float> logits, int32_t i_draft,
                                const std::shared_ptr<const vocab::Vocab>& vocab, std::vector<DraftProb>* q) {
    sampling::Params params;
    params.seed = sampling.seed;
    params.temperature = sampling.temperature;
    params.top_k = sampling.top_k;
    params.top_p = sampling.top_p;
    params.min_p = sampling.min_p;
    if (sampler_ == nullptr || !same_chain(params, params_)) {
        FORESAY_TRY(sampler_, sampling::Sampler::create(params, vocab));
        params_ = params;
    }
    const sampling::Draw draw = sampler_->draw(logits, sampling.position + i_draft);
    if (sampling.wants_q && q != nullptr) {
        for (const sampling::Candidate& c : draw.candidates) {
            q->push_back({c.id, c.p});
        }
    }
    return draw.id;
}

}  // namespace foresay::spec
