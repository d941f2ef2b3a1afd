#include "segmax/search/search.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>
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
    thread_local Scratch<Code, Acc> scratch;
    if (scratch.last_index != index.serial()) {
        std::fill(scratch.sums.sums.begin(), scratch.sums.sums.end(), Acc{0});
        scratch.last_index = index.serial();
    }
    return scratch;
}

/// A lower bound of the k-th best score: k documents have at least this code for one of the terms.
template <class Code, class Acc>
Acc threshold_estimate(const Index& index, const PreparedQuery& query, std::size_t k) {
    std::size_t rank = 0;
    while (rank < kNumTopRanks && kTopRanks[rank] < k) ++rank;
    if (rank == kNumTopRanks) return 0;
    const Code* codes = index.codes<Code>(index.arrays().term_top_code);
    Acc best = 0;
    for (const QueryTerm& t : query.terms) {
        best = std::max(best, static_cast<Acc>(t.weight) * codes[std::size_t{t.term} * kNumTopRanks + rank]);
    }
    return best;
}

/// Whether clusters are visited one by one. An exact search that nobody watches takes the fastest way.
bool visits_clusters(const SearchParams& params) {
    if (params.method != Method::anytime && params.method != Method::asc) return false;
    return !params.is_exact() || params.trace || params.hooks.documents != DocumentMethod::blocks;
}

template <class Code, class Acc>
void search_as(const Index& index, const PreparedQuery& query, std::size_t k, const SearchParams& params,
               SearchResult& result) {
    auto& scratch = thread_scratch<Code, Acc>(index);
    Context<Code, Acc> context{index, params, kernels<Code, Acc>(simd_level()), scratch, result};
    const std::uint64_t start = context.now();
    const bool by_clusters = visits_clusters(params);
    // Decisions about clusters are defined by θ itself; the others may use one that lags behind.
    constexpr std::size_t kSmallK = 64;
    scratch.top.reset(std::min<std::size_t>(k, index.num_docs()),
                      k <= kSmallK || by_clusters || params.method == Method::maxscore);
    scratch.view.open(index, query);
    const bool estimated =
        params.hooks.estimate_threshold && !params.is_limited() && params.method != Method::exhaustive;
    context.threshold_estimate = estimated ? threshold_estimate<Code, Acc>(index, query, k) : 0;
    result.threshold_estimate = context.threshold_estimate;
    result.stats.unknown_terms = query.unknown_terms;
    if (!query.terms.empty()) {
        if (params.method == Method::exhaustive) {
            search_exhaustive(context);
        } else if (params.method == Method::maxscore) {
            search_maxscore(context);
        } else if (by_clusters) {
            ClusterSearch<Code, Acc>(context, start).run();
        } else if (query.terms.size() > kMaxBoundedTerms || sweeping_is_faster(context)) {
            sweep(context);
        } else {
            BestFirst<Code, Acc>(context, params.eta).run();
        }
    }
    result.rows.resize(scratch.top.size());
    result.scores.resize(scratch.top.size());
    scratch.top.drain([&](std::size_t i, Acc score, Row row) {
        result.rows[i] = row;
        result.scores[i] = score;
    });
    result.stats.elapsed_ns = context.now() - start;
}

/// Calls `run` with the code and sum types that this index and query need.
template <class Run>
auto with_types(const Index& index, const PreparedQuery& query, Run run) {
    if (index.arrays().code_bytes == 1) {
        return query.needs_64_bits() ? run(std::uint8_t{}, std::uint64_t{}) : run(std::uint8_t{}, std::uint32_t{});
    }
    return query.needs_64_bits() ? run(std::uint16_t{}, std::uint64_t{}) : run(std::uint16_t{}, std::uint32_t{});
}

/// The query with its heaviest terms alone: those that can add most to a score.
PreparedQuery heaviest_terms(const Index& index, const PreparedQuery& query, std::size_t count) {
    const auto most = [&](const QueryTerm& t) { return std::uint64_t{t.weight} * index.largest_code(t.term); };
    PreparedQuery kept = query;
    std::stable_sort(kept.terms.begin(), kept.terms.end(),
                     [&](const QueryTerm& a, const QueryTerm& b) { return most(a) > most(b); });
    kept.terms.resize(count);
    std::sort(kept.terms.begin(), kept.terms.end(), [](auto& a, auto& b) { return a.term < b.term; });
    return kept;
}

}  // namespace

SearchResult search(const Index& index, const PreparedQuery& given, std::size_t k, const SearchParams& params) {
    assert(k >= 1);
    SearchResult result;
    const bool shorten = params.max_terms > 0 && given.terms.size() > params.max_terms;
    PreparedQuery shorter;
    if (shorten && !params.bound_dropped) shorter = heaviest_terms(index, given, params.max_terms);
    const PreparedQuery& query = shorten && !params.bound_dropped ? shorter : given;
    result.stats.dropped_terms = given.dropped_terms + (shorten ? given.terms.size() - params.max_terms : 0);
    with_types(index, query,
               [&](auto code, auto acc) { search_as<decltype(code), decltype(acc)>(index, query, k, params, result); });
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
        for (std::size_t i = 0; i < query.terms.size(); ++i) {
            const std::uint32_t found = view.terms()[i].code_at(position);
            if (found == 0) continue;
            matched.terms.push_back(query.terms[i].term);
            matched.weights.push_back(query.terms[i].weight);
            matched.codes.push_back(found);
        }
    });
    return matched;
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
        bounds.compute_all();
        for (std::uint32_t cluster = 0; cluster < clusters; ++cluster) {
            Candidate candidate;
            candidate.cluster = cluster;
            bounds.refine_from_all(candidate);
            all.bound_sum[cluster] = sums[cluster];
            all.max_bound[cluster] = candidate.max_bound;
            all.segment_sum[cluster] = candidate.segment_sum;
        }
    });
    for (std::uint32_t cluster = 0; cluster < clusters; ++cluster) {
        std::vector<Position> positions(index.cluster_num_docs(cluster));
        std::iota(positions.begin(), positions.end(), index.first_position(cluster));
        const auto scores = score_positions(index, query, positions);
        all.best_score[cluster] = *std::max_element(scores.begin(), scores.end());
    }
    return all;
}

}  // namespace segmax
