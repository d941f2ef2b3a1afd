"""Collections of vectors that a JSON file describes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_labels, parsed_int
from segmax.base.errors import InputError
from segmax.io.read_errors import no_file
from segmax.io.streams import base_name, read_blocks

_KEYS = ("name", "documents", "queries", "qrels", "drop_self", "dense", "labels")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description:
    """What a JSON file says about a collection; all files are there."""

    name: str
    documents: tuple[Path, ...]
    queries: Path
    qrels: Path | None
    drop_self: bool | None
    dense: Mapping[str, Path]
    labels: Mapping[str, Mapping[int, Path]]

    def checked_dense(self, num_docs: int) -> dict[str, Path]:
        """Return the files of dense vectors, which have a row per document."""
        for file in self.dense.values():
            shape = _array(file, mapped=True).shape
            if len(shape) != 2 or shape[0] != num_docs:
                raise InputError(
                    where=f"'{file}'", expected=f"dense vectors of {num_docs} documents", got=f"shape {shape}"
                )
        return dict(self.dense)

    def read_labels(self, num_docs: int) -> dict[str, dict[int, NDArray[Any]]]:
        """Return the clusters that are known: an integer label per document."""
        return {
            name: {count: _labels(file, num_docs) for count, file in files.items()}
            for name, files in self.labels.items()
        }

    def stamps(self) -> list[Any]:
        """Return what changes when one of the files does, besides documents, queries and judgments."""
        files = [*self.dense.values(), *(file for by_count in self.labels.values() for file in by_count.values())]
        return [self.drop_self, [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]]


def read_description(path: Path) -> Description:
    """Read the description of a collection; paths in it are relative to it.

    Raises
    ------
    InputError
        If the file is no such description, or names a file that is not there.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        msg = f"'{path}': expected a BEIR folder, an ir_datasets id or a JSON file that describes vectors ({error})"
        raise InputError(msg) from error
    if not isinstance(told, dict):
        raise InputError(where=f"'{path}'", expected=f"a JSON object with {', '.join(_KEYS)}", got=type(told).__name__)
    return _Reader(path, told).description()


class _Reader:
    """Takes values out of the object, one key at a time."""

    def __init__(self, path: Path, told: dict[str, Any]) -> None:
        self._path = path
        self._told = told
        for key in told:
            if key not in _KEYS:
                raise self._wrong(f"one of the keys {', '.join(_KEYS)}", key)
        for key in ("documents", "queries"):
            if key not in told:
                raise self._wrong(f"the key {key!r}", f"{', '.join(told) or 'none'}")

    def description(self) -> Description:
        documents = self._told["documents"]
        files = documents if isinstance(documents, list) and documents else [documents]
        qrels = self._told.get("qrels")
        drop_self = self._told.get("drop_self")
        if drop_self is not None and not isinstance(drop_self, bool):
            raise self._wrong("drop_self to be true or false", drop_self)
        name = self._told.get("name", self._path.stem)
        if not isinstance(name, str) or not name or "/" in name:
            raise self._wrong("name to be a word without '/'", name)
        return Description(
            name=name,
            documents=tuple(self._file("documents", file) for file in files),
            queries=self._file("queries", self._told["queries"]),
            qrels=None if qrels is None else self._file("qrels", qrels),
            drop_self=drop_self,
            dense={name: self._file("dense", file) for name, file in self._object("dense", self._told).items()},
            labels={name: self._by_count(files) for name, files in self._object("labels", self._told).items()},
        )

    def _by_count(self, files: Any) -> dict[int, Path]:
        found = {}
        for count, file in self._object("labels", {"labels": files}).items():
            number = parsed_int(count)
            if number is None or number < 1:
                raise self._wrong("labels by number of clusters", count)
            found[number] = self._file("labels", file)
        return found

    def _object(self, key: str, told: dict[str, Any]) -> dict[str, Any]:
        value = told.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(f"{key} to be an object of names and files", value)
        return value

    def _file(self, key: str, value: Any) -> Path:
        if not isinstance(value, str):
            raise self._wrong(f"{key} to name files", value)
        file = self._path.parent / value
        if not file.exists():
            raise no_file(file)
        return file

    def _wrong(self, expected: str, got: object) -> InputError:
        return InputError(where=f"'{self._path}'", expected=f"{expected}", got=f"{got!r}")


def _array(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    try:
        return np.asanyarray(np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        msg = f"'{path}': expected an array of numpy.save ({error})"
        raise InputError(msg) from error


def _labels(path: Path, num_docs: int) -> NDArray[Any]:
    """Read labels: an .npy file, or little-endian 16-bit numbers, compressed or not."""
    if base_name(path).endswith(".npy"):
        found = _array(path)
    else:
        content = b"".join(read_blocks(path))
        if len(content) != 2 * num_docs:
            raise InputError(
                where=f"'{path}'", expected=f"{num_docs} labels of 2 bytes each", got=f"{len(content)} bytes"
            )
        found = np.frombuffer(content, dtype="<u2")
    try:
        return checked_labels(found, num_docs, "cluster")
    except InputError as error:
        msg = f"'{path}': {error}"
        raise InputError(msg) from error
