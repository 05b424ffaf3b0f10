// Which instruction sets this machine really has (CPUID and XCR0, asked by hand: g++ 12 and clang 14 disagree about the
// names that __builtin_cpu_supports knows), and the choice of one. Read next: kernels/kernel_abi.h.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace foresay::cpu {

struct Kernels;

enum class Isa { kPortable, kAvx2, kAvx2Vnni, kAvx512Vnni, kAmx };

/// "portable", "avx2", ...: what --cpu-isa takes.
std::string_view isa_name(Isa isa);
bool has_isa(Isa isa);
/// The CPU has AMX but the system doesn't let this process use it (an old kernel, a container's filter).
bool amx_is_refused();
/// All that this machine has, weakest first.
std::vector<Isa> available_isas();
/// A name, or "auto" for the best one. Errors: invalid_argument for an unknown name; unsupported when the machine (or
/// this build) lacks it: a forced ISA is never stepped down quietly.
Result<Isa> parse_isa(std::string_view name);
const Kernels& kernels_of(Isa isa);

}  // namespace foresay::cpu
