// Several indexes searched as one: the parts of a collection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "segmax/search/batch.hpp"
#include "segmax/search/lattice.hpp"
#include "segmax/search/params.hpp"
#include "segmax/search/query.hpp"

namespace segmax {

/// An index and the insertion numbers of its documents: by row, ascending. Numbers of several parts may interleave.
/// Numbers that do not ascend give results in a wrong order, nothing worse.
struct Part {
    const Index* index = nullptr;
    std::span<const std::int64_t> numbers;
};

/// By part, what it may return; nullptr: every document.
using PartMasks = std::vector<std::shared_ptr<const Mask>>;

struct PartHit {
    std::uint64_t score = 0;  ///< integer; multiply by the query's scale
    std::int64_t number = 0;
    std::uint32_t part = 0;
    Row row = 0;
};

struct PartsResult {
    std::vector<PartHit> hits;  ///< score descending, number ascending
    SearchStats stats;          ///< of all parts together
};

/// The k best documents of all parts. The query was prepared by a lattice that all of them share (Lattice::check).
/// `masks` is empty or has an entry for each part, and takes the place of params.mask. Budget, max_blocks and
/// max_clusters hold for all parts together. A floor in `params` may not have a row.
PartsResult search_parts(std::span<const Part> parts, std::span<const std::shared_ptr<const Mask>> masks,
                         const PreparedQuery& query, std::size_t k, const SearchParams& params);

/// Many queries at once, as search_batch does it for one index. `masks` is one for all queries, or one for each.
void search_parts_batch(const Lattice& lattice, std::span<const Part> parts, std::span<const PartMasks> masks,
                        const Batch& batch, unsigned threads,
                        const std::function<void(std::size_t, const PartsResult&, double)>& store,
                        const std::function<bool()>& poll);

}  // namespace segmax
