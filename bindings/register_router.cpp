// Queries and shards: queries become integers once, and maxima say what every shard may have for them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "checks.hpp"
#include "py_index.hpp"
#include "registers.hpp"
#include "search_results.hpp"
#include "segmax/search/maxima.hpp"
#include "segmax/search/query.hpp"

namespace segmax::bindings {

namespace {

/// Queries as integers, one after the other, and what each integer is worth.
nb::tuple prepare(const PyLattice& self, const Array<std::int64_t>& indptr, const Array<std::int64_t>& terms,
                  const Array<double>& weights, const std::vector<const SearchParams*>& params) {
    const std::size_t queries = checked_batch(indptr, terms, weights, params, 1);
    std::vector<std::int64_t> out_indptr{0}, out_terms;
    std::vector<double> out_weights, scales;
    std::vector<std::uint64_t> counts;
    const auto offsets = view(indptr);
    for (std::size_t i = 0; i < queries; ++i) {
        const auto first = static_cast<std::size_t>(offsets[i]);
        const auto size = static_cast<std::size_t>(offsets[i + 1]) - first;
        const SearchParams& own = *params[params.size() == 1 ? 0 : i];
        const PreparedQuery query =
            prepare_query(*self.lattice, view(terms).subspan(first, size), view(weights).subspan(first, size), own);
        for (const QueryTerm& term : query.terms) {
            out_terms.push_back(term.term);
            out_weights.push_back(term.weight);
        }
        out_indptr.push_back(static_cast<std::int64_t>(out_terms.size()));
        scales.push_back(query.scale);
        counts.push_back(query.unknown_terms);
        counts.push_back(num_dropped(query, own));
    }
    return nb::make_tuple(owned(std::move(out_indptr)), owned(std::move(out_terms)), owned(std::move(out_weights)),
                          owned(std::move(scales)), owned(std::move(counts), {queries, 2}));
}

/// Maxima as Python holds them.
struct PyMaxima {
    nb::object owner;
    Maxima maxima;
};

void init_maxima(PyMaxima* self, std::uint32_t num_quartets, const Array<std::uint64_t>& first_mark,
                 const Array<std::uint64_t>& first_value, const Array<std::uint8_t>& marks,
                 const Array<std::uint8_t>& values, const Array<std::uint32_t>& shard_first_quartet,
                 const Array<std::uint16_t>& tops) {
    const MaximaArrays arrays{num_quartets, view(first_mark),          view(first_value), view(marks),
                              view(values), view(shard_first_quartet), view(tops)};
    const auto keep = [](const auto& array) { return nb::cast(array); };
    nb::object owner = nb::make_tuple(keep(first_mark), keep(first_value), keep(marks), keep(values),
                                      keep(shard_first_quartet), keep(tops));
    new (self) PyMaxima{std::move(owner), Maxima(arrays)};
}

/// Calls use(i, query) for queries that are integers already.
template <class Use>
std::size_t each_query(const Array<std::int64_t>& indptr, const Array<std::int64_t>& terms,
                       const Array<double>& weights, Use&& use) {
    require_one_length("terms", terms.size(), "weights", weights.size());
    require_offsets("indptr", view(indptr), terms.size());
    for (const double weight : view(weights)) {
        require(weight >= 1 && weight <= kMaxQueryWeight && weight == std::floor(weight), "expected prepared queries");
    }
    for (const std::int64_t term : view(terms)) require(term >= 0 && term < kNoRow, "expected prepared queries");
    const auto offsets = view(indptr);
    const std::size_t queries = offsets.size() - 1;
    const nb::gil_scoped_release release;
    PreparedQuery query;
    for (std::size_t i = 0; i < queries; ++i) {
        query.terms.clear();
        for (auto at = static_cast<std::size_t>(offsets[i]); at < static_cast<std::size_t>(offsets[i + 1]); ++at) {
            query.terms.push_back(
                {static_cast<std::uint32_t>(terms.data()[at]), static_cast<std::uint32_t>(weights.data()[at])});
        }
        use(query);
    }
    return queries;
}

template <class T>
void append(std::vector<T>& all, const std::vector<T>& some) {
    all.insert(all.end(), some.begin(), some.end());
}

nb::tuple bounds(const PyMaxima& self, const Array<std::int64_t>& indptr, const Array<std::int64_t>& terms,
                 const Array<double>& weights) {
    std::vector<std::uint64_t> most, segment_sum;
    std::vector<double> promise;
    const std::size_t queries = each_query(indptr, terms, weights, [&](const PreparedQuery& query) {
        const ShardBounds found = self.maxima.bounds(query);
        append(most, found.most);
        append(segment_sum, found.segment_sum);
        append(promise, found.promise);
    });
    const std::size_t shards = self.maxima.num_shards();
    return nb::make_tuple(owned(std::move(most), {queries, shards}), owned(std::move(segment_sum), {queries, shards}),
                          owned(std::move(promise), {queries, shards}));
}

nb::object promise(const PyMaxima& self, const Array<std::int64_t>& indptr, const Array<std::int64_t>& terms,
                   const Array<double>& weights) {
    std::vector<double> found;
    const std::size_t queries = each_query(
        indptr, terms, weights, [&](const PreparedQuery& query) { append(found, self.maxima.promise(query)); });
    return owned(std::move(found), {queries, std::size_t{self.maxima.num_shards()}});
}

template <class Code>
void collect(MaximaCollector& self, const Array<std::int64_t>& indptr, const Array<std::uint32_t>& terms,
             const Array<Code>& codes, const Array<std::uint32_t>& units, std::uint32_t num_terms) {
    require_one_length("terms", terms.size(), "codes", codes.size());
    require_one_length("documents", indptr.size() - 1, "units", units.size());
    require_offsets("indptr", view(indptr), terms.size());
    require_below("terms", view(terms), num_terms);
    const nb::gil_scoped_release release;
    self.add(view(indptr), view(terms), view(codes), view(units));
}

/// A collector as Python holds it.
struct PyCollector {
    PyCollector(std::uint32_t num_terms, std::uint32_t most, const Array<double>& scale)
        : num_terms(num_terms), collector(num_terms, most, std::vector(scale.data(), scale.data() + scale.size())) {}

