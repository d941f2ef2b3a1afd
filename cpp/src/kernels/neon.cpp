// Kernels for 64-bit ARM, where every CPU has NEON. Intrinsics for the common case (8-bit codes, 32-bit sums); plain
// loops for the rest.
#include <arm_neon.h>

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
// clang-format on

/// The bytes of two comparisons of 16-bit lanes, in order: 255 where they hold.
inline uint8x16_t narrow(uint16x8_t first, uint16x8_t second) {
    return vuzp1q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(second));
}

/// A bit per byte of two comparisons, the first byte the lowest: NEON has no instruction for it. Each byte keeps a bit
/// of its own of eight, and neighbors are added until eight of them are one byte.
inline std::uint32_t bits_of(uint8x16_t first, uint8x16_t second) {
    const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ULL));
    const uint8x16_t pairs = vpaddq_u8(vandq_u8(first, bits), vandq_u8(second, bits));
    const uint8x16_t fours = vpaddq_u8(pairs, pairs);
    return vgetq_lane_u32(vreinterpretq_u32_u8(vpaddq_u8(fours, fours)), 0);
}

/// A block of documents at once: codes spread to eight lanes by the mask.
struct BlocksNeon : PlainBlocks<std::uint8_t, std::uint32_t> {
    static void add(std::uint32_t mask, const std::uint8_t* codes, std::uint32_t weight, std::uint32_t* sums) {
        // A place of 0x80 is beyond the codes: such a lane is 0.
        const uint16x8_t lanes = vmovl_u8(vtbl1_u8(vld1_u8(codes), vld1_u8(kExpand.places[mask])));
        const auto factor = static_cast<std::uint16_t>(weight);
        vst1q_u32(sums, vmlal_n_u16(vld1q_u32(sums), vget_low_u16(lanes), factor));
        vst1q_u32(sums + 4, vmlal_high_n_u16(vld1q_u32(sums + 4), lanes, factor));
    }
    static std::uint32_t listed_in(const std::uint8_t* places, std::uint32_t count, std::uint32_t block) {
        const uint8x16_t wanted = vdupq_n_u8(static_cast<std::uint8_t>(block));
        const uint8x16_t first = vceqq_u8(vshrq_n_u8(vld1q_u8(places), 3), wanted);
        const uint8x16_t second = vceqq_u8(vshrq_n_u8(vld1q_u8(places + 16), 3), wanted);
        static_assert(kBlockDocs == 1U << 3);
        return bits_of(first, second) & static_cast<std::uint32_t>((std::uint64_t{1} << count) - 1);
    }
    struct Wanted {
        static constexpr std::uint32_t kBits = 4;
        explicit Wanted(std::uint32_t block) : wanted(vdupq_n_u16(static_cast<std::uint16_t>(block))) {}
        std::uint64_t same(const std::uint16_t* blocks) const {
            const uint8x16_t sixteen =
                narrow(vceqq_u16(vld1q_u16(blocks), wanted), vceqq_u16(vld1q_u16(blocks + 8), wanted));
            // Half of every byte: the middle of every two.
            return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(sixteen), 4)), 0);
        }
        uint16x8_t wanted;
    };
    static std::uint32_t find_last(const std::uint16_t* blocks, std::uint32_t count, std::uint32_t block) {
        return find_last_by<Wanted>(blocks, count, block);
    }
};

/// Sixteen levels looked up at once. What they add is summed as low bytes, to 16 bits, and high bytes, which wrap as
/// the whole sum does.
struct TileSumsNeon {
    static constexpr std::size_t kHalves = 2 * kTileSpans;  // 16 blocks each, those that share a half of their bytes
    uint16x8_t low[kHalves][2];
    uint8x16_t high[kHalves];

    explicit TileSumsNeon(const std::uint16_t* bounds) {
        for (std::size_t h = 0; h < kHalves; ++h) {
            low[h][0] = vld1q_u16(bounds + 16 * h);
            low[h][1] = vld1q_u16(bounds + 16 * h + 8);
            high[h] = vdupq_n_u8(0);
        }
    }
    void add(const LevelRow& row, const std::uint8_t* levels) {
        const uint8x16_t row_low = vld1q_u8(row.low);
        const uint8x16_t row_high = vld1q_u8(row.high);
        for (std::size_t span = 0; span < kTileSpans; ++span) {
            const uint8x16_t bytes = vld1q_u8(levels + span * kSpanBytes);
            add_half(2 * span, vandq_u8(bytes, vdupq_n_u8(15)), row_low, row_high);
            add_half(2 * span + 1, vshrq_n_u8(bytes, 4), row_low, row_high);
        }
    }
    std::uint16_t store(std::uint16_t* bounds) const {
        uint16x8_t best = vdupq_n_u16(0);
        for (std::size_t h = 0; h < kHalves; ++h) {
            const uint16x8_t first = vaddq_u16(low[h][0], vshll_n_u8(vget_low_u8(high[h]), 8));
            const uint16x8_t second = vaddq_u16(low[h][1], vshll_high_n_u8(high[h], 8));
            vst1q_u16(bounds + 16 * h, first);
            vst1q_u16(bounds + 16 * h + 8, second);
            best = vmaxq_u16(best, vmaxq_u16(first, second));
        }
        return vmaxvq_u16(best);
    }

private:
    void add_half(std::size_t h, uint8x16_t places, uint8x16_t row_low, uint8x16_t row_high) {
        const uint8x16_t added = vqtbl1q_u8(row_low, places);
        low[h][0] = vaddw_u8(low[h][0], vget_low_u8(added));
        low[h][1] = vaddw_high_u8(low[h][1], added);
        high[h] = vaddq_u8(high[h], vqtbl1q_u8(row_high, places));
    }
};

