// Products of every weight type against the reference, bit for bit: all widths of a batch, odd shapes, every ISA of
// this machine, one to three threads.
#include <gtest/gtest.h>

#include "backend/cpu/test_support.h"

namespace foresay::cpu {
namespace {

class MulMat : public ::testing::TestWithParam<DType> {
  protected:
    static const std::vector<std::unique_ptr<CpuBackend>>& backends() {
        static const auto all = all_backends();
        return all;
    }

    static const std::vector<std::unique_ptr<CpuBackend>>& single() {
        static const auto all = all_backends({1});
        return all;
    }

    int64_t shortest() const { return std::max<int64_t>(32, dtype_info(GetParam()).block); }
};

TEST_P(MulMat, EveryBatchWidthGivesTheReferencesBits) {
    for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 70}) {
        SCOPED_TRACE(m);
        expect_as_reference(
            [&](Fixture& f) {
                const graph::TensorId w = f.weight(GetParam(), 2 * shortest(), 40);
                f.output(f.b.mul_mat(w, f.input({2 * shortest(), m, 1, 1})));
            },
            single());
    }
}

TEST_P(MulMat, OddShapesOnAnyNumberOfThreads) {
    for (const int64_t k : {32, 64, 288, 576, 1536}) {
        if (k % dtype_info(GetParam()).block != 0) {
            continue;
        }
        for (const int64_t n : {1, 15, 16, 17, 48, 200}) {
            for (const int64_t m : {1, 3, 8}) {
                SCOPED_TRACE(::testing::Message() << "k=" << k << " n=" << n << " m=" << m);
                expect_as_reference(
                    [&](Fixture& f) {
                        const graph::TensorId w = f.weight(GetParam(), k, n);
                        const graph::TensorId x = f.input({k, m, 1, 1});
                        f.output(f.b.mul_mat(w, x, f.input({n, 1, 1, 1})));
                    },
                    backends());
            }
        }
    }
}

TEST_P(MulMat, WithoutRepackingTheBitsAreTheSame) {
    std::vector<std::unique_ptr<CpuBackend>> plain;
    for (const Isa isa : available_isas()) {
        plain.push_back(
            std::move(*CpuBackend::create({.n_threads = 2, .isa = std::string(isa_name(isa)), .repack = false})));
    }
    for (const int64_t m : {1, 9, 17}) {
        SCOPED_TRACE(m);
        expect_as_reference(
            [&](Fixture& f) {
                const graph::TensorId w = f.weight(GetParam(), 2 * shortest(), 40);
                f.output(f.b.mul_mat(w, f.input({2 * shortest(), m, 1, 1})));
            },
            plain);
    }
}

TEST_P(MulMat, RandomBitsInBlocks) {
    // Every code and every scale field, also what no quantiser writes. Halves are kept finite by the mask.
    const int64_t k = 2 * shortest();
    std::vector<std::byte> bytes(row_bytes(GetParam(), k) * 33);
    std::mt19937 random(5);
    for (std::byte& b : bytes) {
        b = static_cast<std::byte>(random());
    }
    expect_as_reference(
        [&](Fixture& f) {
            const graph::TensorId w = f.weight_bytes(GetParam(), k, 33, bytes, false, true);
            f.output(f.b.mul_mat(w, f.input({k, 5, 1, 1})));
        },
        single());
}

TEST_P(MulMat, StrangeActivations) {
    const int64_t k = 2 * shortest();
    std::vector<float> x = noise(static_cast<size_t>(k * 9), 3);
    std::fill_n(x.begin(), k, 0.0F);  // a zero row
    std::transform(x.begin() + k, x.begin() + 2 * k, x.begin() + k, [](float v) { return v * 1e30F; });
    std::transform(x.begin() + 2 * k, x.begin() + 3 * k, x.begin() + 2 * k,
                   [](float v) { return v * 1e-40F; });  // denormal
    x[static_cast<size_t>(3 * k + 5)] = std::numeric_limits<float>::quiet_NaN();
    x[static_cast<size_t>(4 * k + 7)] = std::numeric_limits<float>::infinity();
    std::fill_n(x.begin() + 5 * k, k, 3.5F);
    std::fill_n(x.begin() + 6 * k, k, -0.0F);
    std::transform(x.begin() + 7 * k, x.begin() + 8 * k, x.begin() + 7 * k, [](float v) { return v * 1e-38F; });
    expect_as_reference(
        [&](Fixture& f) {
            const graph::TensorId w = f.weight(GetParam(), k, 33);
            f.output(f.b.mul_mat(w, f.input_values({k, 9, 1, 1}, x)));
        },
        single());
}

TEST_P(MulMat, PlainWeightsArePackedAsTheyAreUsed) {
    expect_as_reference(
        [&](Fixture& f) {
            const graph::TensorId w = f.weight(GetParam(), 2 * shortest(), 50, false, false);
            f.output(f.b.mul_mat(w, f.input({2 * shortest(), 3, 1, 1})));
        },
        single());
}

TEST_P(MulMat, RowsOfTiedEmbeddingsComeBackExactly) {
    for (const bool products : {true, false}) {
        expect_as_reference(
            [&](Fixture& f) {
                const graph::TensorId w =
                    f.weight(GetParam(), 2 * shortest() + (shortest() == 32 ? 32 : 0), 50, true, products);
                f.output(f.b.get_rows(w, f.input_i32({0, 49, 50, -1, 17, 16, 15, 31})));
            },
            single());
    }
}

INSTANTIATE_TEST_SUITE_P(Types, MulMat, ::testing::ValuesIn(kWeightTypes),
                         [](const auto& instance) { return std::string(dtype_name(instance.param)); });

TEST(MulMatGroups, SharedInputAndSharedTypes) {
    expect_as_reference(
        [](Fixture& f) {
            const graph::TensorId x = f.b.rms_norm(f.input({256, 4, 1, 1}), f.input({256, 1, 1, 1}), 1e-5F);
            for (const DType dtype : kWeightTypes) {
                f.output(f.b.mul_mat(f.weight(dtype, 256, 24), x));
            }
        },
        all_backends());
}

}  // namespace
}  // namespace foresay::cpu
