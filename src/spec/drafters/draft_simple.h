// draft-simple: an independent small model proposes. Owns that model's runner and which tokens its cache holds.
// Source: shared/spec/draft-models.md, section 4, with the cells of accepted drafts kept.
#pragma once

#include <memory>
#include <vector>

#include "model/runner.h"
#include "spec/drafter.h"
#include "spec/drafters/draft_vocab.h"
#include "spec/drafters/noise_draw.h"

namespace foresay::spec {

/// Why the drafter's vocabulary doesn't fit the target's, or ok (draft-models.md 4.1). The message names the first
/// differing id and both texts.
Status check_vocab_match(const vocab::Vocab& target, const vocab::Vocab& draft);

class DraftSimple : public Drafter {
  public:
    /// runner: of the draft model, with as many slots of the same size as the target. n_ubatch: most rows in one pass
    /// while catching up with a prompt. n_scored: ids that are candidates, the first ones; 0: chosen by the text.
    static Result<std::unique_ptr<DraftSimple>> create(std::unique_ptr<model::Runner> runner,
                                                       std::shared_ptr<const vocab::Vocab> target, int32_t n_ubatch,
                                                       int32_t n_scored = 0);

    std::string_view name() const override { return "draft-simple"; }

    bool can_draw() const override { return true; }

    bool draws_by_default() const override { return true; }

    Status propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) override;
    void shifted(int slot, int32_t keep, int32_t discard) override;
    void reset(int slot) override;
    int32_t n_missed(int slot, std::span<const TokenId> tokens) const override;
    std::vector<std::byte> save(int slot, std::span<const TokenId> text) const override;
    Status restore(int slot, std::span<const std::byte> state) override;
    size_t memory_bytes() const override;
    size_t state_bytes() const override;

    size_t compute_bytes() const override { return runner_->compute_bytes(); }

    const model::Runner& runner() const { return *runner_; }

  private:
    DraftSimple() = default;

    struct SlotState {
        std::vector<TokenId> tokens;  ///< what the cache holds, position by position
        NoiseDraw noise;
    };

    /// Tokens in the slot's cache that the text begins with.
    int32_t n_common(int slot, std::span<const TokenId> text) const;
    Status propose_all(std::span<const DraftRequest> requests, std::vector<Draft>& drafts);
    /// Brings every active slot's cache up to its context; logits[k]: after the last token of active[k].
    Status catch_up(std::span<const DraftRequest> requests, const std::vector<size_t>& active,
                    std::vector<std::span<const float>>& logits);
    /// q: filled where the request wants it and the token was drawn.
    Result<TokenId> choose(const DraftRequest& request, std::span<const float> logits, int32_t i_draft, bool* stop,
                           std::vector<DraftProb>* q);

    std::unique_ptr<model::Runner> runner_;
    std::shared_ptr<const vocab::Vocab> target_vocab_;
    std::vector<SlotState> slots_;
    int32_t n_ubatch_ = 512;
    DraftVocab scored_;
    std::vector<TokenId> differing_;  ///< of the first ids: those that mean something else to the target, never drafted
    std::vector<float> row_;          ///< logits without them
};

}  // namespace foresay::spec
