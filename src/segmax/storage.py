"""An index on disk: a directory of component files and a meta.json that names the current ones.

Components are written and synced first, meta.json last, by atomic rename: whatever happens in between, the directory
holds either the old index or the new one. docs/format.md describes every byte.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.errors import FormatError, IndexExistsError, IndexNotFoundError, SegmaxError, WriteError

FORMAT_VERSION = 1
OLDEST_READABLE_VERSION = 1

META_NAME = "meta.json"
FOOTER_BYTES = 64  # also what SIMD loads may read past the end of an array
_MAGIC = b"SEGMAX\x00\x01"
_FOOTER = struct.Struct("<8sIIQ")
_COMPONENT = re.compile(r"([a-z_]+)\.([0-9]+)\.bin")
_CHECKSUM = re.compile(rb'"checksum": "([0-9a-f]{8})"\n}\n\Z')
_WRITE_BYTES = 1 << 24
_REOPEN_ATTEMPTS = 3

#: Type of every component, and whether opening an index checks its bytes. Postings and bounds are large, and the
#: core reads them so that no value in them can lead it astray; `verify` checks them, too.
COMPONENTS: Mapping[str, tuple[str, bool]] = {
    "cluster_first_chunk": ("<u4", True),
    "cluster_label": ("<i8", True),
    "chunk_first_position": ("<u4", True),
    "chunk_num_docs": ("<u4", True),
    "position_row": ("<u4", True),
    "term_first_pair": ("<u8", True),
    "term_first_posting": ("<u8", True),
    "term_scale": ("<f8", True),
    "term_seed_code": ("code", True),
    "narrow_chunk": ("<u4", False),
    "run_start": ("<u4", False),
    "cluster_max": ("code", False),
    "segment_max": ("code", False),
    "segment_sum": ("u1", False),
    "block_max": ("code", False),
    "posting_id": ("<u2", False),
    "posting_code": ("code", False),
    "id_number": ("<i8", True),
    "id_offset": ("<u8", True),
    "id_text": ("u1", True),
    "term_offset": ("<u8", True),
    "term_text": ("u1", True),
}
OPTIONAL_COMPONENTS = frozenset({"id_number", "id_offset", "id_text", "term_offset", "term_text"})

Arrays = dict[str, NDArray[Any]]


def _damaged(what: str) -> FormatError:
    return FormatError(f"the index is damaged: {what}; rebuild it or restore a copy")


def _crc32(data: memoryview | bytes) -> int:
    crc = 0
    view = memoryview(data).cast("B")
    for start in range(0, len(view), _WRITE_BYTES):
        crc = zlib.crc32(view[start : start + _WRITE_BYTES], crc)
    return crc


def _footer(length: int, crc: int) -> bytes:
    return _FOOTER.pack(_MAGIC, FORMAT_VERSION, crc, length).ljust(FOOTER_BYTES, b"\x00")


# --- writing ---------------------------------------------------------------------------------------------------------


def save_index(path: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any], *, overwrite: bool) -> None:
    """Write an index to a directory that does not exist yet, or replace the one there if `overwrite`.

    Writers of one path take turns; readers are never in the way.
    """
    _next_generation(path, overwrite=overwrite)
    created = False
    try:
        if not path.exists():
            path.mkdir()
            created = True
        with _locked(path):
            _write_generation(path, arrays, meta, _next_generation(path, overwrite=overwrite or created))
    except BaseException as error:
        if created and not (path / META_NAME).exists():
            with contextlib.suppress(OSError):
                path.rmdir()
        if isinstance(error, OSError) and not isinstance(error, SegmaxError):
            msg = (
                f"could not write the index to '{path}' ({error.strerror}): nothing was changed; "
                "make room or choose another path"
            )
            raise WriteError(msg) from error
        raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_generation(path: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any], generation: int) -> None:
    """Write all components, then meta.json; on failure remove what the current meta.json does not name."""
    temporary = path / f"{META_NAME}.new"
    try:
        _remove_components(path, keep=_current_files(path))
        files = {
            name: _write_component(path / f"{name}.{generation}.bin", arrays[name])
            for name in COMPONENTS
            if name in arrays
        }
        _write_file(temporary, [_meta_bytes({**meta, "generation": generation, "files": files})])
        temporary.replace(path / META_NAME)
        _sync_directory(path)
        _sync_directory(path.parent)
    finally:
        with contextlib.suppress(OSError):
            _remove_components(path, keep=_current_files(path))


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise what `save_index` would raise about the path, before the work of building is done."""
    _next_generation(path, overwrite=overwrite)


