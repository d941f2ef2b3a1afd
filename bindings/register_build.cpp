// Building: coded rows and labels in, the arrays of an index out.
#include <nanobind/nanobind.h>

#include "arrays.hpp"
#include "interrupt.hpp"
#include "registers.hpp"
#include "segmax/index/builder.hpp"

namespace segmax::bindings {

namespace {

template <class Code>
CodedDocs<Code> coded_docs(const Array<std::int64_t>& indptr, const Array<std::uint32_t>& terms,
                           const Array<Code>& codes, std::uint32_t num_terms) {
    return {view(indptr), view(terms), view(codes), num_terms};
}

template <class Code>
void order(const Array<std::int64_t>& indptr, const Array<std::uint32_t>& terms, const Array<Code>& codes,
           std::uint32_t num_terms, const Array<std::uint32_t>& cluster_first, MutableArray<std::uint32_t> rows,
           unsigned threads) {
    const CodedDocs<Code> docs = coded_docs(indptr, terms, codes, num_terms);
    run_interruptible([&] {
        order_by_similarity<Code>(docs, view(cluster_first), {rows.data(), rows.size()}, threads, SignalPoll());
    });
}

/// An array that keeps its slack bytes: a view of the content, owning the whole buffer.
template <class T>
nb::object padded(PaddedVector<T>&& values) {
    auto* kept = new PaddedVector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<PaddedVector<T>*>(p); });
    if constexpr (std::is_same_v<T, std::byte>) {
        return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(kept->data(), {kept->size()}, owner));
    } else {
        return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), {kept->size()}, owner));
    }
}

template <class Code>
nb::typed<nb::dict, nb::str, nb::object> build(const Array<std::int64_t>& indptr, const Array<std::uint32_t>& terms,
                                               const Array<Code>& codes, std::uint32_t num_terms,
                                               const Array<std::uint32_t>& cluster_first,
                                               const Array<std::uint32_t>& rows, const Array<std::uint32_t>& segments,
                                               std::uint32_t num_segments) {
    const CodedDocs<Code> docs = coded_docs(indptr, terms, codes, num_terms);
    BuiltArrays<Code> built;
    run_interruptible([&] {
        built = build_arrays<Code>(docs, view(cluster_first), view(rows), view(segments), num_segments, SignalPoll());
    });
    nb::dict out;
    out["cluster_first_chunk"] = padded(std::move(built.cluster_first_chunk));
    out["chunk_first_position"] = padded(std::move(built.chunk_first_position));
    out["chunk_num_docs"] = padded(std::move(built.chunk_num_docs));
    out["position_row"] = padded(std::move(built.position_row));
    out["term_first_pair"] = padded(std::move(built.term_first_pair));
    out["term_first_posting"] = padded(std::move(built.term_first_posting));
    out["term_seed_code"] = padded(std::move(built.term_seed_code));
    out["narrow_chunk"] = padded(std::move(built.narrow_chunk));
    out["run_start"] = padded(std::move(built.run_start));
    out["cluster_max"] = padded(std::move(built.cluster_max));
    out["segment_max"] = padded(std::move(built.segment_max));
    out["segment_sum"] = padded(std::move(built.segment_sum));
    out["block_max"] = padded(std::move(built.block_max));
    out["posting_id"] = padded(std::move(built.posting_id));
    out["posting_code"] = padded(std::move(built.posting_code));
    return nb::typed<nb::dict, nb::str, nb::object>(std::move(out));
}

}  // namespace

void register_build(nb::module_& module) {
    using namespace nb::literals;
    const auto define = [&]<class Code>(Code) {
        module.def("order_by_similarity", &order<Code>, "indptr"_a, "terms"_a, "codes"_a.noconvert(), "num_terms"_a,
                   "cluster_first"_a, "rows"_a.noconvert(), "threads"_a,
                   "Reorder `rows` in place so that similar documents of a cluster are neighbours.");
        module.def("build_arrays", &build<Code>, "indptr"_a, "terms"_a, "codes"_a.noconvert(), "num_terms"_a,
                   "cluster_first"_a, "rows"_a, "segments"_a, "num_segments"_a,
                   "The arrays of an index, by name; term_scale is the caller's.");
    };
    define(std::uint8_t{});
    define(std::uint16_t{});
}

}  // namespace segmax::bindings
