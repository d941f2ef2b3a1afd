"""Reading an index from disk. Whatever the files contain, the outcome is arrays that fit together, or FormatError."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.errors import ConfigError, FormatError, SegmaxError, damaged
from segmax.base.system import total_memory
from segmax.storage.component_file import crc32, open_component
from segmax.storage.components import COMPONENTS, Arrays, Component
from segmax.storage.meta import META_NAME, read_meta

_REOPEN_ATTEMPTS = 3
_LONGEST_MESSAGE = 300  # a damaged entry may be of any length


def load_index(
    path: Path, *, preload: bool, verify: bool, advance: Callable[[int], object] = int
) -> tuple[dict[str, Any], Arrays]:
    """Map (or read) all components; check the small ones, or all if `verify`. `advance` gets the bytes of each."""
    for attempt in range(_REOPEN_ATTEMPTS):
        meta = read_meta(path)
        try:
            return meta, dict(load_components(path, meta, preload=preload, verify=verify, advance=advance))
        except FileNotFoundError as error:
            # Another process may have replaced the index between reading meta.json and opening a file of it.
            if attempt + 1 == _REOPEN_ATTEMPTS or read_meta(path) == meta:
                raise damaged(f"'{Path(error.filename).name}' is missing", path) from error
    raise AssertionError("unreachable")


def load_components(
    path: Path,
    meta: Mapping[str, Any],
    *,
    preload: bool,
    verify: bool,
    components: Mapping[str, Component] = COMPONENTS,
    advance: Callable[[int], object] = int,
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield every component that meta.json names, in the order of the table, which may be that of an older version."""
    files = meta["files"]
    if preload:
        _check_memory(path, files)
    for component in components.values():
        if component.name in files:
            entry = files[component.name]
            crc = int(entry["crc32"], 16)
            content = open_component(
                path / entry["file"], int(entry["bytes"]), crc, version=meta["version"], preload=preload
            )
            if (component.checked or verify) and crc32(content) != crc:
                raise damaged(f"the checksum of '{entry['file']}' does not match", path)
            dtype = component.dtype(meta["code_bytes"])
            if len(content) % dtype.itemsize:
                raise damaged(f"'{entry['file']}' is not a whole number of entries", path)
            advance(len(content))
            yield component.name, np.frombuffer(content, dtype=dtype)
        elif not component.group:
            raise damaged(f"{META_NAME} does not name {component.name}", path)


def _check_memory(path: Path, files: Mapping[str, Any]) -> None:
    """Refuse to read more into memory than there is: a file with holes may be larger than the disk."""
    size = sum(entry["bytes"] for entry in files.values())
    if size > total_memory():
        raise ConfigError(
            expected=f"an index that fits {total_memory():,} bytes of memory",
            got=f"{size:,} bytes in '{path}'",
            hint="open it without {preload}",
        )


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
    for what, (stated, counted) in found.items():
        if stated != counted:
            raise damaged(f"{META_NAME} has {stated:,} {what}, its tables have {counted:,}", path)
    if num_docs > len(arrays["position_row"]):
        raise damaged(f"it has {num_docs:,} documents, and places for {len(arrays['position_row']):,}", path)
    if num_clusters * num_segments > max_segments(num_docs):
        what = f"{num_clusters:,} clusters of {num_segments:,} segments are too many for {num_docs:,} documents"
        raise damaged(what, path)


_CORE_PREFIX, _CORE_SUFFIX = "the index is damaged: ", "; rebuild it or restore a copy"


@contextlib.contextmanager
def index_errors(path: Path | None) -> Iterator[None]:
    """Turn whatever the content of an index causes into a FormatError that names the index."""
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
