// Verification of one slot's draft: walks the target's rows in order, draws, decides, stops at the first reject. Every
// emitted token moves the sampler's state by exactly one accept(), so that state follows the text and nothing else.
// Must not know slots or HTTP. Source: shared/spec/sampling.md, 10.1 and 13.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sampling/sampler.h"
#include "spec/acceptor.h"
#include "spec/drafter.h"
#include "vocab/vocab.h"

namespace foresay::spec {

/// A token that now belongs to the text.
struct Emitted {
    vocab::TokenId id = 0;
    bool drafted = false;  ///< false: the target's own draw (correction, bonus or plain decoding)
    Decision decision;     ///< of a drafted token
};

struct VerifyResult {
    std::vector<Emitted> tokens;  ///< 1 .. draft + 1 of them; fewer when the sampler failed
    int32_t n_accepted = 0;       ///< drafted tokens that stand
    int32_t n_relaxed = 0;        ///< of these by a relaxed rule
    int32_t n_rejected = 0;       ///< drafted tokens that were judged and fell: 0 or 1
};

/// Called for each emitted token while its draw is still valid.
using OnEmitted =
    std::function<void(std::span<const float> logits, const sampling::Draw& draw, const Emitted& emitted)>;

/// rows[i]: the target's logits [n_vocab] after the last text token and draft[0..i); rows.size() = draft + 1.
/// position: response index of the first token drawn. An empty draft is plain decoding: the same path, so both give the
/// same draw. After an end-of-generation token nothing more is drawn, nor when sampler.status() is an error: the tokens
/// before it stand, and the caller ends the text with that error.
void verify(sampling::Sampler& sampler, const vocab::Vocab& vocab, std::span<const std::span<const float>> rows,
            const Draft& draft, int64_t position, Acceptor& acceptor, const OnEmitted& on_emitted,
            VerifyResult& result);

}  // namespace foresay::spec
