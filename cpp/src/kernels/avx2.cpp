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

/// Which byte of up to eight codes each document of a block gets: its rank in the mask, or none.
struct ExpandTable {
    std::uint8_t places[256][8] = {};
    constexpr ExpandTable() {
        for (unsigned mask = 0; mask < 256; ++mask) {
            std::uint8_t rank = 0;
            for (unsigned doc = 0; doc < 8; ++doc) places[mask][doc] = (mask >> doc & 1) != 0 ? rank++ : 0x80;
        }
    }
};
alignas(64) constexpr ExpandTable kExpand;

/// A block of documents at once: codes spread to eight lanes by the mask.
struct ExpandedBlocks : PlainBlocks<std::uint8_t, std::uint32_t> {
    static void add(std::uint32_t mask, const std::uint8_t* codes, std::uint32_t weight, std::uint32_t* sums) {
        const __m128i packed = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
        const __m128i places = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kExpand.places[mask]));
        const __m256i lanes = _mm256_cvtepu8_epi32(_mm_shuffle_epi8(packed, places));
        // A weight fits 15 bits and a code 8, so the low halves multiply exactly.
        const __m256i products = _mm256_madd_epi16(lanes, _mm256_set1_epi32(static_cast<int>(weight)));
        auto* at = reinterpret_cast<__m256i*>(sums);
        _mm256_storeu_si256(at, _mm256_add_epi32(_mm256_loadu_si256(at), products));
    }
    static std::uint32_t listed_in(const std::uint8_t* places, std::uint32_t count, std::uint32_t block) {
        const __m256i blocks = _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(places)),
                                                _mm256_set1_epi8(static_cast<char>(0xF8)));
        const __m256i same = _mm256_cmpeq_epi8(blocks, _mm256_set1_epi8(static_cast<char>(block * kBlockDocs)));
        return _bzhi_u32(static_cast<std::uint32_t>(_mm256_movemask_epi8(same)), count);
    }
    static std::uint32_t find(const std::uint16_t* blocks, std::uint32_t count, std::uint32_t block) {
        const __m256i wanted = _mm256_set1_epi16(static_cast<short>(block));
        for (std::uint32_t i = 0; i < count; i += 16) {
            const __m256i sixteen = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(blocks + i));
            const auto same = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi16(sixteen, wanted)));
            if (same == 0) continue;
            const std::uint32_t at = i + lowest_bit(same) / 2;
            return at < count ? at : count;
        }
        return count;
    }
};

