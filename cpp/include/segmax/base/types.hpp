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
/// Documents per block: the unit that is bounded and scored inside a cluster.
inline constexpr std::uint32_t kBlockDocs = 16;
/// Posting ids are the low 16 bits of a position, so lists are read window by window.
inline constexpr std::uint32_t kWindowDocs = 65536;
/// A chunk is a piece of one cluster inside one window; its accumulator (16 KiB) stays in the L1 cache.
inline constexpr std::uint32_t kMaxChunkDocs = 4096;
/// Every array handed to the kernels is followed by this many readable bytes: SIMD loads may pass the end.
inline constexpr std::size_t kSlackBytes = 64;
/// Largest integer query weight: what fits a signed 16-bit lane.
inline constexpr std::uint32_t kMaxQueryWeight = 32767;
/// Largest head_ratio of an index: the product with a number of postings fits 64 bits.
inline constexpr std::uint32_t kMaxHeadRatio = 65535;
/// Ranks whose code is stored per term, for threshold seeds; the first one is the term's maximum.
inline constexpr std::uint32_t kSeedRanks[] = {1, 10, 100, 1000};
inline constexpr std::size_t kNumSeedRanks = 4;

constexpr std::uint32_t blocks_of(std::uint32_t docs) {
    return (docs + kBlockDocs - 1) / kBlockDocs;
}

}  // namespace segmax
