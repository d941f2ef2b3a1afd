"""Values of Arrow arrays as numpy arrays and Python objects, nulls and dictionaries included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.io.arrow_schema import pyarrow


def whole_numbers(found: NDArray[Any], path: Path) -> NDArray[np.int64]:
    """Return column numbers, which some write as floats."""
    if found.dtype.kind == "f":
        bad = (found != np.floor(found)) | (np.abs(found) >= 2**53)
        if bad.any():
            raise InputError(
                where=f"'{path}'", expected="whole numbers as column numbers", got=f"{found[np.argmax(bad)]}"
            )
    return found.astype(np.int64)


def coded(values: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the different values that are used, and which of them each is; -1 for null."""
    coded = values.dictionary_encode()
    places = coded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    is_used = np.zeros(len(coded.dictionary) + 1, bool)
    is_used[places] = True
    used = np.flatnonzero(is_used[:-1])
    renumbered = np.full(len(is_used), -1, np.int64)
    renumbered[used] = np.arange(len(used))
    return coded.dictionary.take(pyarrow().array(used)).to_pylist(), renumbered[places]


def objects(values: Any) -> list[Any]:
    """Return values as objects of Python; one that comes often in a dictionary is made once."""
    types = pyarrow().types
    if types.is_integer(values.type) or types.is_string(values.type) or types.is_large_string(values.type):
        return list(values.to_pylist())
    different, places = coded(values)
    return [different[place] if place >= 0 else None for place in places.tolist()]


def field_of(holder: Any, name: str | None) -> Any:
    """Return a column of a table, or of a struct, null where the struct is."""
    if not hasattr(holder, "type"):
        return holder.column(name)
    return holder.flatten()[holder.type.get_field_index(name)]


def entries_of(lists: Any, children: Any) -> Any:
    """Return the keys or items of a map's rows, one after the other, without those of null rows."""
    offsets = lists.offsets.to_numpy(zero_copy_only=False)
    found = children[offsets[0] : offsets[-1]]
    if lists.null_count == 0:
        return found
    present = lists.is_valid().to_numpy(zero_copy_only=False)
    return found.filter(pyarrow().array(np.repeat(present, np.diff(offsets))))


def starts_of(lists: Any) -> NDArray[np.int64]:
    """Return where rows start among the entries of all of them; a null row is empty, whatever its offsets are."""
    counts = np.diff(lists.offsets.to_numpy(zero_copy_only=False)).astype(np.int64)
    counts[lists.is_null().to_numpy(zero_copy_only=False)] = 0
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
