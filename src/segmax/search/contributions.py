"""What each term adds to a score, rounded so that the parts add up exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from segmax.search.results import MatchedTerm
from segmax.storage.tables import TextTable


def matched_terms(
    terms: NDArray[np.uint32],
    units: Sequence[int],
    scale: float,
    query_weights: NDArray[np.float64],
    document_weights: NDArray[np.float64],
    vocabulary: TextTable | None,
) -> tuple[MatchedTerm, ...]:
    """Name the terms that make up a score, the largest contribution first.

    Parameters
    ----------
    terms
        Their numbers.
    units
        What each adds to the score, in whole numbers of `scale`, which is how searches add them up.
    query_weights, document_weights
        Their weights, as a search works with them.
    vocabulary
        The words of the terms; None where the index has none.
    """
    found = zip(
        terms.tolist(), exact_parts(units, scale), query_weights.tolist(), document_weights.tolist(), strict=True
    )
    matched = [
        MatchedTerm(term, None if vocabulary is None else vocabulary[term], query_weight, document_weight, part)
        for term, part, query_weight, document_weight in found
    ]
    return tuple(sorted(matched, key=lambda match: (-match.contribution, match.term)))


def exact_parts(units: Sequence[int], scale: float) -> list[float]:
    """Return the product of each unit and the scale, rounded so that the products add up to that of the sum exactly.

    All parts are multiples of the last place of their sum, so that adding them rounds nothing, whatever the order; what
    rounding them leaves over, a few last places, goes to the largest.

    Examples
    --------
    >>> parts = exact_parts([1, 1, 1], 0.1)
    >>> sum(parts) == 3 * 0.1
    True
    """
    score = float(sum(units)) * scale
    if not units:
        return []
    last_place = math.ulp(score)  # a power of two: dividing by it and multiplying with it are exact
    numerator, denominator = (scale / last_place).as_integer_ratio()
    places = [(2 * unit * numerator + denominator) // (2 * denominator) for unit in units]
    places[places.index(max(places))] += int(score / last_place) - sum(places)
    return [count * last_place for count in places]