    std::uint32_t num_terms;
    MaximaCollector collector;
};

template <class Code>
void add_documents(PyCollector& self, const Array<std::int64_t>& indptr, const Array<std::uint32_t>& terms,
                   const Array<Code>& codes, const Array<std::uint32_t>& units) {
    collect(self.collector, indptr, terms, codes, units, self.num_terms);
}

nb::tuple pack(const Array<std::uint64_t>& first, const Array<std::uint32_t>& units, const Array<std::uint16_t>& codes,
               const Array<std::uint32_t>& shard_first_quartet, const Array<std::uint16_t>& tops) {
    require_one_length("units", units.size(), "codes", codes.size());
    require_offsets("first", view(first), units.size());
    require(shard_first_quartet.size() >= 2 && tops.size() == (first.size() - 1) * (shard_first_quartet.size() - 1),
            "expected a largest code for every term and shard");
    PackedMaxima packed;
    {
        const nb::gil_scoped_release release;
        packed = pack_maxima(view(first), view(units), view(codes), view(shard_first_quartet), view(tops));
    }
    return nb::make_tuple(owned(std::move(packed.first_mark)), owned(std::move(packed.first_value)),
                          owned(std::move(packed.marks)), owned(std::move(packed.values)));
}

}  // namespace

void register_router(nb::module_& module) {
    using namespace nb::literals;
    nb::borrow<nb::class_<PyLattice>>(module.attr("Lattice"))
        .def("prepare", &prepare,
             nb::sig("def prepare(self, indptr: numpy.typing.NDArray[numpy.int64], terms: "
                     "numpy.typing.NDArray[numpy.int64], weights: numpy.typing.NDArray[numpy.float64], params: "
                     "collections.abc.Sequence[SearchParams]) -> tuple[numpy.typing.NDArray[numpy.int64], "
                     "numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.float64], "
                     "numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.uint64]]"),
             "indptr"_a, "terms"_a, "weights"_a, "params"_a,
             "Queries as integers: (indptr, terms, weights, what 1 is worth, unknown and dropped terms).");
    nb::class_<PyMaxima>(module, "Maxima", "The largest codes of terms in groups of documents; immutable.")
        .def("__init__", &init_maxima, "num_quartets"_a, "first_mark"_a, "first_value"_a, "marks"_a, "values"_a,
             "shard_first_quartet"_a, "tops"_a)
        .def("bounds", &bounds,
             nb::sig("def bounds(self, indptr: numpy.typing.NDArray[numpy.int64], terms: "
                     "numpy.typing.NDArray[numpy.int64], weights: numpy.typing.NDArray[numpy.float64]) -> "
                     "tuple[numpy.typing.NDArray[numpy.uint64], numpy.typing.NDArray[numpy.uint64], "
                     "numpy.typing.NDArray[numpy.float64]]"),
             "indptr"_a, "terms"_a, "weights"_a,
             "By prepared query and shard: the best MaxSBound, 4 times the best AvgSBound, and what to order by.")
        .def("promise", &promise,
             nb::sig("def promise(self, indptr: numpy.typing.NDArray[numpy.int64], terms: "
                     "numpy.typing.NDArray[numpy.int64], weights: numpy.typing.NDArray[numpy.float64]) -> "
                     "numpy.typing.NDArray[numpy.float64]"),
             "indptr"_a, "terms"_a, "weights"_a, "By prepared query and shard: what to order by.");
    nb::class_<PyCollector>(module, "MaximaCollector", "Finds the largest code of every term in every unit.")
        .def(nb::init<std::uint32_t, std::uint32_t, const Array<double>&>(), "num_terms"_a, "most"_a, "scale"_a,
             "`most` terms of every unit are kept, the heaviest by code * scale; 0 keeps all.")
        .def("add", &add_documents<std::uint8_t>, "indptr"_a, "terms"_a, "codes"_a, "units"_a)
        .def("add", &add_documents<std::uint16_t>, "indptr"_a, "terms"_a, "codes"_a, "units"_a,
             "Take in documents, each of one unit; those of a unit come together, units of later calls are larger.")
        .def(
            "finish",
            [](const PyCollector& self) {
                CollectedMaxima found = self.collector.finish();
                return nb::make_tuple(owned(std::move(found.counts)), owned(std::move(found.units)),
                                      owned(std::move(found.codes)));
            },
            nb::sig("def finish(self) -> tuple[numpy.typing.NDArray[numpy.uint32], "
                    "numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint16]]"),
            "By term how many units have it; then units, ascending, and codes, term by term.");
    module.def("pack_maxima", &pack,
               nb::sig("def pack_maxima(first: numpy.typing.NDArray[numpy.uint64], units: "
                       "numpy.typing.NDArray[numpy.uint32], codes: numpy.typing.NDArray[numpy.uint16], "
                       "shard_first_quartet: numpy.typing.NDArray[numpy.uint32], tops: "
                       "numpy.typing.NDArray[numpy.uint16]) -> tuple[numpy.typing.NDArray[numpy.uint64], "
                       "numpy.typing.NDArray[numpy.uint64], numpy.typing.NDArray[numpy.uint8], "
                       "numpy.typing.NDArray[numpy.uint8]]"),
               "first"_a, "units"_a, "codes"_a, "shard_first_quartet"_a, "tops"_a,
               "Maxima, given term by term, as `Maxima` takes them: (first_mark, first_value, marks, values).");
}

}  // namespace segmax::bindings
