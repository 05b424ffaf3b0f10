#include "model/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/assert.h"
#include "base/log.h"
#include "tensor/dequant.h"

namespace foresay::model {
namespace {

constexpr int32_t kMostRows = (1 << 20) - 1;   // of one pass: what a key has room for
constexpr int32_t kMostVocab = (1 << 24) - 1;  // ids, for the same reason

uint64_t shape_key(BatchShape shape) {
    return static_cast<uint64_t>(shape.n_head) << 40 | static_cast<uint64_t>(shape.n_rows) << 20 |
           static_cast<uint64_t>(shape.n_outputs);
}

std::span<int32_t> as_ints(std::span<std::byte> bytes) {
    return {reinterpret_cast<int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)};
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::create(std::shared_ptr<const Model> model,
                                               std::vector<backend::Backend*> backends, const RunnerOptions& options) {
    if (model->architecture().build == nullptr) {
        return error(Code::kUnsupported,
                     fmt::format("a model of architecture '{}' only drafts for another one", model->hparams().arch),
                     model->file().path(), "give it with --spec-draft-model and name its target with -m");
    }
    std::unique_ptr<Runner> runner(new Runner);
    const Hparams& h = model->hparams();
    std::vector<memory::KvLayer> layers;
    for (size_t layer = 0; layer < static_cast<size_t>(h.n_layer); ++layer) {
        if (h.is_recurrent[layer] || h.kv_owner[layer] != static_cast<int32_t>(layer)) {
            layers.emplace_back();
            continue;
        }
        layers.push_back({int64_t{h.head_dim_k[layer]} * h.n_head_kv[layer],
                          int64_t{h.head_dim_v[layer]} * h.n_head_kv[layer], h.head_dim_k[layer]});
    }
    FORESAY_TRY(runner->kv_, memory::KvCache::create(*backends.front(), std::move(layers), options.n_slots,
                                                     options.n_ctx_slot, options.type_k, options.type_v));
    if (h.has_state()) {
        std::vector<memory::StateLayer> states;
        for (const bool recurrent : h.is_recurrent) {
            states.push_back(
                recurrent ? memory::StateLayer{h.recurrent.conv_width, h.recurrent.head_dim, h.recurrent.n_value_head}
                          : memory::StateLayer{});
        }
        FORESAY_TRY(runner->state_, memory::StateCache::create(*backends.front(), states,
                                                               {.n_slots = options.n_slots,
                                                                .n_taps = h.recurrent.n_taps,
                                                                .n_rollback = options.n_rollback,
                                                                .n_window = options.rollback_window}));
        runner->state_version_ = runner->state_->version();
        runner->label_ = options.label;
    }
    sched::SchedulerOptions sched_options;
    sched_options.initial_capacity = options.scheduler_capacity;
    FORESAY_TRY(runner->scheduler_, sched::Scheduler::create(std::move(backends), sched_options));
    runner->scheduler_->set_context(options.label);
    const auto full = std::find(h.is_sliding.begin(), h.is_sliding.end(), false) - h.is_sliding.begin();
    const std::string_view factors =
        full < h.n_layer ? h.rope_factors_of(static_cast<int>(full), options.n_ctx_slot) : std::string_view();
    if (!factors.empty() && model->weight(factors) != nullptr) {
        // From the file, not from the storage: a backend may keep its weights anywhere.
        const gguf::TensorInfo* tensor = model->file().tensor(factors);
        runner->rope_factors_.resize(static_cast<size_t>(tensor->ne[0]));
        dequantize_row(*dtype_from_gguf(tensor->type), tensor->data.data(), runner->rope_factors_.data(),
                       tensor->ne[0]);
    }
    runner->model_ = std::move(model);
    return runner;
}

Result<sched::Plan*> Runner::plan_for(BatchShape shape) {
    const sched::PlanKey key{plan_version_, shape_key(shape)};
    FORESAY_TRY(sched::Plan * cached, scheduler_->find(key));
    if (cached != nullptr) {
        return cached;
    }
    GraphContext ctx(*model_, *kv_, state_.get(), shape, tap_spec_);
    model_->architecture().build(ctx);
    const GraphIo io = ctx.io();
    for (size_t i = 0; i < io.taps.size(); ++i) {
        if (io.taps[i] == kNoTensor) {
            return error(Code::kUnsupported,
                         fmt::format("{} hands out no rows at layer {}", model_->hparams().arch, tap_spec_.layers[i]));
        }
    }
    if (tap_spec_.hidden && io.hidden == kNoTensor) {
        return error(Code::kUnsupported, fmt::format("{} hands out no hidden rows", model_->hparams().arch));
    }
    FORESAY_TRY(graph::Graph graph, std::move(ctx).finish());
    FORESAY_TRY(sched::Plan * plan, scheduler_->plan(key, std::move(graph)));
    io_[shape_key(shape)] = io;
    return plan;
}

Status Runner::set_taps(TapSpec taps) {
    for (const int32_t layer : taps.layers) {
        if (layer < 0 || layer > model_->hparams().n_layer) {
            return error(Code::kInvalidArgument,
                         fmt::format("there is no layer {} to tap among {}", layer, model_->hparams().n_layer));
        }
    }
    tap_spec_ = std::move(taps);
    ++plan_version_;
    io_.clear();
    return ok();
}

Status Runner::check_rows(std::span<const Row> rows) const {
    std::vector<int32_t> next(state_ == nullptr ? 0 : static_cast<size_t>(kv_->n_slots()), -1);
    for (const Row& row : rows) {
        if (row.pos < 0 || row.pos >= kv_->n_ctx_slot() || row.slot < 0 || row.slot >= kv_->n_slots()) {
            return error(Code::kCapacity, fmt::format("position {} of slot {} is outside its {} cells", row.pos,
                                                      row.slot, kv_->n_ctx_slot()));
        }
        if (state_ == nullptr) {
            continue;
        }
        int32_t& expected = next[static_cast<size_t>(row.slot)];
        const bool follows = expected < 0 ? state_->usable(row.slot, row.pos) == row.pos : row.pos == expected;
        if (!follows) {
            return error(Code::kInvalidArgument,
                         fmt::format("slot {} holds no recurrent state for position {}", row.slot, row.pos));
        }
        expected = row.pos + 1;
    }
    return ok();
}

Status Runner::reserve(std::span<const Row> rows) {
    FORESAY_CHECK_OK(check_rows(rows));
    return state_ == nullptr ? ok() : prepare_states(rows);
}

Status Runner::prepare_states(std::span<const Row> rows) {
    runs_.clear();
    for (const Row& row : rows) {
        auto run = std::find_if(runs_.begin(), runs_.end(), [&](const auto& r) { return r.slot == row.slot; });
        if (run == runs_.end()) {
            run = runs_.insert(run, {row.slot, row.pos, 0, 0});
        }
        ++run->n_rows;
        run->n_wanted += row.wants_logits ? 1 : 0;
    }
    Status prepared = state_->prepare(runs_);
    if (state_->version() != state_version_) {
        state_version_ = state_->version();
        ++plan_version_;
        io_.clear();
        log::info("{}: recurrent state grew to {} snapshots of {} KiB, {} MiB in all", label_, state_->n_cells(),
                  state_->cell_bytes() >> 10, state_->bytes() >> 20);
    }
    return prepared;
}

void Runner::take_states(std::span<const Row> rows) {
    steps_.resize(rows.size());
    std::vector<memory::StateStep> steps;
    for (const memory::StateRun& run : runs_) {
        steps.clear();
        state_->advance(run, steps);
        size_t n = 0;
        for (size_t i = 0; i < rows.size(); ++i) {
            if (rows[i].slot == run.slot) {
                steps_[i] = steps[n++];
            }
        }
    }
}

Result<std::vector<std::span<const float>>> Runner::forward(std::span<const Row> rows, int32_t n_head) {
    FORESAY_ASSERT(!rows.empty());
    if (rows.size() > static_cast<size_t>(kMostRows) || n_head > kMostVocab) {
        return error(Code::kCapacity, fmt::format("a pass over {} rows with {} ids is larger than {} rows, {} ids",
                                                  rows.size(), n_head, kMostRows, kMostVocab));
    }
    n_head = n_head >= model_->hparams().n_vocab ? 0 : std::max(0, n_head);
    const int32_t n_logits = n_head == 0 ? model_->hparams().n_vocab : n_head;
    int32_t n_wanted = 0;
    for (const Row& row : rows) {
        n_wanted += row.wants_logits ? 1 : 0;
    }
    FORESAY_CHECK_OK(check_rows(rows));
    if (state_ != nullptr) {
        FORESAY_CHECK_OK(prepare_states(rows));
    }
    // A graph always ends in logits, so that there is one shape less to plan: an unwanted last row costs one row of the
    // head.
    const BatchShape shape{static_cast<int32_t>(rows.size()), std::max(1, n_wanted), n_head};
    try {
        FORESAY_TRY(sched::Plan * plan, plan_for(shape));
        const GraphIo& io = io_.at(shape_key(shape));
        const auto tokens = as_ints(plan->input(io.tokens));
        const auto pos = as_ints(plan->input(io.pos));
        const auto kv_rows = as_ints(plan->input(io.kv_rows));
        const auto kv_base = as_ints(plan->input(io.kv_base));
        if (state_ != nullptr) {
            take_states(rows);
        }
        std::span<int32_t> out_rows;
        if (io.out_rows != kNoTensor) {
            out_rows = as_ints(plan->input(io.out_rows));
        }
        size_t n_out = 0;
        for (size_t i = 0; i < rows.size(); ++i) {
            const int32_t base = kv_->first_cell(rows[i].slot);
            tokens[i] = rows[i].token;
            pos[i] = rows[i].pos;
            kv_rows[i] = base + rows[i].pos;
            kv_base[i] = base;
            if (io.slot != kNoTensor) {
                as_ints(plan->input(io.slot))[i] = rows[i].slot;
            }
            if (io.from != kNoTensor) {
                as_ints(plan->input(io.from))[i] = steps_[i].from;
                as_ints(plan->input(io.to))[i] = steps_[i].to;
            }
            if (rows[i].wants_logits && !out_rows.empty()) {
                out_rows[n_out++] = static_cast<int32_t>(i);
            }
        }
        if (n_wanted == 0 && !out_rows.empty()) {
            out_rows[0] = static_cast<int32_t>(rows.size() - 1);
        }
        if (auto run = scheduler_->execute(*plan); !run.has_value()) {
            for (const Row& row : rows) {
                if (state_ != nullptr) {
                    state_->forget(row.slot);  // part of it may have been overwritten
                }
            }
            return std::move(run).error();
        }
        const auto bytes = plan->output(io.logits);
        const auto* logits = reinterpret_cast<const float*>(bytes.data());
        const auto floats = [&](TensorId id) {
            const auto raw = plan->output(id);
            return std::span(reinterpret_cast<const float*>(raw.data()), raw.size() / sizeof(float));
        };
        tap_rows_.clear();
        for (const TensorId id : io.taps) {
            tap_rows_.push_back(floats(id));
        }
        hidden_rows_ = io.hidden == kNoTensor ? std::span<const float>() : floats(io.hidden);
        std::vector<std::span<const float>> result;
        result.reserve(static_cast<size_t>(shape.n_outputs));
        for (int32_t i = 0; i < shape.n_outputs; ++i) {
            result.emplace_back(logits + static_cast<size_t>(i) * static_cast<size_t>(n_logits),
                                static_cast<size_t>(n_logits));
        }
        return result;
    } catch (const std::bad_alloc&) {
        for (const Row& row : rows) {
            forget(row.slot);  // its states may be booked without being there
        }
        return error(Code::kOutOfMemory, fmt::format("no memory to plan a pass over {} rows with {} outputs",
                                                     shape.n_rows, shape.n_outputs));
    }
}

void Runner::shift(int slot, int32_t n, int32_t keep, int32_t discard) {
    kv_->shift(slot, n, keep, discard, [this](int layer) {
        const Hparams& h = model_->hparams();
        const bool sliding = h.is_sliding[static_cast<size_t>(layer)];
        return memory::KvRope{h.rope_of(layer), rope_factors_.empty() || sliding ? nullptr : rope_factors_.data()};
    });
}

}  // namespace foresay::model
