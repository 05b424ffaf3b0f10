// Several drafters as one: each is asked, in order, for the slots that have no draft yet. Owns the drafters and their
// figures. Must not know acceptance rules or HTTP. Source: shared/spec/draft-models.md, sections 3.1, 3.2 and 17.2.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "spec/drafter.h"

namespace foresay::spec {

/// What one drafter has done since start.
struct DrafterStats {
    uint64_t calls = 0;       ///< rounds that reached this drafter, for all slots together
    uint64_t drafts = 0;      ///< non-empty drafts
    uint64_t tokens = 0;      ///< in these, after cutting
    uint64_t acc_drafts = 0;  ///< drafts with at least one accepted token
    uint64_t acc_tokens = 0;
    double draft_ms = 0.0;    ///< wall time in propose()
    double observe_ms = 0.0;  ///< in observe(): taking over the target's rows
};

class Chain final : public Drafter {
  public:
    /// Lowers n_max of the requests that a drafter is about to see, to what pays. Called only for costly drafters.
    using Planner = std::function<void(int drafter, std::span<DraftRequest> requests)>;

    /// Appends a drafter: call in the order of attempts. n_max: most tokens that it may draft at once. is_costly: it
    /// runs a model.
    void add(std::unique_ptr<Drafter> drafter, int32_t n_max, bool is_costly);

    void set_planner(Planner planner) { planner_ = std::move(planner); }

    bool empty() const { return links_.empty(); }

    size_t size() const { return links_.size(); }

    /// The longest draft that any of them may give.
    int32_t n_max() const;

    /// The names, comma between.
    std::string_view name() const override { return name_; }

    /// A request's n_max is the caller's limit (room, the request's own); each drafter gets the smaller of it and its
    /// own.
    Status propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) override;
    /// At most one drafter of a chain runs a model, so at most one taps the target.
    model::TapSpec taps() const override;
    Status observe(std::span<const model::Row> rows, const model::Runner& target) override;
    int32_t reusable(int slot, int32_t n_common) const override;
    Status check_p_min(float p_min) const override;
    void set_probe(const DraftProbe& probe) override;
    /// True when any of them can.
    bool can_draw() const override;
    void begin(int slot, std::span<const TokenId> prompt) override;
    /// `own` is ignored: the chain knows whose draft it was.
    void accepted(int slot, int32_t n_drafted, int32_t n_accepted, bool own) override;
    void shifted(int slot, int32_t keep, int32_t discard) override;
    void reset(int slot) override;
    /// At most one drafter of a chain has a state to save: the one that runs a model.
    std::vector<std::byte> save(int slot, std::span<const TokenId> text) const override;
    Status restore(int slot, std::span<const std::byte> state) override;
    size_t memory_bytes() const override;
    size_t compute_bytes() const override;

    Drafter& drafter(size_t i) { return *links_[i].drafter; }

    const Drafter& drafter(size_t i) const { return *links_[i].drafter; }

    const DrafterStats& stats(size_t i) const { return links_[i].stats; }

    int32_t n_max_of(size_t i) const { return links_[i].n_max; }

    DraftCost cost_of(size_t i) const { return links_[i].is_costly ? links_[i].drafter->cost() : DraftCost::kFree; }

  private:
    struct Link {
        std::unique_ptr<Drafter> drafter;
        int32_t n_max = 0;
        bool is_costly = false;
        DrafterStats stats;
    };

    std::vector<Link> links_;
    Planner planner_;
    std::string name_;
    std::vector<int> owner_;  ///< by slot: the link that drafted last, -1 none
};

}  // namespace foresay::spec
