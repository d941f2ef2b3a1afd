// Searching several indexes as one: lattices, masks and parts.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "checks.hpp"
#include "interrupt.hpp"
#include "py_index.hpp"
#include "registers.hpp"
#include "search_results.hpp"
#include "segmax/search/parts.hpp"

namespace segmax::bindings {

namespace {

/// The parts of one state of a collection, with what keeps their memory alive.
class PyParts {
public:
    PyParts(const PyLattice& lattice, std::vector<const PyIndex*> indexes, std::vector<Array<std::int64_t>> numbers,
            const nb::sequence& masks)
        : lattice_(lattice.lattice), numbers_(std::move(numbers)) {
        require_one_length("indexes", indexes.size(), "numbers", numbers_.size());
        for (std::size_t i = 0; i < indexes.size(); ++i) {
            require(indexes[i] != nullptr, "expected an Index for each part, got None");
            indexes_.push_back(indexes[i]->with_lattice(lattice_));
            const Index& index = indexes_.back().get();
            require_one_length("the documents of a part", index.num_docs(), "its numbers", numbers_[i].size());
            parts_.push_back({&index, view(numbers_[i])});
            num_docs_ += index.num_docs();
        }
        masks_ = checked_masks(masks);
    }

    const Lattice& lattice() const { return *lattice_; }
    std::span<const Part> parts() const { return parts_; }
    const PartMasks& masks() const { return masks_; }
    std::size_t num_docs() const { return num_docs_; }

    /// A mask or None for each part.
    PartMasks checked_masks(const nb::sequence& given) const {
        PartMasks masks;
        for (const nb::handle one : given) {
            const auto* mask = one.is_none() ? nullptr : nb::cast<const PyMask*>(one);
            masks.push_back(mask == nullptr ? nullptr : mask->mask);
        }
        require_one_length("parts", parts_.size(), "masks", masks.size());
        for (std::size_t i = 0; i < masks.size(); ++i) require_mask(*parts_[i].index, masks[i].get());
        return masks;
    }

    void check(const SearchParams& params) const {
        require(!params.mask, "expected a mask for each part, got one in SearchParams");
        require(!params.floor || params.floor->row == kNoRow, "expected a floor without a row, got one with a row");
    }

private:
    std::shared_ptr<const Lattice> lattice_;
    std::vector<PyIndex> indexes_;
    std::vector<Array<std::int64_t>> numbers_;
    std::vector<Part> parts_;
    PartMasks masks_;
    std::size_t num_docs_ = 0;
};

/// Results as rectangular arrays, padded with number -1, score 0, part 0 and row 0.
struct Output {
    Output(std::size_t queries, std::size_t k)
        : k(k),
          numbers(checked_product(queries, k), -1),
          scores(queries * k, 0.0),
          counts(queries, 0),
          parts(queries * k, 0),
          rows(queries * k, 0),
          stats(queries * kStatsFields, 0) {}

    void store(std::size_t query, const PartsResult& result, double scale) {
        for (std::size_t i = 0; i < result.hits.size(); ++i) {
            const PartHit& hit = result.hits[i];
            numbers[query * k + i] = hit.number;
            scores[query * k + i] = static_cast<double>(hit.score) * scale;
            parts[query * k + i] = hit.part;
            rows[query * k + i] = hit.row;
        }
        counts[query] = static_cast<std::int64_t>(result.hits.size());
        const auto fields = std::bit_cast<StatsRow>(result.stats);
        std::copy(fields.begin(), fields.end(), stats.begin() + static_cast<std::ptrdiff_t>(query * kStatsFields));
    }

