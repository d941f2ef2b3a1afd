"""Statistics of weights, kept with the terms that occur, and merged into the scales of the whole collection."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from segmax.shards.making.packed import Packed
from segmax.storage.components import Arrays
from segmax.vectors.csr import Csr
from segmax.vectors.quantize import Quantizer, TermStatistics

#: The file with the scales of the whole collection.
SCALES = "scales"


class GrowingStatistics:
    """The statistics of a stream of rows whose vocabulary may grow."""

    def __init__(self) -> None:
        self._total = TermStatistics.of_nothing(0)

    def add(self, docs: Csr) -> None:
        """Count in some rows, whose weights are stored as narrowly as they can be."""
        known = len(self._total.counts)
        if docs.num_columns > known:
            wider = TermStatistics.of_nothing(docs.num_columns)
            self._total = wider.add(self._total, np.arange(known))
        found = TermStatistics.of_rows(docs, docs.num_columns)
        self._total = self._total.add(found, np.arange(docs.num_columns))

    def arrays(self) -> Arrays:
        """Return what there is to know about the terms that occur, as arrays of a file."""
        used = np.flatnonzero(self._total.counts)
        return {
            "stat_term": used.astype(np.uint32),
            "stat_largest": self._total.largest[used],
            "stat_count": self._total.counts[used],
            "stat_logs": self._total.logs[used],
            "stat_whole": np.array([self._total.is_whole]),
        }


def merged_statistics(files: Iterable[tuple[Arrays, NDArray[np.uint32] | None]], num_terms: int) -> TermStatistics:
    """Return the statistics of everything.

    Parameters
    ----------
    files
        The arrays of `GrowingStatistics`, each with the number of its terms in the whole collection; None: the same.
    num_terms
        Of the whole collection.
    """
    total = TermStatistics.of_nothing(num_terms)
    for arrays, numbers in files:
        terms = arrays["stat_term"] if numbers is None else numbers[arrays["stat_term"]]
        found = TermStatistics(
            arrays["stat_largest"], arrays["stat_count"], arrays["stat_logs"], bool(arrays["stat_whole"][0])
        )
        total = total.add(found, terms)
    return total


def scale_arrays(statistics: TermStatistics, bits: int) -> Arrays:
    """Return scales, largest codes and frequencies of all terms, as arrays of a file.

    They are computed once: another processor may round an exponential differently.
    """
    quantizer = Quantizer.from_statistics(statistics, bits)
    return {
        "scale": quantizer.scale,
        "largest": quantizer.largest_codes(statistics),
        "frequency": statistics.counts,
        "keeps_values": np.array([quantizer.keeps_values]),
    }


def quantizer_of(scales: Packed, bits: int) -> Quantizer:
    """Return what codes documents by the scales of the whole collection."""
    arrays = scales.arrays
    return Quantizer.from_scales(arrays["scale"], bits, keeps_values=bool(arrays["keeps_values"][0]))
