"""A large generated collection: sparse vectors that have topics, and words as frequent as in texts.

Each document is about one of a thousand topics and touches a related one. Most of its terms belong to these topics; the
others come from the whole vocabulary, frequent terms more often (Zipf's law). Rare terms weigh more, as in BM25 and
SPLADE, and so do the central terms of a topic; each weight varies. Queries are about topics, too, but shorter. Topics
of real texts overlap in more ways, so pruning helps there less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import scipy.sparse as sp

NUM_TERMS = 30_000
_NUM_TOPICS = 1_000
_TOPIC_TERMS = 300
_NUM_RELATED = 5  # topics that share documents with a topic
_RELATED_SHARE = 0.25  # of a document's terms
_GENERAL_SHARE = 0.25
_ZIPF = 1.0  # the exponent of word frequencies in texts
_TOPIC_ZIPF = 0.7
_SPREAD = 0.35  # standard deviation of the logarithm of a weight


class Generator:
    """Draws documents and queries; the same seed draws the same ones.

    Parameters
    ----------
    seed
        A random seed.
    """

    def __init__(self, seed: int = 0) -> None:
        self._rng = rng = np.random.default_rng(seed)
        self._general = _cumulated(NUM_TERMS, _ZIPF)
        self._within = _cumulated(_TOPIC_TERMS, _TOPIC_ZIPF)
        self._popularity = _cumulated(_NUM_TOPICS, 0.5)
        frequent_first = _drawn(rng, self._general, _NUM_TOPICS * _TOPIC_TERMS)
        self._topic_terms = rng.permutation(frequent_first).reshape(_NUM_TOPICS, _TOPIC_TERMS)
        self._related = rng.integers(0, _NUM_TOPICS, (_NUM_TOPICS, _NUM_RELATED))
        self._rarity = np.log1p(np.arange(1, NUM_TERMS + 1)) / np.log1p(NUM_TERMS)

    def vectors(self, count: int, mean_terms: float) -> sp.csr_matrix:
        """Return a matrix of `count` vectors with about `mean_terms` terms each.

        Examples
        --------
        >>> Generator(seed=1).vectors(3, mean_terms=20).shape
        (3, 30000)
        """
        import scipy.sparse as sp

        rng = self._rng
        lengths = np.maximum(2, rng.lognormal(np.log(mean_terms), 0.3, count)).astype(np.int64)
        rows = np.repeat(np.arange(count), lengths)
        terms, weights = self._terms(_drawn(rng, self._popularity, count)[rows], rows)
        return sp.csr_matrix((weights.astype(np.float32), (rows, terms)), shape=(count, NUM_TERMS))

    def _terms(
        self, topics: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Draw a term and its weight for every place in the documents, whose topics are `topics`."""
        rng, count = self._rng, len(rows)
        chosen = rng.integers(0, _NUM_RELATED, int(rows[-1]) + 1)[rows]  # one related topic per document
        kind = rng.random(count)
        topics = np.where(kind < _RELATED_SHARE, self._related[topics, chosen], topics)
        ranks = _drawn(rng, self._within, count)
        general = kind > 1 - _GENERAL_SHARE
        terms = np.where(general, _drawn(rng, self._general, count), self._topic_terms[topics, ranks])
        heart = np.where(general, 0.5, 1.5 - ranks / _TOPIC_TERMS)
        return terms, self._rarity[terms] * heart * rng.lognormal(0.0, _SPREAD, count)


def _cumulated(count: int, exponent: float) -> NDArray[np.float64]:
    """Return the cumulated probabilities of a power law."""
    shares = np.arange(1, count + 1) ** -exponent
    return np.asarray(np.cumsum(shares) / shares.sum())


def _drawn(rng: np.random.Generator, cumulated: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    return np.minimum(np.searchsorted(cumulated, rng.random(count)), len(cumulated) - 1)
