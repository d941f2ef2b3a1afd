"""What approximate settings cost and keep on an index: measured on queries, stored with it, chosen by recall.

Everything here is counted, never timed, so that the same index and queries give the same choice on any machine and any
number of threads. docs/approximation.md compares predictions with measurements.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_int, checked_number
from segmax.base.display import counted
from segmax.base.errors import ConfigError
from segmax.search.methods import ASC, SearchParams
from segmax.search.results import BatchHits, BatchStats
from segmax.storage.config import DOCS_PER_CLUSTER
from segmax.vectors.csr import Csr

Source = Literal["pseudo-queries", "given queries", "none"]
#: Runs queries: how a calibration reaches the index that it is about.
Search = Callable[[Csr, int, SearchParams], BatchHits]

#: Collections with fewer documents are not calibrated when they are built: exact search takes microseconds there.
LEAST_DOCS = 10_000
#: Calibrated at build time: numbers of results, and on how many pseudo-queries each. Many results vary less.
BUILD_QUERIES: Mapping[int, int] = {10: 160, 100: 64, 1000: 32}
#: `tune` measures on at most this many of the given queries.
MOST_QUERIES = 1000
#: Real queries may lose more than pseudo-queries do: expect this many times as much.
PSEUDO_LOSS = 2.0
#: This many standard errors are taken off what was measured: about one mean in fifteen is that lucky.
DOUBT = 1.5
#: A mean over few queries that lost little may be luck: one more query that loses this much is counted.
_PRIOR_LOSS = 0.1
#: Settings that keep less are useless, and so are those that are less careful in every way.
_LEAST_RECALL = 0.9


class CostModel(NamedTuple):
    """Nanoseconds per thing counted; only ratios count.

    Fitted to the mean times of settings on 656,250 real and 8.8 million generated documents; `python -m
    benchmarks.tuning --fit` fits them to one collection.
    """

    query: float = 3000.0
    result: float = 140.0
    line: float = 1.1  #: a cache line of bounds
    entry: float = 1.6  #: an entry that is added to bounds
    block: float = 25.0  #: a block that is looked at
    posting: float = 11.0  #: of such a block
    swept_doc: float = 0.3
    swept_posting: float = 1.6
    tile: float = 12.0  #: of 1,024 documents whose bounds are cleared and collected, whichever are made

    def of(self, stats: BatchStats, k: int, num_docs: int) -> NDArray[np.float64]:
        """Return the cost of every query."""
        return np.asarray(self.parts(stats, k, num_docs) @ np.array(self))

    @staticmethod
    def parts(stats: BatchStats, k: int, num_docs: int) -> NDArray[np.float64]:
        """Return what is counted: a row per query, a column per field."""
        swept = stats.swept.astype(np.float64)
        columns = (
            np.ones(len(swept)),
            np.full(len(swept), float(k)),
            stats.lines_read,
            stats.entries_read,
            (1.0 - swept) * stats.blocks_scored,
            (1.0 - swept) * stats.postings_read,
            swept * num_docs,
            swept * stats.postings_read,
            (1.0 - swept) * (num_docs / DOCS_PER_CLUSTER),
        )
        return np.stack(columns, axis=1)


COST = CostModel()

_EXACT = ASC()
#: What is measured, as (query_mass, eta): each after those that are more careful in every way,
_SETTINGS = (
    (1.0, 1.0), (1.0, 0.97), (1.0, 0.94), (1.0, 0.91), (1.0, 0.88),
    (0.995, 1.0), (0.995, 0.96), (0.995, 0.92),
    (0.99, 1.0), (0.99, 0.95), (0.99, 0.91),
    (0.98, 1.0), (0.98, 0.95), (0.97, 1.0), (0.97, 0.95), (0.97, 0.91),
    (0.95, 1.0), (0.95, 0.95), (0.93, 1.0), (0.93, 0.95),
)  # fmt: skip
#: and as (bound_mass, eta), for up to so many results: beyond, blocks that need not be looked at cost more than bounds.
_MOST_RESULTS_FOR_BOUNDS = 100
_BOUND_SETTINGS = ((0.95, 1.0), (0.95, 0.95), (0.9, 1.0), (0.9, 0.97), (0.9, 0.95), (0.9, 0.92), (0.8, 0.97))
GRID = (
    *(ASC(eta=eta, query_mass=mass) for mass, eta in _SETTINGS),
    *(ASC(eta=eta, bound_mass=mass) for mass, eta in _BOUND_SETTINGS),
)
#: The numbers of clusters that pay grow with this power of all of them: multiples of 5.6 times that are measured, up to
#: a fourth of all clusters, each with these (bound_mass, query_mass) and η = .95.
_CLUSTER_POWER, _CLUSTER_FACTOR = 0.45, 5.6
_CLUSTER_MULTIPLES = (4.0, 2.8, 2.0, 1.7, 1.4, 1.2, 1.0, 0.85, 0.7, 0.5)
_CLUSTER_MASSES = ((0.9, 1.0), (0.85, 1.0), (0.9, 0.97))
_LEAST_CLUSTERS = 8
_KEPT = ("eta", "query_mass")  #: what calibrations of 0.2 have of a setting,
_ADDED = ("bound_mass", "max_clusters")  #: and what those of 0.3 add
_NAMES = (*_KEPT, *_ADDED)


def settings_for(k: int, num_clusters: int = 0) -> list[ASC]:
    """Return what may pay at this k; limits of clusters only where the number of all is known, and stays."""
    settings = [one for one in GRID if one.bound_mass == 1.0 or k <= _MOST_RESULTS_FOR_BOUNDS]
    if k <= _MOST_RESULTS_FOR_BOUNDS:
        some = (round(_CLUSTER_FACTOR * num_clusters**_CLUSTER_POWER * multiple) for multiple in _CLUSTER_MULTIPLES)
        limits = [limit for limit in some if _LEAST_CLUSTERS <= limit <= num_clusters / 4]
        settings += [
            ASC(max_clusters=limit, bound_mass=bounds, query_mass=mass, eta=0.95)
            for limit in limits
            for bounds, mass in _CLUSTER_MASSES
        ]
    return settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting at one k, measured."""

    params: ASC
    recall: float  #: mean share of the exact results that were found
    error: float  #: standard error of that mean
    cost: float  #: work, as a share of that of exact search

    def to_dict(self) -> dict[str, float]:
        """Return the setting as plain values."""
        chosen = {name: getattr(self.params, name) for name in _KEPT}
        if not self.is_plain:
            chosen |= {name: getattr(self.params, name) for name in _ADDED if getattr(self.params, name) is not None}
        return {**chosen, "recall": self.recall, "error": self.error, "cost": self.cost}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Setting:
        """Read what `to_dict` returned."""
        measured = {name: checked_number(name, _entry(values, name)) for name in ("recall", "error", "cost")}
        worst = next((name for name, value in measured.items() if not 0.0 <= value < math.inf), None)
        if worst is not None or measured["recall"] > 1.0:
            msg = f"a calibration has an impossible {worst or 'recall'}: {measured[worst or 'recall']!r}"
            raise ValueError(msg)
        added = {name: values[name] for name in _ADDED if name in values}
        return cls(params=ASC(**{name: _entry(values, name) for name in _KEPT}, **added), **measured)

    @property
    def is_plain(self) -> bool:
        """Whether segmax 0.2 knows such settings, too."""
        return self.params == ASC(eta=self.params.eta, query_mass=self.params.query_mass)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """All settings at one k."""

    k: int
    source: Source
    num_queries: int
    settings: tuple[Setting, ...]

    def expected_recall(self, setting: Setting) -> float:
        """Return the recall that this setting will hardly miss: measured, less one and a half standard errors.

        What pseudo-queries lose counts twice: real queries are not quite like them.
        """
        if setting.params == _EXACT:
            return 1.0
        factor = PSEUDO_LOSS if self.source == "pseudo-queries" else 1.0
        return max(0.0, 1.0 - factor * (1.0 - setting.recall) - DOUBT * setting.error)

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements as plain values."""
        # Apart, so that segmax 0.2 does not take some for others.
        plain = [setting.to_dict() for setting in self.settings if setting.is_plain]
        added = [setting.to_dict() for setting in self.settings if not setting.is_plain]
        found = {"k": self.k, "source": self.source, "num_queries": self.num_queries, "settings": plain}
        return {**found, "added_settings": added} if added else found

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Measured:
        """Read what `to_dict` returned."""
        source, settings, added = _entry(values, "source"), _entry(values, "settings"), values.get("added_settings", [])
        if source not in ("pseudo-queries", "given queries"):
            msg = f"a calibration has an impossible source: {source!r}"
            raise ValueError(msg)
        for one in (settings, added):
            if not isinstance(one, list):
                msg = f"expected settings of a calibration to be a list, got {type(one).__name__}"
                raise ValueError(msg)
        return cls(
            k=checked_int("k of a calibration", _entry(values, "k"), 1),
            source=source,
            num_queries=checked_int("num_queries of a calibration", _entry(values, "num_queries"), 0),
            settings=tuple(Setting.from_dict(setting) for setting in [*settings, *added]),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a target of recall leads to; `str()` puts it into a sentence.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> index = segmax.build(sp.csr_matrix([[1, 2], [3, 0]]))
    >>> index.expectation(k=10, target_recall=0.95).expected_recall
    1.0
    """

    params: ASC  #: what searches with
    k: int
    target_recall: float
    expected_recall: float  #: what it will hardly miss; at least the target
    measured_recall: float  #: the mean over the queries, before doubts
    num_queries: int  #: how many it was measured on; 0 for exact search without a measurement
    source: Source  #: what they were
    relative_cost: float  #: counted work, as a share of that of exact search
    note: str  #: where the measurement is not of this very k, or there is none

    @property
    def settings_text(self) -> str:
        """The parameters as short Python, or "exact search"."""
        return "exact search" if self.params == _EXACT else _params_text(self.params)

    @property
    def source_text(self) -> str:
        """The number of queries that it was measured on, and what they were."""
        return counted(self.num_queries, self.source.replace("queries", "query"), self.source)

    def __str__(self) -> str:
        basis = f"measured on {self.source_text}" if self.num_queries else "not measured"
        text = (
            f"recall@{self.k} >= {self.target_recall:g}: {self.settings_text}; "
            f"expects {self.expected_recall:.4f}, {basis}; {self.relative_cost:.0%} of the work of exact search"
        )
        return f"{text} ({self.note})" if self.note else text


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What was measured about approximate settings of an index, by k; see `Index.calibration`.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> index = segmax.build(sp.csr_matrix([[1, 2], [3, 0]]))
    >>> index.calibration.measured  # a small collection is searched exactly
    ()
    """

    measured: tuple[Measured, ...] = ()

    def expectation(self, k: int, target_recall: float) -> Expectation:
        """Choose the cheapest setting that is expected to reach a recall.

        Between two measured values of k, a setting has to reach the target at both. Below the smallest and above the
        largest, search is exact: what a setting finds of many results says little about few, and the other way round.
        """
        target = checked_target(target_recall)
        at, note = self._for(k)
        exact = Expectation(
            params=_EXACT,
            k=k,
            target_recall=target,
            expected_recall=1.0,
            measured_recall=1.0,
            num_queries=0,
            source="none",
            relative_cost=1.0,
            note=note,
        )
        if target == 1.0 or not at:
            return exact if not at and target < 1.0 else dataclasses.replace(exact, note="")
        fitting = _fitting(at, target)
        if not fitting:
            return exact
        _, _, params = min(fitting, key=lambda row: row[:2])
        rows = [(m, next(s for s in m.settings if s.params == params)) for m in at]
        least, setting = min(rows, key=lambda row: row[0].expected_recall(row[1]))
        return dataclasses.replace(
            exact,
            params=params,
            expected_recall=least.expected_recall(setting),
            measured_recall=setting.recall,
            num_queries=least.num_queries,
            source=least.source,
            relative_cost=max(s.cost for _, s in rows),
        )

    def with_measured(self, measured: Measured) -> Calibration:
        """Return a calibration with new measurements at one k."""
        kept = [m for m in self.measured if m.k != measured.k]
        return Calibration(tuple(sorted([*kept, measured], key=lambda m: m.k)))

    def _for(self, k: int) -> tuple[list[Measured], str]:
        """Return the measurements that apply to k, and a note about them."""
        if not self.measured:
            return [], "the index is not calibrated, so search is exact; index.tune(queries, k) calibrates it"
        below = [m for m in self.measured if m.k <= k]
        above = [m for m in self.measured if m.k >= k]
        if not below or not above:
            side = f"above k = {below[-1].k}" if below else f"below k = {above[0].k}"
            return [], f"not calibrated {side}, so search is exact; index.tune(queries, k) calibrates it"
        if above[0].k == k:
            return [above[0]], ""
        return [below[-1], above[0]], f"measured at k = {below[-1].k} and {above[0].k}; the lower recall counts"

    def to_list(self) -> list[dict[str, Any]]:
        """Return all measurements as plain values: what meta.json holds."""
        return [measured.to_dict() for measured in self.measured]

    @classmethod
    def from_list(cls, values: Iterable[Mapping[str, Any]]) -> Calibration:
        """Read what `to_list` returned."""
        measured = tuple(Measured.from_dict(value) for value in values)
        if any(one.k >= two.k for one, two in itertools.pairwise(measured)):
            raise ValueError("a calibration has values of k that do not ascend")
        return cls(measured)

    def __str__(self) -> str:
        if not self.measured:
            return "not calibrated"
        lines = [str(self.expectation(m.k, target)) for m in self.measured for target in (0.95, 0.99)]
        return "\n".join(lines)


def _entry(values: object, name: str) -> Any:
    """Return an entry of a stored calibration, or raise ValueError that names it."""
    if not isinstance(values, Mapping) or name not in values:
        msg = f"a calibration has no {name}"
        raise ValueError(msg)
    return values[name]


def _fitting(at: list[Measured], target: float) -> list[tuple[float, int, ASC]]:
    """Return cost, place and params of the settings that reach the target in every measurement."""
    fitting = []
    for number, setting in enumerate(at[0].settings):
        rows = [next((s for s in m.settings if s.params == setting.params), None) for m in at]
        found = [row for row in rows if row is not None]
        if len(found) == len(at) and all(m.expected_recall(s) >= target for m, s in zip(at, found, strict=True)):
            fitting.append((max(s.cost for s in found), number, setting.params))
    return fitting


def checked_target(target_recall: float) -> float:
    """Return a target of recall; raise ConfigError for an impossible one."""
    target = checked_number("target_recall", target_recall)
    if not 0.0 < target <= 1.0:
        raise ConfigError(
            option="target_recall",
            expected="greater than 0 and at most 1",
            got=target_recall,
            hint="0.99 finds 99 of 100 exact results",
        )
    return target


def _params_text(params: ASC) -> str:
    shown = [f"{name}={getattr(params, name):g}" for name in _NAMES if getattr(params, name) not in (1.0, None)]
    return f"ASC({', '.join(shown)})"


# --- measuring -------------------------------------------------------------------------------------------------------


def measure(
    search: Search,
    queries: Csr,
    k: int,
    num_docs: int,
    source: Source,
    settings: Iterable[ASC],
    own_rows: NDArray[np.int64] | None = None,
) -> Measured | None:
    """Measure settings on queries; None where no query finds anything.

    Parameters
    ----------
    search
        Runs queries on the index.
    queries, k
        What is asked.
    num_docs
        The size of the collection.
    source
        What the queries are.
    settings
        What to measure, each after those that are more careful in every way.
    own_rows
        The document that a query was made of: it is found by any setting, so it does not count.
    """
    num_terms = np.diff(queries.indptr)
    exact = search(queries, k, _EXACT)
    wanted = _result_keys(exact, own_rows)
    per_query = np.bincount(wanted.query, minlength=len(num_terms))
    asked = per_query > 0
    if not asked.any():
        return None
    exact_cost = COST.of(exact.stats, k, num_docs)[asked].mean()
    found: list[Setting] = []
    for params in settings:
        if any(_is_less_careful(params, s.params) and s.recall < _LEAST_RECALL for s in found):
            continue
        hits = exact if params == _EXACT else search(queries, k, params)
        kept = np.isin(wanted.key, _result_keys(hits, None).key)
        loss = 1.0 - np.bincount(wanted.query, weights=kept, minlength=len(num_terms))[asked] / per_query[asked]
        recall, error = _mean_recall(loss) if params != _EXACT else (1.0, 0.0)
        cost = COST.of(hits.stats, k, num_docs)[asked].mean() / exact_cost
        found.append(Setting(params=params, recall=round(recall, 6), error=round(error, 6), cost=round(float(cost), 4)))
    return Measured(k=k, source=source, num_queries=int(asked.sum()), settings=tuple(found))


class _Keys(NamedTuple):
    query: NDArray[np.int64]
    key: NDArray[np.int64]


def _result_keys(hits: BatchHits, without: NDArray[np.int64] | None) -> _Keys:
    """Return a number per query and result, those of the given rows left out."""
    counted = hits.rows >= 0
    if without is not None:
        counted &= hits.rows != without[:, None]
    query, column = np.nonzero(counted)
    return _Keys(query, (query << 32) | hits.rows[query, column])


def _is_less_careful(params: ASC, other: ASC) -> bool:
    def care(one: ASC) -> list[float]:
        values = (getattr(one, name) for name in _NAMES)
        return [math.inf if value is None else value for value in values]

    return all(mine <= others for mine, others in zip(care(params), care(other), strict=True))


def _mean_recall(loss: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean recall and its standard error, with one more query that loses a little."""
    loss = np.append(loss, _PRIOR_LOSS)
    return 1.0 - float(loss[:-1].mean()), float(loss.std(ddof=1) / np.sqrt(len(loss)))
