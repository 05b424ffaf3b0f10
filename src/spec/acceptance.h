// Acceptance rules: may a drafted token stand at this position? Must not know drafters, slots or HTTP.
// Source: shared/spec/sampling.md, sections 10 and 13; design.md, section 6.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sampling/sampler.h"
#include "vocab/vocab.h"

namespace foresay::spec {

enum class Verdict { kExact, kRelaxed, kReject };

/// The rules. Strict keeps the text of plain decoding; lossless keeps its distribution; the others keep neither and say
/// what they cost.
enum class Rule : uint8_t {
    kAuto,      ///< relaxed where relaxed_top_n asks for it, else strict
    kStrict,    ///< the target's own draw (sampling.md 10.1)
    kRelaxed,   ///< among the N most probable, within a log-probability margin (12, 13)
    kTypical,   ///< not untypical of the target's distribution: Medusa's entropy rule (12)
    kLossless,  ///< rejection sampling (11): the distribution is the target's, the text isn't plain decoding's
};

/// Where tokens may be relaxed.
enum class Scope : uint8_t { kAll, kThinking };

/// How drafted tokens are judged in one response. Negative limits mean none.
struct AcceptanceOptions {
    Rule rule = Rule::kAuto;
    int32_t relaxed_top_n = 0;        ///< 0 and 1: strict
    float relaxed_delta = -1.0F;      ///< most nats below the best candidate; 0: strict
    int32_t relaxed_max_tokens = -1;  ///< relaxed tokens per response; 0: strict
    float relaxed_max_gap = -1.0F;    ///< summed log-probability gap per response, nats
    Scope relaxed_scope = Scope::kAll;
    float typical_epsilon = 0.09F;
    float typical_delta = 0.3F;
};

/// The rule that the options come to: never kAuto, and kStrict where the others' parameters leave nothing to relax.
constexpr Rule effective_rule(const AcceptanceOptions& options) {
    const bool can_relax = options.relaxed_max_tokens != 0 && options.relaxed_max_gap != 0.0F;
    switch (options.rule) {
        case Rule::kLossless:
            return Rule::kLossless;
        case Rule::kTypical:
            return can_relax ? Rule::kTypical : Rule::kStrict;
        case Rule::kStrict:
            return Rule::kStrict;
        case Rule::kAuto:
        case Rule::kRelaxed:
            break;
    }
    return can_relax && options.relaxed_top_n > 1 && options.relaxed_delta != 0.0F ? Rule::kRelaxed : Rule::kStrict;
}

/// By the enumerators' numbers.
inline constexpr std::array<std::string_view, 5> kRuleNames{"auto", "strict", "relaxed", "typical", "lossless"};
inline constexpr std::array<std::string_view, 2> kScopeNames{"all", "thinking"};

constexpr std::string_view name_of(Rule rule) {
    return kRuleNames.at(static_cast<size_t>(rule));
}

constexpr std::string_view name_of(Scope scope) {
    return kScopeNames.at(static_cast<size_t>(scope));
}

/// Empty when nothing has this name.
constexpr std::optional<Rule> rule_of(std::string_view name) {
    for (size_t i = 0; i < kRuleNames.size(); ++i) {
        if (kRuleNames.at(i) == name) {
            return static_cast<Rule>(i);
        }
    }
    return std::nullopt;
}

constexpr std::optional<Scope> scope_of(std::string_view name) {
    for (size_t i = 0; i < kScopeNames.size(); ++i) {
        if (kScopeNames.at(i) == name) {
            return static_cast<Scope>(i);
        }
    }
    return std::nullopt;
}

/// A drafter's probability of a token.
struct DraftProb {
    vocab::TokenId id = 0;
    float p = 0.0F;
};

/// What a decision was based on, for logs and drift figures. Only filled by the relaxed rule when drafted != sampled.
struct Decision {
    Verdict verdict = Verdict::kReject;
    int32_t rank = -1;       ///< candidates with strictly higher p_rank; -1: drafted token outside the set
    float p_drafted = 0.0F;  ///< p_rank of the drafted token
    float p_max = 0.0F;      ///< largest p_rank
    float gap = 0.0F;        ///< ln p_max - ln p_drafted, 0 when exact
    vocab::TokenId instead = vocab::kNoToken;  ///< of a lossless reject: what to emit; else the target's own draw
};

/// The strict rule: exact match with the target's own draw.
Decision decide_strict(const sampling::Draw& draw, vocab::TokenId drafted);

/// Relaxed acceptance by rank: exact match, or rank < n. n >= 2 (0 and 1 are the strict rule: callers take
/// decide_strict). Never relaxed: end-of-generation and control tokens, banned tokens, tokens outside the candidates
/// (sampling.md 13).
/// delta >= 0: and at most so many nats below the best candidate.
Decision decide_relaxed_top_n(const sampling::Draw& draw, vocab::TokenId drafted, int32_t n, const vocab::Vocab& vocab,
                              float delta = -1.0F);

/// Typical acceptance: exact match, or p > min(epsilon, delta * exp(-H)), p and the entropy H after temperature. Never
/// relaxed: as above. At temperature 0 only an exact match stands.
Decision decide_typical(const sampling::Draw& draw, vocab::TokenId drafted, float epsilon, float delta,
                        const vocab::Vocab& vocab);

/// Rejection sampling: the drafted token stands with probability min(1, p/q); else `instead` is drawn from the positive
/// part of p - q. q: the distribution that the token was drawn from, independent of the draws of (seed, position);
/// empty: the drafter had no choice, q is 1 for its token. Numbers come from (seed, position).
Decision decide_lossless(const sampling::Draw& draw, vocab::TokenId drafted, std::span<const DraftProb> q,
                         uint32_t seed, int64_t position);

/// True when the environment asks for the per-position line (RELAXED_VERIFY_LOG set and not "0").
bool relaxed_verify_log_enabled();
/// The line of RELAXED_VERIFY_LOG=1, exactly:
/// [RELAXED_VERIFY] pos=0 relaxed_top_n=5 cur_p.size=12 cur_p.sorted=1 draft=' Code'(id=8473) target_sample='
/// Algorithm'(id=42037) -> ACCEPT(relaxed) (or "-> reject"). pos: index in the draft. Newlines and control bytes in
/// pieces are escaped so that it stays one line.
std::string format_relaxed_verify(int pos, int32_t n, const sampling::Draw& draw, vocab::TokenId drafted,
                                  const Decision& decision, const vocab::Vocab& vocab);

}  // namespace foresay::spec
