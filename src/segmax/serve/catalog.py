"""What is served, by name: opened once, followed when it changes on disk, replaced without a pause."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from segmax.base.errors import (
    CollectionLockedError,
    ConfigError,
    FormatError,
    IndexNotFoundError,
    InputError,
    MissingPackageError,
    SegmaxError,
    ShardsUnavailableError,
)
from segmax.collection.collection import Collection
from segmax.collection.manifest import identity_of
from segmax.collection.opening import is_collection, open_searchable
from segmax.encoders.base import Encoder
from segmax.ray.address import is_ray_address, open_address, parse_ray_address
from segmax.search.index import Index
from segmax.serve.problems import ProblemError, problem_of, unavailable
from segmax.serve.settings import Settings
from segmax.serve.shown import Shown
from segmax.shards.addresses import is_address
from segmax.shards.manifest import MANIFEST_NAME as SHARDED_NAME
from segmax.shards.sharded import ShardedIndex
from segmax.storage.mapped_files import MappedFile, mapped_files, shortened
from segmax.storage.meta import META_NAME

Source = Index | Collection | ShardedIndex

_LOG = logging.getLogger("segmax.serve")
_ATTEMPTS = 3  # to get hold of something that is being replaced
_LOOK_SECONDS = 1.0  # between two looks at the sizes of what is mapped
_WAIT_SHARE = 10  # times as long as opening took in vain, it is not tried again
#: What is wrong with how the service was started, and not with the files of one index.
_MISTAKES = (CollectionLockedError, ConfigError, IndexNotFoundError, InputError, MissingPackageError)


@dataclasses.dataclass(frozen=True, eq=False)
class Opened:
    """What is open under a name, and what tells it from what was there before it: one object, replaced as a whole.

    A request keeps the one that it found, so all that it answers is about the same documents.
    """

    source: Source
    stamp: Stamp
    files: dict[str, list[MappedFile]]  #: that are mapped, by part

    @cached_property
    def mark(self) -> int:
        """A number that nothing else has which is or was at the path; never 0."""
        return int.from_bytes(hashlib.sha256(repr(self.stamp).encode()).digest()[:7]) + 1

    @property
    def sequence(self) -> int:
        """The number of the last write of a collection; 0 for what does not change."""
        return self.source.sequence if isinstance(self.source, Collection) else 0

    def version(self, sequence: int) -> str:
        """Return what changes when documents do; `sequence` is that of a collection."""
        if isinstance(self.source, Collection):
            return f"{self.source.identity}-{sequence}"
        return self._version

    @cached_property
    def _version(self) -> str:
        if isinstance(self.source, ShardedIndex):
            return hashlib.sha256("".join(shard.hash for shard in self.source.shards).encode()).hexdigest()[:16]
        return "-".join(f"{part:x}" for part in self.stamp if isinstance(part, int))

    @cached_property
    def encoder(self) -> Encoder | None:
        """What turns texts into queries; None if there is nothing, or only a model that nobody asked to load."""
        try:
            return self.source.encoder
        except SegmaxError:
            return None

    def warm(self) -> None:
        """Load tables of words, which the first query by word would have to wait for otherwise."""
        if self.source.terms is not None:
            self.source.terms.find("")
        if self.encoder is not None:
            self.encoder.query_rows(["a"])
        if isinstance(self.source, ShardedIndex):
            with contextlib.suppress(ShardsUnavailableError):  # which searches may do without
                _ = self.source.fields  # asked for once

    def shortened(self) -> FormatError | None:
        """Return the error about a mapped file that has lost its end; None if all are whole."""
        if isinstance(self.source, Collection):
            with contextlib.suppress(SegmaxError):  # it is away
                self._find_parts(self.source)
        return shortened(itertools.chain.from_iterable(self.files.values()))

    def _find_parts(self, source: Collection) -> None:
        """Find the files of the parts of a collection, which come and go."""
        parts = {view.part.name for view in source.snapshot().state.views} - {""}
        for name in self.files.keys() - parts:
            del self.files[name]
        for name in parts - self.files.keys():
            with contextlib.suppress(SegmaxError):  # a merge has removed it meanwhile
                self.files[name] = mapped_files(source.path / name)


class Served:
    """An index or a collection under its name; its path is a folder, or the address of an index on Ray.

    Parameters
    ----------
    name, path
        Under which name what is served.
    encoder
        What encodes texts, as `segmax.open` takes it.
    writable
        Whether this process may write, if it is a collection.
    shown
        What other processes have shown; None: there are no others.
    """

    def __init__(
        self, name: str, path: Path | str, encoder: object, *, writable: bool, shown: Shown | None = None
    ) -> None:
        self.name = name
        self.path = path
        self.is_on_ray = is_ray_address(path)  #: whether its shards are elsewhere, so that every answer may take long
        self.is_warm = False  #: whether its tables of words are in memory, so that a text is encoded at once
        self._may_write = writable
        self._choice = encoder
        self._shown = shown
        self._lock = threading.Lock()
        self._now: Opened | ProblemError = unavailable(f"'{name}' is being opened")
        self._trouble: ProblemError | None = None  # why the disk could not be followed when that was last tried
        self._behind: ProblemError | None = None  # why changes of what is open cannot be read, if there are some
        self._said = ""  # about it
        self._wanted = 0  # what was shown when this process was behind last
        self._next_try = self._next_look = 0.0

    # --- what is open ------------------------------------------------------------------------------------------------

    @property
    def opened(self) -> Opened:
        """What is open; raise the problem if nothing is, or if it has changed and that cannot be read."""
        now, behind = self._now, self._behind
        if isinstance(now, ProblemError):
            raise now.again()
        if behind is not None:
            raise behind.again()
        return now

    @property
    def is_open(self) -> bool:
        """Whether anything is, and requests for it are answered."""
        return isinstance(self._now, Opened) and self._behind is None

    @property
    def source(self) -> Source:
        """The index or collection that is open; raise the problem if none is."""
        return self.opened.source

    @property
    def is_collection(self) -> bool:
        """Whether it is a collection, and not an index; raise the problem if nothing is open."""
        return isinstance(self.source, Collection)

    @property
    def writable(self) -> bool:
        """Whether this process writes to it."""
        return self._may_write and self.is_collection

    def level(self) -> tuple[Opened, int] | None:
        """Return what is open and its sequence, if no other process has shown anything else; None if one has."""
        opened = self.opened
        sequence = opened.sequence
        is_level = self._shown is None or self._shown.get(self.name) == (opened.mark, sequence)
        return (opened, sequence) if is_level else None

    def caught_up(self) -> tuple[Opened, int]:
        """Return the same, once it has all that was shown when this was called; raise a problem if that fails."""
        assert self._shown is not None
        mark, least = self._shown.get(self.name)
        with self._lock:
            if mark != self._wanted:  # another process has opened what this one could not
                self._wanted, self._next_try = mark, 0.0
            for _ in range(_ATTEMPTS):
                found = self.level() if self._behind is None else None
                if found is not None:
                    return found
                self._follow()
                opened = self.opened
                sequence = opened.sequence
                is_newest = self._shown.get(self.name)[0] == opened.mark
                has_all = opened.mark != mark or sequence >= least or self._trouble is None  # having read the disk
                if is_newest and has_all:
                    return opened, sequence
        why = "it changes too fast" if self._trouble is None else self._trouble.detail
        raise unavailable(f"this process cannot take over what changed: {why}")

    # --- opening and following ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open it for the first time, or raise."""
        for _ in range(_ATTEMPTS):
            if self._take(self._opened()):
                return
        raise _changing(self.path)

    def fail(self, error: Exception) -> None:
        """Note why it cannot be opened; requests are answered with that while nothing else is open."""
        self._trouble = _problem(self.name, error)
        if not isinstance(self._now, Opened):
            self._now = self._trouble
        if str(error) != self._said:
            what = "what took its place cannot be opened, the old one stays" if self.is_open else "it is not served"
            _LOG.warning("'%s': %s: %s", self.name, what, error)
            self._said = str(error)

    def _opened(self) -> Opened:
        """Open what is there, whatever comes and goes meanwhile."""
        for _ in range(_ATTEMPTS):
            stamp = _stamp(self.path)
            source = self._source()
            files: dict[str, list[MappedFile]] = {}
            try:
                if isinstance(source, Index):
                    files[""] = mapped_files(Path(self.path))
                if _stamp(self.path) == stamp:
                    return Opened(source, stamp, files)
            except BaseException:
                source.close()
                raise
            source.close()
        raise _changing(self.path)

    def _source(self) -> Source:
        if self.is_on_ray:
            return open_address(str(self.path), encoder=self._choice)
        if self._may_write and is_collection(self.path):
            return Collection.open(self.path, encoder=self._choice)
        found = open_searchable(self.path, encoder=self._choice)
        if isinstance(found, Collection):
            found._refreshes_itself = False  # on the event loop, which must not wait: `follow` does it on a thread
        return found

    def _take(self, opened: Opened) -> bool:
        """Serve something from now on, unless something else is there already."""
        with self._turn():
            if _stamp(self.path) != opened.stamp:
                opened.source.close()
                return False
            self._now, self._trouble, self._behind, self._said = opened, None, None, ""
            if self._shown is not None:
                self._shown.raise_to(self.name, opened.mark, opened.sequence)
        return True

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Let no other process show anything meanwhile: what is shown later must not be older."""
        with contextlib.nullcontext() if self._shown is None else self._shown.locked():
            yield

    def warm(self) -> None:
        """Load tables of words, which the first query by word would have to wait for otherwise."""
        self.opened.warm()
        self.is_warm = True

    def follow(self) -> None:
        """Take over what changed on disk, and stop serving what is no longer whole there. One thread at a time does."""
        with self._lock:
            self._follow()

    def show(self) -> None:
        """Let other processes see what this one has, unless something newer is there."""
        if self._shown is None:
            return
        opened = self.opened
        if self._shown.get(self.name) != (opened.mark, opened.sequence):
            with self._turn():
                if self.writable or _stamp(self.path) == opened.stamp:
                    self._shown.raise_to(self.name, opened.mark, opened.sequence)

    def _follow(self) -> None:
        if isinstance(self._now, Opened):
            self._look_at_sizes(self._now)
        now = self._now
        if not isinstance(now, Opened):
            self._open_again()
        elif not self.writable:
            stamp = _stamp(self.path)
            if isinstance(now.source, Collection) and stamp in (now.stamp, _GONE, _UNREADABLE):
                self._refresh(now.source, now.stamp)
            elif stamp not in (now.stamp, _GONE):
                self._open_again()
        if self.is_open:
            self.show()

    def _look_at_sizes(self, opened: Opened) -> None:
        """Stop serving what has lost the end of a file: reading there would end the process."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        error = opened.shortened()
        if error is not None:
            self._now, self._next_try = unavailable(f"'{self.name}' is being opened"), 0.0
            self.fail(error)
            opened.source.close()

    def _refresh(self, source: Collection, stamp: Stamp) -> None:
        """Take over what was written to a collection; stop serving it while that is there and cannot be read."""
        try:
            source.refresh()
        except (SegmaxError, OSError) as error:
            problem = _problem(self.name, error)
            self._trouble = self._trouble or problem
            if not _is_away(error) and _stamp(self.path) in (stamp, _UNREADABLE):
                self._behind = problem
            self._open_again()  # another collection took its place, or this one can be read from its beginning
        else:
            if self._behind is not None:
                _LOG.info("'%s' is served again", self.name)
            self._trouble, self._behind, self._said = None, None, ""

    def _open_again(self) -> None:
        """Open what is there now. Searches that run go on with what they have, until nobody uses it anymore.

        What cannot be opened is tried again: it may still be being copied. Trying takes a tenth of the time at most.
        """
        start = time.monotonic()
        if start < self._next_try:
            return
        was_open = self.is_open
        try:
            opened = self._opened()
            opened.warm()
            if not self._take(opened):
                return
        except (SegmaxError, OSError, MemoryError) as error:
            self.fail(error)
            self._next_try = start + _WAIT_SHARE * (time.monotonic() - start)
            return
        self.is_warm = True
        _LOG.info("'%s' %s", self.name, "was replaced" if was_open else "is served again")

    def close(self) -> None:
        """Release files; what was written is safe on disk then."""
        if isinstance(self._now, Opened):
            self._now.source.close()


