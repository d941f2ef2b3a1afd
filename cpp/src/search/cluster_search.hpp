// Anytime Ranking, Anytime* and ASC: visit clusters by bound, prune by threshold, stop when nothing can follow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "search/block_scorer.hpp"
#include "search/cluster_queue.hpp"
#include "search/maxscore.hpp"

namespace segmax {

/// Ends a search after its time budget or its number of clusters.
/// Stops when elapsed + risk * (mean time per visited cluster) would pass the budget (Mackenzie et al. 2022), but never
/// before one visit: an answer beats none.
template <class Code, class Acc>
class Limit {
public:
    explicit Limit(const Context<Code, Acc>& context) : context_(context) {}

    bool reached(std::uint64_t visited) {
        const SearchParams& params = context_.params;
        if (params.max_clusters > 0 && visited >= params.max_clusters) return true;
        if (params.budget_ms <= 0) return false;
        const std::uint64_t now = context_.now();
        if (visited == 0) {
            first_visit_ = now;
            return false;
        }
        const double mean = static_cast<double>(now - first_visit_) / static_cast<double>(visited);
        return static_cast<double>(now - context_.start) + params.risk * mean > params.budget_ms * 1e6;
    }

private:
    const Context<Code, Acc>& context_;
    std::uint64_t first_visit_ = 0;
};

template <class Code, class Acc>
class ClusterSearch {
public:
    explicit ClusterSearch(Context<Code, Acc>& context)
        : context_(context),
          params_(context.params),
          is_asc_(params_.method == Method::sequential),
          by_max_bound_(is_asc_ && params_.hooks.cluster_order == ClusterOrder::max_bound),
          // Anytime* uses its one factor at both levels.
          document_factor_(is_asc_ ? params_.eta : params_.mu),
          bounds_(context),
          queue_(context, bounds_, by_max_bound_, params_.hooks.lazy),
          limit_(context),
          maxscore_(context, document_factor_) {
        if (params_.hooks.documents != DocumentMethod::blocks || context.terms().size() > kMaxBoundedTerms) return;
        blocks_.emplace(context, document_factor_);
    }

    void run() {
        Candidate candidate;
        while (take(candidate)) {
            const Decision decision = decide(candidate);
            record(candidate, decision);
            if (decision == Decision::stopped || decision == Decision::limited) break;
            if (decision == Decision::visited) visit(candidate.cluster);
        }
        SearchStats& stats = context_.stats();
        const std::uint64_t left = context_.index.num_clusters() - stats.clusters_visited - stats.clusters_pruned -
                                   stats.clusters_tied - stats.clusters_zero;
        (stats.budget_hit != 0 ? stats.clusters_limited : stats.clusters_stopped) = left;
        context_.check_stop();
    }

private:
    /// What scores the documents of a cluster by blocks.
    struct Blocks {
        Blocks(Context<Code, Acc>& context, double factor)
            : terms(context),
              tails(context),
              bounds(context, terms, tails),
              scorer(context, terms, tails, bounds, factor, factor) {
            bounds.bound_all();
        }
        BoundTerms<Code, Acc> terms;
        TailPlaces<Code, Acc> tails;
        BlockBounds<Code, Acc> bounds;
        BlockScorer<Code, Acc> scorer;
    };

    /// Takes the next candidate. What the stop rule already rules out is not even refined.
    bool take(Candidate& candidate) {
        return queue_.next(candidate,
                           Gate<Acc>::of(context_.top(), document_factor_, context_.threshold_estimate).least);
    }

    Decision decide(Candidate& candidate) {
        const Decision decision = is_asc_ ? decide_asc(candidate) : decide_by(candidate, candidate.bound_sum);
        if (decision != Decision::visited) return decision;
        if (!limit_.reached(context_.stats().clusters_visited)) return Decision::visited;
        context_.stats().budget_hit = 1;
        return Decision::limited;
    }

    /// One bound against θ/μ; bounds only fall, so the first below it ends the search. At μ = 1 a bound equal to θ
    /// may hide a document that wins its tie by row.
    Decision decide_by(const Candidate& candidate, std::uint64_t bound) const {
        const auto& top = context_.top();
        if (!top.full()) return Decision::visited;
        if (params_.mu < 1.0) {
            return bound <= scaled_threshold(top.threshold(), params_.mu) ? Decision::stopped : Decision::visited;
        }
        if (bound < top.threshold()) return Decision::stopped;
        const bool tied =
            bound == top.threshold() && context_.index.cluster_min_row(candidate.cluster) > top.threshold_row();
        return tied ? Decision::tied : Decision::visited;
    }

