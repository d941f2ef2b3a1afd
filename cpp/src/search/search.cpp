#include "segmax/search/search.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/best_first.hpp"
#include "search/cluster_search.hpp"
#include "search/exhaustive.hpp"
#include "search/maxscore.hpp"

namespace segmax {

namespace {

template <class Code, class Acc>
Scratch<Code, Acc>& thread_scratch(const Index& index) {
    // Per thread, so that searches share nothing and a query allocates next to nothing.
    thread_local Scratch<Code, Acc> scratch;
    if (scratch.last_index != index.serial()) {
        std::fill(scratch.sums.sums.begin(), scratch.sums.sums.end(), Acc{0});
        scratch.last_index = index.serial();
    }
    return scratch;
}

/// A lower bound of the k-th best score: k documents that the mask allows have at least this code for one of the terms.
template <class Code, class Acc>
Acc threshold_estimate(const Context<Code, Acc>& context, std::size_t k) {
    const Index& index = context.index;
    // Whatever a mask leaves out may be among the best codes.
    const std::size_t left_out = context.params.mask ? index.num_docs() - context.params.mask->count() : 0;
    std::size_t rank = 0;
    while (rank < kNumTopRanks && kTopRanks[rank] < k + left_out) ++rank;
    if (rank == kNumTopRanks) return 0;
    const Code* codes = index.codes<Code>(index.arrays().term_top_code);
    Acc best = 0;
    for (const auto& term : context.terms()) {
        best = std::max(best, static_cast<Acc>(term.weight) * codes[std::size_t{term.term} * kNumTopRanks + rank]);
    }
    return best;
}

/// Records what the engine did about every cluster, with its bounds: visited where a block of it was looked at, else
/// pruned by ASC's rule, or left because nothing in it could follow or a limit ended the search. The best bounds first.
template <class Code, class Acc>
void trace_clusters(Context<Code, Acc>& context) {
    const auto& s = context.scratch.best_first;
    const bool by_blocks = context.params.method == Method::asc && context.stats().swept == 0;
    const std::uint64_t segments_read = context.stats().segments_read;
    ClusterBounds<Code, Acc> bounds(context);
    const Acc* sums = bounds.bound_sums();
    auto& trace = context.result.trace;
    for (std::uint32_t cluster = 0; cluster < context.index.num_clusters(); ++cluster) {
        if (sums[cluster] == 0) continue;
        Candidate candidate;
        candidate.cluster = cluster;
        bounds.refine(candidate);
        TraceEntry entry;
        entry.cluster = cluster;
        entry.bound_sum = sums[cluster];
        entry.max_bound = candidate.max_bound;
        entry.segment_sum = candidate.segment_sum;
        entry.threshold = context.top().threshold();
        entry.threshold_row = context.top().threshold_row();
        if (by_blocks && s.visited[cluster] == 0) {
            const bool pruned = !s.kept.empty() && s.kept[cluster] == 0;
            const bool was_chosen = std::binary_search(s.clusters.begin(), s.clusters.end(), cluster);
            const bool limited = context.stats().budget_hit != 0 && !was_chosen;
            entry.decision = pruned ? Decision::pruned : limited ? Decision::limited : Decision::stopped;
        }
        trace.push_back(entry);
    }
    std::stable_sort(trace.begin(), trace.end(), [](auto& a, auto& b) { return a.max_bound > b.max_bound; });
    context.stats().segments_read = segments_read;
}

/// Whether a search may start from a lower bound of the final threshold. The paper's methods under a limit, and any
/// with a limit of clusters, may end below it, when pruning by it would cost results.
bool may_estimate(const SearchParams& params) {
    const bool limited = (params.visits_clusters() && params.budget_ms > 0) || params.max_clusters > 0;
    return params.hooks.estimate_threshold && params.method != Method::exhaustive && !limited;
}

template <class Code, class Acc>
void run_method(Context<Code, Acc>& context, bool is_exact) {
    const SearchParams& params = context.params;
    if (params.method == Method::exhaustive) {
        search_exhaustive(context);
    } else if (params.method == Method::maxscore) {
        search_maxscore(context);
    } else if (params.visits_clusters()) {
        ClusterSearch<Code, Acc>(context).run();
    } else if (context.terms().size() > kMaxBoundedTerms || (!context.floor && sweeping_is_faster(context))) {
        sweep(context);
    } else if (!BestFirst<Code, Acc>(context, params.max_clusters).run()) {
        context.reset_top(is_exact);
        BestFirst<Code, Acc>(context).run();
    }
    if (params.trace && !params.visits_clusters()) trace_clusters(context);
}

template <class Code, class Acc>
void search_as(const Index& index, const PreparedQuery& query, std::size_t k, const SearchParams& params,
               const std::optional<IntegerFloor>& floor, SearchResult& result) {
    auto& scratch = thread_scratch<Code, Acc>(index);
    Context<Code, Acc> context{index, params, kernels<Code, Acc>(simd_level()), scratch, result};
    context.start = context.now();
    context.k = std::min<std::size_t>(k, params.mask ? params.mask->count() : index.num_docs());
    context.floor = floor;
    if (floor && floor->score > query.max_score) return;  // nothing here reaches it
    if (context.k == 0 && !params.trace) return;          // a mask that allows nothing
    // The paper's rules are defined by θ itself. Elsewhere a θ that lags behind only prunes less, and collecting
    // results without a heap pays from some k on.
    constexpr std::size_t kSmallK = 64;
    const bool is_exact = k <= kSmallK || params.visits_clusters() || params.method == Method::maxscore;
    context.reset_top(is_exact);
    scratch.view.open(index, query);
    context.threshold_estimate = may_estimate(params) ? threshold_estimate(context, k) : 0;
    result.threshold_estimate = context.threshold_estimate;
    if (!context.terms().empty()) run_method(context, is_exact);
    result.rows.resize(scratch.top.size());
    result.scores.resize(scratch.top.size());
    scratch.top.drain([&](std::size_t i, Acc score, Row row) {
        result.rows[i] = row;
        result.scores[i] = score;
    });
    result.stats.elapsed_ns = context.now() - context.start;
}

/// Calls `run` with the code and sum types that this index and query need.
template <class Run>
auto with_types(const Index& index, const PreparedQuery& query, Run run) {
    if (index.arrays().code_bytes == 1) {
        return query.needs_64_bits() ? run(std::uint8_t{}, std::uint64_t{}) : run(std::uint8_t{}, std::uint32_t{});
    }
    return query.needs_64_bits() ? run(std::uint16_t{}, std::uint64_t{}) : run(std::uint16_t{}, std::uint32_t{});
}

}  // namespace

// A score that is not a multiple of the scale lies between two of them: results above the lower one are of interest
// then, and no row comes before row 0.
std::optional<IntegerFloor> integer_floor(const SearchParams& params, double scale) {
    if (!params.floor || !(params.floor->score > 0)) return std::nullopt;
    constexpr double kMost = 9007199254740992.0;  // 2^53: integers up to here are doubles
    const double score = params.floor->score;
    double units = std::floor(std::min(score / scale, kMost));
    // The division may have been rounded across a multiple.
    if (units * scale > score) units -= 1;
    if ((units + 1) * scale <= score) units += 1;
    return IntegerFloor{static_cast<std::uint64_t>(units), units * scale == score ? params.floor->row : Row{0}};
}

SearchResult search(const Index& index, const PreparedQuery& query, std::size_t k, const SearchParams& params) {
    return search(index, query, k, params, integer_floor(params, query.scale));
}

SearchResult search(const Index& index, const PreparedQuery& query, std::size_t k, const SearchParams& params,
                    const std::optional<IntegerFloor>& floor) {
    assert(k >= 1 || index.num_docs() == 0);
    assert(!params.mask || params.mask->is_of(index));
    SearchResult result;
    result.stats.dropped_terms = num_dropped(query, params);
    result.stats.unknown_terms = query.unknown_terms;
    for (const QueryTerm& t : query.terms) result.kept_terms.push_back(t.term);
    with_types(index, query, [&](auto code, auto acc) {
        search_as<decltype(code), decltype(acc)>(index, query, k, params, floor, result);
    });
    return result;
}

std::vector<std::uint64_t> score_positions(const Index& index, const PreparedQuery& query,
                                           std::span<const Position> positions) {
    assert(std::all_of(positions.begin(), positions.end(), [&](Position p) { return p < index.num_positions(); }));
    std::vector<std::uint64_t> scores(positions.size(), 0);
    with_types(index, query, [&](auto code, auto) {
        using Code = decltype(code);
        QueryView<Code> view;
        view.open(index, query);
        for (std::size_t i = 0; i < positions.size(); ++i) {
            for (const auto& term : view.terms()) {
                scores[i] += std::uint64_t{term.weight} * term.code_at(positions[i]);
            }
        }
    });
    return scores;
}

MatchedTerms matched_terms(const Index& index, const PreparedQuery& query, Position position) {
    assert(position < index.num_positions());
    MatchedTerms matched;
    with_types(index, query, [&](auto code, auto) {
        QueryView<decltype(code)> view;
        view.open(index, query);
        for (const auto& term : view.terms()) {
            const std::uint32_t found = term.code_at(position);
            if (found == 0) continue;
            matched.terms.push_back(term.term);
            matched.weights.push_back(term.weight);
            matched.codes.push_back(found);
        }
    });
    return matched;
}

std::vector<std::uint64_t> max_bounds(const Index& index, const PreparedQuery& query, const SearchParams& params,
                                      double mass) {
    const std::uint64_t limit = most_of(index, query);
    std::vector<std::uint64_t> bounds(index.num_clusters(), limit);
    if (limit == 0 || query.terms.size() > kMaxBoundedTerms) return bounds;
    with_types(index, query, [&](auto code, auto acc) {
        using Code = decltype(code);
        using Acc = decltype(acc);
        SearchResult result;
        auto& scratch = thread_scratch<Code, Acc>(index);
        Context<Code, Acc> context{index, params, kernels<Code, Acc>(simd_level()), scratch, result};
        scratch.view.open(index, query);
        const BoundTerms<Code, Acc> terms(context);
        ClusterGate<Code, Acc> gate(context, terms);
        gate.bound_all(mass);
        for (std::uint32_t cluster = 0; cluster < index.num_clusters(); ++cluster) {
            bounds[cluster] = std::min(bounds[cluster], terms.score_of(gate.max_bound(cluster)));
        }
    });
    return bounds;
}

std::uint64_t ceiling(const Index& index, const PreparedQuery& query) {
    const std::vector<std::uint64_t> bounds = max_bounds(index, query, SearchParams(), 1.0);
    return bounds.empty() ? 0 : *std::max_element(bounds.begin(), bounds.end());
}

AllBounds cluster_bounds(const Index& index, const PreparedQuery& query) {
    AllBounds all;
    const std::size_t clusters = index.num_clusters();
    all.bound_sum.assign(clusters, 0);
    all.max_bound.assign(clusters, 0);
    all.segment_sum.assign(clusters, 0);
    all.best_score.assign(clusters, 0);
    if (query.terms.empty()) return all;
    with_types(index, query, [&](auto code, auto acc) {
        using Code = decltype(code);
        using Acc = decltype(acc);
        SearchParams params;
        SearchResult result;
        auto& scratch = thread_scratch<Code, Acc>(index);
        Context<Code, Acc> context{index, params, kernels<Code, Acc>(simd_level()), scratch, result};
        scratch.view.open(index, query);
        ClusterBounds<Code, Acc> bounds(context);
        const Acc* sums = bounds.bound_sums();
        for (std::uint32_t cluster = 0; cluster < clusters; ++cluster) {
            Candidate candidate;
            candidate.cluster = cluster;
            bounds.refine(candidate);
            all.bound_sum[cluster] = sums[cluster];
            all.max_bound[cluster] = candidate.max_bound;
            all.segment_sum[cluster] = candidate.segment_sum;
        }
        each_window(context, [&](Position base, std::uint32_t size, const Acc* scores) {
            for (std::uint32_t i = 0; i < size; ++i) {
                std::uint64_t& best = all.best_score[index.cluster_of(base + i)];
                best = std::max<std::uint64_t>(best, scores[i]);
            }
        });
    });
    return all;
}

}  // namespace segmax
