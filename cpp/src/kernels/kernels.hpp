// The inner loops, one table of functions per instruction set, chosen once per process.
//
// Codes are the stored weights (8 or 16 bits), Acc is the sum type (32 bits where the query's largest
// possible score fits 31, else 64). All sums are exact: no kernel saturates, rounds or wraps.
//
// This header is included by files that are compiled for different instruction sets, so it defines no functions: of an
// inline function that several object files contain, the linker keeps any one copy, and a copy compiled for AVX2 would
// end a process on a CPU without it. `make tested` checks that their files export nothing that others may share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "segmax/base/types.hpp"
#include "segmax/kernels/simd_level.hpp"

namespace segmax {

/// A row of levels, and what each level adds to a bound: as words, and as their low and high bytes.
struct LevelRow {
    alignas(32) std::uint16_t added[kNumLevels] = {};
    alignas(16) std::uint8_t low[kNumLevels] = {};
    alignas(16) std::uint8_t high[kNumLevels] = {};
    const std::uint8_t* levels = nullptr;
};

/// One block in a head term's run.
struct RunLookup {
    const std::uint8_t* run = nullptr;
    std::uint32_t num_bytes = 0;
    std::uint32_t weight = 0;
    std::uint16_t slot = 0;   ///< sums[slot * kBlockDocs] is the block's first
    std::uint16_t block = 0;  ///< in its span
};

/// The entries of a tail term in a zone. `blocks` counts from the zone's first block; everything else that is called a
/// block counts from the collection's first.
template <class Code>
struct EntryList {
    const std::uint16_t* blocks = nullptr;  ///< in the zone, ascending
    const Code* maxima = nullptr;
    const std::uint8_t* masks = nullptr;
    const std::uint32_t* group_start = nullptr;
    const Code* codes = nullptr;
    std::uint32_t num_entries = 0;
    std::uint32_t num_codes = 0;    ///< of the term in all zones
    std::uint32_t first_block = 0;  ///< of the zone
};

/// The pairs of a term: a cluster each, what the term adds there at most, and which segments have it.
template <class Code>
struct PairList {
    const std::uint32_t* clusters = nullptr;  ///< nullptr: pair p is that of cluster p
    const Code* maxima = nullptr;
    const std::uint8_t* masks = nullptr;  ///< of segment_mask_bytes each; nullptr: all segments have the term
    std::uint32_t num_pairs = 0;
    Code largest = 0;  ///< damaged maxima count as this
};

/// "No entry": a tile or a block without any.
inline constexpr std::uint32_t kNoEntry = 0xFFFFFFFFU;

/// One entry to add.
template <class Code>
struct EntryLookup {
    const EntryList<Code>* list = nullptr;
    std::uint32_t entry = 0;
    std::uint32_t weight = 0;
    std::uint32_t slot = 0;  ///< sums[slot * kBlockDocs] is the block's first
};

template <class Code, class Acc>
struct Kernels {
    /// out[i] = sum over r of weights[r] * rows[r][i], for i < count.
    /// May read kSlackBytes past a row and write `out` up to the next multiple of 16.
    void (*weighted_rows)(const Code* const* rows, const std::uint16_t* weights, std::size_t num_rows,
                          std::size_t count, Acc* out);

    /// Adds what the rows hold to the bounds of everything in these tiles, kTileBlocks each, and writes the largest of
    /// each tile. Sums wrap at 16 bits; the caller scales so that they do not.
    void (*add_levels)(const LevelRow* rows, std::size_t num_rows, const std::uint32_t* tiles, std::size_t num_tiles,
                       std::uint16_t* bounds, std::uint16_t* tile_max);

    /// bounds[block] += ceil(weight * maximum / 2^shift) for every entry of a list, blocks counting from the zone's
    /// first, and last_in_tile[tile] = the last entry of every tile that has one.
    void (*add_maxima)(const EntryList<Code>& list, std::uint32_t weight, std::uint32_t shift, std::uint16_t* bounds,
                       std::uint32_t* last_in_tile);
    /// quads[q] = the largest bound of the kQuadBlocks blocks of quad q, for the quads of whole tiles.
    void (*quad_largest)(const std::uint16_t* bounds, std::size_t num_tiles, std::uint16_t* quads);

