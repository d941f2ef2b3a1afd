// The engine: the blocks of the collection by bound, the best first, until none can follow.
//
// Small collections are bounded whole, in one pass over memory. In large ones all quads are bounded first; the blocks
// of the best make a threshold, and only tiles with a quad that may pass it are bounded block by block. Where many
// blocks are left, whole spans are scored, or the whole collection.
//
// With a limit of clusters, those with the best MaxSBound are chosen in one step, before anything in them is read, and
// the blocks of no other ones are bounded. Then ASC's rule leaves out what it may of them. μ alone changes nothing: by
// the time that θ is known well enough for the rule, the bounds that it would save have been made.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "search/block_scorer.hpp"
#include "search/cluster_gate.hpp"
#include "search/costs.hpp"
#include "search/exhaustive.hpp"
#include "search/quad_bounds.hpp"
#include "search/span_scorer.hpp"

namespace segmax {

/// Whether a search may be answered exhaustively, and adding up every posting and looking at every sum will be faster
/// than looking at so many blocks, and fits a budget.
template <class Code, class Acc>
bool sweeping_is_faster(Context<Code, Acc>& context, double blocks) {
    const SearchParams& params = context.params;
    if (!params.hooks.sweep || params.max_blocks != 0) return false;
    const double cost = sweep_cost(context);
    if (blocks_cost(context, blocks) <= cost) return false;
    return cost < context.time_left();
}

/// The same before anything is known but k.
template <class Code, class Acc>
bool sweeping_is_faster(Context<Code, Acc>& context) {
    return sweeping_is_faster(context, expected_blocks(context));
}

/// Whether a mask allows so few documents that looking at all of them, without bounds, will be faster. Limits are for
/// the best blocks, and a trace tells of bounds.
template <class Code, class Acc>
bool listing_is_faster(const Context<Code, Acc>& context) {
    const SearchParams& params = context.params;
    if (!params.mask || !params.hooks.list_masked || params.trace) return false;
    if (params.max_blocks != 0 || params.budget_ms != 0) return false;
    return masked_cost(context, params.mask->num_used_blocks()) <
           bounds_cost(context) + masked_cost(context, expected_blocks(context));
}

/// Finishes a search exhaustively, θ so far being a lower bound of the final one.
template <class Code, class Acc>
void sweep(Context<Code, Acc>& context) {
    context.stats().swept = 1;
    context.threshold_estimate = std::max(context.threshold_estimate, context.top().threshold());
    context.reset_top(false);
    search_exhaustive(context);
}

template <class Code, class Acc>
class BestFirst {
public:
    /// `max_clusters` is how many clusters are visited at most, 0 where that is no limit.
    explicit BestFirst(Context<Code, Acc>& context, std::uint32_t max_clusters = 0)
        : context_(context),
          way_(way_of(context, max_clusters)),
          max_clusters_(max_clusters == 0 ? context.index.num_clusters() : max_clusters),
          s_(context.scratch.best_first),
          terms_(context, way_ == Way::lighter ? left_for_bounds(context) : kUnlimited,
                 way_ == Way::clusters && !is_limit(context, max_clusters) ? kBudgetMass : 1.0),
          tails_(context),
          blocks_(context, terms_, tails_),
          scorer_(context, terms_, tails_, blocks_, context.params.eta, 1.0),
          spans_(context, terms_, tails_, blocks_) {
        s_.looked_at.clear();
        s_.kept.clear();
        s_.clusters.clear();
    }

    /// False where fewer results were found in the clusters that are visited than there may be elsewhere.
    bool run() {
        const std::size_t k = context_.top().capacity();
        if (listing_is_faster(context_)) {
            score(blocks_.list(*context_.params.mask));
            context_.check_stop();
            count_clusters();
            return true;
        }
        if (way_ == Way::clusters) return run_best_clusters(k);
        if (context_.index.num_tiles() <= context_.params.hooks.all_tiles) {
            blocks_.bound_all();
            score_first(kFirstBlocks + k);
        } else {
            bound_by_quads(k);
        }
        context_.check_stop();
        if (is_late()) {
            stopped_ = true;
        } else if (!finish()) {
            return true;
        }
        // A limit that was reached is none where no block is left that may follow.
        limited_ = terms_.is_cut() || ((stopped_ || blocks_left() == 0) && blocks_.any(scorer_.least()));
        context_.check_stop();
        count_clusters();
        watch();
        return true;
    }

private:
    static constexpr std::size_t kFirstBlocks = 32;
    static constexpr std::size_t kFewBlocks = 16;
    static constexpr std::size_t kFirstShare = 8;  ///< of the blocks with an allowed document, no more than this
    static constexpr std::size_t kFirstQuads = 16;
    /// From so many blocks on, spans with at least so many of them are scored as a whole: in large collections, whose
    /// runs are longer, with more.
    static constexpr std::size_t kManyBlocks = 1024;
    static constexpr std::size_t kSpanShare = 4;
    static constexpr std::size_t kLargeSpanShare = 8;
    static constexpr std::size_t kLargeTiles = 4096;

