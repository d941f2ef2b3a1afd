// Where the entries of tail terms end in every tile: found once, on the way through all of them, or searched for where
// a term, or every term, is no part of bounds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

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
            context_.stats().entries_read += tails[tail]->num_entries;
            std::fill_n(tiles, context_.index.num_tiles(), kNoEntry);
            for (const EntryList<Code>& list : tails[tail]->zones) {
                const std::uint32_t at = list.first_block;
                context_.kernel.add_maxima(list, weight, terms.shift(), blocks + at, tiles + at / kTileBlocks);
            }
        }
    }

    /// Whether finding the entries of so many clusters will be faster than going through all of them.
    bool finding_is_faster(const BoundTerms<Code, Acc>& terms, std::size_t num_clusters) const {
        double all = 0;
        double found = 0;
        for (const TermView<Code>* term : terms.tails()) {
            if (terms.is_dropped(*term)) continue;
            const auto clusters = static_cast<double>(num_clusters) * term->num_pairs / context_.index.num_clusters();
            all += Costs::kEntry * static_cast<double>(term->num_entries);
            found += (term->wide ? static_cast<double>(num_clusters) : clusters) * Costs::kFoundCluster;
        }
        return found < all;
    }

    /// The same for the entries of some clusters, which ascend. `tiles` are those of the clusters.
    void add_clusters(const BoundTerms<Code, Acc>& terms, std::span<const std::uint32_t> clusters,
                      std::span<const std::uint32_t> tiles, std::uint16_t* blocks) {
        are_known_ = true;
        context_.scratch.view.index_clusters();
        auto& last = context_.scratch.tails.last_in_tile;
        const auto tails = terms.tails();
        last.resize(std::max(last.size(), tails.size() * num_tiles()));
        for (std::size_t tail = 0; tail < tails.size(); ++tail) {
            const TermView<Code>& term = *tails[tail];
            if (terms.is_dropped(term)) continue;
            std::uint32_t* last_of = last.data() + tail * num_tiles();
            for (const std::uint32_t tile : tiles) last_of[tile] = kNoEntry;
            find_clusters(term, clusters);
            // What is found costs as much as passing over so many entries.
            context_.stats().entries_read += static_cast<std::uint64_t>(
                static_cast<double>(context_.scratch.tails.guesses.size()) * Costs::kFoundCluster / Costs::kEntry);
            for (const Guess& guess : context_.scratch.tails.guesses) {
                add_cluster(term, guess, terms.shift(), blocks, last_of);
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
        context_.stats().entries_read += count * kEntriesPerSearch;
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
    /// A search for the entries of a tile takes as long as passing over so many.
    static constexpr std::uint64_t kEntriesPerSearch = 20;
    using Guess = TailBuffers::Guess;

    /// Where the entries of a term in the clusters that have it may begin, and asks for their memory.
    void find_clusters(const TermView<Code>& term, std::span<const std::uint32_t> clusters) {
        const Index& index = context_.index;
        auto& guesses = context_.scratch.tails.guesses;
        guesses.clear();
        for (const std::uint32_t cluster : clusters) {
            if (!term.has(cluster)) continue;
            const std::uint32_t first = index.first_position(cluster) / kBlockDocs;
            const std::uint32_t end = index.end_position(cluster) / kBlockDocs;
            for (std::uint32_t block = first; block < end; block = block / kZoneBlocks * kZoneBlocks + kZoneBlocks) {
                const EntryList<Code>& list = term.zones[block / kZoneBlocks];
                if (list.num_entries == 0) continue;
                // As if entries were spread evenly.
                const std::uint64_t inside = block - list.first_block;
                const auto at = static_cast<std::uint32_t>(inside * list.num_entries / zone_blocks(list));
                guesses.push_back({block, end, std::min(at, list.num_entries - 1)});
                __builtin_prefetch(list.blocks + guesses.back().entry);
                __builtin_prefetch(list.maxima + guesses.back().entry);
            }
        }
    }

    /// The blocks of a zone: the last one has fewer.
    std::uint32_t zone_blocks(const EntryList<Code>& list) const {
        return std::min(kZoneBlocks, context_.index.num_blocks() - list.first_block);
    }

    void add_cluster(const TermView<Code>& term, const Guess& guess, std::uint32_t shift, std::uint16_t* bounds,
                     std::uint32_t* last_in_tile) {
        const EntryList<Code>& list = term.zones[guess.block / kZoneBlocks];
        const std::uint32_t first = guess.block - list.first_block;
        const std::uint32_t end = std::min(guess.end - list.first_block, kZoneBlocks);
        const std::uint32_t round = (1U << shift) - 1;
        for (std::uint32_t i = first_from(list, guess.entry, first); i < list.num_entries; ++i) {
            const std::uint32_t block = list.blocks[i];
            if (block >= end || block < first) break;  // behind the cluster, or damage
            std::uint16_t& bound = bounds[list.first_block + block];
            bound = static_cast<std::uint16_t>(bound + ((term.weight * list.maxima[i] + round) >> shift));
            last_in_tile[(list.first_block + block) / kTileBlocks] = i;
        }
    }

    /// The first entry at a block or behind it, not far from a guess.
    static std::uint32_t first_from(const EntryList<Code>& list, std::uint32_t guess, std::uint32_t block) {
        const std::uint16_t* at = list.blocks + guess;
        if (*at < block) {
            return static_cast<std::uint32_t>(gallop(at, list.blocks + list.num_entries, block) - list.blocks);
        }
        std::uint32_t step = 1;
        std::uint32_t high = guess;
        while (step <= high && list.blocks[high - step] >= block) {
            high -= step;
            step *= 2;
        }
        const std::uint32_t low = step <= high ? high - step : 0;
        return static_cast<std::uint32_t>(std::lower_bound(list.blocks + low, list.blocks + high, block) - list.blocks);
    }

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
