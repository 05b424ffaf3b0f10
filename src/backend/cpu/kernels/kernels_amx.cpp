// The AMX kernels: the AVX-512-VNNI unit plus tile multiplication for wide batches. Compiled with that unit's flags and
// -mamx-tile -mamx-int8; run only after isa.h has asked the system for permission. No std here: see kernel_abi.h.
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
//
#include "backend/cpu/kernels/matmul_amx.inc"
}  // namespace

#define FORESAY_TABLE kKernelsAmx
#define FORESAY_MATMUL matmul_amx
#include "backend/cpu/kernels/table.inc"
}  // namespace foresay::cpu
