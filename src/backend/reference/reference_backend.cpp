#include "backend/reference/reference_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backend/reference/step.h"
#include "base/checked.h"

namespace foresay::reference {
namespace {

constexpr size_t kAlignment = 64;

struct Free {
    void operator()(std::byte* p) const { std::free(p); }
};

using Memory = std::unique_ptr<std::byte[], Free>;

/// At least one aligned byte; null when there's no memory.
Memory allocate_bytes(size_t bytes) {
    if (bytes > SIZE_MAX - kAlignment) {
        return nullptr;
    }
    const size_t rounded = round_up(std::max<size_t>(bytes, 1), kAlignment);
    return Memory(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
}

Error no_memory(std::string_view what, size_t bytes) {
    return error(Code::kOutOfMemory, fmt::format("can't allocate {} bytes for {}", bytes, what), "reference");
}

class HostBuffer : public backend::Buffer {
  public:
    HostBuffer(Memory memory, size_t size) : memory_(std::move(memory)), size_(size) {}

    std::byte* data() override { return memory_.get(); }

    size_t size() const override { return size_; }

  private:
    Memory memory_;
    size_t size_;
};

struct HostStorage : graph::Storage {
    Memory memory;  ///< empty when `data` points into a mapping
};

struct StepList : backend::Program {
    std::vector<Step> steps;
    Memory scratch;
};

struct Kernel {
    graph::Op op;
    void (*run)(const Step& step, std::byte* scratch);
    size_t (*scratch)(const Step& step) = nullptr;
};

constexpr Kernel kKernels[] = {
    {graph::Op::kGetRows, run_get_rows},
    {graph::Op::kMulMat, run_mul_mat, mul_mat_scratch},
    {graph::Op::kRmsNorm, run_rms_norm},
    {graph::Op::kAdd, run_add},
    {graph::Op::kMul, run_mul},
    {graph::Op::kScale, run_scale},
    {graph::Op::kSwiglu, run_swiglu},
    {graph::Op::kGeglu, run_geglu},
    {graph::Op::kRope, run_rope},
    {graph::Op::kSetRows, run_set_rows},
    {graph::Op::kAttention, run_attention, attention_scratch},
    {graph::Op::kSoftcap, run_softcap},
    {graph::Op::kCopy, run_copy},
    {graph::Op::kColumns, run_columns},
    {graph::Op::kMulSigmoid, run_mul_sigmoid},
    {graph::Op::kSwigluOai, run_swiglu_oai},
    {graph::Op::kRouteIds, run_route_ids, route_scratch},
    {graph::Op::kRouteWeights, run_route_weights, route_scratch},
    {graph::Op::kMulMatId, run_mul_mat_id, mul_mat_id_scratch},
    {graph::Op::kWeightedSum, run_weighted_sum},
    {graph::Op::kShortConv, run_short_conv},
    {graph::Op::kDecay, run_decay},
    {graph::Op::kDeltaNet, run_delta_net, delta_net_scratch},
};

const Kernel* find_kernel(graph::Op op) {
    const auto* it =
        std::find_if(std::begin(kKernels), std::end(kKernels), [op](const Kernel& k) { return k.op == op; });
    return it == std::end(kKernels) ? nullptr : it;
}

Operand operand(const graph::Tensor& tensor, std::byte* data) {
    return {data, tensor.dtype, tensor.ne};
}

Result<Step> make_step(const graph::Graph& graph, graph::TensorId id, const backend::Placement& placement) {
    const graph::Tensor& node = graph.tensor(id);
    Step step;
    step.run = find_kernel(node.op)->run;
    step.dst = operand(node, placement.result(id));
    step.n_src = node.n_src;
    step.params = node.params;
    for (size_t i = 0; i < node.n_src; ++i) {
        const graph::Tensor& source = graph.tensor(node.src[i]);
        step.src[i] = operand(source, placement.source(id, static_cast<int>(i)));
        if (step.src[i].data == nullptr) {
            return error(Code::kUnsupported, fmt::format("'{}' has no plain layout to read", source.name),
                         fmt::format("node {} ({}) on reference", graph::index(id), graph::op_name(node.op)));
        }
    }
    if (node.op == graph::Op::kRope) {
        prepare_rope(step);
    }
    return step;
}

}  // namespace

std::unique_ptr<ReferenceBackend> ReferenceBackend::create() {
    return std::make_unique<ReferenceBackend>();
}

bool ReferenceBackend::supports(const graph::Graph& graph, graph::TensorId node) const {
    const graph::Op op = graph.tensor(node).op;
    return op == graph::Op::kView || find_kernel(op) != nullptr;
}

Result<std::unique_ptr<backend::Buffer>> ReferenceBackend::allocate(size_t bytes) {
    Memory memory = allocate_bytes(bytes);
    if (memory == nullptr) {
        return no_memory("activations", bytes);
    }
    return std::make_unique<HostBuffer>(std::move(memory), bytes);
}

void ReferenceBackend::write(std::byte* dst, std::span<const std::byte> src) {
    std::memcpy(dst, src.data(), src.size());
}

void ReferenceBackend::read(std::span<std::byte> dst, const std::byte* src) {
    std::memcpy(dst.data(), src, dst.size());
}

Result<std::unique_ptr<graph::Storage>> ReferenceBackend::load_weight(const backend::WeightRequest& request) {
    const size_t expected =
        row_bytes(request.dtype, request.ne[0]) * static_cast<size_t>(request.ne[1] * request.ne[2] * request.ne[3]);
    if (request.bytes.size() != expected) {
        return error(Code::kInvalidArgument,
                     fmt::format("{} bytes given, the shape needs {}", request.bytes.size(), expected),
                     std::string(request.name));
    }
    auto storage = std::make_unique<HostStorage>();
    storage->owner = this;
    storage->dtype = request.dtype;
    storage->ne = request.ne;
    storage->bytes = expected;
    if (request.keep_mapped) {
        // Weights are read only; the interface's pointer is mutable because caches share the type.
        storage->data = const_cast<std::byte*>(request.bytes.data());
    } else {
        storage->memory = allocate_bytes(expected);
        if (storage->memory == nullptr) {
            return no_memory(request.name, expected);
        }
        storage->data = storage->memory.get();
        std::memcpy(storage->data, request.bytes.data(), expected);
    }
    return storage;
}

Result<std::unique_ptr<graph::Storage>> ReferenceBackend::allocate_state(DType dtype, std::array<int64_t, 4> ne) {
    auto storage = std::make_unique<HostStorage>();
    storage->owner = this;
    storage->dtype = dtype;
    storage->ne = ne;
    storage->bytes = row_bytes(dtype, ne[0]) * static_cast<size_t>(ne[1] * ne[2] * ne[3]);
    storage->memory = allocate_bytes(storage->bytes);
    if (storage->memory == nullptr) {
        return no_memory("state", storage->bytes);
    }
    storage->data = storage->memory.get();
    std::memset(storage->data, 0, storage->bytes);
    return storage;
}

Result<std::unique_ptr<backend::Program>> ReferenceBackend::compile(const graph::Graph& graph,
                                                                    std::span<const graph::TensorId> nodes,
                                                                    const backend::Placement& placement) {
    auto program = std::make_unique<StepList>();
    size_t scratch = 0;
    for (const graph::TensorId id : nodes) {
        if (graph.tensor(id).op == graph::Op::kView) {
            continue;  // shares memory: nothing to run
        }
        FORESAY_TRY(Step step, make_step(graph, id, placement));
        if (const auto needed = find_kernel(graph.tensor(id).op)->scratch; needed != nullptr) {
            scratch = std::max(scratch, needed(step));
        }
        program->steps.push_back(std::move(step));
    }
    program->scratch = allocate_bytes(scratch);
    if (program->scratch == nullptr) {
        return no_memory("scratch", scratch);
    }
    return program;
}

void ReferenceBackend::run(backend::Program& program) {
    const auto& list = static_cast<StepList&>(program);
    for (const Step& step : list.steps) {
        step.run(step, list.scratch.get());
    }
}

}  // namespace foresay::reference
