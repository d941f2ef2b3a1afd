"""Unfinished work: a folder of shards, and the journal that lists them.

A shard is written under another name, synced and renamed, then entered into the journal. Shards are read as hostile
input: a shard has to match its entry, and must not point outside itself.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import shown
from segmax.base.errors import ConfigError, FormatError, IndexExistsError, InputError, SegmaxWarning
from segmax.base.files import open_regular, replacing, write_errors
from segmax.storage.components import Arrays
from segmax.storage.tables import TextTable, text_arrays
from segmax.vectors.csr import Csr, canonical, check_structure
from segmax.vectors.documents import VectorBatch
from segmax.vectors.rows import join_rows

_JOURNAL = "journal.json"
_FORMAT = "segmax-encoding"
_VERSION = 2  # 1 did not list terms and dense vectors of a shard
_DENSE = "dense_"  # before the name of a pooling
#: The arrays that every shard has, besides its weights, and their dtypes.
_DTYPES: Mapping[str, type[np.generic]] = {
    "indptr": np.int64,
    "indices": np.int32,
    "id_offset": np.uint64,
    "id_text": np.uint8,
    "term_offset": np.uint64,
    "term_text": np.uint8,
}


class Shard(NamedTuple):
    """What a shard holds, checked but for the structure of its vectors; `Journal.vectors` checks that."""

    name: str
    vectors: Csr
    ids: list[str]
    terms: list[str]  # those that came up in this shard; only encoders that learn have any
    dense: Mapping[str, NDArray[np.float32]]  # by pooling


class Journal:
    """A folder of shards."""

    def __init__(self, folder: Path, job: dict[str, Any]) -> None:
        self.folder = folder
        self.entries: list[dict[str, Any]] = []
        self.is_written = False  # whether the file is written: then the files beside it are its own
        self._job = json.loads(json.dumps(job))  # as it will be read back
        self._is_ours = _is_there(folder)
        if self._is_ours:
            self._check_ours()
            self._read()
        self._first_new = len(self.entries)  # a crash may have left this shard, written but not entered

    def _check_ours(self) -> None:
        """Raise IndexExistsError if the folder exists and segmax did not make it."""
        journal = self.folder / _JOURNAL
        if self.folder.is_symlink() or journal.is_symlink() or not journal.is_file():
            raise self._foreign()

    def _foreign(self) -> IndexExistsError:
        return IndexExistsError(
            where=f"'{self.folder}'",
            expected="a path where segmax can keep unfinished work",
            got="something that segmax did not make",
            hint="move it away, or choose another name for the file to write",
        )

    def begin(self) -> None:
        """Create the folder, if there is none yet, and write the journal."""
        if self._is_ours:
            self._write(self.entries)
            return
        with write_errors(self.folder):
            self.folder.mkdir()
        try:
            self._write(self.entries)
        except BaseException:  # an empty folder would block the next run
            self.remove()
            raise
        self._is_ours = True

    def remove(self) -> None:
        """Delete the files that this journal wrote, and the folder if nothing else is in it."""
        names = [_JOURNAL, *(entry["file"] for entry in self.entries)]
        temporary = [f"{name}.new" for name in (*names, _shard_name(len(self.entries)))]
        for name in (*names, *temporary):
            with contextlib.suppress(OSError):
                (self.folder / name).unlink()  # of a symbolic link, the link
        with contextlib.suppress(OSError):
            self._remove_folder()

    def _remove_folder(self) -> None:
        others = sorted(path.name for path in self.folder.iterdir())
        if not others:
            self.folder.rmdir()
            return
        msg = (
            f"'{self.folder}' stays: segmax deleted its own files there and left {others[0]!r}"
            f"{f' and {len(others) - 1} more' if others[1:] else ''}; move the folder away before you encode again"
        )
        warnings.warn(msg, SegmaxWarning, stacklevel=4)

    @property
    def num_docs(self) -> int:
        """How many documents the shards have."""
        return sum(entry["num_docs"] for entry in self.entries)

    @property
    def num_postings(self) -> int:
        """How many postings they have."""
        return sum(entry["num_postings"] for entry in self.entries)

    def __iter__(self) -> Iterator[Shard]:
        """Yield every shard, one at a time in memory.

        Raises
        ------
        FormatError
            A shard is damaged, or not the one that the journal lists.
        """
        for entry in self.entries:
            try:
                shard = _read_shard(self.folder / entry["file"], entry)
            except OSError as error:
                raise self.damaged(entry["file"], error.strerror or str(error)) from error
            except Exception as error:  # numpy, zipfile and zlib have no common exception for damaged files
                raise self.damaged(entry["file"], str(error)) from error
            yield shard

    def vectors(self, shard: Shard, num_columns: int) -> Csr:
        """Return the vectors of a shard; raise FormatError if they point outside themselves or the vocabulary."""
        vectors = shard.vectors._replace(num_columns=num_columns)
        try:
            check_structure(vectors, len(shard.ids))
        except InputError as error:
            raise self.damaged(shard.name, str(error)) from error
        return vectors

    def dense_names(self) -> list[str]:
        """Return the poolings whose vectors the shards have."""
        return list(self.entries[0]["dense"]) if self.entries else []

    def dense(self, name: str) -> Iterator[NDArray[np.float32]]:
        """Yield the dense vectors of a pooling, an array per shard."""
        return (shard.dense[name] for shard in self)

    def add(self, batches: list[VectorBatch], terms: list[str], checksum: int) -> None:
        """Write a shard, then enter it.

        Raises
        ------
        InputError
            A weight is negative or not finite.
        IndexExistsError
            A file that segmax did not write has the name of the shard.
        """
        arrays = _arrays(batches, terms, self.num_docs)
        name = _shard_name(len(self.entries))
        if len(self.entries) > self._first_new and _is_there(self.folder / name):
            raise IndexExistsError(
                where=f"'{self.folder / name}'",
                expected="a path where segmax can write a shard",
                got="a file that segmax did not write",
                hint="move it away",
            )

        with write_errors(self.folder), replacing(self.folder / name, self.folder / f"{name}.new") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        entry = {
            "file": name,
            "num_docs": len(arrays["indptr"]) - 1,
            "num_postings": len(arrays["data"]),
            "num_terms": len(terms),
            "checksum": checksum,
            "dense": {pooling: rows.shape[1] for pooling, rows in _dense(arrays).items()},
        }
        self._write([*self.entries, entry])
        self.entries.append(entry)

    def _write(self, entries: list[dict[str, Any]]) -> None:
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "job": self._job,
            "shards": entries,
            "is_written": self.is_written,
        }

        with write_errors(self.folder), replacing(self.folder / _JOURNAL, self.folder / f"{_JOURNAL}.new") as file:
            file.write(json.dumps(content).encode("utf-8"))

    def _read(self) -> None:
        content = self._content()
        try:
            if content["version"] is True or content["version"] != _VERSION:
                raise ValueError("it is of another version")
            job, self.entries = dict(content["job"]), _checked_entries(content["shards"])
            self.is_written = bool(content.get("is_written", False))
        except Exception as error:  # every step above may fail on hostile content
            raise self.damaged(_JOURNAL, str(error)) from error
        self._check_job(job)

    def _content(self) -> Mapping[str, Any]:
        """Return what the journal holds; raise if segmax did not write it."""
        try:
            with open_regular(self.folder / _JOURNAL) as file:
                content = json.loads(file.read())
        except OSError as error:
            where = f"'{self.folder / _JOURNAL}'"
            raise InputError(f"could not be read ({error.strerror or error})", where=where) from error
        except (ValueError, RecursionError, MemoryError) as error:
            raise FormatError(
                where=f"'{self.folder / _JOURNAL}'",
                expected="a journal of segmax",
                got=f"a damaged file, or another one ({str(error)[:200]})",
                hint="remove the folder to start over if segmax made it, or choose another name for the file to write",
            ) from error
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise self._foreign()
        return content

    def _check_job(self, job: Mapping[str, Any]) -> None:
        """Raise ConfigError if the work was started with other options."""
        for name in itertools.chain(job, self._job):
            if job.get(name) != self._job.get(name):
                raise ConfigError(
                    where=f"'{self.folder}'",
                    option=name,
                    expected=f"{shown(job.get(name))}, as when the work was started",
                    got=shown(self._job.get(name)),
                    hint="encode with the same options, or remove the folder to start over",
                )

    def damaged(self, file: str, what: str) -> FormatError:
        """Return the error about a file of the folder."""
        reason = " ".join(what.split())[:200]
        return FormatError(
            where=f"'{self.folder / file}'",
            expected="the file that segmax wrote",
            got=f"a damaged one ({reason})",
            hint="remove its folder to start over",
        )


# --- a shard ---------------------------------------------------------------------------------------------------------


def _arrays(batches: list[VectorBatch], terms: list[str], first_row: int) -> Arrays:
    """Return the arrays of a shard; a vocabulary that is learned grows from batch to batch."""
    num_columns = max(batch.vectors.num_columns for batch in batches)
    vectors = canonical(join_rows([batch.vectors for batch in batches], num_columns), first_row)
    dense = {
        f"{_DENSE}{name}": np.concatenate([batch.dense[name] for batch in batches]).astype(np.float32)
        for name in batches[0].dense
    }
    return {
        "indptr": vectors.indptr,
        "indices": vectors.indices.astype(np.int32),
        "data": vectors.values,
        **text_arrays("id", [doc_id for batch in batches for doc_id in batch.ids]),
        **text_arrays("term", terms),
        **dense,
    }


def _read_shard(path: Path, entry: Mapping[str, Any]) -> Shard:
    """Return a shard that matches its entry, or raise any exception."""
    with open_regular(path) as file, np.load(file, allow_pickle=False) as stored:
        # Written uncompressed, so that an array is never larger than the file.
        if any(member.compress_type != zipfile.ZIP_STORED for member in stored.zip.infolist()):
            raise ValueError("it is compressed")
        arrays = dict(stored)
    _check_arrays(arrays, entry)
    ids, terms = _texts(arrays, "id"), _texts(arrays, "term")
    if (len(ids), len(terms)) != (entry["num_docs"], entry["num_terms"]):
        msg = f"expected {entry['num_docs']} ids and {entry['num_terms']} terms, got {len(ids)} and {len(terms)}"
        raise ValueError(msg)
    vectors = Csr(arrays["indptr"], arrays["indices"], arrays["data"], 0)
    return Shard(path.name, vectors, ids, terms, _dense(arrays))


def _dense(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the dense vectors among arrays, by pooling."""
    return {name.removeprefix(_DENSE): rows for name, rows in arrays.items() if name.startswith(_DENSE)}


