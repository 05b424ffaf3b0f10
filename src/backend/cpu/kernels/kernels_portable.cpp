// The portable kernels: plain C++ for the baseline, so that any x86-64-v2 machine runs, with the bits of all others.
#include <bit>
#include <cmath>
#include <cstddef>

#include "backend/cpu/kernels/kernel_abi.h"
#include "backend/cpu/kernels/unroll.h"
#include "tensor/fp.h"

namespace foresay::cpu {
namespace {
#include "backend/cpu/kernels/lanes_portable.h"
#include "backend/cpu/kernels/matmul.inc"
#include "backend/cpu/kernels/ops.inc"
//
#include "backend/cpu/kernels/gates.inc"
}  // namespace

#define FORESAY_TABLE kKernelsPortable
#define FORESAY_MATMUL matmul
#include "backend/cpu/kernels/table.inc"
}  // namespace foresay::cpu
