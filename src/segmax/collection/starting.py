"""Starting a collection from an index: the index becomes its first part, with its codes as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from segmax.collection.lattice import Lattice, Weights
from segmax.collection.lookup import hashed_ids, lookup_arrays
from segmax.search.index import Index, check_opens
from segmax.storage.components import Arrays
from segmax.storage.writing import save_index

_NARROW = 2**8 - 1


def lattice_of(index: Index) -> Lattice:
    """Return the lattice on which the codes of an index lie."""
    arrays = index._open_arrays
    scale = np.array(arrays["term_scale"], dtype=np.float64)
    tops = arrays["term_top_code"].reshape(len(scale), -1)[:, 0].astype(np.uint32)
    used = scale[tops > 0]
    is_whole = bool((used == 1.0).all())
    step = 1.0 if is_whole else float(np.median(used))
    scale[tops == 0] = step
    kind = "open" if not len(used) else "whole" if is_whole else "real"
    return Lattice(kind=kind, step=step, scale=scale, largest=tops, provisional=False, weights=Weights())  # type: ignore[arg-type]


def write_first_part(index: Index, path: Path, lattice: Lattice) -> type[int | str]:
    """Write an index as a part, and return what its ids are."""
    arrays = dict(index._open_arrays)
    numbers = np.arange(index.num_docs, dtype=np.int64)
    ids: Arrays = {name: arrays[name] for name in ("id_number", "id_offset", "id_text") if name in arrays}
    if not ids:
        ids = {"id_number": numbers}
    more = {**ids, "doc_number": numbers, **lookup_arrays(hashed_ids(ids)), "term_scale": lattice.scale}
    meta = {name: value for name, value in index._meta.items() if name not in ("files", "encoder", "calibration")}
    words = ("term_offset", "term_text")  # which the collection keeps
    kept = {name: array for name, array in arrays.items() if name not in words}
    save_index(path, {**kept, **more}, meta, overwrite=False, check=check_opens)
    return int if "id_number" in ids else str