def _check_arrays(arrays: Mapping[str, NDArray[Any]], entry: Mapping[str, Any]) -> None:
    """Raise ValueError if an array is missing, or does not match the entry by dtype or length."""
    missing = sorted((_DTYPES.keys() | {"data"}) - arrays.keys())
    if missing:
        msg = f"it lacks {', '.join(missing)}"
        raise ValueError(msg)
    for name, dtype in _DTYPES.items():
        if arrays[name].dtype != dtype or arrays[name].ndim != 1:
            msg = f"expected {name} as a list of {dtype.__name__}, got {arrays[name].ndim}-D {arrays[name].dtype}"
            raise ValueError(msg)
    num_docs, num_postings = entry["num_docs"], entry["num_postings"]
    lengths = {"indptr": num_docs + 1, "indices": num_postings, "data": num_postings}
    for name, length in lengths.items():
        if arrays[name].shape != (length,):
            msg = f"expected {length} numbers in {name}, got the shape {arrays[name].shape}"
            raise ValueError(msg)
    if not _are_weights(arrays["data"]):
        raise ValueError("expected finite weights >= 0")
    found = {name: (rows.dtype, rows.shape) for name, rows in _dense(arrays).items()}
    if found != {name: (np.dtype(np.float32), (num_docs, width)) for name, width in entry["dense"].items()}:
        msg = f"expected {num_docs} dense vectors of float32 with the widths {entry['dense']}, got {found}"
        raise ValueError(msg)


