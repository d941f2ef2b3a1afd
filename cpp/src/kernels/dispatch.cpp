// Which table of kernels this process uses.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "kernels/kernels.hpp"
#ifdef SEGMAX_HAVE_X86_KERNELS
#include "kernels/x86_cpu.hpp"
#endif

namespace segmax {

std::string_view simd_level_name(SimdLevel level) {
    constexpr std::string_view kNames[] = {"portable", "neon", "avx2", "avx512"};  // in the order of the enumeration
    return kNames[static_cast<std::size_t>(level)];
}

bool simd_level_available(SimdLevel level) {
    if (level == SimdLevel::portable) return true;
#if defined(SEGMAX_HAVE_NEON_KERNELS)
    return level == SimdLevel::neon;  // every CPU with this architecture has it
#elif defined(SEGMAX_HAVE_X86_KERNELS)
    const detail::X86Features features = detail::x86_features();
    return level == SimdLevel::avx512 ? features.avx512 : level == SimdLevel::avx2 && features.avx2;
#else
    return false;
#endif
}

namespace {

SimdLevel choose_level() {
    const char* forced = std::getenv("SEGMAX_SIMD");
    const bool any = forced == nullptr || *forced == '\0';
    for (const SimdLevel level : kSimdLevels) {
        if (!any && simd_level_name(level) != forced) continue;
        if (simd_level_available(level)) return level;
        if (any) continue;
        throw std::invalid_argument("SEGMAX_SIMD is '" + std::string(forced) +
                                    "', which this CPU or build does not have: unset it, or use 'portable'");
    }
    throw std::invalid_argument("expected SEGMAX_SIMD to be 'avx512', 'avx2', 'neon' or 'portable', got '" +
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
#ifdef SEGMAX_HAVE_NEON_KERNELS
    if (level == SimdLevel::neon) return detail::neon_kernels<Code, Acc>();
#endif
    (void)level;
    return detail::portable_kernels<Code, Acc>();
}

template const Kernels<std::uint8_t, std::uint32_t>& kernels(SimdLevel);
template const Kernels<std::uint8_t, std::uint64_t>& kernels(SimdLevel);
template const Kernels<std::uint16_t, std::uint32_t>& kernels(SimdLevel);
template const Kernels<std::uint16_t, std::uint64_t>& kernels(SimdLevel);

}  // namespace segmax
