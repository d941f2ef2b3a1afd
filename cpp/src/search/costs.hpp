// What parts of a search take.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "search/context.hpp"

namespace segmax {

/// What parts of a search take, in nanoseconds: rules of thumb, measured on vectors of Wikipedia (docs/performance.md).
/// They choose between ways to the same result, or how to spend a budget; nothing is wrong where they are. A sweep
/// counts twice what its additions take: searches that are answered by blocks vary less, and on 656,250 documents they
/// are faster on average (an EPYC with AVX-512).
struct Costs {
    static constexpr double kStart = 8000;        ///< clearing buffers, and
    static constexpr double kTerm = 500;          ///< opening a term
    static constexpr double kRowTile = 1.6;       ///< a tile of a row of block maxima, read in order
    static constexpr double kEntry = .8;          ///< an entry of a tail term, added to bounds
    static constexpr double kTile = 4;            ///< clearing and collecting the bounds of a tile,
    static constexpr double kTileQuads = 5;       ///< and making and collecting those of its quads
    static constexpr double kGateCluster = 1.5;   ///< ranking a cluster by its bound,
    static constexpr double kFoundCluster = 15;   ///< finding and adding the entries of a term in a cluster,
    static constexpr double kBestClusters = 150;  ///< and all bounds of a term in the best cluster, less in the next:
    static constexpr double kClusterPower = .6;   ///< the sum grows with this power of the number of clusters
    static constexpr double kBlock = 120;         ///< looking up a block, and
    static constexpr double kBlockTerm = 6.2;     ///< for each term, and
    static constexpr std::size_t kManyResults = 500;  ///< where more are wanted,
    static constexpr double kForMany = 120;           ///< each block costs so much more: θ hardly rises on the way
    static constexpr double kColdBlock = 2;       ///< so many times that for the first, whose memory is nowhere near
    static constexpr double kMaskedBlock = .2;    ///< applying a mask to the bound of a block
    static constexpr double kSweepPosting = 1.2;  ///< adding up everything: a posting, and
    static constexpr double kSweepDoc = 1.84;     ///< a document
};

/// What looking up a block costs.
template <class Code, class Acc>
double block_cost(const Context<Code, Acc>& context) {
    return Costs::kBlock + Costs::kBlockTerm * static_cast<double>(context.terms().size());
}

/// What looking up so many blocks costs.
template <class Code, class Acc>
double blocks_cost(const Context<Code, Acc>& context, double blocks) {
    return blocks * (block_cost(context) + (context.k > Costs::kManyResults ? Costs::kForMany : 0));
}

/// What adding up everything costs.
template <class Code, class Acc>
double sweep_cost(Context<Code, Acc>& context) {
    double postings = 0;
    for (const auto& term : context.terms()) postings += term.num_postings;
    return Costs::kSweepPosting * postings + Costs::kSweepDoc * context.index.num_docs();
}

/// How many blocks a search looks at, before anything is known but k: they grow with its power of 0.62. With a mask,
/// the k-th result has a rank of k / (share of the documents) among all, and blocks without an allowed document are
/// left out.
template <class Code, class Acc>
double expected_blocks(const Context<Code, Acc>& context) {
    const auto blocks = [](double k) { return 34.0 * std::pow(k, 0.62); };
    const auto k = static_cast<double>(context.top().capacity());
    if (!context.params.mask) return blocks(k);
    const Mask& mask = *context.params.mask;
    const double rank = k * context.index.num_docs() / mask.count();
    return mask.num_used_blocks() * std::min(1.0, blocks(rank) / context.index.num_blocks());
}

/// What a term's part of all bounds costs.
template <class Code, class Acc>
double bound_cost(const Context<Code, Acc>& context, const TermView<Code>& term) {
    if (!term.head) return Costs::kEntry * static_cast<double>(term.num_entries);
    // By quads: a fourth of the row, and some of the tiles, out of order.
    const double share = context.index.num_tiles() <= context.params.hooks.all_tiles ? 1.0 : .5;
    return share * Costs::kRowTile * context.index.num_tiles();
}

/// What the bounds of all blocks cost.
template <class Code, class Acc>
double bounds_cost(const Context<Code, Acc>& context) {
    const double quads = context.index.num_tiles() <= context.params.hooks.all_tiles ? 0 : Costs::kTileQuads;
    double cost = (Costs::kTile + quads) * context.index.num_tiles();
    if (context.params.mask) cost += Costs::kMaskedBlock * context.index.num_blocks();
    for (const auto& term : context.terms()) cost += bound_cost(context, term);
    return cost;
}

/// What the bounds of all clusters cost.
template <class Code, class Acc>
double gate_cost(const Context<Code, Acc>& context) {
    const double lines = 1.0 * context.index.num_clusters() * context.index.num_segments() / kTileBlocks;
    double cost = Costs::kGateCluster * context.index.num_clusters();
    for (const auto& term : context.terms()) {
        cost += term.wide ? Costs::kRowTile * lines : Costs::kEntry * term.num_pairs;
    }
    return cost;
}

/// What finding and adding the entries of a tail term in a cluster costs, on average over all clusters.
template <class Code, class Acc>
double finding_cost(const Context<Code, Acc>& context, const TermView<Code>& term) {
    return Costs::kFoundCluster * term.num_pairs / context.index.num_clusters();
}

/// What the bounds of so many terms cost in the blocks of the best clusters: these have most of the terms, the next
/// fewer.
inline double clusters_cost(double num_terms, double num_clusters) {
    return Costs::kBestClusters * num_terms * std::pow(num_clusters, Costs::kClusterPower);
}

/// In how many of the best clusters that takes so long.
inline double clusters_within(double num_terms, double time) {
    return std::pow(std::max(0.0, time) / (Costs::kBestClusters * std::max(num_terms, 1.0)), 1 / Costs::kClusterPower);
}

/// What looking up so many blocks costs that a mask leaves: they are far apart.
template <class Code, class Acc>
double masked_cost(const Context<Code, Acc>& context, double blocks) {
    return Costs::kColdBlock * blocks_cost(context, blocks);
}

}  // namespace segmax