def _next_generation(path: Path, *, overwrite: bool) -> int:
    if not path.exists():
        if not path.parent.is_dir():
            msg = f"expected an existing directory to put the index in, got '{path.parent}'; create it first"
            raise IndexNotFoundError(msg)
        return 1
    leftovers = path.is_dir() and not (path / META_NAME).exists()
    if leftovers and all(_is_own_file(entry.name) for entry in path.iterdir()):
        return 1  # an empty directory, or what an interrupted build left
    if not overwrite:
        msg = f"'{path}' exists; choose another path, or pass overwrite=True to replace an index"
        raise IndexExistsError(msg)
    if not path.is_dir() or leftovers or not _holds_an_index(path):
        msg = f"'{path}' exists and is not a segmax index, so overwrite=True does not touch it; choose another path"
        raise IndexExistsError(msg)
    generations = [int(match[2]) for entry in path.iterdir() if (match := _COMPONENT.fullmatch(entry.name))]
    return max(generations, default=0) + 1


def _holds_an_index(path: Path) -> bool:
    """Whether the directory is ours: a meta.json of ours, or component files beside a damaged one."""
    try:
        return bool(json.loads((path / META_NAME).read_bytes())["format"] == "segmax")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return any(_is_own_file(entry.name) for entry in path.iterdir())


def _is_own_file(name: str) -> bool:
    match = _COMPONENT.fullmatch(name)
    return name == f"{META_NAME}.new" or (match is not None and match[1] in COMPONENTS)


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


def _write_component(path: Path, array: NDArray[Any]) -> dict[str, Any]:
    data = np.ascontiguousarray(array).view(np.uint8).data if array.nbytes else memoryview(b"")
    crc = _crc32(data)
    _write_file(path, [data, _footer(len(data), crc)])
    return {"file": path.name, "bytes": len(data), "crc32": f"{crc:08x}"}


def _write_file(path: Path, parts: list[memoryview | bytes]) -> None:
    """Write and sync by write(2): a full disk is an error here, not a signal later."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        for part in parts:
            view = memoryview(part)
            while len(view) > 0:
                view = view[os.write(descriptor, view[:_WRITE_BYTES]) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _meta_bytes(meta: Mapping[str, Any]) -> bytes:
    """Serialize meta.json; its last entry is the CRC-32 of the text with zeros in that entry's place."""
    text = json.dumps({**meta, "checksum": "00000000"}, indent=1, ensure_ascii=True) + "\n"
    data = text.encode("ascii")
    return data.replace(b'"checksum": "00000000"\n}\n', f'"checksum": "{zlib.crc32(data):08x}"\n}}\n'.encode())


# --- reading ---------------------------------------------------------------------------------------------------------


def read_meta(path: Path) -> dict[str, Any]:
    """Read and check meta.json."""
    if not path.exists():
        msg = f"there is no index at '{path}'; check the path, or build one with segmax.build(..., path=...)"
        raise IndexNotFoundError(msg)
    try:
        data = (path / META_NAME).read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        msg = f"'{path}' is not a segmax index: it has no {META_NAME}; an interrupted build leaves none"
        raise FormatError(msg) from error
    try:
        meta = json.loads(data)
        version = meta["version"]
        if meta["format"] != "segmax" or type(version) is not int or version < OLDEST_READABLE_VERSION:
            raise KeyError("format")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        msg = f"'{path}' is not a segmax index, or its {META_NAME} is damaged; rebuild it or restore a copy"
        raise FormatError(msg) from error
    if version > FORMAT_VERSION:
        msg = (
            f"'{path}' has format version {version}, and this segmax reads {OLDEST_READABLE_VERSION} to "
            f"{FORMAT_VERSION}; upgrade segmax"
        )
        raise FormatError(msg)
    match = _CHECKSUM.search(data)
    if match is None or f"{zlib.crc32(data.replace(match[0], _zeroed(match[0]))):08x}".encode() != match[1]:
        raise _damaged(f"the checksum of {META_NAME} does not match")
    _check_fields(meta)
    return dict(meta)


