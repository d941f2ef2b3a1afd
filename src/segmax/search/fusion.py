"""Several rankings as one: of other queries, other encoders, other indexes. Documents are matched by id."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_choice, checked_number, shown
from segmax.base.display import plain_number
from segmax.base.errors import ConfigError
from segmax.search.arguments import checked_k
from segmax.search.methods import SearchParams
from segmax.search.protocol import Searchable, is_searchable
from segmax.search.queries import Filter
from segmax.search.results import Hit, Hits, as_frame
from segmax.storage.texts import StoredText
from segmax.vectors.documents import DocId

if TYPE_CHECKING:
    from segmax.vectors.types import Query

FUSIONS = ("rrf", "minmax", "raw")


class FusedHits(Sequence[Hit]):
    """The results of several searches as one ranking, best first.

    `ids` and `scores` are those of the fused ranking. `ranks` has a row per result and a column per search: the rank of
    the document there, from 1, or 0 where that search did not find it.

    Examples
    --------
    >>> import segmax
    >>> index = segmax.from_texts({"d1": "a copper waveguide", "d2": "noise of copper"})
    >>> fused = segmax.hybrid([(index, "copper"), (index, "noise")])
    >>> fused.ids, fused.ranks.tolist()
    (['d2', 'd1'], [[2, 1], [1, 0]])
    """

    def __init__(
        self,
        ids: Sequence[DocId],
        scores: NDArray[np.float64],
        ranks: NDArray[np.int64],
        searches: Sequence[Hits],
    ) -> None:
        self.ids = list(ids)
        self.scores = scores
        self.ranks = ranks
        self._searches = searches

    @property
    def complete(self) -> bool:
        """Whether all searches ended by themselves: False where a budget or a limit left something out."""
        return all(hits.complete for hits in self._searches)

    @cached_property
    def texts(self) -> list[StoredText]:
        """The titles and texts, each from the first search that found the document and stores its text."""
        return self._looked_up(lambda hits: hits.has_texts, lambda hits: hits.texts)

    @cached_property
    def metadata(self) -> list[dict[str, Any] | None]:
        """The metadata of each document, from the first search that found it and stores metadata."""
        return self._looked_up(lambda hits: hits.has_metadata, lambda hits: hits.metadata)

    def _looked_up(self, has: Callable[[Hits], bool], get: Callable[[Hits], list[Any]]) -> list[Any]:
        """Return something of each document. Where no search stores it, the first one says so."""
        found = []
        for ranks in self.ranks.tolist():
            there = [(hits, rank) for hits, rank in zip(self._searches, ranks, strict=True) if rank]
            hits, rank = next((pair for pair in there if has(pair[0])), there[0])
            found.append(get(hits.taken(slice(rank - 1, rank)))[0])
        return found

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Hit | list[Hit]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = operator.index(index)
        return Hit(self.ids[number], float(self.scores[number]))

    def to_pandas(self) -> Any:
        """Return the results as a pandas DataFrame: rank, id, score, and the rank in each search."""
        columns = {f"rank_{number}": self.ranks[:, number] for number in range(self.ranks.shape[1])}
        return as_frame({"rank": range(1, len(self) + 1), "id": self.ids, "score": self.scores, **columns})

    def __repr__(self) -> str:
        best = f", best {self[0].id!r} at {plain_number(self[0].score)}" if len(self) else ""
        return f"FusedHits({len(self)}{best})"


def hybrid(
    searches: Iterable[Hits | tuple[Searchable, Query]],
    k: int = 10,
    *,
    fusion: str = "rrf",
    weights: Sequence[float] | None = None,
    depth: int = 100,
    rank_constant: float = 60,
    params: SearchParams | None = None,
    where: Filter | None = None,
) -> FusedHits:
    """Search several times and fuse the rankings: other queries of an index, or indexes with other encoders.

    Parameters
    ----------
    searches
        Pairs of something to search and a query for it, or results that you have already. Documents with the same id
        are the same document.
    k
        How many results.
    fusion
        How scores are made of the results of each search:

        - "rrf", reciprocal rank fusion: the sum of weight / (rank_constant + rank);
        - "minmax": the sum of weight × score, where the scores of each search are scaled to the range from 0 to 1;
        - "raw": the sum of weight × score, for searches whose scores can be compared.

        A search that does not find a document adds nothing to its score.
    weights
        The weight of each search; None: 1 each.
    depth
        How many results of each search are fused, at least k of them.
    rank_constant
        Of "rrf": a larger one makes the first ranks less important.
    params, where
        As for `Index.search`, for all searches.

    Returns
    -------
    FusedHits
        Score descending; of equal scores, the better rank in the first search, then in the second, and so on.

    Raises
    ------
    ConfigError
        If an option is invalid.

    Examples
    --------
    >>> import segmax
    >>> texts = {"d1": "a copper waveguide", "d2": "noise of copper", "d3": "diodes"}
    >>> words = segmax.from_texts(texts)
    >>> stems = segmax.from_texts(texts, encoder=segmax.encoders.BM25(k1=0.6))
    >>> segmax.hybrid([(words, "copper noise"), (stems, "copper noise")], k=2, weights=[1, 2]).ids
    ['d2', 'd1']
    """
    k = checked_k(k)
    depth = max(k, checked_k(depth))
    found = [_found(search, depth, params, where) for search in searches]
    return fuse(found, k, fusion=fusion, weights=weights, rank_constant=rank_constant)


def fuse(
    results: Sequence[Hits],
    k: int = 10,
    *,
    fusion: str = "rrf",
    weights: Sequence[float] | None = None,
    rank_constant: float = 60,
) -> FusedHits:
    """Fuse rankings, as `hybrid` does."""
    checked_choice("fusion", fusion, FUSIONS)
    constant = checked_number("rank_constant", rank_constant)
    if not 0 <= constant < math.inf:
        raise ConfigError(option="rank_constant", expected="at least 0", got=shown(rank_constant))
    if not results:
        raise ConfigError(option="searches", expected="one or more searches", got="none")
    factors = _checked_weights(weights, len(results))
    ranks: dict[DocId, list[int]] = {}
    parts: dict[DocId, list[float]] = {}
    for number, (hits, factor) in enumerate(zip(results, factors, strict=True)):
        for rank, (name, value) in enumerate(zip(hits.ids, _values(hits, fusion, constant), strict=True), start=1):
            ranks.setdefault(name, [0] * len(results))[number] = rank
            parts.setdefault(name, []).append(factor * value)
    scores = {name: math.fsum(values) for name, values in parts.items()}
    order = sorted(scores, key=lambda name: _Place(-scores[name], [rank or math.inf for rank in ranks[name]]))[:k]
    return FusedHits(
        order,
        np.array([scores[name] for name in order], dtype=np.float64),
        np.array([ranks[name] for name in order], dtype=np.int64).reshape(len(order), len(results)),
        results,
    )


class _Place(NamedTuple):
    """Where a document comes in the fused ranking."""

    negative_score: float
    ranks: list[float]


def _found(search: object, depth: int, params: SearchParams | None, where: Filter | None) -> Hits:
    if isinstance(search, Hits):
        return search
    if not isinstance(search, (tuple, list)) or len(search) != 2 or not is_searchable(search[0]):
        expected = "pairs of something to search, such as an index, and a query, or results"
        raise ConfigError(option="searches", expected=expected, got=type(search).__name__)
    found: Hits = search[0].search(search[1], depth, params, where=where)
    return found


def _values(hits: Hits, fusion: str, constant: float) -> list[float]:
    """Return what each result adds to the score of its document, before weights."""
    if fusion == "rrf":
        return [1 / (constant + rank) for rank in range(1, len(hits) + 1)]
    scores: list[float] = hits.scores.tolist()
    if fusion == "raw" or not scores:
        return scores
    best, worst = scores[0], scores[-1]
    return [(score - worst) / (best - worst) if best > worst else 1.0 for score in scores]


def _checked_weights(weights: Sequence[float] | None, count: int) -> list[float]:
    if weights is None:
        return [1.0] * count
    found = [checked_number("weights", weight) for weight in weights]
    if len(found) != count:
        raise ConfigError(option="weights", expected=f"one for each of {count} searches", got=len(found))
    if not all(0 <= weight < math.inf for weight in found):
        raise ConfigError(option="weights", expected="numbers >= 0", got=shown(weights))
    return found
