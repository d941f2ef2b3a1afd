"""The formulas of BM25.

As in Kamphuis et al., "Which BM25 do you mean?" (ECIR 2020), and in bm25s. BM25L and BM25+ also give a document
something for a word it does not have; that is the same for all documents, so it is subtracted and order stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def _saturation(tf: Floats, norm: Floats, k1: float) -> Floats:
    return tf / (k1 * norm + tf)


def _bm25l(tf: Floats, norm: Floats, k1: float, delta: float) -> Floats:
    count = tf / norm + delta
    return (k1 + 1) * (count / (k1 + count) - delta / (k1 + delta))


#: The factor that depends on the document: of term frequency, length norm, k1 and delta.
TERM_FACTORS: Mapping[str, Callable[[Floats, Floats, float, float], Floats]] = {
    "lucene": lambda tf, norm, k1, _: _saturation(tf, norm, k1),
    "robertson": lambda tf, norm, k1, _: _saturation(tf, norm, k1),
    "atire": lambda tf, norm, k1, _: (k1 + 1) * _saturation(tf, norm, k1),
    "bm25l": _bm25l,
    "bm25+": lambda tf, norm, k1, _: (k1 + 1) * _saturation(tf, norm, k1),
}
#: The factor that depends on the word: of the number of documents that have it, and of all.
WORD_FACTORS: Mapping[str, Callable[[Floats, int], Floats]] = {
    "lucene": lambda df, n: np.log(1 + (n - df + 0.5) / (df + 0.5)),
    "robertson": lambda df, n: np.log(np.maximum((n - df + 0.5) / (df + 0.5), 1)),
    "atire": lambda df, n: np.log(n / df),
    "bm25l": lambda df, n: np.log((n + 1) / (df + 0.5)),
    "bm25+": lambda df, n: np.log((n + 1) / df),
}
METHODS = tuple(TERM_FACTORS)