    /// bounds[cluster * num_segments + s] += ceil(weight * maximum / 2^shift) for every pair of a cluster below
    /// num_clusters and every segment s in its mask. Sums wrap at 16 bits, as those of add_levels do.
    void (*add_pairs)(const PairList<Code>& pairs, std::uint32_t weight, std::uint32_t shift,
                      std::uint32_t num_segments, std::uint32_t num_clusters, std::uint16_t* bounds);
    /// largest[cluster] = the largest bound of its segments.
    void (*segment_largest)(const std::uint16_t* bounds, std::uint32_t num_clusters, std::uint32_t num_segments,
                            std::uint16_t* largest);

    /// How many blocks of the tiles [first, end) have a bound of at least `least`.
    std::size_t (*count_blocks)(const std::uint16_t* bounds, const std::uint16_t* tile_max, std::size_t first,
                                std::size_t end, std::uint16_t least);
    /// Writes the blocks of the tiles [first, end) with a bound of at least `least`, ascending; returns how many.
    std::size_t (*collect_blocks)(const std::uint16_t* bounds, const std::uint16_t* tile_max, std::size_t first,
                                  std::size_t end, std::uint16_t least, std::uint32_t* out);

    /// Adds weight * code to the sums of the documents that each lookup finds in its run; returns how many.
    std::uint64_t (*add_lookups)(const RunLookup* lookups, std::size_t count, Acc* sums);

    /// The place of a block, which counts from the zone's first, among the entries up to `last` that lie in its tile;
    /// kNoEntry if it is not there.
    std::uint32_t (*find_entry)(const EntryList<Code>& list, std::uint32_t last, std::uint32_t block);
    /// Adds weight * code to the sums of the entry that each lookup names; returns how many.
    std::uint64_t (*add_entry_lookups)(const EntryLookup<Code>* lookups, std::size_t count, Acc* sums);

    /// Adds the runs of the spans [first, end) to sums that start at the first of them. Runs are cut to the bytes.
    void (*add_runs)(const std::uint8_t* bytes, std::uint64_t num_bytes, const std::uint32_t* run_base,
                     const std::uint16_t* run_start, std::size_t first, std::size_t end, std::uint32_t weight,
                     Acc* sums);

    /// Adds the entries from `first` on that lie before block `end_block`, whose codes start at `code`, to sums that
    /// start at block `first_block`; returns where it stopped.
    struct EntryPlace {
        std::uint32_t entry = 0, code = 0;
    };
    EntryPlace (*add_entries)(const EntryList<Code>& list, EntryPlace first, std::uint32_t first_block,
                              std::uint32_t end_block, std::uint32_t weight, Acc* sums);

    /// out[b] = the largest of the kBlockDocs sums of block b, for b < num_blocks.
    void (*block_largest)(const Acc* sums, std::size_t num_blocks, Acc* out);

    /// Writes the indices of values[i] >= limit in ascending order to `out` and returns how many there are.
    /// May read `values` up to the next multiple of 16 (never reported) and write as far into `out`.
    std::size_t (*collect_at_least)(const Acc* values, std::size_t count, Acc limit, std::uint32_t* out);
};

/// The table of one level; available for <u8, u32>, <u8, u64>, <u16, u32>, <u16, u64>.
template <class Code, class Acc>
const Kernels<Code, Acc>& kernels(SimdLevel level);

namespace detail {
template <class Code, class Acc>
const Kernels<Code, Acc>& portable_kernels();
template <class Code, class Acc>
const Kernels<Code, Acc>& neon_kernels();
template <class Code, class Acc>
const Kernels<Code, Acc>& avx2_kernels();
template <class Code, class Acc>
const Kernels<Code, Acc>& avx512_kernels();
}  // namespace detail

}  // namespace segmax
