// draft-dflash and draft-dspark: one pass drafts a block, whose slots attend to each other and to features of the
// target's rows. dspark adds a Markov head that ties each slot to the token before it, and a confidence; DFlash2 adds
// convolutions along the block and a selector over each slot's best candidates.
// Source: shared/spec/draft-models.md, 9 and 10.
#pragma once

#include <memory>
#include <vector>

#include "spec/drafters/feature_drafter.h"

namespace foresay::spec {

class DraftDflash final : public FeatureDrafter {
  public:
    /// type: "draft-dflash" or "draft-dspark"; it must be what the file holds. Errors: invalid_argument (the file is of
    /// the other type), bad_file, out_of_memory.
    static Result<std::unique_ptr<Drafter>> create(std::string_view type, const FeatureDrafterSetup& setup);

    std::string_view name() const override { return is_dspark() ? "draft-dspark" : "draft-dflash"; }

    model::TapSpec taps() const override;
    int32_t n_max_limit() const override;

    DraftCost cost() const override { return DraftCost::kPerBlock; }

    Status check_p_min(float p_min) const override;

  protected:
    Status store(std::span<const Pending> cells) override;
    Status draft_all(std::vector<Active>& active) override;

  private:
    DraftDflash(std::unique_ptr<Net> net, size_t row_width, const FeatureDrafterSetup& setup)
        : FeatureDrafter(std::move(net), row_width, setup) {}

    const model::DrafterHparams& params() const { return net().draft().hparams().drafter; }

    bool is_dspark() const { return params().markov_rank > 0; }

    bool has_selector() const { return params().selector_rank > 0; }

    bool has_confidence() const { return !confidence_.empty(); }

    /// The first slot that predicts: 0 when the anchor's slot does (it then predicts the position behind its own).
    int32_t first_slot() const { return is_dspark() && params().sample_from_anchor ? 0 : 1; }

    /// What the block pass leaves for choosing, for the predicting slots of one request.
    struct Block {
        std::span<const float> logits;  ///< [n][n_vocab_draft]
        std::span<const float> hidden;  ///< [n][n_embd], after the final norm (with a confidence head)
        std::span<const float> gates;   ///< [n][selector_rank] (DFlash2)
        int32_t n = 0;
    };

    Status load_extras();
    Result<NetPass> run_blocks(const std::vector<Active>& active, std::vector<int32_t>& n_slots);
    Status walk_markov(std::vector<Active>& active, const std::vector<Block>& blocks);
    void walk_plain(Active& active, const Block& block);
    void walk_selector(Active& active, const Block& block);
    float confidence(std::span<const float> hidden, std::span<const float> markov_row) const;

    std::unique_ptr<Net> markov_;    ///< its passes must not overwrite the block's logits: plans share memory
    std::vector<float> confidence_;  ///< [n_embd + markov_rank], then the bias
    std::vector<float> biased_;      ///< scratch: one slot's logits
};

}  // namespace foresay::spec
