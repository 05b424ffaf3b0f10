// What every drafter offers to the engine: proposals for all slots at once. Must not know HTTP or acceptance rules.
// Source: shared/spec/draft-models.md, sections 3 and 4.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/runner.h"
#include "sampling/sampler.h"
#include "spec/acceptance.h"
#include "spec/draft_cost.h"
#include "vocab/vocab.h"

namespace foresay::spec {

using vocab::TokenId;

/// How a drafter that samples draws: with the target's own noise, so that both mostly draw the same token
/// (sampling.md 11.1).
struct DraftSampling {
    std::optional<bool> asked = std::nullopt;  ///< --spec-draft-sampling, if it was given: probabilistic?
    bool probabilistic = false;                ///< what a chain makes of it for each drafter; false: greedy drafting
    uint32_t seed = 0;
    int64_t position = 0;  ///< response index of the first drafted token
    float temperature = 0.0F;
    int32_t top_k = 40;
    float top_p = 1.0F;
    float min_p = 0.0F;
    bool wants_q = false;  ///< rejection sampling: draw independently of the target and say from what
};

struct DraftRequest {
    int slot = 0;
    std::span<const TokenId>
        tokens;           ///< the whole context: prompt and emitted text, the last one not yet in the target's cache
    int32_t n_max = 0;    ///< at most so many tokens; 0: don't draft
    int32_t n_block = 0;  ///< n_max before the room that is left cut it; block drafters keep to it. 0: n_max
    int32_t n_min = 0;    ///< a shorter draft is dropped
    float p_min = 0.0F;   ///< stop before the first token whose top probability is below this
    DraftSampling sampling;
};

struct Draft {
    std::vector<TokenId> tokens;
    std::vector<std::vector<DraftProb>> q;  ///< what each token was drawn from, if asked for; empty: no choice was made
    int drafter = -1;                       ///< set by a chain: which of its drafters gave it
};

/// Offers its rows to a test: slot, number of the draft, logits that chose it (over the drafter's own vocabulary).
using DraftProbe = std::function<void(int slot, int32_t i_draft, std::span<const float> logits)>;

class Drafter {
  public:
    virtual ~Drafter() = default;
    /// "draft-simple", "ngram-simple": the --spec-type name.
    virtual std::string_view name() const = 0;
    /// Proposes for all requests in one go; drafts[i] belongs to requests[i] and may be empty. Errors: compute failures
    /// only.
    virtual Status propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) = 0;

    /// Rows of the target that it feeds on; the engine sets them up before the first pass.
    virtual model::TapSpec taps() const { return {}; }

    /// After every pass of the target: the rows it evaluated and, in target, the tapped rows. Rows that a later pass
    /// evaluates again at the same position of a slot have been rejected. Errors: compute failures only.
    virtual Status observe(std::span<const model::Row> rows, const model::Runner& target) {
        (void)rows, (void)target;
        return ok();
    }

    /// How many of the first n_common positions of a slot's cache a new text may reuse without costing the drafter
    /// something: those that need a row of the position before ask for one position less.
    virtual int32_t reusable(int slot, int32_t n_common) const {
        (void)slot;
        return n_common;
    }

    /// A request's prompt is in the target's cache and its first token is about to be drawn. Once per request.
    virtual void begin(int slot, std::span<const TokenId> prompt) { (void)slot, (void)prompt; }

    /// Of a drafter that runs a model.
    virtual DraftCost cost() const { return DraftCost::kPerToken; }

    /// Tokens of the text that it has to read before it can draft, beyond what every round brings.
    virtual int32_t n_missed(int slot, std::span<const TokenId> tokens) const {
        (void)slot, (void)tokens;
        return 0;
    }

    /// True when it can draw its tokens (DraftSampling::probabilistic) and then fills Draft::q on request. Others draft
    /// greedily, which is exact under rejection sampling too: q is then one.
    virtual bool can_draw() const { return false; }

    /// Whether it draws where nobody said how (temperature above 0).
    virtual bool draws_by_default() const { return false; }

    /// Tells what became of the last draft of a slot (statistics, hit counters). own: this drafter gave it; else
    /// another one of the chain did.
    virtual void accepted(int slot, int32_t n_drafted, int32_t n_accepted, bool own) {
        (void)slot, (void)n_drafted, (void)n_accepted, (void)own;
    }

    /// The slot's context was shifted: positions [keep, keep + discard) are gone, the rest moved down. A drafter may
    /// ignore it: the next propose() brings the whole context anyway.
    virtual void shifted(int slot, int32_t keep, int32_t discard) { (void)slot, (void)keep, (void)discard; }

    /// The slot starts over with another text.
    virtual void reset(int slot) { (void)slot; }

    /// What it holds of a slot with this text, for restore() to go on from (slot files); empty: the text is all it
    /// needs.
    virtual std::vector<std::byte> save(int slot, std::span<const TokenId> text) const {
        (void)slot, (void)text;
        return {};
    }

    /// Takes over what the same drafter has saved. Errors: bad_file; the slot then starts over.
    virtual Status restore(int slot, std::span<const std::byte> state) {
        (void)slot, (void)state;
        return ok();
    }

    /// Resident bytes of its weights and state.
    virtual size_t memory_bytes() const { return 0; }

    /// Of these: caches, tables, rows kept for later.
    virtual size_t state_bytes() const { return memory_bytes(); }

    /// Bytes of activation buffers and scratch of its passes so far, beside memory_bytes().
    virtual size_t compute_bytes() const { return 0; }

    /// Most tokens it drafts in one go, whatever is asked (the length of a trained block); INT32_MAX: no limit.
    virtual int32_t n_max_limit() const { return INT32_MAX; }

    /// Refuses a p_min that it can't honour. Errors: invalid_argument.
    virtual Status check_p_min(float p_min) const {
        (void)p_min;
        return ok();
    }

    /// For tests; empty: none.
    virtual void set_probe(const DraftProbe& probe) { (void)probe; }
};

/// ngram-simple (draft-models.md 11.1): n = length of the key, m = most tokens to draft.
std::unique_ptr<Drafter> make_ngram_simple(int32_t n, int32_t m);

}  // namespace foresay::spec
