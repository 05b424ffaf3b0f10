// The engine: slots, continuous batching, prompt cache, speculation, request lifecycle. Must not know JSON or HTTP.
// One engine thread owns all model state; other threads talk to it through submit(), cancel() and snapshots.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sampling/sampler.h"
#include "spec/acceptance.h"
#include "spec/ngram.h"
#include "spec/spec_type.h"
#include "tensor/dtype.h"
#include "vocab/vocab.h"

namespace foresay::engine {

using vocab::TokenId;

using spec::SpecType;

/// Speculation settings of the server; a request may lower or change them (SpecRequest).
struct SpecOptions : spec::AcceptanceOptions {
    std::vector<SpecType> types;  ///< several: a later one drafts where the earlier ones gave nothing (spec_type.h)
    std::string draft_model;      ///< path; without a type in `types` that runs a model, its file says which
    DType draft_cache_type_k = DType::kF16;
    DType draft_cache_type_v = DType::kF16;
    int32_t n_max = 3;  ///< of drafters with a model; n-gram types have their own
    int32_t n_min = 0;
    float p_min = 0.0F;
    int32_t draft_vocab = 0;  ///< ids that draft-simple chooses among, the first ones; 0: by the text; INT32_MAX: all
    bool adaptive = false;    ///< choose the draft length by what pays; the command line's default is true
    /// Draft with the target's noise at temperature > 0, or greedily; absent: as each type does best
    /// (Drafter::draws_by_default).
    std::optional<bool> probabilistic;
    spec::NgramOptions ngram;

    /// Whether something was asked to draft.
    bool any() const { return !types.empty() || !draft_model.empty(); }
};

struct SpecRequest {
    std::optional<int32_t> n_max;
    std::optional<int32_t> n_min;
    std::optional<float> p_min;
    std::optional<bool> adaptive;
    std::optional<bool> probabilistic;
    std::optional<spec::Rule> rule;
    std::optional<int32_t> relaxed_top_n;
    std::optional<float> relaxed_delta;
    std::optional<int32_t> relaxed_max_tokens;
    std::optional<float> relaxed_max_gap;
    std::optional<spec::Scope> relaxed_scope;
    std::optional<float> typical_epsilon;
    std::optional<float> typical_delta;
};

/// Speculation as it is in force for one task: the server's settings under the request's.
struct SpecInForce : spec::AcceptanceOptions {
    int32_t n_max = 0;
    int32_t n_min = 0;
    float p_min = 0.0F;
    bool adaptive = false;
    std::optional<bool> probabilistic;
};

/// How the rows of a text become one vector.
enum class Pooling { kNone, kMean, kCls, kLast };

struct EngineOptions {
    std::string model;
    std::string alias;     ///< shown as the model's name; empty: the path
    int32_t n_ctx = 4096;  ///< total over all slots; each slot gets n_ctx / n_parallel; 0: the model's training context
    int32_t n_parallel = 1;
    int32_t n_batch = 2048;
    int32_t n_ubatch = 512;  ///< most rows in one forward pass
    int32_t n_threads = 0;   ///< 0: physical cores available to the process
    std::string cpu_isa = "auto";
    std::string device = "cpu";  ///< "cpu" or "reference"
    DType cache_type_k = DType::kF16;
    DType cache_type_v = DType::kF16;
    bool context_shift = false;
    int32_t n_keep = 0;  ///< default of requests
    bool repack = true;
    bool embeddings = false;         ///< requests with `embed` are served
    std::optional<Pooling> pooling;  ///< absent: what the file says, else mean
    SpecOptions spec;
    std::function<void(const std::string& stage, float fraction)> progress;  ///< load progress, 0..1; may be empty
};

struct Request {
    std::vector<TokenId> prompt;
    sampling::Params sampling;
    int32_t n_predict = -1;  ///< -1: until the end or the context is full; 0: prompt only
    int32_t n_keep = 0;      ///< kept at a context shift; -1 all of the prompt
    int32_t n_discard = 0;   ///< dropped per shift; 0: half of the rest
    std::vector<std::string> stop;
    bool embed = false;  ///< no text: the pooled hidden rows of the prompt, Sink::embedding()
    bool marks = false;  ///< fill TokenEvent::mark
    int32_t n_probs = 0;
    bool post_sampling_probs = false;
    bool cache_prompt = true;
    int32_t n_cache_reuse = 0;  ///< least run of equal tokens to take over by moving cells; 0: off (it changes results)
    /// Not 0: requests of one group share their prompt; the first evaluates it, the others wait for that and copy.
    uint64_t prompt_group = 0;
    std::vector<TokenId> shown_tokens;  ///< control tokens whose text is shown: marks of a chat template
    int32_t id_slot = -1;               ///< -1: any
    int64_t t_max_predict_ms = -1;
    SpecRequest spec;
};

enum class TokenKind { kPlain, kExact, kRelaxed };

struct TokenProb {
    TokenId id = 0;
    float value = 0.0F;  ///< log-probability, or probability with post_sampling_probs
};

/// What the verification saw at a token (Request::marks). Probabilities and rank are those that ranks are taken on:
/// after truncation, before temperature.
struct TokenMark {
    TokenId draft = vocab::kNoToken;  ///< what was proposed here; kNoToken: nothing
    TokenId target = 0;               ///< the target's own pick
    float p = 0.0F;                   ///< of the token
    float p_target = 0.0F;            ///< of the target's pick
    int32_t rank = -1;                ///< candidates above the token; -1: it is not among them
};

/// The pass that a token comes from; tokens of one pass share it.
struct PassInfo {
    std::chrono::steady_clock::time_point done_at;
    int32_t n_slots = 0;  ///< that took part
    int32_t n_rows = 0;
    double ms = 0.0;
};

/// One emitted token. text: what may be shown now (whole characters; text that may begin a stop string is withheld);
/// may be empty.
struct TokenEvent {
    TokenId id = 0;
    std::string text;
    TokenKind kind = TokenKind::kPlain;
    int32_t rank = 0;  ///< of a relaxed token
    PassInfo pass;
    TokenMark mark;              ///< with Request::marks
    TokenProb chosen;            ///< when n_probs > 0
    std::vector<TokenProb> top;  ///< when n_probs > 0
};

struct Timings {
    int32_t cache_n = 0;
    int32_t prompt_n = 0;
    double prompt_ms = 0.0;
    int32_t predicted_n = 0;
    double predicted_ms = 0.0;  ///< from the first token to the last
    int32_t draft_n = 0;
    int32_t draft_n_accepted = 0;  ///< exact and relaxed
    int32_t draft_n_relaxed = 0;
    int32_t draft_n_rejected = 0;     ///< judged and fallen; what stood behind such a token was never judged
    int32_t verify_steps = 0;         ///< steps that carried a draft
    double relaxed_rank_sum = 0.0;    ///< over relaxed tokens
    double relaxed_gap_sum = 0.0;     ///< summed ln p_max - ln p of relaxed tokens
    int32_t draft_rounds = 0;         ///< in which a draft might have been made
    int32_t draft_rounds_unpaid = 0;  ///< of these: the controller found that none pays
    std::string draft_off;  ///< at the end, with a drafter: why nothing was drafted; empty where something was
};

enum class StopType { kNone, kEos, kWord, kLimit };

struct Final {
    int slot = -1;
    StopType stop_type = StopType::kNone;
    std::string stopping_word;
    std::string text_tail;  ///< text withheld until the end that may now be shown
    bool truncated = false;
    bool has_new_line = false;
    int32_t tokens_cached = 0;
    uint32_t seed = 0;  ///< the seed in use
    Timings timings;
    // The speculation settings that were in force (echoed in the reply).
    SpecInForce spec;
};

/// Receives one request's events, on the engine thread: must not block. After final() or failed() nothing more comes.
class Sink {
  public:
    virtual ~Sink() = default;

