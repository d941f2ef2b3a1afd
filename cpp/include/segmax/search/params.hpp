// What a caller may ask of a search, and what a search tells afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "segmax/base/types.hpp"

namespace segmax {

enum class Method { exhaustive, maxscore, anytime, asc, best_first };
/// In which order clusters are visited: by MaxSBound (the paper's) or by BoundSum.
enum class ClusterOrder { max_bound, bound_sum };
/// How the documents of a visited cluster are scored: by blocks with block maxima, or by the paper's MaxScore.
enum class DocumentMethod { blocks, maxscore };

/// Nanoseconds since some moment; replaced in tests.
using Clock = std::function<std::uint64_t()>;

struct SearchParams {
    Method method = Method::asc;
    double mu = 1.0;
    double eta = 1.0;
    double budget_ms = 0;  ///< 0: none
    double risk = 1.0;
    std::uint32_t max_clusters = 0;  ///< 0: no limit
    std::uint32_t max_blocks = 0;    ///< best first: look at no more blocks than this; 0: no limit
    std::uint32_t max_terms = 0;     ///< only the heaviest terms of a query; 0: all
    double query_mass = 1.0;         ///< prepare_query's share of the mass: the fewest heaviest terms that hold it
    /// What the dropped terms might add counts in every bound, and documents that pass get it: nothing is lost.
    bool bound_dropped = false;
    ClusterOrder order = ClusterOrder::max_bound;
    DocumentMethod documents = DocumentMethod::blocks;
    bool lazy = true;  ///< false: all bounds before the first visit; the slow twin of the lazy queue
    bool seed = true;  ///< start from a lower bound of the final threshold
    bool trace = false;
    /// Best first: collections of up to so many tiles are bounded whole, without asking which spans matter.
    std::uint32_t all_tiles = 2048;
    bool sweep = true;           ///< let a search be answered exhaustively where that is faster
    Position watch = kNoRow;     ///< a position whose fate is told in the result
    Clock clock;                 ///< empty: the steady clock
    std::function<bool()> stop;  ///< polled between clusters and windows; true abandons the search

    bool is_limited() const { return budget_ms > 0 || max_clusters > 0; }
    /// Whether the answer is exhaustive search's, so that it does not matter how it is found.
    bool is_exact() const { return mu == 1.0 && eta == 1.0 && !is_limited() && max_blocks == 0; }
};

struct SearchStats {
    std::uint64_t clusters_visited = 0;
    std::uint64_t clusters_pruned = 0;   ///< MaxSBound <= θ/μ and AvgSBound <= θ/η (anytime: never counted one by one)
    std::uint64_t clusters_tied = 0;     ///< bound equal to θ, every row behind the k-th result
    std::uint64_t clusters_stopped = 0;  ///< never considered: the search ended before them
    std::uint64_t clusters_limited = 0;  ///< left out by the time budget, max_clusters or max_blocks
    std::uint64_t clusters_zero = 0;     ///< no query term occurs in them
    std::uint64_t segments_read = 0;     ///< clusters whose segment maxima were read
    std::uint64_t blocks_scored = 0;
    std::uint64_t docs_scored = 0;
    std::uint64_t postings_read = 0;
    std::uint64_t unknown_terms = 0;
    std::uint64_t dropped_terms = 0;  ///< lighter than what max_terms or query_mass keep
    std::uint64_t budget_hit = 0;     ///< 1 where the time budget, max_clusters or max_blocks ended the search
    std::uint64_t swept = 0;          ///< 1 where it was answered exhaustively, being the faster way
    std::uint64_t elapsed_ns = 0;
};

enum class Decision : std::uint8_t {
    visited,  ///< its documents were looked at
    pruned,   ///< by the two-parameter rule
    tied,     ///< its bound equals θ and all of its rows are behind the k-th result
    stopped,  ///< it and all after it are below the stop rule
    limited,  ///< it and all after it fell to the time budget or max_clusters
};

/// One decision about a cluster, with the numbers it was based on. Bounds are integers in the query's own scale.
struct TraceEntry {
    std::uint32_t cluster = 0;
    Decision decision = Decision::visited;
    std::uint64_t bound_sum = 0;
    std::uint64_t max_bound = 0;    ///< MaxSBound; 0 where segments were not read
    std::uint64_t segment_sum = 0;  ///< n * AvgSBound; 0 where it was not needed
    std::uint64_t threshold = 0;    ///< θ at that moment
    Row threshold_row = kNoRow;
};

enum class Fate : std::uint8_t { unseen, below_bound, scored };

/// What happened to the watched document inside its cluster.
struct WatchReport {
    Fate fate = Fate::unseen;
    std::uint64_t bound = 0;      ///< the bound that decided (fate below_bound), or its score
    std::uint64_t threshold = 0;  ///< θ at that moment
    std::uint64_t needed = 0;     ///< what a bound had to reach then: θ, θ/η, or the seed
};

struct SearchResult {
    std::vector<Row> rows;
    std::vector<std::uint64_t> scores;  ///< integers; multiply by the query's scale
    SearchStats stats;
    std::vector<TraceEntry> trace;
    WatchReport watched;
    std::uint64_t seed = 0;  ///< the threshold seed that was used
};

}  // namespace segmax
