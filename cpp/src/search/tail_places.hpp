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
        num_slots_ = std::size_t{context_.index.num_zones()} * (kZoneBlocks / kTileBlocks);
        last.resize(std::max(last.size(), tails.size() * num_slots_));
        for (std::size_t tail = 0; tail < tails.size(); ++tail) {
            if (terms.is_dropped(*tails[tail])) continue;
            std::uint32_t* tiles = last.data() + tail * num_slots_;
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
            all += Costs::kEntry * static_cast<double>(term->num_entries);
            found += finding_cost(context_, *term) * static_cast<double>(num_clusters);
            found += term->wide ? 0 : Costs::kEntry * static_cast<double>(term->num_pairs);  // passing over them
        }
        return found < all;
    }

    /// The same for the entries of some clusters, which ascend. `tiles` are those of the clusters.
    void add_clusters(const BoundTerms<Code, Acc>& terms, std::span<const std::uint32_t> clusters,
                      std::span<const std::uint32_t> tiles, std::uint16_t* blocks) {
        are_known_ = true;
        are_some_ = true;
        auto& s = context_.scratch.tails;
        const auto tails = terms.tails();
        num_slots_ = tiles.size();
        s.last_in_tile.assign(tails.size() * num_slots_, kNoEntry);
        s.slot_of_tile.resize(std::max<std::size_t>(s.slot_of_tile.size(), context_.index.num_tiles()));
        for (std::uint32_t slot = 0; slot < num_slots_; ++slot) s.slot_of_tile[tiles[slot]] = slot;
        const auto pairs = find_pairs(terms, clusters);
        // What is found costs as much as passing over so many entries.
        context_.stats().entries_read +=
            static_cast<std::uint64_t>(static_cast<double>(pairs.size()) * Costs::kFoundCluster / Costs::kEntry);
        find_entries(terms, pairs);
        for (const auto& place : s.places) {
            add_entries(*tails[place.tail], place, terms.shift(), blocks,
                        s.last_in_tile.data() + place.tail * num_slots_ + place.slot);
        }
    }

    /// Calls visit(i, last) for every tile tiles[i], which ascend, that has entries of a tail term; `last` is the last
    /// of them, counted in the list of their zone.
    template <class Tile, class Visit>
    void each_last(const BoundTerms<Code, Acc>& terms, std::size_t tail, std::size_t count, Tile tile_at,
                   Visit visit) const {
        const TermView<Code>& term = *terms.tails()[tail];
        if (are_known_ && !terms.is_dropped(term)) {
            const auto& s = context_.scratch.tails;
            const std::uint32_t* last_of = s.last_in_tile.data() + tail * num_slots_;
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint32_t last = last_of[are_some_ ? s.slot_of_tile[tile_at(i)] : tile_at(i)];
                if (last != kNoEntry) visit(i, last);
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
    using Pair = TailBuffers::Pair;
    using Place = TailBuffers::Place;

    /// The pairs of all tail terms in some clusters; asks for the memory that says where their entries are.
    std::span<const Pair> find_pairs(const BoundTerms<Code, Acc>& terms, std::span<const std::uint32_t> clusters) {
        auto& s = context_.scratch.tails;
        s.is_wanted.assign(std::size_t{context_.index.num_clusters()} + 1, 0);
        for (const std::uint32_t cluster : clusters) s.is_wanted[cluster] = 1;
        std::size_t count = 0;
        for (std::uint32_t tail = 0; tail < terms.tails().size(); ++tail) {
            const TermView<Code>& term = *terms.tails()[tail];
            if (terms.is_dropped(term)) continue;
            s.pairs.resize(
                std::max(s.pairs.size(), count + std::max<std::size_t>(term.num_pairs, clusters.size()) + 1));
            const std::size_t first = count;
            if (term.wide) {
                for (const std::uint32_t cluster : clusters) s.pairs[count++] = {tail, cluster, cluster};
            } else {
                // Without a branch: which clusters have the term cannot be foretold. The one behind the last is damage,
                // and so are clusters that do not ascend.
                std::uint32_t next = 0;
                for (std::uint32_t pair = 0; pair < term.num_pairs; ++pair) {
                    const std::uint32_t cluster = std::min(term.clusters[pair], context_.index.num_clusters());
                    s.pairs[count] = {tail, pair, cluster};
                    const bool is_found = s.is_wanted[cluster] != 0 && cluster >= next;
                    next = is_found ? cluster + 1 : next;
                    count += is_found ? 1 : 0;
                }
                context_.stats().entries_read += term.num_pairs;
            }
            if (!term.pair_entry) continue;
            for (std::size_t i = first; i < count; ++i) __builtin_prefetch(term.pair_entry + s.pairs[i].pair);
        }
        return std::span(s.pairs).first(count);
    }

    /// Where the entries of these pairs begin; asks for their memory.
    void find_entries(const BoundTerms<Code, Acc>& terms, std::span<const Pair> pairs) {
        const Index& index = context_.index;
        auto& places = context_.scratch.tails.places;
        const auto& slots = context_.scratch.tails.slot_of_tile;
        places.clear();
        for (const auto& [tail, pair, cluster] : pairs) {
            const TermView<Code>& term = *terms.tails()[tail];
            std::uint32_t block = index.first_position(cluster) / kBlockDocs;
            const std::uint32_t end = index.end_position(cluster) / kBlockDocs;
            const EntryList<Code>& zone = term.zones[block / kZoneBlocks];
            std::uint32_t entry = term.pair_entry ? term.pair_entry[pair] : first_from(zone, block);
            while (block < end) {
                const EntryList<Code>& list = term.zones[block / kZoneBlocks];
                if (entry < list.num_entries) {
                    places.push_back({tail, slots[block / kTileBlocks], block, end, entry});
                    __builtin_prefetch(list.blocks + entry);
                    __builtin_prefetch(list.maxima + entry);
                }
                block = list.first_block + kZoneBlocks;
                entry = 0;
            }
        }
    }

    /// `last_in_tile` begins with the tile of the first block; the tiles of a cluster follow each other.
    static void add_entries(const TermView<Code>& term, const Place& place, std::uint32_t shift, std::uint16_t* bounds,
                            std::uint32_t* last_in_tile) {
        const EntryList<Code>& list = term.zones[place.block / kZoneBlocks];
        const std::uint32_t first = place.block - list.first_block;
        const std::uint32_t end = std::min(place.end - list.first_block, kZoneBlocks);
        const std::uint32_t round = (1U << shift) - 1;
        for (std::uint32_t i = place.entry; i < list.num_entries; ++i) {
            const std::uint32_t block = list.blocks[i];
            if (block >= end || block < first) break;  // behind the cluster, or damage
            std::uint16_t& bound = bounds[list.first_block + block];
            bound = static_cast<std::uint16_t>(bound + ((term.weight * list.maxima[i] + round) >> shift));
            last_in_tile[block / kTileBlocks - first / kTileBlocks] = i;
        }
    }

    /// The first entry of a list at a block or behind it.
    static std::uint32_t first_from(const EntryList<Code>& list, std::uint32_t block) {
        const std::uint16_t* end = list.blocks + list.num_entries;
        return static_cast<std::uint32_t>(std::lower_bound(list.blocks, end, block - list.first_block) - list.blocks);
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

    Context<Code, Acc>& context_;
    bool are_known_ = false;     // the last entries of tiles,
    bool are_some_ = false;      // or of some of them alone
    std::size_t num_slots_ = 0;  // for the last entries of a term: one by tile, or of those
};

}  // namespace segmax
