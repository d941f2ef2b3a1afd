// Kernels for x86-64 with AVX2; compiled with -mavx2 and called only where the CPU has it.
// Intrinsics for the common case (8-bit codes, 32-bit sums); plain loops, compiled for AVX2, for the rest.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/kernels.hpp"
#include "segmax/base/types.hpp"

namespace segmax::detail {

namespace {
// In this order: each calls functions of the one before.
// clang-format off
#include "kernels/loops.inc"
#include "kernels/vector_loops.inc"
#include "kernels/avx2.inc"
// clang-format on
}  // namespace

template <class Code, class Acc>
const Kernels<Code, Acc>& avx2_kernels() {
    static constexpr Kernels<Code, Acc> table = vector_table<Code, Acc, VectorsAvx2>();
    return table;
}

template const Kernels<std::uint8_t, std::uint32_t>& avx2_kernels();
template const Kernels<std::uint8_t, std::uint64_t>& avx2_kernels();
template const Kernels<std::uint16_t, std::uint32_t>& avx2_kernels();
template const Kernels<std::uint16_t, std::uint64_t>& avx2_kernels();

}  // namespace segmax::detail
