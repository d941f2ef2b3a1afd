#include "segmax/search/mask.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>

namespace segmax {

namespace {

/// Where fewer than one row in so many differs from the others, setting the bits of these takes less time than looking
/// at every position.
constexpr std::size_t kFewRows = 6;

/// How many of these are not 0. Sums of a byte each, 32 side by side, as long as they fit: that is what SIMD adds
/// fastest.
std::uint32_t count_used(std::span<const std::uint8_t> bytes) {
    constexpr std::size_t kLanes = 32;
    std::uint32_t count = 0;
    std::size_t at = 0;
    while (at + kLanes <= bytes.size()) {
        std::uint8_t lanes[kLanes] = {};
        const std::size_t end = at + std::min<std::size_t>(255, (bytes.size() - at) / kLanes) * kLanes;
        for (; at < end; at += kLanes) {
            for (std::size_t i = 0; i < kLanes; ++i) lanes[i] += bytes[at + i] != 0 ? std::uint8_t{1} : std::uint8_t{0};
        }
        for (const std::uint8_t lane : lanes) count += lane;
    }
    for (; at < bytes.size(); ++at) count += bytes[at] != 0 ? 1 : 0;
    return count;
}

/// Calls visit(row) for the rows that are (or are not) 0, passing over 32 at a time that have none.
template <class Visit>
void each_row(std::span<const std::uint8_t> rows, bool zero, Visit visit) {
    constexpr std::uint64_t kLow = 0x7F7F7F7F7F7F7F7FU;
    constexpr std::size_t kWords = 4;
    std::size_t row = 0;
    for (; row + kWords * 8 <= rows.size(); row += kWords * 8) {
        std::uint64_t found[kWords];
        std::uint64_t any = 0;
        for (std::size_t i = 0; i < kWords; ++i) {
            std::uint64_t word;
            std::memcpy(&word, rows.data() + row + i * 8, 8);                    // little endian
            const std::uint64_t used = (((word & kLow) + kLow) | word) & ~kLow;  // a bit of every byte that is not 0
            found[i] = zero ? used ^ ~kLow : used;
            any |= found[i];
        }
        if (any == 0) continue;
        for (std::size_t i = 0; i < kWords; ++i) {
            for (std::uint64_t bits = found[i]; bits != 0; bits &= bits - 1) {
                visit(row + i * 8 + static_cast<std::size_t>(std::countr_zero(bits)) / 8);
            }
        }
    }
    for (; row < rows.size(); ++row) {
        if ((rows[row] == 0) == zero) visit(row);
    }
}

}  // namespace

Mask::Mask(const Index& index, std::span<const std::uint8_t> rows,
           const std::function<std::span<const Position>()>& positions)
    : blocks_(index.num_blocks()), serial_(index.serial()) {
    assert(rows.size() == index.num_docs());
    count_ = count_used(rows);
    if (count_ < rows.size() / kFewRows) {
        pack_listed(rows, positions(), true);
    } else if (rows.size() - count_ < rows.size() / kFewRows) {
        for (std::uint32_t cluster = 0; cluster < index.num_clusters(); ++cluster) {
            const Position end = index.first_position(cluster) + index.cluster_num_docs(cluster);
            std::fill(blocks_.begin() + index.first_position(cluster) / kBlockDocs, blocks_.begin() + end / kBlockDocs,
                      std::uint8_t{255});
            if (end % kBlockDocs != 0)
                blocks_[end / kBlockDocs] = static_cast<std::uint8_t>((1U << end % kBlockDocs) - 1);
        }
        if (count_ < rows.size()) pack_listed(rows, positions(), false);
    } else {
        pack_in_order(index, rows);
    }
    num_used_blocks_ = count_used(blocks_);
}

void Mask::pack_listed(std::span<const std::uint8_t> rows, std::span<const Position> positions, bool allowed) {
    each_row(rows, !allowed, [&](std::size_t row) {
        const Position position = positions[row];
        blocks_[position / kBlockDocs] ^= static_cast<std::uint8_t>(1U << (position % kBlockDocs));
    });
}

void Mask::pack_in_order(const Index& index, std::span<const std::uint8_t> rows) {
    const Row* row = index.arrays().position_row.data();
    for (std::uint32_t cluster = 0; cluster < index.num_clusters(); ++cluster) {
        Position position = index.first_position(cluster);
        const Position end = position + index.cluster_num_docs(cluster);
        // All blocks but the last are full, so no row needs to be checked.
        for (; position + kBlockDocs <= end; position += kBlockDocs) {
            std::uint32_t byte = 0;
            for (std::uint32_t i = 0; i < kBlockDocs; ++i) byte |= (rows[row[position + i]] != 0 ? 1U : 0U) << i;
            blocks_[position / kBlockDocs] = static_cast<std::uint8_t>(byte);
        }
        for (; position < end; ++position) {
            const std::uint32_t bit = rows[row[position]] != 0 ? 1U : 0U;
            blocks_[position / kBlockDocs] |= static_cast<std::uint8_t>(bit << (position % kBlockDocs));
        }
    }
}

}  // namespace segmax