    std::size_t k;
    std::vector<std::int64_t> numbers;
    std::vector<double> scores;
    std::vector<std::int64_t> counts;
    std::vector<std::uint32_t> parts, rows;
    std::vector<std::uint64_t> stats;
};

nb::tuple search_one(const PyParts& self, nb::handle terms, nb::handle weights, std::size_t k,
                     const SearchParams& params, const nb::object& given_masks) {
    const Buffer<std::int64_t> term_buffer(terms);
    const Buffer<double> weight_buffer(weights);
    require_one_length("terms", term_buffer.size(), "weights", weight_buffer.size());
    self.check(params);
    k = checked_k(k, self.num_docs());
    PartMasks own;
    if (!given_masks.is_none()) own = self.checked_masks(nb::cast<nb::sequence>(given_masks));
    const PartMasks& masks = given_masks.is_none() ? self.masks() : own;
    SearchParams interruptible = params;
    PartsResult result;
    const PreparedQuery query = prepare_query(self.lattice(), term_buffer.view(), weight_buffer.view(), params);
    run_interruptible([&] {
        interruptible.stop = SignalPoll();
        result = search_parts(self.parts(), masks, query, k, interruptible);
    });
    Output out(1, result.hits.size());
    out.store(0, result, query.scale);
    return nb::make_tuple(copied<std::int64_t>(out.numbers), copied<double>(out.scores),
                          copied<std::uint32_t>(out.parts), copied<std::uint32_t>(out.rows),
                          copied<std::uint64_t>(out.stats));
}

/// Masks for all queries, or for each of them.
std::vector<PartMasks> batch_masks(const PyParts& self, const nb::object& given, std::size_t queries) {
    if (given.is_none()) return {self.masks()};
    const auto list = nb::cast<nb::sequence>(given);
    const bool each = nb::len(list) > 0 ? nb::isinstance<nb::sequence>(list[0]) : queries == 0;
    if (!each) return {self.checked_masks(list)};
    require(nb::len(list) == queries, "expected masks for all queries, or for each query");
    std::vector<PartMasks> masks;
    for (const nb::handle one : list) masks.push_back(self.checked_masks(nb::cast<nb::sequence>(one)));
    return masks;
}

nb::tuple search_batch(const PyParts& self, const Array<std::int64_t>& indptr, const Array<std::int64_t>& terms,
                       const Array<double>& weights, const Array<std::int64_t>& k,
                       const std::vector<const SearchParams*>& params, unsigned threads,
                       const nb::object& given_masks) {
    const std::size_t queries = checked_batch(indptr, terms, weights, params, threads);
    for (const SearchParams* some : params) self.check(*some);
    const std::vector<PartMasks> masks = batch_masks(self, given_masks, queries);
    const std::vector<std::size_t> ks = checked_ks(view(k), queries, self.num_docs());
    const Batch batch{view(indptr), view(terms), view(weights), ks, params};
    Output out(queries, ks.empty() ? 0 : *std::max_element(ks.begin(), ks.end()));
    run_interruptible([&] {
        search_parts_batch(
            self.lattice(), self.parts(), masks, batch, threads,
            [&](std::size_t i, const PartsResult& result, double scale) { out.store(i, result, scale); }, SignalPoll());
    });
    return nb::make_tuple(owned(std::move(out.numbers), {queries, out.k}),
                          owned(std::move(out.scores), {queries, out.k}), owned(std::move(out.counts)),
                          owned(std::move(out.parts), {queries, out.k}), owned(std::move(out.rows), {queries, out.k}),
                          owned(std::move(out.stats), {queries, kStatsFields}));
}

void init_lattice(PyLattice* self, const Array<double>& term_scale, const Array<std::uint32_t>& largest, bool wide) {
    const auto scales = view(term_scale);
    const auto codes = view(largest);
    new (self) PyLattice{std::make_shared<const Lattice>(std::vector(scales.begin(), scales.end()),
                                                         std::vector(codes.begin(), codes.end()), wide)};
}

void init_mask(PyMask* self, const PyIndex& index, const Array<bool>& rows) {
    require(rows.size() == index.get().num_docs(), "expected a mask with an entry for each row");
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(rows.data()), rows.size());
    std::shared_ptr<const Mask> mask;
    {
        const nb::gil_scoped_release release;
        mask = std::make_shared<const Mask>(index.get(), bytes, [&] { return index.positions(); });
    }
    new (self) PyMask{std::move(mask)};
}

}  // namespace

void register_masks(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<PyLattice>(module, "Lattice",
                          "The scale and the largest code of every term, which queries become integers by; immutable.")
        .def("__init__", &init_lattice, "term_scale"_a, "largest"_a, "wide"_a,
             "`largest` is 0 for terms that no document has; `wide` says whether codes may pass 8 bits.")
        .def_prop_ro("num_terms", [](const PyLattice& self) { return self.lattice->num_terms(); });
    nb::class_<PyMask>(module, "Mask", "The rows of an index that a search may return; immutable.")
        .def("__init__", &init_mask, "index"_a, "rows"_a, "Those that are True here.")
        .def_prop_ro("count", [](const PyMask& self) { return self.mask->count(); }, "The number of rows.");
    nb::borrow<nb::class_<PyIndex>>(module.attr("Index"))
        .def(
            "with_lattice",
            [](const PyIndex& self, const PyLattice& lattice) { return self.with_lattice(lattice.lattice); },
            "lattice"_a, "The same index, with queries prepared by a lattice that it shares with others.");
}

void register_parts(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<PyParts>(module, "Parts", "Several indexes searched as one; immutable, safe to share.")
        .def(nb::init<const PyLattice&, std::vector<const PyIndex*>, std::vector<Array<std::int64_t>>,
                      const nb::sequence&>(),
             nb::sig("def __init__(self, lattice: Lattice, indexes: collections.abc.Sequence[Index], numbers: "
                     "collections.abc.Sequence[numpy.typing.NDArray[numpy.int64]], "
                     "masks: collections.abc.Sequence[Mask | None]) -> None"),
             "lattice"_a, "indexes"_a, "numbers"_a, "masks"_a,
             "`numbers` are the insertion numbers of each index, by row, ascending.")
        .def("search_one", &search_one,
             nb::sig("def search_one(self, terms: numpy.typing.NDArray[numpy.int64], weights: "
                     "numpy.typing.NDArray[numpy.float64], k: int, params: SearchParams, "
                     "masks: collections.abc.Sequence[Mask | None] | None = None) -> "
                     "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.float64], "
                     "numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint32], "
                     "numpy.typing.NDArray[numpy.uint64]]"),
             "terms"_a, "weights"_a, "k"_a, "params"_a, "masks"_a = nb::none(),
             "One query: (numbers, scores, parts, rows, stats). `masks` take the place of the parts' own.")
        .def("search_batch", &search_batch,
             nb::sig("def search_batch(self, indptr: numpy.typing.NDArray[numpy.int64], terms: "
                     "numpy.typing.NDArray[numpy.int64], weights: numpy.typing.NDArray[numpy.float64], "
                     "k: numpy.typing.NDArray[numpy.int64], params: collections.abc.Sequence[SearchParams], "
                     "threads: int, masks: collections.abc.Sequence[Mask | None] | "
                     "collections.abc.Sequence[collections.abc.Sequence[Mask | None]] | None = None) -> "
                     "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.float64], "
                     "numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.uint32], "
                     "numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint64]]"),
             "indptr"_a, "terms"_a, "weights"_a, "k"_a, "params"_a, "threads"_a, "masks"_a = nb::none(),
             "All queries, with one k, SearchParams and masks for all or for each: (numbers, scores, counts, parts, "
             "rows, stats), padded with number -1 and score 0.");
}

}  // namespace segmax::bindings