def _changing(path: Path | str) -> SegmaxError:
    return SegmaxError(f"'{path}' is replaced again and again", hint="try again when that is over")


def _is_away(error: BaseException | None) -> bool:
    """Whether something could not be read because it is not there, as while a folder is moved or copied."""
    while error is not None:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return True
        error = error.__cause__
    return False


def _problem(name: str, error: Exception) -> ProblemError:
    """Return the problem of what cannot be opened: a 503, because it may come back."""
    if isinstance(error, OSError) and not isinstance(error, SegmaxError):
        return unavailable(f"'{name}' cannot be read: {error.strerror or error}")
    found = problem_of(error)
    return found if found.status == 503 else unavailable(found.detail)


#: What tells what is at a path from what was or will be there.
Stamp = tuple[int | str, ...]
_GONE: Stamp = (0, 0)
_UNREADABLE: Stamp = ("collection",)  #: of a manifest that may be of the collection that is open, or of another one


def _stamp(path: Path | str) -> Stamp:
    """Return what changes when something takes the place: the inode and the time of `meta.json`, or `sharded.json`.

    Of a collection it is what its manifest says that no other collection has. What is at an address of fsspec is not
    followed: asking a bucket several times a second costs money.
    """
    name = META_NAME
    if is_ray_address(path):
        path, name = parse_ray_address(str(path)).path, SHARDED_NAME
        if is_address(path):
            return _GONE
    elif is_collection(path):
        try:
            return "collection", identity_of(Path(path))
        except (SegmaxError, OSError):  # which reading it says
            return _UNREADABLE
    try:
        found = Path(path, name).stat()
    except OSError:
        return _GONE
    return found.st_ino, found.st_mtime_ns


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
    shown
        What other processes have shown; None: there are no others.
    is_first
        Whether the service is being started, so that mistakes in how it was started are raised.
    may_be_closed
        Whether nothing at all may be open, because other processes serve what this one has not.

    Raises
    ------
    SegmaxError
        If nothing can be opened and that is not allowed, or for such a mistake. What else cannot be opened is tried
        again by `follow`, and requests for it are answered with status 503.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        writes: bool,
        encodes: bool = True,
        shown: Shown | None = None,
        is_first: bool = True,
        may_be_closed: bool = False,
    ) -> None:
        encoders = settings.encoders if encodes else {}
        self._served = {
            name: Served(name, path, encoders.get(name), writable=writes, shown=shown)
            for name, path in settings.paths.items()
        }
        failures = []
        try:
            for served in self._served.values():
                try:
                    served.open()
                except (SegmaxError, OSError) as error:
                    if is_first and (served.is_on_ray or isinstance(error, _MISTAKES)):
                        raise
                    failures.append((served, error))
            if len(failures) == len(self._served) and not may_be_closed:
                raise failures[0][1]
            for served, failure in failures:
                served.fail(failure)
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
            except Exception:  # which keeps the others from nothing
                _LOG.exception("looking for changes of '%s' failed", served.name)

    def warm(self) -> None:
        """Load tables of words."""
        for served in filter(lambda one: one.is_open, self._served.values()):
            try:
                served.warm()
            except (SegmaxError, ProblemError) as error:
                _LOG.warning("'%s': %s", served.name, error)

    def close(self) -> None:
        """Release all files."""
        for served in self._served.values():
            served.close()
