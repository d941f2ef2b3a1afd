// What a caller may ask of a search, and what the search returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "segmax/base/types.hpp"
#include "segmax/search/mask.hpp"

namespace segmax {

/// asc is the engine: blocks of the whole collection, the best first, with ASC's rules as a permission to leave some
/// out. The others are the slow twin and the paper's methods, which visit clusters or documents one by one.
enum class Method { exhaustive, asc, maxscore, anytime, sequential };
/// In which order clusters are visited: by MaxSBound (the paper's) or by BoundSum.
enum class ClusterOrder { max_bound, bound_sum };
/// How the documents of a visited cluster are scored: by blocks with block maxima, or by the paper's MaxScore.
enum class DocumentMethod { blocks, maxscore };

/// Nanoseconds since some moment; replaced in tests.
using Clock = std::function<std::uint64_t()>;

/// The last of k documents that were found elsewhere: only what comes before it is of interest.
struct Floor {
    double score = 0;  ///< as users see it
    Row row = kNoRow;  ///< kNoRow: results with this score are of interest, whatever their rows
};

/// A floor in the integers of a query.
struct IntegerFloor {
    std::uint64_t score = 0;
    Row row = kNoRow;
};

/// What only tests and experiments change. The defaults are what every search uses. cluster_order and documents select
/// other variants of the paper's methods; nothing else here changes the result of an exact search.
struct SearchHooks {
    ClusterOrder cluster_order = ClusterOrder::max_bound;
    DocumentMethod documents = DocumentMethod::blocks;
    bool lazy = true;                ///< false: all bounds before the first visit; the slow twin of the lazy queue
    bool estimate_threshold = true;  ///< start from a lower bound of the final threshold
    bool sweep = true;               ///< answer a search exhaustively where that is faster
    bool list_masked = true;         ///< look at all documents that a mask allows where that is faster
    /// Collections of up to so many tiles are bounded whole, without asking which clusters and quads matter.
    std::uint32_t all_tiles = 2048;
    Clock clock;  ///< empty: the steady clock
};

struct SearchParams {
    Method method = Method::asc;
    double mu = 1.0;
    double eta = 1.0;
    double budget_ms = 0;  ///< 0: none
    double risk = 1.0;     ///< anytime, sequential: how early a budget ends a search
    /// How many clusters are visited at most; 0: no limit. asc takes those with the best MaxSBound.
    std::uint32_t max_clusters = 0;
    bool may_lack = false;         ///< asc with max_clusters: fewer than k results will do where there are more
    std::uint32_t max_blocks = 0;  ///< asc: look at no more blocks than this; 0: no limit
    std::uint32_t max_terms = 0;   ///< only the heaviest terms of a query; 0: all
    /// asc: only the heaviest terms that hold this share of the mass are read for bounds; what the others add is
    /// expected, not bounded, so no guarantee holds below 1. Blocks that are looked at are scored with all terms.
    double bound_mass = 1.0;
    double query_mass = 1.0;  ///< prepare_query's share of the mass: the fewest heaviest terms that hold it
    /// What the dropped terms might add counts in every bound, and documents that pass get it: nothing is lost.
    bool bound_dropped = false;
    bool trace = false;                ///< record every decision about a cluster in the result
    Position watch = kNoRow;           ///< a position whose fate is recorded in the result
    std::shared_ptr<const Mask> mask;  ///< none: every document
    std::optional<Floor> floor;
    std::function<bool()> stop;  ///< polled between clusters and windows; true abandons the search
    SearchHooks hooks;

    bool visits_clusters() const { return method == Method::anytime || method == Method::sequential; }
};

/// X(name, meaning) for everything that a search counts: the one place that lists it. SearchStats, the columns that the
/// bindings return and, through _core.stats_fields(), the names in Python follow from it.
#define SEGMAX_STATS(X)                                                                             \
    X(clusters_visited, "clusters whose documents were looked at")                                  \
    X(clusters_pruned, "MaxSBound <= θ/μ and AvgSBound <= θ/η (anytime: never counted one by one)") \
    X(clusters_tied, "bound equal to θ, every row behind the k-th result")                          \
    X(clusters_stopped, "never considered: the search ended before them")                           \
    X(clusters_limited, "left out by the time budget, max_clusters or max_blocks")                  \
    X(clusters_zero, "no query term occurs in them")                                                \
    X(segments_read, "clusters whose segment maxima were read")                                     \
    X(lines_read, "cache lines of rows of bounds")                                                  \
    X(entries_read, "entries of rare terms, and pairs, that were added to bounds")                  \
    X(blocks_scored, "blocks whose postings were looked up")                                        \
    X(docs_scored, "documents of these blocks, or of MaxScore")                                     \
    X(postings_read, "postings that were added to a score")                                         \
    X(unknown_terms, "terms of the query that the index does not have")                             \
    X(dropped_terms, "terms lighter than what max_terms or query_mass keep")                        \
    X(budget_hit, "1 where the time budget, max_clusters or max_blocks left something out")         \
    X(swept, "1 where it was answered exhaustively because that was faster")                        \
    X(elapsed_ns, "nanoseconds from the prepared query to the results")

struct SearchStats {
#define SEGMAX_FIELD(name, meaning) std::uint64_t name = 0;
    SEGMAX_STATS(SEGMAX_FIELD)
#undef SEGMAX_FIELD
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
struct WatchedDocument {
    Fate fate = Fate::unseen;
    std::uint64_t bound = 0;      ///< the bound that decided (fate below_bound), or its score
    std::uint64_t threshold = 0;  ///< θ at that moment
    std::uint64_t needed = 0;     ///< what a bound had to reach then: θ, θ/η, or the threshold estimate
};

struct SearchResult {
    std::vector<Row> rows;
    std::vector<std::uint64_t> scores;  ///< integers; multiply by the query's scale
    SearchStats stats;
    std::vector<TraceEntry> trace;
    WatchedDocument watched;
    std::uint64_t threshold_estimate = 0;   ///< the lower bound of the final θ that the search started from
    std::vector<std::uint32_t> kept_terms;  ///< of the query, ascending: those whose weights are part of scores
};

}  // namespace segmax