    static constexpr double kUnlimited = std::numeric_limits<double>::infinity();
    static constexpr std::uint32_t kFewClusters = 8;
    static constexpr double kScoringTerm = 2700;  ///< of a budget, what is left for the blocks of ten results, by term,
    static constexpr double kScoringPower = .56;  ///< and more for more results
    static constexpr double kBudgetMass = .9;     ///< of the query's mass, what bounds of the best clusters are made of

    /// How bounds are made: of all blocks, of those of the best clusters, or of the heaviest terms alone, where a
    /// budget leaves no time for choosing clusters.
    enum class Way { all, clusters, lighter };

    static bool is_limit(const Context<Code, Acc>& context, std::uint32_t max_clusters) {
        return max_clusters > 0 && max_clusters < context.index.num_clusters();
    }

    static Way way_of(const Context<Code, Acc>& context, std::uint32_t max_clusters) {
        if (is_limit(context, max_clusters)) return Way::clusters;
        if (context.params.budget_ms == 0) return Way::all;
        const double left = left_for_bounds(context);
        // In small collections bounds of fewer terms find more.
        if (context.index.num_tiles() <= context.params.hooks.all_tiles) {
            return bounds_cost(context) <= left ? Way::all : Way::lighter;
        }
        if (bounds_cost(context) + scoring_cost(context) <= left) return Way::all;
        const double least =
            gate_cost(context) + clusters_cost(static_cast<double>(context.terms().size()), kFewClusters);
        return least <= left ? Way::clusters : Way::lighter;
    }

    /// What is left of a budget for the blocks of the best clusters, once these are bounded.
    static double scoring_cost(const Context<Code, Acc>& context) {
        const double results = static_cast<double>(context.top().capacity()) / 10;
        return kScoringTerm * static_cast<double>(context.terms().size()) *
               std::pow(std::max(results, 1.0), kScoringPower);
    }

    /// What bounds may cost, so that a budget is left for the first blocks.
    static double left_for_bounds(const Context<Code, Acc>& context) {
        return context.params.budget_ms * 1e6 - Costs::kStart -
               Costs::kTerm * static_cast<double>(context.terms().size()) -
               Costs::kColdBlock * static_cast<double>(kFewBlocks) * block_cost(context);
    }

    /// How many clusters to visit: with a budget as many as will fit, once their blocks are looked at.
    std::size_t clusters_that_fit() const {
        if (context_.params.budget_ms == 0) return max_clusters_;
        const double left = context_.time_left() - scoring_cost(context_);
        const double count = clusters_within(static_cast<double>(terms_.num_bounded()), left);
        const double fit = std::min<double>(std::max<double>(count, kFewClusters), max_clusters_);
        return static_cast<std::size_t>(fit);
    }

    /// Of the first blocks, how many to look at: with a budget no more than will fit, but one batch at least.
    std::size_t first_that_fit() const {
        if (context_.params.budget_ms == 0) return std::numeric_limits<std::size_t>::max();
        const double count = context_.time_left() / (Costs::kColdBlock * block_cost(context_));
        return std::max(kFewBlocks, static_cast<std::size_t>(std::max(0.0, count)));
    }

    bool is_late() const { return context_.time_left() <= 0; }

    /// Scores what is left; false where everything was swept instead.
    bool finish() {
        // With a threshold near the final one, it is known how many blocks are left: ask again whether to sweep.
        const auto rest = blocks_.collect(scorer_.least());
        if (sweeping_is_faster(context_, static_cast<double>(rest.size()))) {
            sweep(context_);
            return false;
        }
        score(what_fits(rest));
        return true;
    }

