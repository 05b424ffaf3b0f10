// Runs a model: rows in, logits out. Owns the model's KV cache and scheduler; a steady decode step finds its plan in
// the cache and neither builds nor plans nor allocates. Must not know sampling, requests or HTTP.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "memory/kv_cache.h"
#include "memory/state_cache.h"
#include "model/graph_context.h"
#include "model/model.h"
#include "sched/scheduler.h"

namespace foresay::model {

/// One token to evaluate: where it stands and whether its logits are wanted.
struct Row {
    vocab::TokenId token = 0;
    int32_t pos = 0;
    int32_t slot = 0;
    bool wants_logits = false;
};

struct RunnerOptions {
    int32_t n_slots = 1;
    int32_t n_ctx_slot = 4096;
    DType type_k = DType::kF16;
    DType type_v = DType::kF16;
    int32_t n_rollback = 0;       ///< how many tokens of a pass layers with a state can take back (0 and up)
    int32_t rollback_window = 1;  ///< of these, how many can be taken back over several passes, at the price of memory
    size_t scheduler_capacity = 2053;
    std::string label = "target";  ///< for the scheduler's figures in the log
};

class Runner {
  public:
    /// backends: priority order, the last one the fallback; the cache lives on the first.
    static Result<std::unique_ptr<Runner>> create(std::shared_ptr<const Model> model,
                                                  std::vector<backend::Backend*> backends,
                                                  const RunnerOptions& options);

    /// Evaluates the rows in order (rows of one slot: ascending positions that continue what its cache holds). Stores
    /// their keys and values. Returns the logits [n_vocab] of each row that wants them, in row order; they hold until
    /// the next call. When no row wants logits those of the last row are computed and returned. Errors: capacity
    /// (position past the slot), invalid_argument (a state that isn't held any more, see usable), out_of_memory. Row
    /// contract: a row's logits don't depend on the other rows of the call. n_head: only the logits of the first n_head
    /// ids, the same bits at the head's cost for these; 0: of all.
    Result<std::vector<std::span<const float>>> forward(std::span<const Row> rows, int32_t n_head = 0);

    /// From now on every forward() also delivers these rows; they don't change the logits' bits. Errors: a layer
    /// outside 0..n_layer; an architecture that can't deliver one.
    Status set_taps(TapSpec taps);

    const TapSpec& taps() const { return tap_spec_; }

    /// Of the last forward(): [n_rows][n_embd] of the i-th tapped layer; holds until the next call.
    std::span<const float> tap(size_t i) const { return tap_rows_[i]; }

    /// The same for TapSpec::hidden.
    std::span<const float> hidden() const { return hidden_rows_; }

    /// Context shift of one slot that holds n positions: see memory::KvCache::shift.
    void shift(int slot, int32_t n, int32_t keep, int32_t discard);

    /// The largest count of tokens, at most n, after which the slot can go on: n itself, except where layers with a
    /// state hold only the last ones.
    int32_t usable(int slot, int32_t n) const { return state_ == nullptr ? n : state_->usable(slot, n); }

    /// Makes room for the states of a pass over these rows, before it. Errors: out_of_memory; nothing is lost then.
    Status reserve(std::span<const Row> rows);

    /// Of a slot's last pass only the first n tokens of its text stand: snapshots behind them are given back.
    void settle(int slot, int32_t n) {
        if (state_ != nullptr) {
            state_->settle(slot, n);
        }
    }

    /// The slot holds no text any more.
    void forget(int slot) {
        if (state_ != nullptr) {
            state_->forget(slot);
        }
    }

    /// The recurrent state of a slot that holds n tokens, for slot files; empty without, and when it isn't held.
    std::vector<std::byte> save_state(int slot, int32_t n) const {
        return state_ == nullptr ? std::vector<std::byte>() : state_->save(slot, n);
    }

    size_t max_saved_state_bytes() const { return state_ == nullptr ? 0 : state_->max_saved_bytes(); }

    /// Errors: bad_file. Only of a model with a state.
    Status restore_state(int slot, int32_t n, std::span<const std::byte> saved) {
        return state_->restore(slot, n, saved);
    }

    /// How many tokens of a pass can be taken back; no limit without a state.
    int32_t max_rollback() const { return state_ == nullptr ? INT32_MAX : state_->n_rollback(); }

    bool has_state() const { return state_ != nullptr; }

    /// Bytes of recurrent state, 0 without.
    size_t state_bytes() const { return state_ == nullptr ? 0 : state_->bytes(); }

    /// Null without.
    const memory::StateCache* state() const { return state_.get(); }

    const Model& model() const { return *model_; }

    const std::shared_ptr<const Model>& shared_model() const { return model_; }

    memory::KvCache& kv() { return *kv_; }

    const memory::KvCache& kv() const { return *kv_; }

    /// Bytes of activation buffers and scratch of the passes so far.
    size_t compute_bytes() const { return scheduler_->compute_bytes(); }

    const sched::SchedulerStats& scheduler_stats() const { return scheduler_->stats(); }

    /// Context words of the scheduler's log lines: "draft-simple n_max=8".
    void set_context(std::string text) { scheduler_->set_context(std::move(text)); }

  private:
    Runner() = default;
    Result<sched::Plan*> plan_for(BatchShape shape);
    Status check_rows(std::span<const Row> rows) const;
    /// Room for the rows' states; plans that name a pool that has moved are forgotten.
    Status prepare_states(std::span<const Row> rows);
    /// Books the rows' states; steps[i]: the cells of row i.
    void take_states(std::span<const Row> rows);

    std::shared_ptr<const Model> model_;
    std::unique_ptr<memory::KvCache> kv_;
    std::unique_ptr<memory::StateCache> state_;  ///< null when no layer has a state
    std::unique_ptr<sched::Scheduler> scheduler_;
    std::string label_;
    std::vector<float> rope_factors_;
    /// The input and output ids of each shape; ids are the same whenever the same shape is built, so this never goes
    /// stale.
    std::unordered_map<uint64_t, GraphIo> io_;
    TapSpec tap_spec_;
    uint64_t plan_version_ = 0;  ///< plans of other taps or another pool of states aren't found again
    uint64_t state_version_ = 0;
    std::vector<memory::StateRun> runs_;    ///< of the pass at hand, one per slot
    std::vector<memory::StateStep> steps_;  ///< of its rows
    std::vector<std::span<const float>> tap_rows_;
    std::span<const float> hidden_rows_;
};

}  // namespace foresay::model
