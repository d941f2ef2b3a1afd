"""Queries that were encoded already: models take milliseconds for a query, and the same ones come again."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from segmax.vectors.csr import Csr
from segmax.vectors.rows import join_rows, slice_rows

_MOST_ENTRIES = 4096
_MOST_BYTES = 1 << 24
_ENTRY_BYTES = 600  # of the objects around a text and its numbers
_MOST_TEXTS = 32  # of a batch that is looked up; larger ones are whole files of queries, each of which comes once


class QueryCache:
    """The vectors of the texts that were asked for last, for any number of threads.

    Parameters
    ----------
    most_entries
        How many texts to keep.
    most_bytes
        How much memory they may take, about.
    """

    def __init__(self, most_entries: int = _MOST_ENTRIES, most_bytes: int = _MOST_BYTES) -> None:
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._rows: OrderedDict[str, Csr] = OrderedDict()  # the oldest first
        self._num_bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def num_bytes(self) -> int:
        """How much memory the texts and their vectors take, about."""
        return self._num_bytes

    def __getstate__(self) -> dict[str, Any]:
        return {"_most_entries": self._most_entries, "_most_bytes": self._most_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_most_entries"], state["_most_bytes"])  # type: ignore[misc]

    def rows(self, texts: Sequence[str], encode: Callable[[Sequence[str]], Csr]) -> Csr:
        """Return the vectors of texts; `encode` is called with those that are not here, each of them once."""
        if not 0 < len(texts) <= _MOST_TEXTS:
            return encode(texts)
        with self._lock:
            known = {text: row for text in texts if (row := self._found(text)) is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            encoded = encode(missing)
            fresh = {text: _kept(slice_rows(encoded, at, at + 1)) for at, text in enumerate(missing)}
            with self._lock:
                for text, row in fresh.items():
                    self._keep(text, row)
            known |= fresh
        rows = [known[text] for text in texts]
        return rows[0] if len(rows) == 1 else join_rows(rows, rows[0].num_columns)

    def _found(self, text: str) -> Csr | None:
        row = self._rows.get(text)
        if row is not None:
            self._rows.move_to_end(text)
        return row

    def _keep(self, text: str, row: Csr) -> None:
        if text in self._rows:  # another thread was faster
            return
        self._rows[text] = row
        self._num_bytes += _size(text, row)
        while len(self._rows) > self._most_entries or self._num_bytes > self._most_bytes:
            self._num_bytes -= _size(*self._rows.popitem(last=False))


def _kept(row: Csr) -> Csr:
    """Return a row with arrays of its own, which nobody can change."""
    indptr, indices, values = (np.array(part) for part in row[:3])
    for part in (indptr, indices, values):
        part.flags.writeable = False
    return Csr(indptr, indices, values, row.num_columns)


def _size(text: str, row: Csr) -> int:
    return sys.getsizeof(text) + row.indices.nbytes + row.values.nbytes + _ENTRY_BYTES
