// Which cluster comes next, and the bounds its fate is decided by.
//
// BoundSum of every cluster is cheap (one code per term and cluster); segment maxima cost n times as much, so the
// lazy queue reads them only for clusters that come to its top. Both queues hand out the same clusters in the same
// order: non-increasing MaxSBound (or BoundSum, by choice), equal bounds by smallest row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "search/context.hpp"

namespace segmax {

/// A cluster with the bounds known so far.
struct Candidate {
    std::uint32_t cluster = 0;
    std::uint64_t bound_sum = 0;
    std::uint64_t max_bound = 0;    ///< MaxSBound (refined only)
    std::uint64_t segment_sum = 0;  ///< n * AvgSBound (refined, or asked for)
    bool refined = false;
};

/// Bound arithmetic of one query over one index.
template <class Code, class Acc>
class ClusterBounds {
public:
    explicit ClusterBounds(Context<Code, Acc>& context) : context_(context) { context.scratch.view.index_clusters(); }

    /// BoundSum (eq. 2) of every cluster.
    const Acc* bound_sums() {
        auto& s = context_.scratch.clusters;
        const std::uint32_t clusters = context_.index.num_clusters();
        s.cluster_bounds.resize(clusters + 2 * kBlockDocs);
        s.rows.clear();
        s.weights.clear();
        for (const auto& term : context_.terms()) {
            if (term.wide) add_row(term.cluster_max, term.weight);
        }
        context_.kernel.weighted_rows(s.rows.data(), s.weights.data(), s.rows.size(), clusters,
                                      s.cluster_bounds.data());
        for (const auto& term : context_.terms()) {
            if (!term.wide) add_narrow(term);
        }
        return s.cluster_bounds.data();
    }

    /// BoundSum of a cluster, once bound_sums() has been called.
    Acc bound_sum(std::uint32_t cluster) const { return context_.scratch.clusters.cluster_bounds[cluster]; }

    /// MaxSBound (eq. 3) and n * AvgSBound from the segment maxima.
    void refine(Candidate& candidate) {
        auto& bounds = context_.scratch.clusters.segment_bounds;
        bounds.assign(context_.index.num_segments(), 0);
        for (const auto& term : context_.terms()) {
            if (!term.has(candidate.cluster)) continue;
            const std::uint32_t pair = term.pair(candidate.cluster);
            for (std::uint32_t s = 0; s < bounds.size(); ++s) {
                bounds[s] += static_cast<Acc>(term.weight) * static_cast<Acc>(term.segment_code(pair, s));
            }
        }
        candidate.max_bound = *std::max_element(bounds.begin(), bounds.end());
        candidate.segment_sum = std::accumulate(bounds.begin(), bounds.end(), std::uint64_t{0});
        candidate.refined = true;
        ++context_.stats().segments_read;
    }

private:
    void add_row(const Code* row, std::uint32_t weight) {
        context_.scratch.clusters.rows.push_back(row);
        context_.scratch.clusters.weights.push_back(static_cast<std::uint16_t>(weight));
    }

    void add_narrow(const TermView<Code>& term) {
        Acc* bounds = context_.scratch.clusters.cluster_bounds.data();
        for (std::size_t pair = 0; pair < term.clusters.size(); ++pair) {
            if (term.clusters[pair] >= context_.index.num_clusters()) continue;
            bounds[term.clusters[pair]] += static_cast<Acc>(term.weight) * term.cluster_max[pair];
        }
    }

    Context<Code, Acc>& context_;
};

/// Clusters in visiting order: by MaxSBound, refined when they come to the top, or by BoundSum alone.
template <class Code, class Acc>
class ClusterQueue {
public:
    ClusterQueue(Context<Code, Acc>& context, ClusterBounds<Code, Acc>& bounds, bool by_max_bound, bool lazy)
        : context_(context), bounds_(bounds), by_max_bound_(by_max_bound) {
        const Acc* sums = bounds.bound_sums();
        const Index& index = context.index;
        for (std::uint32_t cluster = 0; cluster < index.num_clusters(); ++cluster) {
            const Acc sum = sums[cluster];
            if (sum == 0) {
                ++context.stats().clusters_zero;
            } else if (sum >= context.threshold_estimate) {
                entries_.push_back({key(sum, by_max_bound, cluster), cluster});
            }
        }
        if (by_max_bound && !lazy) {
            for (Entry& entry : entries_) {
                Candidate candidate = unrefined(entry.cluster);
                bounds_.refine(candidate);
                entry = refined_entry(candidate);
            }
        }
        std::make_heap(entries_.begin(), entries_.end());
    }

    /// The next cluster; false when none is left whose bound is at least `least`.
    bool next(Candidate& candidate, Acc least) {
        while (!entries_.empty()) {
            const Entry entry = entries_.front();
            const Acc bound = bound_of(entry.key);
            if (bound < least) return false;
            candidate = unrefined(entry.cluster);
            if (!by_max_bound_ || is_refined(entry.key)) {
                if (by_max_bound_) {
                    candidate.max_bound = bound;
                    candidate.segment_sum = sums_[entry.slot];
                    candidate.refined = true;
                }
                std::pop_heap(entries_.begin(), entries_.end());
                entries_.pop_back();
                return true;
            }
            bounds_.refine(candidate);
            replace_top(refined_entry(candidate));
        }
        return false;
    }

private:
    /// bound, then unrefined before refined, then the smaller row: one integer to compare.
    using Key = typename TopK<Acc>::Key;
    struct Entry {
        Key key = 0;
        std::uint32_t cluster = 0;
        std::uint32_t slot = 0;  ///< into sums_, for refined entries
        bool operator<(const Entry& other) const { return key < other.key; }
    };

    Key key(Acc bound, bool unrefined, std::uint32_t cluster) const {
        return (Key{bound} << 33) | (Key{unrefined ? 1U : 0U} << 32) |
               (kNoRow - context_.index.cluster_min_row(cluster));
    }
    static Acc bound_of(Key key) { return static_cast<Acc>(key >> 33); }
    static bool is_refined(Key key) { return ((key >> 32) & 1) == 0; }

    Candidate unrefined(std::uint32_t cluster) const {
        Candidate candidate;
        candidate.cluster = cluster;
        candidate.bound_sum = bounds_.bound_sum(cluster);
        return candidate;
    }

    Entry refined_entry(const Candidate& candidate) {
        sums_.push_back(candidate.segment_sum);
        return {key(static_cast<Acc>(candidate.max_bound), false, candidate.cluster), candidate.cluster,
                static_cast<std::uint32_t>(sums_.size() - 1)};
    }

    void replace_top(const Entry& entry) {
        const std::size_t size = entries_.size();
        std::size_t hole = 0;
        for (std::size_t child = 1; child < size; child = 2 * hole + 1) {
            if (child + 1 < size && entries_[child] < entries_[child + 1]) ++child;
            if (!(entry < entries_[child])) break;
            entries_[hole] = entries_[child];
            hole = child;
        }
        entries_[hole] = entry;
    }

    Context<Code, Acc>& context_;
    ClusterBounds<Code, Acc>& bounds_;
    bool by_max_bound_;
    std::vector<Entry> entries_;
    std::vector<std::uint64_t> sums_;
};

}  // namespace segmax
