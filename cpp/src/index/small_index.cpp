#include "segmax/index/small_index.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace segmax {

namespace {

template <class Code, class Term>
void check_documents(const CodedDocs<Code, Term>& docs) {
    if (docs.num_docs() > kMostSmallDocs) {
        throw std::invalid_argument("expected at most " + std::to_string(kMostSmallDocs) + " documents, got " +
                                    std::to_string(docs.num_docs()));
    }
    for (std::uint32_t d = 0; d < docs.num_docs(); ++d) {
        const auto begin = static_cast<std::size_t>(docs.indptr[d]);
        const auto end = static_cast<std::size_t>(docs.indptr[d + 1]);
        // All of them, without a branch: several at a time.
        std::uint32_t bad = begin == end || docs.terms[end - 1] < docs.num_terms ? 0 : 1;
        for (std::size_t i = begin + 1; i < end; ++i) bad |= docs.terms[i - 1] < docs.terms[i] ? 0U : 1U;
        for (std::size_t i = begin; i < end; ++i) bad |= docs.codes[i] != 0 ? 0U : 1U;
        if (bad != 0) {
            throw std::invalid_argument(
                "expected ascending terms of the vocabulary and positive codes, got others in "
                "document " +
                std::to_string(d));
        }
    }
}

std::vector<std::uint64_t> offsets_of(const std::vector<std::uint64_t>& counts) {
    std::vector<std::uint64_t> offsets(counts.size() + 1);
    std::partial_sum(counts.begin(), counts.end(), offsets.begin() + 1);
    return offsets;
}

}  // namespace

template <class Code, class Term>
SmallIndex<Code> small_index(const CodedDocs<Code, Term>& docs, std::uint32_t head_ratio) {
    check_documents(docs);
    const StopFlag never{false};
    const std::uint32_t num_docs = docs.num_docs();
    const std::uint32_t num_clusters = (num_docs + kSmallClusterDocs - 1) / kSmallClusterDocs;
    SmallIndex<Code> made;
    std::vector<std::uint32_t> cluster_first(num_clusters + 1);
    for (std::uint32_t c = 0; c <= num_clusters; ++c) cluster_first[c] = std::min(c * kSmallClusterDocs, num_docs);
    made.cluster_first_position = lay_out_clusters(cluster_first);
    made.position_row.assign(made.cluster_first_position.back(), kNoRow);
    for (std::uint32_t c = 0; c < num_clusters; ++c) {
        made.cluster_num_docs.push_back(cluster_first[c + 1] - cluster_first[c]);
        const auto first = made.position_row.begin() + made.cluster_first_position[c];
        std::iota(first, first + made.cluster_num_docs[c], cluster_first[c]);
    }
    std::vector<std::uint64_t> postings(docs.num_terms), pairs(docs.num_terms);
    count_terms(docs, cluster_first, 0, num_clusters, std::span(postings), std::span(pairs), never);
    std::vector<std::uint32_t> order(num_docs), segments(num_docs, 0);
    std::iota(order.begin(), order.end(), 0U);
    FillJob<Code, Term> job{docs,  cluster_first, made.cluster_first_position, order, segments, 1, head_ratio, postings,
                            pairs, true};
    TermArrays<Code> terms = fill_terms(job, 0, docs.num_terms, never);
    made.term_first_pair = plan_terms(postings, pairs, num_clusters, made.cluster_first_position.back(), 1, head_ratio,
                                      sizeof(Code), false)
                               .term_first_pair;
    made.term_first_posting = offsets_of(postings);
    made.term_first_byte = offsets_of(terms.term_num_bytes);
    made.term_first_entry = offsets_of(terms.term_num_entries);
#define SEGMAX_KEEP(name, entry, check) made.name = std::move(terms.name);
    SEGMAX_TERM_COMPONENTS(SEGMAX_KEEP)
#undef SEGMAX_KEEP
    return made;
}

#define SEGMAX_SMALL_INDEX(Code, Term) \
    template SmallIndex<Code> small_index(const CodedDocs<Code, Term>&, std::uint32_t);

SEGMAX_SMALL_INDEX(std::uint8_t, std::uint16_t)
SEGMAX_SMALL_INDEX(std::uint8_t, std::uint32_t)
SEGMAX_SMALL_INDEX(std::uint16_t, std::uint16_t)
SEGMAX_SMALL_INDEX(std::uint16_t, std::uint32_t)
#undef SEGMAX_SMALL_INDEX

}  // namespace segmax
