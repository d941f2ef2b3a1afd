// Bounds of blocks: what the eight documents of each can score at most.
//
// Bounds are 16-bit numbers in steps of 2^shift, every part of them rounded up, so that a score s is never above
// bound * 2^shift. Head terms add a level per block, looked up in registers, tile by tile; tail terms add the maxima of
// their entries.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "search/context.hpp"

namespace segmax {

/// With more terms than these a bound of 16 bits would be made of little else than what is rounded up.
inline constexpr std::size_t kMaxBoundedTerms = 32767;

/// A range of tiles.
struct TileRange {
    std::uint32_t first = 0, end = 0;
};

/// The tiles that a cluster has blocks in.
inline TileRange tiles_of_cluster(const Index& index, std::uint32_t cluster) {
    return {index.first_position(cluster) / kTileDocs, tiles_of(index.end_position(cluster))};
}

/// Ranges that ascend and do not overlap, from tiles or ranges of tiles that ascend by their starts.
class TileRanges {
public:
    void add(TileRange tiles) {
        assert(tiles.first <= tiles.end && (ranges_.empty() || ranges_.back().first <= tiles.first));
        if (!ranges_.empty() && ranges_.back().end >= tiles.first) {
            ranges_.back().end = std::max(ranges_.back().end, tiles.end);
        } else {
            ranges_.push_back(tiles);
        }
    }
    const std::vector<TileRange>& get() const { return ranges_; }

private:
    std::vector<TileRange> ranges_;
};

template <class Code, class Acc>
class BlockBounds {
public:
    /// A head term with what its levels add.
    struct Head {
        const TermView<Code>* term = nullptr;
        std::uint16_t added[kNumLevels] = {};
    };

    /// For a query of at most kMaxBoundedTerms.
    explicit BlockBounds(Context<Code, Acc>& context)
        : context_(context), places_(context.index.num_tiles() + 1, nowhere()) {
        const std::size_t num_terms = context.terms().size();
        assert(num_terms <= kMaxBoundedTerms);
        std::uint64_t most = num_terms;  // every part may be rounded up by one
        for (const auto& term : context.terms()) most += term.most();
        while ((most >> shift_) + num_terms > std::numeric_limits<std::uint16_t>::max()) ++shift_;
        for (const auto& term : context.terms()) {
            if (term.head) {
                heads_.push_back({&term, {}});
            } else {
                tails_.push_back(&term);
            }
        }
        // The heaviest first: what they really add tells most about a block.
        std::stable_sort(heads_.begin(), heads_.end(),
                         [](const Head& a, const Head& b) { return a.term->most() > b.term->most(); });
        split_dropped();
        open_rows();
        BlockBuffers& s = context.scratch.blocks;
        s.bounds.resize((std::size_t{context.index.num_tiles()} + 1) * kTileBlocks);
        at_ = s.bounds.data();
        s.tile_max.resize(context.index.num_tiles());
        s.found.resize(s.bounds.size());
    }

    /// Head terms whose rows are read between two looks at a tile.
    static constexpr std::size_t kStageHeads = 4;

    /// All head terms, the heaviest first.
    std::span<const Head> heads() const { return heads_; }
    std::span<const TermView<Code>* const> tails() const { return tails_; }

    std::uint16_t* bounds() { return context_.scratch.blocks.bounds.data(); }
    std::uint16_t bound(std::uint32_t block) const { return context_.scratch.blocks.bounds[block]; }
    /// A score in steps, rounded up: what is added to bounds, or compared with them.
    std::uint64_t steps(std::uint64_t score) const { return (score + (std::uint64_t{1} << shift_) - 1) >> shift_; }
    std::uint64_t score_of(std::uint64_t bound) const { return bound << shift_; }

    void bound_all() {
        const TileRange all{0, context_.index.num_tiles()};
        bound_ranges(std::span(&all, 1));
    }

    /// Bounds the blocks of these tiles, which ascend and do not overlap, and forgets about all others.
    void bound_ranges(std::span<const TileRange> ranges) {
        forget();
        for (const auto& [first, end] : ranges) open_tiles(first, end);
        add_tails(ranges);
        list_tiles(ranges);
        add_rows(tiles_, rows_);
    }

    /// Bounds the blocks of these tiles, which ascend and do not overlap, stage by stage, gives up tiles without a
    /// block that can reach `least`, and returns the others. rests[s][span] is what the terms after stage s can add
    /// to a block of the span at most, and the floor; stages are kStageHeads head terms each, the tail in the first.
    std::span<const std::uint32_t> bound_stages(std::span<const TileRange> ranges, std::uint64_t least,
                                                std::span<const std::vector<std::uint16_t>> rests) {
        assert(!rests.empty());
        list_tiles(ranges);
        place_side_by_side();
        start_with(rests[0]);
        add_tails(ranges);
        for (std::size_t stage = 0; stage < rests.size(); ++stage) {
            if (stage > 0) replace_rests(rests[stage - 1], rests[stage]);
            const auto rows = std::span(rows_).subspan(std::min(stage * kStageHeads, rows_.size()));
            add_rows(tiles_, rows.first(std::min(kStageHeads, rows.size())));
            std::erase_if(tiles_, [&](std::uint32_t tile) { return context_.scratch.blocks.tile_max[tile] < least; });
        }
        keep_staged();
        return tiles_;
    }

