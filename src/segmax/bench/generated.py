"""A large generated collection: sparse vectors that have topics, and terms as frequent as a SPLADE model makes them.

Each document is about one of a thousand topics and touches a related one. Most of its terms belong to these topics; the
others come from the whole vocabulary, frequent terms more often. Rare terms weigh more, and so do the central terms of
a topic; each weight varies. Queries are about topics, too, but shorter. Frequencies of terms, weights, and how many
postings a query meets are near those of SPLADE vectors of Wikipedia passages. But topics of real texts overlap in more
ways, so pruning helps there less.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

NUM_TERMS = 30_000
_NUM_TOPICS = 1_000
_TOPIC_TERMS = 600
_NUM_RELATED = 5  # topics that share documents with a topic
_RELATED_SHARE = 0.25  # of a document's terms
_GENERAL_SHARE = 0.25
#: Frequencies of terms by rank: one power of it, and a steeper one beyond the knee.
_HEAD, _KNEE, _TAIL = 0.4, 1500, 0.9
_TOPIC_ZIPF = 0.7
_SPREAD = 0.7  # standard deviation of the logarithm of a weight
_HEAVIEST = 5.0  # times the weight of a central term
_TRIES, _SAMPLE = 12, 500
_MOST_DRAWN = 10.0  # times as many terms as there should be: topics have only so many


class Generator:
    """Draws documents and queries; the same seed draws the same ones.

    Parameters
    ----------
    seed
        A random seed.
    """

    def __init__(self, seed: int = 0) -> None:
        self._rng = rng = np.random.default_rng(seed)
        ranks = np.arange(1, NUM_TERMS + 1)
        self._general = _cumulated(ranks**-_HEAD * (1 + ranks / _KNEE) ** -_TAIL)
        self._within = _cumulated(np.arange(1, _TOPIC_TERMS + 1) ** -_TOPIC_ZIPF)
        self._popularity = _cumulated(np.arange(1, _NUM_TOPICS + 1) ** -0.5)
        frequent_first = _drawn(rng, self._general, _NUM_TOPICS * _TOPIC_TERMS)
        self._topic_terms = rng.permutation(frequent_first).reshape(_NUM_TOPICS, _TOPIC_TERMS)
        self._related = rng.integers(0, _NUM_TOPICS, (_NUM_TOPICS, _NUM_RELATED))
        self._rarity = np.log1p(ranks) / np.log1p(NUM_TERMS)

    def batches(self, count: int, mean_terms: float, size: int = 1 << 14) -> Iterator[sp.csr_matrix]:
        """Yield `count` vectors as matrices of at most `size` rows, so that drawing them takes little memory.

        Examples
        --------
        >>> [batch.shape[0] for batch in Generator(seed=1).batches(5, mean_terms=20, size=2)]
        [2, 2, 1]
        """
        drawn = self._drawn_for(mean_terms)
        for first in range(0, count, size):
            yield self._vectors(min(size, count - first), drawn)

    def vectors(self, count: int, mean_terms: float) -> sp.csr_matrix:
        """Return a matrix of `count` vectors with about `mean_terms` terms each; a topic has 600.

        Examples
        --------
        >>> Generator(seed=1).vectors(3, mean_terms=20).shape
        (3, 30000)
        """
        return sp.csr_matrix(sp.vstack(list(self.batches(count, mean_terms)), format="csr"))

    def _drawn_for(self, mean_terms: float) -> float:
        """Return how many terms to draw for so many different ones; those that are drawn twice become one."""
        state = self._rng.bit_generator.state
        drawn = mean_terms
        for _ in range(_TRIES):
            found = self._vectors(_SAMPLE, drawn).nnz / _SAMPLE
            drawn = min(drawn * mean_terms / found, _MOST_DRAWN * mean_terms)
        self._rng.bit_generator.state = state
        return drawn

    def _vectors(self, count: int, drawn: float) -> sp.csr_matrix:
        """Return vectors for which about `drawn` terms are drawn each."""
        rng = self._rng
        lengths = np.maximum(2, rng.lognormal(np.log(drawn), 0.3, count)).astype(np.int64)
        rows = np.repeat(np.arange(count), lengths)
        terms, weights = self._terms(_drawn(rng, self._popularity, count)[rows], rows)
        places, first = np.unique(rows * NUM_TERMS + terms, return_index=True)
        rows, terms = np.divmod(places, NUM_TERMS)
        return sp.csr_matrix((weights[first].astype(np.float32), (rows, terms)), shape=(count, NUM_TERMS))

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
        varied = np.minimum(rng.lognormal(0.0, _SPREAD, count), _HEAVIEST)
        return terms, self._rarity[terms] * heart * varied


def _cumulated(shares: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the cumulated probabilities of what has these shares."""
    return np.asarray(np.cumsum(shares) / shares.sum())


def _drawn(rng: np.random.Generator, cumulated: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    return np.minimum(np.searchsorted(cumulated, rng.random(count)), len(cumulated) - 1)
