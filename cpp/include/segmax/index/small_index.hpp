// An index of few documents, made at once: what is new in a collection, before it is merged with the rest.
#pragma once

#include <cstdint>
#include <vector>

#include "segmax/index/builder.hpp"
#include "segmax/index/components.hpp"

namespace segmax {

/// The arrays of an index with one segment, under the names of IndexArrays; term_scale stays empty.
template <class Code>
struct SmallIndex {
#define SEGMAX_VECTOR(name, entry, check) std::vector<entry> name;
    SEGMAX_COMPONENTS(SEGMAX_VECTOR)
#undef SEGMAX_VECTOR
};

/// The most documents that small_index takes: those of the larger indexes deserve clusters of similar documents.
inline constexpr std::uint32_t kMostSmallDocs = 32768;
/// Documents per cluster of a small index.
inline constexpr std::uint32_t kSmallClusterDocs = 1024;

/// An index of documents in the order given: neighbors share clusters and blocks, similar or not. Throws
/// std::invalid_argument for too many documents, for a term outside the vocabulary, for terms that do not ascend in a
/// document, and for a code of 0.
template <class Code, class Term>
SmallIndex<Code> small_index(const CodedDocs<Code, Term>& docs, std::uint32_t head_ratio);

}  // namespace segmax
