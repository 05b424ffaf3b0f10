// get_rows, set_rows, copy: moving rows and changing their type.
#include <cmath>
#include <cstring>

#include "backend/reference/q8a.h"
#include "backend/reference/step.h"
#include "tensor/dequant.h"
#include "tensor/fp.h"

namespace foresay::reference {
namespace {

void store_u16(std::byte* dst, uint16_t v) {
    std::memcpy(dst, &v, sizeof(v));
}

/// x as Q8_0: q from the unrounded inverse, d rounded to half only when stored (docs/numerics.md, SetRows).
void store_q8_0(std::byte* dst, const float* x, int64_t n) {
    for (int64_t i = 0; i < n / kQ8aBlock; ++i) {
        Q8aBlock block;
        quantize_q8a(x + i * kQ8aBlock, &block, kQ8aBlock);
        store_u16(dst, f32_to_f16(block.d));
        std::memcpy(dst + 2, block.q, sizeof(block.q));
        dst += 2 + sizeof(block.q);
    }
}

void store_row(DType dtype, std::byte* dst, const float* x, int64_t n) {
    if (dtype == DType::kF32) {
        std::memcpy(dst, x, static_cast<size_t>(n) * sizeof(float));
    } else if (dtype == DType::kF16) {
        for (int64_t i = 0; i < n; ++i) {
            store_u16(dst + 2 * i, f32_to_f16(x[i]));
        }
    } else {
        store_q8_0(dst, x, n);
    }
}

}  // namespace

void run_get_rows(const Step& step, std::byte*) {
    const Operand& table = step.src[0];
    const int64_t n = step.dst.ne[0];
    for (int64_t t = 0; t < step.dst.ne[1]; ++t) {
        const int32_t id = step.src[1].i32()[t];
        float* out = step.out() + t * n;
        if (id < 0 || id >= table.ne[1]) {
            std::memset(out, 0, static_cast<size_t>(n) * sizeof(float));
        } else {
            dequantize_row(table.dtype, table.row(id), out, n);
        }
    }
}

void run_set_rows(const Step& step, std::byte*) {
    const Operand& x = step.src[1];
    for (int64_t t = 0; t < x.ne[1]; ++t) {
        const int32_t row = step.src[2].i32()[t];
        if (row >= 0 && row < step.dst.ne[1]) {
            std::byte* out = step.dst.data + static_cast<size_t>(row) * row_bytes(step.dst.dtype, step.dst.ne[0]);
            store_row(step.dst.dtype, out, x.f32() + t * x.ne[0], x.ne[0]);
        }
    }
}

void run_copy(const Step& step, std::byte*) {
    const Operand& x = step.src[0];
    const int64_t n = x.n_elements();
    if (x.dtype == step.dst.dtype) {
        std::memmove(step.dst.data, x.data, static_cast<size_t>(x.n_rows()) * row_bytes(x.dtype, x.ne[0]));
    } else if (x.dtype == DType::kF32) {
        store_row(DType::kF16, step.dst.data, x.f32(), n);
    } else {
        dequantize_row(x.dtype, x.data, step.out(), n);
    }
}

}  // namespace foresay::reference
