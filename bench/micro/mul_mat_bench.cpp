// Products by weight type and batch width, through whole programs of the CPU backend: what a layer's matmul costs,
// weights from memory (rotating matrices, larger than L2) or from cache. Compare GB/s with BM_ReadBandwidth of
// bandwidth_bench.cpp. Arguments: type (GGUF id), columns, threads.
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

// A feed-forward matrix of a 1.5B model. 48 of them in Q4_K are 360 MB: more than any L3 of a shared host gives one
// guest.
constexpr int64_t kK = 1536;
constexpr int64_t kN = 8960;
constexpr int64_t kTotalBytes = int64_t{360} << 20;

std::vector<std::byte> random_bits(DType dtype) {
    std::vector<std::byte> bytes(row_bytes(dtype, kK) * static_cast<size_t>(kN));
    std::mt19937_64 random(1);
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        // Bits 6 and 7 of every byte cleared: any half that they form is finite, any code still occurs.
        const uint64_t word = random() & 0x3f3f3f3f3f3f3f3f;
        std::memcpy(bytes.data() + i, &word, sizeof(word));
    }
    return bytes;
}

void BM_MulMat(benchmark::State& state) {
    const auto dtype = static_cast<DType>(state.range(0));
    const int64_t m = state.range(1);
    auto backend = *cpu::CpuBackend::create({.n_threads = static_cast<int>(state.range(2)), .isa = isa()});
    const std::vector<std::byte> bytes = random_bits(dtype);
    const int64_t n_matrices = kTotalBytes / static_cast<int64_t>(bytes.size()) + 1;
    graph::Builder b;
    const graph::TensorId x = b.input("x", DType::kF32, {kK, m, 1, 1});
    std::vector<std::unique_ptr<graph::Storage>> storages;
    for (int64_t i = 0; i < n_matrices; ++i) {
        storages.push_back(*backend->load_weight({.name = "w", .dtype = dtype, .ne = {kK, kN, 1, 1}, .bytes = bytes}));
        b.output(b.mul_mat(b.weight("w", dtype, {kK, kN, 1, 1}, storages.back().get()), x));
    }
    const graph::Graph graph = *std::move(b).finish();
    auto run = *reference::NaiveRun::create(graph, *backend);
    for (float& value : run->f32(x)) {
        value = 0.5F;
    }
    run->run();
    for (auto _ : state) {
        run->run();
    }
    const auto passes = static_cast<double>(state.iterations() * n_matrices);
    state.counters["GB/s"] =
        benchmark::Counter(passes * static_cast<double>(bytes.size()) * 1e-9, benchmark::Counter::kIsRate);
    state.counters["GMAC/s"] =
        benchmark::Counter(passes * static_cast<double>(kK * kN * m) * 1e-9, benchmark::Counter::kIsRate);
    state.SetLabel(std::string(dtype_name(dtype)) + " " + std::string(cpu::isa_name(backend->isa())));
}

void all_types(benchmark::internal::Benchmark* bench) {
    for (const DType dtype : {DType::kQ4_K, DType::kQ6_K, DType::kQ4_1, DType::kQ8_0, DType::kQ4_0, DType::kQ5_K,
                              DType::kIQ4_XS, DType::kQ2_K, DType::kF16}) {
        for (const int64_t m : {1, 2, 4, 8, 16, 512}) {
            bench->Args({static_cast<int64_t>(dtype), m, 2});
        }
    }
    bench->Args({static_cast<int64_t>(DType::kQ4_K), 1, 1});
}

BENCHMARK(BM_MulMat)->Apply(all_types)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foresay
