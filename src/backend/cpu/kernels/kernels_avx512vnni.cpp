// The AVX-512-VNNI kernels. Compiled with -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mfma -mf16c; run
// only after isa.h has seen all of them. No std here: see kernel_abi.h.
#include <immintrin.h>

#include "backend/cpu/kernels/kernel_abi.h"
#include "backend/cpu/kernels/unroll.h"

namespace foresay::cpu {
namespace {
#include "backend/cpu/kernels/lanes_avx512.h"
#include "backend/cpu/kernels/matmul.inc"
#include "backend/cpu/kernels/ops.inc"
//
#include "backend/cpu/kernels/gates.inc"
}  // namespace

#define FORESAY_TABLE kKernelsAvx512Vnni
#define FORESAY_MATMUL matmul
#include "backend/cpu/kernels/table.inc"
}  // namespace foresay::cpu