    /// Makes sure that a few tiles are bounded.
    void require(std::uint32_t first, std::uint32_t end) {
        for (std::uint32_t tile = first; tile < end; ++tile) {
            if (is_bounded(tile)) continue;
            open_tiles(tile, tile + 1);
            for (const auto* term : tails_) {
                if (!is_dropped(*term)) add_entries(*term, tile, tile + 1);
            }
            add_rows(std::span(&tile, 1), rows_);
        }
    }

    bool is_bounded(std::uint32_t tile) const { return places_[tile] != nowhere(); }

    /// Asks for the rows of a tile that is not bounded yet.
    void prefetch(std::uint32_t tile) const {
        if (is_bounded(tile)) return;
        for (const LevelRow& row : rows_) __builtin_prefetch(row.levels + std::size_t{tile} * kTileSpans * kSpanBytes);
    }

    /// The blocks of bounded tiles with at least this bound, ascending.
    std::span<std::uint32_t> collect(std::uint32_t first, std::uint32_t end, std::uint64_t least) {
        BlockBuffers& s = context_.scratch.blocks;
        if (least > std::numeric_limits<std::uint16_t>::max()) return {};
        std::size_t found = context_.kernel.collect_blocks(s.bounds.data(), s.tile_max.data(), first, end,
                                                           static_cast<std::uint16_t>(least), s.found.data());
        // The last tile goes on behind the last block; only damage gives bounds there.
        while (found > 0 && s.found[found - 1] >= context_.index.num_blocks()) --found;
        return {s.found.data(), found};
    }

    std::uint16_t largest(std::uint32_t first, std::uint32_t end) const {
        const auto* tiles = context_.scratch.blocks.tile_max.data();
        return first < end ? *std::max_element(tiles + first, tiles + end) : std::uint16_t{0};
    }

    /// Whether a term is in no bound but in what all bounds start with, which is `floor`.
    bool is_dropped(const TermView<Code>& term) const {
        return std::find(dropped_.begin(), dropped_.end(), &term) != dropped_.end();
    }
    std::uint16_t floor() const { return floor_; }
    /// A row of a term's levels, with what each adds to a bound.
    LevelRow row_of(const TermView<Code>& term, const std::uint8_t* levels) const {
        LevelRow row;
        row.levels = levels;
        row.run_start = term.run_start;
        for (std::size_t level = 0; level < kNumLevels; ++level) {
            const std::uint16_t added = added_by(term, level);
            row.low[level] = static_cast<std::uint8_t>(added);
            row.high[level] = static_cast<std::uint8_t>(added >> 8);
        }
        return row;
    }

private:
    /// False where the spans of these tiles are few and lack the term.
    static bool may_occur(const TermView<Code>& term, std::uint32_t first, std::uint32_t end) {
        constexpr std::uint32_t kMostTiles = 4;
        if (term.span_max == nullptr || end - first > kMostTiles) return true;
        std::uint32_t any = 0;
        for (std::uint32_t span = first * kTileSpans; span < end * kTileSpans; ++span) any |= term.span_level(span);
        return any != 0;
    }

    /// With more terms than max_terms the lightest are no part of the bounds of blocks, but of what all start with.
    void split_dropped() {
        const std::size_t count = context_.params.max_terms;
        if (!context_.params.bound_dropped || count == 0 || context_.terms().size() <= count) return;
        for (const auto& term : context_.terms()) dropped_.push_back(&term);
        std::stable_sort(dropped_.begin(), dropped_.end(),
                         [](const auto* a, const auto* b) { return a->most() > b->most(); });
        dropped_.erase(dropped_.begin(), dropped_.begin() + static_cast<std::ptrdiff_t>(count));
        for (const auto* term : dropped_) floor_ = static_cast<std::uint16_t>(floor_ + steps(term->most()));
    }

    std::uint16_t added_by(const TermView<Code>& term, std::size_t level) const {
        // A damaged level must not pass the largest code, which the steps were chosen for.
        return static_cast<std::uint16_t>(
            steps(std::uint64_t{term.weight} * std::min(term.levels[level], term.largest)));
    }

    void open_rows() {
        for (Head& head : heads_) {
            const bool dropped = is_dropped(*head.term);
            for (std::size_t level = 0; level < kNumLevels; ++level) {
                head.added[level] =
                    dropped ? static_cast<std::uint16_t>(steps(head.term->most())) : added_by(*head.term, level);
            }
            if (!dropped) rows_.push_back(row_of(*head.term, head.term->block_max));
        }
    }

