"""The files of a collection and its current state: opened, replayed, changed, and replaced by merges.

Nothing is changed in place but the log, which only grows. A new state is new files, and then one rename of the
manifest. Whatever happens in between, the manifest names files that are whole, and the log has the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from segmax.base.breaks import take_a_break
from segmax.base.errors import (
    FormatError,
    IndexClosedError,
    IndexExistsError,
    IndexNotFoundError,
    SegmaxError,
    WriteError,
    WriterStoppedError,
    damaged_collection,
)
from segmax.base.files import create, open_regular, sync_folder, write_errors
from segmax.base.system import sync_file
from segmax.base.vocabulary import GrowingVocabulary
from segmax.building.resources import ResourceOptions
from segmax.collection.applying import Step, Weigh, joined_views, plain_weights, without_numbers
from segmax.collection.array_file import read_arrays, write_arrays
from segmax.collection.changes import CHANGE, Change, from_pieces, to_pieces
from segmax.collection.lattice import MOST, Lattice, Weights
from segmax.collection.lock import WriterLock
from segmax.collection.log import Log
from segmax.collection.manifest import (
    MANIFEST_NAME,
    Manifest,
    claims_to_be_a_collection,
    files_of,
    holds_leftovers_only,
    read_manifest,
    remove_unnamed,
    write_manifest,
)
from segmax.collection.manifest import Part as ManifestPart
from segmax.collection.merging import LivingDocuments, WeighedAgain, write_merged
from segmax.collection.part import Part, open_part
from segmax.collection.replaying import Logged, replayed
from segmax.collection.starting import write_first_part
from segmax.collection.state import State, View
from segmax.collection.words import WordWeights, num_words
from segmax.search.index import Index
from segmax.storage.config import BuildConfig
from segmax.storage.tables import TextTable, text_arrays

_LOG = logging.getLogger("segmax.collection")

Durability = Literal["batch", "commit", "none"]
#: When a write is safe on disk; "batch" is the default.
DURABILITIES = ("batch", "commit", "none")
#: The number in the name of a file of ours.
_NUMBERED = re.compile(r"[a-z]+\.([1-9][0-9]{0,17})\b")
_FEW_DOCS, _MANY_DOCS = 32, 256
_RETRIES = 20  # of a reader whose files were replaced while it opened them


class Settings:
    """What a collection is created with, as its manifest keeps it."""

    def __init__(self, manifest: Manifest) -> None:
        extra = manifest.extra
        self.durability: Durability = extra.get("durability", "batch")
        self.keep_texts: bool = bool(extra.get("keep_texts", True))
        self.config = BuildConfig.from_dict(dict(manifest.config))


def create_store(
    path: Path,
    manifest: Manifest,
    lattice: Lattice,
    words: Sequence[str],
    *,
    index: Index | None = None,
    overwrite: bool = False,
) -> None:
    """Make the folder of a collection, without documents or with those of an index.

    Raises
    ------
    IndexExistsError
        If something is at the path, or something else than a collection where one may be replaced.
    """
    with write_errors(path):
        with contextlib.suppress(FileExistsError):
            path.mkdir()
        _check_free(path, overwrite=overwrite)  # a folder of something else gets no lock file
        with WriterLock(path):
            _check_free(path, overwrite=overwrite)  # again: another process may have made one just now
            # Behind the numbers of a collection that is replaced: its files stay until the new manifest is there.
            number = 1 + max([0, *(int(found[1]) for file in path.iterdir() if (found := _NUMBERED.match(file.name)))])
            generation = read_manifest(path).generation + 1 if (path / MANIFEST_NAME).exists() else 1
            lattice_name, words_name = _write_tables(path, number, lattice, words)
            Log.create(path, number).close()
            extra = {**manifest.extra, "lattice": _lattice_entry(lattice), "identity": secrets.token_hex(8)}
            if index is not None:
                name = f"part.{number}"
                kind = write_first_part(index, path / name, lattice)
                part = ManifestPart(name=name, num_docs=index.num_docs, num_alive=index.num_docs)
                manifest = dataclasses.replace(manifest, parts=(part,))
                extra = {**extra, "id_kind": kind.__name__}
            manifest = dataclasses.replace(
                manifest,
                generation=generation,
                lattice=lattice_name,
                statistics=words_name,
                first_log=number,
                extra=extra,
            )
            write_manifest(path, manifest)
            remove_unnamed(path, manifest)
        sync_folder(path.absolute().parent)


def _check_free(path: Path, *, overwrite: bool) -> None:
    """Raise IndexExistsError unless a collection can be made in a folder.

    It may be empty, have what an interrupted creation left, or have a collection that `overwrite` allows to replace.
    """
    is_free = path.is_dir() and (holds_leftovers_only(path) or (overwrite and claims_to_be_a_collection(path)))
    if not is_free:
        hint = "choose another path, or pass {overwrite=True} to replace a collection"
        raise IndexExistsError(f"'{path}' exists", hint=hint)


#: Gets ready what a manifest asks for, before parts are opened and the log is replayed.
Prepare = Callable[["Store", Manifest], None]


class Store:
    """A collection's files, opened to be read, or to be written as well."""

    def __init__(self, path: Path, *, read_only: bool, preload: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.preload = preload  # whether parts are read into memory, those to come as well
        self.writing = threading.RLock()
        self._worker: ThreadPoolExecutor | None = None
        self.flushing = threading.RLock()  # one at a time works on parts in memory
        self.merging = threading.RLock()  # and one at a time on parts on disk
        self.vocabulary = GrowingVocabulary()
        self.weigh: Weigh = plain_weights
        self._lock: WriterLock | None = None
        self._log: Log | None = None
        self._parts: dict[str, Part] = {}
        self._deleted_files: dict[int, str] = {}  # by serial of a view: the file that says who is dead
        self._pinned: dict[str, int] = {}  # names that nobody may remove, and how many need them
        self._next_file = 1
        self._is_loaded = False
        self._on_words: Callable[[Sequence[str]], None] = lambda words: None
        self.manifest: Manifest
        self.settings: Settings
        self.state: State

    # --- opening -----------------------------------------------------------------------------------------------------

    def open(self, prepare: Prepare) -> None:
        """Read the manifest, open the parts and replay the log; `prepare` is called once the manifest is known."""
        if not self.path.is_dir():
            raise IndexNotFoundError(f"there is no collection at '{self.path}'", hint="create one, or check the path")
        if not self.read_only:
            read_manifest(self.path)  # a folder of something else gets no lock file
            self._lock = WriterLock(self.path)
        try:
            self._load(prepare)
        except BaseException:
            self.close()
            raise

    def _load(self, prepare: Prepare) -> None:
        for attempt in range(_RETRIES):
            manifest = read_manifest(self.path)
            if self._is_loaded and _identity(manifest) != _identity(self.manifest):
                msg = f"the collection that was open at '{self.path}' was replaced by another one"
                raise IndexNotFoundError(msg, hint="open it again")
            try:
                with _content_errors(self.path):
                    self._load_state(manifest, prepare)
                return
            except (FileNotFoundError, FormatError) as error:
                # A writer may have replaced the manifest, and removed what the old one named.
                changed = read_manifest(self.path).generation != manifest.generation
                if self.read_only and changed and attempt < _RETRIES - 1:
                    continue
                if isinstance(error, FormatError):
                    raise
                name = Path(str(error.filename)).name
                raise damaged_collection(f"'{name}' is missing", self.path) from error

    def _load_state(self, manifest: Manifest, prepare: Prepare) -> None:
        """Make the state that a manifest and its log describe, and take it over only once it is whole."""
        lattice = self._read_lattice(manifest)
        if manifest.statistics is not None:
            arrays = read_arrays(self.path / manifest.statistics)
            offsets = arrays["word_offset"]
            words = list(TextTable(offsets, arrays["word_text"], len(offsets) - 1, self.path))
            self._learn(words[len(self.vocabulary) :])
        prepare(self, manifest)
        views = tuple(self._open_view(part, manifest) for part in manifest.parts)
        kind = {"int": int, "str": str, None: None}[manifest.extra.get("id_kind")]
        state = State(lattice, views, manifest.next_number, kind, manifest.applied, lattice.to_core())
        assert state.core is not None  # the core looks whether parts and lattice fit together
        settings = Settings(manifest)
        log = Log.open(self.path, manifest.first_log, applied=manifest.applied, read_only=self.read_only)
        try:
            state = self._followed(log, state, self._visible(manifest, settings))
        except BaseException:
            log.close()
            raise
        if not self.read_only:
            remove_unnamed(self.path, manifest)
        if self._log is not None:
            self._log.close()
        self._log, self.manifest, self.settings, self.state = log, manifest, settings, state
        self._is_loaded = True
        self._parts = {view.part.name: view.part for view in views}
        self._next_file = 1 + max([0, *map(_file_number, files_of(manifest))])

    def follow_log(self) -> None:
        """Apply the records of the log that are new, as far as they are there for others to see."""
        assert self._log is not None
        with _content_errors(self.path):
            self.state = self._followed(self._log, self.state, self._visible(self.manifest, self.settings))

    def _visible(self, manifest: Manifest, settings: Settings) -> int | None:
        """Return the last record that this process may see; None: all of them."""
        if not self.read_only or settings.durability == "batch":
            return None
        return int(manifest.extra.get("committed", 0))

    def _followed(self, log: Log, state: State, most: int | None) -> State:
        """Return a state after the records of a log, up to the last one that may be seen."""
        if most is not None and state.sequence >= most:
            return state
        return replayed(state, self._changes(log, most), self.weigh)

    def _changes(self, log: Log, most: int | None) -> Iterator[Logged]:
        """Yield the changes of a log, up to the last one that may be seen."""
        for record in log.records():
            if record.kind == CHANGE:
                change = from_pieces(record.pieces, log.place)
                self._learn(change.terms)
                yield Logged(change, record.sequence)
            if most is not None and record.sequence >= most:
                return

    def _read_lattice(self, manifest: Manifest) -> Lattice:
        entry: Mapping[str, Any] = manifest.extra.get("lattice", {})
        if manifest.lattice is None:
            return Lattice()
        arrays = read_arrays(self.path / manifest.lattice)
        scale, largest = arrays["scale"], arrays["largest"]
        fits = scale.dtype == np.float64 and largest.dtype == np.uint32 and len(scale) == len(largest)
        if not fits or not (np.isfinite(scale) & (scale > 0)).all() or largest.max(initial=0) > MOST:
            raise damaged_collection(f"{manifest.lattice} has impossible scales", self.path)
        return Lattice(
            kind=entry["kind"],
            step=float(entry["step"]),
            scale=scale,
            largest=largest,
            provisional=bool(entry["provisional"]),
            top=int(entry["top"]),
            weights=Weights(*entry["weights"]),
        )

    def _open_view(self, part: ManifestPart, manifest: Manifest) -> View:
        opened = self._parts.get(part.name) or open_part(self.path, part.name, preload=self.preload)
        view = View(opened)
        self._check_part(opened, part, manifest)
        if part.deleted is not None:
            bits = read_arrays(self.path / part.deleted)["alive"]
            if len(bits) != -(-opened.num_docs // 8):
                raise damaged_collection(f"{part.deleted} has the wrong length", self.path)
            alive = np.unpackbits(bits, count=opened.num_docs).astype(bool)
            view = view.with_alive(alive)
            self._deleted_files[view.serial] = part.deleted
        return view

    def _check_part(self, opened: Part, part: ManifestPart, manifest: Manifest) -> None:
        """Raise FormatError if a part is not the one that the manifest means."""
        kind = "int" if "id_number" in opened.id_arrays else "str"
        counts_words = self.weigh is not plain_weights
        problems = {
            f"has {opened.num_docs:,} documents, not {part.num_docs:,}": opened.num_docs != part.num_docs,
            "has ids of another kind": kind != manifest.extra.get("id_kind"),
            "has no counts of words": counts_words and opened.counts is None,
            "has numbers that are yet to come": int(opened.numbers.max(initial=-1)) >= manifest.next_number,
        }
        for problem, holds in problems.items():
            if holds:
                raise damaged_collection(f"{part.name} {problem}", self.path)

    def changed_on_disk(self) -> bool:
        """Whether another process has written since this one looked, or put another collection in its place."""
        found = read_manifest(self.path)
        return found.generation != self.manifest.generation or _identity(found) != _identity(self.manifest)

    def reload(self, prepare: Prepare) -> None:
        """Take over the state on disk; parts that are open already stay open."""
        found = read_manifest(self.path)
        assert self._log is not None
        # If not, a change was read that could not be applied: the next one must not follow without it.
        is_whole = self._log.last_sequence <= self.state.sequence
        if is_whole and _same_documents(found, self.manifest):
            if found != self.manifest:
                prepare(self, found)
                self.manifest = found
            try:
                self.follow_log()
                return
            except (FileNotFoundError, FormatError):
                if not self.changed_on_disk():  # the log went on in files that were replaced meanwhile
                    raise
        self._load(prepare)

    def close(self) -> None:
        """Release files and lock, once merges and writes under way are over. What the log has is safe on disk first."""
        with self.flushing, self.merging, self.writing, contextlib.ExitStack() as stack:
            if self._lock is not None:
                stack.callback(self._lock.release)
            if self._log is not None:
                stack.callback(self._log.close)
                if self._lock is not None and self._lock.is_held:
                    with contextlib.suppress(WriteError):
                        self._log.sync()
                        self._publish()
            if self._worker is not None:
                self._worker.shutdown()
            self._log = None
            self._lock = None

    def _publish(self) -> None:
        """Let other processes see the last writes."""
        if self.settings.durability != "batch" and self.manifest.extra.get("committed") != self.state.sequence:
            extra = {**self.manifest.extra, "committed": self.state.sequence}
            self._replace_manifest(dataclasses.replace(self.manifest, extra=extra))

    # --- changes -----------------------------------------------------------------------------------------------------

    def write(self, make: Callable[[State], Change | None]) -> Change | None:
        """Make a change, log it, and let searches see it: when this returns, it is acknowledged.

        Parameters
        ----------
        make
            Returns the change to a state, or None for nothing to do. No other write comes in between.
        """
        with self.writing:
            log = self._writable_log()
            change = make(self.state)
            if change is None or not (change.num_docs or len(change.deleted)):
                return None
            breaks = take_a_break if change.num_docs >= _MANY_DOCS else lambda: None
            sequence = log.last_sequence + 1
            breaks()
            step = Step(self.state, change, self.weigh)  # before it is logged, because this may fail
            after = self._beside(change, lambda: step.taken(sequence).ready_like(self.state))
            breaks()
            try:
                log.append(CHANGE, to_pieces(change))
                if self.settings.durability == "batch":
                    log.sync()
            except WriteError:
                raise  # it was undone, or the log takes nothing more
            except BaseException:
                # Interrupted in between, the log has the record, and memory must not know less.
                if log.last_sequence == sequence:
                    self._see(change, after())
                raise
            try:
                made = after()
            except Exception:
                log.take_back()  # memory ran out: nobody knows of it yet
                raise
            self._see(change, made)
            return change

    def _beside(self, change: Change, work: Callable[[], State]) -> Callable[[], State]:
        """Start work that a disk can be waited for beside, and return what waits for its result."""
        if change.num_docs < _FEW_DOCS:
            made = work()  # sooner than another thread would have started
            return lambda: made
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="segmax-add")
        return self._worker.submit(work).result

    def _see(self, change: Change, after: State) -> None:
        self._learn(change.terms)
        self.state = after

    @property
    def may_write(self) -> bool:
        """Whether this process has the lock, and the log still takes changes from it."""
        return self._log is not None and self._lock is not None and self._lock.is_held

    def _writable_log(self) -> Log:
        """Return the log of a store that is open and may write; raise otherwise."""
        if self._log is None:
            raise IndexClosedError("the collection is closed", hint="open it again with segmax.Collection.open")
        if self._lock is None or not self._lock.is_held:
            raise WriterStoppedError(
                "this process may not write to the collection: it was made by fork, and the lock is its parent's",
                hint="open the collection in one process only",
            )
        return self._log

    def _learn(self, words: Sequence[str]) -> None:
        """Add words to the vocabulary."""
        if words:
            self.vocabulary.add(words)
            self._on_words(words)

    def on_words(self, call: Callable[[Sequence[str]], None]) -> None:
        """Call a function with all words, and with those to come."""
        call(self.vocabulary.terms)
        self._on_words = call

    def commit(self) -> None:
        """Make everything safe on disk, and let other processes see it."""
        with self.writing:
            self._writable_log().sync()
            self._publish()

    def update_manifest(self, **changes: Any) -> None:
        """Replace entries of the manifest."""
        with self.writing:
            self._writable_log()
            self._replace_manifest(dataclasses.replace(self.manifest, **changes))

    @property
    def log_bytes(self) -> int:
        """The size of the log on disk."""
        return sum(file.stat().st_size for file in self.path.glob("log.*"))

    def is_log_long(self, num_bytes: int, num_records: int) -> bool:
        """Whether the log has more than so many bytes, or records that no part has."""
        log = self._log
        is_long = log is not None and log.file_bytes > num_bytes
        return is_long or self.state.sequence - self.manifest.applied > num_records

    # --- flushing and merging ----------------------------------------------------------------------------------------

    def flush(self, options: ResourceOptions, *, rough: bool = False) -> bool:
        """Write what is in memory as parts on disk, so that a new log can start; return whether there was anything.

        Rough parts take half the time, and have to be merged soon.
        """
        with self.flushing:
            with self.writing:
                log = self._writable_log()
                state = self.state
                if state.sequence == self.manifest.applied:
                    return False
                if state.lattice.provisional:
                    state = self._settled()
                first_log = log.rotate()
                # The log will no longer have these documents, so no part that only the log protects may take them in.
                self.state = state = _sealed(state, sealed=True)
                memory = [view for view in state.views if view.sealed]
            try:
                with contextlib.ExitStack() as pins:
                    made = self._written(memory, state.lattice, options, pins, rough=rough)
                    with self.writing:
                        self._install(memory, made, state.sequence, first_log)
            except BaseException:
                with self.writing:
                    self.state = _sealed(self.state, sealed=False).ready_like(self.state)
                raise
            return True

    def _settled(self) -> State:
        """Return the state with a lattice that stays.

        The lattice is on disk before anything is coded by it: a crash, or a flush that fails, may leave all documents
        in the log, and whoever reads them there must not choose another one.
        """
        state = dataclasses.replace(self.state, lattice=self.state.lattice.settled())
        self._replace_manifest(self._manifest_with_tables(state))
        self.state = state.ready_like(self.state)
        return self.state

    def merge(self, names: Sequence[str], options: ResourceOptions) -> None:
        """Merge parts on disk into one, or into two where some documents have wide codes."""
        with self.merging:
            with self.writing:
                self._writable_log()
                state = self.state
            views = [view for view in state.views if view.part.name in names]
            with contextlib.ExitStack() as pins:
                made = self._written(views, state.lattice, options, pins)
                with self.writing:
                    self._install(views, made)

    def join(self, views: Sequence[View]) -> None:
        """Make one part of several in memory; it stays in memory."""
        with self.flushing:
            if self.state.lattice.provisional:
                return  # a write may code all of them anew
            made = joined_views(views, self.state.lattice.scale)
            with self.writing:
                self.state = self._replaced(views, [made]).ready_like(self.state)

    def compact(self, options: ResourceOptions, words: WordWeights | None) -> None:
        """Write everything that is on disk as one part; with BM25 by today's mean length of documents."""
        with self.merging:
            with self.writing:
                self._writable_log()
                state = self.state
            views = [view for view in state.views if view.part.name]
            read = None
            if words is not None and state.num_docs:
                mean = num_words(state) / state.num_docs
                read = partial(WeighedAgain, lattice=state.lattice, weigh=lambda counts: words.weights(counts, mean))
            elif len(views) <= 1 and all(view.alive is None and not view.part.rough for view in views):
                return
            with contextlib.ExitStack() as pins:
                made = self._written(views, state.lattice, options, pins, read)
                with self.writing:
                    self._install(views, made)

    def _written(
        self,
        views: Sequence[View],
        lattice: Lattice,
        options: ResourceOptions,
        pins: contextlib.ExitStack,
        read: Callable[[Sequence[View]], LivingDocuments] | None = None,
        *,
        rough: bool = False,
    ) -> list[View]:
        """Write the living documents of some views as new parts, and open these; `pins` keeps their files."""
        made = []
        read = read or partial(LivingDocuments, num_terms=lattice.num_terms)
        for wide in (False, True):
            group = [view for view in views if view.part.is_wide == wide and view.num_alive]
            if not group:
                continue
            name = self._new_name("part", "")
            pins.enter_context(self._pin([name]))
            try:
                write_merged(
                    self.path / name,
                    read(group),
                    group,
                    lattice,
                    self.settings.config,
                    options,
                    wide=wide,
                    keep_texts=any(view.part.ids.stored is not None for view in group),
                    rough=rough,
                )
            except BaseException:
                shutil.rmtree(self.path / name, ignore_errors=True)
                raise
            made.append(View(open_part(self.path, name, preload=self.preload)))
        return made

    def _replaced(self, old: Sequence[View], new: Sequence[View]) -> State:
        """Return the current state with new views in place of old ones; what died meanwhile is dead in the new ones."""
        parts = {id(view.part): view for view in old}
        died = []
        for view in self.state.views:
            before = parts.get(id(view.part))
            if before is not None and view.alive is not None:
                was = np.ones(view.part.num_docs, bool) if before.alive is None else before.alive
                died.append(view.part.numbers[was & ~view.alive])
        # A part in memory without living documents leaves the state at once.
        there = {id(view.part) for view in self.state.views}
        for view in old:
            if id(view.part) not in there:
                died.append(view.part.numbers[view.alive_rows()])
        kept = [view for view in self.state.views if id(view.part) not in parts]
        numbers = np.concatenate(died) if died else np.zeros(0, np.int64)
        return dataclasses.replace(self.state, views=(*without_numbers(new, numbers), *kept))

    def _install(
        self, old: Sequence[View], new: Sequence[View], applied: int | None = None, first_log: int | None = None
    ) -> None:
        """Make new parts current in place of old ones: manifest first, then what nobody names goes away.

        Parameters
        ----------
        old, new
            The views that go and come.
        applied, first_log
            The last record of the log that parts have now, and the first file that is still needed; None: as before.
        """
        log = self._writable_log()
        state = self._replaced(old, new)
        disk = tuple(view for view in state.views if view.part.name and view.num_alive)
        memory = tuple(view for view in state.views if not view.part.name)
        state = dataclasses.replace(state, views=(*disk, *memory))
        kind = None if state.id_kind is None else state.id_kind.__name__
        manifest = self._manifest_with_tables(state)
        manifest = dataclasses.replace(
            manifest,
            parts=tuple(map(self._manifest_part, disk)),
            next_number=state.next_number,
            first_log=self.manifest.first_log if first_log is None else first_log,
            applied=self.manifest.applied if applied is None else applied,
            extra={**manifest.extra, "id_kind": kind},
        )
        self._replace_manifest(manifest)
        self.state = state.ready_like(self.state)
        self._parts = {view.part.name: view.part for view in disk}
        log.remove_before(manifest.first_log)
        remove_unnamed(self.path, self.manifest, self._pinned.keys())

    def _manifest_with_tables(self, state: State) -> Manifest:
        """Write the tables of a state, and return the manifest that names them."""
        lattice_name, words_name = _write_tables(
            self.path, self._take_number(), state.lattice, self.vocabulary.terms[: len(self.vocabulary)]
        )
        extra = {**self.manifest.extra, "lattice": _lattice_entry(state.lattice)}
        return dataclasses.replace(self.manifest, lattice=lattice_name, statistics=words_name, extra=extra)

    def _manifest_part(self, view: View) -> ManifestPart:
        deleted = None
        if view.alive is not None:
            deleted = self._deleted_files.get(view.serial)
            if deleted is None:
                deleted = self._new_name("deleted", ".bin")
                write_arrays(self.path / deleted, {"alive": np.packbits(view.alive)})
                self._deleted_files[view.serial] = deleted
        return ManifestPart(
            name=view.part.name,
            num_docs=view.part.num_docs,
            num_alive=view.num_alive,
            deleted=deleted,
            num_bytes=view.part.num_bytes,
        )

    def _replace_manifest(self, manifest: Manifest) -> None:
        manifest = dataclasses.replace(manifest, generation=self.manifest.generation + 1)
        write_manifest(self.path, manifest)
        self.manifest = manifest

    # --- copies ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _pin(self, names: Iterable[str]) -> Iterator[None]:
        """Let nobody remove some files: they are being copied, or written and not yet in a manifest."""
        pinned = list(names)
        with self.writing:
            for name in pinned:
                self._pinned[name] = self._pinned.get(name, 0) + 1
        try:
            yield
        finally:
            with self.writing:
                for name in pinned:
                    self._pinned[name] -= 1
                    if not self._pinned[name]:
                        del self._pinned[name]

    def backup(self, target: Path) -> None:
        """Copy the collection to a new folder: parts while others write, and the log while nobody does."""
        if target.exists():
            raise IndexExistsError(f"'{target}' is taken", hint="choose another path")
        with write_errors(target), self.flushing, self.merging, contextlib.ExitStack() as stack:
            with self.writing:
                manifest = self.manifest
                stack.enter_context(self._pin(files_of(manifest)))
            target.mkdir()
            try:
                for name in sorted(files_of(manifest)):
                    copy_synced(self.path / name, target / name)
                with self.writing:  # the log grows, and its last record must not be half there
                    self._writable_log().sync()
                    for file in self.path.glob("log.*"):
                        copy_synced(file, target / file.name)
                    extra = {**self.manifest.extra, "committed": self.state.sequence}
                write_manifest(target, dataclasses.replace(manifest, extra=extra))
                sync_folder(target.parent)
            except BaseException:
                shutil.rmtree(target, ignore_errors=True)
                raise

    # --- names -------------------------------------------------------------------------------------------------------

    def _take_number(self) -> int:
        with self.writing:
            self._next_file += 1
            return self._next_file - 1

    def _new_name(self, kind: str, suffix: str) -> str:
        return f"{kind}.{self._take_number()}{suffix}"


@contextlib.contextmanager
def _content_errors(path: Path) -> Iterator[None]:
    """Turn whatever the content of a manifest causes into FormatError."""
    try:
        yield
    except (SegmaxError, OSError):
        raise
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        what = f"its files do not fit together ({type(error).__name__}: {str(error)[:200]})"
        raise damaged_collection(what, path) from error


def _file_number(name: str) -> int:
    return int(name.split(".")[1])


def _lattice_entry(lattice: Lattice) -> dict[str, Any]:
    return {
        "kind": lattice.kind,
        "step": lattice.step,
        "provisional": lattice.provisional,
        "top": lattice.top,
        "weights": list(lattice.weights),
    }


def _write_tables(path: Path, number: int, lattice: Lattice, words: Sequence[str]) -> tuple[str, str | None]:
    """Write scales, largest codes and words; return the names of the files."""
    lattice_name = f"lattice.{number}.bin"
    write_arrays(path / lattice_name, {"scale": lattice.scale, "largest": lattice.largest})
    if not words:
        return lattice_name, None
    words_name = f"statistics.{number}.bin"
    write_arrays(path / words_name, text_arrays("word", list(words)))
    return lattice_name, words_name


def copy_synced(source: Path, target: Path) -> None:
    """Copy a file, or a folder of files, and make the copy safe on disk."""
    if source.is_dir():
        target.mkdir()
        for file in source.iterdir():
            copy_synced(file, target / file.name)
        sync_folder(target)
        return
    with open_regular(source) as read, os.fdopen(create(target), "wb") as written:
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        sync_file(written.fileno())


def _identity(manifest: Manifest) -> object:
    """Return what no other collection has."""
    return manifest.extra.get("identity")


def _sealed(state: State, *, sealed: bool) -> State:
    """Return a state whose parts in memory take in no more documents, or do again."""
    views = tuple(view if view.part.name else dataclasses.replace(view, sealed=sealed) for view in state.views)
    return dataclasses.replace(state, views=views)


def _same_documents(found: Manifest, known: Manifest) -> bool:
    """Whether two manifests describe the same parts and the same start of the log, whatever else was written."""

    def documents(manifest: Manifest) -> Manifest:
        extra = {**manifest.extra, "committed": 0}
        return dataclasses.replace(manifest, generation=1, calibration=(), extra=extra)

    return documents(found) == documents(known)
