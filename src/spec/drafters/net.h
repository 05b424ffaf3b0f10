// The graphs of a drafter that isn't a whole model: weights of its own file and of its target's, a cache of its own, a
// scheduler. What a pass computes is said by its drafter (NetGraph is the builder with the usual blocks); what shapes
// have been planned is kept here. Must not know slots' texts.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "graph/builder.h"
#include "memory/kv_cache.h"
#include "model/model.h"
#include "sched/scheduler.h"

namespace foresay::spec {

using graph::kNoTensor;
using graph::TensorId;

struct NetOptions {
    int32_t n_slots = 1;
    int32_t n_ctx_slot = 4096;
    DType type_k = DType::kF16;
    DType type_v = DType::kF16;
    std::string label = "drafter";  ///< in the scheduler's log lines
};

/// Inputs and outputs of one planned shape, in the order in which the drafter's build function made them.
struct NetIo {
    std::vector<TensorId> inputs;
    std::vector<TensorId> outputs;

    /// Inputs that the net fills itself: element i is first + stride * (i / repeat).
    struct Ramp {
        TensorId id = kNoTensor;
        int32_t first = 0;
        int32_t stride = 1;
        int32_t repeat = 1;
    };

    std::vector<Ramp> ramps;
};

class Net;

/// The single value of a tensor of the file, or fallback when the file has none (layer_output_scale, x.scale).
float scalar_or(const model::Model& model, const std::string& name, float fallback);

/// The builder of one pass.
class NetGraph {
  public:
    explicit NetGraph(const Net& net) : net_(net), builder_(&own_) {}

    graph::Builder& b() { return *builder_; }

    /// From now on builds with another builder, until adopt() takes it over.
    void work_on(graph::Builder& builder) { builder_ = &builder; }

    void adopt(graph::Builder builder) {
        own_ = std::move(builder);
        builder_ = &own_;
    }

    /// The next input: one that the other builder has made.
    void use_input(TensorId id) { io_.inputs.push_back(id); }

    /// Persistent state that someone else owns (the target's cache); read only.
    TensorId state(const std::string& name, const graph::Storage* storage);

    const model::Hparams& hparams() const;

    /// A weight of the drafter's file, or kNoTensor.
    TensorId weight(const std::string& name);
    TensorId weight(int layer, const std::string& name);
    /// A weight of the target's file, or kNoTensor.
    TensorId target_weight(const std::string& name);

    TensorId ints(const char* name, int64_t n);                   ///< the next input: I32 [n]
    TensorId floats(const char* name, int64_t width, int64_t n);  ///< the next input: F32 [width, n]
    /// An input that fills itself: I32 [n], element i is first + stride * (i / repeat).
    TensorId ramp(const char* name, int64_t n, int32_t first, int32_t stride, int32_t repeat = 1);
    void output(TensorId x);  ///< the next output

    TensorId norm(TensorId x, const std::string& weight_name);
    TensorId norm(int layer, const std::string& name, TensorId x);
    /// The single value of a tensor of the drafter's file.
    float scalar(const std::string& name, float fallback) const;
    /// name.weight x, times name.scale and plus name.bias where the file has them.
    TensorId linear(const std::string& name, TensorId x);
    TensorId linear(int layer, const std::string& name, TensorId x);
    TensorId rope(int layer, TensorId x, TensorId pos, TensorId factors);

    /// Stores heads k and v [D, G, T] in a layer's cache at cells.
    struct Stored {
        TensorId k = kNoTensor;
        TensorId v = kNoTensor;
    };

    Stored store(int layer, TensorId k, TensorId v, TensorId cells);
    /// Embedding rows by the drafter's own table or, without one, the target's.
    TensorId embed(TensorId tokens);
    /// [a ; b] along ne0, for a and b [E, T] where T is the same in every concat of a graph.
    TensorId concat(TensorId a, TensorId b);
    /// Logits by the drafter's own head, else (own_table) its own table, else the target's head or table.
    TensorId head(TensorId x, bool own_table);

  private:
    friend class Net;
    const Net& net_;
    graph::Builder own_;
    graph::Builder* builder_;
    std::unordered_map<std::string, TensorId> leafs_;
    NetIo io_;

    TensorId leaf(const graph::Storage* storage, const std::string& key);
    TensorId concat_repeat_ = kNoTensor;
    TensorId concat_odd_ = kNoTensor;
};

/// A pass that is ready to be filled and run; valid until the net's next plan().
class NetPass {
  public:
    NetPass(sched::Plan* plan, const NetIo* io) : plan_(plan), io_(io) {}

    std::span<int32_t> ints(size_t i);
    std::span<float> floats(size_t i);
    std::span<const float> output(size_t i);

  private:
    friend class Net;
    sched::Plan* plan_;
    const NetIo* io_;
};

class Net {
  public:
    /// layers: of the drafter's cache; empty: it has none.
    static Result<std::unique_ptr<Net>> create(std::shared_ptr<const model::Model> draft,
                                               std::shared_ptr<const model::Model> target, backend::Backend& backend,
                                               std::vector<memory::KvLayer> layers, const NetOptions& options);

    using Build = std::function<void(NetGraph&)>;
    /// The pass of this key, built and planned when it is new. Errors: what the graph or memory lack.
    Result<NetPass> pass(uint64_t key, const Build& build);
    Status run(NetPass& pass);

    /// A weight that the file doesn't hold in this form; found by NetGraph::weight() before the file's.
    Status add_weight(const std::string& name, std::array<int64_t, 4> ne, std::span<const float> values,
                      bool used_by_mul_mat);
    const graph::Storage* added_weight(const std::string& name) const;

    const model::Model& draft() const { return *draft_; }

    const model::Model& target() const { return *target_; }

    memory::KvCache& kv() { return *kv_; }

    const memory::KvCache& kv() const { return *kv_; }

    bool has_cache() const { return kv_ != nullptr; }

    const sched::SchedulerStats& stats() const { return scheduler_->stats(); }

    size_t compute_bytes() const { return scheduler_->compute_bytes(); }

    /// Context shift of one slot's n cells.
    void shift(int slot, int32_t n, int32_t keep, int32_t discard);

  private:
    Net() = default;
    std::shared_ptr<const model::Model> draft_;
    std::shared_ptr<const model::Model> target_;
    std::unique_ptr<memory::KvCache> kv_;
    std::unique_ptr<sched::Scheduler> scheduler_;
    std::unordered_map<uint64_t, NetIo> io_;
    std::unordered_map<std::string, std::unique_ptr<graph::Storage>> added_;
    backend::Backend* backend_ = nullptr;
    std::vector<float> rope_factors_;
};

/// Key of a pass: what it does and its shape.
constexpr uint64_t pass_key(uint32_t kind, int32_t n_rows, int32_t n_outputs) {
    return static_cast<uint64_t>(kind) << 56 | static_cast<uint64_t>(static_cast<uint32_t>(n_rows)) << 28 |
           static_cast<uint32_t>(n_outputs);
}

/// Layers of the cache that these hyper-parameters ask for.
std::vector<memory::KvLayer> cache_layers(const model::Hparams& hparams);

}  // namespace foresay::spec
