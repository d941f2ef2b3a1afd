// Bounds of blocks: what the eight documents of each can score at most.
//
// Head terms add a level per block, looked up in registers, tile by tile; tail terms add the maxima of their entries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "search/bound_terms.hpp"
#include "search/tail_places.hpp"

namespace segmax {

template <class Code, class Acc>
class BlockBounds {
public:
    BlockBounds(Context<Code, Acc>& context, const BoundTerms<Code, Acc>& terms, TailPlaces<Code, Acc>& tails)
        : context_(context), s_(context.scratch.blocks), terms_(terms), tails_(tails) {
        const std::size_t num_tiles = context.index.num_tiles();
        s_.bounds.resize(std::max(
            {s_.bounds.size(), num_tiles * kTileBlocks, std::size_t{context.index.num_zones()} * kZoneBlocks}));
        s_.tile_max.assign(num_tiles, 0);
        s_.is_bounded.assign(num_tiles, 0);
        s_.found.resize(std::max(s_.found.size(), num_tiles * kTileBlocks));
        terms.open_rows(s_.rows, [](const TermView<Code>& term) { return term.block_max; });
    }

    std::uint16_t bound(std::uint32_t block) const { return s_.bounds[block]; }
    void set_bound(std::uint32_t block, std::uint16_t bound) { s_.bounds[block] = bound; }
    bool is_bounded(std::uint32_t tile) const { return s_.is_bounded[tile] != 0; }

    /// Starts all bounds with what the tail terms add.
    void start() {
        std::fill_n(s_.bounds.begin(), std::size_t{context_.index.num_tiles()} * kTileBlocks, terms_.floor());
        tails_.add(terms_, s_.bounds.data());
    }

    /// Writes the largest bound of the blocks of every quad, tile by tile.
    void quads_of_bounds(std::uint16_t* quads) const {
        context_.kernel.quad_largest(s_.bounds.data(), context_.index.num_tiles(), quads);
    }

    /// Bounds all blocks in one pass over memory.
    void bound_all() {
        start();
        while (s_.all_tiles.size() < context_.index.num_tiles()) {
            s_.all_tiles.push_back(static_cast<std::uint32_t>(s_.all_tiles.size()));
        }
        add_rows(std::span(s_.all_tiles).first(context_.index.num_tiles()));
    }

    /// Bounds the blocks of some clusters, which ascend, and of no other ones.
    void bound_clusters(std::span<const std::uint32_t> clusters) {
        const Index& index = context_.index;
        s_.tiles.clear();
        for (const std::uint32_t cluster : clusters) {
            std::uint32_t tile = index.first_position(cluster) / kTileDocs;
            if (!s_.tiles.empty() && s_.tiles.back() == tile) ++tile;
            for (; tile * kTileDocs < index.end_position(cluster); ++tile) s_.tiles.push_back(tile);
        }
        if (tails_.finding_is_faster(terms_, clusters.size())) {
            for (const std::uint32_t tile : s_.tiles) {
                std::fill_n(s_.bounds.begin() + std::ptrdiff_t{tile} * kTileBlocks, kTileBlocks, terms_.floor());
            }
            tails_.add_clusters(terms_, clusters, s_.tiles, s_.bounds.data());
        } else {
            start();
        }
        add_rows(s_.tiles);
        // What lies between the clusters has nothing to bound.
        std::size_t next = 0;
        for (const std::uint32_t tile : s_.tiles) {
            std::uint32_t block = tile * kTileBlocks;
            const std::uint32_t end = block + kTileBlocks;
            while (next < clusters.size() && index.end_position(clusters[next]) / kBlockDocs <= block) ++next;
            for (std::size_t i = next; block < end; ++i) {
                const bool any = i < clusters.size();
                const std::uint32_t first = any ? index.first_position(clusters[i]) / kBlockDocs : end;
                if (first > block) std::fill(s_.bounds.begin() + block, s_.bounds.begin() + std::min(first, end), 0);
                block = any ? std::max(block, index.end_position(clusters[i]) / kBlockDocs) : end;
            }
        }
    }

    /// Leaves out the blocks of a cluster whose tiles are bounded.
    void leave_out(std::uint32_t cluster) {
        const Index& index = context_.index;
        std::fill(s_.bounds.begin() + index.first_position(cluster) / kBlockDocs,
                  s_.bounds.begin() + index.end_position(cluster) / kBlockDocs, 0);
    }

