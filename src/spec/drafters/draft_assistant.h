// draft-mtp with a Gemma 4 assistant: a few layers whose queries read the target's keys and values. It keeps nothing
// but the target's newest hidden row; every step stands at the same position. Source: shared/spec/draft-models.md, 5.
#pragma once

#include <memory>

#include "spec/drafters/feature_drafter.h"

namespace foresay::spec {

class DraftAssistant final : public FeatureDrafter {
  public:
    /// setup.target_runner: whose cache it reads. Errors: unsupported (the target has no cache of the right shape for a
    /// kind of layer), out_of_memory.
    static Result<std::unique_ptr<Drafter>> create(const FeatureDrafterSetup& setup);

    std::string_view name() const override { return "draft-mtp"; }

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
    int full_layer_ = -1;        ///< the target's layers that full and sliding layers read
    int sliding_layer_ = -1;
};

}  // namespace foresay::spec
