#include "backend/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/checked.h"

namespace foresay::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
// Below this a huge page would be mostly waste.
constexpr size_t kMapAbove = size_t{1} << 20;
// Only touched pages count as resident, so the unused end of the last chunk costs address space alone.
constexpr size_t kChunk = size_t{64} << 20;

}  // namespace

Memory Memory::allocate(size_t bytes) {
    Memory memory;
    if (bytes > SIZE_MAX / 2) {
        return memory;
    }
    if (bytes < kMapAbove) {
        const size_t rounded = round_up(std::max<size_t>(bytes, 1), kAlignment);
        memory.data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
        if (memory.data_ != nullptr) {
            std::memset(memory.data_, 0, rounded);
            memory.size_ = bytes;
        }
        return memory;
    }
    const size_t mapped = round_up(bytes, kHugePage) + kHugePage;
    void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return memory;
    }
    memory.mapping_ = mapping;
    memory.mapping_bytes_ = mapped;
    const auto address = reinterpret_cast<uintptr_t>(mapping);
    memory.data_ = static_cast<std::byte*>(mapping) + (round_up(address, uintptr_t{kHugePage}) - address);
    memory.size_ = bytes;
    madvise(memory.data_, round_up(bytes, kHugePage),
            MADV_HUGEPAGE);  // a wish: without it pages are small, nothing else
    return memory;
}

size_t Memory::resident_bytes() const {
    return mapping_ == nullptr ? size_ : round_up(size_, kHugePage);
}

Memory::~Memory() {
    if (mapping_ != nullptr) {
        munmap(mapping_, mapping_bytes_);
    } else {
        std::free(data_);
    }
}

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapping_, other.mapping_);
    std::swap(mapping_bytes_, other.mapping_bytes_);
    return *this;
}

Arena::Piece Arena::allocate(size_t bytes) {
    if (bytes > kChunk / 4) {  // large enough to stand alone
        auto own = std::make_shared<Memory>(Memory::allocate(bytes));
        std::byte* data = own->data();
        return {std::move(own), data};
    }
    if (chunk_ == nullptr || bytes > kChunk - used_) {
        chunk_ = std::make_shared<Memory>(Memory::allocate(kChunk));
        used_ = 0;
        if (chunk_->data() == nullptr) {
            chunk_.reset();
            return {};
        }
    }
    std::byte* data = chunk_->data() + used_;
    used_ = round_up(used_ + bytes, kAlignment);
    return {chunk_, data};
}

}  // namespace foresay::cpu
