// Internal to gguf/: one GGUF file's bytes into its table of contents. Knows no file system and no shards (file.cpp).
// Owns the checks of shared/spec/gguf-and-quants.md, section 1.7. The rule throughout: a number from the file is
// compared with what is left of the file before it is used, and nothing is reserved on its word alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace foresay::gguf {

/// Names to positions. A sorted array instead of a hash table: nobody can craft a file whose names all collide.
class NameIndex {
  public:
    /// The names' characters must outlive the index. Cost: n log n.
    explicit NameIndex(std::vector<std::string_view> names = {});
    /// The position of a name among those given, or nothing. Cost: log n.
    std::optional<size_t> find(std::string_view name) const;
    /// The later position of some name that occurs twice.
    std::optional<size_t> duplicate() const;

  private:
    struct Entry {
        std::string_view name;
        size_t position;
    };

    std::vector<Entry> entries_;  ///< by name, then position
};

/// The contents of one file. Views point into its bytes.
struct Contents {
    uint32_t version = 0;
    size_t alignment = 32;
    std::vector<Value> values;
    NameIndex keys;
    std::vector<TensorInfo> tensors;

    const Value* find(std::string_view key) const;
};

/// Reads a whole file. name: the file, for messages. shard: stored in the tensors.
/// Errors: bad_file, unsupported (version, byte order, tensor types). Throws std::bad_alloc: callers catch it.
Result<Contents> parse(std::span<const std::byte> bytes, const std::string& name, int shard);

/// An integer of any width as int64. Errors: bad_file naming the key when the value has another type or doesn't fit.
Result<int64_t> integer_of(const Value& value, const std::string& file);

/// Bytes of a fixed-size element; 0 for strings and arrays.
size_t value_size(ValueType type);

/// A name from a file as it may be printed: other than plain ASCII as \xNN, cut after 64 bytes.
std::string printable(std::string_view name);

/// "FILE: key 'KEY'", the place of an error.
std::string key_place(const std::string& file, std::string_view key);
/// "FILE: tensor 'NAME'".
std::string tensor_place(const std::string& file, std::string_view name);

}  // namespace foresay::gguf
