// Which table of kernels this process uses.
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "kernels/kernels.hpp"

namespace segmax {

std::string_view simd_level_name(SimdLevel level) {
    return level == SimdLevel::avx512 ? "avx512" : level == SimdLevel::avx2 ? "avx2" : "portable";
}

bool simd_level_available(SimdLevel level) {
    if (level == SimdLevel::portable) return true;
#ifdef SEGMAX_HAVE_X86_KERNELS
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    if (level == SimdLevel::avx2) return avx2;
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
#else
    return false;
#endif
}

namespace {

constexpr SimdLevel kLevels[] = {SimdLevel::avx512, SimdLevel::avx2, SimdLevel::portable};  // the fastest first

SimdLevel choose_level() {
    const char* forced = std::getenv("SEGMAX_SIMD");
    const bool any = forced == nullptr || *forced == '\0';
    for (const SimdLevel level : kLevels) {
        if (!any && simd_level_name(level) != forced) continue;
        if (simd_level_available(level)) return level;
        if (any) continue;
        throw std::invalid_argument("SEGMAX_SIMD is '" + std::string(forced) +
                                    "', which this CPU or build does not have: unset it, or use 'portable'");
    }
    throw std::invalid_argument("expected SEGMAX_SIMD to be 'avx512', 'avx2' or 'portable', got '" +
                                std::string(forced) + "'");
}

}  // namespace

SimdLevel simd_level() {
    // Once per process: a search must not change its kernels half-way, and reading the environment is not thread-safe.
    static const SimdLevel level = choose_level();
    return level;
}

template <class Code, class Acc>
const Kernels<Code, Acc>& kernels(SimdLevel level) {
    assert(simd_level_available(level));
#ifdef SEGMAX_HAVE_X86_KERNELS
    if (level == SimdLevel::avx512) return detail::avx512_kernels<Code, Acc>();
    if (level == SimdLevel::avx2) return detail::avx2_kernels<Code, Acc>();
#endif
    (void)level;
    return detail::portable_kernels<Code, Acc>();
}

template const Kernels<std::uint8_t, std::uint32_t>& kernels(SimdLevel);
template const Kernels<std::uint8_t, std::uint64_t>& kernels(SimdLevel);
template const Kernels<std::uint16_t, std::uint32_t>& kernels(SimdLevel);
template const Kernels<std::uint16_t, std::uint64_t>& kernels(SimdLevel);

}  // namespace segmax
