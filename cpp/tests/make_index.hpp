// Documents with labels, an index over them that keeps its arrays alive, and the answers by brute force.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "segmax/index/builder.hpp"
#include "segmax/index/index.hpp"
#include "segmax/index/order.hpp"
#include "segmax/search/query.hpp"

namespace segmax::test {

using Random = std::mt19937_64;

/// A number in [low, high].
inline std::uint64_t draw(Random& random, std::uint64_t low, std::uint64_t high) {
    return std::uniform_int_distribution<std::uint64_t>(low, high)(random);
}

/// Documents as the user has them, each with the labels of its cluster and segment.
template <class Code>
struct Collection {
    std::uint32_t num_terms = 0;
    std::uint32_t num_segments = 1;
    std::vector<std::int64_t> indptr{0};
    std::vector<std::uint32_t> terms;
    std::vector<Code> codes;
    std::vector<std::uint32_t> clusters;  // by row
    std::vector<std::uint32_t> segments;  // by row

    std::uint32_t num_docs() const { return static_cast<std::uint32_t>(clusters.size()); }
    CodedDocs<Code, std::uint32_t> docs() const { return {indptr, terms, codes, num_terms}; }

    void add_entry(std::uint32_t term, Code code) {
        terms.push_back(term);
        codes.push_back(code);
    }

    /// Closes the document whose entries were just added.
    void end_document(std::uint32_t cluster, std::uint32_t segment) {
        indptr.push_back(static_cast<std::int64_t>(terms.size()));
        clusters.push_back(cluster);
        segments.push_back(segment);
    }

    template <class Visit>
    void each_entry(Row row, Visit visit) const {
        for (auto i = static_cast<std::size_t>(indptr[row]); i < static_cast<std::size_t>(indptr[row + 1]); ++i) {
            visit(terms[i], codes[i]);
        }
    }

    /// The score of every row, by definition.
    std::vector<std::uint64_t> scores(const PreparedQuery& query) const {
        std::vector<std::uint64_t> weight(num_terms, 0);
        for (const QueryTerm& t : query.terms) weight[t.term] = t.weight;
        std::vector<std::uint64_t> sums(num_docs(), 0);
        for (Row row = 0; row < num_docs(); ++row) {
            each_entry(row, [&](std::uint32_t term, Code code) { sums[row] += weight[term] * code; });
        }
        return sums;
    }
};

/// Rows and scores, best first.
struct Ranking {
    std::vector<Row> rows;
    std::vector<std::uint64_t> scores;

    Ranking first(std::size_t k) const {
        const auto count = static_cast<std::ptrdiff_t>(std::min(k, rows.size()));
        return {{rows.begin(), rows.begin() + count}, {scores.begin(), scores.begin() + count}};
    }
};

/// All rows with a score, by score descending, then row ascending.
inline Ranking rank_all(const std::vector<std::uint64_t>& scores) {
    Ranking ranking;
    for (Row row = 0; row < scores.size(); ++row) {
        if (scores[row] > 0) ranking.rows.push_back(row);
    }
    std::stable_sort(ranking.rows.begin(), ranking.rows.end(), [&](Row a, Row b) { return scores[a] > scores[b]; });
    for (const Row row : ranking.rows) ranking.scores.push_back(scores[row]);
    return ranking;
}

struct Shape {
    std::uint32_t docs = 500;
    std::uint32_t terms = 60;
    std::uint32_t clusters = 14;
    std::uint32_t segments = 4;
    std::uint32_t terms_per_doc = 8;
    std::uint32_t largest_code = 255;
    unsigned seed = 1;
};

/// Low terms are frequent, high ones rare, and each cluster has terms of its own. Some documents are empty.
template <class Code>
Collection<Code> random_collection(const Shape& shape) {
    Random random(shape.seed);
    Collection<Code> made;
    made.num_terms = shape.terms;
    made.num_segments = shape.segments;
    std::vector<std::uint32_t> terms;
    for (std::uint32_t d = 0; d < shape.docs; ++d) {
        const auto cluster = static_cast<std::uint32_t>(draw(random, 0, shape.clusters - 1));
        const auto count = draw(random, 0, 2 * shape.terms_per_doc);
        terms.clear();
        for (std::uint64_t i = 0; i < count; ++i) {
            const double u = std::uniform_real_distribution<>(0, 1)(random);
            const auto common = static_cast<std::uint32_t>(u * u * u * shape.terms);
            terms.push_back(i % 3 == 2 ? (cluster * 7 + common / 4) % shape.terms : common);
        }
        std::sort(terms.begin(), terms.end());
        terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
        for (const std::uint32_t term : terms) {
            const bool extreme = draw(random, 0, 19) == 0;
            made.add_entry(term, static_cast<Code>(extreme ? shape.largest_code : draw(random, 1, shape.largest_code)));
        }
        made.end_document(cluster, static_cast<std::uint32_t>(draw(random, 0, shape.segments - 1)));
    }
    return made;
}

/// All rows grouped by cluster; labels that no document has are left out.
struct Groups {
    std::vector<Row> rows;
    std::vector<std::uint32_t> first{0};
};

inline Groups group_rows(const std::vector<std::uint32_t>& clusters) {
    Groups groups;
    groups.rows.resize(clusters.size());
    std::iota(groups.rows.begin(), groups.rows.end(), Row{0});
    std::stable_sort(groups.rows.begin(), groups.rows.end(), [&](Row a, Row b) { return clusters[a] < clusters[b]; });
    for (std::size_t i = 1; i <= groups.rows.size(); ++i) {
        const bool ends = i == groups.rows.size() || clusters[groups.rows[i]] != clusters[groups.rows[i - 1]];
        if (ends) groups.first.push_back(static_cast<std::uint32_t>(i));
    }
    return groups;
}

/// A vector whose last kSlackBytes bytes stay readable and zero; `view` is the content without them.
template <class T>
class PaddedVector {
public:
    PaddedVector() = default;
    explicit PaddedVector(std::vector<T> content) : data_(std::move(content)), size_(data_.size()) {
        data_.resize(size_ + (kSlackBytes + sizeof(T) - 1) / sizeof(T));
    }
    T& operator[](std::size_t i) { return data_[i]; }
    T* data() { return data_.data(); }
    std::size_t size() const { return size_; }
    std::span<const T> view() const { return {data_.data(), size_}; }

private:
    std::vector<T> data_;
    std::size_t size_ = 0;
};

/// The arrays of a new index, owned. The names are those of IndexArrays.
template <class Code>
struct BuiltArrays {
    PaddedVector<std::uint32_t> cluster_first_chunk, chunk_first_position, chunk_num_docs, position_row;
    PaddedVector<std::uint64_t> term_first_pair, term_first_posting;
    PaddedVector<Code> term_seed_code;
    PaddedVector<std::uint32_t> narrow_chunk, run_start;
    PaddedVector<Code> cluster_max, segment_max;
    PaddedVector<std::uint8_t> segment_sum;
    PaddedVector<Code> block_max;
    PaddedVector<std::uint16_t> posting_id;
    PaddedVector<Code> posting_code;
};

/// The arrays of an index and what else must outlive it. Arrays may be changed as long as none is resized.
template <class Code>
struct Parts {
    BuiltArrays<Code> built;
    std::vector<double> scale;
    std::uint32_t num_docs = 0;
    std::uint32_t num_segments = 1;
    std::uint64_t planned_bytes = 0;

