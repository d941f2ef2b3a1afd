"""meta.json: the description of an index. It is read as hostile input, and written with a checksum over itself.

What `read_meta` returns has every entry that an index needs, each of the right type and in range; `reading` compares
the entries about component files with those files. docs/format.md describes the entries.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segmax.base.errors import NEWER_HINT, FormatError, IndexNotFoundError, damaged, damaged_entry
from segmax.base.files import open_regular
from segmax.base.own_folders import own_folder
from segmax.storage.checked_json import Entry, checksum_matches, of_type, parse_strictly, whole
from segmax.storage.components import COMPONENTS, LAST_OF_GROUP

FORMAT_VERSION = 5
#: The oldest version that is read as it lies on disk.
OLDEST_MAPPED_VERSION = 4
#: The oldest version that is converted: in memory when it is opened, on disk by `segmax upgrade`.
OLDEST_UPGRADABLE_VERSION = 3

META_NAME = "meta.json"
#: The name of a component file; 18 digits keep the generation within 63 bits.
COMPONENT_NAME = re.compile(r"([a-z_]+)\.([0-9]{1,18})\.bin")
#: Segments per cluster.
MAX_SEGMENTS = 65_535
#: What meta.json may take. An index that was tuned at a hundred values of k needs a tenth of it.
MAX_META_BYTES = 4 * 2**20

_CRC32 = re.compile(r"[0-9a-f]{8}")


def read_meta(path: Path, oldest: int = OLDEST_MAPPED_VERSION) -> dict[str, Any]:
    """Read and check the meta.json of the index in a directory, of no version before `oldest`.

    Raises
    ------
    IndexNotFoundError
        If there is nothing at the path.
    FormatError
        If there is no index, a damaged one, or one of another version.
    """
    return parse_meta(_content(path), path, oldest)


def claims_to_be_an_index(path: Path) -> bool:
    """Whether a directory has a meta.json of ours, be it damaged or of another version."""
    try:
        return bool(parse_strictly(_content(path))["format"] == "segmax")
    except (FormatError, IndexNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return False


#: What else a folder of ours can be, and what opens that.
_OTHERS = {
    "collection": ("a collection", "segmax.open and segmax.Collection.open open collections"),
    "sharded index": ("a sharded index", "open it with segmax.ray.open, or as ray://PATH on the command line"),
}


def _content(path: Path) -> bytes:
    try:
        with open_regular(path / META_NAME) as file:
            return file.read(MAX_META_BYTES + 1)  # one byte more than `parse_meta` takes
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        if not path.exists():
            raise _nothing_at(path) from error
        kind = own_folder(path)
        if kind in _OTHERS:
            got, hint = _OTHERS[kind]
            raise FormatError(where=f"'{path}'", expected="a segmax index", got=got, hint=hint) from error
        raise FormatError(
            where=f"'{path}'",
            expected="a segmax index",
            got=f"something without {META_NAME}",
            hint="an interrupted build leaves none",
        ) from error
    except OSError as error:
        raise unreadable(path / META_NAME, error) from error
    except ValueError as error:  # a path with a null byte, or one that the file system cannot spell
        raise _nothing_at(path) from error


def _nothing_at(path: Path) -> IndexNotFoundError:
    return IndexNotFoundError(f"there is no index at '{path}'", hint="check the path, or build an index there")


def unreadable(path: Path, error: OSError) -> FormatError:
    """Return the error about a file of an index that the system does not let us read."""
    return FormatError(
        f"cannot be read as part of an index ({error.strerror or error})",
        where=f"'{path}'",
        hint="check the file and its permissions",
    )


def parse_meta(data: bytes, path: Path, oldest: int = OLDEST_MAPPED_VERSION) -> dict[str, Any]:
    """Return the entries of meta.json; `path`, the directory of the index, is for messages."""
    if len(data) > MAX_META_BYTES:
        raise FormatError(
            where=f"'{path}'", expected="a segmax index", got=f"a {META_NAME} of more than {MAX_META_BYTES:,} bytes"
        )
    try:
        meta = parse_strictly(data)
        version = meta["version"]
        if meta["format"] != "segmax" or type(version) is not int or version < 1:
            raise KeyError("format")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(
            where=f"'{path}'",
            expected="a segmax index",
            got=f"a {META_NAME} of something else, or a damaged one",
            hint="rebuild it or restore a copy",
        ) from error
    if not oldest <= version <= FORMAT_VERSION:
        raise FormatError(
            where=f"'{path}'",
            expected=f"a format version from {oldest} to {FORMAT_VERSION}, which this segmax reads",
            got=reprlib.repr(version),
            hint=_hint(version),
        )
    if not checksum_matches(data):
        raise damaged(f"the checksum of {META_NAME} does not match", path)
    _check_entries(meta, path)
    _check_files(meta["files"], path)
    return meta


def _hint(version: int) -> str:
    if version > FORMAT_VERSION:
        return NEWER_HINT
    return "run segmax upgrade on it" if version >= OLDEST_UPGRADABLE_VERSION else "build it again"


def _is_plain(values: Mapping[str, Any]) -> bool:
    """Whether all names and values are numbers, truth values, null, or text that a terminal can show."""
    texts = [*values, *(value for value in values.values() if isinstance(value, str))]
    known = all(value is None or isinstance(value, (str, int, float)) for value in values.values())
    return known and all(text.isascii() and text.isprintable() for text in texts)


_OBJECT = of_type(dict, "an object")
_ENTRIES: Mapping[str, Entry] = {
    "num_docs": whole(0, 2**32 - 1),
    "num_terms": whole(0, 2**32 - 1),
    "num_segments": whole(1, MAX_SEGMENTS),
    "num_postings": whole(0, 2**63 - 1),
    "generation": whole(0, 2**63 - 1),
    "code_bytes": whole(1, 2),
    "head_ratio": whole(1, 65_535),
    "quantization_error": Entry("a number >= 0", lambda value: type(value) in (int, float) and 0 <= value <= 1e300),
    "config": _OBJECT,
    "files": _OBJECT,
}
_OPTIONAL_ENTRIES: Mapping[str, Entry] = {
    "clustering": Entry("an object of plain values", lambda value: isinstance(value, dict) and _is_plain(value)),
    "encoder": _OBJECT,
    "calibration": of_type(list, "a list"),
    "metadata": _OBJECT,
}


def _check_entries(meta: Mapping[str, Any], path: Path) -> None:
    """Check the entries that everything else relies on."""
    for name, entry in {**_ENTRIES, **_OPTIONAL_ENTRIES}.items():
        if name in meta and not entry.holds(meta[name]):
            raise damaged_entry(META_NAME, f"{name} to be {entry.expected}", reprlib.repr(meta[name]), path)
        if name not in meta and name in _ENTRIES:
            raise damaged(f"{META_NAME} has no {name}", path)


_SIZE = _ENTRIES["num_postings"]


def _check_files(files: Mapping[str, Any], path: Path) -> None:
    """Check the entries about component files: names that cannot lead elsewhere, lengths, checksums."""
    for name, entry in files.items():
        if not isinstance(entry, dict):
            raise damaged_entry(META_NAME, f"an object for {reprlib.repr(name)}", reprlib.repr(entry), path)
        file, crc = entry.get("file"), entry.get("crc32")
        match = COMPONENT_NAME.fullmatch(file) if isinstance(file, str) else None
        if match is None or match[1] != name or not _SIZE.holds(entry.get("bytes")):
            raise damaged(f"{META_NAME} names an impossible file for {reprlib.repr(name)}", path)
        if not isinstance(crc, str) or _CRC32.fullmatch(crc) is None:
            raise damaged(f"{META_NAME} has no checksum for {name}", path)
    for component in COMPONENTS.values():
        last = LAST_OF_GROUP.get(component.group, component.name)
        if (component.name in files) != (last in files):
            raise damaged(f"{META_NAME} names only one of {component.name} and {last}", path)
