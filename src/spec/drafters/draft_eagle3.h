// draft-eagle3: one decoder layer over the target's low, middle and high residual rows; every drafted token feeds the
// next. Cell P of its cache holds the pair (token at P + 1, target's rows at P). Source:
// shared/spec/draft-models.md, 8.
#pragma once

#include <memory>
#include <vector>

#include "spec/drafters/feature_drafter.h"

namespace foresay::spec {

class DraftEagle3 final : public FeatureDrafter {
  public:
    /// Errors: pair_problems' (pair.h), out_of_memory.
    static Result<std::unique_ptr<Drafter>> create(const FeatureDrafterSetup& setup);

    std::string_view name() const override { return "draft-eagle3"; }

    bool can_draw() const override { return true; }

    model::TapSpec taps() const override;

    int32_t reusable(int, int32_t n_common) const override { return n_common - 1; }

  protected:
    Status store(std::span<const Pending> cells) override;
    Status draft_all(std::vector<Active>& active) override;

    bool catches_up() const override { return true; }

  private:
    DraftEagle3(std::unique_ptr<Net> net, size_t row_width, const FeatureDrafterSetup& setup)
        : FeatureDrafter(std::move(net), row_width, setup) {}

    /// What one pass of the decoder layer is fed with, row by row.
    struct Rows {
        std::vector<TokenId> tokens;
        std::vector<int32_t> cells;  ///< in their slot
        std::vector<int> slots;
        std::vector<int32_t> outputs;  ///< rows whose logits are wanted, ascending
    };

    Result<NetPass> make_pass(const Rows& rows, bool encode, bool store_only);
    void fill(NetPass& pass, const Rows& rows, bool store_only);
};

}  // namespace foresay::spec
