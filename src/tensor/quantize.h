// Encoding of float rows as weight blocks, for writing GGUF files (tests, tools). Knows no files; the inverse is
// dequant.h. Plain types follow the format's reference rules (shared/spec/gguf-and-quants.md, section 4.4). K-quants
// and IQ4 use a simple search per sub-block: valid blocks, but coarser than a tuned quantiser's. Not for making models
// to publish.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "tensor/dtype.h"

namespace foresay {

/// Encodes n floats as one row of `dtype` into dst (row_bytes(dtype, n) bytes).
/// Errors: invalid_argument for a type that is no weight type, n that is no multiple of the block, values that are not
/// finite (quantised types only), or a block whose scale exceeds half precision.
/// Threads: any. Deterministic: the same floats give the same bytes.
Status quantize_row(DType dtype, const float* src, std::byte* dst, int64_t n);

}  // namespace foresay
