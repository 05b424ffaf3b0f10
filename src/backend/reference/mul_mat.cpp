// MatMul in the order that defines it: one accumulator per output, blocks of 32 in file order, exact integers inside.
#include <cmath>

#include "backend/reference/q8a.h"
#include "backend/reference/step.h"
#include "backend/reference/weight_blocks.h"
#include "tensor/dequant.h"

namespace foresay::reference {
namespace {

int32_t dot_half(const Block32& w, const Q8aBlock& x, int half) {
    int32_t sum = 0;
    for (int e = 16 * half; e < 16 * half + 16; ++e) {
        sum += int32_t{w.v[e]} * x.q[e];
    }
    return sum;
}

/// The contribution of one block before the activation's scale.
float block_product(WeightFamily family, const Block32& w, const Q8aBlock& x) {
    const int32_t i0 = dot_half(w, x, 0);
    const int32_t i1 = dot_half(w, x, 1);
    if (family == WeightFamily::kOneScale || family == WeightFamily::kScaleMin) {
        float u = static_cast<float>(i0 + i1) * w.w0;
        if (family == WeightFamily::kScaleMin) {
            u = std::fma(static_cast<float>(x.psum[0] + x.psum[1]), w.m0, u);
        }
        return u;
    }
    float u = static_cast<float>(i0) * w.w0;
    u = std::fma(static_cast<float>(i1), w.w1, u);
    if (family == WeightFamily::kTwoScalesMins) {
        u = std::fma(static_cast<float>(x.psum[0]), w.m0, u);
        u = std::fma(static_cast<float>(x.psum[1]), w.m1, u);
    }
    return u;
}

/// y = acc, or acc + bias.
void finish(const Step& step, int64_t n, int64_t t, float acc) {
    step.out()[t * step.dst.ne[0] + n] = step.n_src == 3 ? acc + step.src[2].f32()[n] : acc;
}

void mul_mat_quantized(const Step& step, std::byte* scratch) {
    const Operand& w = step.src[0];
    const Operand& x = step.src[1];
    const WeightFamily family = weight_family(w.dtype);
    const int64_t n_blocks = w.ne[0] / kQ8aBlock;
    auto* weights = reinterpret_cast<Block32*>(scratch);
    auto* columns = reinterpret_cast<Q8aBlock*>(weights + n_blocks);
    quantize_q8a(x.f32(), columns, x.n_elements());
    for (int64_t n = 0; n < w.ne[1]; ++n) {
        for (int64_t s = 0; s < n_blocks; ++s) {
            weights[s] = decode_block32(w.dtype, w.row(n), s);
        }
        for (int64_t t = 0; t < x.ne[1]; ++t) {
            const Q8aBlock* column = columns + t * n_blocks;
            float acc = 0.0F;
            for (int64_t s = 0; s < n_blocks; ++s) {
                acc = std::fma(block_product(family, weights[s], column[s]), column[s].d, acc);
            }
            finish(step, n, t, acc);
        }
    }
}

void mul_mat_float(const Step& step, std::byte* scratch) {
    const Operand& w = step.src[0];
    const Operand& x = step.src[1];
    auto* row = reinterpret_cast<float*>(scratch);
    for (int64_t n = 0; n < w.ne[1]; ++n) {
        dequantize_row(w.dtype, w.row(n), row, w.ne[0]);
        for (int64_t t = 0; t < x.ne[1]; ++t) {
            float acc = 0.0F;
            for (int64_t k = 0; k < w.ne[0]; ++k) {
                acc = std::fma(row[k], x.f32()[t * w.ne[0] + k], acc);
            }
            finish(step, n, t, acc);
        }
    }
}

}  // namespace

size_t mul_mat_scratch(const Step& step) {
    const auto k = static_cast<size_t>(step.src[0].ne[0]);
    const auto n_tokens = static_cast<size_t>(step.src[1].ne[1]);
    if (weight_family(step.src[0].dtype) == WeightFamily::kFloat) {
        return k * sizeof(float);
    }
    return k / kQ8aBlock * (sizeof(Block32) + n_tokens * sizeof(Q8aBlock));
}

void run_mul_mat(const Step& step, std::byte* scratch) {
    if (weight_family(step.src[0].dtype) == WeightFamily::kFloat) {
        mul_mat_float(step, scratch);
    } else {
        mul_mat_quantized(step, scratch);
    }
}

}  // namespace foresay::reference
