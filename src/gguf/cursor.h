// Internal to gguf/: a read position over bytes that can't be passed. Little-endian fields at any address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace foresay::gguf {

/// A little-endian number at an arbitrary address; p has sizeof(T) bytes. The hosts that Foresay runs on are
/// little-endian.
template <typename T>
T load(const std::byte* p) {
    T value;
    std::memcpy(&value, p, sizeof(T));
    return value;
}

class Cursor {
  public:
    explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

    size_t at() const { return at_; }

    size_t left() const { return bytes_.size() - at_; }

    /// The next n bytes; false, and no move, when fewer are left.
    [[nodiscard]] bool take(uint64_t n, std::span<const std::byte>* out) {
        if (n > left()) {
            return false;
        }
        *out = bytes_.subspan(at_, static_cast<size_t>(n));
        at_ += static_cast<size_t>(n);
        return true;
    }

    template <typename T>
    [[nodiscard]] bool read(T* out) {
        std::span<const std::byte> raw;
        if (!take(sizeof(T), &raw)) {
            return false;
        }
        *out = load<T>(raw.data());
        return true;
    }

  private:
    std::span<const std::byte> bytes_;
    size_t at_ = 0;  ///< never above bytes_.size()
};

}  // namespace foresay::gguf
