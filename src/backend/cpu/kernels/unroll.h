// Full unrolling of loops over columns and groups: their arrays must become registers. Only macros, see kernel_abi.h.
#pragma once

#if defined(__clang__)
#define FORESAY_UNROLL _Pragma("unroll")
#else
#define FORESAY_UNROLL _Pragma("GCC unroll 16")
#endif
