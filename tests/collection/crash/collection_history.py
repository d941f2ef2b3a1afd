"""A history of a collection: every kind of write, commits, compactions and reopenings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from crash.history import History, Step

from segmax import Collection
from segmax.errors import FormatError, IndexExistsError, IndexNotFoundError


def vectors(seed: int, count: int) -> sp.csr_matrix:
    """Documents that all have term 0, so that one query finds them all, and some of the other terms."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 4, (count, 6 + seed)) * (0.2 + 0.1 * seed)
    dense[:, 0] = 1 + rng.integers(0, 3, count)
    return sp.csr_matrix(dense)


class CollectionHistory(History):
    """Every kind of write, to documents in memory and on disk."""

    steps: ClassVar[Sequence[Step]] = (
        ("create",),
        ("add", 1, ["a", "b", "c"]),
        ("upsert", 2, ["b", "d"]),
        ("update", {"id": "a", "metadata": {"year": 3}}),
        ("commit",),
        ("add", 3, [f"x{number}" for number in range(12)]),
        ("compact",),
        ("delete", ["x1", "a", "nobody"]),
        ("add", 4, ["e"]),
        ("update", {"id": "x2", "metadata": {"year": 9}}),
        ("reopen",),
        ("delete_where", {"year": {"$gte": 9}}),
        ("upsert", 5, ["x3", "f"]),
        ("compact",),
        ("commit",),
        ("add", 6, ["g", "h"]),
        ("delete", ["g", "x5"]),
    )

    def __init__(self, durability: str = "batch") -> None:
        self.durability = durability
        self.durable = () if durability == "batch" else ("create", "commit", "compact", "reopen")
        self.visible = () if durability == "batch" else ("create", "commit", "compact")

    def do(self, handle: Any, folder: Path, step: Step) -> Any:
        """Do a step."""
        match step:
            case ("create",):
                try:
                    return Collection.create(folder / "docs", durability=self.durability)
                except IndexExistsError:  # a second attempt, after the first one failed with all but its last call done
                    return Collection.open(folder / "docs")
            case ("reopen",):
                handle.close()
                return Collection.open(folder / "docs")
            case ("add" | "upsert" as name, seed, ids):
                metadata = [{"year": seed, "id": id} if number % 3 else None for number, id in enumerate(ids)]
                getattr(handle, name)(vectors(seed, len(ids)), ids=ids, metadata=metadata)
            case ("delete_where", where):
                handle.delete(where=where)
            case (name, *arguments):
                getattr(handle, name)(*arguments)
        return handle

    def read(self, handle: Any) -> Any:
        """Return all documents in the order of their insertion numbers, and what a search finds."""
        ids = list(handle.ids())
        hits = handle.search({0: 1.0}, k=100)
        ranking = list(zip(hits.ids, np.asarray(hits.scores).tolist(), strict=True))
        assert len(ranking) == len(ids) == len(handle)
        if not ids:
            return [], []
        rows = handle.vectors(ids).tolil()
        vectors = [dict(zip(*row, strict=True)) for row in zip(rows.rows, rows.data, strict=True)]
        metadata = [document.metadata for document in handle.get(ids)]
        return sorted(zip(map(handle.row_of, ids), ids, vectors, metadata, strict=True)), ranking

    def open(self, folder: Path, *, read_only: bool) -> Any:
        """Open it."""
        try:
            return Collection.open(folder / "docs", read_only=read_only)
        except IndexNotFoundError:
            return None
        except FormatError as error:
            if "without manifest.json" in error.got:
                return None
            raise

    def close(self, handle: Any) -> None:
        """Close it."""
        handle.close()

    def one_more(self, handle: Any) -> None:
        """Add a document."""
        handle.add(vectors(7, 1), ids=[f"more{len(handle)}"])
