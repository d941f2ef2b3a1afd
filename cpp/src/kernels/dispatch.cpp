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
    return level == SimdLevel::avx2 ? "avx2" : "portable";
}

bool simd_level_available(SimdLevel level) {
    if (level == SimdLevel::portable) return true;
#ifdef SEGMAX_HAVE_AVX2
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
#else
    return false;
#endif
}

namespace {

SimdLevel choose_level() {
    const char* forced = std::getenv("SEGMAX_SIMD");
    if (forced == nullptr || *forced == '\0') {
        return simd_level_available(SimdLevel::avx2) ? SimdLevel::avx2 : SimdLevel::portable;
    }
    for (const SimdLevel level : {SimdLevel::portable, SimdLevel::avx2}) {
        if (simd_level_name(level) != forced) continue;
        if (simd_level_available(level)) return level;
        throw std::invalid_argument("SEGMAX_SIMD is '" + std::string(forced) +
                                    "', which this CPU or build does not have: unset it, or use 'portable'");
    }
    throw std::invalid_argument("expected SEGMAX_SIMD to be 'avx2' or 'portable', got '" + std::string(forced) + "'");
}

}  // namespace

SimdLevel simd_level() {
    static const SimdLevel level = choose_level();
    return level;
}

template <class Code, class Acc>
const Kernels<Code, Acc>& kernels(SimdLevel level) {
    assert(simd_level_available(level));
#ifdef SEGMAX_HAVE_AVX2
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
