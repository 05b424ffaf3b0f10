// The whole-graph check: what Builder promises, proved for a graph from anywhere. Linear in the graph; changes nothing.
#include <fmt/format.h>

#include "graph/graph.h"
#include "graph/shapes.h"

namespace foresay::graph {
namespace {

/// State of the walk: which handle of each memory is the newest, so that a stale one is found.
class Walk {
  public:
    explicit Walk(const Graph& graph)
        : graph_(graph), version_(graph.n_tensors(), kNoTensor), writer_(graph.n_tensors(), kNoTensor) {}

    Status leaf(TensorId id) const;
    Status node(TensorId id);

  private:
    Error fail(TensorId id, std::string message) const {
        return node_error(graph_.tensor(id), std::move(message)).context(fmt::format("node {}", index(id)));
    }

    const Graph& graph_;
    std::vector<TensorId> version_;  ///< of a tensor: the set_rows whose state of the memory it shows, or none
    std::vector<TensorId> writer_;   ///< of a memory's owner: the last set_rows into it, or none
};

Status Walk::leaf(TensorId id) const {
    const Tensor& t = graph_.tensor(id);
    if (t.op != Op::kNone || t.n_src != 0 || t.is_view()) {
        return fail(id, "a leaf has no op, no sources and isn't a view");
    }
    if (auto status = check_shape(t); !status) {
        return std::move(status).error().context(fmt::format("leaf {}", index(id)));
    }
    if (!t.is_contiguous()) {
        return fail(id, "a leaf must be contiguous");
    }
    const uint32_t kind = t.flags & (kInput | kWeight | kPersistent);
    if (kind != kInput && kind != kWeight && kind != kPersistent) {
        return fail(id, "a leaf is exactly one of input, weight and persistent");
    }
    if (t.storage != nullptr && kind == kInput) {
        return fail(id, "an input has no storage: the caller fills it");
    }
    return ok();
}

Status Walk::node(TensorId id) {
    const Tensor& t = graph_.tensor(id);
    const int32_t self = static_cast<int32_t>(id);
    for (size_t i = 0; t.n_src <= kMaxSources && i < t.n_src; ++i) {
        const int32_t source = static_cast<int32_t>(t.src[i]);
        if (source < 0 || index(t.src[i]) >= graph_.n_tensors()) {
            return fail(id, fmt::format("source {} is tensor {}, the graph has {}", i, source, graph_.n_tensors()));
        }
        if (source >= self) {
            return fail(id, fmt::format("source {} is tensor {}, which comes later: a cycle or a forward reference", i,
                                        source));
        }
        const Tensor& s = graph_.tensor(t.src[i]);
        const TensorId root = s.is_view() ? s.view_of : t.src[i];
        if (version_[index(t.src[i])] != writer_[index(root)]) {
            return fail(id, fmt::format("source {} ('{}') shows memory that node {} has written since: use that node's "
                                        "result",
                                        i, s.name, index(writer_[index(root)])));
        }
    }
    Tensor expected = t;
    if (auto status = infer(graph_, expected); !status) {
        return std::move(status).error().context(fmt::format("node {}", self));
    }
    if (expected.dtype != t.dtype || expected.ne != t.ne || expected.nb != t.nb || expected.view_of != t.view_of ||
        expected.view_offset != t.view_offset) {
        return fail(id, fmt::format("is {} {} but its sources give {} {}", dtype_name(t.dtype), shape_text(t.ne),
                                    dtype_name(expected.dtype), shape_text(expected.ne)));
    }
    if ((t.flags & (kInput | kWeight | kPersistent)) != 0 || t.storage != nullptr) {
        return fail(id, "only leafs are inputs, weights or persistent");
    }
    if (t.op == Op::kView) {
        version_[index(id)] = version_[index(t.src[0])];
    } else if (t.op == Op::kSetRows) {
        version_[index(id)] = id;
        writer_[index(t.view_of)] = id;
    } else if (const int written = written_source(t.op); written >= 0) {
        // Its result isn't the state: nothing may read or write that state again in this graph.
        const TensorId state = t.src[static_cast<size_t>(written)];
        writer_[index(graph_.tensor(state).is_view() ? graph_.tensor(state).view_of : state)] = id;
    }
    return ok();
}

}  // namespace

Status Graph::validate() const {
    Walk walk(*this);
    for (const TensorId id : leafs_) {
        FORESAY_CHECK_OK(walk.leaf(id));
    }
    for (const TensorId id : nodes_) {
        FORESAY_CHECK_OK(walk.node(id));
    }
    return ok();
}

}  // namespace foresay::graph
