"""What documents have beside their vectors, as arrays: ids, titles, texts and metadata, each as one table of strings.

A column NAME of strings is two arrays: NAME_offset and NAME_text, in UTF-8. Integer ids are one array, id_number.
Metadata are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.storage.components import Arrays
from segmax.storage.tables import text_arrays
from segmax.vectors.csr import Csr

#: The columns of strings.
COLUMNS = ("id", "title", "body", "metadata")


def string_column(name: str, values: Sequence[str]) -> Arrays:
    """Return a column of strings; raise InputError for one that UTF-8 cannot hold."""
    return text_arrays(name, list(values))


def metadata_column(metadata: Sequence[Mapping[str, Any] | None]) -> Arrays:
    """Return metadata as a column."""
    return text_arrays("metadata", [json.dumps(one, ensure_ascii=False) for one in metadata])


def columns_of(arrays: Arrays, *, texts: bool = True) -> Arrays:
    """Return the arrays of columns among those of a file, with titles and texts or without."""
    columns = COLUMNS if texts else ("id", "metadata")
    names = {"id_number", *(f"{name}_{part}" for name in columns for part in ("offset", "text"))}
    return {name: array for name, array in arrays.items() if name in names}


def selected_columns(columns: Arrays, rows: NDArray[np.int64]) -> Arrays:
    """Return the columns of some documents."""
    found: Arrays = {}
    if "id_number" in columns:
        found["id_number"] = columns["id_number"][rows]
    for name in COLUMNS:
        if f"{name}_offset" in columns:
            found.update(_packed(name, column_bytes(columns, name, rows)))
    return found


def column_bytes(columns: Arrays, name: str, rows: NDArray[np.int64] | None = None) -> list[bytes]:
    """Return the strings of a column, of all documents or of some, as bytes."""
    offsets, content = columns[f"{name}_offset"].tolist(), columns[f"{name}_text"].tobytes()
    wanted = range(len(offsets) - 1) if rows is None else rows.tolist()
    return [content[offsets[row] : offsets[row + 1]] for row in wanted]


def column_strings(columns: Arrays, name: str) -> list[str]:
    """Return the strings of a column."""
    return [one.decode("utf-8") for one in column_bytes(columns, name)]


def joined_arrays(several: Sequence[Arrays]) -> Arrays:
    """Return the columns and vectors of documents that come after one another, all with the same names."""
    joined: Arrays = {}
    for name in several[0]:
        arrays = [one[name] for one in several]
        if name.endswith("_offset"):
            lengths = np.concatenate([np.diff(array) for array in arrays])
            joined[name] = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths, dtype=np.uint64)])
        else:
            joined[name] = np.concatenate(arrays)
    return joined


def stored_texts(columns: Arrays) -> Iterator[tuple[str, str]]:
    """Yield (title, text) of every document."""
    return zip(column_strings(columns, "title"), column_strings(columns, "body"), strict=True)


def stored_metadata(columns: Arrays) -> Iterator[dict[str, Any] | None]:
    """Yield the metadata of every document."""
    return (json.loads(one) for one in column_bytes(columns, "metadata"))


def _packed(name: str, values: list[bytes]) -> Arrays:
    offsets = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return {f"{name}_offset": offsets, f"{name}_text": np.frombuffer(b"".join(values), dtype=np.uint8)}


def vector_arrays(docs: Csr) -> Arrays:
    """Return vectors as arrays of a file."""
    narrow = np.uint16 if docs.num_columns <= 2**16 else np.uint32
    return {
        "length": np.diff(docs.indptr).astype(np.uint32),
        "indices": docs.indices.astype(narrow, copy=False),
        "values": docs.values,
    }


def vectors_of(arrays: Arrays, num_columns: int) -> Csr:
    """Return the vectors that arrays of a file hold."""
    lengths = arrays["length"].astype(np.int64)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Csr(indptr, arrays["indices"], arrays["values"], num_columns)