    /// Of blocks that ascend, the best that will fit a budget: ranking all of them may take longer than it.
    std::span<std::uint32_t> what_fits(std::span<std::uint32_t> blocks) {
        if (context_.params.budget_ms == 0) return blocks;
        const auto count = static_cast<std::size_t>(std::max(0.0, context_.time_left()) / block_cost(context_));
        if (blocks.size() <= 2 * count) return blocks;
        stopped_ = true;
        return best_blocks(blocks, count);
    }

    std::span<std::uint32_t> best_blocks(std::span<std::uint32_t> blocks, std::size_t count) const {
        return best_of(blocks, count, [&](std::uint32_t block) { return blocks_.bound(block); });
    }

    std::size_t blocks_left() const {
        const std::size_t most = context_.params.max_blocks;
        return most == 0 ? std::numeric_limits<std::size_t>::max() : most - std::min(most, s_.looked_at.size());
    }

    /// Scores some blocks, which ascend: where they are many, spans with several of them as a whole.
    void score(std::span<std::uint32_t> blocks) {
        const bool by_spans = context_.params.hooks.sweep && context_.params.max_blocks == 0 &&
                              context_.params.budget_ms == 0 && blocks.size() >= kManyBlocks;
        if (by_spans) blocks = score_spans(blocks);
        const auto looked_at = scorer_.score(blocks, blocks_left(), [this] { return is_late(); });
        stopped_ = stopped_ || looked_at.stopped;
        // Never again: what was scored, or failed then, would fail later as well.
        for (std::size_t i = 0; i < looked_at.count; ++i) {
            s_.looked_at.push_back(blocks[i]);
            blocks_.set_bound(blocks[i], 0);
        }
    }

    /// Scores the spans that hold several of these blocks, and returns the blocks that are left.
    std::span<std::uint32_t> score_spans(std::span<std::uint32_t> blocks) {
        s_.spans.clear();
        const std::size_t share = context_.index.num_tiles() >= kLargeTiles ? kLargeSpanShare : kSpanShare;
        std::size_t left = 0;
        for (std::size_t at = 0; at < blocks.size();) {
            const std::uint32_t span = blocks[at] / kSpanBlocks;
            std::size_t end = at;
            while (end < blocks.size() && blocks[end] / kSpanBlocks == span) ++end;
            if (end - at >= share) {
                s_.spans.push_back(span);
                at = end;
            }
            for (; at < end; ++at) blocks[left++] = blocks[at];
        }
        spans_.score(s_.spans);
        for (const std::uint32_t span : s_.spans) {
            const std::uint32_t end = std::min((span + 1) * kSpanBlocks, context_.index.num_blocks());
            for (std::uint32_t block = span * kSpanBlocks; block < end; ++block) {
                s_.looked_at.push_back(block);
                blocks_.set_bound(block, 0);
            }
        }
        return blocks.first(left);
    }

    /// The blocks around the best quads make a threshold; then only tiles with a quad that may pass it are bounded.
    void bound_by_quads(std::size_t k) {
        QuadBounds<Code, Acc> quads(context_, terms_, blocks_);
        quads.bound_all();
        blocks_.bound_tiles(quads.best(kFirstQuads + k / 4, scorer_.least()));
        score_first(kFirstBlocks + k);
        blocks_.bound_tiles(quads.collect(scorer_.least()));
    }

    /// Bounds the blocks of the clusters with the best MaxSBound, and of no other ones.
    bool run_best_clusters(std::size_t k) {
        ClusterGate<Code, Acc> gate(context_, terms_);
        gate.bound_all(gate_mass(context_.params));
        const std::uint32_t num_clusters = context_.index.num_clusters();
        context_.stats().segments_read = num_clusters;
        const std::size_t count = clusters_that_fit();
        gate.best(count, s_.clusters);
        // Results may end below an estimate of θ.
        context_.threshold_estimate = 0;
        context_.result.threshold_estimate = 0;
        blocks_.bound_clusters(s_.clusters);
        score_first(kFirstBlocks + k);
        context_.check_stop();
        s_.kept.assign(num_clusters, 1);
        if (context_.top().full()) leave_out_by_rule(gate);
        if (is_late()) {
            stopped_ = true;
        } else {
            score(what_fits(blocks_.collect(scorer_.least())));
        }
        context_.check_stop();
        gate.remove(s_.clusters);
        const std::uint64_t least = scorer_.least();
        const bool left_out = gate.largest() >= least;
        const bool may_lack = context_.params.may_lack || count < max_clusters_ || stopped_;
        if (left_out && !may_lack && !context_.top().full()) return false;
        limited_ = terms_.is_cut() || left_out || ((stopped_ || blocks_left() == 0) && blocks_.any(least));
        count_clusters();
        return true;
    }

