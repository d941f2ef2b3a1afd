// Where the entries of tail terms end in every tile: found once, on the way through all of them, or searched for where
// a term, or every term, is no part of bounds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "search/bound_terms.hpp"

namespace segmax {

template <class Code, class Acc>
class TailPlaces {
public:
    explicit TailPlaces(Context<Code, Acc>& context) : context_(context) {}

    /// Adds the maxima of all entries to the bounds of blocks, and remembers where each tile's entries end. Bounds have
    /// room for whole zones: a damaged entry may name any block of its zone.
    void add(const BoundTerms<Code, Acc>& terms, std::uint16_t* blocks) {
        are_known_ = true;
        auto& last = context_.scratch.tails.last_in_tile;
        const auto tails = terms.tails();
        last.resize(std::max(last.size(), tails.size() * num_tiles()));
        for (std::size_t tail = 0; tail < tails.size(); ++tail) {
            if (terms.is_dropped(*tails[tail])) continue;
            std::uint32_t* tiles = last.data() + tail * num_tiles();
            const std::uint32_t weight = tails[tail]->weight;
            std::fill_n(tiles, context_.index.num_tiles(), kNoEntry);
            for (const EntryList<Code>& list : tails[tail]->zones) {
                const std::uint32_t at = list.first_block;
                context_.kernel.add_maxima(list, weight, terms.shift(), blocks + at, tiles + at / kTileBlocks);
            }
        }
    }

    /// Calls visit(i, last) for every tile tiles[i], which ascend, that has entries of a tail term; `last` is the last
    /// of them, counted in the list of their zone.
    template <class Tile, class Visit>
    void each_last(const BoundTerms<Code, Acc>& terms, std::size_t tail, std::size_t count, Tile tile_at,
                   Visit visit) const {
        const TermView<Code>& term = *terms.tails()[tail];
        if (are_known_ && !terms.is_dropped(term)) {
            const std::uint32_t* last = context_.scratch.tails.last_in_tile.data() + tail * num_tiles();
            for (std::size_t i = 0; i < count; ++i) {
                if (last[tile_at(i)] != kNoEntry) visit(i, last[tile_at(i)]);
            }
            return;
        }
        const EntryList<Code>* list = nullptr;
        const std::uint16_t* from = nullptr;
        for (std::size_t i = 0; i < count; ++i) {
            const EntryList<Code>& zone = term.zones[tile_at(i) * kTileBlocks / kZoneBlocks];
            if (list != &zone) from = zone.blocks;
            list = &zone;
            const std::uint32_t first_block = tile_at(i) * kTileBlocks - zone.first_block;
            from = gallop(from, zone.blocks + zone.num_entries, first_block + kTileBlocks);
            if (from == zone.blocks || from[-1] < first_block) continue;
            visit(i, static_cast<std::uint32_t>(from - zone.blocks) - 1);
        }
    }

private:
    /// The first block from `from` on that is not below `block`; often it is not far.
    static const std::uint16_t* gallop(const std::uint16_t* from, const std::uint16_t* end, std::uint32_t block) {
        std::ptrdiff_t step = 1;
        while (step < end - from && from[step] < block) {
            from += step;
            step *= 2;
        }
        return std::lower_bound(from, std::min(from + step, end), block);
    }

    /// Of whole zones.
    std::size_t num_tiles() const { return std::size_t{context_.index.num_zones()} * (kZoneBlocks / kTileBlocks); }

    Context<Code, Acc>& context_;
    bool are_known_ = false;
};

}  // namespace segmax
