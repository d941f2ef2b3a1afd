"""The manifest of a collection: which files make up its current state.

Whatever changes, changes by new files and one rename of `manifest.json`. It is read as hostile input, like meta.json:
its size is bounded, a checksum covers it, every entry has the right type and range, and the names of files have to be
of a known pattern, so that they cannot lead out of the folder. Files that no manifest names are removed later.
"""

from __future__ import annotations

import dataclasses
import os
import re
import reprlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from segmax.base.errors import (
    NEWER_HINT,
    FormatError,
    IndexNotFoundError,
    WriteError,
    WriterStoppedError,
    damaged_collection,
)
from segmax.base.files import UnsyncedNameError, open_regular, replacing
from segmax.base.own_folders import own_folder
from segmax.base.system import remove_files
from segmax.collection.lock import LOCK_NAME
from segmax.collection.log import LOG_NAME
from segmax.storage.checked_json import Entry, checked_bytes, checksum_matches, of_type, parse_strictly, whole
from segmax.storage.folder import NEW_META_NAME
from segmax.storage.meta import COMPONENT_NAME, META_NAME, unreadable

MANIFEST_NAME = "manifest.json"
MANIFEST_VERSION = 1
MAX_MANIFEST_BYTES = 16 * 2**20
MAX_PARTS = 10_000

_FORMAT = "segmax-collection"
_PART_NAME = re.compile(r"part\.[1-9][0-9]{0,17}")
_FILE_NAME = re.compile(r"(deleted|lattice|statistics)\.[1-9][0-9]{0,17}\.bin")
_NEW = ".new"  # behind the name of a file until it is whole
_MOST = 2**63 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """What the manifest says about a part.

    Parameters
    ----------
    name
        Its folder.
    num_docs
        How many documents it has, with the deleted ones.
    num_alive
        How many of them are not deleted.
    deleted
        The file that says which ones are deleted; None if there are none.
    num_bytes
        What its files take on disk.
    extra
        Whatever else belongs to it.
    """

    name: str
    num_docs: int
    num_alive: int
    deleted: str | None = None
    num_bytes: int = 0
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """The current state of a collection, as far as it is in parts.

    Parameters
    ----------
    generation
        Grows with every manifest of the collection.
    parts
        The parts, oldest first.
    lattice
        The file with the scale and the largest code of every term; None while there is no document.
    next_number
        The insertion number of the next document.
    first_log
        The number of the first file of the log that is needed.
    applied
        The sequence of the last record of the log that the parts have already.
    config, encoder, calibration, schema
        What belongs to the collection as a whole, as JSON.
    statistics
        The file with the statistics of the encoder; None if it has none.
    extra
        Whatever else belongs to it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_manifest(folder, Manifest(parts=(Part(name="part.1", num_docs=3, num_alive=3),)))
    >>> read_manifest(folder).parts[0].num_docs
    3
    """

    generation: int = 1
    parts: tuple[Part, ...] = ()
    lattice: str | None = None
    next_number: int = 0
    first_log: int = 1
    applied: int = 0
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    encoder: Mapping[str, Any] | None = None
    calibration: tuple[Any, ...] = ()
    schema: Mapping[str, Any] | None = None
    statistics: str | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)


# --- writing ---------------------------------------------------------------------------------------------------------


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of a collection. When this returns, the new one is on disk.

    The files that it names have to be synced already; this syncs their names with its own.

    Raises
    ------
    WriteError
        If it could not be written; the old manifest is untouched.
    WriterStoppedError
        If it was replaced but could not be synced: nobody knows which one is there after a power loss.
    """
    data = manifest_bytes(manifest)
    try:
        parse_manifest(data, folder)
    except FormatError as error:
        raise WriteError(f"the manifest could not be read again, so it is not written ({error})") from error
    path = folder / MANIFEST_NAME
    try:
        with replacing(path, folder / f"{MANIFEST_NAME}{_NEW}") as file:
            file.write(data)
    except UnsyncedNameError as error:
        raise WriterStoppedError(
            f"the collection '{folder}' accepts no more changes: its folder could not be synced ({error.strerror})",
            hint="open it again to continue",
        ) from error
    except OSError as error:
        msg = f"could not write '{path}' ({error.strerror or error}): nothing was changed"
        raise WriteError(msg, hint="make room and try again") from error


def manifest_bytes(manifest: Manifest) -> bytes:
    """Serialize a manifest."""
    return checked_bytes({"format": _FORMAT, "version": MANIFEST_VERSION, **dataclasses.asdict(manifest)})


# --- reading ---------------------------------------------------------------------------------------------------------


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of the collection in a folder.

    Raises
    ------
    IndexNotFoundError
        If there is nothing at the path.
    FormatError
        If there is no collection, a damaged one, or one of another version.
    """
    return parse_manifest(_content(folder), folder)