    /// Where entries go whose tile is not bounded: behind the last. Entries of a large collection are many, and what
    /// they add to a place that nobody looks at should not cost a cache miss each.
    std::uint32_t nowhere() const { return context_.index.num_tiles() * kTileBlocks; }

    void forget() {
        std::fill(places_.begin(), places_.end(), nowhere());
        at_ = bounds();
    }

    void open_tiles(std::uint32_t first, std::uint32_t end) {
        std::fill(bounds() + std::size_t{first} * kTileBlocks, bounds() + std::size_t{end} * kTileBlocks, floor_);
        for (std::uint32_t tile = first; tile < end; ++tile) places_[tile] = tile * kTileBlocks;
    }

    void list_tiles(std::span<const TileRange> ranges) {
        tiles_.clear();
        for (const auto& [first, end] : ranges) {
            for (std::uint32_t tile = first; tile < end; ++tile) tiles_.push_back(tile);
        }
    }

    /// Bounds go to memory of their own, one listed tile after the other: few of the tiles will be left, and until then
    /// their bounds stay in a cache.
    void place_side_by_side() {
        auto& staged = context_.scratch.blocks.staged;
        staged.resize((tiles_.size() + 1) * kTileBlocks);
        at_ = staged.data();
        std::fill(places_.begin(), places_.end(), static_cast<std::uint32_t>(tiles_.size() * kTileBlocks));
        for (std::size_t i = 0; i < tiles_.size(); ++i)
            places_[tiles_[i]] = static_cast<std::uint32_t>(i * kTileBlocks);
    }

    /// Every block starts with what all terms that are still to come can add in its span.
    void start_with(const std::vector<std::uint16_t>& rest) {
        each_listed_span(
            [&](std::uint32_t span, std::uint16_t* blocks) { std::fill_n(blocks, kSpanBlocks, rest[span]); });
    }

    /// The terms of the next stage leave what a span adds for those to come: their own rows say more about each block.
    void replace_rests(const std::vector<std::uint16_t>& before, const std::vector<std::uint16_t>& after) {
        each_listed_span([&](std::uint32_t span, std::uint16_t* blocks) {
            const auto known = static_cast<std::uint16_t>(before[span] - after[span]);
            for (std::uint32_t b = 0; b < kSpanBlocks; ++b) blocks[b] = static_cast<std::uint16_t>(blocks[b] - known);
        });
    }

    /// Copies the bounds of the tiles that are left to their places, where collect() finds them.
    void keep_staged() {
        for (const std::uint32_t tile : tiles_) {
            std::copy_n(at_ + places_[tile], kTileBlocks, bounds() + std::size_t{tile} * kTileBlocks);
        }
        forget();
        for (const std::uint32_t tile : tiles_) places_[tile] = tile * kTileBlocks;
    }

    /// Calls visit(span, the bounds of its blocks) for the spans of the listed tiles.
    template <class Visit>
    void each_listed_span(Visit visit) {
        for (const std::uint32_t tile : tiles_) {
            for (std::uint32_t span = tile * kTileSpans; span < (tile + 1) * kTileSpans; ++span) {
                visit(span, at_ + places_[tile] + std::size_t{span % kTileSpans} * kSpanBlocks);
            }
        }
    }

    void add_rows(std::span<const std::uint32_t> tiles, std::span<const LevelRow> rows) {
        context_.kernel.add_levels(rows.data(), rows.size(), tiles.data(), tiles.size(), places_.data(), at_,
                                   context_.scratch.blocks.tile_max.data());
    }

    /// What the tail terms add in some tiles; the bounds of others may change.
    void add_tails(std::span<const TileRange> ranges) {
        for (const auto* term : tails_) {
            if (is_dropped(*term)) continue;
            // Searching a list costs about as much as adding this many entries.
            constexpr std::size_t kSearchCost = 200;
            if (term->num_entries <= ranges.size() * kSearchCost) {
                add_entries(*term, 0, context_.index.num_tiles());
            } else {
                for (const auto& [first, end] : ranges) {
                    if (may_occur(*term, first, end)) add_entries(*term, first, end);
                }
            }
        }
    }

    void add_entries(const TermView<Code>& term, std::uint32_t first, std::uint32_t end) {
        const std::uint32_t num_tiles = context_.index.num_tiles();
        term.each_entries(first * kTileBlocks, end * kTileBlocks, [&](const auto& list, auto from, auto to) {
            context_.kernel.add_maxima(list, from, to, term.weight, shift_, places_.data(), num_tiles, at_);
        });
    }

    Context<Code, Acc>& context_;
    std::uint32_t shift_ = 0;
    std::uint16_t floor_ = 0;
    std::vector<Head> heads_;
    std::vector<const TermView<Code>*> tails_, dropped_;
    std::vector<LevelRow> rows_;
    std::vector<std::uint32_t> tiles_;
    std::vector<std::uint32_t> places_;  // where the bounds of each tile start,
    std::uint16_t* at_ = nullptr;        // from here
};

}  // namespace segmax
