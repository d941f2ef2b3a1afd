"""What documents, searches and calls cost: the figures as functions of a plan's numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from segmax.planning.figures import Figures
from segmax.planning.fitting import Estimate, Growth, estimate, linear

#: Which end of the spread of every figure to use.
Case = Literal["low", "value", "high"]
_CASES: tuple[Case, Case, Case] = ("value", "low", "high")
_FEWEST_ROUTED = 4  # of fewer shards an exact search asks all, as `segmax.shards.searching` does


class Costs:
    """Costs by measured figures.

    Parameters
    ----------
    figures
        What was measured.
    case
        "value" for what is expected, "low" and "high" for the ends of the spread of every figure.

    Examples
    --------
    >>> costs = Costs(Figures.measured())
    >>> 0.05 < costs.search_ms(656_250, 127, k=10) < 0.5
    True
    >>> costs.search_ms(10_000_000, 127, k=10) < 10_000_000 / 656_250 * costs.search_ms(656_250, 127, k=10)
    True
    """

    def __init__(self, figures: Figures, case: Case = "value") -> None:
        self.figures = figures
        self.case = case

    def _of(self, found: Estimate) -> float:
        return float(getattr(found, self.case))

    # --- one shard ---------------------------------------------------------------------------------------------------

    def index_bytes(self, docs: float, terms: float) -> float:
        """Return the bytes of an index of so many documents with so many terms each."""
        return float(self._sizes @ (1.0, docs, docs * terms))

    def search_ms(self, docs: float, terms: float, k: int) -> float:
        """Return the mean milliseconds of an exact search on one thread."""
        return self._of(self.search_estimate(docs, terms, k))

    def search_estimate(self, docs: float, terms: float, k: int) -> Estimate:
        """Return the same with its spread."""
        low, high, share = _neighbors(k, self._ks)
        found = [self._growths[each].at(docs).times(self._terms_factor(terms, each)) for each in (low, high)]
        return Estimate(*(_between(one, other, share) for one, other in zip(*found, strict=True)))

    def floor_factor(self, k: int, shards: float) -> float:
        """Return by what factor a search gets cheaper if the final threshold of all shards is known to it.

        Measured for up to 16 shards; more of them are expected to gain no more.
        """
        low, high, share = _neighbors(k, self._ks)
        return _between(_interpolated(self._floors[low], shards), _interpolated(self._floors[high], shards), share)

    def bytes_per_doc(self, terms: float) -> Estimate:
        """Return the bytes that a document adds to an index; the spread is that of the measured indexes."""
        expected = [self.index_bytes(each["docs"], _terms_of(each)) for each in self._built]
        ratios = [each["bytes"] / value for each, value in zip(self._built, expected, strict=True)]
        typical = self.index_bytes(1e9, terms) / 1e9
        return Estimate(typical, typical * min(1.0, *ratios), typical * max(1.0, *ratios))

    def build_seconds(self, docs: float, terms: float) -> float:
        """Return the seconds that one core takes to build a shard."""
        return self._of(self.build_estimate(docs, terms))

    def build_estimate(self, docs: float, terms: float) -> Estimate:
        """Return the same with its spread."""
        return self._building.at(docs).times(self._build_terms_factor(terms))

    @property
    def largest_measured(self) -> float:
        """The most real documents of a shard that was measured."""
        return float(max(each["docs"] for each in self._large))

    @property
    def largest_k(self) -> int:
        """The most results of a search that was measured."""
        return self._ks[-1]

    @functools.cached_property
    def query_spread(self) -> float:
        """The standard deviation of the logarithm of search times, from query to query."""
        return self._of(estimate([each["search"]["10"]["log_spread"] for each in self._large]))

    @functools.cached_property
    def noise_spread(self) -> float:
        """The same from search to search of one query: the lognormal law with the p99 that was measured."""
        ratios = [each["search"]["10"]["noise"] for each in self._large]
        return self._of(estimate([_log_spread(each["0.5"], each["0.99"]) for each in ratios]))

    # --- calls -------------------------------------------------------------------------------------------------------

    def caller_ms(self, k: int, calls_at_once: float = 1) -> float:
        """Return the processor time that a call takes where it is made."""
        return self._call("caller_ms", k, calls_at_once)

    def actor_ms(self, k: int, calls_at_once: float = 1, rest_ms: float = math.inf) -> float:
        """Return the processor time that a call takes where it is answered, beside what `search_ms` says.

        Parameters
        ----------
        k
            Results per query.
        calls_at_once
            Those that the actors of one machine get together.
        rest_ms
            How long an actor rests between calls: after some milliseconds it finds cold caches.
        """
        searched = self.figures.calls["router"]
        whole = self._call("actor_ms", k, calls_at_once) + self._call("core_ms", k, calls_at_once)
        warm = self.search_estimate(searched["docs"] / searched["shards"], self.mean_terms, k).value
        return whole * self._rested(rest_ms) - warm

    def _rested(self, rest_ms: float) -> float:
        """Return what a call takes after so long a rest, relative to what it takes after the longest measured."""
        rows = self.figures.calls["rested"].values()
        points = {float(row["rest_ms"]): float(row["actor_ms"] + row["core_ms"]) for row in rows}
        return _interpolated(points, min(rest_ms, max(points))) / points[max(points)]

    @functools.cached_property
    def wake_ms(self) -> float:
        """How long a call takes beside what processors do for it: on its way, and until processes wake up."""
        one = self.figures.calls["answer"]["10"]["1"]
        return max(0.0, float(one["mean_ms"] - one["caller_ms"] - one["actor_ms"] - one["core_ms"]))

    @functools.cached_property
    def call_spread(self) -> float:
        """The standard deviation of the logarithm of a call's time: the lognormal law with its p50 and p99."""
        one = self.figures.calls["answer"]["10"]["1"]
        return _log_spread(one["p50_ms"], one["p99_ms"])

    @functools.cached_property
    def send_share(self) -> float:
        """Which share of what a caller does comes before the call leaves."""
        empty = self.figures.calls["empty"]
        return float(empty["send_ms"] / empty["caller_ms"])

    @property
    def threads(self) -> int:
        """How many calls an actor answers at once."""
        return int(self.figures.calls["threads"])

    def call_estimate(self, k: int) -> Estimate:
        """Return the processor time of a call on both sides, for an actor that has rested."""
        return Estimate(
            *(each.caller_ms(k) + each.actor_ms(k) for each in (Costs(self.figures, case) for case in _CASES))
        )

    @functools.cached_property
    def process_bytes(self) -> float:
        """The memory of a process that answers calls, without its index."""
        return float(self.figures.calls["actor_memory"])

    def _call(self, name: str, k: int, calls_at_once: float) -> float:
        by_k = self.figures.calls["answer"]
        low, high, share = _neighbors(k, sorted(map(int, by_k)))
        one, other = (
            _interpolated({int(fan): self._of_run(row, name) for fan, row in by_k[str(each)].items()}, calls_at_once)
            for each in (low, high)
        )
        return _between(one, other, share)

    def _of_run(self, row: Mapping[str, Any], name: str) -> float:
        """Return a figure of calls, or that of the best or the worst run."""
        runs = row.get("runs", {}).get(name)
        return float(row[name]) if runs is None else self._of(estimate(runs))

    # --- a whole search, a whole build -------------------------------------------------------------------------------

    def router_ms(self, docs: float, shards: float, *, sharding: str, limited: bool, batch: int) -> float:
        """Return what a search takes around its calls: to choose shards, and to merge their answers.

        Parameters
        ----------
        docs, shards
            Of the whole index. By clusters the router has tables of all documents; by rows it has none.
        sharding
            "clusters" or "rows".
        limited
            Whether only the best shards are asked.
        batch
            How many queries are searched at once.
        """
        name = ("max_shards_" if limited else "") + ("ms" if batch == 1 else "batch_ms")
        here = self._router_ms(name, docs if sharding == "clusters" else 0.0, shards)
        return here * batch if batch > 1 else here + self._colder(name)

    def _router_ms(self, name: str, docs: float, shards: float) -> float:
        few = [row for row in self.figures.rounds["router"] if row["shards"] < _FEWEST_ROUTED]
        if docs and shards < _FEWEST_ROUTED and few:  # there are no bounds to compute
            without = float(few[0][name.removeprefix("max_shards_")])
            return without + (float(few[0][name]) - without) * docs / float(few[0]["docs"])
        return float(self._routers(name) @ (1.0, docs, shards))

    def _colder(self, name: str) -> float:
        """Return how much longer a search takes around its calls if these are made to other processes."""
        row = self.figures.calls["router"]
        return max(0.0, float(row[name] - self._routers(name) @ (1.0, row["docs"], row["shards"])))

    def shard_ms(self, batch: int) -> float:
        """Return what a shard does for a query of a batch beside searching; of one query it is part of `actor_ms`."""
        return 0.0 if batch == 1 else float(np.median([each["batch_shard_ms"] for each in self._router_rows]))

    def router_bytes(self, docs: float, terms: float, shards: float, *, sharding: str) -> float:
        """Return the memory of a router's tables."""
        tables = docs * terms / self.mean_terms if sharding == "clusters" and shards > 1 else 0.0
        return float(self._routers("bytes") @ (1.0, tables, shards))

    @functools.cached_property
    def _router_rows(self) -> Sequence[Mapping[str, Any]]:
        rows = self.figures.rounds["router"]
        return [each for each in rows if each["set"] == "large" and each["shards"] >= _FEWEST_ROUTED]

    def _routers(self, name: str) -> NDArray[np.float64]:
        """Return what a figure of routers is made of: a constant, a part per document, a part per shard."""
        columns = np.array([(1.0, each["docs"], each["shards"]) for each in self._router_rows])
        return linear(columns, np.array([float(each[name]) for each in self._router_rows]))

    @property
    def build_overhead(self) -> float:
        """What building a sharded index takes, relative to building its shards alone."""
        return float(self.figures.building["overhead"])

    @property
    def build_efficiency(self) -> float:
        """The speed of two workers, relative to twice that of one."""
        return float(self.figures.building["efficiency"])

    @property
    def scratch_share(self) -> float:
        """What a build writes beside the index, relative to the index."""
        return float(self.figures.building["scratch_share"])

    # --- fits --------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _generated(self) -> Sequence[Mapping[str, Any]]:
        return [each for each in self.figures.growth if each["set"] == "generated"]

    @functools.cached_property
    def _built(self) -> Sequence[Mapping[str, Any]]:
        return [*self._large, *self._cut]

    @functools.cached_property
    def _large(self) -> Sequence[Mapping[str, Any]]:
        return [each for each in self.figures.growth if each["set"] == "large"]

    @functools.cached_property
    def _cut(self) -> Sequence[Mapping[str, Any]]:
        return [each for each in self.figures.growth if each["set"] == "wiki"]

    @functools.cached_property
    def _ks(self) -> list[int]:
        return sorted(map(int, self._large[0]["search"]))

    @functools.cached_property
    def _sizes(self) -> NDArray[np.float64]:
        columns = np.array([(1.0, each["docs"], each["postings"]) for each in self._built])
        return linear(columns, np.array([float(each["bytes"]) for each in self._built]))

    @functools.cached_property
    def _growths(self) -> dict[int, Growth]:
        return {k: self._growth(k) for k in self._ks}

    def _growth(self, k: int) -> Growth:
        points = {each["docs"]: each["search"][str(k)]["mean_ms"] for each in self._large}
        generated = {
            each["docs"]: each["search"][str(k)]["mean_ms"]
            for each in self.figures.growth
            if each["set"] == "generated"
        }
        # Generated documents are searched faster: by the ratio where there are as many real ones.
        ratio = points[max(points)] / generated[max(points)] if generated else 1.0
        points = {docs: ms * ratio for docs, ms in generated.items()} | points
        return Growth(list(points), list(points.values()))

    @functools.cached_property
    def mean_terms(self) -> float:
        """Terms per document of the collection whose growth was measured."""
        return float(self._large[-1]["postings"] / self._large[-1]["docs"])

    def _terms_factor(self, terms: float, k: int) -> float:
        times = [each["search"][str(k)]["mean_ms"] for each in self._cut]
        return float((terms / self.mean_terms) ** _slope(map(_terms_of, self._cut), times))

    def _build_terms_factor(self, terms: float) -> float:
        times = [min(each["build_seconds"]) for each in self._cut]
        return float((terms / self.mean_terms) ** _slope(map(_terms_of, self._cut), times))

    @functools.cached_property
    def _building(self) -> Growth:
        seconds = {each["docs"]: min(each["build_seconds"]) for each in [*self._generated, *self._large]}
        return Growth(list(seconds), list(seconds.values()))

    @functools.cached_property
    def _floors(self) -> dict[int, dict[float, float]]:
        whole = self._large[-1]["docs"]
        return {
            k: {
                whole / each["docs"]: each["search"][str(k)]["floored_ms"] / each["search"][str(k)]["mean_ms"]
                for each in self._large
            }
            for k in self._ks
        }


