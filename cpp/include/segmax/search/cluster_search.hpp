// Anytime Ranking, Anytime* and ASC: visit clusters by bound, prune by threshold, stop when nothing can follow.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "segmax/search/block_visitor.hpp"
#include "segmax/search/cluster_queue.hpp"
#include "segmax/search/exhaustive.hpp"
#include "segmax/search/maxscore.hpp"

namespace segmax {

/// Ends a search after its time budget or its number of clusters.
/// Stops when elapsed + risk * (mean time per visited cluster) would pass the budget; never before one visit.
template <class Code, class Acc>
class Limit {
public:
    Limit(const Context<Code, Acc>& context, std::uint64_t start) : context_(context), start_(start) {}

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
        return static_cast<double>(now - start_) + params.risk * mean > params.budget_ms * 1e6;
    }

private:
    const Context<Code, Acc>& context_;
    std::uint64_t start_;
    std::uint64_t first_visit_ = 0;
};

template <class Code, class Acc>
class ClusterSearch {
public:
    ClusterSearch(Context<Code, Acc>& context, std::uint64_t start)
        : context_(context),
          params_(context.params),
          is_asc_(params_.method == Method::asc),
          by_max_bound_(is_asc_ && params_.order == ClusterOrder::max_bound),
          // Anytime* uses its one factor at both levels.
          document_factor_(is_asc_ ? params_.eta : params_.mu),
          bounds_(context),
          queue_(context, bounds_, by_max_bound_, params_.lazy),
          limit_(context, start),
          blocks_(context, document_factor_),
          maxscore_(context, document_factor_) {}

    void run() {
        // Where k is so large that nothing will save the sweep, not even the clusters that make a threshold are
        // visited.
        if (may_sweep() && sweeping_is_faster(queue_.count_at_least(0), kSurely)) sweep_rest();
        Candidate candidate;
        while (!swept_ && take(candidate)) {
            const Decision decision = decide(candidate);
            record(candidate, decision);
            if (decision == Decision::stopped || decision == Decision::limited) break;
            if (decision == Decision::visited) visit(candidate.cluster);
            if (!planned_ && context_.top().full()) plan();
        }
        SearchStats& stats = context_.stats();
        const std::uint64_t left = context_.index.num_clusters() - stats.clusters_visited - stats.clusters_pruned -
                                   stats.clusters_tied - stats.clusters_zero;
        (stats.budget_hit != 0 ? stats.clusters_limited : stats.clusters_stopped) = left;
        context_.check_stop();
    }

private:
    /// Where more than one cluster in this many is wanted, memory is read in order instead.
    static constexpr std::size_t kStreamShare = 8;
    static constexpr double kSurely = 1.3;

    /// The next candidate; one more is kept ahead, and its memory asked for while this one is worked on.
    bool take(Candidate& candidate) {
        if (!ahead_ && !fetch()) return false;
        candidate = *ahead_;
        ahead_.reset();
        fetch();
        return true;
    }

    bool fetch() {
        // What the stop rule already rules out is not even refined; thresholds only rise until its turn.
        const Acc least = Gate<Acc>::of(context_.top(), document_factor_, context_.seed).least;
        Candidate next;
        if (!queue_.next(next, least)) return false;
        ahead_ = next;
        if (params_.documents == DocumentMethod::blocks) blocks_.prefetch(context_.index.first_chunk(next.cluster));
        return true;
    }

    /// Once there is a threshold, it is known how much of the index may be read. From a share on, reading all of it in
    /// order is faster than jumping to the parts. Decisions stay what they are.
    void plan() {
        planned_ = true;
        const Acc least = Gate<Acc>::of(context_.top(), document_factor_, context_.seed).least;
        const std::size_t visits = queue_.count_at_least(least);  // at most
        if (may_sweep() && sweeping_is_faster(visits)) return sweep_rest();
        if (by_max_bound_ && visits * kStreamShare > context_.index.num_clusters()) queue_.refine_all(least);
        if (params_.documents == DocumentMethod::blocks) blocks_.expect(queue_.count_at_least(least));
    }

    /// Only where the answer is exhaustive search's anyway, and nobody asked how it was found.
    bool may_sweep() const {
        return params_.sweep && params_.documents == DocumentMethod::blocks && params_.mu == 1.0 &&
               params_.eta == 1.0 && !params_.is_limited() && !params_.trace;
    }

