// Plan: addresses. How one is made and run is in scheduler.cpp.
#include <algorithm>

#include "base/assert.h"
#include "sched/scheduler.h"

namespace foresay::sched {

using graph::index;
using graph::Tensor;
using graph::TensorId;

Plan::~Plan() = default;

std::byte* Plan::address(const graph::Graph& graph, TensorId id) const {
    const TensorId owner = owner_of(graph, id);
    if (const graph::Storage* storage = graph.tensor(owner).storage; storage != nullptr) {
        const int64_t offset = graph.tensor(id).is_view() ? graph.tensor(id).view_offset : 0;
        return storage->data == nullptr ? nullptr : storage->data + offset;
    }
    const int16_t home = assignment_.home[index(id)];
    return base_[static_cast<size_t>(home)] + memory_.offset[index(id)];
}

int Plan::backend_of(TensorId id) const {
    const int32_t step = assignment_.step_of[index(id)];
    if (step < 0) {
        return assignment_.home[index(id)];
    }
    const auto after = std::upper_bound(assignment_.splits.begin(), assignment_.splits.end(), step,
                                        [](int32_t s, const Split& split) { return s < split.end_step; });
    return after->backend;
}

std::span<std::byte> Plan::input(TensorId id) {
    FORESAY_ASSERT(index(id) < graph_.n_tensors() && (graph_.tensor(id).flags & graph::kInput) != 0);
    FORESAY_ASSERT(epoch_ == *current_epoch_);  // find() the plan again after another one has grown the buffers
    for (Staging& staging : staging_) {
        if (staging.id == id && staging.is_input) {
            return staging.bytes;
        }
    }
    return {address(graph_, id), graph_.tensor(id).span_bytes()};
}

std::span<const std::byte> Plan::output(TensorId id) {
    FORESAY_ASSERT(index(id) < graph_.n_tensors() && (graph_.tensor(id).flags & graph::kOutput) != 0);
    FORESAY_ASSERT(epoch_ == *current_epoch_);
    for (const Staging& staging : staging_) {
        if (staging.id == id && !staging.is_input) {
            return staging.bytes;
        }
    }
    return {address(graph_, id), graph_.tensor(id).span_bytes()};
}

}  // namespace foresay::sched
