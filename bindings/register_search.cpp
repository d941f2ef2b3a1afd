// Searching: CSR queries in, padded arrays out, the GIL released in between.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "checks.hpp"
#include "interrupt.hpp"
#include "py_index.hpp"
#include "registers.hpp"
#include "search_results.hpp"
#include "segmax/search/batch.hpp"
#include "segmax/search/search.hpp"

namespace segmax::bindings {

namespace {

nb::dict stats_fields() {
    nb::dict fields;
#define SEGMAX_PUT(name, meaning) fields[#name] = meaning;
    SEGMAX_STATS(SEGMAX_PUT)
#undef SEGMAX_PUT
    return fields;
}

/// Results as rectangular arrays, padded with row -1 and score 0. A Score is what users see, or the integer itself.
template <class Score>
struct Output {
    Output(std::size_t queries, std::size_t k)
        : k(k),
          rows(checked_product(queries, k), -1),
          scores(queries * k, Score{0}),
          counts(queries, 0),
          stats(queries * kStatsFields, 0) {}

    void store(std::size_t query, const SearchResult& result, double scale) {
        for (std::size_t i = 0; i < result.rows.size(); ++i) {
            rows[query * k + i] = result.rows[i];
            if constexpr (std::is_integral_v<Score>) {
                scores[query * k + i] = static_cast<Score>(result.scores[i]);
            } else {
                scores[query * k + i] = static_cast<Score>(result.scores[i]) * scale;
            }
        }
        counts[query] = static_cast<std::int64_t>(result.rows.size());
        const auto fields = std::bit_cast<StatsRow>(result.stats);
        std::copy(fields.begin(), fields.end(), stats.begin() + static_cast<std::ptrdiff_t>(query * kStatsFields));
    }