    /// Leaves out the chosen clusters that ASC's two-parameter rule prunes.
    void leave_out_by_rule(const ClusterGate<Code, Acc>& gate) {
        if (context_.params.mu == 1.0) return;
        for (const std::uint32_t cluster : s_.clusters) {
            if (gate.keeps(cluster, context_.top().threshold())) continue;
            s_.kept[cluster] = 0;
            blocks_.leave_out(cluster);
        }
    }

    /// The best blocks by bound raise the threshold to about where it will end: more of them where a mask allows some
    /// of their documents only.
    void score_first(std::size_t count) {
        if (context_.params.mask) {
            const Mask& mask = *context_.params.mask;
            const std::size_t wanted = count * kBlockDocs * mask.num_used_blocks() / std::max(mask.count(), 1U);
            count = std::max(count, std::min<std::size_t>(wanted, mask.num_used_blocks() / kFirstShare));
        }
        const std::uint64_t least = scorer_.least();
        // Bounds are seldom reached: the best documents are among the blocks down to some share of the largest bound.
        // Those of few terms hardly differ, and then the largest alone are many.
        const std::uint64_t share = way_ == Way::lighter ? 15 : 11;
        const std::uint64_t limit = limit_of_best(std::max(std::uint64_t{blocks_.largest()} * share / 16, least), least,
                                                  count, [&](std::uint64_t at) { return blocks_.count(at); });
        const auto bound = [&](std::uint32_t block) { return blocks_.bound(block); };
        score(best_of(about_best_of(blocks_.collect(limit), count, bound), first_that_fit(), bound));
    }

    /// Records the fate of a watched document whose block was never looked at, unless a limit is the reason.
    void watch() {
        const Position position = context_.params.watch;
        if (position >= context_.index.num_positions() || limited_) return;
        const std::uint32_t quad = position / kBlockDocs / kQuadBlocks;
        blocks_.bound_tiles(std::span(&quad, 1));
        scorer_.watch_skipped(position / kBlockDocs, position / kBlockDocs + 1);
    }

    /// A cluster is visited where one of its blocks is looked at, and pruned where the gate left it out.
    void count_clusters() {
        const Index& index = context_.index;
        s_.visited.assign(index.num_clusters(), 0);
        SearchStats& stats = context_.stats();
        for (const std::uint32_t block : s_.looked_at) {
            std::uint8_t& visited = s_.visited[index.cluster_of(block * kBlockDocs)];
            stats.clusters_visited += visited == 0 ? 1 : 0;
            visited = 1;
        }
        for (std::size_t cluster = 0; cluster < s_.kept.size(); ++cluster) {
            stats.clusters_pruned += s_.kept[cluster] == 0 && s_.visited[cluster] == 0 ? 1 : 0;
        }
        stats.budget_hit = limited_ ? 1 : 0;
        const std::uint64_t others = index.num_clusters() - stats.clusters_visited - stats.clusters_pruned;
        // Those that were not chosen, or all.
        if (limited_) {
            const std::uint64_t limited = index.num_clusters() - s_.clusters.size();
            stats.clusters_limited = std::min(others, limited);
        }
        stats.clusters_stopped = others - stats.clusters_limited;
    }

    Context<Code, Acc>& context_;
    Way way_;
    std::uint32_t max_clusters_;
    BestFirstBuffers& s_;
    BoundTerms<Code, Acc> terms_;
    TailPlaces<Code, Acc> tails_;
    BlockBounds<Code, Acc> blocks_;
    BlockScorer<Code, Acc> scorer_;
    SpanScorer<Code, Acc> spans_;
    bool stopped_ = false;  // by the budget
    bool limited_ = false;  // a limit left out what might have been among the results
};

}  // namespace segmax
