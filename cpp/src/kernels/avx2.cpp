// Kernels for x86-64 with AVX2; compiled with -mavx2 and called only where the CPU has it.
// Intrinsics for the common case (8-bit codes, 32-bit sums); plain loops, compiled for AVX2, for the rest.
#include <immintrin.h>

#include <type_traits>

#include "segmax/base/types.hpp"
#include "segmax/kernels/kernels.hpp"

namespace segmax::detail {

namespace avx2 {
#include "loops.inc"

/// Two rows at a time: bytes a0 b0 a1 b1 ... widened to 16 bits, times (wa, wb), summed in pairs to 32 bits.
/// Exact, since a weight fits 15 bits and a code 8.
inline void weighted_rows_u8(const std::uint8_t* const* rows, const std::uint16_t* weights, std::size_t num_rows,
                             std::size_t count, std::uint32_t* out) {
    for (std::size_t i = 0; i < count; i += 16) {
        __m256i low = _mm256_setzero_si256();
        __m256i high = _mm256_setzero_si256();
        for (std::size_t r = 0; r < num_rows; r += 2) {
            const bool paired = r + 1 < num_rows;
            const std::uint32_t second = paired ? weights[r + 1] : 0;
            const __m256i factors =
                _mm256_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(weights[r]) | (second << 16)));
            const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[r] + i));
            const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[paired ? r + 1 : r] + i));
            const __m256i first_half = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
            const __m256i second_half = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
            low = _mm256_add_epi32(low, _mm256_madd_epi16(first_half, factors));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(second_half, factors));
        }
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), low);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i + 8), high);
    }
}

inline void add_block_max_u32(const std::uint32_t* accumulators, std::size_t num_blocks, std::uint32_t* bounds) {
    for (std::size_t b = 0; b < num_blocks; ++b) {
        const auto* block = reinterpret_cast<const __m256i*>(accumulators + b * kBlockDocs);
        const __m256i eight = _mm256_max_epu32(_mm256_loadu_si256(block), _mm256_loadu_si256(block + 1));
        __m128i best = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
        best = _mm_max_epu32(best, _mm_shuffle_epi32(best, 0x4E));
        best = _mm_max_epu32(best, _mm_shuffle_epi32(best, 0xB1));
        bounds[b] += static_cast<std::uint32_t>(_mm_cvtsi128_si32(best));
    }
}

inline std::size_t collect_at_least_u32(const std::uint32_t* values, std::size_t count, std::uint32_t limit,
                                        std::uint32_t* out) {
    const __m256i threshold = _mm256_set1_epi32(static_cast<int>(limit));
    std::size_t found = 0;
    for (std::size_t i = 0; i < count; i += 16) {
        const auto* at = reinterpret_cast<const __m256i*>(values + i);
        const __m256i first = _mm256_loadu_si256(at);
        const __m256i second = _mm256_loadu_si256(at + 1);
        const __m256i is_first = _mm256_cmpeq_epi32(_mm256_max_epu32(first, threshold), first);
        const __m256i is_second = _mm256_cmpeq_epi32(_mm256_max_epu32(second, threshold), second);
        auto mask = static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(is_first))) |
                    (static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(is_second))) << 8);
        if (i + 16 > count) mask &= (1U << (count - i)) - 1;
        while (mask != 0) {
            out[found++] = static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(__builtin_ctz(mask));
            mask &= mask - 1;
        }
    }
    return found;
}

inline std::size_t count_below_u16(const std::uint16_t* ids, std::size_t count, std::uint16_t base,
                                   std::uint32_t offset) {
    if (count > 256 || offset > 0xFFFF) return count_below(ids, count, base, offset);
    // Unsigned a < b as "max(a, b) != a"; every compared lane before the answer is all ones, so stop at the first zero.
    const __m256i bases = _mm256_set1_epi16(static_cast<short>(base));
    const __m256i offsets = _mm256_set1_epi16(static_cast<short>(offset));
    for (std::size_t i = 0; i < count; i += 16) {
        const __m256i chunk = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ids + i));
        const __m256i local = _mm256_sub_epi16(chunk, bases);
        const __m256i not_below = _mm256_cmpeq_epi16(_mm256_max_epu16(local, offsets), local);
        const auto mask = static_cast<std::uint32_t>(_mm256_movemask_epi8(not_below));
        if (mask != 0) {
            const std::size_t at = i + static_cast<std::size_t>(__builtin_ctz(mask)) / 2;
            return at < count ? at : count;
        }
    }
    return count;
}

template <class Code, class Acc>
constexpr Kernels<Code, Acc> make_table() {
    Kernels<Code, Acc> table{weighted_rows<Code, Acc>, add_row<Code, Acc>,    scatter_add<Code, Acc>,
                             add_block_max<Acc>,       collect_at_least<Acc>, count_below_u16};
    if constexpr (std::is_same_v<Acc, std::uint32_t>) {
        table.add_block_max = add_block_max_u32;
        table.collect_at_least = collect_at_least_u32;
        if constexpr (std::is_same_v<Code, std::uint8_t>) table.weighted_rows = weighted_rows_u8;
    }
    return table;
}
}  // namespace avx2

template <class Code, class Acc>
const Kernels<Code, Acc>& avx2_kernels() {
    static constexpr Kernels<Code, Acc> table = avx2::make_table<Code, Acc>();
    return table;
}

template const Kernels<std::uint8_t, std::uint32_t>& avx2_kernels();
template const Kernels<std::uint8_t, std::uint64_t>& avx2_kernels();
template const Kernels<std::uint16_t, std::uint32_t>& avx2_kernels();
template const Kernels<std::uint16_t, std::uint64_t>& avx2_kernels();

}  // namespace segmax::detail