    /// Bounds the blocks of the tiles that these quads, which ascend, lie in, where that has not been done yet.
    void bound_tiles(std::span<const std::uint32_t> quads) {
        s_.tiles.clear();
        for (const std::uint32_t quad : quads) {
            const std::uint32_t tile = quad / kTileQuads;
            if (!is_bounded(tile) && (s_.tiles.empty() || s_.tiles.back() != tile)) s_.tiles.push_back(tile);
        }
        add_rows(s_.tiles);
    }

    /// All blocks that have a document which the mask allows, ascending, with a bound that none of them passes.
    std::span<std::uint32_t> list(const Mask& mask) {
        const auto used = mask.blocks();
        std::size_t found = 0;
        for (std::size_t block = 0; block < used.size(); ++block) {
            if (block % 8 == 0 && block + 8 <= used.size()) {  // pass over eight at a time
                std::uint64_t word;
                std::memcpy(&word, used.data() + block, sizeof(word));
                if (word == 0) {
                    block += 7;
                    continue;
                }
            }
            if (used[block] == 0) continue;
            s_.found[found++] = static_cast<std::uint32_t>(block);
            s_.bounds[block] = terms_.most();
        }
        return {s_.found.data(), found};
    }

    /// The blocks of bounded tiles with at least this bound, ascending.
    std::span<std::uint32_t> collect(std::uint32_t first, std::uint32_t end, std::uint64_t least) {
        if (least > std::numeric_limits<std::uint16_t>::max()) return {};
        std::size_t found = context_.kernel.collect_blocks(
            s_.bounds.data(), s_.tile_max.data(), first, end,
            static_cast<std::uint16_t>(std::max<std::uint64_t>(least, 1)), s_.found.data());
        // The last tile goes on behind the last block; only damage gives bounds there.
        while (found > 0 && s_.found[found - 1] >= context_.index.num_blocks()) --found;
        return {s_.found.data(), found};
    }
    std::span<std::uint32_t> collect(std::uint64_t least) { return collect(0, context_.index.num_tiles(), least); }

    /// How many blocks collect() would find.
    std::size_t count(std::uint64_t least) const {
        if (least > std::numeric_limits<std::uint16_t>::max()) return 0;
        return context_.kernel.count_blocks(s_.bounds.data(), s_.tile_max.data(), 0, context_.index.num_tiles(),
                                            static_cast<std::uint16_t>(std::max<std::uint64_t>(least, 1)));
    }

    /// Whether a block of a bounded tile has at least this bound.
    bool any(std::uint64_t least) {
        for (std::uint32_t tile = 0; tile < context_.index.num_tiles(); ++tile) {
            if (s_.tile_max[tile] >= least && !collect(tile, tile + 1, least).empty()) return true;
        }
        return false;
    }

    std::uint16_t largest() const {
        return s_.tile_max.empty() ? std::uint16_t{0} : *std::max_element(s_.tile_max.begin(), s_.tile_max.end());
    }

private:
    void add_rows(std::span<const std::uint32_t> tiles) {
        context_.kernel.add_levels(s_.rows.data(), s_.rows.size(), tiles.data(), tiles.size(), s_.bounds.data(),
                                   s_.tile_max.data());
        context_.stats().lines_read += s_.rows.size() * tiles.size();
        for (const std::uint32_t tile : tiles) s_.is_bounded[tile] = 1;
        if (!context_.params.mask) return;
        for (const std::uint32_t tile : tiles) apply_mask(tile, *context_.params.mask);
    }

    /// Blocks without a document that the mask allows have nothing to bound.
    void apply_mask(std::uint32_t tile, const Mask& mask) {
        const std::size_t first = std::size_t{tile} * kTileBlocks;
        const std::size_t count = std::min<std::size_t>(kTileBlocks, mask.blocks().size() - first);
        const std::uint8_t* used = mask.blocks().data() + first;
        std::uint16_t* bounds = s_.bounds.data() + first;
        std::uint16_t largest = 0;
        for (std::size_t i = 0; i < count; ++i) {
            bounds[i] = used[i] != 0 ? bounds[i] : std::uint16_t{0};
            largest = std::max(largest, bounds[i]);
        }
        s_.tile_max[tile] = largest;
    }

    Context<Code, Acc>& context_;
    BlockBuffers& s_;
    const BoundTerms<Code, Acc>& terms_;
    TailPlaces<Code, Acc>& tails_;
};

}  // namespace segmax
