// Four bits for a block maximum: which of 16 values of its term it is rounded up to.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "segmax/base/types.hpp"

namespace segmax {

/// Ascending values, the first 0 and the last the largest of `maxima`, that these are rounded up to with the least sum
/// of errors. Fewer distinct maxima than levels: no errors, and the largest repeats. 16-bit maxima are looked at in 255
/// steps of equal width.
template <class Code>
std::array<Code, kNumLevels> choose_levels(std::span<const Code> maxima);

/// The same kind of values for a fraction of the time, though not with the least sum of errors: each level stands for
/// about as many maxima.
template <class Code>
std::array<Code, kNumLevels> spread_levels(std::span<const Code> maxima);

}  // namespace segmax
