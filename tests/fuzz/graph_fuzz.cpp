// Random graphs from bytes through one scheduler over two devices: graphs grow and shrink, some are broken on purpose,
// some allocations are refused. Never a crash; a valid graph gives the numbers of a run without any plan. First byte:
// initial capacity and options. Then graphs: node count, nodes of 4 bytes each.
#include <cstdlib>
#include <cstring>

#include "backend/reference/naive_run.h"
#include "backend/reference/reference_backend.h"
#include "graph/builder.h"
#include "sched/scheduler.h"

namespace {

using foresay::DType;
using foresay::graph::Builder;
using foresay::graph::Graph;
using foresay::graph::kNoTensor;
using foresay::graph::Op;
using foresay::graph::TensorId;

class Bytes {
  public:
    Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

    bool empty() const { return at_ >= size_; }

    uint8_t next() { return empty() ? 0 : data_[at_++]; }

  private:
    const uint8_t* data_;
    size_t size_;
    size_t at_ = 0;
};

/// Refuses some ops, so that splits and copies are real.
class Device : public foresay::reference::ReferenceBackend {
  public:
    explicit Device(Op refused) : refused_(refused) {}

    bool supports(const Graph& graph, TensorId node) const override {
        return graph.tensor(node).op != refused_ && ReferenceBackend::supports(graph, node);
    }

  private:
    Op refused_;
};

struct World {
    Device a{Op::kScale};
    Device b{Op::kAdd};
    std::unique_ptr<foresay::graph::Storage> weight;
    std::unique_ptr<foresay::graph::Storage> cache;

