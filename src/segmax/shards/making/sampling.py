"""Stage 4, first half: some documents stand for the collection, chosen by the seed and their rows alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.shards.making.columns import vector_arrays
from segmax.shards.making.pieces import Piece
from segmax.shards.making.statistics import SCALES, quantizer_of
from segmax.shards.making.tasks import Task, Workplace
from segmax.vectors.rows import selected_rows

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))


def is_sampled(rows: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Return of every row whether it is in a sample of this share of all rows.

    Examples
    --------
    >>> int(is_sampled(np.arange(100_000), 0.25, 1).sum())
    24912
    """
    if share >= 1.0:
        return np.ones(len(rows), dtype=np.bool_)
    with np.errstate(over="ignore"):
        mixed = (rows.astype(np.uint64) + np.uint64(seed % 2**32) * np.uint64(2**31 + 11)) * _STEP
        for shift, multiplier in _MULTIPLIERS:
            mixed = (mixed ^ (mixed >> shift)) * multiplier
        mixed ^= mixed >> np.uint64(31)
    return np.asarray(mixed < np.uint64(share * 2.0**64))


@dataclasses.dataclass(frozen=True)
class TakeSample(Task):
    """Takes the sampled documents of a piece, coded."""

    piece: Piece
    num_terms: int
    share: float
    seed: int
    bits: int

    @property
    def output(self) -> str:
        """The file that says that the task is done."""
        return sample_name(self.piece.number)

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Write the sample of the piece."""
        rows = np.arange(self.piece.first_row, self.piece.first_row + self.piece.num_docs)
        chosen = np.flatnonzero(is_sampled(rows, self.share, self.seed))
        docs = selected_rows(self.piece.read_vectors(work, self.num_terms), chosen)
        coded = quantizer_of(work.load(SCALES), self.bits).coded_rows(docs).docs
        about = {"num_docs": len(chosen)}
        work.keep(self.output, vector_arrays(coded), about)
        return about


def sample_name(piece: int) -> str:
    """Return the file of a piece's sample."""
    return f"sample/{piece:06}"
