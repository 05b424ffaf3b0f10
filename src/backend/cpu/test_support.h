// Shared by the CPU backend's tests: the same graph on the reference and on a CPU backend, compared bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/naive_run.h"
#include "backend/reference/reference_backend.h"
#include "graph/builder.h"
#include "tensor/quantize.h"

namespace foresay::cpu {

inline constexpr DType kWeightTypes[] = {DType::kF32,  DType::kF16,    DType::kBF16,   DType::kQ4_0,
                                         DType::kQ4_1, DType::kQ5_0,   DType::kQ5_1,   DType::kQ8_0,
                                         DType::kQ2_K, DType::kQ3_K,   DType::kQ4_K,   DType::kQ5_K,
                                         DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4};

inline std::vector<float> noise(size_t n, uint32_t seed, float scale = 1.0F) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0F, scale);
    std::vector<float> out(n);
    for (float& x : out) {
        x = normal(random);
    }
    return out;
}

/// Bytes of a random matrix in file layout. Block payloads are random bits with tame scales where the type has a
/// quantiser, so that every code and scale occurs.
inline std::vector<std::byte> random_matrix(DType dtype, int64_t k, int64_t n, uint32_t seed) {
    std::vector<std::byte> bytes(row_bytes(dtype, k) * static_cast<size_t>(n));
    const std::vector<float> values = noise(static_cast<size_t>(k * n), seed);
    for (int64_t row = 0; row < n; ++row) {
        EXPECT_TRUE(quantize_row(dtype, values.data() + row * k,
                                 bytes.data() + static_cast<size_t>(row) * row_bytes(dtype, k), k));
    }
    return bytes;
}

/// Equal bits, or both NaN.
inline ::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
    if (a.size() != b.size()) {
        return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " elements";
    }
    for (size_t i = 0; i < a.size(); ++i) {
        if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0 && !(std::isnan(a[i]) && std::isnan(b[i]))) {
            return ::testing::AssertionFailure() << "element " << i << ": expected " << a[i] << ", got " << b[i];
        }
    }
    return ::testing::AssertionSuccess();
}

/// Backends of every ISA of this machine with 1, 2 and 3 threads; 3 oversubscribes a small machine on purpose.
inline std::vector<std::unique_ptr<CpuBackend>> all_backends(std::initializer_list<int> threads = {1, 2, 3},
                                                             bool fuse = true) {
    std::vector<std::unique_ptr<CpuBackend>> backends;
    for (const Isa isa : available_isas()) {
        for (const int n : threads) {
            backends.push_back(
                std::move(*CpuBackend::create({.n_threads = n, .isa = std::string(isa_name(isa)), .fuse = fuse})));
        }
    }
    return backends;
}

inline std::string label(const CpuBackend& backend) {
    return std::string(isa_name(backend.isa())) + ", " + std::to_string(backend.n_threads()) + " threads";
}

/// One graph on one backend. build() makes it through the members; the same calls give the same graph on any backend.
struct Fixture {
    graph::Builder b;
    backend::Backend* backend = nullptr;
    std::vector<std::unique_ptr<graph::Storage>> storages;
    std::vector<std::pair<graph::TensorId, std::vector<std::byte>>> inputs;
    std::vector<graph::TensorId> outputs;
    uint32_t seed = 1;

    graph::TensorId input(std::array<int64_t, 4> ne, float scale = 1.0F) {
        return input_values(ne, noise(static_cast<size_t>(ne[0] * ne[1] * ne[2]), seed++, scale));
    }

    graph::TensorId input_values(std::array<int64_t, 4> ne, const std::vector<float>& values) {
        return add_input(b.input("x", DType::kF32, ne), values.data(), values.size() * sizeof(float));
    }

    graph::TensorId input_i32(const std::vector<int32_t>& values) {
        return add_input(b.input("i", DType::kI32, {static_cast<int64_t>(values.size()), 1, 1, 1}), values.data(),
                         values.size() * sizeof(int32_t));
    }

    graph::TensorId weight(DType dtype, int64_t k, int64_t n, bool rows = false, bool products = true) {
        return weight_bytes(dtype, k, n, random_matrix(dtype, k, n, seed++), rows, products);
    }

    graph::TensorId weight_bytes(DType dtype, int64_t k, int64_t n, const std::vector<std::byte>& bytes, bool rows,
                                 bool products) {
        auto storage = backend->load_weight({.name = "w",
                                             .dtype = dtype,
                                             .ne = {k, n, 1, 1},
                                             .bytes = bytes,
                                             .used_by_mul_mat = products,
                                             .used_by_get_rows = rows});
        EXPECT_TRUE(storage.has_value());
        storages.push_back(std::move(*storage));
        return b.weight("w", dtype, {k, n, 1, 1}, storages.back().get());
    }

    graph::TensorId state(DType dtype, int64_t width, int64_t n_cells) {
        storages.push_back(std::move(*backend->allocate_state(dtype, {width, n_cells, 1, 1})));
        return b.persistent("cache", dtype, {width, n_cells, 1, 1}, storages.back().get());
    }

    void output(graph::TensorId id) {
        b.output(id);
        outputs.push_back(id);
    }

    /// Runs twice (state that a run leaves behind must not show) and returns all outputs' bytes as floats.
    std::vector<float> go() {
        auto graph = std::move(b).finish();
        EXPECT_TRUE(graph.has_value()) << (graph.has_value() ? "" : graph.error().to_string());
        auto run = reference::NaiveRun::create(*graph, *backend);
        EXPECT_TRUE(run.has_value()) << (run.has_value() ? "" : run.error().to_string());
        std::vector<float> out;
        for (int repeat = 0; repeat < 2; ++repeat) {
            for (const auto& [id, bytes] : inputs) {
                std::memcpy((*run)->bytes(id).data(), bytes.data(), bytes.size());
            }
            (*run)->run();
            out.clear();
            for (const graph::TensorId id : outputs) {
                const auto bytes = (*run)->bytes(id);
                const size_t at = out.size();
                out.resize(at + bytes.size() / sizeof(float));
                std::memcpy(out.data() + at, bytes.data(), bytes.size() / sizeof(float) * sizeof(float));
            }
        }
        return out;
    }

  private:
    graph::TensorId add_input(graph::TensorId id, const void* data, size_t size) {
        const auto* p = static_cast<const std::byte*>(data);
        inputs.emplace_back(id, std::vector<std::byte>(p, p + size));
        return id;
    }
};

inline std::vector<float> run_on(backend::Backend& backend, const std::function<void(Fixture&)>& build) {
    Fixture fixture;
    fixture.backend = &backend;
    build(fixture);
    return fixture.go();
}

/// The graph that build() makes gives the reference's bits on each of the backends.
inline void expect_as_reference(const std::function<void(Fixture&)>& build,
                                const std::vector<std::unique_ptr<CpuBackend>>& backends) {
    const auto reference = reference::ReferenceBackend::create();
    const std::vector<float> expected = run_on(*reference, build);
    ASSERT_FALSE(expected.empty());
    for (const auto& backend : backends) {
        EXPECT_TRUE(same_bits(expected, run_on(*backend, build))) << label(*backend);
    }
}

}  // namespace foresay::cpu
