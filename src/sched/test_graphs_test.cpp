// The random graphs of test_graphs.h.
#include "sched/test_graphs.h"

namespace foresay::sched::testing {
namespace {

/// One under construction: values of shape [32, n] by number of rows, and the newest handle of each cache.
struct Maker {
    std::mt19937 random;
    Builder b;
    std::vector<TensorId> values;
    std::vector<TensorId> weights;
    std::vector<TensorId> caches;
    TensorId row_ids{};

    size_t pick(size_t n) { return random() % n; }

    TensorId value() { return values[pick(values.size())]; }

    /// A value with as many rows as x: x itself or another one.
    TensorId like(TensorId x) {
        for (int attempt = 0; attempt < 8; ++attempt) {
            const TensorId y = value();
            if (b.tensor(y).ne == b.tensor(x).ne) {
                return y;
            }
        }
        return x;
    }

    void step();
};

void Maker::step() {
    const TensorId x = value();
    switch (pick(10)) {
        case 0:
        case 1:
            values.push_back(b.add(x, like(x)));
            break;
        case 2:
            values.push_back(b.mul(x, like(x)));
            break;
        case 3:
            values.push_back(b.scale(x, 0.75F));
            break;
        case 4:
            values.push_back(b.swiglu(x, like(x)));
            break;
        case 5:
            values.push_back(b.rms_norm(x, graph::kNoTensor, 1e-5F));
            break;
        case 6:
            values.push_back(b.mul_mat(weights[pick(weights.size())], x));
            break;
        case 7: {
            const int64_t n = b.tensor(x).ne[1];
            const auto first = static_cast<int64_t>(pick(static_cast<size_t>(n)));
            values.push_back(b.view_rows(x, first, 1 + static_cast<int64_t>(pick(static_cast<size_t>(n - first)))));
            break;
        }
        case 8: {
            TensorId& cache = caches[pick(caches.size())];
            const int64_t n = b.tensor(x).ne[1];
            cache = b.set_rows(cache, x, b.input("rows", DType::kI32, {n, 1, 1, 1}));
            break;
        }
        default: {
            const TensorId cache = caches[pick(caches.size())];
            values.push_back(b.get_rows(cache, row_ids));
            break;
        }
    }
}

}  // namespace

RandomGraph::RandomGraph(uint32_t seed, int n_nodes, std::span<backend::Backend* const> owners) {
    Maker m;
    m.random.seed(seed);
    m.row_ids = m.b.input("row_ids", DType::kI32, {4, 1, 1, 1});
    for (int64_t rows = 1; rows <= 4; ++rows) {
        m.values.push_back(m.b.input("x", DType::kF32, {32, rows, 1, 1}));
    }
    std::vector<float> numbers(32 * 32);
    for (size_t i = 0; i < 4; ++i) {
        for (float& x : numbers) {
            x = static_cast<float>(m.random() % 100) / 400.0F;
        }
        backend::Backend& owner = *owners[i % owners.size()];
        storages.push_back(std::move(*owner.load_weight(
            {.name = "w", .ne = {32, 32, 1, 1}, .bytes = std::as_bytes(std::span<const float>(numbers))})));
        m.weights.push_back(m.b.weight("w", DType::kF32, {32, 32, 1, 1}, storages.back().get()));
        storages.push_back(std::move(*owner.allocate_state(DType::kF16, {32, 8, 1, 1})));
        m.caches.push_back(m.b.persistent("cache", DType::kF16, {32, 8, 1, 1}, storages.back().get()));
    }
    for (int i = 0; i < n_nodes && !m.b.failed(); ++i) {
        m.step();
    }
    m.b.output(m.values.back());
    for (int i = 0; i < 3; ++i) {
        m.b.output(m.value());
    }
    auto made = std::move(m.b).finish();
    EXPECT_TRUE(made.has_value()) << made.error().to_string();
    graph = std::move(*made);
}

void RandomGraph::reset_caches() {
    for (size_t i = 1; i < storages.size(); i += 2) {
        std::memset(storages[i]->data, 0, storages[i]->bytes);
    }
}

}  // namespace foresay::sched::testing