    std::size_t k;
    std::vector<std::int64_t> rows;
    std::vector<Score> scores;
    std::vector<std::int64_t> counts;
    std::vector<std::uint64_t> stats;
};

/// A row of any number; one below 0 is behind all rows.
Row floor_row(std::int64_t row) {
    return row < 0 ? kNoRow : static_cast<Row>(std::min<std::int64_t>(row, kNoRow));
}

/// The floor of a query; a score of 0 is none.
std::optional<IntegerFloor> given_floor(std::int64_t score, std::int64_t row) {
    if (score <= 0) return std::nullopt;
    return IntegerFloor{static_cast<std::uint64_t>(score), floor_row(row)};
}

PreparedQuery checked_query(const PyIndex& self, std::span<const std::int64_t> terms, std::span<const double> weights,
                            const SearchParams& params = SearchParams()) {
    require_one_length("terms", terms.size(), "weights", weights.size());
    return prepare_query(self.lattice(), terms, weights, params);
}

/// Searches for many queries. Floors by query, as integers, take the place of those of the parameters; none if empty.
template <class Score>
nb::tuple searched_batch(const PyIndex& self, const Array<std::int64_t>& indptr, const Array<std::int64_t>& terms,
                         const Array<double>& weights, const Array<std::int64_t>& k,
                         const std::vector<const SearchParams*>& params, unsigned threads,
                         std::span<const std::int64_t> floor_scores, std::span<const std::int64_t> floor_rows) {
    const std::size_t queries = checked_batch(indptr, terms, weights, params, threads);
    for (const SearchParams* some : params) require_mask(self.get(), some->mask.get());
    const std::vector<std::size_t> ks = checked_ks(view(k), queries, self.get().num_docs());
    require_one_length("floor_scores", floor_scores.size(), "floor_rows", floor_rows.size());
    require(floor_scores.empty() || floor_scores.size() == queries, "expected no floors, or one for each query");
    const Batch batch{view(indptr), view(terms), view(weights), ks, params};
    Output<Score> out(queries, ks.empty() ? 0 : *std::max_element(ks.begin(), ks.end()));
    const auto floor_of = [&](std::size_t i, const PreparedQuery& query, const SearchParams& own) {
        if (floor_scores.empty()) return integer_floor(own, query.scale);
        return given_floor(floor_scores[i], floor_rows[i]);
    };
    run_interruptible([&] {
        run_batch(
            self.lattice(), batch, threads,
            [&](std::size_t i, const PreparedQuery& query, std::size_t own_k, const SearchParams& own) {
                out.store(i, search(self.get(), query, own_k, own, floor_of(i, query, own)), query.scale);
            },
            SignalPoll());
    });
    return nb::make_tuple(owned(std::move(out.rows), {queries, out.k}), owned(std::move(out.scores), {queries, out.k}),
                          owned(std::move(out.counts)), owned(std::move(out.stats), {queries, kStatsFields}));
}

nb::tuple search_batch(const PyIndex& self, const Array<std::int64_t>& indptr, const Array<std::int64_t>& terms,
                       const Array<double>& weights, const Array<std::int64_t>& k,
                       const std::vector<const SearchParams*>& params, unsigned threads) {
    return searched_batch<double>(self, indptr, terms, weights, k, params, threads, {}, {});
}

/// The same in the integers of queries: doubles would round sums above 2^53, and floors and ties have to be exact.
nb::tuple search_integers(const PyIndex& self, const Array<std::int64_t>& indptr, const Array<std::int64_t>& terms,
                          const Array<double>& weights, const Array<std::int64_t>& k,
                          const std::vector<const SearchParams*>& params, unsigned threads,
                          const Array<std::int64_t>& floor_scores, const Array<std::int64_t>& floor_rows) {
    return searched_batch<std::int64_t>(self, indptr, terms, weights, k, params, threads, view(floor_scores),
                                        view(floor_rows));
}

/// One query: what search_batch would do, with less around it: (rows, scores, stats), as many as were found.
nb::tuple search_one(const PyIndex& self, nb::handle terms, nb::handle weights, std::size_t k,
                     const SearchParams& params) {
    const PreparedQuery query =
        checked_query(self, Buffer<std::int64_t>(terms).view(), Buffer<double>(weights).view(), params);
    k = checked_k(k, self.get().num_docs());
    require_mask(self.get(), params.mask.get());
    SearchParams interruptible = params;
    SearchResult result;
    run_interruptible([&] {
        interruptible.stop = SignalPoll();
        result = search(self.get(), query, k, interruptible);
    });
    Output<double> out(1, result.rows.size());
    out.store(0, result, query.scale);
    return nb::make_tuple(copied<std::int64_t>(out.rows), copied<double>(out.scores), copied<std::uint64_t>(out.stats));
}

template <class T, class Get>
nb::object column(const std::vector<TraceEntry>& trace, Get get) {
    std::vector<T> values;
    values.reserve(trace.size());
    for (const TraceEntry& entry : trace) values.push_back(static_cast<T>(get(entry)));
    return owned(std::move(values));
}

/// One query with its trace: (rows, scores, stats, trace columns, watched, scale, threshold estimate, kept terms).
nb::tuple trace(const PyIndex& self, const Array<std::int64_t>& terms, const Array<double>& weights, std::size_t k,
                const SearchParams& params, std::int64_t watch_row) {
    SearchParams traced = params;
    traced.trace = true;
    if (watch_row >= 0) traced.watch = self.position_of(watch_row);
    const PreparedQuery query = checked_query(self, view(terms), view(weights), params);
    k = checked_k(k, self.get().num_docs());
    require_mask(self.get(), params.mask.get());
    SearchResult result;
    run_interruptible([&] {
        traced.stop = SignalPoll();
        result = search(self.get(), query, k, traced);
    });
    Output<double> out(1, result.rows.size());
    out.store(0, result, query.scale);
    nb::dict columns;
    columns["cluster"] = column<std::uint32_t>(result.trace, [](auto& e) { return e.cluster; });
    columns["decision"] = column<std::uint8_t>(result.trace, [](auto& e) { return e.decision; });
    columns["bound_sum"] = column<std::uint64_t>(result.trace, [](auto& e) { return e.bound_sum; });
    columns["max_bound"] = column<std::uint64_t>(result.trace, [](auto& e) { return e.max_bound; });
    columns["segment_sum"] = column<std::uint64_t>(result.trace, [](auto& e) { return e.segment_sum; });
    columns["threshold"] = column<std::uint64_t>(result.trace, [](auto& e) { return e.threshold; });
    columns["threshold_row"] = column<std::uint32_t>(result.trace, [](auto& e) { return e.threshold_row; });
    const auto& watched = result.watched;
    return nb::make_tuple(
        owned(std::move(out.rows)), owned(std::move(out.scores)), owned(std::move(out.stats)), columns,
        nb::make_tuple(static_cast<int>(watched.fate), watched.bound, watched.threshold, watched.needed), query.scale,
        result.threshold_estimate, owned(std::move(result.kept_terms)));
}

std::vector<double> score_rows(const PyIndex& self, const Array<std::int64_t>& terms, const Array<double>& weights,
                               const Array<std::int64_t>& rows) {
    const PreparedQuery query = checked_query(self, view(terms), view(weights));
    const std::vector<Position> positions = self.positions_of(view(rows));
    std::vector<double> scores;
    const nb::gil_scoped_release release;
    for (const std::uint64_t value : score_positions(self.get(), query, positions)) {
        scores.push_back(static_cast<double>(value) * query.scale);
    }
    return scores;
}

nb::object score(const PyIndex& self, const Array<std::int64_t>& terms, const Array<double>& weights,
                 const Array<std::int64_t>& rows) {
    return owned(score_rows(self, terms, weights, rows));
}

/// What the score of one document is made of: (terms, query weights, codes) as integers, and their scale.
nb::tuple matched(const PyIndex& self, const Array<std::int64_t>& terms, const Array<double>& weights,
                  std::int64_t row) {
    const PreparedQuery query = checked_query(self, view(terms), view(weights));
    MatchedTerms found = matched_terms(self.get(), query, self.position_of(row));
    return nb::make_tuple(owned(std::move(found.terms)), owned(std::move(found.weights)), owned(std::move(found.codes)),
                          query.scale);
}

nb::tuple bounds(const PyIndex& self, const Array<std::int64_t>& terms, const Array<double>& weights) {
    const PreparedQuery query = checked_query(self, view(terms), view(weights));
    AllBounds all;
    {
        const nb::gil_scoped_release release;
        all = cluster_bounds(self.get(), query);
    }
    return nb::make_tuple(owned(std::move(all.bound_sum)), owned(std::move(all.max_bound)),
                          owned(std::move(all.segment_sum)), owned(std::move(all.best_score)), query.scale);
}

nb::object get_mask(const SearchParams& params) {
    return params.mask ? nb::cast(PyMask{params.mask}) : nb::none();
}

void set_mask(SearchParams& params, const PyMask* mask) {
    params.mask = mask == nullptr ? nullptr : mask->mask;
}

void set_floor(SearchParams& params, double score, std::int64_t row) {
    require(score >= 0 && std::isfinite(score), "expected a floor with a finite score >= 0");
    params.floor = Floor{score, floor_row(row)};
}

/// A score that no document of the index passes for a query.
double ceiling_of(const PyIndex& self, const Array<std::int64_t>& terms, const Array<double>& weights) {
    const PreparedQuery query = checked_query(self, view(terms), view(weights));
    const nb::gil_scoped_release release;
    return static_cast<double>(ceiling(self.get(), query)) * query.scale;
}

/// Makes the search read these times (nanoseconds) one after the other; the last one stays.
void set_clock(SearchHooks& hooks, std::vector<std::uint64_t> times) {
    if (times.empty()) throw std::invalid_argument("expected at least one time for the clock");
    hooks.clock = [times = std::move(times), at = std::make_shared<std::atomic<std::size_t>>(0)] {
        const std::size_t i = (*at)++;
        return times[i < times.size() ? i : times.size() - 1];
    };
}

}  // namespace

void register_search(nb::module_& module) {
    using namespace nb::literals;
    nb::enum_<Method>(module, "Method")
        .value("exhaustive", Method::exhaustive)
        .value("asc", Method::asc)
        .value("maxscore", Method::maxscore)
        .value("anytime", Method::anytime)
        .value("sequential", Method::sequential);
    nb::enum_<ClusterOrder>(module, "ClusterOrder")
        .value("max_bound", ClusterOrder::max_bound)
        .value("bound_sum", ClusterOrder::bound_sum);
    nb::enum_<DocumentMethod>(module, "DocumentMethod")
        .value("blocks", DocumentMethod::blocks)
        .value("maxscore", DocumentMethod::maxscore);
    nb::class_<SearchHooks>(module, "SearchHooks", "What only tests and experiments change about a search.")
        .def(nb::init<>())
        .def_rw("cluster_order", &SearchHooks::cluster_order)
        .def_rw("documents", &SearchHooks::documents)
        .def_rw("lazy", &SearchHooks::lazy)
        .def_rw("estimate_threshold", &SearchHooks::estimate_threshold)
        .def_rw("sweep", &SearchHooks::sweep)
        .def_rw("list_masked", &SearchHooks::list_masked)
        .def_rw("all_tiles", &SearchHooks::all_tiles)
        .def("set_clock", &set_clock, "times"_a, "Replace the clock, for tests of the time budget.");
    nb::class_<SearchParams>(module, "SearchParams", "How to search; segmax.search.methods holds the public classes.")
        .def(nb::init<>())
        .def_rw("method", &SearchParams::method)
        .def_rw("mu", &SearchParams::mu)
        .def_rw("eta", &SearchParams::eta)
        .def_rw("budget_ms", &SearchParams::budget_ms)
        .def_rw("risk", &SearchParams::risk)
        .def_rw("max_clusters", &SearchParams::max_clusters)
        .def_rw("max_blocks", &SearchParams::max_blocks)
        .def_rw("max_terms", &SearchParams::max_terms)
        .def_rw("query_mass", &SearchParams::query_mass)
        .def_rw("bound_mass", &SearchParams::bound_mass)
        .def_rw("bound_dropped", &SearchParams::bound_dropped)
        .def(
            "copy", [](const SearchParams& self) { return SearchParams(self); }, "The same parameters, to be changed.")
        .def_prop_rw("mask", &get_mask, &set_mask, nb::for_setter(nb::arg("mask").none()),
                     nb::for_getter(nb::sig("def mask(self) -> Mask | None")),
                     nb::for_setter(nb::sig("def mask(self, mask: Mask | None, /) -> None")),
                     "The rows that may be returned; None: all.")
        .def("set_floor", &set_floor, "score"_a, "row"_a,
             "Return only what comes before this result, the last of k that were found elsewhere; row -1 lets results "
             "with its score in.")
        .def_rw("hooks", &SearchParams::hooks);
    module.def("stats_fields", &stats_fields, nb::sig("def stats_fields() -> dict[str, str]"),
               "The columns of the statistics of a search, in order, and what they count.");
    auto index = nb::borrow<nb::class_<PyIndex>>(module.attr("Index"));
    index.def("search_one", &search_one,
              nb::sig("def search_one(self, terms: numpy.typing.NDArray[numpy.int64], weights: "
                      "numpy.typing.NDArray[numpy.float64], k: int, params: SearchParams) -> "
                      "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.float64], "
                      "numpy.typing.NDArray[numpy.uint64]]"),
              "terms"_a, "weights"_a, "k"_a, "params"_a, "One query: (rows, scores, stats).");
    index.def(
        "search_batch", &search_batch,
        nb::sig("def search_batch(self, indptr: numpy.typing.NDArray[numpy.int64], terms: "
                "numpy.typing.NDArray[numpy.int64], weights: numpy.typing.NDArray[numpy.float64], "
                "k: numpy.typing.NDArray[numpy.int64], params: collections.abc.Sequence[SearchParams], "
                "threads: int) -> tuple[numpy.typing.NDArray[numpy.int64], "
                "numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.int64], "
                "numpy.typing.NDArray[numpy.uint64]]"),
        "indptr"_a, "terms"_a, "weights"_a, "k"_a, "params"_a, "threads"_a,
        "All queries, with one k and SearchParams for all or for each: (rows, scores, counts, stats), padded with "
        "row -1 and score 0.");
    index.def(
        "search_integers", &search_integers,
        nb::sig("def search_integers(self, indptr: numpy.typing.NDArray[numpy.int64], terms: "
                "numpy.typing.NDArray[numpy.int64], weights: numpy.typing.NDArray[numpy.float64], "
                "k: numpy.typing.NDArray[numpy.int64], params: collections.abc.Sequence[SearchParams], "
                "threads: int, floor_scores: numpy.typing.NDArray[numpy.int64], "
                "floor_rows: numpy.typing.NDArray[numpy.int64]) -> tuple[numpy.typing.NDArray[numpy.int64], "
                "numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64], "
                "numpy.typing.NDArray[numpy.uint64]]"),
        "indptr"_a, "terms"_a, "weights"_a, "k"_a, "params"_a, "threads"_a, "floor_scores"_a, "floor_rows"_a,
        "What search_batch returns for integer queries, with scores as integers. Floors are empty, or one for each "
        "query: the score and the row of the last of k results that were found elsewhere; score 0 is none, and row -1 "
        "lets results with its score in.");
    index.def(
        "trace", &trace,
        nb::sig(
            "def trace(self, terms: numpy.typing.NDArray[numpy.int64], weights: numpy.typing.NDArray[numpy.float64], "
            "k: int, params: SearchParams, watch_row: int) -> tuple[numpy.typing.NDArray[numpy.int64], "
            "numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.uint64], dict[str, "
            "numpy.typing.NDArray[typing.Any]], tuple[int, int, int, int], float, int, "
            "numpy.typing.NDArray[numpy.uint32]]"),
        "terms"_a, "weights"_a, "k"_a, "params"_a, "watch_row"_a,
        "One query: (rows, scores, stats, trace columns, watched document, scale, threshold estimate, kept terms).");
    index.def("score", &score,
              nb::sig("def score(self, terms: numpy.typing.NDArray[numpy.int64], weights: "
                      "numpy.typing.NDArray[numpy.float64], rows: numpy.typing.NDArray[numpy.int64]) -> "
                      "numpy.typing.NDArray[numpy.float64]"),
              "terms"_a, "weights"_a, "rows"_a, "The score of each row for one query.");
    index.def(
        "matched", &matched,
        nb::sig("def matched(self, terms: numpy.typing.NDArray[numpy.int64], weights: "
                "numpy.typing.NDArray[numpy.float64], row: int) -> tuple[numpy.typing.NDArray[numpy.uint32], "
                "numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint32], float]"),
        "terms"_a, "weights"_a, "row"_a,
        "The terms that a query and a document share: (terms, query weights, codes) as integers, and the scale of "
        "their products.");
    index.def("ceiling", &ceiling_of,
              nb::sig("def ceiling(self, terms: numpy.typing.NDArray[numpy.int64], weights: "
                      "numpy.typing.NDArray[numpy.float64]) -> float"),
              "terms"_a, "weights"_a, "A score that no document passes for a query.");
    index.def("cluster_bounds", &bounds,
              nb::sig("def cluster_bounds(self, terms: numpy.typing.NDArray[numpy.int64], weights: "
                      "numpy.typing.NDArray[numpy.float64]) -> "
                      "tuple[numpy.typing.NDArray[numpy.uint64], numpy.typing.NDArray[numpy.uint64], "
                      "numpy.typing.NDArray[numpy.uint64], "
                      "numpy.typing.NDArray[numpy.uint64], float]"),
              "terms"_a, "weights"_a,
              "(BoundSum, MaxSBound, n * AvgSBound, best score) of every cluster as integers, and their scale.");
}

}  // namespace segmax::bindings
