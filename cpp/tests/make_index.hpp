// Documents with labels, an index over them that keeps its arrays alive, and the answers by brute force.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "segmax/index/builder.hpp"
#include "segmax/index/components.hpp"
#include "segmax/index/documents.hpp"
#include "segmax/index/index.hpp"
#include "segmax/index/order.hpp"
#include "segmax/index/small_index.hpp"
#include "segmax/search/lattice.hpp"
#include "segmax/search/mask.hpp"
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
    std::uint32_t head_ratio = 8;
    bool exact_segments = false;
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
    std::uint32_t head_ratio = 8;
    unsigned seed = 1;
};

/// Low terms are frequent, high ones rare, and each cluster has terms of its own. Some documents are empty.
template <class Code>
Collection<Code> random_collection(const Shape& shape) {
    Random random(shape.seed);
    Collection<Code> made;
    made.num_terms = shape.terms;
    made.num_segments = shape.segments;
    made.head_ratio = shape.head_ratio;
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

/// Enough documents in clusters of their own, a block each, to need a second zone.
template <class Code>
Collection<Code> zoned_collection() {
    return random_collection<Code>({.docs = 67'000, .terms = 3000, .clusters = 1U << 30, .segments = 2, .seed = 77});
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
#define SEGMAX_VECTOR(name, entry, check) PaddedVector<entry> name;
    SEGMAX_COMPONENTS(SEGMAX_VECTOR)
#undef SEGMAX_VECTOR
};

#define SEGMAX_VISIT(name, entry, check) visit(#name, built.name, view.name);

/// Calls visit with the name, the built array and the view of each array that is made a range of terms at a time.
template <class Built, class Visit>
void each_term_array(Built& built, IndexArrays& view, Visit visit) {
    SEGMAX_TERM_COMPONENTS(SEGMAX_VISIT)
}

/// The same for all arrays.
template <class Built, class Visit>
void each_array(Built& built, IndexArrays& view, Visit visit) {
    SEGMAX_COMPONENTS(SEGMAX_VISIT)
}
#undef SEGMAX_VISIT

/// The arrays of an index and what else must outlive it. Arrays may be changed as long as none is resized.
template <class Code>
struct Parts {
    BuiltArrays<Code> built;
    std::uint32_t num_docs = 0;
    std::uint32_t num_segments = 1;
    std::uint32_t head_ratio = 8;
    std::uint64_t planned_bytes = 0;

    IndexArrays view() const {
        IndexArrays a;
        a.num_docs = num_docs;
        a.num_terms = static_cast<std::uint32_t>(built.term_scale.size());
        a.num_segments = num_segments;
        a.code_bytes = sizeof(Code);
        a.head_ratio = head_ratio;
        const auto set = []<class T, class To>(const char*, const PaddedVector<T>& array, std::span<const To>& to) {
            to = {reinterpret_cast<const To*>(array.view().data()), array.view().size_bytes() / sizeof(To)};
        };
        each_array(built, a, set);
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

inline std::vector<std::uint64_t> offsets_of(const std::vector<std::uint64_t>& counts) {
    std::vector<std::uint64_t> offsets{0};
    for (const std::uint64_t count : counts) offsets.push_back(offsets.back() + count);
    return offsets;
}

/// The documents in another order, for code that wants clusters to lie together.
template <class Code>
Collection<Code> reordered(const Collection<Code>& docs, const std::vector<Row>& rows) {
    Collection<Code> made;
    made.num_terms = docs.num_terms;
    made.num_segments = docs.num_segments;
    for (const Row row : rows) {
        docs.each_entry(row, [&](std::uint32_t term, Code code) { made.add_entry(term, code); });
        made.end_document(docs.clusters[row], docs.segments[row]);
    }
    return made;
}

/// Fills in as many ranges of terms as asked for and joins them.
template <class Code>
TermArrays<Code> fill_in_ranges(const FillJob<Code, std::uint32_t>& job, std::uint32_t num_ranges) {
    const std::uint32_t num_terms = job.docs.num_terms;
    TermArrays<Code> all;
    for (std::uint32_t r = 0; r < num_ranges; ++r) {
        const TermArrays<Code> some =
            fill_terms(job, num_terms * r / num_ranges, num_terms * (r + 1) / num_ranges, StopFlag{false});
        append(all.term_num_bytes, some.term_num_bytes);
        append(all.term_num_entries, some.term_num_entries);
#define SEGMAX_APPEND(name, entry, check) append(all.name, some.name);
        SEGMAX_TERM_COMPONENTS(SEGMAX_APPEND)
#undef SEGMAX_APPEND
    }
    return all;
}

template <class Code>
void keep(TermArrays<Code> all, BuiltArrays<Code>& built) {
    built.term_first_byte = PaddedVector(offsets_of(all.term_num_bytes));
    built.term_first_entry = PaddedVector(offsets_of(all.term_num_entries));
#define SEGMAX_KEEP(name, entry, check) built.name = PaddedVector(std::move(all.name));
    SEGMAX_TERM_COMPONENTS(SEGMAX_KEEP)
#undef SEGMAX_KEEP
}

/// Builds in as many ranges of terms and clusters as asked for: the result must not depend on it.
template <class Code>
Parts<Code> make_parts(const Collection<Code>& docs, std::uint32_t num_ranges = 3) {
    const StopFlag stop{false};
    Groups groups = group_rows(docs.clusters);
    const std::vector<float> points = dense_points(docs);
    order_by_similarity({points, docs.num_terms}, groups.first, std::span(groups.rows), stop);
    const std::vector<std::uint32_t> first_position = lay_out_clusters(groups.first);
    const auto num_clusters = static_cast<std::uint32_t>(groups.first.size() - 1);
    const Collection<Code> grouped = reordered(docs, groups.rows);
    std::vector<std::uint64_t> postings(docs.num_terms), pairs(docs.num_terms);
    for (std::uint32_t r = 0; r < num_ranges; ++r) {
        count_terms(grouped.docs(), groups.first, num_clusters * r / num_ranges, num_clusters * (r + 1) / num_ranges,
                    std::span(postings), std::span(pairs), stop);
    }
    const TermPlan plan = plan_terms(postings, pairs, num_clusters, first_position.back(), docs.num_segments,
                                     docs.head_ratio, sizeof(Code), docs.exact_segments);
    std::vector<std::uint32_t> slots(groups.rows.size());
    std::iota(slots.begin(), slots.end(), 0U);
    const FillJob<Code, std::uint32_t> job{grouped.docs(),     groups.first,    first_position, slots, grouped.segments,
                                           docs.num_segments,  docs.head_ratio, postings,       pairs, false,
                                           docs.exact_segments};
    std::vector<std::uint32_t> num_docs(num_clusters);
    std::vector<Row> position_row(first_position.back(), kNoRow);
    for (std::uint32_t cluster = 0; cluster < num_clusters; ++cluster) {
        num_docs[cluster] = groups.first[cluster + 1] - groups.first[cluster];
        std::copy_n(groups.rows.begin() + groups.first[cluster], num_docs[cluster],
                    position_row.begin() + first_position[cluster]);
    }
    Parts<Code> parts;
    keep(fill_in_ranges(job, num_ranges), parts.built);
    parts.built.cluster_first_position = PaddedVector(first_position);
    parts.built.cluster_num_docs = PaddedVector(num_docs);
    parts.built.position_row = PaddedVector(position_row);
    parts.built.term_first_pair = PaddedVector(plan.term_first_pair);
    parts.built.term_first_posting = PaddedVector(offsets_of(postings));
    parts.built.term_scale = PaddedVector(std::vector<double>(docs.num_terms, 1.0));
    parts.planned_bytes = std::accumulate(plan.term_bytes.begin(), plan.term_bytes.end(), std::uint64_t{0});
    parts.num_docs = docs.num_docs();
    parts.num_segments = docs.num_segments;
    parts.head_ratio = docs.head_ratio;
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

/// An index that small_index made, with the arrays behind it.
template <class Code>
struct Small {
    Small(const Collection<Code>& docs, std::uint32_t head_ratio) {
        SmallIndex<Code> made = small_index(docs.docs(), head_ratio);
        made.term_scale.assign(docs.num_terms, 1.0);
#define SEGMAX_KEEP(name, entry, check) built.name = PaddedVector(std::move(made.name));
        SEGMAX_COMPONENTS(SEGMAX_KEEP)
#undef SEGMAX_KEEP
        IndexArrays a;
        a.num_docs = docs.num_docs();
        a.num_terms = docs.num_terms;
        a.num_segments = 1;
        a.code_bytes = sizeof(Code);
        a.head_ratio = head_ratio;
        each_array(built, a, []<class T, class To>(const char*, const PaddedVector<T>& array, std::span<const To>& to) {
            to = {reinterpret_cast<const To*>(array.view().data()), array.view().size_bytes() / sizeof(To)};
        });
        index.emplace(a);
    }
    Small(const Small&) = delete;
    Small& operator=(const Small&) = delete;

    BuiltArrays<Code> built;
    std::optional<Index> index;
};

/// A query for one index, by its own lattice.
inline PreparedQuery prepare_query(const Index& index, std::span<const std::int64_t> terms,
                                   std::span<const double> weights, const SearchParams& params = SearchParams()) {
    return segmax::prepare_query(Lattice(index), terms, weights, params);
}

/// A mask of the documents that `allows` says yes to, by row.
template <class Allows>
std::shared_ptr<const Mask> make_mask(const Index& index, Allows allows) {
    std::vector<std::uint8_t> rows(index.num_docs());
    for (Row row = 0; row < index.num_docs(); ++row) rows[row] = allows(row) ? 1 : 0;
    const std::vector<Position> positions = positions_of_rows(index);
    return std::make_shared<const Mask>(index, rows, [&] { return std::span<const Position>(positions); });
}

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
