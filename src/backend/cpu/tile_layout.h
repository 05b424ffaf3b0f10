// The weight layout of the CPU backend: 16 output rows side by side, so that vector lanes are rows and the activation
// enters as a broadcast. Owns packing from file layout and reading a row back (tied embeddings). The layout itself:
// kernels/kernel_abi.h. One layout serves every ISA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "backend/cpu/kernels/kernel_abi.h"
#include "tensor/dtype.h"

namespace foresay::cpu {

struct TileLayout {
    DType dtype = DType::kF32;
    bool is_dense = true;
    int32_t kind = 0;      ///< TileKind, or DenseKind when dense
    int64_t k = 0, n = 0;  ///< row length and rows of the matrix
    int64_t n_groups = 0;  ///< row groups: ceil(n / 16)
    int64_t group_bytes = 0;

    size_t bytes() const { return static_cast<size_t>(n_groups * group_bytes); }
};

/// dtype: a weight type; k a multiple of its block.
TileLayout make_tile_layout(DType dtype, int64_t k, int64_t n);
/// Writes row group `group` from the matrix in file layout. Rows past n become zeros. Threads: any.
void pack_group(const TileLayout& layout, const std::byte* matrix, int64_t group, uint8_t* dst);
/// Row `row` as floats, the same bits as dequantize_row of the file's row. tiles: all groups.
void read_tile_row(const TileLayout& layout, const uint8_t* tiles, int64_t row, float* dst);
/// How products with a weight of this type are computed, for people: "int8 dots over tiles (amx)", "f16 tiles (avx2)".
/// A tile type has a kernel of every ISA, so nothing falls back on a slower one. repack: off: the tiles are made again
/// in each pass.
std::string product_path(DType dtype, std::string_view isa, bool repack);
/// Which activation arrays the kernels of this type read (ActNeed and ActStart bits).
uint32_t activation_needs(const TileLayout& layout);

}  // namespace foresay::cpu
