// The documents of an index that a search may return.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "segmax/index/index.hpp"

namespace segmax {

/// One bit per position: a byte is a block, its lowest bit the first document. Immutable and safe to share between
/// threads. It belongs to the index that it was made for.
class Mask {
public:
    /// Those whose entry of `rows` is not 0: one byte per row. `positions` calls back for the position of every row,
    /// where that is the faster way to a mask.
    Mask(const Index& index, std::span<const std::uint8_t> rows,
         const std::function<std::span<const Position>()>& positions);

    /// A byte for each block.
    std::span<const std::uint8_t> blocks() const { return blocks_; }
    bool allows(Position position) const {
        return (blocks_[position / kBlockDocs] >> (position % kBlockDocs) & 1) != 0;
    }
    /// The number of documents,
    std::uint32_t count() const { return count_; }
    /// and of blocks that have one.
    std::uint32_t num_used_blocks() const { return num_used_blocks_; }
    bool is_of(const Index& index) const { return serial_ == index.serial(); }

private:
    void pack_in_order(const Index& index, std::span<const std::uint8_t> rows);
    void pack_listed(std::span<const std::uint8_t> rows, std::span<const Position> positions, bool allowed);

    std::vector<std::uint8_t> blocks_;
    std::uint32_t count_ = 0;
    std::uint32_t num_used_blocks_ = 0;
    std::uint64_t serial_;
};

}  // namespace segmax
