// The GGUF container: reading (hostile input) and the table of its contents. Knows no models.
// Every check of shared/spec/gguf-and-quants.md, section 1.7, is made before anything is allocated or read. Writing:
// writer.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foresay::gguf {

enum class ValueType : int32_t {
    kU8 = 0,
    kI8,
    kU16,
    kI16,
    kU32,
    kI32,
    kF32,
    kBool,
    kString,
    kArray,
    kU64,
    kI64,
    kF64,
};

/// "uint32", "string", ...: the type's name in the format.
std::string_view value_type_name(ValueType type);

/// A tensor of the file. ne[0] is the contiguous dimension; missing dimensions are 1.
struct TensorInfo {
    std::string name;
    int32_t type = 0;  ///< GGUF type id; may be one Foresay can't compute with (tensor/dtype.h says)
    int n_dims = 0;
    std::array<int64_t, 4> ne{1, 1, 1, 1};
    size_t bytes = 0;
    std::span<const std::byte>
        data;  ///< in the mapping; valid as long as the File lives. Aligned only to the file's alignment
    int shard = 0;
};

/// One metadata record, pointing into the mapping.
struct Value {
    std::string_view key;
    ValueType type = ValueType::kU8;
    ValueType element = ValueType::kU8;  ///< of an array
    uint64_t n = 1;                      ///< elements of an array
    std::span<const std::byte> raw;      ///< the encoded value (for arrays: the elements, back to back)
};

/// A GGUF file, or the shards of one, mapped read-only.
/// Threads: const after open. Lifetime: all views point into the mapping.
class File {
  public:
    /// Opens `path` (and, when it is the first shard, the others beside it).
    /// Errors: not_found and io (the file), bad_file, unsupported (version, byte order, tensor type), out_of_memory;
    /// each names file and place. invalid_argument: `path` is a later shard.
    static Result<std::shared_ptr<const File>> open(const std::string& path);
    /// The same over bytes in memory, for tests and fuzzing (no shards). The bytes must outlive the File.
    static Result<std::shared_ptr<const File>> from_bytes(std::span<const std::byte> bytes,
                                                          std::string name = "memory");
    ~File();

    const std::string& path() const;
    uint32_t version() const;
    size_t file_bytes() const;  ///< of all shards
    int n_shards() const;
    size_t alignment() const;  ///< of the first shard

    std::span<const Value> values() const;  ///< of the first shard, in file order
    const Value* find(std::string_view key) const;
    std::span<const TensorInfo> tensors() const;
    const TensorInfo* tensor(std::string_view name) const;

    /// Typed access. An integer of any width is accepted when the value fits; a wrong type or a missing key is an error
    /// naming the key.
    Result<uint32_t> u32(std::string_view key) const;
    Result<int64_t> i64(std::string_view key) const;
    Result<float> f32(std::string_view key) const;
    Result<bool> boolean(std::string_view key) const;
    Result<std::string_view> string(std::string_view key) const;
    /// The same with a default for a missing key; a wrong type is still an error.
    Result<uint32_t> u32_or(std::string_view key, uint32_t fallback) const;
    Result<float> f32_or(std::string_view key, float fallback) const;
    Result<bool> bool_or(std::string_view key, bool fallback) const;
    Result<std::string_view> string_or(std::string_view key, std::string_view fallback) const;
    /// Arrays. Integers of any width become int64, floats float, strings views, bools integers 0/1.
    Result<std::vector<int64_t>> i64_array(std::string_view key) const;
    Result<std::vector<float>> f32_array(std::string_view key) const;
    Result<std::vector<std::string_view>> string_array(std::string_view key) const;
    /// A u32 scalar or an array of them, spread over n entries (for "u32 or array" keys). A shorter array is an error.
    Result<std::vector<int64_t>> i64_scalar_or_array(std::string_view key, size_t n, int64_t fallback) const;

    /// Tells the kernel that these bytes of the mapping won't be read again (after repacking). Best effort.
    void drop_pages(std::span<const std::byte> bytes) const;

    struct Impl;
    explicit File(std::unique_ptr<Impl> impl);

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace foresay::gguf
