#include "backend/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "backend/cpu/kernels/kernel_abi.h"

namespace foresay::cpu {
namespace {

constexpr Isa kAll[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvx2Vnni, Isa::kAvx512Vnni, Isa::kAmx};

struct Features {
    bool avx2 = false;
    bool avx_vnni = false;
    bool avx512_vnni = false;
    bool amx = false;
    bool amx_refused = false;
};

constexpr bool bit(uint32_t word, int i) {
    return (word >> i & 1u) != 0;
}

/// What the operating system saves on a context switch; without it the registers can't be used.
uint64_t read_xcr0() {
    uint32_t low = 0;
    uint32_t high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return uint64_t{high} << 32 | low;
}

/// AMX registers must be asked for, once per process; containers and old kernels refuse.
bool ask_for_amx() {
    constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Features detect() {
    Features f;
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
    uint32_t d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || !bit(c, 27)) {  // OSXSAVE
        return f;
    }
    const bool base = bit(c, 12) && bit(c, 28) && bit(c, 29);  // FMA, AVX, F16C
    const uint64_t xcr0 = read_xcr0();
    const bool ymm = (xcr0 & 0x6) == 0x6;
    const bool zmm = (xcr0 & 0xe6) == 0xe6;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) {
        return f;
    }
    const uint32_t n_subleafs = a;
    f.avx2 = base && ymm && bit(b, 5);
    // F 16, DQ 17, BW 30, VL 31; VNNI in ecx 11.
    f.avx512_vnni = f.avx2 && zmm && bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31) && bit(c, 11);
    const bool tiles = (xcr0 & 0x60000) == 0x60000 && bit(d, 24) && bit(d, 25);  // AMX-TILE, AMX-INT8
    const bool could_amx = f.avx512_vnni && tiles;
    f.amx = could_amx && ask_for_amx();
    f.amx_refused = could_amx && !f.amx;
    if (n_subleafs >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) {
        f.avx_vnni = f.avx2 && bit(a, 4);
    }
    return f;
}

const Features& features() {
    static const Features f = detect();
    return f;
}

}  // namespace

std::string_view isa_name(Isa isa) {
    switch (isa) {
        case Isa::kAvx2:
            return "avx2";
        case Isa::kAvx2Vnni:
            return "avx2vnni";
        case Isa::kAvx512Vnni:
            return "avx512vnni";
        case Isa::kAmx:
            return "amx";
        case Isa::kPortable:
            break;
    }
    return "portable";
}

bool has_isa(Isa isa) {
    switch (isa) {
        case Isa::kAvx2:
            return features().avx2;
        case Isa::kAvx2Vnni:
            return features().avx_vnni;
        case Isa::kAvx512Vnni:
            return features().avx512_vnni;
        case Isa::kAmx:
            return features().amx;
        case Isa::kPortable:
            break;
    }
    return true;
}

bool amx_is_refused() {
    return features().amx_refused;
}

std::vector<Isa> available_isas() {
    std::vector<Isa> isas;
    for (const Isa isa : kAll) {
        if (has_isa(isa)) {
            isas.push_back(isa);
        }
    }
    return isas;
}

Result<Isa> parse_isa(std::string_view name) {
    if (name == "auto") {
        return available_isas().back();
    }
    for (const Isa isa : kAll) {
        if (name == isa_name(isa)) {
            if (!has_isa(isa)) {
                return error(Code::kUnsupported, "this CPU has no " + std::string(name), "cpu-isa", "use auto");
            }
            return isa;
        }
    }
    return error(Code::kInvalidArgument, "unknown instruction set '" + std::string(name) + "'", "cpu-isa",
                 "one of auto, portable, avx2, avx2vnni, avx512vnni, amx");
}

const Kernels& kernels_of(Isa isa) {
    switch (isa) {
        case Isa::kAvx2:
            return kKernelsAvx2;
        case Isa::kAvx2Vnni:
            return kKernelsAvx2Vnni;
        case Isa::kAvx512Vnni:
            return kKernelsAvx512Vnni;
        case Isa::kAmx:
            return kKernelsAmx;
        case Isa::kPortable:
            break;
    }
    return kKernelsPortable;
}

}  // namespace foresay::cpu
