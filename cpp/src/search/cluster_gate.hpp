// ASC's rule for clusters, for all of them at once: which may be left out.
//
// A cluster is left out where MaxSBound <= θ/μ and AvgSBound <= θ/η. The bounds of all segments are made in one pass
// over rows of levels, in steps of 16 bits, rounded up, so what is left out here is left out by the exact bounds too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "search/bound_terms.hpp"

namespace segmax {

template <class Code, class Acc>
class ClusterGate {
public:
    ClusterGate(Context<Code, Acc>& context, const BoundTerms<Code, Acc>& terms)
        : context_(context), s_(context.scratch.gate), terms_(terms), num_segments_(context.index.num_segments()) {}

    /// Bounds the segments of all clusters. A single segment is the cluster.
    void bound_all() {
        const std::size_t places = std::size_t{context_.index.num_clusters()} * num_segments_;
        const std::size_t num_lines = level_row_bytes(places) * 2 / kTileBlocks;
        s_.bounds.assign(num_lines * kTileBlocks, terms_.floor());
        s_.line_max.resize(num_lines);
        s_.rows.clear();
        for (const auto& term : context_.terms()) {
            if (terms_.is_dropped(term)) continue;
            if (term.wide && num_segments_ > 1) {
                std::uint16_t added[kNumLevels];
                for (std::uint32_t level = 0; level < kNumLevels; ++level) added[level] = terms_.added_by(term, level);
                s_.rows.push_back(terms_.level_row(added, term.segment_max));
            } else {
                add_pairs(term);
            }
        }
        while (s_.lines.size() < num_lines) s_.lines.push_back(static_cast<std::uint32_t>(s_.lines.size()));
        context_.kernel.add_levels(s_.rows.data(), s_.rows.size(), s_.lines.data(), num_lines, s_.bounds.data(),
                                   s_.line_max.data());
        s_.max_bound.resize(context_.index.num_clusters());
        s_.segment_sum.resize(context_.index.num_clusters());
        context_.kernel.reduce_segments(s_.bounds.data(), context_.index.num_clusters(), num_segments_,
                                        s_.max_bound.data(), s_.segment_sum.data());
    }

    /// The clusters with the best MaxSBound, ascending by number.
    void best(std::size_t count, std::vector<std::uint32_t>& clusters) const {
        clusters.resize(context_.index.num_clusters());
        std::iota(clusters.begin(), clusters.end(), 0U);
        clusters.resize(best_of(clusters, count, [&](std::uint32_t cluster) { return max_bound(cluster); }).size());
    }

    /// MaxSBound in steps.
    std::uint64_t max_bound(std::uint32_t cluster) const { return s_.max_bound[cluster]; }
    /// n * AvgSBound in steps.
    std::uint64_t segment_sum(std::uint32_t cluster) const { return s_.segment_sum[cluster]; }

    /// Whether the two-parameter rule, for μ < 1, keeps a cluster at this θ.
    bool keeps(std::uint32_t cluster, Acc threshold) const {
        const SearchParams& params = context_.params;
        if (terms_.score_of(max_bound(cluster)) > scaled_threshold(threshold, params.mu)) return true;
        const std::uint64_t sum_limit = scaled_threshold(std::uint64_t{threshold} * num_segments_, params.eta);
        return terms_.score_of(segment_sum(cluster)) > sum_limit;
    }

private:
    void add_pairs(const TermView<Code>& term) {
        const PairList<Code> pairs{term.wide ? nullptr : term.clusters.data(), term.cluster_max,
                                   num_segments_ > 1 ? term.segment_mask : nullptr, term.num_pairs, term.largest};
        context_.kernel.add_pairs(pairs, term.weight, terms_.shift(), num_segments_, context_.index.num_clusters(),
                                  s_.bounds.data());
    }

    Context<Code, Acc>& context_;
    GateBuffers& s_;
    const BoundTerms<Code, Acc>& terms_;
    std::uint32_t num_segments_;
};

}  // namespace segmax
