// What an x86-64 CPU can do, asked of the CPU itself: not every compiler's runtime has __builtin_cpu_supports (zig's,
// with which wheels are built, does not).
#pragma once

#include <cpuid.h>

#include <cstdint>

namespace segmax::detail {

struct X86Features {
    bool avx2 = false;    ///< AVX2, BMI, BMI2 and POPCNT
    bool avx512 = false;  ///< these, and AVX-512 F, BW, DQ, VL, VBMI and VBMI2
};

/// The features that both the CPU and the operating system support: a system must save the registers that they use.
inline X86Features x86_features() {
    const auto all = [](std::uint64_t bits, auto... numbers) { return (((bits >> numbers) & 1) && ...); };
    unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return {};
    const int popcnt = 23, osxsave = 27, avx = 28;
    if (!all(ecx, popcnt, osxsave, avx)) return {};
    unsigned int saved = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    const int xmm = 1, ymm = 2, mask = 5, zmm_low = 6, zmm_high = 7;
    if (!all(saved, xmm, ymm) || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return {};
    const int bmi = 3, avx2 = 5, bmi2 = 8;
    const int avx512f = 16, avx512dq = 17, avx512bw = 30, avx512vl = 31, avx512vbmi = 1, avx512vbmi2 = 6;
    X86Features found;
    found.avx2 = all(ebx, bmi, avx2, bmi2);
    found.avx512 = found.avx2 && all(saved, mask, zmm_low, zmm_high) &&
                   all(ebx, avx512f, avx512dq, avx512bw, avx512vl) && all(ecx, avx512vbmi, avx512vbmi2);
    return found;
}

}  // namespace segmax::detail
