// The inner loops, one table of functions per instruction set, chosen once per process.
//
// Codes are the stored weights (8 or 16 bits), Acc is the sum type (32 bits where the query's largest
// possible score fits 31, else 64). All sums are exact: no kernel saturates, rounds or wraps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace segmax {

template <class Code, class Acc>
struct Kernels {
    /// out[i] = sum over r of weights[r] * rows[r][i], for i < count.
    /// May read kSlackBytes past a row and write `out` up to the next multiple of 16.
    void (*weighted_rows)(const Code* const* rows, const std::uint16_t* weights, std::size_t num_rows,
                          std::size_t count, Acc* out);

    /// out[i] += weight * row[i], for i < count. Reads and writes nothing else.
    void (*add_row)(const Code* row, std::uint32_t weight, std::size_t count, Acc* out);

    /// accumulators[uint16(ids[i] - base)] += weight * codes[i]. The 16-bit difference makes any id, even a
    /// damaged one, fall into an accumulator array of kWindowDocs entries.
    void (*scatter_add)(const std::uint16_t* ids, const Code* codes, std::size_t count, std::uint16_t base,
                        std::uint32_t weight, Acc* accumulators);

    /// bounds[b] += max of the kBlockDocs accumulators of block b, for b < num_blocks.
    void (*add_block_max)(const Acc* accumulators, std::size_t num_blocks, Acc* bounds);

    /// Writes the indices of values[i] >= limit in ascending order to `out` and returns how many there are.
    /// May read `values` up to the next multiple of 16 (never reported) and write as far into `out`.
    std::size_t (*collect_at_least)(const Acc* values, std::size_t count, Acc limit, std::uint32_t* out);

    /// The number of leading ids with uint16(id - base) < offset, for ids ascending in that difference.
    std::size_t (*count_below)(const std::uint16_t* ids, std::size_t count, std::uint16_t base, std::uint32_t offset);
};

enum class SimdLevel { portable, avx2 };

/// The level in use: the best the CPU has, or what the environment variable SEGMAX_SIMD says.
/// Throws std::invalid_argument where that variable names no level or one the CPU lacks.
SimdLevel simd_level();
std::string_view simd_level_name(SimdLevel level);
bool simd_level_available(SimdLevel level);

/// The table of one level; available for <u8, u32>, <u8, u64>, <u16, u32>, <u16, u64>.
template <class Code, class Acc>
const Kernels<Code, Acc>& kernels(SimdLevel level);

namespace detail {
template <class Code, class Acc>
const Kernels<Code, Acc>& portable_kernels();
template <class Code, class Acc>
const Kernels<Code, Acc>& avx2_kernels();
}  // namespace detail

}  // namespace segmax
