"""The files of a collection and its current state: opened, replayed, changed, and replaced by merges.

Nothing is changed in place but the log, which only grows. A new state is new files, and then one rename of the
manifest. Whatever happens in between, the manifest names files that are whole, and the log has the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from segmax.base.errors import (
    FormatError,
    IndexExistsError,
    IndexNotFoundError,
    SegmaxError,
    WriteError,
    damaged_collection,
)
from segmax.base.files import create, open_regular, sync_folder, write_errors
from segmax.base.vocabulary import GrowingVocabulary
from segmax.building.resources import ResourceOptions
from segmax.collection.applying import Weigh, applied, joined_views, plain_weights, without_numbers
from segmax.collection.array_file import read_arrays, write_arrays
from segmax.collection.changes import CHANGE, Change, from_pieces, to_pieces
from segmax.collection.lattice import Lattice, Weights
from segmax.collection.lock import WriterLock
from segmax.collection.log import Log
from segmax.collection.manifest import (
    Manifest,
    files_of,
    holds_leftovers_only,
    read_manifest,
    remove_unnamed,
    write_manifest,
)
from segmax.collection.manifest import Part as ManifestPart
from segmax.collection.merging import LivingDocuments, WeighedAgain, write_merged
from segmax.collection.part import Part, open_part
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
_RETRIES = 20  # of a reader whose files were replaced while it opened them


class Settings:
    """What a collection is created with, as its manifest keeps it."""

    def __init__(self, manifest: Manifest) -> None:
        extra = manifest.extra
        self.durability: Durability = extra.get("durability", "batch")
        self.keep_texts: bool = bool(extra.get("keep_texts", True))
        self.config = BuildConfig.from_dict(dict(manifest.config))


def empty_state(lattice: Lattice) -> State:
    """Return the state of a collection without documents."""
    return State(lattice, (), 0, None, 0, lattice.to_core())


def create_store(
    path: Path, manifest: Manifest, lattice: Lattice, words: Sequence[str], index: Index | None = None
) -> None:
    """Make the folder of a collection, without documents or with those of an index.

    Raises
    ------
    IndexExistsError
        If something is at the path.
    """
    with write_errors(path):
        with contextlib.suppress(FileExistsError):
            path.mkdir()
        _check_free(path)  # a folder of something else gets no lock file
        with WriterLock(path):
            _check_free(path)  # again: another process may have made one just now
            remove_unnamed(path, manifest)
            lattice_name, words_name = _write_tables(path, 1, lattice, words)
            Log.create(path).close()
            extra = {**manifest.extra, "lattice": _lattice_entry(lattice)}
            if index is not None:
                kind = write_first_part(index, path / "part.1", lattice)
                part = ManifestPart(name="part.1", num_docs=index.num_docs, num_alive=index.num_docs)
                manifest = dataclasses.replace(manifest, parts=(part,))
                extra = {**extra, "id_kind": kind.__name__}
            write_manifest(
                path, dataclasses.replace(manifest, lattice=lattice_name, statistics=words_name, extra=extra)
            )
        sync_folder(path.absolute().parent)


def _check_free(path: Path) -> None:
    """Raise IndexExistsError unless the folder is empty, or has only what an interrupted creation left."""
    if not path.is_dir() or not holds_leftovers_only(path):
        raise IndexExistsError(f"'{path}' is taken", hint="choose another path, or open the collection that is there")


class Store:
    """A collection's files, opened to be read, or to be written as well."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self.writing = threading.RLock()
        self.maintaining = threading.Lock()  # one merge, flush or compaction at a time
        self.vocabulary = GrowingVocabulary()
        self.weigh: Weigh = plain_weights
        self._lock: WriterLock | None = None
        self._log: Log | None = None
        self._parts: dict[str, Part] = {}
        self._deleted_files: dict[int, str] = {}  # by serial of a view: the file that says who is dead
        self._pinned: set[str] = set()
        self._next_file = 1
        self._on_words: Callable[[Sequence[str]], None] = lambda words: None
        self.manifest: Manifest
        self.settings: Settings
        self.state: State

    # --- opening -----------------------------------------------------------------------------------------------------

    def open(self, prepare: Callable[[Store], None]) -> None:
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

    def _load(self, prepare: Callable[[Store], None]) -> None:
        for attempt in range(_RETRIES):
            manifest = read_manifest(self.path)
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

    def _load_state(self, manifest: Manifest, prepare: Callable[[Store], None]) -> None:
        self.manifest, self.settings = manifest, Settings(manifest)
        self._next_file = 1 + max([0, *map(_file_number, self._named(manifest))])
        lattice = self._read_lattice(manifest)
        if manifest.statistics is not None:
            arrays = read_arrays(self.path / manifest.statistics)
            offsets = arrays["word_offset"]
            words = list(TextTable(offsets, arrays["word_text"], len(offsets) - 1, self.path))
            self._learn(words[len(self.vocabulary) :])
        prepare(self)
        views = tuple(self._open_view(part) for part in manifest.parts)
        self._parts = {view.part.name: view.part for view in views}
        kinds = {"int": int, "str": str, None: None}
        core_lattice = lattice.to_core()
        kind = kinds[manifest.extra.get("id_kind")]
        self.state = State(lattice, views, manifest.next_number, kind, manifest.applied, core_lattice)
        if not self.read_only:
            remove_unnamed(self.path, manifest)
        if self._log is not None:
            self._log.close()
        self._log = Log.open(self.path, manifest.first_log, applied=manifest.applied, read_only=self.read_only)
        self.follow_log()

    def follow_log(self) -> None:
        """Apply the records of the log that are new, as far as they are there for others to see."""
        assert self._log is not None
        durability = self.settings.durability
        most = None if not self.read_only or durability == "batch" else int(self.manifest.extra.get("committed", 0))
        if most is not None and self.state.sequence >= most:
            return
        for record in self._log.records():
            if record.kind == CHANGE:
                self._apply(from_pieces(record.pieces), record.sequence)
            if most is not None and record.sequence >= most:
                return

    def _read_lattice(self, manifest: Manifest) -> Lattice:
        entry: Mapping[str, Any] = manifest.extra.get("lattice", {})
        if manifest.lattice is None:
            return Lattice()
        arrays = read_arrays(self.path / manifest.lattice)
        return Lattice(
            kind=entry["kind"],
            step=float(entry["step"]),
            scale=arrays["scale"],
            largest=arrays["largest"],
            provisional=bool(entry["provisional"]),
            top=int(entry["top"]),
            weights=Weights(*entry["weights"]),
        )

    def _open_view(self, part: ManifestPart) -> View:
        opened = self._parts.get(part.name) or open_part(self.path, part.name)
        view = View(opened)
        self._check_part(opened, part)
        if part.deleted is not None:
            bits = read_arrays(self.path / part.deleted)["alive"]
            if len(bits) != -(-opened.num_docs // 8):
                raise damaged_collection(f"{part.deleted} has the wrong length", self.path)
            alive = np.unpackbits(bits, count=opened.num_docs).astype(bool)
            view = view.with_alive(alive)
            self._deleted_files[view.serial] = part.deleted
        return view

    def _check_part(self, opened: Part, part: ManifestPart) -> None:
        """Raise FormatError if a part is not the one that the manifest means."""
        kind = "int" if "id_number" in opened.id_arrays else "str"
        counts_words = self.weigh is not plain_weights
        problems = {
            f"has {opened.num_docs:,} documents, not {part.num_docs:,}": opened.num_docs != part.num_docs,
            "has ids of another kind": kind != self.manifest.extra.get("id_kind"),
            "has no counts of words": counts_words and opened.counts is None,
            "has numbers that are yet to come": int(opened.numbers.max(initial=-1)) >= self.manifest.next_number,
        }
        for problem, holds in problems.items():
            if holds:
                raise damaged_collection(f"{part.name} {problem}", self.path)

    def changed_on_disk(self) -> bool:
        """Whether another process has written since this one looked."""
        return read_manifest(self.path).generation != self.manifest.generation

    def reload(self, prepare: Callable[[Store], None]) -> None:
        """Take over the state on disk; parts that are open already stay open."""
        if self.changed_on_disk():
            self._load(prepare)
        else:
            self.follow_log()

    def close(self) -> None:
        """Release files and lock. What the log has is safe on disk first."""
        with contextlib.ExitStack() as stack:
            if self._lock is not None:
                stack.callback(self._lock.release)
            if self._log is not None:
                stack.callback(self._log.close)
                if not self.read_only:
                    with contextlib.suppress(WriteError):
                        self._log.sync()
        self._log = None
        self._lock = None

    # --- changes -----------------------------------------------------------------------------------------------------

    def write(self, make: Callable[[State], Change | None]) -> Change | None:
        """Make a change, log it, and let searches see it: when this returns, it is acknowledged.

        Parameters
        ----------
        make
            Returns the change to a state, or None for nothing to do. No other write comes in between.
        """
        with self.writing:
            change = make(self.state)
            if change is None:
                return None
            assert self._log is not None
            after = applied(
                self.state, change, self._log.last_sequence + 1, self.weigh
            )  # before it is logged: may fail
            self._log.append(CHANGE, to_pieces(change))
            if self.settings.durability == "batch":
                self._log.sync()
            self._learn(change.terms)
            self.state = after
            return change

    def _apply(self, change: Change, sequence: int) -> None:
        self._learn(change.terms)
        self.state = applied(self.state, change, sequence, self.weigh)

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
            assert self._log is not None
            self._log.sync()
            extra = {**self.manifest.extra, "committed": self.state.sequence}
            self._replace_manifest(dataclasses.replace(self.manifest, extra=extra))

    def update_manifest(self, **changes: Any) -> None:
        """Replace entries of the manifest."""
        with self.writing:
            self._replace_manifest(dataclasses.replace(self.manifest, **changes))

    @property
    def log_bytes(self) -> int:
        """The size of the log on disk."""
        return sum(file.stat().st_size for file in self.path.glob("log.*"))

    # --- flushing and merging ----------------------------------------------------------------------------------------

    def flush(self, options: ResourceOptions) -> bool:
        """Write what is in memory as parts on disk, so that the log starts anew; return whether there was anything."""
        with self.maintaining:
            with self.writing:
                assert self._log is not None
                state = self.state
                memory = [view for view in state.views if not view.part.name]
                if state.sequence == self.manifest.applied:
                    return False
                self.state = state = dataclasses.replace(state, lattice=state.lattice.settled())
                first_log = self._log.rotate()
            made = self._written(memory, state.lattice, options)
            with self.writing:
                self._install(memory, made, applied=state.sequence, first_log=first_log)
            return True

    def merge(self, names: Sequence[str], options: ResourceOptions) -> None:
        """Merge parts on disk into one, or into two where some documents have wide codes."""
        with self.maintaining:
            state = self.state
            views = [view for view in state.views if view.part.name in names]
            made = self._written(views, state.lattice, options)
            with self.writing:
                self._install(views, made, applied=self.manifest.applied, first_log=self.manifest.first_log)

    def join(self, views: Sequence[View]) -> None:
        """Make one part of several in memory; it stays in memory."""
        with self.maintaining:
            if self.state.lattice.provisional:
                return  # a write may code all of them anew
            made = joined_views(views, self.state.lattice.scale)
            with self.writing:
                self.state = self._replaced(views, [made])

    def compact(self, options: ResourceOptions, words: WordWeights | None) -> None:
        """Write everything that is on disk as one part; with BM25 by today's mean length of documents."""
        with self.maintaining:
            state = self.state
            views = [view for view in state.views if view.part.name]
            read = None
            if words is not None and state.num_docs:
                mean = num_words(state) / state.num_docs
                read = partial(WeighedAgain, lattice=state.lattice, weigh=lambda counts: words.weights(counts, mean))
            elif len(views) <= 1 and all(view.alive is None for view in views):
                return
            made = self._written(views, state.lattice, options, read)
            with self.writing:
                self._install(views, made, applied=self.manifest.applied, first_log=self.manifest.first_log)

    def _written(
        self,
        views: Sequence[View],
        lattice: Lattice,
        options: ResourceOptions,
        read: Callable[[Sequence[View]], LivingDocuments] | None = None,
    ) -> list[View]:
        """Write the living documents of some views as new parts, and open these."""
        made = []
        read = read or partial(LivingDocuments, num_terms=lattice.num_terms)
        for wide in (False, True):
            group = [view for view in views if view.part.is_wide == wide and view.num_alive]
            if not group:
                continue
            name = self._new_name("part", "")
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
                )
            except BaseException:
                shutil.rmtree(self.path / name, ignore_errors=True)
                raise
            made.append(View(open_part(self.path, name)))
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

    def _install(self, old: Sequence[View], new: Sequence[View], *, applied: int, first_log: int) -> None:
        """Make new parts current in place of old ones: manifest first, then what nobody names goes away."""
        state = self._replaced(old, new)
        disk = tuple(view for view in state.views if view.part.name and view.num_alive)
        memory = tuple(view for view in state.views if not view.part.name)
        state = dataclasses.replace(state, views=(*disk, *memory))
        lattice_name, words_name = _write_tables(
            self.path, self._take_number(), state.lattice, self.vocabulary.terms[: len(self.vocabulary)]
        )
        kind = None if state.id_kind is None else state.id_kind.__name__
        manifest = dataclasses.replace(
            self.manifest,
            parts=tuple(map(self._manifest_part, disk)),
            lattice=lattice_name,
            statistics=words_name,
            next_number=state.next_number,
            first_log=first_log,
            applied=applied,
            extra={**self.manifest.extra, "lattice": _lattice_entry(state.lattice), "id_kind": kind},
        )
        self._replace_manifest(manifest)
        self.state = state
        self._parts = {view.part.name: view.part for view in disk}
        assert self._log is not None
        self._log.remove_before(first_log)
        remove_unnamed(self.path, self.manifest, self._pinned)

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
    def pinned(self) -> Iterator[Manifest]:
        """Keep the files of the current manifest while they are copied."""
        with self.writing:
            manifest = self.manifest
            names = set(self._named(manifest))
            self._pinned |= names
        try:
            yield manifest
        finally:
            with self.writing:
                self._pinned -= names

    def backup(self, target: Path) -> None:
        """Copy the collection to a new folder: parts while others write, and the log while nobody does."""
        if target.exists():
            raise IndexExistsError(f"'{target}' is taken", hint="choose another path")
        with write_errors(target), self.maintaining, self.pinned() as manifest:
            target.mkdir()
            try:
                for name in self._named(manifest):
                    _copy_synced(self.path / name, target / name)
                with self.writing:  # the log grows, and must not change its files meanwhile
                    for file in self.path.glob("log.*"):
                        _copy_synced(file, target / file.name)
                    manifest = self.manifest
                write_manifest(target, manifest)
                sync_folder(target.parent)
            except BaseException:
                shutil.rmtree(target, ignore_errors=True)
                raise

    # --- names -------------------------------------------------------------------------------------------------------

    def _named(self, manifest: Manifest) -> list[str]:
        return sorted(files_of(manifest))

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
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
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


def _copy_synced(source: Path, target: Path) -> None:
    """Copy a file, or a folder of files, and make the copy safe on disk."""
    if source.is_dir():
        target.mkdir()
        for file in source.iterdir():
            _copy_synced(file, target / file.name)
        sync_folder(target)
        return
    with open_regular(source) as read, os.fdopen(create(target), "wb") as written:
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())