    virtual void started(int slot) { (void)slot; }

    virtual void prompt_progress(int32_t processed, int32_t cached, int32_t total, double ms) {
        (void)processed, (void)cached, (void)total, (void)ms;
    }

    /// Of a request with `embed`, before final(): n_embd values, or those of every row with Pooling::kNone.
    virtual void embedding(std::vector<float>&& values) { (void)values; }

    virtual void token(const TokenEvent& event) = 0;
    virtual void final(const Final& result) = 0;
    virtual void failed(const Error& error) = 0;
};

struct SlotSnapshot {
    int id = 0;
    bool is_processing = false;
    int32_t n_ctx = 0;
    int64_t id_task = -1;
    int32_t n_prompt_tokens = 0;
    int32_t n_prompt_tokens_processed = 0;
    int32_t n_prompt_tokens_cache = 0;
    int32_t n_decoded = 0;
    int32_t n_remaining = -1;
    bool speculative = false;
    Request request;  ///< of the running or last task, prompt left out
};

enum class SlotAction { kSave, kRestore, kErase };

struct SlotFileResult {
    int32_t n_tokens = 0;  ///< held and saved, restored or erased
    uint64_t n_bytes = 0;  ///< of the file
    double ms = 0.0;
};

/// What verification made of drafts.
struct DraftCounts {
    uint64_t drafts = 0;  ///< steps that carried one
    uint64_t tokens = 0;
    uint64_t accepted = 0;  ///< exact and relaxed
    uint64_t relaxed = 0;
};

/// One drafter's work since start.
struct DrafterFigures {
    std::string name;
    uint64_t calls = 0;   ///< rounds in which it was asked, for all slots together
    uint64_t drafts = 0;  ///< that weren't empty
    uint64_t tokens = 0;  ///< in these
    uint64_t accepted = 0;
    double draft_ms = 0.0;
    double observe_ms = 0.0;  ///< taking over the target's rows
    uint64_t weight_bytes = 0;
    uint64_t state_bytes = 0;
};

/// Counters since start; all monotonic but the gauges.
struct Metrics {
    uint64_t prompt_tokens_total = 0;
    double prompt_seconds_total = 0.0;
    uint64_t tokens_predicted_total = 0;
    double predicted_seconds_total = 0.0;
    uint64_t n_decode_total = 0;
    uint64_t n_busy_slots_total = 0;  ///< summed over decode calls
    uint64_t draft_n_total = 0;
    uint64_t draft_n_accepted_total = 0;
    uint64_t draft_n_relaxed_total = 0;
    uint64_t draft_n_rejected_total = 0;
    double relaxed_rank_sum_total = 0.0;
    double relaxed_gap_sum_total = 0.0;
    uint64_t adaptive_off_total = 0;     ///< rounds of slots in which drafting was left out because it doesn't pay
    uint64_t adaptive_probes_total = 0;  ///< of these, rounds that tried all the same
    uint64_t verify_steps_total = 0;
    std::map<std::pair<std::string, std::string>, DraftCounts> drafts;  ///< by (drafter, acceptance rule)
    std::vector<DrafterFigures> drafters;         ///< in the order of attempts; as of the last request's end
    std::vector<uint64_t> accepted_per_position;  ///< [i]: accepted tokens at draft position i
    int32_t requests_processing = 0;              ///< gauge
    int32_t requests_deferred = 0;                ///< gauge: waiting for a slot
    uint64_t sched_hash_capacity = 0;             ///< gauge, target's scheduler
    uint64_t sched_n_nodes = 0;
    uint64_t sched_n_leafs = 0;
    uint64_t sched_growths_total = 0;
    uint64_t sched_plans_built_total = 0;
    uint64_t sched_plan_hits_total = 0;
    uint64_t sched_buffer_bytes = 0;
    uint64_t memory_bytes = 0;  ///< gauge, as of the last request's end: weights, caches, states, buffers of passes
    uint64_t state_bytes = 0;   ///< recurrent states with their snapshots; 0 without
    uint64_t n_tokens_max = 0;  ///< largest number of tokens seen in a slot
};

struct ModelInfo {
    std::string name;  ///< alias or path
    std::string path;
    std::string architecture;
    std::string description;  ///< "qwen2 1.5B Q4_K - Medium" or so
    uint64_t n_params = 0;
    uint64_t file_bytes = 0;
    int32_t n_vocab = 0;
    int32_t n_ctx_train = 0;
    int32_t n_embd = 0;
    int32_t n_ctx_slot = 0;
    int32_t n_parallel = 1;
    std::string cpu_isa;
    int32_t n_threads = 1;
    std::string spec_line;   ///< the start-up line: which drafter, n_max and rule are active, or why not
    std::string spec_types;  ///< "ngram-mod,draft-simple" or "none"
    int32_t spec_n_max = 0;  ///< longest draft of any drafter: the cap of a request's n_max
};

class Engine {
  public:
    /// Loads the model and the drafter, starts the engine thread. Errors: each naming the file, tensor or flag at
    /// fault.
    static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
    virtual ~Engine() = default;

