// What searches of an index and of parts share: checks of k, parameters and masks, and rows of statistics.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "arrays.hpp"
#include "checks.hpp"
#include "segmax/search/params.hpp"

namespace segmax::bindings {

#define SEGMAX_COUNT(name, meaning) +1  // NOLINT(bugprone-macro-parentheses): a part of the sum below
inline constexpr std::size_t kStatsFields = 0 SEGMAX_STATS(SEGMAX_COUNT);
#undef SEGMAX_COUNT
/// SearchStats read as a row of numbers: nothing but these fields, in this order, without gaps.
using StatsRow = std::array<std::uint64_t, kStatsFields>;
static_assert(sizeof(SearchStats) == sizeof(StatsRow) && alignof(SearchStats) == alignof(std::uint64_t));
static_assert(std::is_standard_layout_v<SearchStats> && std::is_trivially_copyable_v<SearchStats>);

/// The number of results to make room for: there are never more than documents.
inline std::size_t checked_k(std::size_t k, std::size_t num_docs) {
    require(k >= 1, "expected k to be at least 1, got 0");
    return std::min(k, num_docs);
}

/// The same for each query, or one for all.
inline std::vector<std::size_t> checked_ks(std::span<const std::int64_t> ks, std::size_t queries,
                                           std::size_t num_docs) {
    require(ks.size() == 1 || ks.size() == queries, "expected one k, or one for each query");
    std::vector<std::size_t> checked;
    for (const std::int64_t k : ks) {
        require(k >= 1, "expected k to be at least 1, got less");
        checked.push_back(std::min(static_cast<std::size_t>(k), num_docs));
    }
    return checked;
}

/// Refuses a batch whose arrays or parameters do not fit together; returns the number of queries.
inline std::size_t checked_batch(const Array<std::int64_t>& indptr, const Array<std::int64_t>& terms,
                                 const Array<double>& weights, const std::vector<const SearchParams*>& params,
                                 unsigned threads) {
    require_one_length("terms", view(terms).size(), "weights", view(weights).size());
    require_offsets("indptr", view(indptr), view(terms).size());
    require(threads >= 1, "expected threads to be at least 1, got 0");
    const std::size_t queries = view(indptr).size() - 1;
    require(params.size() == 1 || params.size() == queries, "expected one SearchParams, or one for each query");
    for (const SearchParams* some : params) require(some != nullptr, "expected SearchParams, got None");
    return queries;
}

/// A mask belongs to the index that it was made for.
inline void require_mask(const Index& index, const Mask* mask) {
    require(mask == nullptr || mask->is_of(index),
            "expected a mask that was made for this index, got one of another index");
}

}  // namespace segmax::bindings
