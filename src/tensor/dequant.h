// Decoding of weight blocks to float: the definition that every kernel must agree with.
// Owns the block layouts (offsets of scales, nibbles, high bits). Knows no kernels and no files. Read next: quantize.h.
// Layouts and formulas: shared/spec/gguf-and-quants.md, section 3. Each file field is loaded by bytes: blocks are
// unaligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace foresay {

/// Decodes one row of n elements into dst; n is a multiple of the type's block, dtype is a weight type (not I32).
/// Each element is computed in f32, left to right, without FMA: the bits are those of the format's reference decoder.
/// Threads: any. Cost: one pass, not tuned; kernels have their own fast forms.
void dequantize_row(DType dtype, const std::byte* src, float* dst, int64_t n);

/// The 16 values of IQ4_NL and IQ4_XS indices.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// The 16 values of MXFP4 indices, doubled so that they are integers (the scale is halved to match).
inline constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Half of the E8M0 scale with exponent byte e: 2^(e - 128), subnormal for e < 2.
float mxfp4_half_scale(uint8_t e);

/// Scale and min of sub-block j (0..7) from the 12 packed bytes of Q4_K and Q5_K.
void unpack_k6(const uint8_t* packed, int j, uint8_t* scale, uint8_t* min);

/// Scale of sub-block s (0..15) of Q3_K from its 12 packed bytes, offset removed: -32..31.
int unpack_q3k_scale(const uint8_t* packed, int s);

}  // namespace foresay