    IndexArrays view() const {
        IndexArrays a;
        a.num_docs = num_docs;
        a.num_terms = static_cast<std::uint32_t>(scale.size());
        a.num_segments = num_segments;
        a.code_bytes = sizeof(Code);
        a.cluster_first_chunk = built.cluster_first_chunk.view();
        a.chunk_first_position = built.chunk_first_position.view();
        a.chunk_num_docs = built.chunk_num_docs.view();
        a.position_row = built.position_row.view();
        a.term_first_pair = built.term_first_pair.view();
        a.term_first_posting = built.term_first_posting.view();
        a.term_scale = scale;
        a.term_seed_code = std::as_bytes(built.term_seed_code.view());
        a.narrow_chunk = built.narrow_chunk.view();
        a.run_start = built.run_start.view();
        a.cluster_max = std::as_bytes(built.cluster_max.view());
        a.segment_max = std::as_bytes(built.segment_max.view());
        a.segment_sum = std::as_bytes(built.segment_sum.view());
        a.block_max = std::as_bytes(built.block_max.view());
        a.posting_id = built.posting_id.view();
        a.posting_code = std::as_bytes(built.posting_code.view());
        return a;
    }
};

/// Every document as a dense vector of its codes.
template <class Code>
std::vector<float> dense_points(const Collection<Code>& docs) {
    std::vector<float> points(std::size_t{docs.num_docs()} * docs.num_terms);
    for (Row row = 0; row < docs.num_docs(); ++row) {
        docs.each_entry(row, [&](std::uint32_t term, Code code) {
            points[std::size_t{row} * docs.num_terms + term] = static_cast<float>(code);
        });
    }
    return points;
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

/// Builds in as many ranges of terms and clusters as asked for: the result must not depend on it.
template <class Code>
Parts<Code> make_parts(const Collection<Code>& docs, std::uint32_t num_ranges = 3) {
    const StopFlag stop{false};
    Groups groups = group_rows(docs.clusters);
    const std::vector<float> points = dense_points(docs);
    order_by_similarity({points, docs.num_terms}, groups.first, std::span(groups.rows), stop);
    const ChunkLayout layout = lay_out_chunks(groups.first);
    std::vector<std::uint64_t> postings(docs.num_terms), pairs(docs.num_terms);
    // Here rows are not grouped in memory, so clusters are counted over a grouped copy.
    Collection<Code> grouped;
    grouped.num_terms = docs.num_terms;
    for (const Row row : groups.rows) {
        docs.each_entry(row, [&](std::uint32_t term, Code code) { grouped.add_entry(term, code); });
        grouped.end_document(docs.clusters[row], docs.segments[row]);
    }
    const auto num_clusters = static_cast<std::uint32_t>(groups.first.size() - 1);
    for (std::uint32_t r = 0; r < num_ranges; ++r) {
        count_terms(grouped.docs(), groups.first, layout.cluster_first_chunk, num_clusters * r / num_ranges,
                    num_clusters * (r + 1) / num_ranges, std::span(postings), std::span(pairs), stop);
    }
    const std::uint32_t num_blocks = layout.chunk_first_position.back() / kBlockDocs;
    const TermPlan plan = plan_terms(postings, pairs, static_cast<std::uint32_t>(layout.chunk_num_docs.size()),
                                     num_blocks, docs.num_segments, 4, sizeof(Code));
    std::vector<std::uint32_t> slots(groups.rows.size());
    std::iota(slots.begin(), slots.end(), 0U);
    const auto grouped_docs = grouped.docs();
    const FillJob<Code, std::uint32_t> job{grouped_docs,
                                           groups.first,
                                           slots,
                                           grouped.segments,
                                           docs.num_segments,
                                           4,
                                           layout.cluster_first_chunk,
                                           layout.chunk_first_position,
                                           layout.chunk_num_docs,
                                           postings,
                                           pairs};
    TermArrays<Code> all;
    for (std::uint32_t r = 0; r < num_ranges; ++r) {
        const TermArrays<Code> some =
            fill_terms(job, docs.num_terms * r / num_ranges, docs.num_terms * (r + 1) / num_ranges, stop);
        append(all.term_seed_code, some.term_seed_code);
        append(all.narrow_chunk, some.narrow_chunk);
        append(all.run_start, some.run_start);
        append(all.cluster_max, some.cluster_max);
        append(all.segment_max, some.segment_max);
        append(all.segment_sum, some.segment_sum);
        append(all.block_max, some.block_max);
        append(all.posting_id, some.posting_id);
        append(all.posting_code, some.posting_code);
    }
    std::vector<Row> position_row(layout.chunk_first_position.back(), kNoRow);
    std::size_t at = 0;
    for (std::size_t chunk = 0; chunk < layout.chunk_num_docs.size(); ++chunk) {
        for (std::uint32_t i = 0; i < layout.chunk_num_docs[chunk]; ++i) {
            position_row[layout.chunk_first_position[chunk] + i] = groups.rows[at++];
        }
    }
    std::vector<std::uint64_t> first_posting{0};
    for (const std::uint64_t count : postings) first_posting.push_back(first_posting.back() + count);
    Parts<Code> parts;
    auto& built = parts.built;
    built.cluster_first_chunk = PaddedVector(layout.cluster_first_chunk);
    built.chunk_first_position = PaddedVector(layout.chunk_first_position);
    built.chunk_num_docs = PaddedVector(layout.chunk_num_docs);
    built.position_row = PaddedVector(position_row);
    built.term_first_pair = PaddedVector(plan.term_first_pair);
    built.term_first_posting = PaddedVector(first_posting);
    built.term_seed_code = PaddedVector(all.term_seed_code);
    built.narrow_chunk = PaddedVector(all.narrow_chunk);
    built.run_start = PaddedVector(all.run_start);
    built.cluster_max = PaddedVector(all.cluster_max);
    built.segment_max = PaddedVector(all.segment_max);
    built.segment_sum = PaddedVector(all.segment_sum);
    built.block_max = PaddedVector(all.block_max);
    built.posting_id = PaddedVector(all.posting_id);
    built.posting_code = PaddedVector(all.posting_code);
    parts.scale.assign(docs.num_terms, 1.0);
    parts.planned_bytes = std::accumulate(plan.term_bytes.begin(), plan.term_bytes.end(), std::uint64_t{0});
    parts.num_docs = docs.num_docs();
    parts.num_segments = docs.num_segments;
    return parts;
}

/// An index with its documents.
template <class Code>
struct Indexed {
    explicit Indexed(Collection<Code> collection)
        : docs(std::move(collection)), parts(make_parts(docs)), index(parts.view()) {}
    Indexed(const Indexed&) = delete;
    Indexed& operator=(const Indexed&) = delete;

    Collection<Code> docs;
    Parts<Code> parts;
    Index index;
};

/// That many distinct terms, or all, with whole weights up to `largest_weight`.
inline PreparedQuery random_query(const Index& index, Random& random, std::size_t num_terms,
                                  std::uint32_t largest_weight) {
    std::vector<std::int64_t> terms(index.num_terms());
    std::iota(terms.begin(), terms.end(), 0);
    std::shuffle(terms.begin(), terms.end(), random);
    terms.resize(std::min<std::size_t>(num_terms, terms.size()));
    std::vector<double> weights(terms.size());
    for (double& weight : weights) weight = static_cast<double>(draw(random, 1, largest_weight));
    return prepare_query(index, terms, weights);
}

/// Calls visit with a value of each type of codes.
template <class Visit>
void each_code_type(Visit visit) {
    visit(std::uint8_t{});
    visit(std::uint16_t{});
}

}  // namespace segmax::test