def _terms_of(record: Mapping[str, Any]) -> float:
    return float(record["postings"] / record["docs"])


def _slope(x: Iterable[float], y: Iterable[float]) -> float:
    """Return the exponent by which y grows with x."""
    return float(np.polyfit(np.log(list(x)), np.log(list(y)), 1)[0])


def _log_spread(median: float, p99: float) -> float:
    """Return the standard deviation of the logarithm of a lognormal law with these quantiles."""
    return float(np.log(p99 / median) / 2.326)


def _neighbors(value: float, known: Sequence[int]) -> tuple[int, int, float]:
    """Return the known values around one, and how far it is from the first to the second, by logarithms.

    Examples
    --------
    >>> _neighbors(100, [10, 1000])
    (10, 1000, 0.5)
    >>> _neighbors(5, [10, 1000]), _neighbors(2000, [10, 1000])
    ((10, 10, 0.0), (1000, 1000, 0.0))
    """
    low = max((each for each in known if each <= value), default=known[0])
    high = min((each for each in known if each >= value), default=known[-1])
    return low, high, 0.0 if low >= high else float(np.log(value / low) / np.log(high / low))


def _between(low: float, high: float, share: float) -> float:
    return float(low ** (1 - share) * high**share)


def _interpolated(points: Mapping[float, float] | Mapping[int, float], x: float) -> float:
    """Return a value between known points, by the logarithm of x; beyond the ends, that of the end."""
    known = sorted(points)
    return float(np.interp(np.log(max(x, 1e-9)), np.log(known), [points[each] for each in known]))  # type: ignore[index]
