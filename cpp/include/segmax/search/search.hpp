// The two entry points of the search code: prepare a query, run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "segmax/index/index.hpp"
#include "segmax/search/params.hpp"
#include "segmax/search/query.hpp"

namespace segmax {

/// The k best documents of a prepared query, best first. Thread-safe: buffers belong to the calling thread.
/// k is at least 1. Terms that the index does not have add nothing. Throws Interrupted once params.stop returns true.
SearchResult search(const Index& index, const PreparedQuery& query, std::size_t k, const SearchParams& params);

/// The same with a floor in the query's integers, which takes the place of params.floor.
SearchResult search(const Index& index, const PreparedQuery& query, std::size_t k, const SearchParams& params,
                    const std::optional<IntegerFloor>& floor);

/// params.floor in the integers of a query.
std::optional<IntegerFloor> integer_floor(const SearchParams& params, double scale);

/// The integer score of every given position.
std::vector<std::uint64_t> score_positions(const Index& index, const PreparedQuery& query,
                                           std::span<const Position> positions);

/// The terms that a query and a document share. The sum of weight * code is the document's integer score.
struct MatchedTerms {
    std::vector<std::uint32_t> terms, weights, codes;
};
MatchedTerms matched_terms(const Index& index, const PreparedQuery& query, Position position);

/// MaxSBound of every cluster: no document in it scores more. The lightest terms beyond this share of the query's mass
/// count with the most that they can add. Of `params`, what bounds are made of counts, and the mask: where it allows no
/// document, the bound is 0.
std::vector<std::uint64_t> max_bounds(const Index& index, const PreparedQuery& query, const SearchParams& params,
                                      double mass);

/// A score that no document of an index passes for a query: the best MaxSBound of its clusters.
std::uint64_t ceiling(const Index& index, const PreparedQuery& query);

/// The bounds of every cluster for a query, whatever a search would read of them.
struct AllBounds {
    std::vector<std::uint64_t> bound_sum, max_bound, segment_sum, best_score;
};
AllBounds cluster_bounds(const Index& index, const PreparedQuery& query);

}  // namespace segmax
