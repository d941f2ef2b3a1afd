"""Descriptions of collections of vectors: JSON files."""

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
    """The description of a collection; all of its files exist."""

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
        """Return the known clusters: an integer label per document."""
        return {
            name: {count: _labels(file, num_docs) for count, file in files.items()}
            for name, files in self.labels.items()
        }

    def stamps(self) -> list[Any]:
        """Return what identifies the other files: all but documents, queries and judgments."""
        files = [*self.dense.values(), *(file for by_count in self.labels.values() for file in by_count.values())]
        return [self.drop_self, [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]]


def read_description(path: Path) -> Description:
    """Read the description of a collection, whose paths are relative to it.

    Raises
    ------
    InputError
        If the file is no such description, or names a missing file.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(
            where=f"'{path}'",
            expected="a BEIR folder, an ir_datasets id or a JSON file that describes vectors",
            got=f"something else ({error})",
        ) from error
    if not isinstance(values, dict):
        raise InputError(
            where=f"'{path}'", expected=f"a JSON object with {', '.join(_KEYS)}", got=type(values).__name__
        )
    return _Reader(path, values).description()


class _Reader:
    """Takes values from the object, one key at a time."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        self._path = path
        self._values = values
        for key in values:
            if key not in _KEYS:
                raise self._wrong(f"one of the keys {', '.join(_KEYS)}", key)
        for key in ("documents", "queries"):
            if key not in values:
                raise self._wrong(f"the key {key!r}", f"{', '.join(values) or 'none'}")

    def description(self) -> Description:
        documents = self._values["documents"]
        files = documents if isinstance(documents, list) and documents else [documents]
        qrels = self._values.get("qrels")
        drop_self = self._values.get("drop_self")
        if drop_self is not None and not isinstance(drop_self, bool):
            raise self._wrong("true or false", drop_self, "drop_self")
        name = self._values.get("name", self._path.stem)
        if not isinstance(name, str) or not name or "/" in name:
            raise self._wrong("a word without '/'", name, "name")
        return Description(
            name=name,
            documents=tuple(self._file("documents", file) for file in files),
            queries=self._file("queries", self._values["queries"]),
            qrels=None if qrels is None else self._file("qrels", qrels),
            drop_self=drop_self,
            dense={name: self._file("dense", file) for name, file in self._object("dense", self._values).items()},
            labels={name: self._by_count(files) for name, files in self._object("labels", self._values).items()},
        )

    def _by_count(self, files: Any) -> dict[int, Path]:
        found = {}
        for count, file in self._object("labels", {"labels": files}).items():
            number = parsed_int(count)
            if number is None or number < 1:
                raise self._wrong("by number of clusters", count, "labels")
            found[number] = self._file("labels", file)
        return found

    def _object(self, key: str, values: dict[str, Any]) -> dict[str, Any]:
        value = values.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong("an object of names and files", value, key)
        return value

    def _file(self, key: str, value: Any) -> Path:
        if not isinstance(value, str):
            raise self._wrong("the name of a file", value, key)
        file = self._path.parent / value
        if not file.exists():
            raise no_file(file)
        return file

    def _wrong(self, expected: str, got: object, key: str = "") -> InputError:
        return InputError(
            where=f"'{self._path}'", expected=f"{key} to be {expected}" if key else expected, got=f"{got!r}"
        )


def _array(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    try:
        return np.asanyarray(np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            where=f"'{path}'", expected="an array of numpy.save", got=f"something else ({error})"
        ) from error


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
        raise error.at(f"'{path}'") from error
