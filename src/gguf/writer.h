// Writing GGUF files: version 3, little-endian, tensors in the order added. For tests, converters and tools.
// Owns the encoding of records; knows no models. What it writes passes every check of the reader (gguf.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "tensor/dtype.h"

namespace foresay::gguf {

/// Collects metadata and tensors, then encodes them. Holds a copy of all data.
/// Wrong use (an empty or repeated key, a size that doesn't match the shape) is a programmer's mistake and asserts.
class Writer {
  public:
    /// alignment: a power of two; other than the default 32 it is stored as general.alignment.
    explicit Writer(uint32_t alignment = 32);

    /// One metadata value; the C++ type chooses the type in the file.
    void set(std::string_view key, uint8_t value);
    void set(std::string_view key, int8_t value);
    void set(std::string_view key, uint16_t value);
    void set(std::string_view key, int16_t value);
    void set(std::string_view key, uint32_t value);
    void set(std::string_view key, int32_t value);
    void set(std::string_view key, uint64_t value);
    void set(std::string_view key, int64_t value);
    void set(std::string_view key, float value);
    void set(std::string_view key, double value);
    void set(std::string_view key, bool value);
    void set(std::string_view key, std::string_view value);

    /// Without this overload a literal would become a bool.
    void set(std::string_view key, const char* value) { set(key, std::string_view(value)); }

    void set(std::string_view key, const std::string& value) { set(key, std::string_view(value)); }

    /// An array of one of the types above (not std::string_view: use std::string).
    template <typename T>
    void set(std::string_view key, const std::vector<T>& values);

    /// A tensor of any type the format defines. ne: contiguous dimension first, one to four. data: its encoded bytes.
    void add_tensor(std::string_view name, int32_t gguf_type, std::span<const int64_t> ne, std::vector<std::byte> data);
    /// A tensor from floats, encoded row by row. Errors: those of quantize_row, with the tensor's name.
    Status add_tensor(std::string_view name, DType dtype, std::span<const int64_t> ne, std::span<const float> values);

    /// The file in memory.
    std::vector<std::byte> to_bytes() const;
    /// Writes the file beside `path`, syncs it and renames it into place; a device is written to directly.
    /// Errors: io, naming the path; a full disk says so. On an error no partial file stays behind.
    Status write(const std::string& path) const;

  private:
    struct Tensor {
        std::string name;
        int32_t type;
        std::vector<int64_t> ne;
        std::vector<std::byte> data;
    };

    void begin_value(std::string_view key, ValueType type);
    /// Everything before the tensor data, padding included.
    std::vector<std::byte> head() const;
    size_t padded(size_t bytes) const;

    uint32_t alignment_;
    std::vector<std::string> keys_;
    std::vector<std::byte> metadata_;  ///< the encoded records
    std::vector<Tensor> tensors_;
};

}  // namespace foresay::gguf