    /// Queues a request. Errors (nothing is called on the sink then): empty prompt, token outside the vocabulary,
    /// prompt too long (capacity; message as llama-server's), bad slot id, bad sampler parameters, bad speculation
    /// values, shutting down. Threads: any. Returns the task id.
    virtual Result<int64_t> submit(Request request, std::shared_ptr<Sink> sink) = 0;
    /// Ends a task within one step; its sink gets failed(cancelled) unless it had ended. Threads: any.
    virtual void cancel(int64_t task) = 0;
    /// Saves a slot to the file, restores it from there, or empties it, as soon as the slot is idle. `done` is called
    /// on the engine thread and must not block. Errors (returned): bad slot id, shutting down. Errors (to done): see
    /// slot_file.h; after a failed restore the slot is empty. Threads: any.
    virtual Status slot_action(SlotAction action, int slot, std::string path,
                               std::function<void(Result<SlotFileResult>)> done) = 0;
    /// Stops the engine thread; running tasks get final() with what they have. Threads: any; returns when done.
    virtual void shutdown() = 0;

    virtual const ModelInfo& info() const = 0;
    virtual Pooling pooling() const = 0;  ///< in force for requests with `embed`
    virtual const EngineOptions& options() const = 0;
    virtual std::shared_ptr<const vocab::Vocab> vocab() const = 0;
    virtual std::vector<SlotSnapshot> slots() const = 0;  ///< threads: any
    virtual Metrics metrics() const = 0;                  ///< threads: any
};

}  // namespace foresay::engine
