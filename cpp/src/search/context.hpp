// Everything one query needs while it runs: buffers that live as long as their thread, and the state of the search.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"
#include "search/query_view.hpp"
#include "search/top_k.hpp"
#include "segmax/base/interrupt.hpp"
#include "segmax/index/index.hpp"
#include "segmax/search/params.hpp"
#include "segmax/search/query.hpp"

namespace segmax {

/// Buffers of ClusterBounds.
template <class Code, class Acc>
struct ClusterBuffers {
    std::vector<Acc> cluster_bounds;     ///< BoundSum by cluster
    std::vector<Acc> segment_bounds;     ///< of one cluster, or of all, cluster by cluster
    std::vector<const Code*> rows;       ///< arguments of Kernels::weighted_rows,
    std::vector<std::uint16_t> weights;  ///< made for each call
};

/// A head term with what its levels add to a bound.
template <class Code>
struct BoundedHead {
    const TermView<Code>* term = nullptr;
    std::uint16_t added[kNumLevels] = {};
};

/// Buffers of BoundTerms.
template <class Code>
struct TermBuffers {
    std::vector<BoundedHead<Code>> heads;
    std::vector<const TermView<Code>*> tails, by_most;
    std::vector<std::uint8_t> dropped;  ///< by term
};

/// Buffers of TailPlaces.
struct TailBuffers {
    /// A term in a cluster.
    struct Pair {
        std::uint32_t tail = 0, pair = 0, cluster = 0;
    };
    /// Where the entries of a term in the blocks [block, end), as far as they lie in the zone of the first, begin.
    struct Place {
        std::uint32_t tail = 0, slot = 0, block = 0, end = 0, entry = 0;
    };
    std::vector<std::uint32_t> last_in_tile;  ///< by tail term and slot
    std::vector<std::uint32_t> slot_of_tile;  ///< where only some tiles have slots
    std::vector<std::uint8_t> is_wanted;      ///< by cluster
    std::vector<Pair> pairs;
    std::vector<Place> places;
};

/// Buffers of BlockBounds.
struct BlockBuffers {
    std::vector<std::uint16_t> bounds;     ///< by block, whole zones
    std::vector<std::uint16_t> tile_max;   ///< the largest bound of each tile; 0 where it is not bounded
    std::vector<std::uint8_t> is_bounded;  ///< by tile
    std::vector<std::uint32_t> tiles;      ///< to be bounded
    std::vector<std::uint32_t> all_tiles;  ///< 0, 1, 2, ...
    std::vector<std::uint32_t> found;      ///< what collect() returns a view of, until it is called again
    std::vector<LevelRow> rows;
};

/// Buffers of QuadBounds. A line is what a cache line of a row holds: kTileBlocks quads.
struct QuadBuffers {
    std::vector<std::uint16_t> bounds, line_max;
    std::vector<std::uint32_t> lines;  ///< 0, 1, 2, ...
    std::vector<std::uint32_t> found;
    std::vector<LevelRow> rows;
};

/// Buffers of ClusterGate. A line is what a cache line of a row holds: kTileBlocks segments.
struct GateBuffers {
    std::vector<std::uint16_t> bounds, line_max;
    std::vector<std::uint16_t> max_bound;  ///< by cluster, whole tiles
    std::vector<std::uint64_t> mosts;      ///< of terms
    std::vector<std::uint16_t> all;        ///< by tile of clusters: its bounds are looked at
    std::vector<std::uint32_t> lines;
    std::vector<LevelRow> rows;
};

/// Buffers of BlockScorer.
template <class Code>
struct ScorerBuffers {
    std::vector<std::uint64_t> ranked;       ///< blocks with their bounds, to be sorted,
    std::vector<std::uint64_t> by_low;       ///< and sorted by the low bytes of these
    std::vector<RunLookup> lookups;          ///< of a batch of blocks and a group of terms
    std::vector<EntryLookup<Code>> entries;  ///< of a batch of blocks and all tail terms
};

/// Buffers of BestFirst.
struct BestFirstBuffers {
    std::vector<std::uint32_t> looked_at;  ///< blocks
    std::vector<std::uint32_t> spans;      ///< to be scored as a whole
    std::vector<std::uint8_t> visited;     ///< by cluster
    std::vector<std::uint8_t> kept;        ///< by cluster: whether the gate kept it
    std::vector<std::uint32_t> clusters;   ///< the best by bound
};

/// Buffers for sums of scores. One object at a time uses them: a BlockScorer during score(), or search_exhaustive.
/// Whoever does leaves `sums` all zero.
template <class Acc>
struct SumBuffers {
    std::vector<Acc> sums = std::vector<Acc>(kWindowDocs + 2 * kBlockDocs, 0);
    std::vector<std::uint32_t> found = std::vector<std::uint32_t>(kWindowDocs + 2 * kBlockDocs);
};

/// Memory reused from query to query, one per thread. Each group of buffers belongs to the class that it is named
/// after, of which a search has one object at most; others ask that object.
template <class Code, class Acc>
struct Scratch {
    /// The index last searched. Damaged postings may leave dirt in the sums; it must not reach another index.
    std::uint64_t last_index = 0;
    QueryView<Code> view;  ///< opened by search_as, read by all
    TopK<Acc> top;         ///< reset by search_as, filled through Context::offer
    ClusterBuffers<Code, Acc> clusters;
    TermBuffers<Code> terms;
    TailBuffers tails;
    BlockBuffers blocks;
    QuadBuffers quads;
    GateBuffers gate;
    ScorerBuffers<Code> scorer;
    BestFirstBuffers best_first;
    SumBuffers<Acc> sums;
};

inline std::uint64_t steady_now() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

template <class Code, class Acc>
struct Context {
    const Index& index;
    const SearchParams& params;
    const Kernels<Code, Acc>& kernel;
    Scratch<Code, Acc>& scratch;
    SearchResult& result;
    std::size_t k = 0;
    std::optional<IntegerFloor> floor = std::nullopt;
    std::uint64_t start = 0;     ///< when the search began
    Acc threshold_estimate = 0;  ///< no document below this score is among the k best

