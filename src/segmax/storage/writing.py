"""Writing an index to disk, or into memory.

Components are written and synced first, meta.json last, by atomic rename: whatever happens in between, the directory
holds either the old index or the new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

from segmax.base.errors import FormatError, WriteError
from segmax.base.files import replacing, sync_folder, write_errors
from segmax.base.memory import fast_bytes
from segmax.base.system import locked_folder, without_interrupts
from segmax.storage.checked_json import checked_bytes
from segmax.storage.component_file import FOOTER_BYTES, ComponentWriter
from segmax.storage.components import COMPONENTS, Arrays, Check
from segmax.storage.folder import NEW_META_NAME, next_generation, remove_old_files
from segmax.storage.meta import FORMAT_VERSION, META_NAME, parse_meta, read_meta
from segmax.storage.pair_entries import pair_entries
from segmax.storage.reading import load_components


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise what `save_index` would raise about the path, before the work of building is done."""
    with write_errors(path):
        next_generation(path, overwrite=overwrite)


def save_index(path: Path, arrays: Arrays, meta: Mapping[str, Any], *, overwrite: bool, check: Check) -> None:
    """Write an index to a directory that does not exist yet, or replace the one there if `overwrite`."""
    meta = {**meta, "version": FORMAT_VERSION}
    with IndexWriter(path, overwrite=overwrite, check=check) as writer:
        for name in COMPONENTS:
            if name in arrays:
                writer.append(name, arrays[name])
        if "pair_entry" not in arrays:  # an older version
            for starts in pair_entries(meta, arrays):
                writer.append("pair_entry", starts)
        writer.finish(meta)
        writer.commit(meta)


def update_meta(path: Path, generation: int, changes: Mapping[str, Any], check: Check) -> None:
    """Replace entries of meta.json and keep the components. Readers find the old entries or the new ones.

    Raises
    ------
    FormatError
        If the index at the path is no longer of this generation.
    WriteError
        If the changed index cannot be written, or cannot be opened.
    """
    with write_errors(path), locked_folder(path):
        meta = read_meta(path)
        if meta["generation"] != generation:
            raise FormatError(
                f"the index at '{path}' was replaced after it was opened", hint="open it again with segmax.open"
            )
        arrays = dict(load_components(path, meta, preload=False, verify=False))
        _replace_meta(path, {**meta, **changes}, arrays, check)


class IndexWriter:
    """Writes a new generation of an index, its components piece by piece and side by side.

    A context manager: leaving it without `commit`, or by an exception, removes what was written. Writers of one path
    take turns; readers need not wait. `check` opens what was written before it becomes current.
    """

    def __init__(self, path: Path, *, overwrite: bool, check: Check) -> None:
        self._path = path
        self._overwrite = overwrite
        self._check = check
        self._arrays: Arrays = {}
        self._created = False
        self._generation = 0
        self._files: dict[str, ComponentWriter] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._context = contextlib.ExitStack()

    def __enter__(self) -> Self:
        check_target(self._path, overwrite=self._overwrite)
        try:
            with write_errors(self._path):
                if not self._path.exists():
                    self._path.mkdir()
                    self._created = True
                self._context.enter_context(locked_folder(self._path))
                self._generation = next_generation(self._path, overwrite=self._overwrite or self._created)
                remove_old_files(self._path)
        except BaseException:
            self._clean_up()
            raise
        return self

    def append(self, name: str, array: NDArray[Any]) -> None:
        """Add to a component; create it if it is new."""
        with write_errors(self._path):
            if name not in self._files:
                self._files[name] = ComponentWriter(self._path / f"{name}.{self._generation}.bin")
            self._files[name].append(array)

    def finish(self, meta: Mapping[str, Any]) -> Arrays:
        """Finish all components, map and check them: an index that can be searched, but is not at its path yet."""
        with write_errors(self._path):
            self._entries = {name: self._files[name].finish() for name in COMPONENTS if name in self._files}
            whole = {**meta, "files": self._entries}
            with _check_errors(self._path):
                self._arrays = dict(load_components(self._path, whole, preload=False, verify=False))
                self._check(whole, self._arrays)
            return self._arrays

    def commit(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Make the new generation, which is finished, the current one by renaming meta.json; return its entries."""
        with write_errors(self._path):
            whole = {**meta, "generation": self._generation, "files": self._entries}
            _replace_meta(self._path, whole, self._arrays, self._check)
            sync_folder(self._path.parent)
        return whole

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clean_up()

    def _clean_up(self) -> None:
        """Remove what the current meta.json does not name; a second Ctrl-C must not leave half of it."""
        with without_interrupts():
            self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        for file in self._files.values():
            file.close()
        self._arrays = {}
        with contextlib.suppress(OSError):
            if self._generation:
                remove_old_files(self._path)
        if self._created and not (self._path / META_NAME).exists():
            with contextlib.suppress(OSError):
                self._path.rmdir()
        self._context.close()


class MemoryWriter:
    """Collects the components of an index in memory; an `IndexWriter` without a path."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._pieces: dict[str, list[NDArray[Any]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pieces.clear()

    def append(self, name: str, array: NDArray[Any]) -> None:
        """Add to a component; create it if it is new."""
        self._pieces.setdefault(name, []).append(array)

    def commit(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entries: there is nothing to make current."""
        return dict(meta)

    def finish(self, meta: Mapping[str, Any]) -> Arrays:
        """Join the pieces of every component, followed by the bytes that SIMD loads may read past the end."""
        for name in list(self._pieces):
            pieces = self._pieces.pop(name)
            size = sum(piece.nbytes for piece in pieces)
            dtype = pieces[0].dtype
            joined = fast_bytes(size + FOOTER_BYTES)[:size].view(dtype)
            at = 0
            while pieces:  # each is freed as soon as it is copied
                piece = pieces.pop(0)
                joined[at : at + len(piece)] = piece
                at += len(piece)
            self.arrays[name] = joined
        return self.arrays


def _replace_meta(path: Path, meta: Mapping[str, Any], arrays: Arrays, check: Check) -> None:
    """Open the index as it will be read; if that works, write meta.json under another name, sync it, and rename it."""
    with _check_errors(path):
        data = checked_bytes(meta)
        check(parse_meta(data, path), arrays)
    with replacing(path / META_NAME, path / NEW_META_NAME) as file:
        file.write(data)


@contextlib.contextmanager
def _check_errors(path: Path) -> Iterator[None]:
    """Turn what is wrong with an index that is about to be written into WriteError."""
    try:
        yield
    except (FormatError, TypeError, ValueError) as error:
        raise WriteError(
            f"the index cannot be opened, so it is not written and what was there is unchanged ({error})",
            where=f"'{path}'",
        ) from error