def _are_weights(values: NDArray[Any]) -> bool:
    is_number = values.dtype.kind in "buif" and values.dtype.isnative
    return is_number and bool(np.isfinite(values).all()) and not bool((values < 0).any())


def _texts(arrays: Mapping[str, NDArray[Any]], prefix: str) -> list[str]:
    offsets = arrays[f"{prefix}_offset"]
    try:
        return list(TextTable(offsets, arrays[f"{prefix}_text"], len(offsets) - 1))
    except (FormatError, IndexError) as error:
        msg = f"{prefix}_offset and {prefix}_text do not fit together, or are not UTF-8"
        raise ValueError(msg) from error


# --- the folder ------------------------------------------------------------------------------------------------------


def _is_there(path: Path) -> bool:
    """Return whether something is at a path, even a dangling link."""
    return path.is_symlink() or path.exists()


def _checked_entries(entries: object) -> list[dict[str, Any]]:
    """Return the entries of a journal, or raise ValueError."""
    if not isinstance(entries, list):
        raise ValueError("expected a list of shards")
    for number, entry in enumerate(entries):
        counts = [entry[name] for name in ("num_docs", "num_postings", "num_terms", "checksum")]
        if entry["file"] != _shard_name(number) or not all(
            type(count) is int and 0 <= count < 2**63 for count in counts
        ):
            msg = f"shard {number} has an entry that segmax did not write"
            raise ValueError(msg)
        if not isinstance(entry["dense"], dict) or entry["dense"] != entries[0]["dense"]:
            msg = f"shard {number} has other dense vectors than the first one"
            raise ValueError(msg)
    return entries


def _shard_name(number: int) -> str:
    return f"shard-{number:06}.npz"
