"""Pieces: a few thousand documents each, in a file, which all later tasks work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from segmax.shards.making.columns import columns_of, joined_arrays, string_column, vectors_of
from segmax.shards.making.packed import Packed
from segmax.shards.making.tasks import Workplace
from segmax.storage.components import Arrays
from segmax.vectors.csr import Csr
from segmax.vectors.rows import sorted_rows

#: A piece is closed once it has so many documents, or so many bytes of strings.
PIECE_DOCS = 16384
PIECE_BYTES = 1 << 23


class Piece(NamedTuple):
    """Where the documents of a piece are, and where it lies in the whole collection."""

    number: int  #: of the piece, in the order of rows
    first_row: int
    num_docs: int
    vectors: str  #: the file with their vectors
    documents: str  #: the file with their ids, texts and metadata, perhaps the same
    terms: str | None = None  #: the file with the number of each of its terms in the whole collection; None: the same
    texts: bool = True  #: whether texts are stored, where there are any
    ids: str = "given"  #: "given", "rows" (the row is the id) or "names" (the row as a string is)

    def read(self, work: Workplace, num_terms: int) -> tuple[Csr, Arrays]:
        """Return the vectors, with the terms of the whole collection, and the columns."""
        vectors = work.load(self.vectors)
        documents = vectors if self.documents == self.vectors else work.load(self.documents)
        return self._vectors(vectors, work, num_terms), self._columns(documents)

    def read_vectors(self, work: Workplace, num_terms: int) -> Csr:
        """Return the vectors, with the terms of the whole collection."""
        return self._vectors(work.load(self.vectors), work, num_terms)

    def _vectors(self, packed: Packed, work: Workplace, num_terms: int) -> Csr:
        docs = vectors_of(packed.arrays, num_terms)
        if self.terms is None:
            return docs
        numbers = work.load(self.terms).arrays["number"]
        return sorted_rows(docs._replace(indices=numbers[docs.indices]))

    def _columns(self, packed: Packed) -> Arrays:
        columns = columns_of(packed.arrays, texts=self.texts)
        if self.ids == "given":
            return columns
        columns = {name: array for name, array in columns.items() if not name.startswith("id_")}
        rows = np.arange(self.first_row, self.first_row + self.num_docs, dtype=np.int64)
        if self.ids == "rows":
            return {**columns, "id_number": rows}
        return {**columns, **string_column("id", [str(row) for row in rows.tolist()])}


class PieceWriter:
    """Collects documents and writes them as pieces.

    Parameters
    ----------
    work
        Where to.
    prefix
        What the names of the files start with.
    """

    def __init__(self, work: Workplace, prefix: str) -> None:
        self._work = work
        self._prefix = prefix
        self._open: list[Arrays] = []
        self._open_docs = self._open_bytes = 0
        self.entries: list[dict[str, Any]] = []  #: name, number of documents and number of postings of every piece

    def add(self, arrays: Arrays, num_docs: int) -> None:
        """Add documents, given as columns and vectors, all of them with the same names."""
        self._open.append(arrays)
        self._open_docs += num_docs
        self._open_bytes += sum(array.nbytes for array in arrays.values())
        if self._open_docs >= PIECE_DOCS or self._open_bytes >= PIECE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is left."""
        if not self._open:
            return
        arrays = joined_arrays(self._open)
        name = f"{self._prefix}-{len(self.entries):05}"
        self._work.keep(name, arrays, {"num_docs": self._open_docs})
        postings = len(arrays["indices"]) if "indices" in arrays else 0
        self.entries.append({"name": name, "num_docs": self._open_docs, "num_postings": postings})
        self._open, self._open_docs, self._open_bytes = [], 0, 0


def numbered_pieces(
    units: Sequence[Mapping[str, Any]], ids: str, terms_of: Callable[[str], str] | None = None
) -> list[Piece]:
    """Return all pieces in the order of rows.

    Parameters
    ----------
    units
        The results of the tasks that have read the input.
    ids
        What documents are called by, as in `Piece`.
    terms_of
        Returns the file with the numbers of a unit's terms; None: terms have the same numbers everywhere.
    """
    pieces: list[Piece] = []
    row = 0
    for unit in units:
        terms = None if terms_of is None else terms_of(unit["unit"])
        for entry in unit["pieces"]:
            pieces.append(Piece(len(pieces), row, entry["num_docs"], entry["name"], entry["name"], terms, ids=ids))
            row += entry["num_docs"]
    return pieces
