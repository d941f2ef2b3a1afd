"""An index on disk: a directory of component files and a meta.json that names the current ones.

Components are written and synced first, meta.json last, by atomic rename: whatever happens in between, the directory
holds either the old index or the new one. docs/format.md describes every byte.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.errors import (
    ConfigError,
    FormatError,
    IndexExistsError,
    IndexNotFoundError,
    SegmaxError,
    WriteError,
    damaged,
)
from segmax.base.files import create, open_regular, replacing, sync_folder, write_errors
from segmax.base.memory import fast_bytes
from segmax.base.system import locked, total_memory, without_interrupts
from segmax.storage.meta import (
    COMPONENT_NAME,
    FORMAT_VERSION,
    META_NAME,
    claims_to_be_an_index,
    meta_bytes,
    parse_meta,
    read_meta,
    unreadable,
)

_NEW_META_NAME = f"{META_NAME}.new"
FOOTER_BYTES = 64  # also what SIMD loads may read past the end of an array
_MAGIC = b"SEGMAX\x00\x01"
_FOOTER = struct.Struct("<8sIIQ")
_WRITE_BYTES = 1 << 22
_REOPEN_ATTEMPTS = 3
_LONGEST_MESSAGE = 300  # a damaged entry may be of any length

#: Type of every component, and whether opening an index checks its bytes. Postings and bounds are large, and the
#: core reads them so that no value in them can lead it astray; `verify` checks them, too.
COMPONENTS: Mapping[str, tuple[str, bool]] = {
    "cluster_first_position": ("<u4", True),
    "cluster_num_docs": ("<u4", True),
    "cluster_label": ("<i8", True),
    "position_row": ("<u4", True),
    "term_first_pair": ("<u8", True),
    "term_first_posting": ("<u8", True),
    "term_first_byte": ("<u8", True),
    "term_first_entry": ("<u8", True),
    "term_scale": ("<f8", True),
    "term_seed_code": ("code", True),
    "narrow_cluster": ("<u4", False),
    "cluster_max": ("code", False),
    "segment_max": ("code", False),
    "segment_sum": ("u1", False),
    "level": ("code", False),
    "span_max": ("u1", False),
    "block_max": ("u1", False),
    "run_start": ("<u4", False),
    "run_bytes": ("u1", False),
    "entry_block": ("<u2", False),
    "entry_max": ("code", False),
    "entry_mask": ("u1", False),
    "group_start": ("<u4", False),
    "entry_code": ("code", False),
    "id_number": ("<i8", True),
    "id_offset": ("<u8", True),
    "id_text": ("u1", True),
    "term_offset": ("<u8", True),
    "term_text": ("u1", True),
    "text_offset": ("<u8", True),
    "text_first_row": ("<u8", True),
    "text_data": ("u1", False),
}
OPTIONAL_COMPONENTS = frozenset(
    {"id_number", "id_offset", "id_text", "term_offset", "term_text", "text_offset", "text_first_row", "text_data"}
)

Arrays = dict[str, NDArray[Any]]
#: Opens an index of this meta.json and these arrays, or raises FormatError: what a writer does before it commits.
Check = Callable[[Mapping[str, Any], Arrays], object]


def _crc32(data: memoryview | bytes) -> int:
    crc = 0
    view = memoryview(data).cast("B")
    for start in range(0, len(view), _WRITE_BYTES):
        crc = zlib.crc32(view[start : start + _WRITE_BYTES], crc)
    return crc


def _footer(length: int, crc: int) -> bytes:
    return _FOOTER.pack(_MAGIC, FORMAT_VERSION, crc, length).ljust(FOOTER_BYTES, b"\x00")


# --- writing ---------------------------------------------------------------------------------------------------------


def save_index(path: Path, arrays: Arrays, meta: Mapping[str, Any], *, overwrite: bool, check: Check) -> None:
    """Write an index to a directory that does not exist yet, or replace the one there if `overwrite`."""
    with IndexWriter(path, overwrite=overwrite, check=check) as writer:
        for name in COMPONENTS:
            if name in arrays:
                writer.append(name, arrays[name])
        writer.finish(meta)
        writer.commit(meta)


def update_meta(path: Path, generation: int, changes: Mapping[str, Any], check: Check) -> None:
    """Replace entries of meta.json, the components being what they are; the old or the new one is there at any time.

    Raises
    ------
    FormatError
        If the index at the path is no longer of this generation.
    WriteError
        If nothing could be written, or what was to be written does not pass the check.
    """
    with write_errors(path), _locked(path):
        meta = read_meta(path)
        if meta["generation"] != generation:
            msg = f"the index at '{path}' was replaced after it was opened; open it again with segmax.open"
            raise FormatError(msg)
        arrays = dict(_load_components(path, meta, preload=False, verify=False))
        _replace_meta(path, {**meta, **changes}, arrays, check)


class IndexWriter:
    """Writes a new generation of an index, its components piece by piece and side by side.

    A context manager: leaving it without `commit`, or by an exception, removes what was written. Writers of one path
    take turns; readers are never in the way. `check` opens what was written before it becomes current.
    """

    def __init__(self, path: Path, *, overwrite: bool, check: Check) -> None:
        self._path = path
        self._overwrite = overwrite
        self._check = check
        self._arrays: Arrays = {}
        self._created = False
        self._generation = 0
        self._files: dict[str, _ComponentFile] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._context = contextlib.ExitStack()

    def __enter__(self) -> Self:
        check_target(self._path, overwrite=self._overwrite)
        try:
            with write_errors(self._path):
                if not self._path.exists():
                    self._path.mkdir()
                    self._created = True
                self._context.enter_context(_locked(self._path))
                self._generation = _next_generation(self._path, overwrite=self._overwrite or self._created)
                _remove_components(self._path, keep=_current_files(self._path))
        except BaseException:
            self._clean_up()
            raise
        return self

    def append(self, name: str, array: NDArray[Any]) -> None:
        """Add to a component, beginning it if it is new."""
        with write_errors(self._path):
            if name not in self._files:
                self._files[name] = _ComponentFile(self._path / f"{name}.{self._generation}.bin")
            self._files[name].append(array)

    def finish(self, meta: Mapping[str, Any]) -> Arrays:
        """Finish all components, map and check them: an index that can be searched, but is not at its path yet."""
        with write_errors(self._path):
            self._entries = {name: self._files[name].finish() for name in COMPONENTS if name in self._files}
            whole = {**meta, "files": self._entries}
            self._arrays = dict(_load_components(self._path, whole, preload=False, verify=False))
            with _check_errors(self._path):
                self._check(whole, self._arrays)
            return self._arrays

    def commit(self, meta: Mapping[str, Any]) -> None:
        """Make the new generation, which is finished, the current one by renaming meta.json, if it can be opened."""
        with write_errors(self._path):
            whole = {**meta, "generation": self._generation, "files": self._entries}
            _replace_meta(self._path, whole, self._arrays, self._check)
            sync_folder(self._path.parent)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clean_up()

    def _clean_up(self) -> None:
        """Remove what the current meta.json does not name, and a directory that was made in vain."""
        with without_interrupts():
            self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        for file in self._files.values():
            file.close()
        self._arrays = {}
        with contextlib.suppress(OSError):
            if self._generation:
                _remove_components(self._path, keep=_current_files(self._path))
        if self._created and not (self._path / META_NAME).exists():
            with contextlib.suppress(OSError):
                self._path.rmdir()
        self._context.close()


@contextlib.contextmanager
def _check_errors(path: Path) -> Iterator[None]:
    """Turn what is wrong with an index that is about to be written into WriteError."""
    try:
        yield
    except (FormatError, TypeError, ValueError) as error:
        msg = f"the index for '{path}' cannot be opened, so it is not written: {error}; what was there is unchanged"
        raise WriteError(msg) from error


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
        """Add to a component, beginning it if it is new."""
        self._pieces.setdefault(name, []).append(array)

    def commit(self, meta: Mapping[str, Any]) -> None:
        """Do nothing: there is nothing to make current."""

    def finish(self, meta: Mapping[str, Any]) -> Arrays:
        """Join the pieces of every component, followed by the bytes that SIMD loads may read past the end."""
        for name in list(self._pieces):
            pieces = self._pieces.pop(name)
            size = sum(piece.nbytes for piece in pieces)
            dtype = pieces[0].dtype
            joined = fast_bytes(size + FOOTER_BYTES)[:size].view(dtype)
            at = 0
            while pieces:  # each is let go as soon as it is copied
                piece = pieces.pop(0)
                joined[at : at + len(piece)] = piece
                at += len(piece)
            self.arrays[name] = joined
        return self.arrays


class _ComponentFile:
    """One component, by write(2): a full disk is an error here, not a signal later. The footer comes last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = create(path)
        self._length = 0
        self._crc = 0

    def append(self, array: NDArray[Any]) -> None:
        if array.nbytes == 0:
            return
        assert self._descriptor is not None
        view = np.ascontiguousarray(array).view(np.uint8).data
        for start in range(0, len(view), _WRITE_BYTES):  # a piece is still in the cache when it is written
            piece = view[start : start + _WRITE_BYTES]
            self._crc = zlib.crc32(piece, self._crc)
            _write_all(self._descriptor, piece)
        self._length += len(view)

    def finish(self) -> dict[str, Any]:
        """Write the footer, sync, and return the entry for meta.json."""
        assert self._descriptor is not None
        _write_all(self._descriptor, memoryview(_footer(self._length, self._crc)))
        os.fsync(self._descriptor)
        self.close()
        return {"file": self._path.name, "bytes": self._length, "crc32": f"{self._crc:08x}"}

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _write_all(descriptor: int, view: memoryview) -> None:
    while len(view) > 0:
        view = view[os.write(descriptor, view) :]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with locked(descriptor):
            yield
    finally:
        os.close(descriptor)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise what `save_index` would raise about the path, before the work of building is done."""
    with write_errors(path):
        _next_generation(path, overwrite=overwrite)


def _next_generation(path: Path, *, overwrite: bool) -> int:
    if not path.exists():
        if not path.parent.is_dir():
            raise IndexNotFoundError(
                expected="an existing directory to put the index in", got=f"'{path.parent}'", hint="create it first"
            )
        return 1
    leftovers = path.is_dir() and not (path / META_NAME).exists()
    if leftovers and all(_is_own_file(entry.name) for entry in path.iterdir()):
        return 1  # an empty directory, or what an interrupted build left
    if not overwrite:
        raise IndexExistsError(
            f"'{path}' exists", hint="choose another path, or pass {overwrite=True} to replace an index"
        )
    if not path.is_dir() or leftovers or not _holds_an_index(path):
        raise IndexExistsError(
            f"'{path}' exists and is not a segmax index",
            hint="{overwrite=True} does not replace it; choose another path",
        )
    generations = [int(match[2]) for entry in path.iterdir() if (match := COMPONENT_NAME.fullmatch(entry.name))]
    return max(generations, default=0) + 1


def _holds_an_index(path: Path) -> bool:
    """Whether the directory is ours: a meta.json of ours, or component files beside a damaged one."""
    return claims_to_be_an_index(path) or any(_is_own_file(entry.name) for entry in path.iterdir())


def _is_own_file(name: str) -> bool:
    match = COMPONENT_NAME.fullmatch(name)
    return name == _NEW_META_NAME or (match is not None and match[1] in COMPONENTS)


def _current_files(path: Path) -> set[str]:
    """Return the files that the current meta.json names; all component files where it cannot be read."""
    try:
        return {entry["file"] for entry in read_meta(path)["files"].values()}
    except IndexNotFoundError:
        return set()
    except FormatError:
        return {entry.name for entry in path.iterdir()} if (path / META_NAME).exists() else set()


def _remove_components(path: Path, keep: set[str]) -> None:
    for entry in path.iterdir():
        if _is_own_file(entry.name) and entry.name not in keep:
            entry.unlink(missing_ok=True)


def _replace_meta(path: Path, meta: Mapping[str, Any], arrays: Arrays, check: Check) -> None:
    """Open the index as it will be read; if that works, write meta.json under another name, sync it, and rename it."""
    with _check_errors(path):
        data = meta_bytes(meta)
        check(parse_meta(data, path), arrays)
    with replacing(path / META_NAME, path / _NEW_META_NAME) as file:
        file.write(data)


# --- reading ---------------------------------------------------------------------------------------------------------


def load_index(path: Path, *, preload: bool, verify: bool) -> tuple[dict[str, Any], Arrays]:
    """Map (or read) all components; check the small ones, or all if `verify`."""
    for attempt in range(_REOPEN_ATTEMPTS):
        meta = read_meta(path)
        try:
            return meta, dict(_load_components(path, meta, preload=preload, verify=verify))
        except FileNotFoundError as error:
            # Another process may have replaced the index between reading meta.json and opening a file of it.
            if attempt + 1 == _REOPEN_ATTEMPTS or read_meta(path) == meta:
                raise damaged(f"'{Path(error.filename).name}' is missing", path) from error
    raise AssertionError("unreachable")


def _load_components(
    path: Path, meta: Mapping[str, Any], *, preload: bool, verify: bool
) -> Iterator[tuple[str, NDArray[Any]]]:
    files = meta["files"]
    if preload:
        _check_memory(path, files)
    for name, (type_name, checked) in COMPONENTS.items():
        if name not in files:
            if name not in OPTIONAL_COMPONENTS:
                raise damaged(f"{META_NAME} does not name {name}", path)
            continue
        entry = files[name]
        crc = int(entry["crc32"], 16)
        content = _open_component(path / entry["file"], int(entry["bytes"]), crc, preload=preload)
        if (checked or verify) and _crc32(content) != crc:
            raise damaged(f"the checksum of '{entry['file']}' does not match", path)
        dtype = np.dtype(type_name if type_name != "code" else f"<u{meta['code_bytes']}")
        if len(content) % dtype.itemsize:
            raise damaged(f"'{entry['file']}' is not a whole number of entries", path)
        yield name, np.frombuffer(content, dtype=dtype)


def _check_memory(path: Path, files: Mapping[str, Any]) -> None:
    """Refuse to read more into memory than there is: a file with holes may be larger than the disk."""
    size = sum(entry["bytes"] for entry in files.values())
    if size > total_memory():
        msg = f"expected an index that fits {total_memory():,} bytes of memory, got {size:,} bytes in '{path}'; open it"
        raise ConfigError(f"{msg} without preload")


def _open_component(path: Path, length: int, crc: int, *, preload: bool) -> memoryview:
    """Return the content of a file, mapped or read, its footer checked and still readable behind it."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != length + FOOTER_BYTES:
                what = f"'{path.name}' has {size} bytes and should have {length + FOOTER_BYTES}"
                raise damaged(what, path.parent)
            whole = _read(file, size) if preload else _mapped(file)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    if whole[length:] != _footer(length, crc):
        raise damaged(f"the footer of '{path.name}' does not match", path.parent)
    return whole[:length]


