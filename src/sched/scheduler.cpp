#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>

#include "base/assert.h"
#include "base/log.h"

namespace foresay::sched {
namespace {

using graph::Graph;
using graph::index;
using graph::TensorId;

constexpr size_t kMaxBackends = 64;
#ifdef FORESAY_DEBUG
constexpr bool kIsDebug = true;
#else
constexpr bool kIsDebug = false;
#endif

/// Planning memory per tensor beside the table: home, step, offset, block, lists, operands.
constexpr size_t kPlanBytesPerTensor = 128;

}  // namespace

/// Everything that a build makes before it is committed: dropping it is the rollback.
struct Scheduler::Draft {
    std::optional<TensorTable> table;  ///< when it had to grow
    std::unique_ptr<Plan> plan;
    std::vector<std::unique_ptr<backend::Buffer>> buffers;  ///< by backend; null: the present one will do
    std::vector<std::byte*> base;                           ///< by backend: where the plan will run
    size_t bytes = 0;                                       ///< of the last allocation asked for
};

/// A plan's operand table as a backend sees it.
class Plan::Operands : public backend::Placement {
  public:
    Operands(const Graph& graph, const Plan& plan) : graph_(graph), plan_(plan) {}

    std::byte* result(TensorId node) const override { return plan_.address(graph_, node); }

    std::byte* source(TensorId node, int i) const override {
        const Assignment& a = plan_.assignment_;
        const auto step = static_cast<size_t>(a.step_of[index(node)]);
        const int32_t c = a.operand_copy[a.first_operand[step] + static_cast<size_t>(i)];
        if (c < 0) {
            return plan_.address(graph_, graph_.tensor(node).src[static_cast<size_t>(i)]);
        }
        const CopyRecord& copy = a.copies[static_cast<size_t>(c)];
        return plan_.base_[static_cast<size_t>(copy.to)] + copy.offset;
    }