    /// Nanoseconds by rule of thumb (docs/performance.md). Visiting: per term, bounding the blocks of the clusters that
    /// may be visited and scoring those that pass, whose number grows with the root of k. Sweeping: adding up every
    /// posting and scanning every sum.
    bool sweeping_is_faster(std::size_t visits, double times = 1.0) const {
        const Index& index = context_.index;
        const double root_k = std::sqrt(static_cast<double>(context_.top().capacity()));
        const double blocks = static_cast<double>(visits) / index.num_clusters() * index.num_blocks();
        const double visiting = static_cast<double>(context_.terms().size()) * (0.45 * blocks + 700.0 * root_k);
        double postings = 0;
        for (const auto& term : context_.terms()) postings += term.num_postings;
        return visiting > times * (1.0 * postings + 0.1 * index.num_docs());
    }

    /// Every cluster that was not visited and can still matter. In each window the best bounds come first: they raise
    /// the threshold, so that fewer documents pass through the heap.
    void sweep_rest() {
        swept_ = true;
        context_.stats().swept = 1;
        std::vector<std::pair<Acc, std::uint32_t>> chunks;
        sweep(context_, [&](Position base, std::uint32_t first, std::uint32_t end) {
            chunks.clear();
            for (std::uint32_t chunk = first; chunk < end; ++chunk) {
                const std::uint32_t cluster = context_.index.cluster_of_chunk(chunk);
                if (std::find(visited_.begin(), visited_.end(), cluster) != visited_.end()) continue;
                chunks.emplace_back(context_.scratch.cluster_bounds[context_.index.first_chunk(cluster)], chunk);
            }
            std::sort(chunks.begin(), chunks.end(), std::greater<>());
            for (const auto& [bound, chunk] : chunks) {
                if (bound < context_.top().threshold()) break;
                sweep_chunk(base, chunk);
            }
        });
    }

    void sweep_chunk(Position base, std::uint32_t chunk) {
        const Index& index = context_.index;
        offer_chunk(context_, base, chunk);
        context_.stats().docs_scored += index.chunk_num_docs(chunk);
        context_.stats().blocks_scored += blocks_of(index.chunk_num_docs(chunk));
        context_.stats().clusters_visited += chunk == index.first_chunk(index.cluster_of_chunk(chunk)) ? 1 : 0;
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

    Decision decide_asc(Candidate& candidate) {
        const auto& top = context_.top();
        if (!top.full()) return Decision::visited;
        const std::uint64_t threshold = top.threshold();
        const std::uint64_t order_bound = by_max_bound_ ? candidate.max_bound : candidate.bound_sum;
        // Stop rule: what bounds this cluster bounds all later ones. At η = 1 a bound equal to θ does not stop.
        const std::uint64_t stop_at = scaled_threshold(threshold, params_.eta);
        if (order_bound < stop_at || (params_.eta < 1.0 && order_bound == stop_at)) return Decision::stopped;
        const std::uint64_t sum_limit = scaled_threshold(threshold * context_.index.num_segments(), params_.eta);
        if (!candidate.refined) {
            candidate.segment_sum = params_.lazy ? bounds_.segment_sum(candidate.cluster) : 0;
            if (params_.lazy && candidate.segment_sum > sum_limit) return Decision::visited;
            bounds_.refine(candidate);
        }
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
        const Index& index = context_.index;
        ++context_.stats().clusters_visited;
        if (!planned_) visited_.push_back(cluster);
        for (std::uint32_t chunk = index.first_chunk(cluster); chunk < index.end_chunk(cluster); ++chunk) {
            if (params_.documents == DocumentMethod::blocks) {
                blocks_.visit(chunk);
            } else {
                visit_by_maxscore(chunk);
            }
        }
        if (context_.stats().clusters_visited % 64 == 0) context_.check_stop();
    }

    void visit_by_maxscore(std::uint32_t chunk) {
        for (const auto& term : context_.terms()) {
            if (!term.has(chunk)) continue;
            maxscore_.add(term.run(chunk), term.weight,
                          static_cast<Acc>(term.weight) * term.cluster_max[term.pair(chunk)]);
        }
        maxscore_.run(context_.index.chunk_position(chunk), context_.index.chunk_num_docs(chunk));
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
    BlockVisitor<Code, Acc> blocks_;
    MaxScoreRange<Code, Acc> maxscore_;
    std::optional<Candidate> ahead_;
    bool planned_ = false;
    bool swept_ = false;
    std::vector<std::uint32_t> visited_;  ///< before the plan was made
};

}  // namespace segmax
