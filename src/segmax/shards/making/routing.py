"""Stage 5: every document gets its codes, its cluster and its shard.

There is a file per piece, with a section per shard, so that a shard reads what belongs to it and nothing else. A second
file says where the sections end.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.shards.making.columns import selected_columns, vector_arrays
from segmax.shards.making.packed import DamagedFileError, Packed, pack, unpack
from segmax.shards.making.pieces import Piece
from segmax.shards.making.statistics import SCALES, quantizer_of
from segmax.shards.making.tasks import Task, Workplace
from segmax.shards.making.training import CLUSTERS, Clusters
from segmax.storage.components import Arrays
from segmax.vectors.csr import Csr
from segmax.vectors.rows import selected_rows

#: The folder of sections.
SECTIONS = "sections"


@dataclasses.dataclass(frozen=True)
class Route(Task):
    """Splits the documents of a piece by shard."""

    piece: Piece
    num_terms: int
    num_shards: int
    bits: int
    by_clusters: bool  #: or by rows

    @property
    def output(self) -> str:
        """The file that says that the task is done."""
        return ends_name(self.piece.number)

    def holds(self, found: Packed, work: Workplace) -> bool:
        """Whether all sections are there, and whole."""
        sections = (Section(self.piece.number, *ends) for ends in itertools.pairwise(found.arrays["ends"].tolist()))
        try:
            for section in sections:
                section.read(work)
        except DamagedFileError:
            return False
        return True

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Write the sections."""
        docs, columns = self.piece.read(work, self.num_terms)
        coded = quantizer_of(work.load(SCALES), self.bits).coded_rows(docs).docs
        rows = np.arange(self.piece.first_row, self.piece.first_row + self.piece.num_docs, dtype=np.int64)
        if not self.by_clusters:
            return self._write(work, rows % self.num_shards, coded, {"row": rows}, columns)
        clusters = Clusters(work.load(CLUSTERS))
        labels = clusters.labels(coded)
        return self._write(work, clusters.shard[labels], coded, {"row": rows, "label": labels}, columns)

    def _write(
        self, work: Workplace, shard: NDArray[np.int64], docs: Csr, numbers: Arrays, columns: Arrays
    ) -> Mapping[str, Any]:
        """Write the sections; `numbers` and `columns` are what documents have beside their codes."""
        pieces: list[bytes | memoryview] = []
        ends = np.zeros(self.num_shards + 1, dtype=np.uint64)
        for number in range(self.num_shards):
            own = np.flatnonzero(shard == number)
            section: list[bytes | memoryview] = []
            if len(own):
                arrays = {name: array[own] for name, array in numbers.items()}
                section = pack(
                    {**vector_arrays(selected_rows(docs, own)), **arrays, **selected_columns(columns, own)}, {}
                )
            pieces += section
            ends[number + 1] = ends[number] + np.uint64(sum(map(len, section)))
        work.write(sections_name(self.piece.number), pieces)
        about = {"num_docs": np.bincount(shard, minlength=self.num_shards).tolist()}
        work.keep(self.output, {"ends": ends}, about)
        return about


class Section(NamedTuple):
    """Where documents of a piece lie that belong to one shard."""

    piece: int
    begin: int
    end: int

    def read(self, work: Workplace) -> Arrays:
        """Return codes, rows, clusters and columns; raise DamagedFileError if the file is damaged."""
        name = sections_name(self.piece)
        return unpack(work.read(name, self.begin, self.end - self.begin), name).arrays if self.end > self.begin else {}


def find_sections(shard: int, num_pieces: int, work: Workplace) -> list[Section]:
    """Return the sections of a shard that have any documents, in the order of rows."""
    found = []
    for piece in range(num_pieces):
        begin, end = work.load(ends_name(piece)).arrays["ends"][shard : shard + 2].tolist()
        if end > begin:
            found.append(Section(piece, begin, end))
    return found


def sections_name(piece: int) -> str:
    """Return the file with the sections of a piece."""
    return f"{SECTIONS}/{piece:06}.documents"


def ends_name(piece: int) -> str:
    """Return the file that says where the sections of a piece end."""
    return f"{SECTIONS}/{piece:06}.ends"
