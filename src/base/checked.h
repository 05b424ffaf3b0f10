// Arithmetic that reports overflow, for every number that comes from a file or a request.
#pragma once

#include <concepts>

namespace foresay {

/// false (and *out unspecified) when a * b does not fit T.
template <std::integral T>
[[nodiscard]] bool checked_mul(T a, T b, T* out) {
    return !__builtin_mul_overflow(a, b, out);
}

/// false (and *out unspecified) when a + b does not fit T.
template <std::integral T>
[[nodiscard]] bool checked_add(T a, T b, T* out) {
    return !__builtin_add_overflow(a, b, out);
}

/// The smallest multiple of `unit` (a power of two) that is not below value; the caller has bounded value.
template <std::integral T>
constexpr T round_up(T value, T unit) {
    return static_cast<T>((value + unit - 1) / unit * unit);
}

}  // namespace foresay