/// Sixteen levels looked up per lane, 64 blocks of a row at a time: low and high bytes by one shuffle each.
inline void add_levels_avx2(const LevelRow* rows, std::size_t num_rows, const std::uint32_t* tiles,
                            std::size_t num_tiles, const std::uint32_t* places, std::uint16_t* bounds,
                            std::uint16_t* tile_max) {
    constexpr std::size_t kAhead = 12;  // tiles: far enough for the memory to arrive in time
    constexpr std::size_t kTileBytes = kTileSpans * kSpanBytes;
    constexpr std::size_t kPairs = kTileSpans / 2;
    const __m256i nibble = _mm256_set1_epi8(15);
    for (std::size_t t = 0; t < num_tiles; ++t) {
        const std::size_t tile = tiles[t];
        const std::size_t ahead = tiles[t + kAhead < num_tiles ? t + kAhead : num_tiles - 1] * kTileBytes;
        // Two spans share a register half each: blocks 0-7 and 8-15 by low, 16-23 and 24-31 by high halves of bytes.
        __m256i sums[kPairs][4];
        auto* at = reinterpret_cast<__m256i*>(bounds + places[tile]);
        for (std::size_t p = 0; p < kPairs; ++p) {
            const __m256i a = _mm256_loadu_si256(at + 4 * p);
            const __m256i b = _mm256_loadu_si256(at + 4 * p + 1);
            const __m256i c = _mm256_loadu_si256(at + 4 * p + 2);
            const __m256i d = _mm256_loadu_si256(at + 4 * p + 3);
            sums[p][0] = _mm256_permute2x128_si256(a, c, 0x20);
            sums[p][1] = _mm256_permute2x128_si256(a, c, 0x31);
            sums[p][2] = _mm256_permute2x128_si256(b, d, 0x20);
            sums[p][3] = _mm256_permute2x128_si256(b, d, 0x31);
        }
        for (std::size_t r = 0; r < num_rows; ++r) {
            const LevelRow& row = rows[r];
            const std::uint8_t* levels = row.levels + tile * kTileBytes;
            _mm_prefetch(reinterpret_cast<const char*>(row.levels + ahead), _MM_HINT_T0);
            // Run starts take 4 bytes a span: a cache line of them serves 4 tiles.
            if (tile % 4 == 0) {
                _mm_prefetch(reinterpret_cast<const char*>(row.run_start + tile * kTileSpans), _MM_HINT_T1);
            }
            const __m256i low = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(row.low)));
            const __m256i high =
                _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(row.high)));
            for (std::size_t p = 0; p < kPairs; ++p) {
                const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(levels) + p);
                const __m256i x = _mm256_and_si256(bytes, nibble);
                const __m256i y = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble);
                const __m256i x_low = _mm256_shuffle_epi8(low, x);
                const __m256i x_high = _mm256_shuffle_epi8(high, x);
                const __m256i y_low = _mm256_shuffle_epi8(low, y);
                const __m256i y_high = _mm256_shuffle_epi8(high, y);
                sums[p][0] = _mm256_add_epi16(sums[p][0], _mm256_unpacklo_epi8(x_low, x_high));
                sums[p][1] = _mm256_add_epi16(sums[p][1], _mm256_unpackhi_epi8(x_low, x_high));
                sums[p][2] = _mm256_add_epi16(sums[p][2], _mm256_unpacklo_epi8(y_low, y_high));
                sums[p][3] = _mm256_add_epi16(sums[p][3], _mm256_unpackhi_epi8(y_low, y_high));
            }
        }
        __m256i best = _mm256_setzero_si256();
        for (std::size_t p = 0; p < kPairs; ++p) {
            _mm256_storeu_si256(at + 4 * p, _mm256_permute2x128_si256(sums[p][0], sums[p][1], 0x20));
            _mm256_storeu_si256(at + 4 * p + 1, _mm256_permute2x128_si256(sums[p][2], sums[p][3], 0x20));
            _mm256_storeu_si256(at + 4 * p + 2, _mm256_permute2x128_si256(sums[p][0], sums[p][1], 0x31));
            _mm256_storeu_si256(at + 4 * p + 3, _mm256_permute2x128_si256(sums[p][2], sums[p][3], 0x31));
            for (const __m256i& sum : sums[p]) best = _mm256_max_epu16(best, sum);
        }
        // The smallest of the complements is the largest.
        const __m128i eight = _mm_max_epu16(_mm256_castsi256_si128(best), _mm256_extracti128_si256(best, 1));
        const __m128i smallest = _mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1)));
        tile_max[tile] = static_cast<std::uint16_t>(~_mm_cvtsi128_si32(smallest));
    }
}

inline std::size_t collect_blocks_avx2(const std::uint16_t* bounds, const std::uint16_t* tile_max, std::size_t first,
                                       std::size_t end, std::uint16_t least, std::uint32_t* out) {
    const __m256i limit = _mm256_set1_epi16(static_cast<short>(least));
    std::size_t found = 0;
    for (std::size_t tile = first; tile < end; ++tile) {
        if (tile_max[tile] < least) continue;
        for (std::size_t block = tile * kTileBlocks; block < (tile + 1) * kTileBlocks; block += 32) {
            const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bounds + block));
            const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bounds + block + 16));
            // AVX2 has no unsigned comparison: a >= limit where max(a, limit) is a.
            const __m256i is_a = _mm256_cmpeq_epi16(_mm256_max_epu16(a, limit), a);
            const __m256i is_b = _mm256_cmpeq_epi16(_mm256_max_epu16(b, limit), b);
            // Packing works on halves of registers; the permutation brings the bytes back into the order of blocks.
            const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(is_a, is_b), 0xD8);
            auto mask = static_cast<std::uint32_t>(_mm256_movemask_epi8(both));
            for (; mask != 0; mask &= mask - 1) {
                out[found++] = static_cast<std::uint32_t>(block) + lowest_bit(mask);
            }
        }
    }
    return found;
}

inline void block_largest_u32(const std::uint32_t* sums, std::size_t num_blocks, std::uint32_t* out) {
    for (std::size_t b = 0; b < num_blocks; ++b) {
        const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + b * kBlockDocs));
        __m128i best = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
        best = _mm_max_epu32(best, _mm_shuffle_epi32(best, 0x4E));
        best = _mm_max_epu32(best, _mm_shuffle_epi32(best, 0xB1));
        out[b] = static_cast<std::uint32_t>(_mm_cvtsi128_si32(best));
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
        if (i + 16 > count) mask &= (1U << (count - i)) - 1;  // what was read behind the end
        while (mask != 0) {
            out[found++] = static_cast<std::uint32_t>(i) + lowest_bit(mask);
            mask &= mask - 1;
        }
    }
    return found;
}

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