    World() {
        static const std::vector<float> kNumbers(32 * 32, 0.25F);
        weight = std::move(*a.load_weight(
            {.name = "w", .ne = {32, 32, 1, 1}, .bytes = std::as_bytes(std::span<const float>(kNumbers))}));
        cache = std::move(*b.allocate_state(DType::kF16, {32, 4, 1, 1}));
    }
};

void add_value(Builder& builder, std::vector<TensorId>& values, TensorId& cache, TensorId rows, TensorId w,
               Bytes& bytes) {
    const uint8_t op = bytes.next();
    const TensorId x = values[bytes.next() % values.size()];
    const TensorId y = values[bytes.next() % values.size()];
    const uint8_t parameter = bytes.next();
    switch (op % 12) {
        case 0:
            values.push_back(builder.add(x, y));
            break;
        case 1:
            values.push_back(builder.mul(x, y));
            break;
        case 2:
            values.push_back(builder.scale(x, static_cast<float>(parameter) / 128.0F));
            break;
        case 3:
            values.push_back(builder.swiglu(x, y));
            break;
        case 4:
            values.push_back(builder.rms_norm(x, kNoTensor, 1e-5F));
            break;
        case 5:
            values.push_back(builder.mul_mat(w, x));
            break;
        case 6:
            values.push_back(builder.view_rows(x, parameter % 4, parameter / 4 % 4));
            break;
        case 7:
            cache = builder.set_rows(cache, x, rows);
            values.push_back(builder.get_rows(cache, rows));
            break;
        case 8:
            values.push_back(builder.reshape(x, {32, parameter, 1, 1}));
            break;
        case 9:
            values.push_back(builder.softcap(x, static_cast<float>(parameter)));
            break;
        case 10:
            values.push_back(builder.copy(x, parameter % 2 == 0 ? DType::kF16 : DType::kF32));
            break;
        default:
            values.push_back(builder.geglu(x, y));
            break;
    }
    if (parameter > 250 && !builder.failed()) {
        builder.output(values.back());
    }
}

Graph make_graph(World& world, Bytes& bytes, bool* valid) {
    Builder builder;
    const TensorId w = builder.weight("w", DType::kF32, {32, 32, 1, 1}, world.weight.get());
    TensorId cache = builder.persistent("cache", DType::kF16, {32, 4, 1, 1}, world.cache.get());
    const TensorId rows = builder.input("rows", DType::kI32, {2, 1, 1, 1});
    std::vector<TensorId> values{builder.input("x", DType::kF32, {32, 2, 1, 1}),
                                 builder.input("y", DType::kF32, {32, 1, 1, 1})};
    for (int n = bytes.next() * 4; n > 0 && !bytes.empty(); --n) {
        Builder attempt = builder;  // a step that fails is taken back, so that the graph stays valid
        std::vector<TensorId> attempt_values = values;
        TensorId attempt_cache = cache;
        add_value(attempt, attempt_values, attempt_cache, rows, w, bytes);
        if (!attempt.failed()) {
            builder = std::move(attempt);
            values = std::move(attempt_values);
            cache = attempt_cache;
        }
    }
    builder.output(values.back());
    Graph graph = std::move(*std::move(builder).finish());
    *valid = graph.validate().has_value();
    return graph;
}

/// Appends a node of raw bytes: validate must see through it.
void break_graph(Graph& graph, Bytes& bytes) {
    foresay::graph::Tensor node = graph.tensors().back();
    node.op = static_cast<Op>(bytes.next() % 18);
    node.n_src = bytes.next();
    for (TensorId& source : node.src) {
        source = TensorId{static_cast<int8_t>(bytes.next())};
    }
    node.ne = {bytes.next(), static_cast<int8_t>(bytes.next()), 1, 1};
    node.view_of = TensorId{static_cast<int8_t>(bytes.next())};
    node.view_offset = static_cast<int8_t>(bytes.next()) * 4;
    graph.add_node_unchecked(node);
}

void fill(std::span<std::byte> bytes, bool is_rows) {
    for (size_t i = 0; i < bytes.size(); i += 4) {
        const float value = static_cast<float>(i % 52) / 26.0F - 1.0F;
        const auto row = static_cast<int32_t>(i / 4);
        std::memcpy(bytes.data() + i, is_rows ? static_cast<const void*>(&row) : &value, 4);
    }
}

void compare(World& world, foresay::sched::Plan& plan, std::span<const std::byte> cache_before) {
    std::memcpy(world.cache->data, cache_before.data(), cache_before.size());
    auto naive = foresay::reference::NaiveRun::create(plan.graph(), world.b);
    if (!naive.has_value()) {
        std::abort();
    }
    for (const TensorId id : plan.graph().leafs()) {
        if ((plan.graph().tensor(id).flags & foresay::graph::kInput) != 0) {
            fill((*naive)->bytes(id), plan.graph().tensor(id).dtype == DType::kI32);
        }
    }
    (*naive)->run();
    for (size_t i = 0; i < plan.graph().n_tensors(); ++i) {
        const TensorId id{static_cast<int32_t>(i)};
        if ((plan.graph().tensor(id).flags & foresay::graph::kOutput) != 0) {
            const auto found = plan.output(id);
            if (std::memcmp(found.data(), (*naive)->bytes(id).data(), found.size()) != 0) {
                std::abort();
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Bytes bytes(data, size);
    World world;
    int refuse_in = -1;
    foresay::sched::SchedulerOptions options;
    const uint8_t first = bytes.next();
    options.initial_capacity = first % 32;
    options.in_place = first < 192;
    options.max_plans = 3;
    options.allow_allocation = [&refuse_in](size_t) { return refuse_in < 0 || refuse_in-- != 0; };
    auto scheduler = foresay::sched::Scheduler::create({&world.a, &world.b}, options);
    for (uint64_t round = 0; round < 12 && !bytes.empty(); ++round) {
        bool valid = false;
        Graph graph = make_graph(world, bytes, &valid);
        const uint8_t mode = bytes.next();
        if (mode % 8 == 1) {
            break_graph(graph, bytes);
            valid = graph.validate().has_value();
        }
        if (mode % 8 == 2) {
            (void)(*scheduler)
                ->pin(graph, TensorId{static_cast<int32_t>(bytes.next() % graph.n_tensors())}, bytes.next() % 3);
        }
        if (mode % 8 == 3) {
            (void)(*scheduler)->reserve(graph);
        }
        refuse_in = mode % 8 == 4 ? mode / 8 % 8 : -1;
        auto plan = (*scheduler)->plan({0, round}, std::move(graph));
        refuse_in = -1;
        if (!plan.has_value()) {
            (*scheduler)->reset_pins();
            continue;
        }
        if (!valid) {
            std::abort();  // a broken graph was planned
        }
        const std::vector<std::byte> cache_before(world.cache->data, world.cache->data + world.cache->bytes);
        for (const TensorId id : (*plan)->graph().leafs()) {
            if (((*plan)->graph().tensor(id).flags & foresay::graph::kInput) != 0) {
                fill((*plan)->input(id), (*plan)->graph().tensor(id).dtype == DType::kI32);
            }
        }
        if (!(*scheduler)->execute(**plan).has_value()) {
            std::abort();
        }
        compare(world, **plan, cache_before);
    }
    return 0;
}