  private:
    const Graph& graph_;
    const Plan& plan_;
};

Scheduler::Scheduler(std::vector<backend::Backend*> backends, SchedulerOptions options)
    : backends_(std::move(backends)),
      options_(std::move(options)),
      table_(options_.initial_capacity),
      buffers_(backends_.size()) {
    options_.max_plans = std::max(options_.max_plans, 1);
    plans_.reserve(static_cast<size_t>(options_.max_plans) + 1);
    stats_.hash_capacity = table_.capacity();
}

Scheduler::~Scheduler() = default;

Result<std::unique_ptr<Scheduler>> Scheduler::create(std::vector<backend::Backend*> backends,
                                                     SchedulerOptions options) {
    if (backends.empty() || backends.size() > kMaxBackends ||
        std::find(backends.begin(), backends.end(), nullptr) != backends.end()) {
        return error(Code::kInvalidArgument,
                     fmt::format("{} backends given, 1 to {} are possible", backends.size(), kMaxBackends),
                     "scheduler");
    }
    const size_t bytes = TensorTable::bytes(options.initial_capacity);
    try {
        return std::unique_ptr<Scheduler>(new Scheduler(std::move(backends), std::move(options)));
    } catch (const std::bad_alloc&) {
        return error(Code::kOutOfMemory, fmt::format("no {} bytes for the tensor table", bytes), "scheduler");
    } catch (const std::length_error&) {
        return error(Code::kOutOfMemory, fmt::format("no {} bytes for the tensor table", bytes), "scheduler");
    }
}

Status Scheduler::allow(size_t bytes, std::string_view what) const {
    if (options_.allow_allocation && !options_.allow_allocation(bytes)) {
        return error(Code::kOutOfMemory, fmt::format("no {} bytes for {}", bytes, what), "scheduler");
    }
    return ok();
}

Error Scheduler::annotate(Error error, const Graph& graph, size_t bytes) const {
    if (error.code == Code::kOutOfMemory) {
        error.message +=
            fmt::format(": n_nodes {}, n_leafs {}, required {}, hash_capacity {}, bytes {}", graph.nodes().size(),
                        graph.leafs().size(), table_.required(graph.n_tensors()), table_.capacity(), bytes);
        error.hint = "the scheduler is as before; a smaller batch or draft length needs less";
    }
    return error;
}

void Scheduler::log_growth(std::string_view entry) const {
    log::debug("scheduler table grown in {}: hash_capacity={} n_nodes={} n_leafs={} required={} growths={} ({})", entry,
               stats_.hash_capacity, stats_.n_nodes, stats_.n_leafs, stats_.required, stats_.growths, context_);
}

// --- pins -------------------------------------------------------------------------------------------------------

Status Scheduler::make_room_for_pin() {
    const size_t required = table_.n_keys() + 1;
    const size_t capacity = table_.grown_capacity(required);
    if (capacity == table_.capacity()) {
        return ok();
    }
    FORESAY_CHECK_OK(allow(TensorTable::bytes(capacity), "the tensor table"));
    try {
        table_ = table_.grown(capacity);
    } catch (const std::bad_alloc&) {
        return error(Code::kOutOfMemory, fmt::format("no {} bytes for {} pins", TensorTable::bytes(capacity), required),
                     "scheduler");
    }
    stats_.hash_capacity = table_.capacity();
    stats_.required = required;
    ++stats_.growths;
    log_growth("pin");
    return ok();
}

Status Scheduler::pin(const graph::Storage* storage, int backend) {
    if (storage == nullptr || backend < 0 || static_cast<size_t>(backend) >= backends_.size()) {
        return error(Code::kInvalidArgument, fmt::format("pin to backend {} of {}", backend, backends_.size()),
                     "scheduler");
    }
    FORESAY_CHECK_OK(make_room_for_pin());
    table_.insert(storage, false).pinned = static_cast<int16_t>(backend);
    return ok();
}

Status Scheduler::pin(const Graph& graph, TensorId id, int backend) {
    if (static_cast<int32_t>(id) < 0 || index(id) >= graph.n_tensors() || backend < 0 ||
        static_cast<size_t>(backend) >= backends_.size()) {
        return error(Code::kInvalidArgument,
                     fmt::format("pin of tensor {} of {} to backend {} of {}", static_cast<int32_t>(id),
                                 graph.n_tensors(), backend, backends_.size()),
                     "scheduler");
    }
    FORESAY_CHECK_OK(make_room_for_pin());
    table_.insert(&graph.tensor(id), true).pinned = static_cast<int16_t>(backend);
    return ok();
}

// --- planning ---------------------------------------------------------------------------------------------------

/// Capacity, assignment, memory. Touches only the draft and the table's scratch rows.
Status Scheduler::prepare(const Graph& graph, bool need_storage, Draft& draft) {
    FORESAY_CHECK_OK(graph.validate());
    const size_t n = graph.n_tensors();
    const size_t capacity = table_.grown_capacity(table_.required(n));
    if (capacity != table_.capacity()) {
        draft.bytes = TensorTable::bytes(capacity);
        FORESAY_CHECK_OK(allow(draft.bytes, "the tensor table"));
        draft.table.emplace(table_.grown(capacity));
    }
    TensorTable& table = draft.table ? *draft.table : table_;
    draft.bytes = n * kPlanBytesPerTensor;
    FORESAY_CHECK_OK(allow(draft.bytes, "the plan"));
    draft.plan.reset(new Plan());
    FORESAY_TRY(draft.plan->assignment_, assign(graph, backends_, table, need_storage));
    FORESAY_TRY(draft.plan->memory_, place(graph, draft.plan->assignment_, table, backends_.size(), options_.in_place));
    if (kIsDebug) {
        draft.plan->hash_ = graph.structural_hash();
        const std::string overlap = find_overlap(draft.plan->memory_.blocks);
        if (!overlap.empty()) {
            return error(Code::kInternal, overlap, "memory plan");
        }
    } else {
        draft.plan->memory_.blocks = {};  // only the check reads them
    }
    return ok();
}

/// New buffers for the backends whose present one is too small; the present ones stay until commit.
Status Scheduler::get_buffers(Draft& draft) {
    draft.buffers.resize(backends_.size());
    draft.base.resize(backends_.size());
    for (size_t b = 0; b < backends_.size(); ++b) {
        const size_t needed = draft.plan->memory_.buffer_bytes[b];
        const size_t present = buffers_[b] == nullptr ? 0 : buffers_[b]->size();
        if (needed > present) {
            // A quarter more, so that the next width doesn't grow again; exactly what's needed when memory is tight.
            const size_t roomy = needed + needed / 4;
            draft.bytes = needed;
            const std::string what = fmt::format("activations on {}", backends_[b]->name());
            Status allowed = allow(roomy, what);
            auto buffer =
                allowed ? backends_[b]->allocate(roomy) : Result<std::unique_ptr<backend::Buffer>>(allowed.error());
            if (!buffer) {
                FORESAY_CHECK_OK(allow(needed, what));
                buffer = backends_[b]->allocate(needed);
            }
            if (!buffer) {
                return std::move(buffer).error();
            }
            draft.buffers[b] = std::move(*buffer);
        }
        backend::Buffer* buffer = draft.buffers[b] != nullptr ? draft.buffers[b].get() : buffers_[b].get();
        draft.base[b] = buffer == nullptr ? nullptr : buffer->data();
    }
    return ok();
}

/// Programs for all splits at these addresses; the plan is changed only when all of them could be made.
Status Scheduler::compile(const Graph& graph, Plan& plan, std::span<std::byte* const> base) {
    const std::vector<std::byte*> old_base =
        std::exchange(plan.base_, std::vector<std::byte*>(base.begin(), base.end()));
    std::vector<std::unique_ptr<backend::Program>> programs;
    const Plan::Operands operands(graph, plan);
    const auto build = [&]() -> Status {
        programs.reserve(plan.assignment_.splits.size());
        for (const Split& split : plan.assignment_.splits) {
            const std::span<const TensorId> steps(plan.assignment_.steps);
            const auto nodes = steps.subspan(static_cast<size_t>(split.first_step),
                                             static_cast<size_t>(split.end_step - split.first_step));
            FORESAY_TRY(auto program, backends_[static_cast<size_t>(split.backend)]->compile(graph, nodes, operands));
            programs.push_back(std::move(program));
        }
        return ok();
    };
    Status status = ok();
    try {
        status = build();
    } catch (...) {
        plan.base_ = old_base;
        throw;
    }
    if (!status) {
        plan.base_ = old_base;
        return status;
    }
    plan.programs_ = std::move(programs);
    return ok();
}

/// Host copies of inputs and outputs on backends whose memory the host can't touch, and room for copies between two of
/// them.
void Scheduler::add_staging(const Graph& graph, Plan& plan) {
    for (size_t i = 0; i < graph.n_tensors(); ++i) {
        const TensorId id{static_cast<int32_t>(i)};
        const graph::Tensor& t = graph.tensor(id);
        const int16_t home = plan.assignment_.home[i];
        if ((t.flags & (graph::kInput | graph::kOutput)) == 0 || home < 0 ||
            backends_[static_cast<size_t>(home)]->is_host()) {
            continue;
        }
        for (const uint32_t flag : {graph::kInput, graph::kOutput}) {
            if ((t.flags & flag) != 0) {
                plan.staging_.push_back({id, std::vector<std::byte>(t.span_bytes()), flag == graph::kInput});
            }
        }
    }
    for (const CopyRecord& copy : plan.assignment_.copies) {
        const bool direct =
            backends_[static_cast<size_t>(copy.from)]->is_host() || backends_[static_cast<size_t>(copy.to)]->is_host();
        if (!direct && copy.bytes > plan.bounce_.size()) {
            plan.bounce_.resize(copy.bytes);
        }
    }
}

/// Runs a build with its one catch of bad_alloc and the figures in every out_of_memory error.
template <typename F>
Status Scheduler::guarded(const Graph& graph, Draft& draft, F&& body) {
    Status status = ok();
    try {
        status = body();
    } catch (const std::bad_alloc&) {
        status = error(Code::kOutOfMemory, fmt::format("no memory for the plan ({} bytes asked last)", draft.bytes),
                       "scheduler");
    } catch (const std::length_error&) {
        status = error(Code::kOutOfMemory, fmt::format("no memory for the plan ({} bytes asked last)", draft.bytes),
                       "scheduler");
    }
    if (!status) {
        ++stats_.plan_failures;
        return annotate(std::move(status).error(), graph, draft.bytes);
    }
    return ok();
}

/// Nothing here can fail: pointer swaps and counters.
void Scheduler::commit(Draft& draft, const Graph& graph) {
    const bool grew = draft.table.has_value();
    if (grew) {
        table_ = std::move(*draft.table);
        ++stats_.growths;
    }
    bool moved = false;
    for (size_t b = 0; b < backends_.size(); ++b) {
        if (draft.buffers[b] != nullptr) {
            buffers_[b] = std::move(draft.buffers[b]);
            ++stats_.buffer_growths;
            moved = true;
        }
    }
    epoch_ += moved ? 1 : 0;
    stats_.buffer_bytes = 0;
    for (const auto& buffer : buffers_) {
        stats_.buffer_bytes += buffer == nullptr ? 0 : buffer->size();
    }
    stats_.hash_capacity = table_.capacity();
    stats_.n_nodes = graph.nodes().size();
    stats_.n_leafs = graph.leafs().size();
    stats_.required = table_.required(graph.n_tensors());
    stats_.max_probe = table_.max_probe();
    stats_.copies = draft.plan->assignment_.copies.size();
    stats_.splits = draft.plan->assignment_.splits.size();
    stats_.in_place = draft.plan->memory_.n_in_place;
    if (grew) {
        log_growth("plan");
    }
}

Status Scheduler::reserve(const Graph& graph) {
    Draft draft;
    const auto build = [&]() -> Status {
        FORESAY_CHECK_OK(prepare(graph, false, draft));
        return get_buffers(draft);
    };
    FORESAY_CHECK_OK(guarded(graph, draft, build));
    commit(draft, graph);
    return ok();
}

size_t Scheduler::compute_bytes() const {
    size_t total = stats_.buffer_bytes;
    for (const auto& plan : plans_) {
        for (const auto& program : plan->programs_) {
            total += program->bytes();
        }
    }
    return total;
}

size_t Scheduler::find_index(const PlanKey& key) const {
    // At most max_plans keys of 16 bytes: a scan is as fast as a map and never allocates.
    const auto it = std::find_if(plans_.begin(), plans_.end(), [&key](const auto& plan) { return plan->key_ == key; });
    return static_cast<size_t>(it - plans_.begin());
}

Result<Plan*> Scheduler::find(const PlanKey& key) {
    const size_t i = find_index(key);
    if (i == plans_.size()) {
        ++stats_.plan_misses;
        return static_cast<Plan*>(nullptr);
    }
    Plan& plan = *plans_[i];
    if (plan.epoch_ != epoch_) {
        Draft draft;
        const auto build = [&]() -> Status {
            draft.bytes = plan.graph_.n_tensors() * kPlanBytesPerTensor;
            FORESAY_CHECK_OK(allow(draft.bytes, "programs"));
            std::vector<std::byte*> base;
            for (const auto& buffer : buffers_) {
                base.push_back(buffer == nullptr ? nullptr : buffer->data());
            }
            return compile(plan.graph_, plan, base);
        };
        FORESAY_CHECK_OK(guarded(plan.graph_, draft, build));
        plan.epoch_ = epoch_;
        ++stats_.plan_replacements;
    }
    ++stats_.plan_hits;
    plan.last_used_ = ++clock_;
    return &plan;
}

Status Scheduler::check_key(const PlanKey& key, const Graph& graph) const {
    const size_t i = find_index(key);
    if (i != plans_.size() && plans_[i]->graph_.structural_hash() != graph.structural_hash()) {
        return error(Code::kInternal, fmt::format("key {:016x}{:016x} stands for two different graphs", key.hi, key.lo),
                     "plan cache");
    }
    return ok();
}

Result<Plan*> Scheduler::plan(const PlanKey& key, Graph&& graph) {
    if (kIsDebug) {
        FORESAY_CHECK_OK(check_key(key, graph));
    }
    const auto start = std::chrono::steady_clock::now();
    Draft draft;
    const auto build = [&]() -> Status {
        FORESAY_CHECK_OK(prepare(graph, true, draft));
        FORESAY_CHECK_OK(get_buffers(draft));
        draft.bytes = graph.n_tensors() * kPlanBytesPerTensor;
        FORESAY_CHECK_OK(allow(draft.bytes, "programs"));
        FORESAY_CHECK_OK(compile(graph, *draft.plan, draft.base));
        add_staging(graph, *draft.plan);
        return ok();
    };
    FORESAY_CHECK_OK(guarded(graph, draft, build));
    commit(draft, graph);
    table_.drop_transient(graph.tensors().data(), graph.tensors().data() + graph.n_tensors());
    Plan& made = *draft.plan;
    made.key_ = key;
    made.epoch_ = epoch_;
    made.current_epoch_ = &epoch_;
    made.last_used_ = ++clock_;
    made.graph_ = std::move(graph);
    ++stats_.plans_built;
    stats_.plan_us = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count());
    if (const size_t i = find_index(key); i != plans_.size()) {
        plans_[i] = std::move(draft.plan);
        return &made;
    }
    if (plans_.size() >= static_cast<size_t>(options_.max_plans)) {
        const auto oldest = std::min_element(
            plans_.begin(), plans_.end(), [](const auto& a, const auto& b) { return a->last_used_ < b->last_used_; });
        plans_.erase(oldest);
        ++stats_.plan_evictions;
    }
    plans_.push_back(std::move(draft.plan));
    return &made;
}

