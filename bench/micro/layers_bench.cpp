// Decoder layers in the shape of Qwen2.5-Coder-1.5B Q4_K_M with random weights: a token's whole forward pass (28 layers
// and the output matrix) by batch width. What speculation pays for: t(n) / t(1). Arguments: columns, context, threads.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/naive_run.h"
#include "graph/builder.h"

namespace foresay {
namespace {

/// FORESAY_ISA forces an instruction set, for comparisons.
std::string isa() {
    const char* name = std::getenv("FORESAY_ISA");
    return name == nullptr ? "auto" : name;
}

constexpr int64_t kEmbd = 1536, kHead = 128, kHeads = 12, kKvHeads = 2, kFf = 8960, kLayers = 28, kVocab = 151936;

struct Model {
    cpu::CpuBackend& backend;
    graph::Builder b;
    std::vector<std::unique_ptr<graph::Storage>> storages;

    graph::TensorId weight(DType dtype, int64_t k, int64_t n) {
        std::vector<std::byte> bytes(row_bytes(dtype, k) * static_cast<size_t>(n));
        std::mt19937_64 random(storages.size());
        for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
            const uint64_t word = random() & 0x0f0f0f0f0f0f0f0f;  // tiny finite scales
            std::memcpy(bytes.data() + i, &word, sizeof(word));
        }
        return add(*backend.load_weight({.name = "w", .dtype = dtype, .ne = {k, n, 1, 1}, .bytes = bytes}));
    }

    graph::TensorId vector(int64_t n) {
        const std::vector<float> ones(static_cast<size_t>(n), 1.0F);
        return add(*backend.load_weight({.name = "v",
                                         .dtype = DType::kF32,
                                         .ne = {n, 1, 1, 1},
                                         .bytes = std::as_bytes(std::span(ones)),
                                         .used_by_mul_mat = false}));
    }

    graph::TensorId cache(int64_t cells) {
        storages.push_back(*backend.allocate_state(DType::kF16, {kHead * kKvHeads, cells, 1, 1}));
        return b.persistent("kv", DType::kF16, storages.back()->ne, storages.back().get());
    }

    graph::TensorId add(std::unique_ptr<graph::Storage> storage) {
        storages.push_back(std::move(storage));
        return b.weight("w", storages.back()->dtype, storages.back()->ne, storages.back().get());
    }
};

void BM_Layers(benchmark::State& state) {
    const int64_t m = state.range(0);
    const int64_t context = state.range(1);
    auto backend = *cpu::CpuBackend::create({.n_threads = static_cast<int>(state.range(2)), .isa = isa()});
    Model model{*backend, {}, {}};
    graph::Builder& b = model.b;
    const graph::TensorId in = b.input("x", DType::kF32, {kEmbd, m, 1, 1});
    const graph::TensorId pos = b.input("pos", DType::kI32, {m, 1, 1, 1});
    const graph::TensorId base = b.input("base", DType::kI32, {m, 1, 1, 1});
    graph::TensorId x = in;
    for (int layer = 0; layer < kLayers; ++layer) {
        const DType mixed = layer % 2 == 0 ? DType::kQ6_K : DType::kQ4_K;  // Q4_K_M: half of V and down in Q6_K
        const graph::TensorId a = b.rms_norm(x, model.vector(kEmbd), 1e-6F);
        graph::TensorId q =
            b.mul_mat(model.weight(DType::kQ4_K, kEmbd, kHead * kHeads), a, model.vector(kHead * kHeads));
        graph::TensorId k =
            b.mul_mat(model.weight(DType::kQ4_K, kEmbd, kHead * kKvHeads), a, model.vector(kHead * kKvHeads));
        const graph::TensorId v =
            b.mul_mat(model.weight(mixed, kEmbd, kHead * kKvHeads), a, model.vector(kHead * kKvHeads));
        const graph::RopeParams rope{.n_rot = kHead, .pairing = graph::RopePairing::kNeox, .base = 1e6F};
        q = b.rope(b.reshape(q, {kHead, kHeads, m, 1}), pos, graph::kNoTensor, rope);
        k = b.rope(b.reshape(k, {kHead, kKvHeads, m, 1}), pos, graph::kNoTensor, rope);
        const graph::TensorId kc = b.set_rows(model.cache(context + m), b.reshape(k, {kHead * kKvHeads, m, 1, 1}), pos);
        const graph::TensorId vc = b.set_rows(model.cache(context + m), v, pos);
        const graph::TensorId o = b.attention(q, kc, vc, pos, base, {.n_head_kv = kKvHeads, .scale = 0.088F});
        x = b.add(b.mul_mat(model.weight(DType::kQ4_K, kHead * kHeads, kEmbd), o), x);
        const graph::TensorId h = b.rms_norm(x, model.vector(kEmbd), 1e-6F);
        const graph::TensorId gate = b.mul_mat(model.weight(DType::kQ4_K, kEmbd, kFf), h);
        const graph::TensorId up = b.mul_mat(model.weight(DType::kQ4_K, kEmbd, kFf), h);
        x = b.add(b.mul_mat(model.weight(mixed, kFf, kEmbd), b.swiglu(gate, up)), x);
    }
    x = b.rms_norm(x, model.vector(kEmbd), 1e-6F);
    b.output(b.mul_mat(model.weight(DType::kQ6_K, kEmbd, kVocab), m > 16 ? b.view_rows(x, m - 1, 1) : x));
    const graph::Graph graph = *std::move(b).finish();
    auto run = *reference::NaiveRun::create(graph, *backend);
    for (float& value : run->f32(in)) {
        value = 0.5F;
    }
    for (int64_t i = 0; i < m; ++i) {
        run->i32(pos)[static_cast<size_t>(i)] = static_cast<int32_t>(context + i);
        run->i32(base)[static_cast<size_t>(i)] = 0;
    }
    run->run();
    for (auto _ : state) {
        run->run();
    }
    state.counters["tok/s"] =
        benchmark::Counter(static_cast<double>(state.iterations() * m), benchmark::Counter::kIsRate);
}

BENCHMARK(BM_Layers)
    ->ArgsProduct({{1, 2, 4, 8, 16}, {128, 2048}, {2}})
    ->Args({512, 0, 1})
    ->Args({512, 0, 2})
    ->Args({1, 128, 1})
    ->Args({8, 128, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foresay
