// From documents grouped by cluster to the arrays of an index, a range of terms at a time.
//
// Documents are numbered by their place in the grouped order ("slot"): cluster by cluster, rows ascending inside. Every
// function here works on a range of clusters, parts or terms and gives the same result however the work is cut, so that
// callers choose ranges by the memory and the threads they have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "segmax/base/interrupt.hpp"
#include "segmax/base/types.hpp"
#include "segmax/index/index.hpp"

namespace segmax {

/// Documents as CSR: strictly ascending terms and positive codes.
template <class Code, class Term>
struct CodedDocs {
    std::span<const std::int64_t> indptr;
    std::span<const Term> terms;
    std::span<const Code> codes;
    std::uint32_t num_terms = 0;

    std::uint32_t num_docs() const { return static_cast<std::uint32_t>(indptr.size() - 1); }
};

/// Copies the rows of `part` whose slot is in [first_slot, first_slot + out_indptr.size() - 1) to their places.
/// `out_indptr` holds the offsets of these slots and one more, not starting at 0 unless first_slot does.
template <class Code, class Term>
void gather_rows(const CodedDocs<Code, Term>& part, std::span<const std::uint32_t> slots, std::uint32_t first_slot,
                 std::span<const std::int64_t> out_indptr, std::span<Term> out_terms, std::span<Code> out_codes);

/// Where each cluster starts among the positions, and the number of positions at the end. `cluster_first` counts
/// documents the same way.
std::vector<std::uint32_t> lay_out_clusters(std::span<const std::uint32_t> cluster_first);

/// Adds to `postings` and `pairs`, per term, what the clusters [first, last) hold. A pair is a cluster that the term
/// occurs in.
template <class Code, class Term>
void count_terms(const CodedDocs<Code, Term>& docs, std::span<const std::uint32_t> cluster_first, std::uint32_t first,
                 std::uint32_t last, std::span<std::uint64_t> postings, std::span<std::uint64_t> pairs,
                 const StopFlag& stop);

/// What follows from the counts: where each term's pairs start (terms + 1 entries), and the bytes that making its
/// arrays takes at most.
struct TermPlan {
    std::vector<std::uint64_t> term_first_pair, term_bytes;
};

TermPlan plan_terms(std::span<const std::uint64_t> postings, std::span<const std::uint64_t> pairs,
                    std::uint32_t num_clusters, std::uint32_t num_positions, std::uint32_t num_segments,
                    std::uint32_t head_ratio, std::uint32_t code_bytes, bool exact_segments);

/// What does not change from one range of terms to the next.
template <class Code, class Term>
struct FillJob {
    CodedDocs<Code, Term> docs;
    std::span<const std::uint32_t> cluster_first;           // by cluster: its first entry in `order`
    std::span<const std::uint32_t> cluster_first_position;  // from lay_out_clusters
    std::span<const std::uint32_t> order;                   // slots in clustered order
    std::span<const std::uint32_t> segments;                // by slot: a label below num_segments
    std::uint32_t num_segments = 1;
    std::uint32_t head_ratio = 8;
    std::span<const std::uint64_t> postings, pairs;  // by term, from count_terms
    bool quick = false;           // levels that are made fast, not those with the least errors; no pair_entry
    bool exact_segments = false;  // segment_code
};

/// The arrays of a range of terms, under the names of IndexArrays; ranges one after the other make the index. What is
/// an offset there is a count per term here.
template <class Code>
struct TermArrays {
    std::vector<std::uint64_t> term_num_bytes, term_num_entries;
#define SEGMAX_VECTOR(name, entry, check) std::vector<entry> name;
    SEGMAX_TERM_COMPONENTS(SEGMAX_VECTOR)
#undef SEGMAX_VECTOR
};

template <class Code, class Term>
TermArrays<Code> fill_terms(const FillJob<Code, Term>& job, std::uint32_t first_term, std::uint32_t last_term,
                            const StopFlag& stop);

}  // namespace segmax