// --- execution --------------------------------------------------------------------------------------------------

Status Scheduler::execute(Plan& plan) {
    if (plan.epoch_ != epoch_) {
        return error(Code::kInvalidArgument, "the plan is older than the activation buffers", "scheduler",
                     "find() it again");
    }
    for (const Plan::Staging& staging : plan.staging_) {
        if (staging.is_input) {
            backends_[static_cast<size_t>(plan.assignment_.home[index(staging.id)])]->write(
                plan.address(plan.graph_, staging.id), staging.bytes);
        }
    }
    for (size_t s = 0; s < plan.assignment_.splits.size(); ++s) {
        const Split& split = plan.assignment_.splits[s];
        for (int32_t c = split.first_copy; c < split.end_copy; ++c) {
            const CopyRecord& copy = plan.assignment_.copies[static_cast<size_t>(c)];
            backend::Backend& from = *backends_[static_cast<size_t>(copy.from)];
            backend::Backend& to = *backends_[static_cast<size_t>(copy.to)];
            const std::byte* source = plan.address(plan.graph_, copy.tensor);
            std::byte* target = plan.base_[static_cast<size_t>(copy.to)] + copy.offset;
            if (from.is_host()) {
                to.write(target, {source, copy.bytes});
            } else if (to.is_host()) {
                from.read({target, copy.bytes}, source);
            } else {
                from.read({plan.bounce_.data(), copy.bytes}, source);
                to.write(target, {plan.bounce_.data(), copy.bytes});
            }
        }
        backends_[static_cast<size_t>(split.backend)]->run(*plan.programs_[s]);
    }
    for (Plan::Staging& staging : plan.staging_) {
        if (!staging.is_input) {
            backends_[static_cast<size_t>(plan.assignment_.home[index(staging.id)])]->read(
                staging.bytes, plan.address(plan.graph_, staging.id));
        }
    }
    ++stats_.executions;
    return ok();
}

}  // namespace foresay::sched
