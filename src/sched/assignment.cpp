#include "sched/assignment.h"

#include <fmt/format.h>

#include <algorithm>

namespace foresay::sched {
namespace {

using graph::Graph;
using graph::index;
using graph::Op;
using graph::Tensor;
using graph::TensorId;

/// A weight may be the first rows of a matrix, or the first elements of a vector, that is kept whole: every layout
/// holds them in order.
bool holds(const graph::Storage& storage, const Tensor& t) {
    if (storage.ne == t.ne) {
        return true;
    }
    if ((t.flags & graph::kWeight) == 0 || storage.ne[2] != 1 || storage.ne[3] != 1 || t.ne[2] != 1 || t.ne[3] != 1) {
        return false;
    }
    const bool is_vector = storage.ne[1] == 1 && t.ne[1] == 1 && dtype_info(t.dtype).block == 1;
    return is_vector ? t.ne[0] <= storage.ne[0] : t.ne[0] == storage.ne[0] && t.ne[1] <= storage.ne[1];
}

class Assigner {
  public:
    Assigner(const Graph& graph, std::span<backend::Backend* const> backends, TensorTable& table)
        : graph_(graph), backends_(backends), table_(table) {}

    Result<Assignment> run(bool need_storage);

  private:
    Status place_leafs(bool need_storage);
    Result<int16_t> choose(TensorId id);
    /// The backend that must run the node, kNoBackend when any may.
    Result<int16_t> forced(TensorId id) const;
    int16_t preferred(TensorId id) const;
    bool can_run(int16_t b, TensorId id) const;
    Status add_step(TensorId id, int16_t b);
    Result<int32_t> operand(TensorId source, int16_t b, int32_t step);
    void home_the_unused();

    int16_t index_of(const backend::Backend* backend) const {
        const auto it = std::find(backends_.begin(), backends_.end(), backend);
        return it == backends_.end() ? kForeign : static_cast<int16_t>(it - backends_.begin());
    }

    /// Pins of a tensor, its own first, then its storage's.
    int16_t pin_of(TensorId id) const {
        if (table_.n_keys() == 0) {
            return kNoBackend;  // the usual case: nothing is hashed
        }
        const TensorRow* own = table_.find(&graph_.tensor(id));
        const graph::Storage* storage = graph_.tensor(id).storage;
        const TensorRow* shared = own == nullptr && storage != nullptr ? table_.find(storage) : nullptr;
        return own != nullptr ? own->pinned : (shared != nullptr ? shared->pinned : kNoBackend);
    }

    Error fail(TensorId id, Code code, std::string message) const {
        const Tensor& t = graph_.tensor(id);
        return error(code, std::move(message),
                     fmt::format("node {} ({} '{}')", index(id), t.is_leaf() ? "leaf" : op_name(t.op), t.name));
    }

