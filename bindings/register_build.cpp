// Building: coded rows and labels in, the arrays of an index out, a range at a time.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <numeric>

#include "arrays.hpp"
#include "checks.hpp"
#include "registers.hpp"
#include "segmax/base/interrupt.hpp"
#include "segmax/index/builder.hpp"
#include "segmax/index/components.hpp"
#include "segmax/index/order.hpp"
#include "segmax/index/project.hpp"
#include "segmax/index/small_index.hpp"

namespace segmax::bindings {

namespace {

/// A flag that Python sets from the main thread when the user gives up; workers see it and stop.
struct Stop {
    StopFlag flag{false};
};

/// Runs `work` without the GIL, on a thread of the caller's.
template <class Work>
void run_released(Work work) {
    const nb::gil_scoped_release release;
    work();
}

template <class T>
std::span<T> mutable_view(MutableArray<T>& array) {
    return {array.data(), array.size()};
}

template <class Code, class Term>
CodedDocs<Code, Term> coded_docs(const Array<std::int64_t>& indptr, const Array<Term>& terms, const Array<Code>& codes,
                                 std::uint32_t num_terms) {
    require_one_length("terms", terms.size(), "codes", codes.size());
    require_offsets("indptr", view(indptr), terms.size());
    return {view(indptr), view(terms), view(codes), num_terms};
}

template <class Code, class Term>
void gather(const Array<std::int64_t>& indptr, const Array<Term>& terms, const Array<Code>& codes,
            const Array<std::uint32_t>& slots, std::uint32_t first_slot, const Array<std::int64_t>& out_indptr,
            MutableArray<Term> out_terms, MutableArray<Code> out_codes) {
    const auto part = coded_docs(indptr, terms, codes, 0);
    require_one_length("rows", part.num_docs(), "slots", slots.size());
    require_one_length("out_terms", out_terms.size(), "out_codes", out_codes.size());
    require(out_indptr.size() > 0, "expected an offset in out_indptr, got none");
    require_offsets("out_indptr", view(out_indptr), out_terms.size(), view(out_indptr).front());
    run_released([&] {
        gather_rows(part, view(slots), first_slot, view(out_indptr), mutable_view(out_terms), mutable_view(out_codes));
    });
}

void order(const Array<float>& points, std::size_t num_dims, const Array<std::uint32_t>& cluster_first,
           MutableArray<std::uint32_t> order, const Stop& stop) {
    require_one_length("points", points.size(), "order x num_dims", checked_product(order.size(), num_dims));
    require_offsets("cluster_first", view(cluster_first), order.size());
    require_below("order", std::span<const std::uint32_t>(mutable_view(order)), order.size());
    const DensePoints dense{view(points), num_dims};
    run_released([&] { order_by_similarity(dense, view(cluster_first), mutable_view(order), stop.flag); });
}

/// What the stub shows for an array that a function returns.
template <class T>
using Returned = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
using Counts = nb::typed<nb::tuple, Returned<std::uint64_t>, Returned<std::uint64_t>>;

nb::object layout(const Array<std::uint32_t>& cluster_first) {
    require(cluster_first.size() > 0, "expected an offset in cluster_first, got none");
    require_offsets("cluster_first", view(cluster_first), view(cluster_first).back());
    return owned(lay_out_clusters(view(cluster_first)));
}

template <class Code, class Term>
Counts count(const Array<std::int64_t>& indptr, const Array<Term>& terms, const Array<Code>& codes,
             std::uint32_t num_terms, const Array<std::uint32_t>& cluster_first, std::uint32_t first,
             std::uint32_t last, const Stop& stop) {
    const auto docs = coded_docs(indptr, terms, codes, num_terms);
    require_offsets("cluster_first", view(cluster_first), docs.num_docs());
    require(first <= last && last < cluster_first.size(), "expected a range of the clusters");
    std::vector<std::uint64_t> postings(num_terms, 0);
    std::vector<std::uint64_t> pairs(num_terms, 0);
    run_released(
        [&] { count_terms(docs, view(cluster_first), first, last, std::span(postings), std::span(pairs), stop.flag); });
    return nb::make_tuple(owned(std::move(postings)), owned(std::move(pairs)));
}

Counts plan(const Array<std::uint64_t>& postings, const Array<std::uint64_t>& pairs, std::uint32_t num_clusters,
            std::uint32_t num_positions, std::uint32_t num_segments, std::uint32_t head_ratio, std::uint32_t code_bytes,
            bool exact_segments) {
    require_one_length("postings", postings.size(), "pairs", pairs.size());
    require_below("postings", view(postings), std::size_t{num_positions} + 1);
    require_below("pairs", view(pairs), std::size_t{num_clusters} + 1);
    TermPlan made = plan_terms(view(postings), view(pairs), num_clusters, num_positions, num_segments, head_ratio,
                               code_bytes, exact_segments);
    return nb::make_tuple(owned(std::move(made.term_first_pair)), owned(std::move(made.term_bytes)));
}

/// What can be checked without reading every posting; that counts are those of these documents is the caller's word.
template <class Code, class Term>
void check_job(const FillJob<Code, Term>& job, std::uint32_t first_term, std::uint32_t last_term) {
    const std::uint32_t num_docs = job.docs.num_docs();
    require_one_length("postings", job.postings.size(), "pairs", job.pairs.size());
    require(first_term <= last_term && last_term <= job.postings.size(), "expected a range of the terms");
    require_one_length("documents", num_docs, "order", job.order.size());
    require_one_length("documents", num_docs, "segments", job.segments.size());
    require_below("order", job.order, num_docs);
    require_below("segments", job.segments, job.num_segments);
    require_offsets("cluster_first", job.cluster_first, num_docs);
    const auto positions = lay_out_clusters(job.cluster_first);
    require(std::equal(positions.begin(), positions.end(), job.cluster_first_position.begin(),
                       job.cluster_first_position.end()),
            "expected cluster_first_position as lay_out_clusters makes it");
    require_below("postings", job.postings, job.docs.terms.size() + 1);
    require_below("pairs", job.pairs, job.cluster_first.size());
    const auto sum = std::accumulate(job.postings.begin(), job.postings.end(), std::uint64_t{0});
    require_one_length("the documents", job.docs.terms.size(), "all postings", sum);
    std::uint64_t num_pairs = 0;
    const auto num_clusters = static_cast<std::uint32_t>(positions.size() - 1);
    for (std::uint32_t t = first_term; t < last_term; ++t) {
        num_pairs += Index::wide(job.pairs[t], num_clusters) ? num_clusters : job.pairs[t];
    }
    checked_product(num_pairs, job.num_segments);
}

template <class Code, class Term>
nb::typed<nb::dict, nb::str, nb::object> fill(const Array<std::int64_t>& indptr, const Array<Term>& terms,
                                              const Array<Code>& codes, const Array<std::uint32_t>& cluster_first,
                                              const Array<std::uint32_t>& order, const Array<std::uint32_t>& segments,
                                              std::uint32_t num_segments, bool exact_segments, std::uint32_t head_ratio,
                                              const Array<std::uint32_t>& cluster_first_position,
                                              const Array<std::uint64_t>& postings, const Array<std::uint64_t>& pairs,
                                              std::uint32_t first_term, std::uint32_t last_term, const Stop& stop) {
    FillJob<Code, Term> job;
    job.docs = coded_docs(indptr, terms, codes, static_cast<std::uint32_t>(postings.size()));
    job.cluster_first = view(cluster_first);
    job.order = view(order);
    job.segments = view(segments);
    job.num_segments = num_segments;
    job.exact_segments = exact_segments;
    job.head_ratio = head_ratio;
    job.cluster_first_position = view(cluster_first_position);
    job.postings = view(postings);
    job.pairs = view(pairs);
    check_job(job, first_term, last_term);
    TermArrays<Code> built;
    run_released([&] { built = fill_terms(job, first_term, last_term, stop.flag); });
    nb::dict out;
    out["term_num_bytes"] = owned(std::move(built.term_num_bytes));
    out["term_num_entries"] = owned(std::move(built.term_num_entries));
#define SEGMAX_PUT(name, entry, check) out[#name] = owned(std::move(built.name));
    SEGMAX_TERM_COMPONENTS(SEGMAX_PUT)
#undef SEGMAX_PUT
    return nb::typed<nb::dict, nb::str, nb::object>(std::move(out));
}

template <class Code, class Term>
nb::typed<nb::dict, nb::str, nb::object> small(const Array<std::int64_t>& indptr, const Array<Term>& terms,
                                               const Array<Code>& codes, std::uint32_t num_terms,
                                               std::uint32_t head_ratio) {
    require(head_ratio >= 1 && head_ratio <= kMaxHeadRatio, "expected a head_ratio from 1 to 65535");
    const auto docs = coded_docs(indptr, terms, codes, num_terms);
    SmallIndex<Code> made;
    run_released([&] { made = small_index(docs, head_ratio); });
    nb::dict out;
#define SEGMAX_PUT(name, entry, check) out[#name] = owned_with_slack(std::move(made.name));
    SEGMAX_COMPONENTS(SEGMAX_PUT)
#undef SEGMAX_PUT
    nb::del(out["term_scale"]);  // belongs to whoever made the codes
    return nb::typed<nb::dict, nb::str, nb::object>(std::move(out));
}

template <class Code, class Term, bool back>
nb::object project(const Array<std::int64_t>& indptr, const Array<Term>& terms, const Array<Code>& codes,
                   const Array<std::int32_t>& row_of_term, const Array<float>& matrix, std::size_t num_dims,
                   std::size_t num_rows) {
    const auto docs = coded_docs(indptr, terms, codes, static_cast<std::uint32_t>(row_of_term.size()));
    const std::size_t num_points = back ? docs.num_docs() : matrix.size() / std::max<std::size_t>(num_dims, 1);
    require_one_length("matrix", matrix.size(), "rows x num_dims", checked_product(num_points, num_dims));
    require_one_length("documents", docs.num_docs(), "rows", back ? docs.num_docs() : num_rows);
    require_below("terms", view(terms), row_of_term.size());
    require_below("row_of_term", view(row_of_term), back ? num_rows : num_points);
    const TermRows rows{view(row_of_term), num_dims};
    std::vector<float> out(checked_product(num_rows, num_dims));
    run_released([&] {
        if constexpr (back) {
            project_back(docs, rows, view(matrix), std::span(out));
        } else {
            project_rows(docs, rows, view(matrix), std::span(out));
        }
    });
    return owned(std::move(out), {num_rows, num_dims});
}

}  // namespace

void register_build(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<Stop>(module, "StopFlag", "Set it, and work that was given it raises CoreInterrupted soon.")
        .def(nb::init<>())
        .def("set", [](Stop& self) { self.flag = true; });
    const nb::exception<Interrupted> interrupted(module, "CoreInterrupted", PyExc_RuntimeError);
    module.def("lay_out_clusters", &layout,
               nb::sig("def lay_out_clusters(cluster_first: numpy.typing.NDArray[numpy.uint32]) -> "
                       "numpy.typing.NDArray[numpy.uint32]"),
               "cluster_first"_a, "cluster_first_position for clusters of these sizes.");
    module.def("order_by_similarity", &order, "points"_a, "num_dims"_a, "cluster_first"_a, "order"_a.noconvert(),
               "stop"_a, "Reorder documents in place so that similar ones of a cluster are neighbors.");
    module.def("plan_terms", &plan, "postings"_a, "pairs"_a, "num_clusters"_a, "num_positions"_a, "num_segments"_a,
               "head_ratio"_a, "code_bytes"_a, "exact_segments"_a,
               "term_first_pair, and the bytes that making each term's arrays takes.");
    const auto define = [&]<class Code, class Term>(Code, Term) {
        module.def("gather_rows", &gather<Code, Term>, "indptr"_a, "terms"_a.noconvert(), "codes"_a.noconvert(),
                   "slots"_a, "first_slot"_a, "out_indptr"_a, "out_terms"_a.noconvert(), "out_codes"_a.noconvert(),
                   "Copy the rows of a part to their slots, those outside the range of `out_indptr` left out.");
        module.def("project_rows", &project<Code, Term, false>, "indptr"_a, "terms"_a.noconvert(),
                   "codes"_a.noconvert(), "row_of_term"_a, "matrix"_a, "num_dims"_a, "num_rows"_a,
                   "Documents times a dense matrix with rows for some terms, weights by their square roots.");
        module.def("project_back", &project<Code, Term, true>, "indptr"_a, "terms"_a.noconvert(), "codes"_a.noconvert(),
                   "row_of_term"_a, "matrix"_a, "num_dims"_a, "num_rows"_a, "The transpose of project_rows.");
        module.def("count_terms", &count<Code, Term>, "indptr"_a, "terms"_a.noconvert(), "codes"_a.noconvert(),
                   "num_terms"_a, "cluster_first"_a, "first"_a, "last"_a, "stop"_a,
                   "Postings and pairs of every term in a range of clusters.");
        module.def("small_index", &small<Code, Term>, "indptr"_a, "terms"_a.noconvert(), "codes"_a.noconvert(),
                   "num_terms"_a, "head_ratio"_a,
                   "The arrays of an index of few documents in the order given, one segment, all but term_scale.");
        module.def("fill_terms", &fill<Code, Term>, "indptr"_a, "terms"_a.noconvert(), "codes"_a.noconvert(),
                   "cluster_first"_a, "order"_a, "segments"_a, "num_segments"_a, "exact_segments"_a, "head_ratio"_a,
                   "cluster_first_position"_a, "postings"_a, "pairs"_a, "first_term"_a, "last_term"_a, "stop"_a,
                   "The arrays of a range of terms, by name.");
    };
    define(std::uint8_t{}, std::uint16_t{});
    define(std::uint8_t{}, std::uint32_t{});
    define(std::uint16_t{}, std::uint16_t{});
    define(std::uint16_t{}, std::uint32_t{});
}

}  // namespace segmax::bindings
