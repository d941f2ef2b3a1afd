// Sparse documents times a dense matrix, and its transpose: how sparse vectors become short dense ones for clustering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "segmax/index/builder.hpp"

namespace segmax {

/// A dense row for some of the terms; the others count for nothing.
struct TermRows {
    std::span<const std::int32_t> row_of_term;  // -1: none
    std::size_t num_dims = 0;
};

/// out[d] = sum over the terms t of document d of sqrt(code) * matrix[row of t]; `out` has num_dims floats per
/// document. The square root keeps a few heavy terms from deciding alone.
template <class Code, class Term>
void project_rows(const CodedDocs<Code, Term>& docs, const TermRows& terms, std::span<const float> matrix,
                  std::span<float> out);

/// out[row of t] += sqrt(code) * points[d], over all documents d and their terms t: the transpose.
template <class Code, class Term>
void project_back(const CodedDocs<Code, Term>& docs, const TermRows& terms, std::span<const float> points,
                  std::span<float> out);

}  // namespace segmax
