// Which instruction set the inner loops use.
#pragma once

#include <string_view>

namespace segmax {

enum class SimdLevel { portable, avx2, avx512 };

/// The level in use: the best the CPU has, or what the environment variable SEGMAX_SIMD names.
/// Throws std::invalid_argument where that variable names no level or one the CPU lacks.
SimdLevel simd_level();
std::string_view simd_level_name(SimdLevel level);
bool simd_level_available(SimdLevel level);

}  // namespace segmax
