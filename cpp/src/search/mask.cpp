#include "segmax/search/mask.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <span>

namespace segmax {

Mask::Mask(const Index& index, std::span<const std::uint8_t> rows)
    : blocks_(index.num_blocks()), serial_(index.serial()) {
    assert(rows.size() == index.num_docs());
    const Row* row = index.arrays().position_row.data();
    for (std::uint32_t cluster = 0; cluster < index.num_clusters(); ++cluster) {
        const Position first = index.first_position(cluster);
        const Position end = first + index.cluster_num_docs(cluster);
        // All blocks but the last are full, so no row needs to be checked.
        Position position = first;
        for (; position + kBlockDocs <= end; position += kBlockDocs) {
            std::uint32_t byte = 0;
            for (std::uint32_t i = 0; i < kBlockDocs; ++i) byte |= (rows[row[position + i]] != 0 ? 1U : 0U) << i;
            blocks_[position / kBlockDocs] = static_cast<std::uint8_t>(byte);
            count_ += static_cast<std::uint32_t>(std::popcount(byte));
        }
        for (; position < end; ++position) {
            const std::uint32_t bit = rows[row[position]] != 0 ? 1U : 0U;
            blocks_[position / kBlockDocs] |= static_cast<std::uint8_t>(bit << (position % kBlockDocs));
            count_ += bit;
        }
    }
}

}  // namespace segmax
