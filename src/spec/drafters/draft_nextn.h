// draft-mtp with NextN blocks: a decoder layer of the target's own architecture, in the target's file or in one of its
// own, that turns (token, hidden row before it) into the next token. Cell p of its cache holds the token at p with the
// row of p - 1; position 0 goes with zeros. Source: shared/spec/draft-models.md, 6.
#pragma once

#include <memory>
#include <vector>

#include "spec/drafters/feature_drafter.h"

namespace foresay::spec {

class DraftNextn final : public FeatureDrafter {
  public:
    /// setup.draft: loaded with LoadOptions::nextn. Errors: unsupported (several blocks, an architecture without them),
    /// out_of_memory.
    static Result<std::unique_ptr<Drafter>> create(const FeatureDrafterSetup& setup);

    std::string_view name() const override { return "draft-mtp"; }

    bool can_draw() const override { return true; }

    model::TapSpec taps() const override;

    int32_t reusable(int, int32_t n_common) const override { return n_common - 1; }

  protected:
    Status store(std::span<const Pending> cells) override;
    Status draft_all(std::vector<Active>& active) override;

    bool catches_up() const override { return true; }

    /// Its cells reach one further than the log's.
    int32_t extra_cells() const override { return 1; }

    void copy_row(const model::Runner& target, size_t i_row, std::span<float> row) const override;

  private:
    DraftNextn(std::unique_ptr<Net> net, size_t row_width, const FeatureDrafterSetup& setup)
        : FeatureDrafter(std::move(net), row_width, setup), zeros_(row_width, 0.0F) {}

    /// One row of a pass: a token in a cell of a slot, and the hidden row that goes with it.
    struct Row {
        TokenId token = 0;
        int32_t cell = 0;
        int slot = 0;
        std::span<const float> hidden;
        bool is_output = false;
    };

    Result<NetPass> run(const std::vector<Row>& rows);

    std::vector<float> zeros_;
};

}  // namespace foresay::spec
