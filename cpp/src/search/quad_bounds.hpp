// Bounds of quads, four blocks each: a coarser level that shows which tiles are worth bounding block by block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "search/block_bounds.hpp"

namespace segmax {

template <class Code, class Acc>
class QuadBounds {
public:
    QuadBounds(Context<Code, Acc>& context, const BoundTerms<Code, Acc>& terms, BlockBounds<Code, Acc>& blocks)
        : context_(context), s_(context.scratch.quads) {
        // Rows of quads are read by cache lines as well: a line holds those of four tiles.
        num_lines_ = level_row_bytes(context.index.num_quads()) * 2 / kTileBlocks;
        s_.bounds.resize(std::max(s_.bounds.size(), num_lines_ * kTileBlocks));
        s_.line_max.assign(num_lines_, 0);
        s_.found.resize(std::max(s_.found.size(), num_lines_ * kTileBlocks));
        // What tail terms add to a quad is the best that they add to one of its blocks.
        blocks.start();
        blocks.quads_of_bounds(s_.bounds.data());
        const std::size_t known = std::size_t{context.index.num_tiles()} * kTileQuads;
        std::fill(s_.bounds.begin() + static_cast<std::ptrdiff_t>(known),
                  s_.bounds.begin() + static_cast<std::ptrdiff_t>(num_lines_ * kTileBlocks), terms.floor());
        terms.open_rows(s_.rows, [](const TermView<Code>& term) { return term.quad_max; });
    }

    /// Adds the rows of head terms.
    void bound_all() {
        while (s_.lines.size() < num_lines_) s_.lines.push_back(static_cast<std::uint32_t>(s_.lines.size()));
        context_.kernel.add_levels(s_.rows.data(), s_.rows.size(), s_.lines.data(), num_lines_, s_.bounds.data(),
                                   s_.line_max.data());
        context_.stats().lines_read += s_.rows.size() * num_lines_;
    }

    std::uint16_t bound(std::uint32_t quad) const { return s_.bounds[quad]; }

    /// The quads with at least this bound, ascending.
    std::span<std::uint32_t> collect(std::uint64_t least) {
        if (least > std::numeric_limits<std::uint16_t>::max()) return {};
        std::size_t found = context_.kernel.collect_blocks(s_.bounds.data(), s_.line_max.data(), 0, num_lines_,
                                                           static_cast<std::uint16_t>(least), s_.found.data());
        // The last line goes on behind the last quad.
        while (found > 0 && s_.found[found - 1] >= context_.index.num_quads()) --found;
        return {s_.found.data(), found};
    }

    /// About the best `count` of them, not below `least`, ascending.
    std::span<std::uint32_t> best(std::size_t count, std::uint64_t least) {
        const std::uint64_t largest = *std::max_element(s_.line_max.begin(), s_.line_max.end());
        const auto reach = [&](std::uint64_t limit) {
            return context_.kernel.count_blocks(s_.bounds.data(), s_.line_max.data(), 0, num_lines_,
                                                static_cast<std::uint16_t>(limit));
        };
        const auto found = collect(limit_of_best(std::max(largest * 9 / 10, least), least, count, reach));
        return about_best_of(found, count, [&](std::uint32_t quad) { return bound(quad); });
    }

private:
    Context<Code, Acc>& context_;
    QuadBuffers& s_;
    std::size_t num_lines_ = 0;
};

}  // namespace segmax
