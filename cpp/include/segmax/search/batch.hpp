// Many queries at once, on a pool of threads that outlives the batch and keeps its buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "segmax/search/lattice.hpp"
#include "segmax/search/params.hpp"
#include "segmax/search/query.hpp"

namespace segmax {

/// Queries one after the other: query i is terms and weights [indptr[i], indptr[i + 1]). Each has its own k and
/// parameters (mask, floor and budget among them), or all share one.
struct Batch {
    std::span<const std::int64_t> indptr;
    std::span<const std::int64_t> terms;
    std::span<const double> weights;
    std::span<const std::size_t> ks;              ///< one per query, or one
    std::span<const SearchParams* const> params;  ///< one per query, or one

    std::size_t size() const { return indptr.size() - 1; }
    std::size_t k(std::size_t i) const { return ks[ks.size() == 1 ? 0 : i]; }
    const SearchParams& params_of(std::size_t i) const { return *params[params.size() == 1 ? 0 : i]; }
};

/// Prepares the queries and calls answer(i, query, k, params) for each, on up to `threads` threads, the caller's among
/// them. The first error ends the batch and is thrown. `poll` is called in the caller's thread now and then; true ends
/// the batch with Interrupted.
void run_batch(const Lattice& lattice, const Batch& batch, unsigned threads,
               const std::function<void(std::size_t, const PreparedQuery&, std::size_t, const SearchParams&)>& answer,
               const std::function<bool()>& poll);

/// Searches an index and calls store(i, result, scale) for every query, from any of the threads.
void search_batch(const Index& index, const Lattice& lattice, const Batch& batch, unsigned threads,
                  const std::function<void(std::size_t, const SearchResult&, double)>& store,
                  const std::function<bool()>& poll);

}  // namespace segmax
