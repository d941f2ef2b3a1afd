// A query made ready for the indexes of a lattice: known terms with integer weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "segmax/index/index.hpp"
#include "segmax/search/lattice.hpp"
#include "segmax/search/params.hpp"

namespace segmax {

struct QueryTerm {
    std::uint32_t term = 0;
    std::uint32_t weight = 0;
};

/// Scores and bounds are sums of weight * code over the same integers, so a bound is never below a score.
struct PreparedQuery {
    std::vector<QueryTerm> terms;     ///< ascending term numbers, weights in [1, kMaxQueryWeight]
    double scale = 1.0;               ///< integer score times scale is the score the user sees
    std::uint64_t max_score = 0;      ///< sum of weight * largest code: no score or bound is larger
    std::uint32_t unknown_terms = 0;  ///< distinct positive terms that the lattice does not know
    std::uint32_t dropped_terms = 0;  ///< lighter than what query_mass and max_terms keep

    /// Whether sums may pass 31 bits, so that 64-bit kernels are needed.
    bool needs_64_bits() const { return max_score > 0x7FFFFFFFU; }
};

/// Sums repeated terms, drops zeros, folds in the scale of each term, and turns weights into integers: whole
/// numbers up to kMaxQueryWeight stay as they are (where all scales are 1), others are scaled to 15 bits, or with
/// 8-bit codes down to 12 where that keeps the sums in 32 bits. A positive weight never becomes 0.
/// Of a query's terms, only the fewest heaviest stay that hold the share params.query_mass of what all can add to a
/// score at most, and of these the heaviest params.max_terms, unless bounds are to count the others (bound_dropped).
/// Throws std::invalid_argument for a negative term number or a weight that is negative, NaN or infinite.
PreparedQuery prepare_query(const Lattice& lattice, std::span<const std::int64_t> terms,
                            std::span<const double> weights, const SearchParams& params = SearchParams());

/// The terms that a search with these parameters drops of a query that was prepared with them.
inline std::uint64_t num_dropped(const PreparedQuery& query, const SearchParams& params) {
    const bool shortens = params.bound_dropped && params.max_terms > 0 && query.terms.size() > params.max_terms;
    return query.dropped_terms + (shortens ? query.terms.size() - params.max_terms : 0);
}

/// A score that no document of an index passes: what the terms that it has add at most.
std::uint64_t most_of(const Index& index, const PreparedQuery& query);

}  // namespace segmax
