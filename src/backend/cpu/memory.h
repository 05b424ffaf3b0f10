// Aligned memory of the CPU backend: large blocks come from the kernel with huge pages asked for (a third of the time
// of a 4 kB-page stream goes into address translation), small ones from the heap. Weights share large chunks.
#pragma once

#include <cstddef>
#include <memory>

namespace foresay::cpu {

/// 64-byte aligned, zeroed; owns it.
class Memory {
  public:
    Memory() = default;
    ~Memory();
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&& other) noexcept;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    /// Empty (data() is null) when there is no memory; at least one byte otherwise.
    static Memory allocate(size_t bytes);

    std::byte* data() const { return data_; }

    size_t size() const { return size_; }

    /// What it takes once all of it is touched: whole huge pages where it comes from the kernel.
    size_t resident_bytes() const;

  private:
    std::byte* data_ = nullptr;
    size_t size_ = 0;
    void* mapping_ = nullptr;  // null: from the heap
    size_t mapping_bytes_ = 0;
};

/// Hands out pieces of large chunks, so that hundreds of weights don't each waste part of a huge page. A chunk is freed
/// with its last piece. Threads: one at a time.
class Arena {
  public:
    struct Piece {
        std::shared_ptr<Memory> chunk;
        std::byte* data = nullptr;  ///< null: no memory
    };

    Piece allocate(size_t bytes);

  private:
    std::shared_ptr<Memory> chunk_;
    size_t used_ = 0;
};

}  // namespace foresay::cpu
