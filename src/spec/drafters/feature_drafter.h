// What drafters that feed on the target's rows share: one log per slot, when their cache catches up with it, what
// becomes of it on rollback, shift and reset. A drafter says which rows it taps, how a range of cells is stored, and
// how it drafts. Source: shared/spec/draft-models.md, 3, 8.4 and 9.5; only rows that stand are stored (its deviation).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "spec/drafter.h"
#include "spec/drafters/feature_log.h"
#include "spec/drafters/net.h"
#include "spec/drafters/noise_draw.h"

namespace foresay::spec {

/// The drafter's weights and what it needs of its surroundings.
struct FeatureDrafterSetup {
    std::shared_ptr<const model::Model> draft;
    std::shared_ptr<const model::Model> target;
    const model::Runner* target_runner = nullptr;  ///< whose cache an assistant reads
    backend::Backend* backend = nullptr;
    NetOptions net;
    int32_t n_ubatch = 512;     ///< most rows of one pass while catching up
    int32_t n_max = INT32_MAX;  ///< the server's: no block is longer, whatever a request asks
};

/// Target ids of the rows of a reduced head, or empty when there is no d2t. Errors: bad_file for ids outside the
/// target's vocabulary.
Result<std::vector<TokenId>> read_d2t(const model::Model& draft, int32_t n_vocab_target);

class FeatureDrafter : public Drafter {
  public:
    Status propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) final;
    Status observe(std::span<const model::Row> rows, const model::Runner& target) override;
    void shifted(int slot, int32_t keep, int32_t discard) override;
    void reset(int slot) override;
    int32_t n_missed(int slot, std::span<const TokenId> tokens) const override;
    std::vector<std::byte> save(int slot, std::span<const TokenId> text) const override;
    Status restore(int slot, std::span<const std::byte> state) override;
    size_t memory_bytes() const override;
    size_t state_bytes() const override;

    size_t compute_bytes() const override { return net_->compute_bytes(); }

    void set_probe(const DraftProbe& probe) override { probe_ = probe; }

    const sched::SchedulerStats& scheduler_stats() const { return net_->stats(); }

  protected:
    FeatureDrafter(std::unique_ptr<Net> net, size_t row_width, const FeatureDrafterSetup& setup);

    /// A request that will be drafted for, and its slot's log, which ends right before the last token.
    struct Active {
        const DraftRequest* request = nullptr;
        Draft* draft = nullptr;
        FeatureLog* log = nullptr;
        int32_t n_max = 0;
        int32_t n_block = 0;  ///< at least n_max: what a block drafter predicts in its pass
        int32_t cell = 0;     ///< of the last token: positions before it are in the log

        int slot() const { return request->slot; }

        TokenId last() const { return request->tokens.back(); }
    };

    /// One cell to store.
    struct Pending {
        int slot = 0;
        int32_t cell = 0;
        TokenId next = 0;  ///< the token behind it
        std::span<const float> row;
    };

    /// Writes these cells (of any slots; those of one slot ascend), at most n_ubatch of them.
    virtual Status store(std::span<const Pending> cells) = 0;
    /// Drafts for all. The logs' rows before `cell` are stored, or with catches_up() those from n_stored() on are left
    /// to it: it stores them and calls mark_stored(cell).
    virtual Status draft_all(std::vector<Active>& active) = 0;

    /// True: draft_all() makes one pass of the catch-up and its first step; at least the row before the last token is
    /// left to it.
    virtual bool catches_up() const { return false; }

    /// Cells that its cache needs beyond the log's.
    virtual int32_t extra_cells() const { return 0; }

    /// Copies one position's tapped rows into row [row_width].
    virtual void copy_row(const model::Runner& target, size_t i_row, std::span<float> row) const;

    /// The target's id of the i-th row of the drafter's head.
    TokenId target_id(TokenId draft_id) const { return d2t_.empty() ? draft_id : d2t_[static_cast<size_t>(draft_id)]; }

    /// True when drafting may go on behind this token.
    bool goes_on(TokenId id) const { return !target_vocab_->is_eog(id); }

    /// Appends the best token of `row` (logits of the drafter's head), or the one drawn from it with the target's
    /// noise, as the i-th of the draft, unless p_min or the target's vocabulary forbids it. Returns the token when the
    /// draft goes on behind it.
    std::optional<TokenId> take_next(Active& a, int32_t i_draft, std::span<const float> row);

    int32_t target_n_vocab() const { return n_vocab_target_; }

    void probe(int slot, int32_t i_draft, std::span<const float> logits) const {
        if (probe_) {
            probe_(slot, i_draft, logits);
        }
    }

    Net& net() { return *net_; }

    const Net& net() const { return *net_; }

    FeatureLog& log_of(int slot) { return logs_[static_cast<size_t>(slot)]; }

    int32_t n_ubatch() const { return n_ubatch_; }

    std::vector<TokenId> d2t_;

  private:
    /// Draws instead of taking the best: i-th token of the draft. Empty: nothing can be drawn.
    std::optional<TokenId> draw_next(Active& a, int32_t i_draft, std::span<const float> row);

    /// Cells in its cache when the log has stored n.
    int32_t cells_of(int32_t n_stored) const {
        return net_->has_cache() && n_stored > 0 ? n_stored + extra_cells() : 0;
    }

    std::unique_ptr<Net> net_;
    std::vector<FeatureLog> logs_;  ///< by slot
    std::shared_ptr<const vocab::Vocab> target_vocab_;
    int32_t n_vocab_target_ = 0;
    int32_t n_ubatch_ = 512;
    int32_t n_ctx_ = 0;
    int32_t n_max_ = INT32_MAX;
    DraftProbe probe_;
    std::vector<NoiseDraw> noise_;   ///< by slot
    std::vector<float> target_row_;  ///< a reduced head's logits at the target's ids
};

}  // namespace foresay::spec
