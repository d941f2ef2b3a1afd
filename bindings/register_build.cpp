// Building: coded rows and labels in, the arrays of an index out, a range at a time.
#include <nanobind/nanobind.h>

#include "arrays.hpp"
#include "registers.hpp"
#include "segmax/base/interrupt.hpp"
#include "segmax/index/builder.hpp"
#include "segmax/index/order.hpp"
#include "segmax/index/project.hpp"

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
    return {view(indptr), view(terms), view(codes), num_terms};
}

template <class Code, class Term>
void gather(const Array<std::int64_t>& indptr, const Array<Term>& terms, const Array<Code>& codes,
            const Array<std::uint32_t>& slots, std::uint32_t first_slot, const Array<std::int64_t>& out_indptr,
            MutableArray<Term> out_terms, MutableArray<Code> out_codes) {
    const auto part = coded_docs(indptr, terms, codes, 0);
    run_released([&] {
        gather_rows(part, view(slots), first_slot, view(out_indptr), mutable_view(out_terms), mutable_view(out_codes));
    });
}

void order(const Array<float>& points, std::size_t num_dims, const Array<std::uint32_t>& cluster_first,
           MutableArray<std::uint32_t> order, const Stop& stop) {
    const DensePoints dense{view(points), num_dims};
    run_released([&] { order_by_similarity(dense, view(cluster_first), mutable_view(order), stop.flag); });
}

/// What the stub shows for an array that a function returns.
template <class T>
using Returned = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
using Counts = nb::typed<nb::tuple, Returned<std::uint64_t>, Returned<std::uint64_t>>;

nb::object layout(const Array<std::uint32_t>& cluster_first) {
    return owned(lay_out_clusters(view(cluster_first)));
}

template <class Code, class Term>
Counts count(const Array<std::int64_t>& indptr, const Array<Term>& terms, const Array<Code>& codes,
             std::uint32_t num_terms, const Array<std::uint32_t>& cluster_first, std::uint32_t first,
             std::uint32_t last, const Stop& stop) {
    const auto docs = coded_docs(indptr, terms, codes, num_terms);
    std::vector<std::uint64_t> postings(num_terms, 0);
    std::vector<std::uint64_t> pairs(num_terms, 0);
    run_released(
        [&] { count_terms(docs, view(cluster_first), first, last, std::span(postings), std::span(pairs), stop.flag); });
    return nb::make_tuple(owned(std::move(postings)), owned(std::move(pairs)));
}

Counts plan(const Array<std::uint64_t>& postings, const Array<std::uint64_t>& pairs, std::uint32_t num_clusters,
            std::uint32_t num_positions, std::uint32_t num_segments, std::uint32_t head_ratio,
            std::uint32_t code_bytes) {
    TermPlan made =
        plan_terms(view(postings), view(pairs), num_clusters, num_positions, num_segments, head_ratio, code_bytes);
    return nb::make_tuple(owned(std::move(made.term_first_pair)), owned(std::move(made.term_bytes)));
}

template <class Code, class Term>
nb::typed<nb::dict, nb::str, nb::object> fill(const Array<std::int64_t>& indptr, const Array<Term>& terms,
                                              const Array<Code>& codes, const Array<std::uint32_t>& cluster_first,
                                              const Array<std::uint32_t>& order, const Array<std::uint32_t>& segments,
                                              std::uint32_t num_segments, std::uint32_t head_ratio,
                                              const Array<std::uint32_t>& cluster_first_position,
                                              const Array<std::uint64_t>& postings, const Array<std::uint64_t>& pairs,
                                              std::uint32_t first_term, std::uint32_t last_term, const Stop& stop) {
    FillJob<Code, Term> job;
    job.docs = coded_docs(indptr, terms, codes, static_cast<std::uint32_t>(postings.size()));
    job.cluster_first = view(cluster_first);
    job.order = view(order);
    job.segments = view(segments);
    job.num_segments = num_segments;
    job.head_ratio = head_ratio;
    job.cluster_first_position = view(cluster_first_position);
    job.postings = view(postings);
    job.pairs = view(pairs);
    TermArrays<Code> built;
    run_released([&] { built = fill_terms(job, first_term, last_term, stop.flag); });
    nb::dict out;
    out["term_num_bytes"] = owned(std::move(built.term_num_bytes));
    out["term_num_entries"] = owned(std::move(built.term_num_entries));
    out["term_seed_code"] = owned(std::move(built.term_seed_code));
    out["narrow_cluster"] = owned(std::move(built.narrow_cluster));
    out["cluster_max"] = owned(std::move(built.cluster_max));
    out["segment_max"] = owned(std::move(built.segment_max));
    out["segment_sum"] = owned(std::move(built.segment_sum));
    out["level"] = owned(std::move(built.level));
    out["block_max"] = owned(std::move(built.block_max));
    out["span_max"] = owned(std::move(built.span_max));
    out["run_start"] = owned(std::move(built.run_start));
    out["run_bytes"] = owned(std::move(built.run_bytes));
    out["entry_block"] = owned(std::move(built.entry_block));
    out["entry_max"] = owned(std::move(built.entry_max));
    out["entry_mask"] = owned(std::move(built.entry_mask));
    out["group_start"] = owned(std::move(built.group_start));
    out["entry_code"] = owned(std::move(built.entry_code));
    return nb::typed<nb::dict, nb::str, nb::object>(std::move(out));
}

template <class Code, class Term, bool back>
nb::object project(const Array<std::int64_t>& indptr, const Array<Term>& terms, const Array<Code>& codes,
                   const Array<std::int32_t>& row_of_term, const Array<float>& matrix, std::size_t num_dims,
                   std::size_t num_rows) {
    const auto docs = coded_docs(indptr, terms, codes, static_cast<std::uint32_t>(row_of_term.size()));
    const TermRows rows{view(row_of_term), num_dims};
    std::vector<float> out(num_rows * num_dims);
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
    nb::exception<Interrupted>(module, "CoreInterrupted", PyExc_RuntimeError);
    module.def("lay_out_clusters", &layout,
               nb::sig("def lay_out_clusters(cluster_first: numpy.typing.NDArray[numpy.uint32]) -> "
                       "numpy.typing.NDArray[numpy.uint32]"),
               "cluster_first"_a, "cluster_first_position for clusters of these sizes.");
    module.def("order_by_similarity", &order, "points"_a, "num_dims"_a, "cluster_first"_a, "order"_a.noconvert(),
               "stop"_a, "Reorder documents in place so that similar ones of a cluster are neighbours.");
    module.def("plan_terms", &plan, "postings"_a, "pairs"_a, "num_clusters"_a, "num_positions"_a, "num_segments"_a,
               "head_ratio"_a, "code_bytes"_a, "term_first_pair, and the bytes that making each term's arrays takes.");
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
        module.def("fill_terms", &fill<Code, Term>, "indptr"_a, "terms"_a.noconvert(), "codes"_a.noconvert(),
                   "cluster_first"_a, "order"_a, "segments"_a, "num_segments"_a, "head_ratio"_a,
                   "cluster_first_position"_a, "postings"_a, "pairs"_a, "first_term"_a, "last_term"_a, "stop"_a,
                   "The arrays of a range of terms, by name.");
    };
    define(std::uint8_t{}, std::uint16_t{});
    define(std::uint8_t{}, std::uint32_t{});
    define(std::uint16_t{}, std::uint16_t{});
    define(std::uint16_t{}, std::uint32_t{});
}

}  // namespace segmax::bindings