struct BoundLimitNeon {
    uint16x8_t limit;
    explicit BoundLimitNeon(std::uint16_t least) : limit(vdupq_n_u16(least)) {}

    std::uint32_t reached(const std::uint16_t* bounds) const {
        const uint8x16_t first = narrow(vcgeq_u16(vld1q_u16(bounds), limit), vcgeq_u16(vld1q_u16(bounds + 8), limit));
        const uint8x16_t second =
            narrow(vcgeq_u16(vld1q_u16(bounds + 16), limit), vcgeq_u16(vld1q_u16(bounds + 24), limit));
        return bits_of(first, second);
    }
};

struct SumLimitNeon {
    uint32x4_t limit;
    explicit SumLimitNeon(std::uint32_t least) : limit(vdupq_n_u32(least)) {}

    std::uint32_t reached(const std::uint32_t* values) const {
        return bits_of(narrow(eight(values), eight(values + 8)), vdupq_n_u8(0));
    }
    uint16x8_t eight(const std::uint32_t* values) const {
        return vuzp1q_u16(vreinterpretq_u16_u32(vcgeq_u32(vld1q_u32(values), limit)),
                          vreinterpretq_u16_u32(vcgeq_u32(vld1q_u32(values + 4), limit)));
    }
};

struct SegmentsNeon {
    static void add(std::uint8_t mask, std::uint16_t added, std::uint16_t* bounds) {
        static constexpr std::uint16_t kBits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
        const uint16x8_t has = vtstq_u16(vdupq_n_u16(mask), vld1q_u16(kBits));
        vst1q_u16(bounds, vaddq_u16(vld1q_u16(bounds), vandq_u16(has, vdupq_n_u16(added))));
    }
    static std::uint16_t largest(const std::uint16_t* bounds) { return vmaxvq_u16(vld1q_u16(bounds)); }
};

struct VectorsNeon {
    using Blocks = BlocksNeon;
    using Segments = SegmentsNeon;
    using TileSums = TileSumsNeon;
    using BoundLimit = BoundLimitNeon;
    using SumLimit = SumLimitNeon;

    static void weighted_rows(const std::uint8_t* const* rows, const std::uint16_t* weights, std::size_t num_rows,
                              std::size_t count, std::uint32_t* out) {
        for (std::size_t i = 0; i < count; i += 16) {
            uint32x4_t sums[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
            for (std::size_t r = 0; r < num_rows; ++r) {
                const uint8x16_t codes = vld1q_u8(rows[r] + i);
                const uint16x8_t low = vmovl_u8(vget_low_u8(codes));
                const uint16x8_t high = vmovl_high_u8(codes);
                sums[0] = vmlal_n_u16(sums[0], vget_low_u16(low), weights[r]);
                sums[1] = vmlal_high_n_u16(sums[1], low, weights[r]);
                sums[2] = vmlal_n_u16(sums[2], vget_low_u16(high), weights[r]);
                sums[3] = vmlal_high_n_u16(sums[3], high, weights[r]);
            }
            for (std::size_t q = 0; q < 4; ++q) vst1q_u32(out + i + 4 * q, sums[q]);
        }
    }
    static void quad_largest(const std::uint16_t* bounds, std::size_t num_tiles, std::uint16_t* quads) {
        static_assert(kQuadBlocks == 4 && kTileBlocks % 32 == 0);
        for (std::size_t block = 0; block < num_tiles * kTileBlocks; block += 32) {
            const std::uint16_t* from = bounds + block;
            const uint16x8_t first = vpmaxq_u16(vld1q_u16(from), vld1q_u16(from + 8));
            const uint16x8_t second = vpmaxq_u16(vld1q_u16(from + 16), vld1q_u16(from + 24));
            vst1q_u16(quads + block / kQuadBlocks, vpmaxq_u16(first, second));
        }
    }
    static void block_largest(const std::uint32_t* sums, std::size_t num_blocks, std::uint32_t* out) {
        for (std::size_t b = 0; b < num_blocks; ++b) {
            const std::uint32_t* block = sums + b * kBlockDocs;
            out[b] = vmaxvq_u32(vmaxq_u32(vld1q_u32(block), vld1q_u32(block + 4)));
        }
    }
};
}  // namespace

template <class Code, class Acc>
const Kernels<Code, Acc>& neon_kernels() {
    static constexpr Kernels<Code, Acc> table = vector_table<Code, Acc, VectorsNeon>();
    return table;
}

template const Kernels<std::uint8_t, std::uint32_t>& neon_kernels();
template const Kernels<std::uint8_t, std::uint64_t>& neon_kernels();
template const Kernels<std::uint16_t, std::uint32_t>& neon_kernels();
template const Kernels<std::uint16_t, std::uint64_t>& neon_kernels();

}  // namespace segmax::detail
