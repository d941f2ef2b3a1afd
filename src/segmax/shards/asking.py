"""Which shards to ask next, and what their answers add up to: the rounds of a search, without any way of calling.

The shard that promises most is asked first. Its results give θ; with it as their floor, or not at all, the others are
asked in two more rounds. All of it is for many queries at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.search.results import STATS_FIELDS
from segmax.shards.router import Bounds, Prepared
from segmax.shards.shard import Floors, Found

_LAST = np.iinfo(np.int64).max  # as a number: no document comes later
_ROUNDS = 3
_MOST_BOUND = 2.0**62  # far above any, and still in the range of the integer
_COLUMN = {name: at for at, name in enumerate(STATS_FIELDS)}
_OF_THE_QUERY = [_COLUMN[name] for name in ("unknown_terms", "dropped_terms", "elapsed_ns")]
_FLAGS = [_COLUMN[name] for name in ("budget_hit", "swept")]


class Decision(IntEnum):
    """What was decided about a shard for a query."""

    OPEN = 0  #: nothing yet
    ASKED = 1
    RULED_OUT = 2  #: its bounds are too low
    LEFT_OUT = 3  #: by `max_shards`
    MISSING = 4  #: it gave no answer, and partial answers are allowed


class Rules(NamedTuple):
    """By query: when a shard is left out."""

    mu: NDArray[np.float64]
    eta: NDArray[np.float64]
    max_shards: NDArray[np.int64]  #: the number of shards where there is no limit


class Ask(NamedTuple):
    """What to ask a shard: some of the queries, with their floors."""

    shard: int
    queries: NDArray[np.int64]
    floors: Floors | None


def scaled_threshold(theta: int, factor: float) -> int:
    """Return floor(θ / factor): an integer bound is <= θ / factor exactly where it is <= this. Exact for factor 1."""
    return theta if factor == 1.0 else int(min(theta / factor, _MOST_BOUND))


def whole_averages(bounds: Bounds) -> NDArray[np.int64]:
    """Return the average bounds rounded up: as integers, they are compared as the others are."""
    return np.ceil(bounds.average).astype(np.int64)


def round_size(number: int, limit: int, num_shards: int) -> int:
    """Return how many shards a query asks in a round: one for θ, a few for a better one, and then all others."""
    if number == 0:
        return max(1, limit // 16)
    if number == 1 and limit >= 8:
        return max(2, limit // 8)
    return num_shards


@dataclasses.dataclass
class Best:
    """The best results so far, by query: score descending, then number ascending; padded with score 0, number -1."""

    scores: NDArray[np.int64]  #: in integers of the query: floats would make ties of sums above 2**53
    numbers: NDArray[np.int64]
    shards: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def none(cls, num_queries: int, k: int) -> Best:
        """Return that there are none."""
        shape = num_queries, k
        numbers = np.full(shape, _LAST, dtype=np.int64)
        return cls(np.zeros(shape, np.int64), numbers, np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    def take(self, shard: int, queries: NDArray[np.int64], found: Found) -> None:
        """Merge what a shard found for some queries."""
        some = np.flatnonzero(found.counts)
        if not len(some):
            return
        at = queries[some]
        width = found.scores.shape[1]
        there = np.arange(width) < found.counts[some, None]
        scores = np.concatenate([self.scores[at], np.where(there, found.scores[some], 0)], axis=1)
        numbers = np.concatenate([self.numbers[at], np.where(there, found.numbers[some], _LAST)], axis=1)
        shards = np.concatenate([self.shards[at], np.full((len(some), width), shard)], axis=1)
        rows = np.concatenate([self.rows[at], found.rows[some]], axis=1)
        order = np.lexsort((numbers, -scores), axis=-1)[:, : self.scores.shape[1]]
        for name, array in (("scores", scores), ("numbers", numbers), ("shards", shards), ("rows", rows)):
            getattr(self, name)[at] = np.take_along_axis(array, order, axis=1)


class Asking:
    """The rounds of one batch of queries.

    Parameters
    ----------
    queries
        As integers.
    bounds
        Of all shards.
    promise
        By query and shard, what to order shards by.
    ks
        By query, how many results.
    rules
        By query, when a shard is left out.
    first_rows
        By shard, the smallest number of its documents.
    num_clusters
        By shard.
    width
        The most results of any query.
    """

    def __init__(
        self,
        queries: Prepared,
        bounds: Bounds,
        promise: NDArray[np.float64],
        ks: NDArray[np.int64],
        rules: Rules,
        first_rows: NDArray[np.int64],
        num_clusters: NDArray[np.int64],
        width: int,
    ) -> None:
        self.bounds = bounds
        self.ks = ks
        self._rules = rules
        self._first_rows = first_rows
        self._num_clusters = num_clusters
        self._round = 0
        count = len(bounds.most)
        self._order = np.argsort(-promise, axis=1, kind="stable")
        self._average = whole_averages(bounds)
        self._exact = bool((rules.mu == 1.0).all() and (rules.eta == 1.0).all())
        self.decisions = np.where(bounds.most > 0, Decision.OPEN, Decision.RULED_OUT).astype(np.int8)
        self.best = Best.none(count, width)
        self.stats = np.zeros((count, len(STATS_FIELDS)), dtype=np.uint64)
        self.stats[:, _COLUMN["unknown_terms"]] = queries.counts[:, 0]
        self.stats[:, _COLUMN["dropped_terms"]] = queries.counts[:, 1]

    def thresholds(self) -> Floors:
        """Return θ of every query: score and number of its k-th result; score 0 where there are fewer."""
        at = np.arange(len(self.ks)), self.ks - 1
        return Floors(self.best.scores[at], self.best.numbers[at])

    def next(self) -> list[Ask]:
        """Return what to ask in the next round; nothing where all is known."""
        if self._round == _ROUNDS:
            return []
        floors = self.thresholds()
        self._rule_out(floors)
        chosen = self._chosen()
        self._round += 1
        if not chosen.any():
            return []
        has_floors = bool((floors.scores > 0).any())
        asks = []
        for shard in np.flatnonzero(chosen.any(axis=0)).tolist():
            at = np.flatnonzero(chosen[:, shard])
            own = Floors(floors.scores[at], floors.numbers[at]) if has_floors else None
            asks.append(Ask(shard, at, own))
        return asks

    def _rule_out(self, floors: Floors) -> None:
        """Leave out shards that have nothing to add: the two-parameter rule, for whole shards."""
        theta = floors.scores[:, None]
        most = self.bounds.most
        if self._exact:
            late = self._first_rows[None, :] > floors.numbers[:, None]
            out = (most < theta) | ((most == theta) & late)
        else:
            mu, eta = self._rules.mu, self._rules.eta
            is_exact = ((mu == 1.0) & (eta == 1.0))[:, None]
            late = self._first_rows[None, :] > floors.numbers[:, None]
            exact = (most < theta) | ((most == theta) & late)
            by_most, by_average = (
                np.array(list(map(scaled_threshold, floors.scores.tolist(), factors.tolist())), np.int64)[:, None]
                for factors in (mu, eta)
            )
            out = np.where(is_exact, exact, (most <= by_most) & (self._average <= by_average))
        out &= theta > 0
        self.decisions[out & (self.decisions == Decision.OPEN)] = Decision.RULED_OUT

    def _chosen(self) -> NDArray[np.bool_]:
        """Return by query and shard which are asked now."""
        num_shards = self.decisions.shape[1]
        is_open = np.take_along_axis(self.decisions == Decision.OPEN, self._order, axis=1)
        rank = np.cumsum(is_open, axis=1)
        limits = self._rules.max_shards
        sizes = np.array([round_size(self._round, limit, num_shards) for limit in range(num_shards + 1)])
        now = np.minimum(sizes[limits], limits - (self.decisions == Decision.ASKED).sum(axis=1))
        by_rank = is_open & (rank <= now[:, None])
        chosen: NDArray[np.bool_] = np.zeros_like(by_rank)
        np.put_along_axis(chosen, self._order, by_rank, axis=1)
        return chosen

    def take(self, asked: Sequence[Ask], answers: Sequence[Found | None]) -> None:
        """Take the answers of a round; None where a shard gave none."""
        for ask, found in zip(asked, answers, strict=True):
            if found is None:
                self.decisions[ask.queries, ask.shard] = Decision.MISSING
                continue
            self.decisions[ask.queries, ask.shard] = Decision.ASKED
            self.best.take(ask.shard, ask.queries, found)
            adds = found.stats.copy()
            adds[:, _OF_THE_QUERY] = 0
            self.stats[ask.queries] += adds

    def finish(self) -> None:
        """Count what was left out. What the last θ rules out is not missed, though nobody asked in time."""
        self._rule_out(self.thresholds())
        is_open = self.decisions == Decision.OPEN
        self.decisions[is_open] = Decision.LEFT_OUT
        ruled_out, left_out = self.decisions == Decision.RULED_OUT, self.decisions >= Decision.LEFT_OUT
        self.stats[:, _FLAGS] = self.stats[:, _FLAGS] > 0
        self.stats[:, _COLUMN["budget_hit"]] |= left_out.any(axis=1).astype(np.uint64)
        self.stats[:, _COLUMN["clusters_stopped"]] += (ruled_out @ self._num_clusters).astype(np.uint64)
        self.stats[:, _COLUMN["clusters_limited"]] += (left_out @ self._num_clusters).astype(np.uint64)