    std::span<const TermView<Code>> terms() const { return scratch.view.terms(); }
    TopK<Acc>& top() { return scratch.top; }
    const TopK<Acc>& top() const { return scratch.top; }
    /// Starts the results over. θ lags behind where it need not be exact.
    void reset_top(bool exact) {
        top().reset(k, exact);
        if (floor) top().set_floor(static_cast<Acc>(floor->score), floor->row);
    }
    SearchStats& stats() { return result.stats; }
    std::uint64_t now() const { return params.hooks.clock ? params.hooks.clock() : steady_now(); }

    /// Whether the mask lets a document be returned.
    bool allows(Position position) const { return !params.mask || params.mask->allows(position); }

    /// Nanoseconds until the budget is spent, below 0 afterwards; without a budget the clock is not even asked.
    double time_left() const {
        if (params.budget_ms == 0) return std::numeric_limits<double>::infinity();
        return params.budget_ms * 1e6 - static_cast<double>(now() - start);
    }

    void check_stop() const {
        if (params.stop && params.stop()) throw Interrupted();
    }

    /// Adds a document that has been scored in full if it is among the k best so far; returns whether it is.
    bool offer(Acc score, Position position) {
        if (!allows(position)) return false;
        const Row row = index.row_at(position);
        if (position == params.watch) result.watched = {Fate::scored, score, top().threshold(), top().threshold()};
        if (row == kNoRow || !top().admits(score, row)) return false;
        top().push(score, row);
        return true;
    }
};

/// floor(θ / factor): an integer bound is <= θ/factor exactly where it is <= this. Exact for factor 1.
template <class Acc>
std::uint64_t scaled_threshold(Acc threshold, double factor) {
    if (factor == 1.0) return threshold;
    // Far above any bound (at most 2^62), and still in the range of the integer.
    constexpr double most = 4611686018427387904.0;
    return static_cast<std::uint64_t>(std::min(static_cast<double>(threshold) / factor, most));
}

/// What a document, or a group of documents, must reach to be looked at: the rule of one level of pruning.
/// At factor 1 a bound equal to θ still counts where a row may come before the k-th result.
template <class Acc>
struct Gate {
    Acc least = 1;    ///< bounds below this are out
    Acc tied_at = 0;  ///< a bound equal to this (not 0) needs a row before tied_row
    Row tied_row = kNoRow;

    static Gate of(const TopK<Acc>& top, double factor, Acc threshold_estimate) {
        Gate gate;
        gate.least = std::max<Acc>(threshold_estimate, 1);
        if (!top.full()) return gate;
        if (factor == 1.0) {
            gate.least = std::max(gate.least, top.threshold());
            gate.tied_at = top.threshold();
            gate.tied_row = top.threshold_row();
        } else {
            const std::uint64_t limit = scaled_threshold(top.threshold(), factor) + 1;
            gate.least = limit > std::numeric_limits<Acc>::max() ? std::numeric_limits<Acc>::max()
                                                                 : std::max(gate.least, static_cast<Acc>(limit));
        }
        return gate;
    }

    bool lets_in(Acc bound, Row smallest_row) const {
        return bound >= least && (bound != tied_at || smallest_row < tied_row);
    }
};

}  // namespace segmax
