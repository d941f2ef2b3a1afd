// Documents back from the index: where a row is, and what its vector was.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "segmax/index/index.hpp"

namespace segmax {

/// The position of every row.
std::vector<Position> positions_of_rows(const Index& index);

/// Documents as CSR of codes; multiply by term_scale for weights.
struct DocumentVectors {
    std::vector<std::int64_t> indptr;
    std::vector<std::uint32_t> terms;
    std::vector<std::uint32_t> codes;
};

/// The stored vectors of the documents at these positions, in their order. Walks the whole vocabulary once,
/// so ask for many at a time.
DocumentVectors document_vectors(const Index& index, std::span<const Position> positions);

}  // namespace segmax