    /// ASC's two-parameter rule: prune where MaxSBound <= θ/μ and AvgSBound <= θ/η. Cheap bounds come first: the order
    /// bound may stop the search, and the stored sum of segment maxima may already rule pruning out, so that segments
    /// are read only for the clusters that remain.
    Decision decide_asc(Candidate& candidate) {
        const auto& top = context_.top();
        if (!top.full()) return Decision::visited;
        const std::uint64_t threshold = top.threshold();
        const std::uint64_t order_bound = by_max_bound_ ? candidate.max_bound : candidate.bound_sum;
        // Stop rule: what bounds this cluster bounds all later ones. At η = 1 a bound equal to θ does not stop.
        const std::uint64_t stop_at = scaled_threshold(threshold, params_.eta);
        if (order_bound < stop_at || (params_.eta < 1.0 && order_bound == stop_at)) return Decision::stopped;
        // AvgSBound <= θ/η without a division: the sum over n segments <= n θ/η.
        const std::uint64_t sum_limit = scaled_threshold(threshold * context_.index.num_segments(), params_.eta);
        if (!candidate.refined) bounds_.refine(candidate);
        if (params_.mu == 1.0) {
            if (candidate.max_bound < threshold) return Decision::pruned;
            const bool tied = candidate.max_bound == threshold &&
                              context_.index.cluster_min_row(candidate.cluster) > top.threshold_row();
            return tied ? Decision::tied : Decision::visited;
        }
        const bool pruned =
            candidate.max_bound <= scaled_threshold(threshold, params_.mu) && candidate.segment_sum <= sum_limit;
        return pruned ? Decision::pruned : Decision::visited;
    }

    void visit(std::uint32_t cluster) {
        ++context_.stats().clusters_visited;
        if (blocks_) {
            visit_by_blocks(cluster);
        } else {
            visit_by_maxscore(cluster);
        }
        if (context_.stats().clusters_visited % 64 == 0) context_.check_stop();
    }

    void visit_by_blocks(std::uint32_t cluster) {
        const std::uint32_t first = context_.index.first_position(cluster) / kBlockDocs;
        const std::uint32_t end = context_.index.end_position(cluster) / kBlockDocs;
        auto found = blocks_->bounds.collect(first / kTileBlocks, (end + kTileBlocks - 1) / kTileBlocks,
                                             blocks_->scorer.least());
        const auto outside = [&](std::uint32_t block) { return block < first || block >= end; };
        blocks_->scorer.score({found.begin(), std::remove_if(found.begin(), found.end(), outside)});
        blocks_->scorer.watch_skipped(first, end);
    }

    void visit_by_maxscore(std::uint32_t cluster) {
        maxscore_.run(context_.index.first_position(cluster), context_.index.end_position(cluster),
                      [&](const TermView<Code>& term) -> Acc {
                          if (!term.has(cluster)) return 0;
                          return static_cast<Acc>(term.weight) * term.cluster_max[term.pair(cluster)];
                      });
    }

    void record(const Candidate& candidate, Decision decision) {
        context_.stats().clusters_pruned += decision == Decision::pruned ? 1 : 0;
        context_.stats().clusters_tied += decision == Decision::tied ? 1 : 0;
        if (!params_.trace) return;
        TraceEntry entry;
        entry.cluster = candidate.cluster;
        entry.decision = decision;
        entry.bound_sum = candidate.bound_sum;
        entry.max_bound = candidate.max_bound;
        entry.segment_sum = candidate.segment_sum;
        entry.threshold = context_.top().threshold();
        entry.threshold_row = context_.top().threshold_row();
        context_.result.trace.push_back(entry);
    }

    Context<Code, Acc>& context_;
    const SearchParams& params_;
    bool is_asc_;
    bool by_max_bound_;
    double document_factor_;
    ClusterBounds<Code, Acc> bounds_;
    ClusterQueue<Code, Acc> queue_;
    Limit<Code, Acc> limit_;
    // Documents are scored by blocks where there are these, else by MaxScore.
    std::optional<Blocks> blocks_;
    MaxScoreRange<Code, Acc> maxscore_;
};

}  // namespace segmax
