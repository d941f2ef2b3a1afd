// Which instruction set the inner loops use.
#pragma once

#include <string_view>

namespace segmax {

enum class SimdLevel { portable, neon, avx2, avx512 };
/// All of them, the fastest first. No CPU has both kinds.
inline constexpr SimdLevel kSimdLevels[] = {SimdLevel::avx512, SimdLevel::avx2, SimdLevel::neon, SimdLevel::portable};

/// The level in use: the best the CPU has, or what the environment variable SEGMAX_SIMD names.
/// Throws std::invalid_argument where that variable names no level or one the CPU lacks.
SimdLevel simd_level();
std::string_view simd_level_name(SimdLevel level);
bool simd_level_available(SimdLevel level);

}  // namespace segmax
