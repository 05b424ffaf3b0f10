// The sampler chain: raw logits of one row to a drawn token and the candidates it was drawn from.
// Must not know drafters, slots or HTTP. Source: shared/spec/sampling.md, sections 1-9 and 11.1.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grammar/trigger.h"
#include "vocab/vocab.h"

namespace foresay::grammar {
class Library;
}

namespace foresay::sampling {

using vocab::TokenId;

/// A limit on the tokens of thoughts. When they are spent, message and closing mark are all that may follow.
struct ReasoningBudget {
    int32_t tokens = -1;  ///< -1: no limit
    std::string open;     ///< the marks around thoughts: "<think>", "</think>"
    std::string close;
    std::string message;         ///< said before the closing mark; may be empty
    bool starts_inside = false;  ///< the prompt has opened thoughts
};

/// Request fields of the chain, named and defaulted as in the API (server-api.md 4.2).
struct Params {
    uint32_t seed =
        4294967295U;  ///< 4294967295: taken from the system when the sampler is made; Sampler::seed() reports it
    int32_t min_keep = 0;
    float temperature = 0.8F;
    float dynatemp_range = 0.0F;
    float dynatemp_exponent = 1.0F;
    int32_t top_k = 40;
    float top_p = 0.95F;
    float min_p = 0.05F;
    float top_n_sigma = -1.0F;
    float typical_p = 1.0F;
    float xtc_probability = 0.0F;
    float xtc_threshold = 0.1F;
    int32_t repeat_last_n = 64;
    float repeat_penalty = 1.0F;
    float presence_penalty = 0.0F;
    float frequency_penalty = 0.0F;
    float dry_multiplier = 0.0F;
    float dry_base = 1.75F;
    int32_t dry_allowed_length = 2;
    int32_t dry_penalty_last_n = 64;
    std::vector<std::string> dry_sequence_breakers{"\n", ":", "\"", "*"};
    int32_t mirostat = 0;
    float mirostat_tau = 5.0F;
    float mirostat_eta = 0.1F;
    float adaptive_target = -1.0F;
    float adaptive_decay = 0.9F;
    /// Names in order; the default chain of the spec.
    std::vector<std::string> samplers{"penalties", "dry",   "top_n_sigma", "top_k",      "typ_p",
                                      "top_p",     "min_p", "xtc",         "temperature"};
    std::vector<std::pair<TokenId, float>> logit_bias;  ///< -infinity bans
    bool ignore_eos = false;                            ///< bans every end-of-generation token
    std::string grammar;                                ///< GBNF; empty: none
    bool grammar_lazy = false;                          ///< sleeps until one of grammar_triggers is met
    std::vector<grammar::Trigger> grammar_triggers;
    ReasoningBudget reasoning;
};

/// "top_k", "top-k", "topk", "k" ... to the canonical name; empty when unknown.
std::string_view canonical_sampler_name(std::string_view name);

struct Candidate {
    TokenId id = 0;
    float logit = 0.0F;
    float p = 0.0F;       ///< final probability (after temperature), normalised over the set
    float p_rank = 0.0F;  ///< probability at T = 1 after truncation and before temperature: what ranks are taken on
                          ///< (sampling.md 13)
};

/// One draw. `candidates` point into the sampler and hold until its next draw.
struct Draw {
    TokenId id = 0;
    std::span<const Candidate> candidates;  ///< after the chain, normalised; banned (-infinity) entries removed
    bool sorted = false;                    ///< by p_rank, descending
};

/// Noise of the exponential race, shared by target and drafter: the same for the same (seed, position, token).
/// position: index of the token in the response, from 0. Uniform in (0, 1) -> -ln(-ln u). Deterministic across
/// machines.
float gumbel_noise(uint32_t seed, int64_t position, TokenId token);

class Sampler {
  public:
    /// Errors: invalid_argument naming the field (penalty_repeat not above 0, unknown sampler name, bad grammar, ...).
    /// grammars: where compiled grammars are kept (of the same vocabulary); null: compiled for this sampler alone.
    static Result<std::unique_ptr<Sampler>> create(const Params& params, std::shared_ptr<const vocab::Vocab> vocab,
                                                   grammar::Library* grammars = nullptr);
    ~Sampler();

    /// Draws from one row. logits [n_vocab], not changed. position: index of the token in the response (noise key).
    /// The draw changes no state that accept() doesn't: drawing twice gives the same token.
    /// Cost: O(n_vocab) selection, no sort of the vocabulary, no allocation after the first draws.
    /// Under a grammar: when the token drawn is forbidden, the row is drawn from again with all forbidden tokens banned
    /// first, under the same noise. Look at status() afterwards. Once thoughts are over their budget, the token that
    /// ends them is the only candidate, unless the grammar forbids it.
    Draw draw(std::span<const float> logits, int64_t position);
    /// Whether a token can be drawn: an error when the grammar has come to a dead end for this vocabulary, when the
    /// request bans every token that it allows, and when it costs too much. The last draw is then meaningless.
    const Status& status() const;
    bool has_grammar() const;
    /// Removes the candidates that the grammar forbids and normalises the rest: for rules that pick a candidate other
    /// than the one drawn.
    void drop_forbidden(Draw* draw);
    /// Tells the chain that the token is now part of the text. generated: false for prompt tokens (penalties and DRY
    /// see them).
    void accept(TokenId id, bool generated);
    /// Back to the state after creation.
    void reset();
    uint32_t seed() const;
    const Params& params() const;
    /// "logits -> ?penalties -> ... -> dist" (a question mark marks neutral samplers).
    std::string describe() const;
    bool is_banned(TokenId id) const;  ///< logit bias of minus infinity (ignore_eos and suppressed tokens included)

    struct Impl;
    explicit Sampler(std::unique_ptr<Impl> impl);

  private:
    std::unique_ptr<Impl> impl_;
};

struct TokenLogprob {
    TokenId id = 0;
    float logprob = 0.0F;  ///< natural log; the lowest finite float for probability 0
};

/// The n most probable tokens of the raw row (softmax over all of it, T = 1), descending, ties by id; and the value of
/// `chosen`.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int n, TokenId chosen, float* chosen_logprob);

}  // namespace foresay::sampling
