// Kernels for x86-64 with AVX-512 (F, BW, DQ, VL, VBMI, VBMI2: Ice Lake, Zen 4 and later); compiled for it and called
// only where the CPU has it. What gains nothing from wider registers is that of AVX2, compiled again.
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

/// A tile of a row is one register of 32 words, and each of the four nibbles of a word is looked up by one permutation:
/// that uses the low five bits of a word, and the table repeats after 16, so the bits above the nibble do not matter.
inline void add_levels_avx512(const LevelRow* rows, std::size_t num_rows, const std::uint32_t* tiles,
                              std::size_t num_tiles, std::uint16_t* bounds, std::uint16_t* tile_max) {
    constexpr std::size_t kAhead = 4;  // tiles: far enough for the memory to arrive in time
    constexpr std::size_t kTileBytes = kTileSpans * kSpanBytes;
    static_assert(kTileBytes == 64 && kSpanBytes == 16);
    for (std::size_t t = 0; t < num_tiles; ++t) {
        const std::size_t tile = tiles[t];
        const std::size_t ahead = tiles[t + kAhead < num_tiles ? t + kAhead : num_tiles - 1] * kTileBytes;
        // By nibble, from the lowest: the even blocks of the first half of a span, those of its second half, and the
        // odd blocks of both. A quarter of a register is a span.
        __m512i sums[4] = {};
        for (std::size_t r = 0; r < num_rows; ++r) {
            const LevelRow& row = rows[r];
            _mm_prefetch(reinterpret_cast<const char*>(row.levels + ahead), _MM_HINT_T0);
            const __m512i table =
                _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i*>(row.added)));
            const __m512i words = _mm512_loadu_si512(row.levels + tile * kTileBytes);
            sums[0] = _mm512_add_epi16(sums[0], _mm512_permutexvar_epi16(words, table));
            sums[1] = _mm512_add_epi16(sums[1], _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4), table));
            sums[2] = _mm512_add_epi16(sums[2], _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 8), table));
            sums[3] = _mm512_add_epi16(sums[3], _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 12), table));
        }
        // Even and odd blocks side by side: an eighth of every span in each quarter. Then the quarters change places,
        // as the entries of a 4 x 4 matrix do when it is transposed.
        const __m512i a = _mm512_unpacklo_epi16(sums[0], sums[2]);
        const __m512i b = _mm512_unpackhi_epi16(sums[0], sums[2]);
        const __m512i c = _mm512_unpacklo_epi16(sums[1], sums[3]);
        const __m512i d = _mm512_unpackhi_epi16(sums[1], sums[3]);
        const __m512i ab_low = _mm512_shuffle_i32x4(a, b, 0x44);
        const __m512i ab_high = _mm512_shuffle_i32x4(a, b, 0xEE);
        const __m512i cd_low = _mm512_shuffle_i32x4(c, d, 0x44);
        const __m512i cd_high = _mm512_shuffle_i32x4(c, d, 0xEE);
        const __m512i spans[kTileSpans] = {
            _mm512_shuffle_i32x4(ab_low, cd_low, 0x88), _mm512_shuffle_i32x4(ab_low, cd_low, 0xDD),
            _mm512_shuffle_i32x4(ab_high, cd_high, 0x88), _mm512_shuffle_i32x4(ab_high, cd_high, 0xDD)};
        __m512i best = _mm512_setzero_si512();
        for (std::size_t s = 0; s < kTileSpans; ++s) {
            std::uint16_t* at = bounds + tile * kTileBlocks + s * kSpanBlocks;
            const __m512i sum = _mm512_add_epi16(spans[s], _mm512_loadu_si512(at));
            _mm512_storeu_si512(at, sum);
            best = _mm512_max_epu16(best, sum);
        }
        const __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(best), _mm512_extracti64x4_epi64(best, 1));
        // The smallest of the complements is the largest.
        const __m128i eight = _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
        const __m128i smallest = _mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1)));
        tile_max[tile] = static_cast<std::uint16_t>(~_mm_cvtsi128_si32(smallest));
    }
}

inline std::size_t collect_blocks_avx512(const std::uint16_t* bounds, const std::uint16_t* tile_max, std::size_t first,
                                         std::size_t end, std::uint16_t least, std::uint32_t* out) {
    const __m512i limit = _mm512_set1_epi16(static_cast<short>(least));
    std::size_t found = 0;
    for (std::size_t tile = first; tile < end; ++tile) {
        if (tile_max[tile] < least) continue;
        for (std::size_t block = tile * kTileBlocks; block < (tile + 1) * kTileBlocks; block += 32) {
            auto mask = static_cast<std::uint32_t>(_mm512_cmpge_epu16_mask(_mm512_loadu_si512(bounds + block), limit));
            for (; mask != 0; mask &= mask - 1) {
                out[found++] = static_cast<std::uint32_t>(block) + lowest_bit(mask);
            }
        }
    }
    return found;
}

template <class Code, class Acc>
constexpr Kernels<Code, Acc> avx512_table() {
    Kernels<Code, Acc> table = avx2_table<Code, Acc>();
    table.add_levels = add_levels_avx512;
    table.collect_blocks = collect_blocks_avx512;
    return table;
}
}  // namespace

template <class Code, class Acc>
const Kernels<Code, Acc>& avx512_kernels() {
    static constexpr Kernels<Code, Acc> table = avx512_table<Code, Acc>();
    return table;
}

template const Kernels<std::uint8_t, std::uint32_t>& avx512_kernels();
template const Kernels<std::uint8_t, std::uint64_t>& avx512_kernels();
template const Kernels<std::uint16_t, std::uint32_t>& avx512_kernels();
template const Kernels<std::uint16_t, std::uint64_t>& avx512_kernels();

}  // namespace segmax::detail
