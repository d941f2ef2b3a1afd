// The index object: made from arrays, asked for its counts and documents.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <stdexcept>

#include "arrays.hpp"
#include "py_index.hpp"
#include "registers.hpp"
#include "segmax/base/errors.hpp"

namespace segmax::bindings {

namespace {

template <class T>
std::span<const T> typed(const nb::dict& arrays, const char* name) {
    const auto array = nb::cast<AnyArray>(arrays[name]);
    const std::size_t bytes = array.size() * array.itemsize();
    if (bytes % sizeof(T) != 0 || reinterpret_cast<std::uintptr_t>(array.data()) % alignof(T) != 0) {
        throw FormatError(std::string("the index is damaged: ") + name + " is not a whole number of entries");
    }
    return {static_cast<const T*>(array.data()), bytes / sizeof(T)};
}

void init_index(PyIndex* self, std::uint32_t num_docs, std::uint32_t num_terms, std::uint32_t num_segments,
                std::uint32_t code_bytes, std::uint32_t head_ratio, nb::dict arrays) {
    IndexArrays a;
    a.num_docs = num_docs;
    a.num_terms = num_terms;
    a.num_segments = num_segments;
    a.code_bytes = code_bytes;
    a.head_ratio = head_ratio;
    a.cluster_first_position = typed<std::uint32_t>(arrays, "cluster_first_position");
    a.cluster_num_docs = typed<std::uint32_t>(arrays, "cluster_num_docs");
    a.position_row = typed<std::uint32_t>(arrays, "position_row");
    a.term_first_pair = typed<std::uint64_t>(arrays, "term_first_pair");
    a.term_first_posting = typed<std::uint64_t>(arrays, "term_first_posting");
    a.term_first_byte = typed<std::uint64_t>(arrays, "term_first_byte");
    a.term_first_entry = typed<std::uint64_t>(arrays, "term_first_entry");
    a.term_scale = typed<double>(arrays, "term_scale");
    a.term_seed_code = typed<std::byte>(arrays, "term_seed_code");
    a.narrow_cluster = typed<std::uint32_t>(arrays, "narrow_cluster");
    a.cluster_max = typed<std::byte>(arrays, "cluster_max");
    a.segment_max = typed<std::byte>(arrays, "segment_max");
    a.segment_sum = typed<std::byte>(arrays, "segment_sum");
    a.level = typed<std::byte>(arrays, "level");
    a.block_max = typed<std::uint8_t>(arrays, "block_max");
    a.span_max = typed<std::uint8_t>(arrays, "span_max");
    a.run_start = typed<std::uint32_t>(arrays, "run_start");
    a.run_bytes = typed<std::uint8_t>(arrays, "run_bytes");
    a.entry_block = typed<std::uint16_t>(arrays, "entry_block");
    a.entry_max = typed<std::byte>(arrays, "entry_max");
    a.entry_mask = typed<std::uint8_t>(arrays, "entry_mask");
    a.group_start = typed<std::uint32_t>(arrays, "group_start");
    a.entry_code = typed<std::byte>(arrays, "entry_code");
    new (self) PyIndex(a, std::move(arrays));
}

nb::tuple vectors(const PyIndex& self, const Array<std::int64_t>& rows) {
    const std::vector<Position> positions = self.positions_of(view(rows));
    DocumentVectors found;
    {
        const nb::gil_scoped_release release;
        found = document_vectors(self.get(), positions);
    }
    return nb::make_tuple(owned(std::move(found.indptr)), owned(std::move(found.terms)), owned(std::move(found.codes)));
}

std::uint32_t cluster_of(const PyIndex& self, std::uint32_t row) {
    return self.get().cluster_of(self.position_of(row));
}

nb::object cluster_sizes(const PyIndex& self) {
    const auto sizes = self.get().arrays().cluster_num_docs;
    return owned(std::vector<std::uint32_t>(sizes.begin(), sizes.end()));
}

}  // namespace

void register_index(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<PyIndex>(module, "Index", "A checked view of the arrays of an index; immutable, safe to share.")
        .def("__init__", &init_index,
             nb::sig("def __init__(self, num_docs: int, num_terms: int, num_segments: int, code_bytes: int, "
                     "head_ratio: int, arrays: dict[str, numpy.typing.NDArray[typing.Any]]) -> None"),
             "num_docs"_a, "num_terms"_a, "num_segments"_a, "code_bytes"_a, "head_ratio"_a, "arrays"_a)
        .def_prop_ro("num_docs", [](const PyIndex& self) { return self.get().num_docs(); })
        .def_prop_ro("num_terms", [](const PyIndex& self) { return self.get().num_terms(); })
        .def_prop_ro("num_segments", [](const PyIndex& self) { return self.get().num_segments(); })
        .def_prop_ro("num_clusters", [](const PyIndex& self) { return self.get().num_clusters(); })
        .def_prop_ro("num_blocks", [](const PyIndex& self) { return self.get().num_blocks(); })
        .def("vectors", &vectors,
             nb::sig("def vectors(self, rows: numpy.typing.NDArray[numpy.int64]) -> "
                     "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.uint32], "
                     "numpy.typing.NDArray[numpy.uint32]]"),
             "rows"_a, "The stored documents as (indptr, terms, codes).")
        .def("cluster_of", &cluster_of, "row"_a, "The cluster that a document is in.")
        .def("cluster_sizes", &cluster_sizes, nb::sig("def cluster_sizes(self) -> numpy.typing.NDArray[numpy.uint32]"),
             "The number of documents in every cluster.");
}

}  // namespace segmax::bindings
