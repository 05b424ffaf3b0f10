// A file mapped read-only into memory. Owns the mapping; knows nothing of GGUF.
// The size is taken once, with fstat on the open descriptor. A file that is cut afterwards raises SIGBUS when its lost
// pages are touched: that is a broken disk or another program's mistake and ends the process, it is never read as data.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace foresay::gguf {

/// Move-only. Threads: const after map().
class Mapping {
  public:
    /// Maps the regular file `path`. Errors: not_found, io, bad_file for an empty file; all name the path.
    static Result<Mapping> map(const std::string& path);
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();

    std::span<const std::byte> bytes() const { return bytes_; }

    /// Tells the kernel that whole pages inside `part` may leave memory; they are read again when touched.
    /// part: inside bytes(). Best effort.
    void drop(std::span<const std::byte> part) const;

  private:
    explicit Mapping(std::span<const std::byte> bytes) : bytes_(bytes) {}

    std::span<const std::byte> bytes_;
};

}  // namespace foresay::gguf
