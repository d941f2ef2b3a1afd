"""Learning the weights of tokens in queries, in numpy: from a model's own queries, or from judged documents.

Both start from the idf of tokens and stay near it where there is little to learn from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

Floats = NDArray[np.float64]

_STEPS = 150
_RATE = 0.03
_DECAYS = 0.9, 0.999  # of the two means of Adam
_SPREAD = 2.0  # of the scores of a query's candidates at the start, in units of the softmax
_PRIOR_QUERIES = 10.0  # as many as the line counts for, beside those that a token occurs in


def idf(frequencies: NDArray[np.int64], num_texts: int) -> Floats:
    """Return the inverse document frequency of every token, as BM25 has it."""
    return np.asarray(np.log1p((num_texts - frequencies + 0.5) / (frequencies + 0.5)), dtype=np.float64)


# --- from a model's own queries --------------------------------------------------------------------------------------


def taught(start: Floats, queries: sp.csr_matrix, taught_by: sp.csr_matrix) -> Floats:
    """Return the mean weight that a model gives to a token of a query; a line in the start for what is rarely seen.

    Parameters
    ----------
    start
        A weight per token.
    queries
        A row per query, 1 for each of its tokens.
    taught_by
        The model's vectors of the same queries.
    """
    own = sp.csr_matrix(taught_by.multiply(queries))
    sums, counts = (np.asarray(matrix.sum(axis=0), dtype=np.float64).reshape(-1) for matrix in (own, queries))
    slope, offset = _line(start, sums, counts)
    line = np.maximum(slope * start + offset, 0)
    return np.where(start > 0, (sums + _PRIOR_QUERIES * line) / (counts + _PRIOR_QUERIES), 0)


def _line(start: Floats, sums: Floats, counts: Floats) -> tuple[float, float]:
    """Return slope and offset of the line through all occurrences of tokens, by least squares."""
    seen = (counts > 0) & (start > 0)
    weights = np.sqrt(counts[seen])
    sides = np.stack([start[seen], np.ones(int(seen.sum()))], axis=1) * weights[:, None]
    (slope, offset), *_ = np.linalg.lstsq(sides, sums[seen] / counts[seen] * weights, rcond=None)
    return float(slope), float(offset)


def likeness(table: Floats, queries: sp.csr_matrix, taught_by: sp.csr_matrix) -> float:
    """Return the mean cosine between a table's vectors and a model's, over the tokens of every query."""
    own = sp.csr_matrix(queries.multiply(table[None, :]))
    theirs = sp.csr_matrix(taught_by.multiply(queries))
    dots = np.asarray(own.multiply(theirs).sum(axis=1)).reshape(-1)
    norms = np.sqrt(np.asarray(own.power(2).sum(axis=1)) * np.asarray(theirs.power(2).sum(axis=1))).reshape(-1)
    return float(np.mean(dots[norms > 0] / norms[norms > 0])) if (norms > 0).any() else 0.0


# --- from judged documents -------------------------------------------------------------------------------------------


class Lists(NamedTuple):
    """The candidates of queries, those of a query next to each other."""

    parts: sp.csr_matrix  # candidates × tokens: a document's weights of the tokens of its query
    query_of: NDArray[np.int64]
    starts: NDArray[np.int64]  # the first candidate of every query
    target: Floats  # how likely each should be: the grades, which sum to 1 for a query


def make_lists(parts: sp.csr_matrix, lengths: Sequence[int], grades: Sequence[float]) -> Lists:
    """Return candidates as they are learned from; every query has one with a grade above zero."""
    counts = np.array(lengths, dtype=np.int64)
    query_of = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    target = np.array(grades, dtype=np.float64)
    return Lists(parts.tocsr(), query_of, starts, target / np.add.reduceat(target, starts)[query_of])


def learned(start: Floats, lists: Lists, strength: float) -> Floats:
    """Return the weights whose softmax over candidates comes closest to the grades, by cross-entropy.

    Weights are start × exp(change), so that none is below zero, and a token without a weight gets none.

    Parameters
    ----------
    start
        A weight per token.
    lists
        The candidates of queries.
    strength
        How strongly changes are held at zero: as many queries as a token has to occur in for them to matter.
    """
    transposed = lists.parts.T.tocsr()
    num_queries = len(lists.starts)
    scores = lists.parts @ start
    state = np.zeros(len(start) + 1)  # a change per token, and the logarithm of what scores are multiplied by
    state[-1] = np.log(_SPREAD / max(_mean_spread(lists, scores), 1e-9))
    mean, square = np.zeros_like(state), np.zeros_like(state)
    for step in range(1, _STEPS + 1):
        weights = start * np.exp(state[:-1])
        factor = np.exp(state[-1])
        scores = lists.parts @ weights
        errors = factor * (_softmax(lists, factor * scores) - lists.target) / num_queries
        slope = np.append(transposed @ errors * weights + strength / num_queries * state[:-1], errors @ scores)
        mean = _DECAYS[0] * mean + (1 - _DECAYS[0]) * slope
        square = _DECAYS[1] * square + (1 - _DECAYS[1]) * slope**2
        fresh = mean / (1 - _DECAYS[0] ** step), square / (1 - _DECAYS[1] ** step)
        state -= _RATE * fresh[0] / (np.sqrt(fresh[1]) + 1e-6)
    return np.asarray(start * np.exp(state[:-1]), dtype=np.float64)


def _softmax(lists: Lists, scores: Floats) -> Floats:
    above = np.exp(scores - np.maximum.reduceat(scores, lists.starts)[lists.query_of])
    return np.asarray(above / np.add.reduceat(above, lists.starts)[lists.query_of], dtype=np.float64)


def _mean_spread(lists: Lists, scores: Floats) -> float:
    """Return the standard deviation of the scores of a query, the mean of all queries."""
    counts = np.bincount(lists.query_of)
    means = np.add.reduceat(scores, lists.starts) / counts
    squares = np.add.reduceat(scores**2, lists.starts) / counts
    return float(np.sqrt(np.maximum(squares - means**2, 0)).mean())


def ndcg(ranked: Sequence[Any], grades: Mapping[Any, float], depth: int = 10) -> float:
    """Return the normalized discounted cumulative gain of the first results, with grades as gains.

    Examples
    --------
    >>> ndcg(["a", "b"], {"a": 1, "c": 0}), round(ndcg(["b", "a"], {"a": 1}), 3)
    (1.0, 0.631)
    """
    discounts = 1 / np.log2(np.arange(2, depth + 2))
    gains = [max(grades.get(name, 0), 0) for name in ranked[:depth]]
    best = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:depth]
    return float(gains @ discounts[: len(gains)] / (best @ discounts[: len(best)])) if best else 0.0
