// Setters of the flag table: from the text of a value to a checked member of Options.
// Every number is range-checked and must be the whole text (the peer takes "12abc" for 12; we don't).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.h"

namespace foresay::cli {

Result<int64_t> parse_int(std::string_view text, int64_t low, int64_t high);
/// Finite numbers only: "nan" and "inf" are errors.
Result<double> parse_float(std::string_view text, double low, double high);
/// 1 true on enabled / 0 false off disabled.
Result<bool> parse_bool(std::string_view text);
Result<std::string> parse_choice(std::string_view text, const std::vector<std::string>& choices);
/// f32, f16, q8_0 are computed; the peer's others are known and refused as not supported yet.
Result<DType> parse_cache_type(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);
/// "a, b, c". (fmt::join sets off a false warning of g++ 12 at -O3.)
std::string join(const std::vector<std::string>& parts);
/// The contents of a file. Errors: io, naming the file.
Result<std::string> read_text_file(const std::string& path);

/// Where a value goes: a function from Options to the member. Plain functions, so that table rows stay one line.
template <typename T>
using Target = T& (*)(Options&);

Setter to_int(Target<int32_t> target, int64_t low, int64_t high);
Setter to_float(Target<float> target, double low, double high);
Setter to_text(Target<std::string> target);
/// Text that must not be empty.
Setter to_nonempty_text(Target<std::string> target);
Setter to_choice(Target<std::string> target, std::vector<std::string> choices);
Setter to_bool(Target<bool> target);
/// A switch that sets `value`.
Setter to_switch(Target<bool> target, bool value = true);
Setter to_type(Target<DType> target);

// Checks without a place: for flags that have no effect here but whose bad values are errors all the same.
Setter check_int(int64_t low, int64_t high);
Setter check_float(double low, double high);
Setter check_choice(std::vector<std::string> choices);
/// A number, "auto" or "all".
Setter check_layers();
Setter check_bool();
Setter check_anything();

constexpr int64_t kMaxInt = 2147483647;

}  // namespace foresay::cli
