// The element types of GGUF tensors: ids, names, block sizes. Owns the one table; knows no kernels.
// Layouts of the blocks: dequant.h. Source of the numbers: the GGUF format (shared/spec/gguf-and-quants.md, section 2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace foresay {

/// Values are the ids stored in GGUF files.
enum class DType : int32_t {
    kF32 = 0,
    kF16 = 1,
    kQ4_0 = 2,
    kQ4_1 = 3,
    kQ5_0 = 6,
    kQ5_1 = 7,
    kQ8_0 = 8,
    kQ2_K = 10,
    kQ3_K = 11,
    kQ4_K = 12,
    kQ5_K = 13,
    kQ6_K = 14,
    kIQ4_NL = 20,
    kIQ4_XS = 23,
    kI32 = 26,
    kBF16 = 30,
    kMXFP4 = 39,
};

struct DTypeInfo {
    DType dtype;
    std::string_view name;  ///< as users know it: "Q4_K"
    int64_t block;          ///< elements per block
    size_t block_bytes;     ///< bytes per block
    bool quantized;
    bool is_weight;  ///< may be a model weight here (everything but I32)
};

/// The entry of a supported type.
const DTypeInfo& dtype_info(DType dtype);
/// The supported type with this GGUF id, or nothing.
std::optional<DType> dtype_from_gguf(int32_t id);
/// The name of any id that the GGUF format defines, supported or not ("IQ2_XXS"); "type 77" stays the caller's job:
/// empty view.
std::string_view gguf_type_name(int32_t id);
/// Block elements and bytes of any id that the format defines (unsupported ones too: a reader must skip them); false
/// for retired or unknown ids.
bool gguf_type_size(int32_t id, int64_t* block, size_t* block_bytes);

/// Bytes of one row of n elements; n must be a multiple of the block.
inline size_t row_bytes(DType dtype, int64_t n) {
    const DTypeInfo& info = dtype_info(dtype);
    return static_cast<size_t>(n / info.block) * info.block_bytes;
}

inline std::string_view dtype_name(DType dtype) {
    return dtype_info(dtype).name;
}

}  // namespace foresay
