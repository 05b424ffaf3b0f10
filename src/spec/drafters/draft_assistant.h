// draft-mtp with a Gemma 4 assistant: a few layers whose queries read the target's keys and values. It keeps nothing
// but the target's newest hidden row; every step stands at the same position. Source: shared/spec/draft-models.md, 5.
#pragma once

#include <memory>

#include "spec/drafters/feature_drafter.h"

namespace foresay::spec {

/// The target's layers whose keys an assistant's full and sliding layers read: of each kind the last that owns its
/// own; -1 where the assistant has no layer of the kind. Errors: unsupported (widths or heads don't fit).
struct AssistantLayers {
    int full = -1;
    int sliding = -1;
};

Result<AssistantLayers> match_assistant(const model::Hparams& target, const model::Hparams& draft);

class DraftAssistant final : public FeatureDrafter {
  public:
    /// setup.target_runner: whose cache it reads. Errors: unsupported (match_assistant), out_of_memory.
    static Result<std::unique_ptr<Drafter>> create(const FeatureDrafterSetup& setup);

    std::string_view name() const override { return "draft-mtp"; }

    bool can_draw() const override { return true; }

    model::TapSpec taps() const override;

  protected:
    /// Rows before the newest are of no use.
    Status store(std::span<const Pending>) override { return ok(); }

    Status draft_all(std::vector<Active>& active) override;

    bool catches_up() const override { return true; }

    void copy_row(const model::Runner& target, size_t i_row, std::span<float> row) const override;

  private:
    DraftAssistant(std::unique_ptr<Net> net, size_t row_width, const FeatureDrafterSetup& setup)
        : FeatureDrafter(std::move(net), row_width, setup), kv_(setup.target_runner->kv()) {}

    void build(NetGraph& g, int32_t n) const;

    const memory::KvCache& kv_;  ///< the target's
    AssistantLayers layers_;
};

}  // namespace foresay::spec
