"""A part of a collection: an immutable index in memory or on disk, and the insertion numbers of its documents."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.errors import FormatError, damaged
from segmax.collection.lookup import candidates, hashed_ids, lookup_arrays
from segmax.metadata import Metadata
from segmax.search.engine import Engine
from segmax.storage.components import Arrays
from segmax.storage.config import BuildConfig
from segmax.storage.reading import index_errors, load_index
from segmax.storage.tables import DocIds, TextTable
from segmax.storage.texts import StoredText, TextList
from segmax.vectors.csr import Csr
from segmax.vectors.documents import DocId

#: What is recorded as the clustering of a part that has none.
ROUGH = "as they came"
_IN_MEMORY = BuildConfig(num_segments=1)
_SERIALS = itertools.count()


class Documents(NamedTuple):
    """What a part in memory is made of, by row."""

    codes: Csr
    ids: Arrays
    numbers: NDArray[np.int64]
    texts: Sequence[StoredText] | None
    metadata: Sequence[Any] | None
    counts: Csr | None
    weights: Csr | None  #: as they came, while the lattice is provisional

    @property
    def num_docs(self) -> int:
        """How many there are."""
        return len(self.numbers)


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """Documents that are searched together. Which of them are alive is for a state to know."""

    engine: Engine
    numbers: NDArray[np.int64]  #: by row, ascending
    lookup: Arrays
    counts: Csr | None = None  #: BM25: how often each document has each word
    name: str = ""  #: its folder in that of the collection; "" in memory
    documents: Documents | None = None  #: in memory: what it is made of
    rough: bool = False  #: on disk, and not clustered yet

    @property
    def num_docs(self) -> int:
        """The number of documents, dead ones among them."""
        return len(self.numbers)

    @cached_property
    def serial(self) -> int:
        """A number that no other part of this process has."""
        return next(_SERIALS)

    @property
    def is_wide(self) -> bool:
        """Whether codes take 16 bits."""
        return self.engine.arrays["term_top_code"].dtype.itemsize == 2

    @property
    def ids(self) -> DocIds:
        """The ids by row."""
        return self.engine.ids

    @property
    def has_metadata(self) -> bool:
        """Whether documents are described by anything."""
        return self.engine.metadata is not None or self.listed_metadata is not None

    @property
    def listed_metadata(self) -> Sequence[Any] | None:
        """The metadata of a part in memory as they came, by row."""
        return None if self.documents is None else self.documents.metadata

    @cached_property
    def metadata(self) -> Metadata | None:
        """What documents are described by, by row; None where none of them is."""
        # In memory, columns are made for the first filter: most parts have gone to disk before one comes.
        return self.engine.metadata if self.listed_metadata is None else Metadata.from_rows(self.listed_metadata)

    def metadata_of(self, row: int) -> dict[str, Any] | None:
        """Return what a document is described by."""
        if self.listed_metadata is not None:
            own: dict[str, Any] | None = copy.deepcopy(self.listed_metadata[row])
            return own
        found: dict[str, Any] | None = None if self.engine.metadata is None else self.engine.metadata[row]
        return found

    @property
    def id_arrays(self) -> Arrays:
        """The components that hold the ids."""
        arrays = self.engine.arrays
        return {name: arrays[name] for name in ("id_number", "id_offset", "id_text") if name in arrays}

    @property
    def num_postings(self) -> int:
        """The number of stored weights, of dead documents too."""
        return int(self.engine.arrays["term_first_posting"][-1])

    @property
    def num_bytes(self) -> int:
        """The size of its arrays."""
        return sum(array.nbytes for array in self.engine.arrays.values())

    def rows_of_numbers(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of every insertion number, -1 where the part has none."""
        if not self.num_docs:
            return np.full(len(numbers), -1, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.numbers, numbers), self.num_docs - 1)
        return np.where(self.numbers[rows] == numbers, rows, -1)

    @cached_property
    def id_range(self) -> tuple[int, int] | None:
        """The smallest and the largest id; None if ids are strings."""
        numbers = self.id_arrays.get("id_number")
        return None if numbers is None or not len(numbers) else (int(numbers.min()), int(numbers.max()))

    def find(self, ids: Sequence[DocId], hashes: NDArray[np.uint64]) -> Iterator[tuple[int, int]]:
        """Yield (place in `ids`, row) of the documents that have one of the ids, dead ones among them."""
        for place, row in candidates(self.lookup, hashes):
            if self.ids.id_of(row) == ids[place]:
                yield place, row


