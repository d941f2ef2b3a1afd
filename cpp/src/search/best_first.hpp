// Best first: the blocks of the collection by bound, until none can follow.
//
// Small collections are bounded whole, in one pass over memory. In large ones all spans are bounded first; the blocks
// of the best make a threshold, and only tiles with a span that may pass it are bounded block by block, in stages.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "search/block_scorer.hpp"
#include "search/exhaustive.hpp"
#include "search/span_bounds.hpp"

namespace segmax {

/// Whether a search may be answered exhaustively, and adding up every posting and looking at every sum will be faster
/// than looking at so many blocks. Nanoseconds by rule of thumb (docs/performance.md).
template <class Code, class Acc>
bool sweeping_is_faster(Context<Code, Acc>& context, double blocks) {
    if (!context.params.hooks.sweep || context.params.max_blocks != 0) return false;
    double postings = 0;
    for (const auto& term : context.terms()) postings += term.num_postings;
    return blocks * (120 + 6.2 * static_cast<double>(context.terms().size())) >
           0.6 * postings + 0.92 * context.index.num_docs();
}

/// The same before anything is known but k: the blocks that pass grow with its power of 0.62.
template <class Code, class Acc>
bool sweeping_is_faster(Context<Code, Acc>& context) {
    return sweeping_is_faster(context, 34.0 * std::pow(static_cast<double>(context.top().capacity()), 0.62));
}

/// Finishes a search exhaustively, θ so far being a lower bound of the final one.
template <class Code, class Acc>
void sweep(Context<Code, Acc>& context) {
    context.stats().swept = 1;
    context.threshold_estimate = std::max(context.threshold_estimate, context.top().threshold());
    context.top().reset(context.top().capacity(), false);
    search_exhaustive(context);
}

template <class Code, class Acc>
class BestFirst {
public:
    BestFirst(Context<Code, Acc>& context, double factor)
        : context_(context), bounds_(context), scorer_(context, bounds_, factor, 1.0) {}

    void run() {
        const std::size_t k = context_.top().capacity();
        if (context_.index.num_tiles() <= context_.params.hooks.all_tiles) {
            bounds_.bound_all();
            ranges_ = {{0, context_.index.num_tiles()}};
            score_first(kFirstBlocks + k);
        } else {
            bound_candidates(k);
        }
        context_.check_stop();
        const std::uint64_t least = scorer_.least();
        const auto rest = collect(least);
        if (sweeping_is_faster(context_, static_cast<double>(rest.size()))) {
            sweep(context_);
            return;
        }
        score(rest);
        context_.check_stop();
        count_clusters();
        watch();
    }

private:
    static constexpr std::size_t kFirstBlocks = 32;
    static constexpr std::size_t kFirstSpans = 16;

    std::size_t blocks_left() const {
        const std::size_t most = context_.params.max_blocks;
        return most == 0 ? std::numeric_limits<std::size_t>::max() : most - std::min(most, looked_at_.size());
    }

    void score(std::span<std::uint32_t> blocks) {
        const std::size_t count = scorer_.score(blocks, blocks_left());
        // Never again: what was scored, or failed then, would fail later as well.
        for (std::size_t i = 0; i < count; ++i) {
            looked_at_.push_back(blocks[i]);
            bounds_.bounds()[blocks[i]] = 0;
        }
    }

    void bound_candidates(std::size_t k) {
        SpanBounds<Code, Acc> spans(context_, bounds_);
        ranges_ = tiles_of(spans.best(kFirstSpans + k / 4, scorer_.least()));
        bounds_.bound_ranges(ranges_);
        score_first(kFirstBlocks + k);
        const auto candidates = tiles_of(spans.collect(scorer_.least()));
        TileRanges left;
        for (const std::uint32_t tile : bounds_.bound_stages(candidates, scorer_.least(), spans.rests())) {
            left.add({tile, tile + 1});
        }
        ranges_ = left.get();
        for (const std::uint32_t block : looked_at_) bounds_.bounds()[block] = 0;
    }

    static std::vector<TileRange> tiles_of(std::span<const std::uint32_t> spans) {
        TileRanges ranges;
        for (const std::uint32_t span : spans) ranges.add({span / kTileSpans, span / kTileSpans + 1});
        return ranges.get();
    }

    std::span<std::uint32_t> collect(std::uint64_t least) {
        if (ranges_.size() == 1) return bounds_.collect(ranges_[0].first, ranges_[0].end, least);
        collected_.clear();
        for (const auto& [first, end] : ranges_) {
            const auto some = bounds_.collect(first, end, least);
            collected_.insert(collected_.end(), some.begin(), some.end());
        }
        return collected_;
    }

    /// The best blocks by bound raise the threshold to about where it will end.
    void score_first(std::size_t count) {
        std::uint64_t largest = 0;
        for (const auto& [first, end] : ranges_)
            largest = std::max<std::uint64_t>(largest, bounds_.largest(first, end));
        const std::uint64_t least = scorer_.least();
        std::uint64_t limit = std::max(largest * 7 / 10, least);
        auto blocks = collect(limit);
        while (blocks.size() < count && limit > least) {
            limit = std::max(limit * 8 / 10, least);
            blocks = collect(limit);
        }
        if (blocks.size() > count) {
            const auto better = [&](std::uint32_t a, std::uint32_t b) {
                return bounds_.bound(a) != bounds_.bound(b) ? bounds_.bound(a) > bounds_.bound(b) : a < b;
            };
            std::nth_element(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(count), blocks.end(), better);
            blocks = blocks.first(count);
        }
        score(blocks);
    }

    /// Tells of a watched document whose block was never looked at, unless it was for max_blocks.
    void watch() {
        const Position position = context_.params.watch;
        if (position >= context_.index.num_positions() || blocks_left() == 0) return;
        bounds_.require(position / kTileDocs, position / kTileDocs + 1);
        scorer_.watch_skipped(position / kBlockDocs, position / kBlockDocs + 1);
    }

    /// A cluster is visited where one of its blocks is looked at.
    void count_clusters() {
        const Index& index = context_.index;
        std::vector<bool> visited(index.num_clusters(), false);
        std::uint64_t& count = context_.stats().clusters_visited;
        for (const std::uint32_t block : looked_at_) {
            const std::uint32_t cluster = index.cluster_of(block * kBlockDocs);
            count += visited[cluster] ? 0 : 1;
            visited[cluster] = true;
        }
        const bool limited = blocks_left() == 0;
        context_.stats().budget_hit = limited ? 1 : 0;
        (limited ? context_.stats().clusters_limited : context_.stats().clusters_stopped) =
            index.num_clusters() - count;
    }

    Context<Code, Acc>& context_;
    BlockBounds<Code, Acc> bounds_;
    BlockScorer<Code, Acc> scorer_;
    std::vector<TileRange> ranges_;
    std::vector<std::uint32_t> collected_, looked_at_;
};

}  // namespace segmax