_COUNTS = ("num_docs", "num_terms", "num_segments", "num_postings", "generation")


def _check_fields(meta: dict[str, Any]) -> None:
    """Check the entries that everything else relies on."""

    def is_count(value: object) -> bool:
        return type(value) is int and 0 <= value < 2**63

    right = (
        all(is_count(meta.get(name)) for name in _COUNTS)
        and meta.get("code_bytes") in (1, 2)
        and isinstance(meta.get("quantization_error"), float | int)
        and isinstance(meta.get("config"), dict)
        and isinstance(meta.get("files"), dict)
    )
    if not right:
        raise _damaged(f"an entry of {META_NAME} is missing or impossible")
    for name, entry in meta["files"].items():
        match = _COMPONENT.fullmatch(str(entry.get("file"))) if isinstance(entry, dict) else None
        crc = entry.get("crc32") if isinstance(entry, dict) else None
        if match is None or match[1] != name or not is_count(entry.get("bytes")):
            raise _damaged(f"{META_NAME} names an impossible file for {name}")
        if not isinstance(crc, str) or re.fullmatch(r"[0-9a-f]{8}", crc) is None:
            raise _damaged(f"{META_NAME} has no checksum for {name}")
    for first, second in (("id_offset", "id_text"), ("term_offset", "term_text")):
        if (first in meta["files"]) != (second in meta["files"]):
            raise _damaged(f"{META_NAME} names only one of {first} and {second}")


def _zeroed(entry: bytes) -> bytes:
    return b'"checksum": "00000000"' + entry[entry.index(b"\n") :]


def load_index(path: Path, *, preload: bool, verify: bool) -> tuple[dict[str, Any], Arrays]:
    """Map (or read) all components; check the small ones, or all if `verify`."""
    for attempt in range(_REOPEN_ATTEMPTS):
        meta = read_meta(path)
        try:
            return meta, dict(_load_components(path, meta, preload=preload, verify=verify))
        except FileNotFoundError as error:
            # Another process may have replaced the index between reading meta.json and opening a file of it.
            if attempt + 1 == _REOPEN_ATTEMPTS or read_meta(path) == meta:
                raise _damaged(f"'{error.filename}' is missing") from error
    raise AssertionError("unreachable")


def _load_components(
    path: Path, meta: dict[str, Any], *, preload: bool, verify: bool
) -> Iterator[tuple[str, NDArray[Any]]]:
    files = meta["files"]
    for name, (type_name, checked) in COMPONENTS.items():
        if name not in files:
            if name not in OPTIONAL_COMPONENTS:
                raise _damaged(f"{META_NAME} does not name {name}")
            continue
        entry = files[name]
        length, crc = int(entry["bytes"]), int(entry["crc32"], 16)
        content = _open_component(path / entry["file"], length, crc, preload=preload)
        if (checked or verify) and _crc32(content) != crc:
            raise _damaged(f"the checksum of '{entry['file']}' does not match")
        dtype = np.dtype(type_name if type_name != "code" else f"<u{meta['code_bytes']}")
        if length % dtype.itemsize:
            raise _damaged(f"'{entry['file']}' is not a whole number of entries")
        yield name, np.frombuffer(content, dtype=dtype)


def _open_component(path: Path, length: int, crc: int, *, preload: bool) -> memoryview:
    """Return the content of a file, mapped or read, its footer checked and still readable behind it."""
    if path.is_dir():
        raise _damaged(f"'{path.name}' is a directory")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != length + FOOTER_BYTES:
            raise _damaged(f"'{path.name}' has {size} bytes and should have {length + FOOTER_BYTES}")
        if preload:
            whole = np.fromfile(file, dtype=np.uint8).data
        else:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if whole[length:] != _footer(length, crc):
        raise _damaged(f"the footer of '{path.name}' does not match")
    return whole[:length]
