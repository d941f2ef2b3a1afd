"""What is served, by name: opened once, followed when it changes on disk, replaced without a pause."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import mmap
import struct
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from segmax.base.errors import SegmaxError, ShardsUnavailableError
from segmax.collection.collection import Collection
from segmax.collection.manifest import MANIFEST_NAME
from segmax.collection.opening import is_collection, open_searchable
from segmax.encoders.base import Encoder
from segmax.ray.address import is_ray_address, open_address, parse_ray_address
from segmax.search.index import Index
from segmax.serve.problems import ProblemError
from segmax.serve.settings import Settings
from segmax.shards.manifest import MANIFEST_NAME as SHARDED_NAME
from segmax.shards.sharded import ShardedIndex
from segmax.shards.storage import is_address
from segmax.storage.meta import META_NAME

Source = Index | Collection | ShardedIndex

_LOG = logging.getLogger("segmax.serve")


class Sequences:
    """The number of each collection's last write, in memory that all processes of a service share.

    The writer raises a number before a write is acknowledged. A worker whose state is older catches up before it
    searches, so a write that was acknowledged is visible on every worker.

    Examples
    --------
    >>> shared = Sequences(["papers"])
    >>> shared.set("papers", 7)
    >>> shared.get("papers")
    7
    """

    def __init__(self, names: list[str]) -> None:
        self._offsets = {name: 8 * number for number, name in enumerate(names)}
        self._memory = mmap.mmap(-1, max(8, 8 * len(names)))

    def get(self, name: str) -> int:
        """Return the number of a collection's last write."""
        found: int = struct.unpack_from("<q", self._memory, self._offsets[name])[0]
        return found

    def set(self, name: str, sequence: int) -> None:
        """Store the number of a collection's last write; aligned, so that readers see all of it or nothing."""
        struct.pack_into("<q", self._memory, self._offsets[name], sequence)


class Served:
    """An index or a collection under its name; its path is a folder, or the address of an index on Ray."""

    def __init__(self, name: str, path: Path | str, encoder: object, *, writable: bool) -> None:
        self.name = name
        self.path = path
        self.is_on_ray = is_ray_address(path)  #: whether its shards are elsewhere, so that every answer may take long
        self.is_collection = not self.is_on_ray and is_collection(path)
        self.writable = writable and self.is_collection
        self.is_warm = False  #: whether its tables of words are in memory, so that a text is encoded at once
        self._choice = encoder
        self._encoder: tuple[Source | None, Encoder | None] = (None, None)
        self._lock = threading.Lock()
        self._stamp = _stamp(path)
        self.source = self._opened()

    def _opened(self) -> Source:
        if self.is_on_ray:
            return open_address(str(self.path), encoder=self._choice)
        if self.writable:
            return Collection.open(self.path, encoder=self._choice)
        return open_searchable(self.path, encoder=self._choice)

    @property
    def version(self) -> str:
        """What changes when documents do."""
        source = self.source
        if isinstance(source, ShardedIndex):
            return hashlib.sha256("".join(shard.hash for shard in source.shards).encode()).hexdigest()[:16]
        if isinstance(source, Index):
            return f"{self._stamp[0]:x}-{self._stamp[1]:x}"
        return f"{source.identity}-{source.sequence}"

    @property
    def encoder(self) -> Encoder | None:
        """What turns texts into queries; None if there is nothing, or only a model that nobody asked to load."""
        return self.encoder_of(self.source)

    def encoder_of(self, source: Source) -> Encoder | None:
        """Return the encoder of what is served, or of what was served when a request came."""
        known, encoder = self._encoder
        if known is not source:
            try:
                encoder = source.encoder
            except SegmaxError:
                encoder = None
            self._encoder = source, encoder
        return encoder

    def warm(self) -> None:
        """Load tables of words, which the first query by word would have to wait for otherwise."""
        self._warm(self.source)
        self.is_warm = True

    def _warm(self, source: Source) -> None:
        if source.terms is not None:
            source.terms.find("")
        encoder = self.encoder_of(source)
        if encoder is not None:
            encoder.query_rows(["a"])
        if isinstance(source, ShardedIndex):
            with contextlib.suppress(ShardsUnavailableError):  # which searches may do without
                _ = source.fields  # asked for once

    def follow(self, sequence: int = 0) -> None:
        """Take over what changed on disk, at least up to a write of a collection. One thread at a time does it."""
        with self._lock:
            source = self.source
            if isinstance(source, Collection):
                if not self.writable and (sequence == 0 or source.sequence < sequence):
                    self._refresh(source)
                return
            stamp = _stamp(self.path)
            if stamp != self._stamp and stamp != _GONE:
                self._replace(stamp)

    def _refresh(self, source: Collection) -> None:
        try:
            source.refresh()
        except SegmaxError as error:
            _LOG.info("'%s' changed: %s", self.name, error)
            self._replace(_stamp(self.path))  # another collection took its place

    def _replace(self, stamp: tuple[int, int]) -> None:
        """Open what is there now. Searches that run go on with what they have, until nobody uses it anymore."""
        self._stamp = stamp
        try:
            source = self._opened()
            self._warm(source)
        except SegmaxError as error:
            _LOG.warning(
                "'%s' was replaced by something that cannot be opened; the old one stays: %s", self.name, error
            )
            return
        self.source = source
        self.is_collection = isinstance(source, Collection)
        _LOG.info("'%s' was replaced", self.name)

    def close(self) -> None:
        """Release files; what was written is safe on disk then."""
        self.source.close()


_GONE = (0, 0)


def _stamp(path: Path | str) -> tuple[int, int]:
    """Return what changes when an index is replaced: the inode and the time of its `meta.json`, or `sharded.json`.

    For a collection it is the inode of its manifest, which is enough to see that it took the place of an index. What is
    at an address of fsspec is not followed: asking a bucket several times a second costs money.
    """
    names: tuple[str, ...] = (META_NAME, MANIFEST_NAME)
    if is_ray_address(path):
        path, names = parse_ray_address(str(path)).path, (SHARDED_NAME,)
        if is_address(path):
            return _GONE
    for name in names:
        try:
            found = Path(path, name).stat()
        except OSError:
            continue
        return found.st_ino, 0 if name == MANIFEST_NAME else found.st_mtime_ns
    return _GONE


class Catalog(Mapping[str, Served]):
    """Everything that is served.

    Parameters
    ----------
    settings
        What to serve.
    writes
        Whether this process may write to collections.
    encodes
        Whether this process loads models.
    """

    def __init__(self, settings: Settings, *, writes: bool, encodes: bool = True) -> None:
        encoders = settings.encoders if encodes else {}
        self._served: dict[str, Served] = {}
        try:
            for name, path in settings.paths.items():
                self._served[name] = Served(name, path, encoders.get(name), writable=writes)
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name: str) -> Served:
        return self._served[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    def named(self, name: str) -> Served:
        """Return what has a name; raise the problem of a name that nothing has."""
        found = self._served.get(name)
        if found is None:
            raise ProblemError(
                404,
                "unknown-index",
                "no index or collection has this name: GET /v1/indexes lists those that are served",
            )
        return found

    def follow(self) -> None:
        """Take over what changed on disk."""
        for served in self._served.values():
            try:
                served.follow()
            except OSError as error:  # the folder is being moved
                _LOG.warning("'%s' cannot be read: %s", served.name, error)

    def warm(self) -> None:
        """Load tables of words."""
        for served in self._served.values():
            try:
                served.warm()
            except SegmaxError as error:
                _LOG.warning("'%s': %s", served.name, error)

    def close(self) -> None:
        """Release all files."""
        for served in self._served.values():
            served.close()
