#include "backend/reference/naive_run.h"

namespace foresay::reference {
namespace {

class Addresses : public backend::Placement {
  public:
    Addresses(const graph::Graph& graph, const std::vector<std::byte*>& address) : graph_(graph), address_(address) {}

    std::byte* result(graph::TensorId node) const override { return address_[graph::index(node)]; }

    std::byte* source(graph::TensorId node, int i) const override {
        return address_[graph::index(graph_.tensor(node).src[static_cast<size_t>(i)])];
    }

  private:
    const graph::Graph& graph_;
    const std::vector<std::byte*>& address_;
};

}  // namespace

Result<std::unique_ptr<NaiveRun>> NaiveRun::create(const graph::Graph& graph, backend::Backend& backend) {
    std::unique_ptr<NaiveRun> run(new NaiveRun(graph, backend));
    run->own_.resize(graph.n_tensors());
    run->address_.resize(graph.n_tensors());
    for (size_t i = 0; i < graph.n_tensors(); ++i) {
        const graph::Tensor& t = graph.tensors()[i];
        if (t.storage != nullptr) {
            run->address_[i] = t.storage->data;
        } else if (t.is_view()) {
            std::byte* owner = run->address_[graph::index(t.view_of)];
            run->address_[i] = owner == nullptr ? nullptr : owner + t.view_offset;
        } else {
            run->own_[i].resize((t.span_bytes() + sizeof(float) - 1) / sizeof(float));
            run->address_[i] = reinterpret_cast<std::byte*>(run->own_[i].data());
        }
    }
    FORESAY_TRY(run->program_, backend.compile(graph, graph.nodes(), Addresses(graph, run->address_)));
    return run;
}

std::span<std::byte> NaiveRun::bytes(graph::TensorId id) {
    return {address_[graph::index(id)], graph_->tensor(id).span_bytes()};
}

std::span<float> NaiveRun::f32(graph::TensorId id) {
    return {reinterpret_cast<float*>(address_[graph::index(id)]), static_cast<size_t>(graph_->tensor(id).n_elements())};
}

std::span<int32_t> NaiveRun::i32(graph::TensorId id) {
    return {reinterpret_cast<int32_t*>(address_[graph::index(id)]),
            static_cast<size_t>(graph_->tensor(id).n_elements())};
}

}  // namespace foresay::reference
