// The index object: made from arrays, with its counts and documents.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <type_traits>

#include "arrays.hpp"
#include "checks.hpp"
#include "py_index.hpp"
#include "registers.hpp"
#include "segmax/base/errors.hpp"
#include "segmax/index/components.hpp"

namespace segmax::bindings {

namespace {

/// What opening an index does about an array: see components.hpp.
enum class Check { checked, unchecked, optional };

template <class T>
std::span<const T> typed(const nb::dict& arrays, const char* name, Check check) {
    if (check == Check::optional && !arrays.contains(name)) return {};
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
    using Code = IndexArrays::Code;
#define SEGMAX_TAKE(name, entry, check) a.name = typed<entry>(arrays, #name, Check::check);
    SEGMAX_COMPONENTS(SEGMAX_TAKE)
#undef SEGMAX_TAKE
    new (self) PyIndex(a, std::move(arrays));
}

/// The type of an entry as numpy names it; "code" where the index chooses the width.
template <class Entry>
std::string type_name() {
    if constexpr (std::is_same_v<Entry, IndexArrays::Code>) return "code";
    const char* kind = std::is_floating_point_v<Entry> ? "<f" : sizeof(Entry) == 1 ? "u" : "<u";
    return kind + std::to_string(sizeof(Entry));
}

/// The table of components for Python.
nb::list components() {
    using Code = IndexArrays::Code;
    nb::list table;
#define SEGMAX_ROW(name, entry, check) \
    table.append(                      \
        nb::make_tuple(#name, type_name<entry>(), Check::check == Check::checked, Check::check == Check::optional));
    SEGMAX_COMPONENTS(SEGMAX_ROW)
#undef SEGMAX_ROW
    return table;
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

template <class Code>
nb::tuple documents_as(const Index& index, Position first, Position last) {
    DocumentRange<Code> found;
    {
        const nb::gil_scoped_release release;
        found = document_range<Code>(index, first, last);
    }
    return nb::make_tuple(owned(std::move(found.rows)), owned(std::move(found.indptr)), owned(std::move(found.terms)),
                          owned(std::move(found.codes)));
}

nb::tuple documents(const PyIndex& self, std::uint32_t first, std::uint32_t last) {
    const Index& index = self.get();
    require(first <= last && last <= index.num_positions(), "expected a range of the positions");
    return index.arrays().code_bytes == 1 ? documents_as<std::uint8_t>(index, first, last)
                                          : documents_as<std::uint16_t>(index, first, last);
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
    module.def(
        "components", &components, nb::sig("def components() -> list[tuple[str, str, bool, bool]]"),
        "The arrays of an index: name, type of an entry ('code': as wide as the index says), whether opening checks "
        "its bytes, and whether an index may lack it.");
    nb::class_<PyIndex>(module, "Index", "A checked view of the arrays of an index; immutable, safe to share.")
        .def("__init__", &init_index,
             nb::sig("def __init__(self, num_docs: int, num_terms: int, num_segments: int, code_bytes: int, "
                     "head_ratio: int, arrays: dict[str, numpy.typing.NDArray[typing.Any]]) -> None"),
             "num_docs"_a, "num_terms"_a, "num_segments"_a, "code_bytes"_a, "head_ratio"_a, "arrays"_a)
        .def_prop_ro("num_docs", [](const PyIndex& self) { return self.get().num_docs(); })
        .def_prop_ro("num_terms", [](const PyIndex& self) { return self.get().num_terms(); })
        .def_prop_ro("num_segments", [](const PyIndex& self) { return self.get().num_segments(); })
        .def_prop_ro("num_clusters", [](const PyIndex& self) { return self.get().num_clusters(); })
        .def_prop_ro("num_positions", [](const PyIndex& self) { return self.get().num_positions(); })
        .def_prop_ro("num_blocks", [](const PyIndex& self) { return self.get().num_blocks(); })
        .def("vectors", &vectors,
             nb::sig("def vectors(self, rows: numpy.typing.NDArray[numpy.int64]) -> "
                     "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.uint32], "
                     "numpy.typing.NDArray[numpy.uint32]]"),
             "rows"_a, "The stored documents as (indptr, terms, codes).")
        .def("documents", &documents,
             nb::sig("def documents(self, first_position: int, last_position: int) -> "
                     "tuple[numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.int64], "
                     "numpy.typing.NDArray[numpy.uint32], "
                     "numpy.typing.NDArray[numpy.uint8] | numpy.typing.NDArray[numpy.uint16]]"),
             "first_position"_a, "last_position"_a,
             "The documents of a range of positions as (rows, indptr, terms, codes); faster than `vectors` for many.")
        .def("cluster_of", &cluster_of, "row"_a, "The cluster that a document is in.")
        .def("cluster_sizes", &cluster_sizes, nb::sig("def cluster_sizes(self) -> numpy.typing.NDArray[numpy.uint32]"),
             "The number of documents in every cluster.");
}

}  // namespace segmax::bindings