def identity_of(folder: Path) -> str:
    """Return what the collection in a folder was given when it was created, and no other has; see `read_manifest`."""
    return str(read_manifest(folder).extra.get("identity", ""))


def claims_to_be_a_collection(folder: Path) -> bool:
    """Whether a folder has a manifest of ours, be it damaged or of another version."""
    try:
        return bool(parse_strictly(_content(folder))["format"] == _FORMAT)
    except (FormatError, IndexNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _content(folder: Path) -> bytes:
    try:
        with open_regular(folder / MANIFEST_NAME) as file:
            return file.read(MAX_MANIFEST_BYTES + 1)  # one byte more than `parse_manifest` takes
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        if not folder.exists():
            raise _nothing_at(folder) from error
        is_index = own_folder(folder) == "index"
        others = {"index": "an index, which does not change", "sharded index": "a sharded index, which does not change"}
        raise FormatError(
            where=f"'{folder}'",
            expected="a segmax collection",
            got=others.get(own_folder(folder) or "", f"something without {MANIFEST_NAME}"),
            hint="start a collection from it with segmax.Collection.from_index" if is_index else "",
        ) from error
    except OSError as error:
        raise unreadable(folder / MANIFEST_NAME, error) from error
    except ValueError as error:  # a path with a null byte, or one that the file system cannot spell
        raise _nothing_at(folder) from error


def _nothing_at(folder: Path) -> IndexNotFoundError:
    return IndexNotFoundError(f"there is no collection at '{folder}'", hint="check the path, or create one there")


def parse_manifest(data: bytes, folder: Path) -> Manifest:
    """Return the manifest from its bytes; `folder` is for messages."""
    if len(data) > MAX_MANIFEST_BYTES:
        raise FormatError(
            where=f"'{folder}'",
            expected="a segmax collection",
            got=f"a {MANIFEST_NAME} of more than {MAX_MANIFEST_BYTES:,} bytes",
        )
    try:
        entries = parse_strictly(data)
        version = entries.pop("version")
        if entries.pop("format") != _FORMAT or type(version) is not int or version < 1:
            raise KeyError("format")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(
            where=f"'{folder}'",
            expected="a segmax collection",
            got=f"a {MANIFEST_NAME} of something else, or a damaged one",
            hint="restore a backup",
        ) from error
    if version > MANIFEST_VERSION:
        raise FormatError(
            where=f"'{folder}'",
            expected=f"version {MANIFEST_VERSION} of the format, which this segmax reads",
            got=reprlib.repr(version),
            hint=NEWER_HINT,
        )
    if not checksum_matches(data):
        raise damaged_collection(f"the checksum of {MANIFEST_NAME} does not match", folder)
    del entries["checksum"]
    return _checked(entries, folder)


def _file(kind: str) -> Entry:
    def holds(value: object) -> bool:
        match = _FILE_NAME.fullmatch(value) if isinstance(value, str) else None
        return value is None or (match is not None and match[1] == kind)

    return Entry(f"null or the name of a file such as '{kind}.1.bin'", holds)


_OBJECT = of_type(dict, "an object")
_OBJECT_OR_NULL = Entry("an object or null", lambda value: value is None or isinstance(value, dict))
_LIST = of_type(list, "a list")
_COUNT = whole(0, _MOST)
_ENTRIES: Mapping[str, Entry] = {
    "generation": whole(1, _MOST),
    "parts": Entry(
        f"a list of at most {MAX_PARTS:,} parts", lambda value: isinstance(value, list) and len(value) <= MAX_PARTS
    ),
    "lattice": _file("lattice"),
    "next_number": _COUNT,
    "first_log": whole(1, 10**18 - 1),
    "applied": _COUNT,
    "config": _OBJECT,
    "encoder": _OBJECT_OR_NULL,
    "calibration": _LIST,
    "schema": _OBJECT_OR_NULL,
    "statistics": _file("statistics"),
    "extra": _OBJECT,
}
_PART_ENTRIES: Mapping[str, Entry] = {
    "name": Entry(
        "the name of a part", lambda value: isinstance(value, str) and _PART_NAME.fullmatch(value) is not None
    ),
    "num_docs": whole(0, 2**32 - 1),
    "num_alive": whole(0, 2**32 - 1),
    "deleted": _file("deleted"),
    "num_bytes": _COUNT,
    "extra": _OBJECT,
}


def _checked(entries: dict[str, Any], folder: Path) -> Manifest:
    """Return the manifest with these entries, which have every type and value that JSON can have."""
    _check_entries(entries, _ENTRIES, "", folder)
    parts = []
    for number, entry in enumerate(entries.pop("parts")):
        where = f"part {number}"
        if not isinstance(entry, dict):
            raise _wrong(where, "an object", entry, folder)
        _check_entries(entry, _PART_ENTRIES, f" of {where}", folder)
        part = Part(**entry)
        if part.num_alive > part.num_docs or (part.deleted is None and part.num_alive < part.num_docs):
            got = f"{part.num_alive:,} of {part.num_docs:,}"
            raise _wrong(f"num_alive of {where}", "the documents that are not deleted", got, folder)
        parts.append(part)
    for names in ([part.name for part in parts], [part.deleted for part in parts if part.deleted]):
        if len(set(names)) < len(names):
            raise damaged_collection(f"{MANIFEST_NAME} names a file of a part twice", folder)
    return Manifest(**{**entries, "parts": tuple(parts), "calibration": tuple(entries["calibration"])})


def _check_entries(entries: Mapping[str, Any], table: Mapping[str, Entry], of: str, folder: Path) -> None:
    for name in entries:
        if name not in table:
            raise damaged_collection(f"{MANIFEST_NAME} has an unknown entry{of}: {reprlib.repr(name)}", folder)
    for name, entry in table.items():
        if name not in entries:
            raise damaged_collection(f"{MANIFEST_NAME} has no {name}{of}", folder)
        if not entry.holds(entries[name]):
            raise _wrong(f"{name}{of}", entry.expected, reprlib.repr(entries[name]), folder)


def _wrong(what: str, expected: str, got: object, folder: Path) -> FormatError:
    return damaged_collection(f"{MANIFEST_NAME}: expected {what} to be {expected}, got {got}", folder)


# --- files that nothing names ----------------------------------------------------------------------------------------


def files_of(manifest: Manifest) -> set[str]:
    """Return the names of the files and folders that a manifest needs, without those of the log.

    Examples
    --------
    >>> files_of(Manifest(lattice="lattice.2.bin"))
    {'lattice.2.bin'}
    """
    parts = [name for part in manifest.parts for name in (part.name, part.deleted)]
    return {name for name in (*parts, manifest.lattice, manifest.statistics) if name is not None}


def remove_unnamed(folder: Path, manifest: Manifest, keep: AbstractSet[str] = frozenset()) -> list[str]:
    """Remove the files of ours that a manifest does not name, and return the names of those that are gone.

    Only for the writer of the collection. What segmax would not have made stays: files with other names, links, and
    unknown files inside of a part, together with the folder of the part.

    Parameters
    ----------
    folder
        The folder of the collection.
    manifest
        What is current.
    keep
        More names to keep, such as the parts of an older state that is still in use, or of one that is being written.
    """
    needed = files_of(manifest) | keep
    with os.scandir(folder) as found:
        entries = [entry for entry in found if entry.name.removesuffix(_NEW) not in needed]
    return [entry.name for entry in entries if _is_ours(entry, manifest.first_log) and _remove(entry)]


def holds_leftovers_only(folder: Path) -> bool:
    """Whether a folder has nothing but what an interrupted creation of a collection leaves; an empty one does."""
    with os.scandir(folder) as found:
        return all(entry.name == LOCK_NAME or _is_ours(entry, first_log=_MOST) for entry in found)


def _is_ours(entry: os.DirEntry[str], first_log: int) -> bool:
    """Whether segmax made an entry of the folder and may remove it, unless it is needed."""
    if entry.is_dir(follow_symlinks=False):
        return _PART_NAME.fullmatch(entry.name) is not None
    if not entry.is_file(follow_symlinks=False):
        return False
    log = LOG_NAME.fullmatch(entry.name)
    if log is not None:
        return int(log[1]) < first_log
    return entry.name == MANIFEST_NAME + _NEW or _FILE_NAME.fullmatch(entry.name.removesuffix(_NEW)) is not None


def _remove(entry: os.DirEntry[str]) -> bool:
    """Remove a file, or a part with what is ours in it; return False if something is left, for the next time."""
    try:
        if entry.is_dir(follow_symlinks=False):
            remove_files(Path(entry.path), _is_of_part)
            Path(entry.path).rmdir()
        else:
            Path(entry.path).unlink()
    except OSError:
        return False
    return True


def _is_of_part(name: str) -> bool:
    """Whether a file of this name in the folder of a part is ours."""
    return name in (META_NAME, NEW_META_NAME) or COMPONENT_NAME.fullmatch(name) is not None
