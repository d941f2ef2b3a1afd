"""The rounds of a search for one query and few results: what `Asking` does, without arrays, in a fifth of the time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.search.results import STATS_FIELDS
from segmax.shards.asking import Ask, Decision, round_size, scaled_threshold, whole_averages
from segmax.shards.router import Bounds, Prepared
from segmax.shards.shard import Floors, Found
from segmax.vectors.documents import DocId

_ROUNDS = 3
_ALL = np.zeros(1, dtype=np.int64)
_COLUMN = {name: at for at, name in enumerate(STATS_FIELDS)}
_OF_THE_QUERY = [_COLUMN[name] for name in ("unknown_terms", "dropped_terms", "elapsed_ns")]
_FLAGS = [_COLUMN[name] for name in ("budget_hit", "swept")]


class Result(NamedTuple):
    """One result; in this order they sort, the best first."""

    minus_score: int  #: in integers of the query
    number: int
    shard: int
    row: int
    id: DocId | None


class AskingOne:
    """The rounds of one query.

    Parameters
    ----------
    query
        As integers.
    bounds
        Of all shards.
    promise
        By shard, what to order shards by.
    k
        How many results.
    mu, eta
        When a shard is ruled out.
    max_shards
        How many shards may be asked; None: all.
    first_rows, num_clusters
        By shard.
    """

    def __init__(
        self,
        query: Prepared,
        bounds: Bounds,
        promise: NDArray[np.float64],
        k: int,
        mu: float,
        eta: float,
        max_shards: int | None,
        first_rows: list[int],
        num_clusters: list[int],
    ) -> None:
        self._most: list[int] = bounds.most[0].tolist()
        self._average: list[int] = whole_averages(bounds)[0].tolist()
        scores: list[float] = promise[0].tolist()
        self._order = sorted(range(len(scores)), key=lambda shard: -scores[shard])
        self._k, self._mu, self._eta = k, mu, eta
        self._max_shards = max_shards
        self._first_rows = first_rows
        self._num_clusters = num_clusters
        self._round = self._num_asked = 0
        self.decisions: list[int] = [Decision.OPEN if most else Decision.RULED_OUT for most in self._most]
        self.best: list[Result] = []
        self.stats = np.zeros(len(STATS_FIELDS), dtype=np.uint64)
        self.stats[_OF_THE_QUERY[:2]] = query.counts[0]

    def next(self) -> list[Ask]:
        """Return what to ask in the next round; nothing where all is known."""
        if self._round == _ROUNDS:
            return []
        self._rule_out()
        num_shards = len(self._most)
        limit = num_shards if self._max_shards is None else min(num_shards, self._max_shards)
        now = min(round_size(self._round, limit, num_shards), limit - self._num_asked)
        self._round += 1
        chosen = [shard for shard in self._order if self.decisions[shard] == Decision.OPEN][: max(0, now)]
        floors = None
        if len(self.best) == self._k:
            last = self.best[-1]
            floors = Floors(np.array([-last.minus_score]), np.array([last.number]))
        return [Ask(shard, _ALL, floors) for shard in chosen]

    def _rule_out(self) -> None:
        """Leave out shards that have nothing to add: the two-parameter rule, for whole shards."""
        if len(self.best) < self._k:
            return
        theta, number = -self.best[-1].minus_score, self.best[-1].number
        is_exact = self._mu == self._eta == 1.0
        by_most, by_average = scaled_threshold(theta, self._mu), scaled_threshold(theta, self._eta)
        for shard, decision in enumerate(self.decisions):
            if decision == Decision.OPEN:
                most = self._most[shard]
                if is_exact:
                    out = most < theta or (most == theta and self._first_rows[shard] > number)
                else:
                    out = most <= by_most and self._average[shard] <= by_average
                if out:
                    self.decisions[shard] = Decision.RULED_OUT

    def take(self, asked: list[Ask], answers: list[Found | None]) -> None:
        """Take the answers of a round; None where a shard gave none."""
        for ask, found in zip(asked, answers, strict=True):
            shard = ask.shard
            if found is None:
                self.decisions[shard] = Decision.MISSING
                continue
            self.decisions[shard] = Decision.ASKED
            self._num_asked += 1
            count = int(found.counts[0])
            if count:
                scores, numbers, rows = (-found.scores[0]).tolist(), found.numbers[0].tolist(), found.rows[0].tolist()
                ids: list[DocId] | list[None] = found.ids or [None] * count
                self.best += map(Result, scores[:count], numbers[:count], [shard] * count, rows[:count], ids)
            adds = found.stats[0].copy()
            adds[_OF_THE_QUERY] = 0
            self.stats += adds
        self.best.sort(key=lambda result: (result.minus_score, result.number))
        del self.best[self._k :]

    def finish(self) -> None:
        """Count what was left out. What the last θ rules out is not missed, though nobody asked in time."""
        self._rule_out()
        self.stats[_FLAGS] = self.stats[_FLAGS] > 0
        for shard, decision in enumerate(self.decisions):
            if decision == Decision.OPEN:
                decision = self.decisions[shard] = Decision.LEFT_OUT
            if decision == Decision.RULED_OUT:
                self.stats[_COLUMN["clusters_stopped"]] += np.uint64(self._num_clusters[shard])
            elif decision >= Decision.LEFT_OUT:
                self.stats[_COLUMN["clusters_limited"]] += np.uint64(self._num_clusters[shard])
                self.stats[_COLUMN["budget_hit"]] = 1
