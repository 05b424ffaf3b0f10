// The engine thread and its queue. Read in this order: engine.h (what it promises), slot.h, engine_impl.cpp (requests
// and slots), step.cpp (one round: draft, verify, emit).
#pragma once

#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include "backend/backend.h"
#include "engine/engine.h"
#include "engine/slot.h"
#include "grammar/grammar.h"
#include "model/runner.h"
#include "spec/chain.h"
#include "spec/controller.h"
#include "spec/verifier.h"

namespace foresay::engine {

class EngineImpl : public Engine {
  public:
    static Result<std::unique_ptr<EngineImpl>> create(const EngineOptions& options);
    ~EngineImpl() override;

    Result<int64_t> submit(Request request, std::shared_ptr<Sink> sink) override;
    void cancel(int64_t task) override;
    Status slot_action(SlotAction action, int slot, std::string path,
                       std::function<void(Result<SlotFileResult>)> done) override;
    void shutdown() override;

    const ModelInfo& info() const override { return info_; }

    Pooling pooling() const override { return pooling_; }

    const EngineOptions& options() const override { return options_; }

    std::shared_ptr<const vocab::Vocab> vocab() const override { return vocab_; }

    std::vector<SlotSnapshot> slots() const override;
    Metrics metrics() const override;

  private:
    EngineImpl() = default;

    // create.cpp
    Status load();
    Status load_drafters();
    /// file: of spec.draft_model, or of the target when a part of it drafts.
    Result<std::unique_ptr<spec::Drafter>> load_draft_model(SpecType type, std::shared_ptr<const gguf::File> file);
    Status prepare_embeddings();
    Status measure_target();
    void describe();

    // engine_impl.cpp: queue and slots
    void run();
    bool take_work();  ///< waits for work, starts tasks, applies cancels; false: shut down
    Slot* slot_for(const Task& task);

    struct SlotJob {
        SlotAction action;
        int slot;
        std::string path;
        std::function<void(Result<SlotFileResult>)> done;
    };

    void do_slot_jobs();
    Result<SlotFileResult> do_slot_job(const SlotJob& job);
    void start(Slot& slot, Task task);
    bool waits_for_prompt(const Task& task) const;
    int32_t reuse_prefix(Slot& slot, const Request& request);
    void move_chunks(Slot& slot, const Request& request);
    void finish(Slot& slot, StopType stop_type, std::string stopping_word, std::string text_tail);
    void fail(Slot& slot, const Error& error);
    void release(Slot& slot);
    void log_timings(const Slot& slot) const;
    void publish(const Slot& slot);
    std::vector<DrafterFigures> drafter_figures() const;
    void log_drafters() const;

    /// Bytes of weights, caches, states and buffers of passes as they are now.
    size_t memory_bytes() const;

    // step.cpp: one round
    struct Block;  ///< the rows of one slot in this round
    void step();
    void shift_if_full(Slot& slot);
    Status draft(std::vector<Block>& blocks);
    /// Sets how many tokens a drafter that runs a model may draft for each slot.
    void plan(int drafter, std::span<spec::DraftRequest> requests);
    /// Tells the controller what the planned drafts came to. given: one draft for each request.
    void book_drafting(std::span<const spec::DraftRequest> requests, std::span<const spec::Draft> given, double ms);
    /// For a reply without drafts, with a drafter loaded; else empty.
    std::string why_no_drafts(const Slot& slot) const;
    /// Cuts drafts to what is worth verifying in this round.
    void trim(std::span<Block* const> blocks, int32_t n_other_rows);
    /// Makes the rows of the blocks' drafts, with room for their states; drops the drafts where there is none. Returns
    /// the count of rows.
    int32_t lay_out(std::vector<Block>& blocks);
    Status decode(std::vector<Block>& blocks);
    void observe(std::span<const model::Row> rows);
    Status decode_prompt_only(std::vector<Block>& blocks);
    void verify(Block& block, std::span<const std::span<const float>> rows);
    /// Books what became of the block's draft.
    void count_verdicts(const Block& block);
    /// Shows one token; true when it ended the task.
    bool emit(Slot& slot, const spec::Emitted& emitted, TokenEvent event);
    void prompt_done(Slot& slot);
    void pool(Slot& slot, std::span<const float> rows);
    void finish_embedding(Slot& slot);

    EngineOptions options_;
    ModelInfo info_;
    std::shared_ptr<const vocab::Vocab> vocab_;
    std::unique_ptr<grammar::Library> grammars_;
    std::vector<std::unique_ptr<backend::Backend>> backends_;
    std::unique_ptr<model::Runner> runner_;
    std::unique_ptr<spec::Chain> drafter_;          ///< null: no speculation
    std::unique_ptr<spec::Controller> controller_;  ///< chooses draft lengths; null: no speculation
    std::vector<Slot> slots_;
    Pooling pooling_ = Pooling::kMean;
    uint64_t fingerprint_ = 0;        ///< of the model, for slot files; computed at first need
    uint64_t draft_fingerprint_ = 0;  ///< of the drafter's file; 0: without one
    spec::VerifyResult verify_result_;
    std::vector<TokenEvent> events_;
    PassInfo pass_;  ///< the last one

    /// What plan() has asked of the drafter that runs a model, in this round.
    struct Planned {
        int drafter = -1;  ///< -1: nothing
        int32_t n_missed = 0;
        int32_t n_longest = 0;
        double expected_ms = 0.0;                    ///< reading left out
        double ms = 0.0;                             ///< taken
        std::vector<std::pair<int, int32_t>> slots;  ///< slot, tokens
    };

    Planned planned_;
    int32_t n_draft_room_ = std::numeric_limits<int32_t>::max();  ///< the longest draft that memory had states for

    mutable std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Task> queue_;               // guarded by mutex_
    std::deque<SlotJob> slot_jobs_;        // guarded by mutex_
    std::set<int64_t> cancelled_;          // guarded by mutex_
    bool stopping_ = false;                // guarded by mutex_
    int64_t next_task_ = 0;                // guarded by mutex_
    std::vector<SlotSnapshot> snapshots_;  // guarded by mutex_
    Metrics metrics_;                      // guarded by mutex_
    std::thread thread_;
};

}  // namespace foresay::engine
