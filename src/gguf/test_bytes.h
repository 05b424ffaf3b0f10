// For tests of gguf/: a GGUF file byte by byte, wrong ones included. The Writer can't make those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace foresay::gguf {

/// Each call appends its bytes, little-endian.
class Raw {
  public:
    const std::vector<std::byte>& bytes() const { return bytes_; }

    Raw& u8(uint8_t v) { return number(v); }

    Raw& u16(uint16_t v) { return number(v); }

    Raw& u32(uint32_t v) { return number(v); }

    Raw& i32(int32_t v) { return number(v); }

    Raw& u64(uint64_t v) { return number(v); }

    Raw& i64(int64_t v) { return number(v); }

    Raw& f32(float v) { return number(v); }

    Raw& f64(double v) { return number(v); }

    Raw& literal(std::string_view text) {
        for (const char c : text) {
            bytes_.push_back(static_cast<std::byte>(c));
        }
        return *this;
    }

    Raw& text(std::string_view text) { return u64(text.size()).literal(text); }

    Raw& key(std::string_view name) { return text(name); }

    Raw& u8_record(std::string_view name) { return key(name).i32(0).u8(0); }

    Raw& zeros(size_t n) {
        bytes_.resize(bytes_.size() + n);
        return *this;
    }

    Raw& pad(size_t unit) { return zeros((unit - bytes_.size() % unit) % unit); }

    Raw& head(int64_t n_tensors, int64_t n_values, uint32_t version = 3) {
        return literal("GGUF").u32(version).i64(n_tensors).i64(n_values);
    }

    Raw& tensor(std::string_view name, std::initializer_list<int64_t> ne, int32_t type, uint64_t offset) {
        text(name).u32(static_cast<uint32_t>(ne.size()));
        for (const int64_t n : ne) {
            i64(n);
        }
        return i32(type).u64(offset);
    }

    /// Overwrites what stands at a byte offset.
    template <typename T>
    Raw& patch(size_t at, T v) {
        std::memcpy(bytes_.data() + at, &v, sizeof(v));
        return *this;
    }

  private:
    template <typename T>
    Raw& number(T v) {
        const size_t at = bytes_.size();
        bytes_.resize(at + sizeof(v));
        return patch(at, v);
    }

    std::vector<std::byte> bytes_;
};

}  // namespace foresay::gguf
