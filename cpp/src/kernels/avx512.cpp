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
// In this order: each calls functions of the one before.
// clang-format off
#include "kernels/loops.inc"
#include "kernels/vector_loops.inc"
#include "kernels/avx2.inc"
// clang-format on

/// A tile of a row is one register of 32 words, and each of the four nibbles of a word is looked up by one permutation:
/// that uses the low five bits of a word, and the table repeats after 16, so the bits above the nibble do not matter.
/// By nibble, from the lowest: the even blocks of the first half of a span, those of its second half, and the odd
/// blocks of both. A quarter of a register is a span.
struct TileSumsAvx512 {
    static_assert(kTileSpans * kSpanBytes == 64 && kSpanBytes == 16);
    __m512i sums[4] = {};

    explicit TileSumsAvx512(const std::uint16_t*) {}  // bounds are added at the end, once they lie in the same order

    void add(const LevelRow& row, const std::uint8_t* levels) {
        const __m512i table = _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i*>(row.added)));
        const __m512i words = _mm512_loadu_si512(levels);
        sums[0] = _mm512_add_epi16(sums[0], _mm512_permutexvar_epi16(words, table));
        sums[1] = _mm512_add_epi16(sums[1], _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4), table));
        sums[2] = _mm512_add_epi16(sums[2], _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 8), table));
        sums[3] = _mm512_add_epi16(sums[3], _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 12), table));
    }
    std::uint16_t store(std::uint16_t* bounds) const {
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
            std::uint16_t* at = bounds + s * kSpanBlocks;
            const __m512i sum = _mm512_add_epi16(spans[s], _mm512_loadu_si512(at));
            _mm512_storeu_si512(at, sum);
            best = _mm512_max_epu16(best, sum);
        }
        const __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(best), _mm512_extracti64x4_epi64(best, 1));
        return TileSumsAvx2::largest_of(_mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
    }
};

struct BoundLimitAvx512 {
    __m512i limit;
    explicit BoundLimitAvx512(std::uint16_t least) : limit(_mm512_set1_epi16(static_cast<short>(least))) {}

    std::uint32_t reached(const std::uint16_t* bounds) const {
        return _mm512_cmpge_epu16_mask(_mm512_loadu_si512(bounds), limit);
    }
};

struct SegmentsAvx512 : SegmentsAvx2 {
    static void add(std::uint8_t mask, std::uint16_t added, std::uint16_t* bounds) {
        auto* at = reinterpret_cast<__m128i*>(bounds);
        const __m128i eight = _mm_loadu_si128(at);
        _mm_storeu_si128(at, _mm_mask_add_epi16(eight, mask, eight, _mm_set1_epi16(static_cast<short>(added))));
    }
};

struct VectorsAvx512 : VectorsAvx2 {
    using Segments = SegmentsAvx512;
    using TileSums = TileSumsAvx512;
    using BoundLimit = BoundLimitAvx512;

    static void quad_largest(const std::uint16_t* bounds, std::size_t num_tiles, std::uint16_t* quads) {
        static_assert(kQuadBlocks == 4 && kTileBlocks % 32 == 0);
        for (std::size_t block = 0; block < num_tiles * kTileBlocks; block += 32) {
            __m512i x = _mm512_loadu_si512(bounds + block);
            x = _mm512_max_epu16(x, _mm512_srli_epi64(x, 32));
            x = _mm512_max_epu16(x, _mm512_srli_epi64(x, 16));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(quads + block / kQuadBlocks), _mm512_cvtepi64_epi16(x));
        }
    }
};
}  // namespace

template <class Code, class Acc>
const Kernels<Code, Acc>& avx512_kernels() {
    static constexpr Kernels<Code, Acc> table = vector_table<Code, Acc, VectorsAvx512>();
    return table;
}

template const Kernels<std::uint8_t, std::uint32_t>& avx512_kernels();
template const Kernels<std::uint8_t, std::uint64_t>& avx512_kernels();
template const Kernels<std::uint16_t, std::uint32_t>& avx512_kernels();
template const Kernels<std::uint16_t, std::uint64_t>& avx512_kernels();

}  // namespace segmax::detail
