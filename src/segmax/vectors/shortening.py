"""A query without its lightest terms: the slow twin of what the core does for `max_terms` and `query_mass`.

How heavy a term is in a query is the most that it can add to a score: its weight × the largest weight that the index
stores for it. The mass of a query is the sum of that over its terms. Every search drops terms in the core; `explain`
needs to know which ones, and works that out here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A share such as 0.9 is no exact binary number: without this, 9 of 10 equal terms would fall short of it.
_TOLERANCE = 1e-12


def heaviest_terms(
    terms: NDArray[np.int64],
    weights: NDArray[np.float64],
    ceiling: NDArray[np.float64],
    *,
    mass: float = 1.0,
    count: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the heaviest terms of a query and their weights, terms ascending. Unknown terms stay.

    Parameters
    ----------
    terms, weights
        The query; repeated terms are summed.
    ceiling
        The largest stored weight of every term.
    mass
        Keep the fewest terms that hold this share of the query's mass.
    count
        Keep at most this many; None: no limit.

    Examples
    --------
    >>> heaviest_terms(np.array([7, 2]), np.array([1.0, 3.0]), np.ones(9), count=1)
    (array([2]), array([3.]))
    """
    terms, at = np.unique(terms, return_inverse=True)
    weights = np.bincount(at, weights=weights, minlength=len(terms)).astype(np.float64)
    known = terms < len(ceiling)
    most = np.zeros(len(terms))
    most[known] = weights[known] * ceiling[terms[known]]
    order = np.lexsort((~known, -most))
    sums = np.concatenate([np.zeros(1), np.cumsum(most[order])])
    kept = np.ones(len(terms), dtype=np.bool_)
    if mass < 1.0:
        kept[order] = sums[:-1] < (mass - _TOLERANCE) * sums[-1]
    if count is not None:
        kept[order[count:]] = False
    kept |= ~known
    return terms[kept], weights[kept]
