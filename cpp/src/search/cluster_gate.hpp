// The bounds of all clusters at once: which are the best, and which may be left out by ASC's rule.
//
// A cluster is left out where MaxSBound <= θ/μ and AvgSBound <= θ/η. The bounds of all segments are made in one pass
// over rows of levels, in steps of 16 bits, rounded up, so what is left out here is left out by the exact bounds too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "search/bound_terms.hpp"

namespace segmax {

/// Of the query's mass, what clusters are ranked by: other terms would take longer than they tell apart. ASC's rule
/// needs all of it, as bounds in which they count with the most that they can add are far too high.
inline double gate_mass(const SearchParams& params) {
    return params.mu < 1.0 ? 1.0 : .9;
}

template <class Code, class Acc>
class ClusterGate {
public:
    ClusterGate(Context<Code, Acc>& context, const BoundTerms<Code, Acc>& terms)
        : context_(context), s_(context.scratch.gate), terms_(terms), num_segments_(context.index.num_segments()) {}

    /// Bounds the segments of all clusters. A single segment is the cluster. The lightest terms beyond this share of
    /// the query's mass count everywhere with the most that they can add.
    void bound_all(double mass = 1.0) {
        const std::size_t places = std::size_t{context_.index.num_clusters()} * num_segments_;
        const std::size_t num_lines = level_row_bytes(places) * 2 / kTileBlocks;
        const std::uint64_t least_most = lightest_within(mass);
        std::uint16_t floor = terms_.floor();
        s_.rows.clear();
        for (const auto& term : context_.terms()) {
            if (!terms_.is_dropped(term) && term.most() < least_most) {
                floor = static_cast<std::uint16_t>(floor + terms_.steps16(term.most()));
            }
        }
        s_.bounds.assign(num_lines * kTileBlocks, floor);
        s_.line_max.resize(num_lines);
        for (const auto& term : context_.terms()) {
            if (terms_.is_dropped(term) || term.most() < least_most) continue;
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
        context_.stats().lines_read += s_.rows.size() * num_lines;
        // Whole tiles, as kernels count and collect bounds.
        s_.max_bound.assign(num_bound_tiles() * kTileBlocks, 0);
        context_.kernel.segment_largest(s_.bounds.data(), context_.index.num_clusters(), num_segments_,
                                        s_.max_bound.data());
        if (context_.params.mask) apply_mask(*context_.params.mask);
    }

    /// The clusters with the best MaxSBound, ascending by number, the first where bounds are equal; none with a bound
    /// of 0.
    void best(std::size_t count, std::vector<std::uint32_t>& clusters) {
        s_.all.assign(num_bound_tiles(), std::numeric_limits<std::uint16_t>::max());
        // Counting is fast: the largest limit that so many bounds reach, and the next one, which fewer do.
        std::uint32_t limit = 1;
        std::uint32_t above = static_cast<std::uint32_t>(largest()) + 1;
        std::size_t reached_above = 0;
        while (above > limit + 1) {
            const std::uint32_t middle = limit + (above - limit) / 2;
            const std::size_t reached = context_.kernel.count_blocks(s_.max_bound.data(), s_.all.data(), 0,
                                                                     s_.all.size(), static_cast<std::uint16_t>(middle));
            if (reached >= count) {
                limit = middle;
            } else {
                above = middle;
                reached_above = reached;
            }
        }
        clusters.resize(s_.max_bound.size());
        clusters.resize(context_.kernel.collect_blocks(s_.max_bound.data(), s_.all.data(), 0, s_.all.size(),
                                                       static_cast<std::uint16_t>(limit), clusters.data()));
        std::size_t equal = count - std::min(count, reached_above);
        std::erase_if(clusters, [&](std::uint32_t cluster) {
            if (max_bound(cluster) > limit) return false;
            const bool is_too_many = equal == 0;
            equal -= is_too_many ? 0 : 1;
            return is_too_many;
        });
    }

    /// The largest MaxSBound in steps, of all clusters or of those that are left.
    std::uint64_t largest() const {
        std::uint16_t largest = 0;
        for (const std::uint16_t bound : s_.max_bound) largest = bound > largest ? bound : largest;
        return largest;
    }
    /// Takes clusters out: they have no bound any more.
    void remove(std::span<const std::uint32_t> clusters) {
        for (const std::uint32_t cluster : clusters) s_.max_bound[cluster] = 0;
    }

    /// MaxSBound in steps.
    std::uint64_t max_bound(std::uint32_t cluster) const { return s_.max_bound[cluster]; }
    /// n * AvgSBound in steps.
    std::uint64_t segment_sum(std::uint32_t cluster) const {
        const auto first = s_.bounds.begin() + static_cast<std::ptrdiff_t>(std::size_t{cluster} * num_segments_);
        return std::accumulate(first, first + num_segments_, std::uint64_t{0});
    }

    /// Whether the two-parameter rule, for μ < 1, keeps a cluster at this θ.
    bool keeps(std::uint32_t cluster, Acc threshold) const {
        const SearchParams& params = context_.params;
        if (terms_.score_of(max_bound(cluster)) > scaled_threshold(threshold, params.mu)) return true;
        const std::uint64_t sum_limit = scaled_threshold(std::uint64_t{threshold} * num_segments_, params.eta);
        return terms_.score_of(segment_sum(cluster)) > sum_limit;
    }

private:
    std::size_t num_bound_tiles() const { return context_.index.num_clusters() / kTileBlocks + 1; }

    /// The most of the lightest of the fewest terms that hold this share of the mass of those that bounds are made of.
    std::uint64_t lightest_within(double mass) const {
        if (mass >= 1.0) return 0;
        auto& mosts = s_.mosts;
        mosts.clear();
        for (const auto& term : context_.terms()) {
            if (!terms_.is_dropped(term)) mosts.push_back(term.most());
        }
        std::sort(mosts.begin(), mosts.end(), std::greater<>());
        const double wanted = mass * std::accumulate(mosts.begin(), mosts.end(), 0.0);
        double held = 0;
        std::size_t i = 0;
        while (i < mosts.size() && held < wanted) held += static_cast<double>(mosts[i++]);
        return i > 0 ? mosts[i - 1] : 0;
    }

    /// Clusters without a document that the mask allows have nothing to bound.
    void apply_mask(const Mask& mask) {
        const Index& index = context_.index;
        for (std::uint32_t cluster = 0; cluster < index.num_clusters(); ++cluster) {
            const auto blocks = mask.blocks().subspan(index.first_position(cluster) / kBlockDocs);
            const std::size_t count = blocks_of(index.end_position(cluster) - index.first_position(cluster));
            const auto end = blocks.begin() + static_cast<std::ptrdiff_t>(count);
            if (std::all_of(blocks.begin(), end, [](std::uint8_t used) { return used == 0; })) {
                s_.max_bound[cluster] = 0;
            }
        }
    }

    void add_pairs(const TermView<Code>& term) {
        const PairList<Code> pairs{term.wide ? nullptr : term.clusters.data(), term.cluster_max,
                                   num_segments_ > 1 ? term.segment_mask : nullptr, term.num_pairs, term.largest};
        context_.kernel.add_pairs(pairs, term.weight, terms_.shift(), num_segments_, context_.index.num_clusters(),
                                  s_.bounds.data());
        context_.stats().entries_read += term.num_pairs;
    }

    Context<Code, Acc>& context_;
    GateBuffers& s_;
    const BoundTerms<Code, Acc>& terms_;
    std::uint32_t num_segments_;
};

}  // namespace segmax
