"""What an engine is: it builds an index of a matrix, opens it, and answers queries one at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import scipy.sparse as sp

Rows = NDArray[np.integer[Any]]


class Setting(NamedTuple):
    """Parameters of a search; with `always`, they are measured on all queries even if others are better."""

    label: str
    values: Mapping[str, Any]
    exact: bool = False
    always: bool = False


class Answer(NamedTuple):
    """An engine's answer to one query, best first; the call is timed by whoever asks."""

    rows: Rows
    core_ns: int | None = None  # by the engine's own clock, if it has one
    swept: bool = False


class Searcher(Protocol):
    """An open index, with queries in the form that the engine takes."""

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        """Return a function that answers the query of a number; only the function is timed."""
        ...

    def answer(self, raw: Any) -> Answer:
        """Convert what that function returned."""
        ...


class Build(NamedTuple):
    """The cost of building one index."""

    name: str
    version: str
    convert_seconds: float  # from CSR to what the engine takes
    build_seconds: float  # from there to a searchable index on disk
    cpu_seconds: float  # both, summed over all cores
    size_bytes: int  # on disk
    peak_bytes: int  # of the process, loaded vectors included


class Engine(NamedTuple):
    """An engine with an index of its own. Weights of documents and queries are whole numbers of 8 bits."""

    package: str
    grid: tuple[Setting, ...]
    build: Callable[[sp.csr_matrix, Path], Build]
    open: Callable[[Path, sp.csr_matrix], Searcher]
    settings: Mapping[str, Any] = {}  # of the build
    timed_inside: bool = False  # timed by its own clock only
    also_needs: tuple[str, ...] = ()  # packages that its package runs without, but not as it should
    programs: tuple[str, ...] = ()  # programs that must be there
    built_after: str = ""  # an engine whose index it needs


class Clock:
    """Wall time since the last lap, and the time of all cores since the start."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        last, self._last = self._last, time.perf_counter()
        return self._last - last

    def cpu(self) -> float:
        """Return the seconds all cores have worked since the start."""
        return time.process_time() - self._cpu


def size_of(path: Path, leave_out: frozenset[str] = frozenset()) -> int:
    """Return the size of a file, or of the files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file() and file.name not in leave_out)


def named_documents(docs: sp.csr_matrix, order: Rows | None = None) -> Iterator[dict[str, Any]]:
    """Yield what PISA and BMP take: {'docno': row, 'toks': {term: weight}}, by row or in the order given."""
    for row in range(docs.shape[0]) if order is None else order.tolist():
        part = slice(docs.indptr[row], docs.indptr[row + 1])
        toks = dict(zip(map(str, docs.indices[part].tolist()), docs.data[part].tolist(), strict=True))
        yield {"docno": str(row), "toks": toks}
