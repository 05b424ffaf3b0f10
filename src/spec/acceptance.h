// Acceptance rules: may a drafted token stand at this position? Must not know drafters, slots or HTTP.
// Source: shared/spec/sampling.md, sections 10 and 13; design.md, section 6.
#pragma once

#include <cstdint>
#include <string>

#include "sampling/sampler.h"
#include "vocab/vocab.h"

namespace foresay::spec {

enum class Verdict { kExact, kRelaxed, kReject };

/// What a decision was based on, for logs and drift figures. Only filled by the relaxed rule when drafted != sampled.
struct Decision {
    Verdict verdict = Verdict::kReject;
    int32_t rank = -1;       ///< candidates with strictly higher p_rank; -1: drafted token outside the set
    float p_drafted = 0.0F;  ///< p_rank of the drafted token
    float p_max = 0.0F;      ///< largest p_rank
    float gap = 0.0F;        ///< ln p_max - ln p_drafted, 0 when exact
};

/// The strict rule: exact match with the target's own draw.
Decision decide_strict(const sampling::Draw& draw, vocab::TokenId drafted);

/// Relaxed acceptance by rank: exact match, or rank < n. n >= 2 (0 and 1 are the strict rule: callers take
/// decide_strict). Never relaxed: end-of-generation and control tokens, banned tokens, tokens outside the candidates
/// (sampling.md 13).
Decision decide_relaxed_top_n(const sampling::Draw& draw, vocab::TokenId drafted, int32_t n, const vocab::Vocab& vocab);

/// True when the environment asks for the per-position line (RELAXED_VERIFY_LOG set and not "0").
bool relaxed_verify_log_enabled();
/// The line of RELAXED_VERIFY_LOG=1, exactly:
/// [RELAXED_VERIFY] pos=0 relaxed_top_n=5 cur_p.size=12 cur_p.sorted=1 draft=' Code'(id=8473) target_sample='
/// Algorithm'(id=42037) -> ACCEPT(relaxed) (or "-> reject"). pos: index in the draft. Newlines and control bytes in
/// pieces are escaped so that it stays one line.
std::string format_relaxed_verify(int pos, int32_t n, const sampling::Draw& draw, vocab::TokenId drafted,
                                  const Decision& decision, const vocab::Vocab& vocab);

}  // namespace foresay::spec
