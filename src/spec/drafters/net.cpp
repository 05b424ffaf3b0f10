#include "spec/drafters/net.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "tensor/dequant.h"

namespace foresay::spec {

float scalar_or(const model::Model& model, const std::string& name, float fallback) {
    const gguf::TensorInfo* tensor = model.file().tensor(name);
    if (tensor == nullptr || tensor->type != static_cast<int32_t>(DType::kF32) || tensor->bytes < sizeof(float)) {
        return fallback;
    }
    float value = 0.0F;
    std::memcpy(&value, tensor->data.data(), sizeof(value));
    return value;
}

const model::Hparams& NetGraph::hparams() const {
    return net_.draft().hparams();
}

TensorId NetGraph::leaf(const graph::Storage* storage, const std::string& key) {
    if (const auto found = leafs_.find(key); found != leafs_.end()) {
        return found->second;
    }
    const TensorId id = storage == nullptr ? kNoTensor : builder_->weight(key, storage->dtype, storage->ne, storage);
    leafs_.emplace(key, id);
    return id;
}

TensorId NetGraph::weight(const std::string& name) {
    const graph::Storage* added = net_.added_weight(name);
    return leaf(added != nullptr ? added : net_.draft().weight(name), name);
}

TensorId NetGraph::weight(int layer, const std::string& name) {
    return weight(fmt::format("blk.{}.{}", layer, name));
}

TensorId NetGraph::target_weight(const std::string& name) {
    return leaf(net_.target().weight(name), "target." + name);
}

TensorId NetGraph::ints(const char* name, int64_t n) {
    io_.inputs.push_back(builder_->input(name, DType::kI32, {n, 1, 1, 1}));
    return io_.inputs.back();
}

TensorId NetGraph::floats(const char* name, int64_t width, int64_t n) {
    io_.inputs.push_back(builder_->input(name, DType::kF32, {width, n, 1, 1}));
    return io_.inputs.back();
}

TensorId NetGraph::ramp(const char* name, int64_t n, int32_t first, int32_t stride, int32_t repeat) {
    const TensorId id = builder_->input(name, DType::kI32, {n, 1, 1, 1});
    io_.ramps.push_back({id, first, stride, repeat});
    return id;
}

float NetGraph::scalar(const std::string& name, float fallback) const {
    return scalar_or(net_.draft(), name, fallback);
}

void NetGraph::output(TensorId x) {
    builder_->output(x);
    io_.outputs.push_back(x);
}

TensorId NetGraph::norm(TensorId x, const std::string& weight_name) {
    return builder_->rms_norm(x, weight(weight_name), hparams().rms_eps);
}

TensorId NetGraph::norm(int layer, const std::string& name, TensorId x) {
    return norm(x, fmt::format("blk.{}.{}.weight", layer, name));
}

TensorId NetGraph::linear(const std::string& name, TensorId x) {
    const TensorId bias = weight(name + ".bias");
    const float factor = scalar_or(net_.draft(), name + ".scale", 1.0F);
    if (factor == 1.0F) {
        return builder_->mul_mat(weight(name + ".weight"), x, bias);
    }
    const TensorId y = builder_->scale(builder_->mul_mat(weight(name + ".weight"), x), factor);
    return bias == kNoTensor ? y : builder_->add(y, bias);
}

TensorId NetGraph::linear(int layer, const std::string& name, TensorId x) {
    return linear(fmt::format("blk.{}.{}", layer, name), x);
}

TensorId NetGraph::rope(int layer, TensorId x, TensorId pos, TensorId factors) {
    return builder_->rope(x, pos, factors, hparams().rope_of(layer));
}

NetGraph::Stored NetGraph::store(int layer, TensorId k, TensorId v, TensorId cells) {
    const graph::Storage* k_store = net_.kv().k(layer);
    const graph::Storage* v_store = net_.kv().v(layer);
    const auto leaf_of = [&](const char* name, const graph::Storage* storage) {
        const std::string key = fmt::format("{}.{}", name, layer);
        auto& id = leafs_.try_emplace(key, kNoTensor).first->second;
        if (id == kNoTensor) {
            id = builder_->persistent(key, storage->dtype, storage->ne, storage);
        }
        return id;
    };
    const TensorId k_cache = leaf_of("cache_k", k_store);
    const TensorId v_cache = leaf_of("cache_v", v_store);
    const int64_t n = builder_->tensor(cells).ne[0];
    Stored stored;
    stored.k = builder_->set_rows(k_cache, builder_->reshape(k, {k_store->ne[0], n, 1, 1}), cells);
    stored.v = builder_->set_rows(v_cache, builder_->reshape(v, {v_store->ne[0], n, 1, 1}), cells);
    return stored;
}

TensorId NetGraph::state(const std::string& name, const graph::Storage* storage) {
    auto& id = leafs_.try_emplace(name, kNoTensor).first->second;
    if (id == kNoTensor) {
        id = builder_->persistent(name, storage->dtype, storage->ne, storage);
    }
    return id;
}

TensorId NetGraph::embed(TensorId tokens) {
    TensorId table = weight("token_embd.weight");
    if (table == kNoTensor) {
        table = target_weight("token_embd.weight");
    }
    const TensorId x = builder_->get_rows(table, tokens);
    return hparams().embedding_scale == 1.0F ? x : builder_->scale(x, hparams().embedding_scale);
}

TensorId NetGraph::concat(TensorId a, TensorId b) {
    // There is no such op: every row twice, then b over the second of each pair; as [2E, T] that is [a ; b].
    const auto& ne = builder_->tensor(a).ne;
    const int64_t width = ne[0];
    const int64_t n = ne[1];
    if (concat_repeat_ == kNoTensor) {
        concat_repeat_ = ramp("concat_repeat", 2 * n, 0, 1, 2);
        concat_odd_ = ramp("concat_odd", n, 1, 2);
    }
    const TensorId pairs = builder_->get_rows(a, concat_repeat_);
    return builder_->reshape(builder_->set_rows(pairs, b, concat_odd_), {2 * width, n, 1, 1});
}

TensorId NetGraph::head(TensorId x, bool own_table) {
    TensorId matrix = weight("output.weight");
    if (matrix == kNoTensor && own_table) {
        matrix = weight("token_embd.weight");
    }
    if (matrix == kNoTensor) {
        matrix = target_weight("output.weight");
    }
    return builder_->mul_mat(matrix != kNoTensor ? matrix : target_weight("token_embd.weight"), x);
}

std::span<int32_t> NetPass::ints(size_t i) {
    const auto raw = plan_->input(io_->inputs[i]);
    return {reinterpret_cast<int32_t*>(raw.data()), raw.size() / sizeof(int32_t)};
}

std::span<float> NetPass::floats(size_t i) {
    const auto raw = plan_->input(io_->inputs[i]);
    return {reinterpret_cast<float*>(raw.data()), raw.size() / sizeof(float)};
}

std::span<const float> NetPass::output(size_t i) {
    const auto raw = plan_->output(io_->outputs[i]);
    return {reinterpret_cast<const float*>(raw.data()), raw.size() / sizeof(float)};
}

std::vector<memory::KvLayer> cache_layers(const model::Hparams& h) {
    std::vector<memory::KvLayer> layers;
    for (size_t layer = 0; layer < static_cast<size_t>(h.n_layer); ++layer) {
        layers.push_back({int64_t{h.head_dim_k[layer]} * h.n_head_kv[layer],
                          int64_t{h.head_dim_v[layer]} * h.n_head_kv[layer], h.head_dim_k[layer]});
    }
    return layers;
}

Result<std::unique_ptr<Net>> Net::create(std::shared_ptr<const model::Model> draft,
                                         std::shared_ptr<const model::Model> target, backend::Backend& backend,
                                         std::vector<memory::KvLayer> layers, const NetOptions& options) {
    std::unique_ptr<Net> net(new Net);
    net->backend_ = &backend;
    if (!layers.empty()) {
        auto kv = memory::KvCache::create(backend, std::move(layers), options.n_slots, options.n_ctx_slot,
                                          options.type_k, options.type_v);
        if (!kv.has_value()) {
            return std::move(kv).error().context("the drafter's cache");
        }
        net->kv_ = std::move(*kv);
    }
    FORESAY_TRY(net->scheduler_, sched::Scheduler::create({&backend}));
    net->scheduler_->set_context(options.label);
    if (draft->weight("rope_freqs.weight") != nullptr) {
        const gguf::TensorInfo* tensor = draft->file().tensor("rope_freqs.weight");
        net->rope_factors_.resize(static_cast<size_t>(tensor->ne[0]));
        dequantize_row(*dtype_from_gguf(tensor->type), tensor->data.data(), net->rope_factors_.data(), tensor->ne[0]);
    }
    net->draft_ = std::move(draft);
    net->target_ = std::move(target);
    return net;
}

Result<NetPass> Net::pass(uint64_t key, const Build& build) {
    const sched::PlanKey plan_key{0, key};
    try {
        FORESAY_TRY(sched::Plan * plan, scheduler_->find(plan_key));
        if (plan == nullptr) {
            NetGraph graph(*this);
            build(graph);
            NetIo io = std::move(graph.io_);
            FORESAY_TRY(graph::Graph built, std::move(*graph.builder_).finish());
            FORESAY_TRY(plan, scheduler_->plan(plan_key, std::move(built)));
            io_[key] = std::move(io);
        }
        return NetPass(plan, &io_.at(key));
    } catch (const std::bad_alloc&) {
        return error(Code::kOutOfMemory, "no memory to plan a pass of the drafter");
    }
}

Status Net::run(NetPass& pass) {
    for (const NetIo::Ramp& ramp : pass.io_->ramps) {
        const auto raw = pass.plan_->input(ramp.id);
        auto* values = reinterpret_cast<int32_t*>(raw.data());
        for (size_t i = 0; i < raw.size() / sizeof(int32_t); ++i) {
            values[i] = ramp.first + ramp.stride * (static_cast<int32_t>(i) / ramp.repeat);
        }
    }
    return scheduler_->execute(*pass.plan_);
}

Status Net::add_weight(const std::string& name, std::array<int64_t, 4> ne, std::span<const float> values,
                       bool used_by_mul_mat) {
    backend::WeightRequest request;
    request.name = name;
    request.ne = ne;
    request.bytes = std::as_bytes(values);
    request.used_by_mul_mat = used_by_mul_mat;
    FORESAY_TRY(added_[name], backend_->load_weight(request));
    return ok();
}

const graph::Storage* Net::added_weight(const std::string& name) const {
    const auto found = added_.find(name);
    return found == added_.end() ? nullptr : found->second.get();
}

void Net::shift(int slot, int32_t n, int32_t keep, int32_t discard) {
    kv_->shift(slot, n, keep, discard, [this](int layer) {
        return memory::KvRope{draft_->hparams().rope_of(layer), rope_factors_.empty() ? nullptr : rope_factors_.data()};
    });
}

}  // namespace foresay::spec
