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
#include "kernels/loops.inc"
// After loops.inc, whose functions it calls.
#include "kernels/avx2.inc"
}  // namespace

template <class Code, class Acc>
const Kernels<Code, Acc>& avx2_kernels() {
    static constexpr Kernels<Code, Acc> table = avx2_table<Code, Acc>();
    return table;
}

template const Kernels<std::uint8_t, std::uint32_t>& avx2_kernels();
template const Kernels<std::uint8_t, std::uint64_t>& avx2_kernels();
template const Kernels<std::uint16_t, std::uint32_t>& avx2_kernels();
template const Kernels<std::uint16_t, std::uint64_t>& avx2_kernels();

}  // namespace segmax::detail
