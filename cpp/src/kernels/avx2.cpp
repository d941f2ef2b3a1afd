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

template <class Code, class Acc>
constexpr Kernels<Code, Acc> make_table() {
    constexpr bool narrow = std::is_same_v<Code, std::uint8_t> && std::is_same_v<Acc, std::uint32_t>;
    using Blocks = std::conditional_t<narrow, ExpandedBlocks, PlainBlocks<Code, Acc>>;
    Kernels<Code, Acc> table = plain_table<Code, Acc, Blocks>();
    table.add_levels = add_levels_avx2;
    table.collect_blocks = collect_blocks_avx2;
    if constexpr (std::is_same_v<Acc, std::uint32_t>) {
        table.block_largest = block_largest_u32;
        table.collect_at_least = collect_at_least_u32;
    }
    if constexpr (narrow) table.weighted_rows = weighted_rows_u8;
    return table;
}
}  // namespace

template <class Code, class Acc>
const Kernels<Code, Acc>& avx2_kernels() {
    static constexpr Kernels<Code, Acc> table = make_table<Code, Acc>();
    return table;
}

template const Kernels<std::uint8_t, std::uint32_t>& avx2_kernels();
template const Kernels<std::uint8_t, std::uint64_t>& avx2_kernels();
template const Kernels<std::uint16_t, std::uint32_t>& avx2_kernels();
template const Kernels<std::uint16_t, std::uint64_t>& avx2_kernels();

}  // namespace segmax::detail
