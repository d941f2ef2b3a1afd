"""Changes to collections, in the one process that may write to them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from segmax.base.errors import ConfigError, InputError, UnknownIdError
from segmax.collection.collection import Collection
from segmax.serve.catalog import Catalog
from segmax.serve.problems import ProblemError, overloaded, unavailable, without_folders

Mode = Literal["add", "upsert", "update"]
#: A document as `Collection.add` takes it.
Given = dict[str, Any]

_LONG = ("compact", "snapshot")
_MOST_WAITING = 64
_REFUSED = (ConfigError, InputError, UnknownIdError)  # what is wrong with a document, and not with the disk


class Writes(Protocol):
    """Whatever changes collections: a thread of this process, or another process."""

    async def call(self, operation: str, name: str, *arguments: Any) -> Any:
        """Do what the method of `Writer` with this name does."""


class Writer:
    """Changes the collections of a catalog. Its methods block, and take and return plain values.

    Parameters
    ----------
    catalog
        With collections that are open for writing.
    snapshots
        The folder for copies of collections; None: there are none.
    is_alone
        Whether no other process has to see what is written.
    """

    OPERATIONS = frozenset({"put", "put_each", "delete", "commit", "compact", "snapshot", "failure"})

    def __init__(self, catalog: Catalog, snapshots: Path | None = None, *, is_alone: bool = True) -> None:
        self._catalog = catalog
        self._snapshots = snapshots
        self._is_alone = is_alone
        for name, served in catalog.items():
            if served.is_open and served.writable:
                self._publish(name)

    def put(self, name: str, documents: list[Given], mode: Mode, replace_metadata: bool) -> dict[str, int]:
        """Add, replace or update documents, all of them or none."""
        count = _put(self._collection(name), documents, mode, replace_metadata)
        return {"count": count, "sequence": self._publish(name)}

    def put_each(self, name: str, documents: list[Given], mode: Mode, replace_metadata: bool) -> dict[str, Any]:
        """Do the same, but leave out documents that are refused; `errors` has a text for each of these, else None."""
        errors = _put_each(lambda some: _put(self._collection(name), some, mode, replace_metadata), documents)
        return {"errors": errors, "sequence": self._publish(name)}

    def delete(self, name: str, ids: list[int | str] | None, where: Mapping[str, Any] | None) -> dict[str, int]:
        """Delete documents by id, or those that a filter matches."""
        count = self._collection(name).delete(ids, where=where)
        return {"count": count, "sequence": self._publish(name)}

    def commit(self, name: str) -> dict[str, int]:
        """Make all writes safe on disk."""
        self._collection(name).commit()
        return {"count": 0, "sequence": self._publish(name)}

    def compact(self, name: str) -> dict[str, int]:
        """Write the collection as one part."""
        self._collection(name).compact()
        return {"count": 0, "sequence": self._publish(name)}

    def snapshot(self, name: str) -> dict[str, Any]:
        """Copy the collection to the folder of snapshots; the name of the copy is not the caller's to choose."""
        if self._snapshots is None:
            detail = "this service keeps no snapshots: start it with --snapshots FOLDER"
            raise ProblemError(409, "no-snapshots", detail)
        collection = self._collection(name)
        sequence = collection.sequence
        when = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        copy = f"{name}-{when}-{sequence}-{secrets.token_hex(2)}"
        collection.backup(self._snapshots / copy)
        return {"name": copy, "num_docs": collection.num_docs, "sequence": sequence}

    def failure(self, name: str) -> str | None:
        """Return why documents cannot be written as parts; None if they can."""
        source = self._catalog[name].source
        found = source.stats().failure if isinstance(source, Collection) else None
        return None if found is None else without_folders(found)

    def _collection(self, name: str) -> Collection:
        served = self._catalog[name]
        source = served.source
        if not isinstance(source, Collection):  # another process found one
            raise unavailable(f"'{name}' is being opened for writing")
        return source

    def _publish(self, name: str) -> int:
        """Let other processes see the last write, and return its number."""
        collection = self._collection(name)
        if not self._is_alone:
            if collection.durability != "batch":
                collection.commit()  # others read only what was committed
            self._catalog[name].show()
        return collection.sequence


class WriterThreads:
    """Runs a writer on threads of its own, so that searches never wait for writes.

    A collection has two threads: one for changes, and one for what takes long while changes go on.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._threads: dict[tuple[str, bool], ThreadPoolExecutor] = {}
        self._num_waiting = 0

    async def call(self, operation: str, name: str, *arguments: Any) -> Any:
        """Do what the method of `Writer` with this name does; refuse it if too many wait."""
        assert operation in Writer.OPERATIONS
        if operation == "failure":  # which is known at once
            return self._writer.failure(name)
        if self._num_waiting >= _MOST_WAITING:
            raise overloaded(1.0)
        key = name, operation in _LONG
        if key not in self._threads:
            self._threads[key] = ThreadPoolExecutor(1, thread_name_prefix=f"write-{name}")
        work = partial(getattr(self._writer, operation), name, *arguments)
        self._num_waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads[key], work)
        finally:
            self._num_waiting -= 1

    def close(self) -> None:
        """Wait for what is under way."""
        for pool in self._threads.values():
            pool.shutdown(wait=True)


def _put(collection: Collection, documents: list[Given], mode: Mode, replace_metadata: bool) -> int:
    if mode == "update":
        return collection.update(documents, replace_metadata=replace_metadata)
    return collection.add(documents) if mode == "add" else collection.upsert(documents)


def _put_each(put: Callable[[list[Given]], int], documents: Sequence[Given]) -> list[str | None]:
    """Put what can be put: where some documents are refused, halves are tried, so that few of them cost little."""
    if not documents:
        return []
    try:
        put(list(documents))
    except _REFUSED as error:
        if len(documents) == 1:
            return [str(error)]
        half = len(documents) // 2
        return _put_each(put, documents[:half]) + _put_each(put, documents[half:])
    return [None] * len(documents)