def small_part(docs: Documents, scale: NDArray[np.float64], *, wide: bool) -> Part:
    """Make a part in memory, fast: its documents stay in the order in which they came, and are not clustered."""
    codes = docs.codes
    arrays: Arrays = _core.small_index(  # type: ignore[assignment]
        codes.indptr,
        codes.indices.astype(np.uint32, copy=False),
        codes.values.astype(np.uint16 if wide else np.uint8),
        codes.num_columns,
        _IN_MEMORY.head_ratio,
    )
    arrays["term_scale"] = scale
    core = _core.Index(codes.num_rows, codes.num_columns, 1, 2 if wide else 1, _IN_MEMORY.head_ratio, arrays)
    arrays = {**arrays, **docs.ids}
    labels = np.arange(core.num_clusters, dtype=np.int64)
    engine = Engine(core, arrays, _doc_ids(docs), None, labels, None)
    return Part(
        engine,
        docs.numbers,
        lookup_arrays(hashed_ids(docs.ids)),
        docs.counts,
        documents=docs,
    )


def _doc_ids(docs: Documents) -> DocIds:
    ids, count = docs.ids, docs.num_docs
    stored = None if docs.texts is None else TextList(docs.texts)
    if "id_number" in ids:
        return DocIds(count, numbers=ids["id_number"], stored=stored)
    names = TextTable(ids["id_offset"], ids["id_text"], count)
    return DocIds(count, texts=names, stored=stored)


#: The components of a part that a plain index does not need.
PART_COMPONENTS = ("doc_number", "id_hash", "id_hash_row")


def open_part(folder: Path, name: str, *, preload: bool = False) -> Part:
    """Open a part that is on disk; with `preload` it is read into memory."""
    path = folder / name
    meta, arrays = load_index(path, preload=preload, verify=False)
    with index_errors(path):
        engine = Engine.from_arrays(meta, arrays, path)
        return part_of(engine, path, name, rough=meta.get("clustering", {}).get("kind") == ROUGH)


def part_of(engine: Engine, path: Path, name: str, *, rough: bool = False) -> Part:
    """Return an open index as a part, checked."""
    arrays, num_docs = engine.arrays, engine.core.num_docs
    missing = [component for component in PART_COMPONENTS if component not in arrays]
    if missing:
        raise FormatError(
            where=f"'{path}'",
            expected="a part of a collection",
            got=f"an index without {missing[0]}",
            hint="open it as an index",
        )
    numbers, rows = arrays["doc_number"], arrays["id_hash_row"]
    ascending = bool((numbers[1:] > numbers[:-1]).all())
    if len(numbers) != num_docs or not ascending or (num_docs and numbers[0] < 0):
        raise damaged("its insertion numbers do not ascend", path)
    hashes = arrays["id_hash"]
    if len(hashes) != num_docs or len(rows) != num_docs or rows.max(initial=0) >= max(1, num_docs):
        raise damaged("its table of ids has the wrong length", path)
    counts = _stored_counts(arrays, num_docs, engine.core.num_terms, path)
    return Part(engine, numbers, arrays, counts, name, rough=rough)


def _stored_counts(arrays: Arrays, num_docs: int, num_terms: int, path: Path) -> Csr | None:
    if "count_offset" not in arrays:
        return None
    indptr = arrays["count_offset"].astype(np.int64)
    terms, values = arrays["count_term"], arrays["count_value"]
    whole = len(indptr) == num_docs + 1 and indptr[0] == 0 and bool((np.diff(indptr) >= 0).all())
    if not whole or indptr[-1] != len(terms) or len(terms) != len(values) or terms.max(initial=0) >= max(1, num_terms):
        raise damaged("its counts of words have the wrong length", path)
    return Csr(indptr, terms, values, num_terms)
