// Every way to ask for a search, and what the tests of searches share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "make_index.hpp"
#include "search/best_first.hpp"
#include "segmax/search/search.hpp"

namespace segmax::test {

inline SearchParams variant(Method method, bool estimate) {
    SearchParams params;
    params.method = method;
    params.hooks.estimate_threshold = estimate;
    params.hooks.sweep = false;
    return params;
}

/// The engine over all blocks and by quads, with all terms in the bounds and with two, with a budget that is never
/// reached, with a trace, and with leave to sweep.
inline void add_engine(std::vector<SearchParams>& variants) {
    for (const std::uint32_t all_tiles : {0U, 2048U}) {
        const auto add = [&](bool estimate) -> SearchParams& {
            variants.push_back(variant(Method::asc, estimate));
            variants.back().hooks.all_tiles = all_tiles;
            return variants.back();
        };
        for (const bool estimate : {false, true}) {
            add(estimate);
            SearchParams& two_terms = add(estimate);
            two_terms.max_terms = 2;
            two_terms.bound_dropped = true;
        }
        add(true).budget_ms = 1e9;
        add(false).trace = true;
        add(true).hooks.sweep = true;
    }
}

/// Clusters one by one, also with a limit that is never reached.
inline void add_cluster_searches(std::vector<SearchParams>& variants) {
    for (const Method method : {Method::anytime, Method::sequential}) {
        for (const DocumentMethod documents : {DocumentMethod::blocks, DocumentMethod::maxscore}) {
            for (const ClusterOrder order : {ClusterOrder::max_bound, ClusterOrder::bound_sum}) {
                for (int flags = 0; flags < 8; ++flags) {
                    SearchParams params = variant(method, (flags & 1) != 0);
                    params.hooks.documents = documents;
                    params.hooks.cluster_order = order;
                    params.hooks.lazy = (flags & 2) != 0;
                    params.trace = (flags & 4) != 0;
                    params.max_clusters = params.trace ? 0 : 1U << 31;
                    params.max_terms = params.trace && params.hooks.estimate_threshold ? 3 : 0;
                    params.bound_dropped = params.max_terms != 0;
                    const bool plain = order == ClusterOrder::max_bound && params.hooks.lazy;
                    if (method == Method::sequential || plain) variants.push_back(params);
                }
            }
        }
    }
}

/// Every combination of parameters that must answer like exhaustive search.
inline std::vector<SearchParams> safe_variants() {
    std::vector<SearchParams> variants{variant(Method::exhaustive, false), variant(Method::maxscore, false),
                                       variant(Method::maxscore, true)};
    add_engine(variants);
    add_cluster_searches(variants);
    return variants;
}

inline SearchParams with_method(Method method) {
    SearchParams params;
    params.method = method;
    return params;
}

inline std::string describe(const SearchParams& p) {
    std::ostringstream out;
    out << "method " << show(p.method) << ", documents " << show(p.hooks.documents) << ", order "
        << show(p.hooks.cluster_order) << ", lazy " << p.hooks.lazy << ", estimate " << p.hooks.estimate_threshold
        << ", trace " << p.trace << ", mu " << p.mu << ", eta " << p.eta << ", all tiles " << p.hooks.all_tiles
        << ", max terms " << p.max_terms << ", sweep " << p.hooks.sweep << ", budget " << p.budget_ms << ", masked "
        << (p.mask != nullptr);
    if (p.floor) out << ", floor " << p.floor->score << " row " << p.floor->row;
    return out.str();
}

inline SearchResult check_result(const Index& index, const PreparedQuery& query, const Ranking& ranking, std::size_t k,
                                 const SearchParams& params) {
    NOTE("k " << k << ", terms " << query.terms.size() << ", " << describe(params));
    SearchResult result = search(index, query, k, params);
    const Ranking expected = ranking.first(k);
    CHECK_EQ(result.rows, expected.rows);
    CHECK_EQ(result.scores, expected.scores);
    CHECK_EQ(result.stats.budget_hit, 0U);
    return result;
}

/// Indices of every kind: few codes (ties), all codes, one cluster, a cluster per document, many terms per
/// document, large clusters, several tiles with terms of both kinds.
template <class Code>
std::vector<Shape> shapes() {
    constexpr std::uint32_t max = std::numeric_limits<Code>::max();
    return {
        {.docs = 400, .clusters = 20, .largest_code = 2, .seed = 1},
        {.docs = 500, .terms = 200, .clusters = 90, .segments = 3, .terms_per_doc = 6, .largest_code = max, .seed = 2},
        {.docs = 150, .terms = 30, .clusters = 1, .segments = 1, .largest_code = 9, .seed = 3},
        {.docs = 150, .terms = 30, .clusters = 5000, .segments = 17, .largest_code = max, .seed = 4},
        {.docs = 200, .terms = 500, .clusters = 8, .terms_per_doc = 300, .largest_code = max, .seed = 5},
        {.docs = 700, .terms = 40, .clusters = 2, .terms_per_doc = 10, .largest_code = max, .seed = 6},
        {.docs = 2500, .terms = 90, .clusters = 40, .largest_code = max, .head_ratio = 1, .seed = 7},
    };
}

/// Clusters with terms of their own, in so many tiles that the gate can leave some of them out.
template <class Code>
Collection<Code> gated_collection() {
    Random random(91);
    Collection<Code> made;
    constexpr std::uint32_t kClusters = 100;
    made.num_terms = 20 + kClusters;
    made.num_segments = 6;
    made.head_ratio = 2;
    for (std::uint32_t d = 0; d < 30'000; ++d) {
        const auto cluster = static_cast<std::uint32_t>(draw(random, 0, kClusters - 1));
        const auto code = [&] { return static_cast<Code>(draw(random, 1, draw(random, 1, 250))); };
        std::set<std::uint32_t> terms;
        for (int i = 0; i < 3; ++i) terms.insert(static_cast<std::uint32_t>(draw(random, 0, 19)));
        // Neighbors share terms.
        for (int i = 0; i < 3; ++i)
            terms.insert(20 + (cluster + static_cast<std::uint32_t>(draw(random, 0, 9))) % kClusters);
        for (const std::uint32_t term : terms) made.add_entry(term, code());
        made.end_document(cluster, static_cast<std::uint32_t>(draw(random, 0, 5)));
    }
    return made;
}

/// Pairs of factors with mu <= eta <= 1, as the paper has them,
inline constexpr std::pair<double, double> kFactors[] = {{1.0, 1.0}, {0.9, 1.0}, {0.7, 0.9}, {0.4, 0.6}, {0.5, 0.5}};
/// and the others, which only the engine takes.
inline constexpr std::pair<double, double> kEngineFactors[] = {{1.0, 0.8}, {0.9, 0.6}, {0.6, 0.4}};

/// What a result is multiplied by at most where factors leave something out.
inline double loss_factor(const SearchParams& params) {
    switch (params.method) {
        case Method::exhaustive:
        case Method::maxscore:
            return 1.0;
        case Method::anytime:
            return params.mu;
        default:
            return std::min(params.mu, params.eta);
    }
}

/// A query opened over an index, with all that code below `search` wants.
template <class Code, class Acc>
struct Opened {
    Opened(const Index& index, const PreparedQuery& query, const SearchParams& params, std::size_t k)
        : context{index, params, kernels<Code, Acc>(simd_level()), scratch, result} {
        scratch.view.open(index, query);
        scratch.view.index_clusters();
        context.k = k;
        scratch.top.reset(k);
    }
    Scratch<Code, Acc> scratch;
    SearchResult result;
    Context<Code, Acc> context;
};

/// Calls visit with opened queries, short and long, of small and large weights, in sums of both widths.
template <class Code, class Visit>
void each_opened(const Indexed<Code>& made, const SearchParams& params, std::size_t k, Visit visit) {
    Random random(49);
    for (const std::size_t terms : std::initializer_list<std::size_t>{1, 3, 12, 60}) {
        for (const std::uint32_t largest_weight : {1U, 50U, kMaxQueryWeight}) {
            NOTE("code bytes " << sizeof(Code) << ", terms " << terms << ", weights to " << largest_weight);
            const PreparedQuery query = random_query(made.index, random, terms, largest_weight);
            if (!query.needs_64_bits()) {
                Opened<Code, std::uint32_t> opened(made.index, query, params, k);
                visit(opened, query);
            }
            Opened<Code, std::uint64_t> opened(made.index, query, params, k);
            visit(opened, query);
        }
    }
}

}  // namespace segmax::test
