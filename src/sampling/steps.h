// One step of the sampler chain, and the makers of all steps. A step changes a Row; what it remembers of the text moves
// only in accept(). Must not know how the chain is put together. Read next: chain.cpp.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sampling/noise.h"
#include "sampling/row.h"
#include "sampling/sampler.h"

namespace foresay::sampling {

class Step {
  public:
    virtual ~Step() = default;
    /// Changes the candidates of the draw named by `key`. Must not change what the next draw depends on.
    virtual void apply(Row& row, DrawKey key) = 0;

    /// The token is part of the text now. drawn_from: the candidates of the draw it stands for, in the order in which
    /// the step left them when it was the last of the chain; empty for prompt tokens and forced ones.
    virtual void accept(TokenId id, std::span<const Candidate> drawn_from) { (void)id, (void)drawn_from; }

    /// Back to the state after creation.
    virtual void reset() {}
};

/// Each maker returns null where the parameters make the step neutral (sampling.md 4, "off when").
std::unique_ptr<Step> make_penalties(const Params& params);
std::unique_ptr<Step> make_dry(const Params& params, const vocab::Vocab& vocab);
std::unique_ptr<Step> make_top_n_sigma(const Params& params);
std::unique_ptr<Step> make_top_k(const Params& params);
std::unique_ptr<Step> make_typical(const Params& params);
std::unique_ptr<Step> make_top_p(const Params& params);
std::unique_ptr<Step> make_min_p(const Params& params);
std::unique_ptr<Step> make_xtc(const Params& params);
std::unique_ptr<Step> make_temperature(const Params& params);
std::unique_ptr<Step> make_infill(std::shared_ptr<const vocab::Vocab> vocab);
std::unique_ptr<Step> make_adaptive_p(const Params& params);
/// Versions 1 and 2 by params.mirostat; n_vocab is the V of version 1's estimate.
std::unique_ptr<Step> make_mirostat(const Params& params, int32_t n_vocab);

/// Checks the ranges of server-api.md 4.2 and clamps where it says clamp; sampler names become canonical.
Result<Params> checked_params(const Params& params);

}  // namespace foresay::sampling
