// The documents of an index that a search may return.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "segmax/index/index.hpp"

namespace segmax {

/// One bit per position: a byte is a block, its lowest bit the first document. Immutable and safe to share between
/// threads. It belongs to the index that it was made for.
class Mask {
public:
    /// Those whose entry of `rows` is not 0: one byte per row.
    Mask(const Index& index, std::span<const std::uint8_t> rows);

    std::uint8_t block(std::size_t block) const { return blocks_[block]; }
    std::size_t num_blocks() const { return blocks_.size(); }
    bool allows(Position position) const {
        return (blocks_[position / kBlockDocs] >> (position % kBlockDocs) & 1) != 0;
    }
    /// The number of documents.
    std::uint32_t count() const { return count_; }
    bool is_of(const Index& index) const { return serial_ == index.serial(); }

private:
    std::vector<std::uint8_t> blocks_;
    std::uint32_t count_ = 0;
    std::uint64_t serial_;
};

}  // namespace segmax