    const Graph& graph_;
    std::span<backend::Backend* const> backends_;
    TensorTable& table_;
    Assignment out_;
    int16_t previous_ = kNoBackend;
};

Status Assigner::place_leafs(bool need_storage) {
    for (const TensorId id : graph_.leafs()) {
        const Tensor& t = graph_.tensor(id);
        if ((t.flags & graph::kInput) != 0) {
            // An input goes where it is pinned, else to its first reader.
            table_.row(id).backend = pin_of(id);
            continue;
        }
        if (t.storage == nullptr) {
            if (need_storage) {
                return fail(id, Code::kInvalidArgument, "has no storage: load it before planning");
            }
            table_.row(id).backend = kForeign;
            continue;
        }
        if (t.storage->dtype != t.dtype || !holds(*t.storage, t)) {
            return fail(id, Code::kInvalidArgument, "its storage has another type or shape");
        }
        table_.row(id).backend = index_of(t.storage->owner);
    }
    return ok();
}

Result<int16_t> Assigner::forced(TensorId id) const {
    const Tensor& node = graph_.tensor(id);
    int16_t must = kNoBackend;
    for (size_t i = 0; i < node.n_src; ++i) {
        const TensorId owner = owner_of(graph_, node.src[i]);
        const graph::Storage* storage = graph_.tensor(owner).storage;
        // A copy of what a node writes would be lost; a private layout can't be copied.
        const bool writes = graph::written_source(node.op) == static_cast<int>(i);
        const bool is_private = storage != nullptr && storage->data == nullptr;
        if (!writes && !is_private) {
            continue;
        }
        const int16_t home = table_.row(owner).backend;
        if (home == kForeign && storage != nullptr) {
            return fail(id, Code::kUnsupported,
                        fmt::format("'{}' lives on a backend that isn't in this scheduler", graph_.tensor(owner).name));
        }
        if (home < 0) {
            continue;
        }
        if (must != kNoBackend && must != home) {
            return fail(id, Code::kUnsupported, "its sources are bound to two backends");
        }
        must = home;
    }
    return must;
}

int16_t Assigner::preferred(TensorId id) const {
    const Tensor& node = graph_.tensor(id);
    for (const TensorId source : node.sources()) {
        if (const int16_t pin = pin_of(owner_of(graph_, source)); pin != kNoBackend) {
            return pin;
        }
    }
    int16_t computed = kNoBackend;
    for (const TensorId source : node.sources()) {
        const TensorId owner = owner_of(graph_, source);
        const int16_t home = table_.row(owner).backend;
        if (graph_.tensor(owner).storage != nullptr && home >= 0) {
            return home;
        }
        if (computed == kNoBackend && !graph_.tensor(owner).is_leaf()) {
            computed = home;
        }
    }
    return computed != kNoBackend ? computed : previous_;
}

bool Assigner::can_run(int16_t b, TensorId id) const {
    if (b < 0 || !backends_[static_cast<size_t>(b)]->supports(graph_, id)) {
        return false;
    }
    for (const TensorId source : graph_.tensor(id).sources()) {
        const TensorId owner = owner_of(graph_, source);
        const graph::Storage* storage = graph_.tensor(owner).storage;
        if (storage != nullptr && table_.row(owner).backend == kForeign &&
            !backends_[static_cast<size_t>(b)]->can_read(*storage->owner)) {
            return false;
        }
    }
    return true;
}

Result<int16_t> Assigner::choose(TensorId id) {
    FORESAY_TRY(const int16_t must, forced(id));
    const int16_t pin = pin_of(id);
    if (pin != kNoBackend && must != kNoBackend && pin != must) {
        return fail(
            id, Code::kUnsupported,
            fmt::format("pinned to {}, but its memory binds it to {}", backends_[static_cast<size_t>(pin)]->name(),
                        backends_[static_cast<size_t>(must)]->name()));
    }
    const int16_t only = pin != kNoBackend ? pin : must;
    if (only != kNoBackend) {
        if (can_run(only, id)) {
            return only;
        }
        return fail(id, Code::kUnsupported,
                    fmt::format("{} can't run it and no other may", backends_[static_cast<size_t>(only)]->name()));
    }
    if (const int16_t first = preferred(id); can_run(first, id)) {
        return first;
    }
    for (int16_t b = 0; b < static_cast<int16_t>(backends_.size()); ++b) {
        if (can_run(b, id)) {
            return b;
        }
    }
    return fail(id, Code::kUnsupported, "no backend can run it");
}

/// The copy that backend b reads for this source, or -1 when it reads the source where it is.
Result<int32_t> Assigner::operand(TensorId source, int16_t b, int32_t step) {
    const TensorId owner = owner_of(graph_, source);
    TensorRow& row = table_.row(owner);
    row.last_use = step;
    if (row.backend == kNoBackend) {
        row.backend = b;  // an input, at its first reader
    }
    if (row.backend == b || row.backend == kForeign ||
        backends_[static_cast<size_t>(b)]->can_read(*backends_[static_cast<size_t>(row.backend)])) {
        return -1;
    }
    for (int32_t c = table_.row(source).first_copy; c >= 0; c = out_.copies[static_cast<size_t>(c)].next) {
        CopyRecord& known = out_.copies[static_cast<size_t>(c)];
        if (known.to == b) {
            // A tensor's contents never change once made (set_rows gives a new id), so an earlier split's copy will do.
            known.last_step = step;
            return c;
        }
    }
    CopyRecord copy;
    copy.tensor = source;
    copy.from = row.backend;
    copy.to = b;
    copy.split = static_cast<int32_t>(out_.splits.size()) - 1;
    copy.first_step = out_.splits.back().first_step;
    copy.last_step = step;
    copy.next = table_.row(source).first_copy;
    copy.bytes = graph_.tensor(source).span_bytes();
    table_.row(source).first_copy = static_cast<int32_t>(out_.copies.size());
    out_.copies.push_back(copy);
    return table_.row(source).first_copy;
}

Status Assigner::add_step(TensorId id, int16_t b) {
    const auto step = static_cast<int32_t>(out_.steps.size());
    if (out_.splits.empty() || out_.splits.back().backend != b) {
        const auto n_copies = static_cast<int32_t>(out_.copies.size());
        out_.splits.push_back({b, step, step, n_copies, n_copies});
    }
    out_.steps.push_back(id);
    out_.step_of[index(id)] = step;
    out_.first_operand.push_back(static_cast<uint32_t>(out_.operand_copy.size()));
    for (const TensorId source : graph_.tensor(id).sources()) {
        FORESAY_TRY(const int32_t copy, operand(source, b, step));
        out_.operand_copy.push_back(copy);
    }
    out_.splits.back().end_step = step + 1;
    out_.splits.back().end_copy = static_cast<int32_t>(out_.copies.size());
    const TensorId owner = owner_of(graph_, id);
    table_.row(id).backend = b;
    table_.row(owner).last_use = step;
    return ok();
}

void Assigner::home_the_unused() {
    const auto fallback = static_cast<int16_t>(backends_.size() - 1);
    for (size_t i = 0; i < graph_.n_tensors(); ++i) {
        TensorRow& row = table_.row(owner_of(graph_, TensorId{static_cast<int32_t>(i)}));
        row.backend = row.backend == kNoBackend ? fallback : row.backend;
        out_.home[i] = row.backend;
    }
}

Result<Assignment> Assigner::run(bool need_storage) {
    out_.home.resize(graph_.n_tensors());
    out_.step_of.assign(graph_.n_tensors(), -1);
    out_.steps.reserve(graph_.nodes().size());
    out_.first_operand.reserve(graph_.nodes().size());
    FORESAY_CHECK_OK(place_leafs(need_storage));
    for (const TensorId id : graph_.nodes()) {
        if (graph_.tensor(id).op == Op::kView) {
            continue;
        }
        FORESAY_TRY(const int16_t b, choose(id));
        FORESAY_CHECK_OK(add_step(id, b));
        previous_ = b;
    }
    home_the_unused();
    return std::move(out_);
}

}  // namespace

Result<Assignment> assign(const graph::Graph& graph, std::span<backend::Backend* const> backends, TensorTable& table,
                          bool need_storage) {
    table.begin(graph.n_tensors());
    return Assigner(graph, backends, table).run(need_storage);
}

}  // namespace foresay::sched
