"""How many shards a query asks, and what it finds there: interpolated between measured points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, Literal, NamedTuple

import numpy as np

from segmax.planning.figures import Figures
from segmax.shards.asking import round_size

Sharding = Literal["clusters", "rows"]
_COLUMNS = ("share", "spread", "hottest")


class Asked(NamedTuple):
    """What queries ask of shards."""

    share: float  #: of the shards, on average
    spread: float  #: standard deviation of the share, from query to query
    hottest: float  #: calls of the shard that gets most, relative to the mean
    recall: float  #: share of the exact results that are found; 1 where all that matter are asked
    shards: int  #: for which number of shards that was measured


def asked(
    figures: Figures,
    *,
    shards: int,
    k: int = 10,
    sharding: Sharding = "clusters",
    mu: float = 1.0,
    max_shards: int = 0,
    recall: float = 1.0,
) -> Asked:
    """Return what queries ask of so many shards.

    Parameters
    ----------
    figures
        What was measured.
    shards
        How many there are.
    k
        Results per query. Between measured values, shares are interpolated by its logarithm.
    sharding
        "clusters" or "rows"; by rows every shard is asked.
    mu
        ASC's μ; the measured one that is nearest counts, from above.
    max_shards
        Ask no more than this many; 0 asks as many as exact results need.
    recall
        Ask as few as this share of the exact results needs.

    Examples
    --------
    >>> asked(Figures.measured(), shards=16, sharding="rows").share
    1.0
    >>> asked(Figures.measured(), shards=16).share < 1
    True
    >>> few = asked(Figures.measured(), shards=16, max_shards=4)
    >>> few.share, 0.8 < few.recall < 1
    (0.25, True)
    """
    exact = Asked(1.0, 0.0, 1.0, 1.0, shards) if sharding == "rows" else _exact(figures.asked, shards, k, mu)
    if recall < 1:
        max_shards = _enough(figures.max_shards, shards, recall) if sharding == "clusters" else ceil(recall * shards)
    if not max_shards or max_shards >= exact.share * shards:
        return exact
    if sharding == "rows":  # rows are spread at random: a share of the shards has that share of the results
        return Asked(max_shards / shards, 0.0, 1.0, max_shards / shards, shards)
    return _limited(figures.max_shards, shards, max_shards / shards)


def round_sizes(limit: int, shards: int) -> tuple[int, int]:
    """Return how many shards the first two rounds ask, of so many at most; 0 for the second where there is none.

    Examples
    --------
    >>> round_sizes(4, 4)
    (1, 0)
    """
    first, second = (round_size(number, limit, shards) for number in (0, 1))
    return min(first, limit), second if first + second < limit else 0


def _exact(rows: Sequence[Mapping[str, Any]], shards: int, k: int, mu: float) -> Asked:
    chosen = min((row["mu"] for row in rows if row["mu"] >= mu - 1e-9), default=1.0)
    usable = [row for row in _of_most_docs(rows) if row["mu"] == chosen]
    nearest = _nearest((row["shards"] for row in usable), shards)
    points = {row["k"]: row for row in usable if row["shards"] == nearest}
    share, spread, hottest = (_by_log(k, {each: row[name] for each, row in points.items()}) for name in _COLUMNS)
    return Asked(share, spread, min(hottest, 1 / share), 1.0, nearest)


def _limited(rows: Sequence[Mapping[str, Any]], shards: int, share: float) -> Asked:
    rows = _of_most_docs(rows)
    nearest = _nearest((row["shards"] for row in rows), shards)
    points = {row["asked"] / nearest: row for row in rows if row["shards"] == nearest}
    hottest = _by_log(share, {each: row["hottest"] for each, row in points.items()})
    return Asked(share, 0.0, min(hottest, 1 / share), float(np.interp(share, *_recalls(rows, shards))), nearest)


def _enough(rows: Sequence[Mapping[str, Any]], shards: int, recall: float) -> int:
    """Return how many of the best shards have this share of the exact results."""
    shares, recalls = _recalls(rows, shards)
    return max(1, ceil(float(np.interp(recall, recalls, shares)) * shards - 1e-9))


def _recalls(rows: Sequence[Mapping[str, Any]], shards: int) -> tuple[list[float], list[float]]:
    """Return shares of the shards, and the recall of each: none have nothing, and all have all."""
    rows = _of_most_docs(rows)
    nearest = _nearest((row["shards"] for row in rows), shards)
    points = sorted((row["asked"] / nearest, row["recall"]) for row in rows if row["shards"] == nearest)
    return [0.0, *(share for share, _ in points), 1.0], [0.0, *(recall for _, recall in points), 1.0]


def _of_most_docs(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return what was measured with the largest collection; smaller ones are there to see how shares change."""
    most = max(row["docs"] for row in rows)
    return [row for row in rows if row["docs"] == most]


def _nearest(known: Iterable[int], value: int) -> int:
    """Return the known number that is nearest by ratio."""
    return min(known, key=lambda each: abs(np.log(each / value)))


def _by_log(x: float, points: Mapping[float, float]) -> float:
    known = sorted(points)
    return float(np.interp(np.log(x), np.log(known), [points[each] for each in known]))