def _read(file: BufferedReader, size: int) -> memoryview:
    whole = fast_bytes(size).data
    if file.readinto(whole) != size:
        raise OSError(errno.EIO, "it became shorter while it was read")
    return whole


def _mapped(file: BufferedReader) -> memoryview:
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


# --- checking --------------------------------------------------------------------------------------------------------


def max_segments(num_docs: int) -> int:
    """Return how many segments all clusters of an index may have together.

    A search keeps a bound for each of them: their number has to be in proportion to the size of the index.
    """
    return max(2**20, 64 * num_docs)


def check_counts(meta: Mapping[str, Any], arrays: Arrays, path: Path | None) -> None:
    """Compare the counts in meta.json with the tables they are about, before anything is allocated by them."""
    num_docs, num_postings, num_segments = meta["num_docs"], meta["num_postings"], meta["num_segments"]
    num_clusters = len(arrays["cluster_num_docs"])
    found = {
        "documents": (num_docs, int(arrays["cluster_num_docs"].sum(dtype=np.uint64))),
        "postings": (num_postings, int(arrays["term_first_posting"].max(initial=0))),
    }
    for what, (told, counted) in found.items():
        if told != counted:
            raise damaged(f"{META_NAME} has {told:,} {what}, its tables have {counted:,}", path)
    if num_docs > len(arrays["position_row"]):
        raise damaged(f"it has {num_docs:,} documents, and places for {len(arrays['position_row']):,}", path)
    if num_clusters * num_segments > max_segments(num_docs):
        what = f"{num_clusters:,} clusters of {num_segments:,} segments are too many for {num_docs:,} documents"
        raise damaged(what, path)


_CORE_PREFIX, _CORE_SUFFIX = "the index is damaged: ", "; rebuild it or restore a copy"


@contextlib.contextmanager
def index_errors(path: Path | None) -> Iterator[None]:
    """Turn whatever the content of an index leads to into FormatError that names the index."""
    try:
        yield
    except FormatError:
        raise
    except _core.CoreFormatError as error:
        what = str(error).removeprefix(_CORE_PREFIX).removesuffix(_CORE_SUFFIX)
        raise damaged(what, path) from error
    except MemoryError as error:
        raise damaged("its tables need more memory than there is", path) from error
    except KeyError as error:
        raise damaged(f"it has no {error}", path) from error
    except (SegmaxError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise damaged(f"{META_NAME}: {error}"[:_LONGEST_MESSAGE], path) from error
