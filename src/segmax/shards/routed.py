"""What was measured about asking some of the shards only: stored with a sharded index, chosen from by recall."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.search.calibration import PSEUDO_LOSS, checked_target
from segmax.shards.asking import Decision

#: At how many results a build measures.
MEASURED_K = 10


@dataclasses.dataclass(frozen=True)
class RoutingTable:
    """The recall of asking the s best shards, and the share of shards that an exact search asks.

    Parameters
    ----------
    recall
        By s - 1: the share of the exact results that the s best shards have, on average over queries.
    asked
        The share of shards that an exact search asks; None if nothing was measured.
    asked_by_mu
        The same at mu = 0.9.
    num_queries, source
        What it was measured on: "pseudo-queries" of the build, or "given queries".
    """

    recall: tuple[float, ...] = ()
    asked: float | None = None
    asked_by_mu: float | None = None
    num_queries: int = 0
    source: str = "none"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**dataclasses.asdict(self), "recall": list(self.recall)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], num_shards: int) -> RoutingTable:
        """Read it from plain values that anybody may have written; what makes no sense counts as not measured."""
        recall = values.get("recall", ())
        is_whole = isinstance(recall, (list, tuple)) and len(recall) == num_shards
        if not is_whole or not all(type(one) in (int, float) and 0 <= one <= 1 for one in recall):
            return cls()
        shares = [values.get(name) for name in ("asked", "asked_by_mu")]
        known = [float(one) if type(one) in (int, float) and 0 <= one <= 1 else None for one in shares]  # type: ignore[operator, arg-type]
        count = values.get("num_queries", 0)
        source = str(values.get("source", "none"))[:40]
        num_queries = count if type(count) is int else 0
        return cls(tuple(map(float, recall)), known[0], known[1], num_queries, source)

    def expected(self, max_shards: int) -> float | None:
        """Return the recall to expect of asking so many shards; None if nothing was measured.

        Real queries may lose more than pseudo-queries do: the loss that those had is counted twice.
        """
        if not self.recall:
            return None
        found = self.recall[min(max_shards, len(self.recall)) - 1]
        return found if self.source == "given queries" else max(0.0, 1 - PSEUDO_LOSS * (1 - found))

    def shards_for(self, target_recall: float, k: int = MEASURED_K) -> int | None:
        """Return how many shards to ask for a recall of k results; None: as many as it takes for exact results.

        Results that were not measured, another number of them or those of a filter, may lie in other shards.
        """
        target = checked_target(target_recall)
        if k != MEASURED_K or target == 1:
            return None
        counts = range(1, len(self.recall))
        return next((count for count in counts if (self.expected(count) or 0.0) >= target), None)

    @classmethod
    def measured(
        cls,
        found: NDArray[np.int64],
        promise: NDArray[np.float64],
        exact: NDArray[np.int8],
        by_mu: NDArray[np.int8],
        source: str,
    ) -> RoutingTable:
        """Make one from the searches of some queries.

        Parameters
        ----------
        found
            By query and rank, the shard of every exact result; -1 where there is none.
        promise
            By query and shard, what the router orders shards by.
        exact, by_mu
            By query and shard, what exact searches decided, and those with mu = 0.9.
        source
            What the queries are.
        """
        num_queries, num_shards = promise.shape
        counts = np.zeros(promise.shape)
        for rank in range(found.shape[1]):
            there = np.flatnonzero(found[:, rank] >= 0)
            np.add.at(counts, (there, found[there, rank]), 1)
        totals = counts.sum(axis=1)
        some = totals > 0
        if not some.any():
            return cls()
        order = np.argsort(-promise, axis=1, kind="stable")
        shares = np.cumsum(np.take_along_axis(counts, order, axis=1), axis=1)[some] / totals[some, None]
        recall = tuple(round(float(one), 4) for one in shares.mean(axis=0))
        asked, mu = (round(float((one == Decision.ASKED).mean()), 4) for one in (exact, by_mu))
        assert len(recall) == num_shards
        return cls(recall, asked, mu, num_queries, source)
