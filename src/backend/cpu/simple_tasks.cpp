#include "backend/cpu/simple_tasks.h"

#include "backend/cpu/tasks_experts.h"
#include "base/assert.h"

namespace foresay::cpu {
namespace {

using graph::Op;
using graph::Tensor;
using graph::TensorId;

/// A node with the addresses of its operands.
class Node {
  public:
    Node(const Kernels& kernels, const graph::Graph& graph, TensorId id, const backend::Placement& placement)
        : kernels_(kernels), graph_(graph), id_(id), placement_(placement) {}

    std::unique_ptr<Task> task() const;

    const Tensor& tensor() const { return graph_.tensor(id_); }

    const Tensor& src(size_t i) const { return graph_.tensor(tensor().src[i]); }

  private:
    float* out() const { return reinterpret_cast<float*>(placement_.result(id_)); }

    float* f32(int i) const { return reinterpret_cast<float*>(placement_.source(id_, i)); }

    const int32_t* i32(int i) const { return reinterpret_cast<const int32_t*>(placement_.source(id_, i)); }

    StateRing ring(int i, int64_t n_cells) const;
    std::unique_ptr<Task> columns() const;
    std::unique_ptr<Task> gate() const;
    std::unique_ptr<Task> route() const;
    std::unique_ptr<Task> weighted_sum() const;
    std::unique_ptr<Task> short_conv() const;
    std::unique_ptr<Task> decay() const;
    std::unique_ptr<Task> delta_net() const;

    const Kernels& kernels_;
    const graph::Graph& graph_;
    TensorId id_;
    const backend::Placement& placement_;
};

StateRing Node::ring(int i, int64_t n_cells) const {
    const int64_t ring = graph::unpack_state(tensor().params).ring;
    return {.base = f32(i),
            .n_slots = n_cells / ring,
            .ring = ring,
            .cell_size = src(static_cast<size_t>(i)).n_elements() / n_cells};
}

std::unique_ptr<Task> Node::columns() const {
    auto task = std::make_unique<ColumnsTask>();
    task->x = f32(0);
    task->y = out();
    task->width = src(0).ne[0];
    task->first = tensor().params.i[0];
    task->n = tensor().ne[0];
    task->n_rows = tensor().n_rows();
    return task;
}

std::unique_ptr<Task> Node::gate() const {
    auto task = std::make_unique<GateTask>();
    task->kernels = &kernels_;
    task->is_oai = tensor().op == Op::kSwigluOai;
    task->x = f32(0);
    task->second = f32(1);
    task->y = out();
    task->n = tensor().ne[0];
    task->n_rows = tensor().n_rows();
    task->gate_width = src(1).ne[0];
    return task;
}

std::unique_ptr<Task> Node::route() const {
    auto task = std::make_unique<RouteTask>();
    task->kernels = &kernels_;
    task->params = graph::unpack_route(tensor().params);
    task->logits = f32(0);
    task->n_expert = src(0).ne[0];
    task->n_rows = src(0).ne[1];
    if (tensor().op == Op::kRouteIds) {
        task->bias = tensor().n_src == 2 ? f32(1) : nullptr;
        task->ids_out = reinterpret_cast<int32_t*>(placement_.result(id_));
    } else {
        task->ids = i32(1);
        task->scale = tensor().n_src == 3 ? f32(2) : nullptr;
        task->weights = out();
    }
    return task;
}

std::unique_ptr<Task> Node::weighted_sum() const {
    auto task = std::make_unique<WeightedSumTask>();
    task->kernels = &kernels_;
    task->x = f32(0);
    task->w = f32(1);
    task->y = out();
    task->n = src(0).ne[0];
    task->n_x = src(0).ne[1];
    task->n_rows = src(0).ne[2];
    return task;
}

std::unique_ptr<Task> Node::short_conv() const {
    auto task = std::make_unique<ShortConvTask>();
    task->kernels = &kernels_;
    task->x = f32(0);
    task->taps = f32(1);
    task->y = out();
    task->pos = i32(3);
    task->slot = i32(4);
    task->state = ring(2, src(2).ne[1]);
    task->n_taps = src(1).ne[0];
    task->n_channels = src(0).ne[0];
    task->n_rows = src(0).ne[1];
    task->silu = graph::unpack_state(tensor().params).silu;
    return task;
}

std::unique_ptr<Task> Node::decay() const {
    auto task = std::make_unique<DecayTask>();
    task->kernels = &kernels_;
    task->alpha = f32(0);
    task->dt = f32(1);
    task->a = f32(2);
    task->y = out();
    task->n = tensor().ne[0];
    task->n_rows = tensor().ne[1];
    return task;
}

std::unique_ptr<Task> Node::delta_net() const {
    auto task = std::make_unique<DeltaNetTask>();
    task->kernels = &kernels_;
    task->q = f32(0);
    task->k = f32(1);
    task->v = f32(2);
    task->decay = f32(3);
    task->beta = f32(4);
    task->y = out();
    task->from = i32(6);
    task->to = i32(7);
    task->cells = f32(5);
    task->n_cells = src(5).ne[2];
    task->d = src(0).ne[0];
    task->n_key = src(0).ne[1];
    task->n_value = src(2).ne[1];
    task->n_rows = src(0).ne[2];
    task->modulo = graph::unpack_state(tensor().params).modulo;
    return task;
}

std::unique_ptr<Task> Node::task() const {
    switch (tensor().op) {
        case Op::kColumns:
            return columns();
        case Op::kMulSigmoid:
        case Op::kSwigluOai:
            return gate();
        case Op::kRouteIds:
        case Op::kRouteWeights:
            return route();
        case Op::kWeightedSum:
            return weighted_sum();
        case Op::kShortConv:
            return short_conv();
        case Op::kDecay:
            return decay();
        case Op::kDeltaNet:
            return delta_net();
        default:
            FORESAY_ASSERT(!"not a simple op");
            return nullptr;
    }
}

}  // namespace

std::unique_ptr<Task> make_simple_task(const Kernels& kernels, const graph::Graph& graph, TensorId id,
                                       const backend::Placement& placement) {
    const Node node(kernels, graph, id, placement);
    std::unique_ptr<Task> task = node.task();
    for (size_t i = 0; i < node.tensor().n_src; ++i) {
        const Extent extent{placement.source(id, static_cast<int>(i)), node.src(i).span_bytes()};
        task->reads.push_back(extent);
        if (graph::written_source(node.tensor().op) == static_cast<int>(i)) {
            task->writes.push_back(extent);
        }
    }
    task->writes.push_back({placement.result(id), node.tensor().span_bytes()});
    return task;
}

}  // namespace foresay::cpu
