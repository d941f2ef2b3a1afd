"""One writer, readers in other processes and threads, and background merges, for minutes: `make soak`.

Vectors follow from the id and the version of a document, so that every reader can check every answer: documents, scores
and order must be those of one state of the collection. Memory must not grow, and files of old states must go away.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import segmax
from segmax.base.system import anonymous_memory
from segmax.collection import maintenance

TERMS = 200
MOST_DOCS = 4000
READERS = 4
#: What a process may grow by after the first quarter of the time.
MOST_GROWTH = 128 * 2**20


def vector(name: int, version: int) -> dict[int, int]:
    """Return the vector of a document, which follows from its id and version."""
    rng = random.Random(zlib.crc32(f"{name}-{version}".encode()))
    return {rng.randrange(TERMS): rng.randrange(1, 6) for _ in range(12)}


def matrix(rows: list[dict[int, int]]) -> sp.csr_matrix:
    """Return vectors as a matrix."""
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    indices = np.array([term for row in rows for term in row], dtype=np.int64)
    data = np.array([weight for row in rows for weight in row.values()], dtype=np.float64)
    return sp.csr_matrix((data, indices, indptr), shape=(len(rows), TERMS))


def check(state: Any, rng: random.Random) -> None:
    """Search one state, and compare with what its documents say."""
    query = {rng.randrange(TERMS): rng.randrange(1, 4) for _ in range(5)}
    k = rng.choice([1, 10, 50])
    where = rng.choice([None, None, {"even": True}])
    hits = state.search(query, k=k, where=where)
    slow = state.search(query, k=k, where=where, params=segmax.Exhaustive())
    assert (hits.ids, hits.scores.tolist()) == (slow.ids, slow.scores.tolist()), "not what exhaustive search finds"
    order = [(-score, number) for score, number in zip(hits.scores.tolist(), hits.rows.tolist(), strict=True)]
    assert order == sorted(order), "not in order"
    assert len(set(hits.ids)) == len(hits.ids), "a document twice"
    for name, score, metadata in zip(hits.ids, hits.scores.tolist(), hits.metadata, strict=True):
        own = vector(name, metadata["version"])
        assert score == sum(weight * own.get(term, 0) for term, weight in query.items()), "another score"
        assert where is None or metadata["even"], "a document that does not match"


def read(path: str, seconds: float, seed: int, failed: Any) -> None:
    """Search in another process until the time is over."""
    rng = random.Random(seed)
    end, memory, searches = time.monotonic() + seconds, 0, 0
    try:
        with segmax.open(path) as collection:
            while time.monotonic() < end:
                if rng.random() < 0.1:
                    collection.refresh()  # type: ignore[union-attr]
                check(collection.snapshot(), rng)  # type: ignore[union-attr]
                searches += 1
                if memory == 0 and time.monotonic() > end - 0.75 * seconds:
                    memory = anonymous_memory()
            grown = anonymous_memory() - memory
            assert memory == 0 or grown < MOST_GROWTH, f"a reader grew by {grown:,} bytes"
        sys.stdout.write(f"reader {seed}: {searches:,} searches\n")
    except BaseException as error:
        failed.put(f"reader {seed}: {type(error).__name__}: {error}")
        raise


class Writer:
    """Random writes, and the model of what is there."""

    def __init__(self, collection: segmax.Collection, seed: int) -> None:
        self.collection = collection
        self.rng = random.Random(seed)
        self.versions: dict[int, int] = {}
        self.next = 0

    def step(self) -> None:
        """Do something."""
        kind = self.rng.random()
        if kind < 0.5 and len(self.versions) < MOST_DOCS:
            names = list(range(self.next, self.next + self.rng.choice([1, 10, 200])))
            self.next += len(names)
            self._put(self.collection.add, names)
        elif kind < 0.8 and self.versions:
            self._put(self.collection.upsert, self.rng.sample(sorted(self.versions), min(30, len(self.versions))))
        elif self.versions:
            gone = self.rng.sample(sorted(self.versions), min(len(self.versions), self.rng.choice([1, 20, 150])))
            assert self.collection.delete(gone) == len(gone)
            for name in gone:
                del self.versions[name]
        if self.rng.random() < 0.05:
            self.collection.commit()
        if self.rng.random() < 0.005:
            self.collection.compact()
        assert len(self.collection) == len(self.versions), "documents are missing"

    def _put(self, put: Any, names: list[int]) -> None:
        versions = {name: self.versions.get(name, 0) + 1 for name in names}
        metadata = [{"version": version, "even": name % 2 == 0} for name, version in versions.items()]
        put(matrix([vector(*pair) for pair in versions.items()]), ids=names, metadata=metadata)
        self.versions |= versions


def soak(minutes: float, seed: int = 0) -> None:
    """Run everything; raise AssertionError for whatever is wrong."""
    maintenance.FLUSH_DOCS = 1000
    seconds = 60 * minutes
    context = multiprocessing.get_context("spawn")
    failed = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "docs"
        with segmax.Collection.create(path) as collection:
            writer = Writer(collection, seed)
            writer.step()
            readers = [context.Process(target=read, args=(str(path), seconds, seed + n, failed)) for n in range(READERS)]
            for reader in readers:
                reader.start()
            end = time.monotonic() + seconds
            thread = threading.Thread(target=_search_beside, args=(collection, end, failed))
            thread.start()
            steps, memory = 0, 0
            while time.monotonic() < end and failed.empty():
                writer.step()
                steps += 1
                if memory == 0 and time.monotonic() > end - 0.75 * seconds:
                    memory = anonymous_memory()
            thread.join()
            for reader in readers:
                reader.join()
            assert failed.empty(), failed.get()
            assert all(reader.exitcode == 0 for reader in readers), "a reader crashed"
            grown = anonymous_memory() - memory
            assert memory == 0 or grown < MOST_GROWTH, f"the writer grew by {grown:,} bytes"
            collection.compact()
            sys.stdout.write(f"writer: {steps:,} steps, {len(collection):,} documents\n")
            files = sorted(os.listdir(path))
            assert len([name for name in files if name.startswith("part.")]) <= 2, files
            assert len(files) <= 8, files
        with segmax.Collection.open(path) as collection:
            assert sorted(collection.ids()) == sorted(writer.versions), "not what was written"


def _search_beside(collection: segmax.Collection, end: float, failed: Any) -> None:
    rng = random.Random(77)
    try:
        while time.monotonic() < end:
            check(collection.snapshot(), rng)
    except BaseException as error:
        failed.put(f"thread: {type(error).__name__}: {error}")
        raise


def main() -> None:
    """Run from the shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    soak(args.minutes, args.seed)


if __name__ == "__main__":
    main()
