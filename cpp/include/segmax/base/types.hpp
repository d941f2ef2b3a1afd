// Words and constants shared by every part of the core. See ARCHITECTURE.md for the picture.
#pragma once

#include <cstddef>
#include <cstdint>

namespace segmax {

/// The row of a document in what the user gave us: the tie-break of every ranking.
using Row = std::uint32_t;
/// A place in the clustered order. Clusters start at multiples of kBlockDocs, so some places are holes.
using Position = std::uint32_t;

/// A hole in the clustered order, and "no document" wherever a row is expected.
inline constexpr Row kNoRow = 0xFFFFFFFFU;
/// Documents per block: the unit that is bounded and scored. One byte shows which of them have a term.
inline constexpr std::uint32_t kBlockDocs = 8;
/// Blocks per quad: the coarser level of bounds, which shows where bounding block by block is worth it.
inline constexpr std::uint32_t kQuadBlocks = 4;
/// Blocks per span: a head term's maxima of a span are 16 bytes, its postings there one run.
inline constexpr std::uint32_t kSpanBlocks = 32;
inline constexpr std::uint32_t kSpanDocs = kSpanBlocks * kBlockDocs;
/// Bytes per span of a row of block maxima: two blocks share a byte.
inline constexpr std::uint32_t kSpanBytes = kSpanBlocks / 2;
/// Levels that a block maximum is rounded up to; the first is 0.
inline constexpr std::uint32_t kNumLevels = 16;
/// Spans per tile: a tile of a row is one cache line.
inline constexpr std::uint32_t kTileSpans = 4;
inline constexpr std::uint32_t kTileBlocks = kTileSpans * kSpanBlocks;
inline constexpr std::uint32_t kTileDocs = kTileSpans * kSpanDocs;
inline constexpr std::uint32_t kTileQuads = kTileBlocks / kQuadBlocks;
/// Spans whose runs share one base: from it, a run of theirs starts within 16 bits.
inline constexpr std::uint32_t kBaseSpans = 64;
/// A run of at most this many postings lists them; a longer one has a bitmap of its span.
inline constexpr std::uint32_t kMaxListed = 32;
/// Entries of a tail term that share one offset into its codes.
inline constexpr std::uint32_t kGroupEntries = 32;
/// Blocks per zone: an entry names a block of its zone by 16 bits.
inline constexpr std::uint32_t kZoneBlocks = 65536;
/// Positions that are added up together where everything is: their sums (64 KiB) stay near.
inline constexpr std::uint32_t kWindowDocs = 16384;
/// Every array handed to the kernels is followed by this many readable bytes: SIMD loads may pass the end.
inline constexpr std::size_t kSlackBytes = 64;
/// Largest integer query weight: what fits a signed 16-bit lane.
inline constexpr std::uint32_t kMaxQueryWeight = 32767;
/// Largest head_ratio of an index: the product with a number of postings fits 64 bits.
inline constexpr std::uint32_t kMaxHeadRatio = 65535;
/// Ranks whose code is stored per term, for threshold estimates; the first one is the term's maximum.
inline constexpr std::uint32_t kTopRanks[] = {1, 10, 100, 1000};
inline constexpr std::size_t kNumTopRanks = 4;

constexpr std::uint32_t blocks_of(std::uint32_t docs) {
    return (docs + kBlockDocs - 1) / kBlockDocs;
}

/// Bytes of a row of 4-bit levels, whole cache lines, two levels a byte.
constexpr std::uint64_t level_row_bytes(std::uint64_t levels) {
    return (levels + kTileBlocks - 1) / kTileBlocks * (kTileBlocks / 2);
}

/// Bytes of a mask of the segments of a cluster that have a term.
constexpr std::uint32_t segment_mask_bytes(std::uint32_t num_segments) {
    return num_segments > 1 ? num_segments / 8 + (num_segments % 8 != 0 ? 1 : 0) : 0;
}

constexpr std::uint32_t tiles_of(std::uint32_t positions) {
    return positions / kTileDocs + (positions % kTileDocs != 0 ? 1 : 0);
}

/// Even an empty collection has a zone.
constexpr std::uint32_t zones_of(std::uint32_t positions) {
    return positions <= kBlockDocs ? 1 : (positions - 1) / (kZoneBlocks * kBlockDocs) + 1;
}

}  // namespace segmax
