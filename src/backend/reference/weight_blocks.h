// Any quantised weight as blocks of 32 small integers with float factors: the form in which docs/numerics.md defines
// the products. Owns the mapping from the 13 block layouts to the four families. Knows no kernels; repacking code
// reuses it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace foresay::reference {

/// Which float path a weight type takes in a product (docs/numerics.md, the table).
enum class WeightFamily : uint8_t {
    kFloat,          ///< F32, F16, BF16: no blocks
    kOneScale,       ///< Q4_0, Q5_0, Q8_0, IQ4_NL, IQ4_XS, MXFP4: v signed
    kScaleMin,       ///< Q4_1, Q5_1, Q4_K, Q5_K: v unsigned
    kTwoScales,      ///< Q3_K, Q6_K: v signed, a scale per 16
    kTwoScalesMins,  ///< Q2_K: v unsigned, scale and min per 16
};

WeightFamily weight_family(DType dtype);

/// 32 consecutive elements of a row: element e is v[e] * w(e / 16) + m(e / 16). Families with one scale have w0 = w1,
/// m0 = m1.
struct Block32 {
    int16_t v[32];
    float w0, w1, m0, m1;
};

/// Block i_block32 (elements 32 * i_block32 ...) of a row in file layout. dtype: any of the quantised types.
Block32 decode_block32(DType dtype, const std::byte* row, int64_t i_block32);

}  // namespace foresay::reference
