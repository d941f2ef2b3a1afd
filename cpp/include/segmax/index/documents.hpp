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

/// The documents of a range of positions, holes left out.
template <class Code>
struct DocumentRange {
    std::vector<Row> rows;
    std::vector<std::int64_t> indptr;
    std::vector<std::uint32_t> terms;  ///< ascending in every document
    std::vector<Code> codes;
};

/// The stored vectors of the documents at positions [first, last), with time for the postings in the range and for
/// every term of the vocabulary. `Code` is the index's own. Reads damaged postings without harm: what it returns has
/// ascending terms and positive codes.
template <class Code>
DocumentRange<Code> document_range(const Index& index, Position first, Position last);

}  // namespace segmax
