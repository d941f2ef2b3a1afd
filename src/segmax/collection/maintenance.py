"""The work that goes on behind a collection: parts in memory are joined and flushed, parts on disk are merged."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from segmax.base.errors import SegmaxError, WriterStoppedError
from segmax.base.system import lower_priority
from segmax.building.resources import ResourceOptions
from segmax.collection.applying import SMALL_DOCS
from segmax.collection.merging import chosen_for_merge
from segmax.collection.state import State, View
from segmax.collection.store import Store

_LOG = logging.getLogger("segmax.collection")

#: So many documents in memory are written as a part on disk.
FLUSH_DOCS = 1 << 15
#: Writers wait rather than let so many times as many be in memory.
_MOST_MEMORY = 4
#: What a collection that closes has in memory is written, too, if it is so much; else the log keeps it.
LEAST_LAST_FLUSH = 1 << 10
#: So many parts in memory of about one size are joined.
_JOINED_PARTS = 4
#: While documents come, so many parts are merged at least; fewer once it is quiet.
_BUSY_MERGE, _QUIET_MERGE = 8, 2
_QUIET_SECONDS = 0.5
#: If a flush was over so shortly before the next, documents come faster than they can be clustered.
_PRESSED_SECONDS = 1.0
#: Parts with a larger share of dead documents are written again, like those that are not clustered.
_MOST_DEAD = 0.5
#: A log that is longer, in bytes or records, is replaced by parts: it has to be read again after a crash.
_MOST_LOG_BYTES, _MOST_RECORDS = 1 << 26, 1 << 11
_RETRY_SECONDS = 5.0  # after a failure, such as a full disk


class GivenUp(Exception):
    """The collection is being closed, or a larger merge is to come instead."""


class _Work(NamedTuple):
    """Something to do behind a collection."""

    do: Callable[[], object]
    yields: bool = False  #: run only where no other thread wants to: writers wait for flushes, but for no merge
    num_docs: int = 0  #: of parts that are merged

    def run(self) -> None:
        """Do it, in a thread of its own where it yields, because not everybody may raise a priority again."""
        if not self.yields:
            self.do()
            return
        errors: list[BaseException] = []

        def run() -> None:
            lower_priority()
            try:
                self.do()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, name="segmax-merge", daemon=True)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]


def _failure_of(work: _Work, store: Store) -> BaseException | None:
    """Do some work, and return why it failed; None if it did not, or was given up."""
    try:
        work.run()
    except GivenUp:
        return None
    except Exception as error:  # whatever it is, the thread has to live on
        _LOG.warning("a merge of '%s' failed and will be tried again (%s)", store.path, error, exc_info=True)
        return error
    return None


def _reason(error: BaseException) -> str:
    """Return why something failed, for messages."""
    if isinstance(error, SegmaxError):
        return str(error).removesuffix(f"; {error.hint}")
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _stopped(store: Store, num_docs: int, failure: BaseException) -> WriterStoppedError:
    """Return the error about a collection that takes no more documents, because those it has cannot be flushed."""
    needs_limit = isinstance(failure, SegmaxError) and failure.option == "memory_limit"
    return WriterStoppedError(
        f"the collection '{store.path}' takes no more documents: {num_docs:,} are in memory and in the log, and "
        f"writing them as a part failed: {_reason(failure)}",
        hint="open it again with a larger {memory_limit}" if needs_limit else "make room, and it goes on by itself",
    )


class Maintainer:
    """Two threads that keep the parts of a collection few. They can be paused.

    One joins parts in memory and writes them to disk. The other merges parts on disk, which may take long: documents
    that come need not wait for it.
    """

    def __init__(self, store: Store, memory_limit: int | str | None = None) -> None:
        self._store = store
        self._memory_limit = memory_limit
        self._wake = threading.Condition()
        self._paused = 0
        self._held = 0
        self._stopping = False
        self._working: dict[Callable[[], _Work | None], _Work] = {}  # what is under way, by what chose it
        self._superseded = False  # the merge under way
        self._awaited = 0  # by how many callers of `settle`
        self._coming = 0  # documents of writes under way
        self._last_write = self._last_flush = 0.0
        self._failures: dict[Callable[[], _Work | None], BaseException] = {}  # of the last attempts, by what chose them
        self._num_failures = 0
        self._num_hurries = 0  # how often somebody would not wait for the next attempt
        self._threads = [
            threading.Thread(target=self._run, args=(choose,), name=name, daemon=True)
            for name, choose in (("segmax-flushes", self._next_flush), ("segmax-merges", self._next_merge))
        ]
        for thread in self._threads:
            thread.start()

    # --- what others ask for -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def room_for(self, num_docs: int) -> Iterator[None]:
        """Wait until so many more documents may be in memory, and go on with what there is to do once they are written.

        Raises
        ------
        WriterStoppedError
            If there is no room, because what is in memory could not be written to disk.
        """
        with self._wake:
            while num_docs and not self._paused and not self._stopping and self._is_full(num_docs):
                failure = self._failures.get(self._next_flush)
                if failure is not None:
                    raise _stopped(self._store, self._memory_docs(), failure) from failure
                self._wake.wait(timeout=0.1)
                self._last_write = time.monotonic()  # a writer that waits is no reason for merges
            self._coming += num_docs
        try:
            yield
        finally:
            with self._wake:
                self._coming -= num_docs
                self._last_write = time.monotonic()
                self._wake.notify_all()

    def _is_full(self, num_docs: int) -> bool:
        """Whether so many more documents would be too many in memory; there is something to wait for then."""
        in_memory = self._memory_docs()
        is_over = in_memory + self._coming + num_docs > _MOST_MEMORY * FLUSH_DOCS
        return is_over and (in_memory >= FLUSH_DOCS or self._coming > 0)

    @contextlib.contextmanager
    def no_merges(self) -> Iterator[None]:
        """Merge nothing in the meantime. A merge that is under way is finished first, even if it is paused."""
        with self._wake:
            self._held += 1
            while self._next_merge in self._working:
                self._wake.wait(timeout=0.05)
        try:
            yield
        finally:
            with self._wake:
                self._held -= 1
                self._wake.notify_all()

    def pause(self) -> None:
        """Stop working until `resume`."""
        with self._wake:
            self._paused += 1

    def resume(self) -> None:
        """Go on."""
        with self._wake:
            self._paused = max(0, self._paused - 1)
            self._wake.notify_all()

    def settle(self, timeout: float | None = None) -> bool:
        """Wait until there is nothing left to do; return False if that takes too long, is paused, or fails.

        Work that somebody waits for takes all cores, and leaves no more than a few documents in memory. Without a
        timeout, what failed is tried again at once, and a small merge that is under way is given up, because its parts
        are merged with all the others then.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self._wake:
            self._last_write = 0.0
            self._awaited += 1
            self._num_hurries += timeout is None
            num_failures = self._num_failures
            merge = self._working.get(self._next_merge)
            if timeout is None and merge is not None and merge.yields:
                self._superseded = merge.num_docs < self._store.state.num_docs // 2
            self._wake.notify_all()
            try:
                while self._working or self._next_flush() is not None or self._next_merge() is not None:
                    left = 0.05 if end is None else min(0.05, end - time.monotonic())
                    if left <= 0 or self._num_failures > num_failures or (self._paused and not self._working):
                        return False
                    self._wake.wait(timeout=left)
            finally:
                self._awaited -= 1
            return True

    def finish(self) -> None:
        """Write what is worth a part before the collection closes, after what is under way; the log keeps it anyway."""
        if self._paused or not self._store.may_write:
            return
        try:
            with self._store.flushing:
                if sum(view.num_alive for view in self._in_memory()) >= LEAST_LAST_FLUSH:
                    self._store.flush({"memory_limit": self._memory_limit})
        except Exception as error:
            _LOG.warning("the last documents of '%s' stay in the log (%s)", self._store.path, _reason(error))

    def stop(self) -> None:
        """End the threads; what is under way is given up."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():  # which may be the one that drops a collection
                thread.join()

    @property
    def failure(self) -> str | None:
        """Why parts could not be written the last time, or merged; None if they could."""
        with self._wake:
            for choose in (self._next_flush, self._next_merge):
                # Others may have done what failed, and the thread need not have noticed yet.
                if choose in self._failures and (choose in self._working or choose() is not None):
                    return _reason(self._failures[choose])
        return None

    def options(self) -> ResourceOptions:
        """Return how merges work: on one thread unless somebody waits, and in steps between which they can pause."""
        writers_wait = self._memory_docs() > _MOST_MEMORY // 2 * FLUSH_DOCS  # or will soon
        threads = None if self._awaited or writers_wait else 1
        return {"threads": threads, "memory_limit": self._memory_limit, "progress": self._step}

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self, choose: Callable[[], _Work | None]) -> None:
        while True:
            with self._wake:
                work = None
                while not self._stopping and (self._paused or (work := choose()) is None):
                    if not self._paused:
                        self._failures.pop(choose, None)  # there is nothing left that could fail
                    self._wake.wait(timeout=_QUIET_SECONDS)
                if work is None or self._stopping:
                    return
                self._working[choose] = work
            failure = _failure_of(work, self._store)
            with self._wake:
                del self._working[choose]
                self._superseded = self._superseded and choose != self._next_merge
                if failure is None:
                    self._failures.pop(choose, None)
                else:
                    self._failures[choose] = failure
                    self._num_failures += 1
                before = self._num_hurries
                self._wake.notify_all()
            if failure is not None:
                self._rest(before, joins=choose == self._next_flush)

    def _rest(self, num_hurries: int, *, joins: bool) -> None:
        """Wait before the next attempt, whatever is written meanwhile, unless somebody asks for it.

        What is written meanwhile is joined, if asked for: searches would get slow of hundreds of parts.
        """
        end = time.monotonic() + _RETRY_SECONDS
        while True:
            with self._wake:
                left = end - time.monotonic()
                if self._stopping or self._num_hurries != num_hurries or left <= 0:
                    return
                work = self._next_join() if joins and not self._paused else None
                if work is None:
                    self._wake.wait(timeout=left)
            if work is not None:
                joins = _failure_of(work, self._store) is None

    def _merge_step(self, progress: Any) -> None:
        if self._superseded:
            raise GivenUp
        self._step(progress)

    def _step(self, progress: Any) -> None:
        """Wait while paused, and give up when the collection closes: called between the steps of a build."""
        with self._wake:
            while self._paused and not self._held and not self._stopping:
                self._wake.wait(timeout=0.1)
            if self._stopping:
                raise GivenUp

    def _in_memory(self) -> list[View]:
        return [view for view in self._store.state.views if not view.part.name]

    def _memory_docs(self) -> int:
        return sum(view.part.num_docs for view in self._in_memory())

    def _next_flush(self) -> _Work | None:
        """Return what to do next about parts in memory; None for nothing."""
        most = min(SMALL_DOCS, FLUSH_DOCS) if self._awaited else FLUSH_DOCS
        if self._memory_docs() >= most or self._store.is_log_long(_MOST_LOG_BYTES, _MOST_RECORDS):
            return _Work(self._flush)
        return self._next_join()

    def _next_join(self) -> _Work | None:
        """Return which parts in memory to join next; None for none."""
        state, memory = self._store.state, self._in_memory()
        for wide in (False, True):
            group = [v for v in memory if v.part.is_wide == wide and v.part.num_docs >= SMALL_DOCS // 2]
            chosen = chosen_for_merge([view.num_alive for view in group], _JOINED_PARTS)
            if chosen and not state.lattice.provisional:
                return _Work(partial(self._store.join, [group[number] for number in chosen]))
        return None

    def _flush(self) -> None:
        is_pressed = time.monotonic() - self._last_flush < _PRESSED_SECONDS
        self._store.flush(self.options(), rough=is_pressed)
        self._last_flush = time.monotonic()

    def _next_merge(self) -> _Work | None:
        """Return what to do next about parts on disk; None for nothing."""
        if self._awaited and (self._next_flush in self._working or self._next_flush() is not None):
            return None  # then all at once
        views = [] if self._held else self._views_to_merge(self._store.state)
        if not views:
            return None

        def merge() -> None:
            options: ResourceOptions = {**self.options(), "progress": self._merge_step}
            self._store.merge([view.part.name for view in views], options)

        return _Work(merge, not self._awaited, sum(view.num_alive for view in views))

    def _views_to_merge(self, state: State) -> list[View]:
        disk = [view for view in state.views if view.part.name]
        is_quiet = time.monotonic() - self._last_write > _QUIET_SECONDS
        for wide in (False, True):
            group = [view for view in disk if view.part.is_wide == wide]
            fewest = _QUIET_MERGE if is_quiet else _BUSY_MERGE
            chosen = chosen_for_merge([view.num_alive for view in group], fewest)
            if chosen:
                return [group[number] for number in chosen]
        poor = [v for v in disk if v.part.rough or v.num_alive < (1 - _MOST_DEAD) * v.part.num_docs]
        return poor[:1] if is_quiet else []
