"""Encoding a whole collection into a file, in a way that survives an interruption.

What is encoded is kept in shards beside the file to be written, each written under another name, synced and renamed,
and entered into a journal afterwards. Who runs the same encoding again goes on after the last shard; the journal also
knows the options, and a checksum of the texts up to every shard, so that nothing else is mixed in.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.encoders.base import EncodedBatch, Encoder
from segmax.encoders.bm25 import BM25
from segmax.encoders.chunks import batched
from segmax.encoders.pooling import write_dense
from segmax.errors import ConfigError, FormatError, IndexExistsError, InputError, WriteError
from segmax.files import replacing
from segmax.io import Scale, write_vectors
from segmax.io.base import Document, TextReader, VectorBatch
from segmax.io.scale import parse_scale
from segmax.io.streams import check_free
from segmax.io.vectors import written_format
from segmax.progress import ProgressOption, Stage, reporter
from segmax.sparse import Csr
from segmax.tables import Arrays, TextTable, text_arrays

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.lazy import scipy_sparse as sp

_JOURNAL = "journal.json"
_FORMAT = "segmax-encoding"
_VERSION = 1
_SHARD_POSTINGS = 1 << 22  # a shard is read whole
_SHARD_SECONDS = 30.0  # what an interruption may cost
#: What a journal writes into its folder.
_OUR_FILES = re.compile(r"(shard-\d{6,}\.npz|journal\.json)(\.new)?", re.ASCII)
_WHOLE_NUMBERS = ("ciff", "tokens")  # formats that hold nothing else


class Encoding(NamedTuple):
    """What was encoded, and where it is."""

    path: Path
    num_docs: int
    num_postings: int
    num_resumed: int  # documents that an earlier, interrupted run had encoded
    dense: Mapping[str, Path]  # files of dense vectors, by pooling
    encoder: Path | None  # where an encoder that learned from the documents was saved


def encode_texts(
    encoder: Encoder,
    texts: TextReader | Iterable[Document],
    path: str | os.PathLike[str],
    *,
    queries: bool = False,
    title: bool = True,
    format: str | None = None,
    scale: str | float | None = None,
    overwrite: bool = False,
    progress: ProgressOption = None,
    shard_seconds: float = _SHARD_SECONDS,
) -> Encoding:
    """Encode texts into a file of vectors, with their ids and the vocabulary.

    Interrupted, it leaves what is done in a folder beside `path`, and goes on from there when it is called again in the
    same way. Memory holds a shard, a few batches, and the vocabulary.

    Parameters
    ----------
    encoder
        Dense vectors that it pools are written beside `path`, as "NAME.max.npy" for instance; BM25 is saved there as
        "NAME.bm25", to encode queries with.
    texts
        What to encode, in the same order every time.
    path
        The file to write.
    queries
        Encode them as queries; by default as documents.
    title
        Whether documents are encoded with their titles.
    format
        Of the file, as `segmax.io.write_vectors` knows it; None: by its name.
    scale
        What is done to weights, as in `segmax.io.open_vectors`. Formats that hold whole numbers need one that rounds.
    overwrite
        Replace `path`, and what is written beside it, if it exists.
    progress
        As in `segmax.build`.
    shard_seconds
        How often work is made safe.

    Raises
    ------
    InputError
        The texts are not those that an interrupted run began with, or there is no folder to put the file in.
    ConfigError
        The encoder or an option is not the one that it began with, or cannot be.
    IndexExistsError
        `path` exists, or what would be written beside it.
    """
    target = Path(path)
    work = _Documents(encoder, queries)
    scaled = parse_scale(scale)
    _check_weights(written_format(target, format), scaled, work)
    journal = _Journal(target.with_name(f"{target.name}.encoding"), {**work.describe(), "title": title})
    overwrite = overwrite or journal.is_written
    _check_outputs(target, work, overwrite)
    journal.begin()
    num_resumed = journal.num_docs
    with reporter(progress) as told:
        with told.stage("encode", _count(texts), "documents") as stage:
            source = _Source(texts, title)
            source.skip(journal, stage)
            work.resume(journal)
            _encode(work, source, journal, stage, shard_seconds)
        work.finish(journal)
        poolings = journal.dense_names()
        _check_beside(target, [_dense_path(target, name) for name in poolings], overwrite)
        with told.stage("write", journal.num_docs, "documents") as stage:
            write_vectors(target, _Shards(journal, work, scaled, stage), format, overwrite=overwrite)
        journal.is_written = True
        journal.begin()
        dense = {name: _write_dense(journal, name, target) for name in poolings}
    saved = work.save(target)
    num_docs, num_postings = journal.num_docs, journal.num_postings
    journal.remove()
    return Encoding(target, num_docs, num_postings, num_resumed, dense, saved)


def _encode(work: _Documents, source: _Source, journal: _Journal, stage: Stage, shard_seconds: float) -> None:
    """Encode what the journal does not have yet."""
    waiting: list[EncodedBatch] = []
    postings = 0
    since = time.monotonic()

    def keep() -> None:
        if waiting:
            num_docs = sum(len(batch.ids) for batch in waiting)
            # Only once they are written they count as kept: after a failure they can be tried again.
            journal.add(waiting, work.new_terms(), source.checksum(num_docs))
            waiting.clear()
            work.keep_terms()
            source.keep(num_docs)

    try:
        for batch in work.encoded(source.batches()):
            waiting.append(batch)
            postings += batch.vectors.nnz
            stage.advance(len(batch.ids))
            if postings >= _SHARD_POSTINGS or time.monotonic() - since >= shard_seconds:
                keep()
                postings, since = 0, time.monotonic()
        keep()
    except BaseException:
        with contextlib.suppress(OSError):  # what is done need not be done again; the first error is the one to tell
            keep()
        raise


def _count(texts: Iterable[Document]) -> int | None:
    count: int | None = len(texts) if isinstance(texts, Sized) else getattr(texts, "num_docs", None)
    return count


# --- what is written -------------------------------------------------------------------------------------------------


def _check_weights(kind: str, scale: Scale, work: _Documents) -> None:
    """Raise ConfigError where weights are no whole numbers, and the format holds nothing else."""
    if kind in _WHOLE_NUMBERS and not (scale.rounding or scale.whole or work.counts_words):
        msg = f"{kind} holds whole numbers, and weights are none; choose a scale that rounds: scale='x100' or '/5x256'"
        raise ConfigError(msg)


def _check_outputs(target: Path, work: _Documents, overwrite: bool) -> None:
    """Raise where something stands in the way of what will be written, or there is no folder for it."""
    check_free(target, overwrite=overwrite)
    beside = [_dense_path(target, name) for name in work.poolings]
    saved = work.saved_path(target)
    _check_beside(target, beside if saved is None else [*beside, saved], overwrite)


def _check_beside(target: Path, paths: Iterable[Path], overwrite: bool) -> None:
    """Raise where something exists that goes with a file of the same stem: that file's encoder, for instance."""
    taken = next((path for path in paths if path.exists()), None)
    if taken is not None and not overwrite:
        msg = (
            f"'{taken}' exists, perhaps of another file than '{target}', which would replace it; choose another name, "
            "or pass overwrite=True"
        )
        raise IndexExistsError(msg)


def _dense_path(target: Path, name: str) -> Path:
    return target.with_name(f"{target.stem}.{name}.npy")


def _write_dense(journal: _Journal, name: str, target: Path) -> Path:
    path = _dense_path(target, name)
    write_dense(path, (shard[f"dense_{name}"] for shard in journal), journal.num_docs)
    return path


# --- what is done with documents -------------------------------------------------------------------------------------


class _Documents:
    """The side of the encoder.

    BM25 knows the weights of a document only when it has seen all of them: its shards hold counts, which are weighed
    while the file is written.
    """

    def __init__(self, encoder: Encoder, queries: bool) -> None:
        self._encoder = encoder
        self._queries = queries
        self._bm25 = encoder if isinstance(encoder, BM25) and not queries else None
        self.counts_words = isinstance(encoder, BM25) and queries  # so that weights are whole numbers
        if isinstance(encoder, BM25) and queries:
            encoder.check_vocabulary()
        self._num_terms = 0  # of BM25, in the shards that are written

    def describe(self) -> dict[str, Any]:
        """Return what the result depends on."""
        describe: Callable[[], dict[str, Any]] | None = getattr(self._encoder, "describe", None)
        job: dict[str, Any] = {"encoder": type(self._encoder).__name__} if describe is None else describe()
        if self._queries and isinstance(self._encoder, BM25):  # learned, so its options do not tell it all
            job["vocabulary"] = zlib.crc32("\n".join(self._encoder.vocabulary).encode("utf-8", "surrogatepass"))
        return {**job, "queries": self._queries}

    @property
    def poolings(self) -> tuple[str, ...]:
        """The dense vectors that it says it makes."""
        return () if self._queries else tuple(getattr(self._encoder, "pooling", ()))

    def resume(self, journal: _Journal) -> None:
        """Know what the shards know."""
        if self._bm25 is not None:
            self._bm25.reset()
            for shard in journal:
                self._bm25.add_terms(_texts(shard, "term"))
            self._num_terms = len(self._bm25.vocabulary)

    def encoded(self, batches: Iterable[list[Document]]) -> Iterator[EncodedBatch]:
        """Yield what goes into shards."""
        if self._bm25 is not None:
            return self._bm25.count_documents(batches)
        if not self._queries:
            return self._encoder.encode_documents(batches)
        return (
            EncodedBatch([doc.id for doc in batch], self._encoder.encode_queries([doc.whole for doc in batch]), {})
            for batch in batches
        )

    def new_terms(self) -> list[str]:
        """Return the terms that came up since the last shard."""
        return [] if self._bm25 is None else self._bm25.vocabulary[self._num_terms :]

    def keep_terms(self) -> None:
        """Take note that all terms so far are in a shard."""
        if self._bm25 is not None:
            self._num_terms = len(self._bm25.vocabulary)

    def finish(self, journal: _Journal) -> None:
        """Learn from all shards."""
        if self._bm25 is not None:
            for shard in journal:
                self._bm25.learn(_matrix(shard, self._num_terms))

    @property
    def vocabulary(self) -> list[str]:
        """The word of every column."""
        return list(self._encoder.vocabulary)

    def vectors(self, shard: Mapping[str, NDArray[Any]], num_columns: int) -> sp.csr_matrix:
        """Return the vectors of a shard."""
        matrix = _matrix(shard, num_columns)
        return matrix if self._bm25 is None else self._bm25.weigh(matrix)

    def saved_path(self, target: Path) -> Path | None:
        """Return where an encoder that learns will be kept."""
        return None if self._bm25 is None else target.with_name(f"{target.stem}.bm25")

    def save(self, target: Path) -> Path | None:
        """Keep an encoder that learned."""
        path = self.saved_path(target)
        if self._bm25 is not None and path is not None:
            self._bm25.save(path)
        return path


class _Source:
    """The side of the texts: hands them out, with a checksum of everything so far after each."""

    def __init__(self, texts: Iterable[Document], title: bool) -> None:
        self._texts = iter(texts)
        self._title = title
        self._checksum = 0
        self._number = 0
        self._given: deque[int] = deque()  # checksums after documents that are in no shard yet

    def _next(self) -> Document | None:
        doc = next(self._texts, None)
        if doc is None:
            return None
        if not self._title:
            doc = doc._replace(title="")
        content = "\0".join(doc).encode("utf-8", "surrogatepass")
        self._checksum = zlib.crc32(content, zlib.crc32(len(content).to_bytes(8, "little"), self._checksum))
        self._number += 1
        return doc

    def skip(self, journal: _Journal, stage: Stage) -> None:
        """Pass by the documents that are done, and see that they are the same ones."""
        for entry in journal.entries:
            for _ in range(entry["num_docs"]):
                if self._next() is None:
                    msg = (
                        f"expected the texts that '{journal.folder}' was begun with, {journal.num_docs} at least, got "
                        f"{self._number}; give the same ones, or remove that folder to begin anew"
                    )
                    raise InputError(msg)
            if self._checksum != entry["checksum"]:
                first = self._number - entry["num_docs"]
                msg = (
                    f"the texts have changed since '{journal.folder}' was begun, between document {first} and "
                    f"{self._number - 1}; give the same ones, or remove that folder to begin anew"
                )
                raise InputError(msg)
            stage.advance(entry["num_docs"])

    def batches(self) -> Iterator[list[Document]]:
        """Yield the other documents."""
        return batched(self._handed_out())

    def _handed_out(self) -> Iterator[Document]:
        while (doc := self._next()) is not None:
            self._given.append(self._checksum)
            yield doc

    def checksum(self, count: int) -> int:
        """Return the checksum after the next `count` documents that were handed out."""
        return self._given[count - 1]

    def keep(self, count: int) -> None:
        """Take note that these documents are in a shard."""
        for _ in range(count):
            self._given.popleft()


# --- shards and their journal ----------------------------------------------------------------------------------------


class _Journal:
    """A folder of shards."""

    def __init__(self, folder: Path, job: dict[str, Any]) -> None:
        self.folder = folder
        self.entries: list[dict[str, Any]] = []
        self.is_written = False  # whether the file is there, so that what lies beside it is its own
        self._job = json.loads(json.dumps(job))  # as it will be read back
        self._is_ours = _is_there(folder)
        if self._is_ours:
            self._check_ours()
            self._read()

    def _check_ours(self) -> None:
        """Raise IndexExistsError where something lies in the place of the folder that is none of ours."""
        journal = self.folder / _JOURNAL
        if self.folder.is_symlink() or journal.is_symlink() or not journal.is_file():
            raise self._foreign()

    def _foreign(self) -> IndexExistsError:
        return IndexExistsError(
            f"'{self.folder}' is where unfinished work is kept, but segmax did not make it; move it away, or choose "
            "another name for the file to write"
        )

    def begin(self) -> None:
        """Write down what is known; until then there need not be a folder."""
        if self._is_ours:
            self._write(self.entries)
            return
        _guarded(self.folder.mkdir, self.folder)
        try:
            self._write(self.entries)
        except BaseException:  # else an empty folder would stand in the way of the next run
            self.remove()
            raise
        self._is_ours = True

    def remove(self) -> None:
        """Delete the files that a journal writes, and the folder if nothing else is in it."""
        with contextlib.suppress(OSError):  # what cannot be deleted, or was put there by others, stays
            for path in self.folder.iterdir():
                if _OUR_FILES.fullmatch(path.name) and not path.is_dir():
                    path.unlink()  # of a symbolic link, the link
            self.folder.rmdir()

    @property
    def num_docs(self) -> int:
        """How many documents the shards have."""
        return sum(entry["num_docs"] for entry in self.entries)

    @property
    def num_postings(self) -> int:
        """How many postings they have."""
        return sum(entry["num_postings"] for entry in self.entries)

    def __iter__(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield the arrays of every shard, one shard at a time."""
        for entry in self.entries:
            try:
                with np.load(self.folder / entry["file"], allow_pickle=False) as arrays:
                    yield dict(arrays)
            except (OSError, ValueError, LookupError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
                raise self._damaged(f"{entry['file']}: {error}") from error

    def dense_names(self) -> list[str]:
        """Return the poolings whose vectors the shards have."""
        shard: Mapping[str, Any] = next(iter(self), {})
        return [name.removeprefix("dense_") for name in shard if name.startswith("dense_")]

    def add(self, batches: list[EncodedBatch], terms: list[str], checksum: int) -> None:
        """Write a shard, then enter it."""
        arrays = _arrays(batches, terms)
        name = _shard_name(len(self.entries))

        def write() -> None:
            with replacing(self.folder / name, self.folder / f"{name}.new") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]

        _guarded(write, self.folder)
        num_docs, num_postings = len(arrays["indptr"]) - 1, len(arrays["data"])
        entry = {"file": name, "num_docs": num_docs, "num_postings": num_postings, "checksum": checksum}
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

        def write() -> None:
            with replacing(self.folder / _JOURNAL, self.folder / f"{_JOURNAL}.new") as file:
                file.write(json.dumps(content).encode("utf-8"))

        _guarded(write, self.folder)

    def _read(self) -> None:
        try:
            content = json.loads((self.folder / _JOURNAL).read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise self._foreign()
            if content["version"] is True or content["version"] != _VERSION:
                raise ValueError("it is of another version")
            job, self.entries = dict(content["job"]), _checked_entries(content["shards"])
            self.is_written = bool(content.get("is_written", False))
        except IndexExistsError:
            raise
        except OSError as error:
            msg = f"'{self.folder / _JOURNAL}': cannot be read ({error.strerror or error})"
            raise InputError(msg) from error
        except Exception as error:  # every step above may stumble over what the file holds
            raise self._damaged(f"{_JOURNAL}: {str(error)[:200]}") from error
        for name in itertools.chain(job, self._job):
            if job.get(name) != self._job.get(name):
                msg = (
                    f"'{self.folder}' was begun with {name} = {job.get(name)!r}, now it is {self._job.get(name)!r}; "
                    "encode as it was begun, or remove that folder to begin anew"
                )
                raise ConfigError(msg)

    def _damaged(self, what: str) -> FormatError:
        return FormatError(f"'{self.folder}' is damaged ({what}); remove it to begin anew")


class _Shards:
    """All shards as a stream of vectors."""

    def __init__(self, journal: _Journal, work: _Documents, scale: Scale, stage: Stage) -> None:
        self._journal = journal
        self._work = work
        self._scale = scale
        self._stage = stage
        self.terms = work.vocabulary
        self.num_docs = journal.num_docs

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        for shard in self._journal:
            matrix = self._work.vectors(shard, len(self.terms))
            csr = Csr(matrix.indptr.astype(np.int64), matrix.indices, matrix.data, len(self.terms))
            yield VectorBatch(_texts(shard, "id"), self._scale.apply(csr))
            self._stage.advance(csr.num_rows)


def _is_there(path: Path) -> bool:
    """Return whether something is at a path, if only a link that leads nowhere."""
    return path.is_symlink() or path.exists()


def _checked_entries(entries: object) -> list[dict[str, Any]]:
    """Return the entries of a journal, or raise ValueError."""
    if not isinstance(entries, list):
        raise ValueError("expected a list of shards")
    for number, entry in enumerate(entries):
        counts = [entry[name] for name in ("num_docs", "num_postings", "checksum")]
        if entry["file"] != _shard_name(number) or not all(
            type(count) is int and 0 <= count < 2**63 for count in counts
        ):
            raise ValueError(f"shard {number} has an entry that segmax did not write")
    return entries


def _shard_name(number: int) -> str:
    return f"shard-{number:06}.npz"


def _arrays(batches: list[EncodedBatch], terms: list[str]) -> Arrays:
    num_columns = max(batch.vectors.shape[1] for batch in batches)
    vectors = sp.csr_matrix(sp.vstack([_widened(batch.vectors, num_columns) for batch in batches], format="csr"))
    vectors.sort_indices()
    dense = {f"dense_{name}": np.concatenate([batch.dense[name] for batch in batches]) for name in batches[0].dense}
    return {
        "indptr": vectors.indptr.astype(np.int64),
        "indices": vectors.indices.astype(np.int32),
        "data": vectors.data,
        **text_arrays("id", [doc_id for batch in batches for doc_id in batch.ids]),
        **text_arrays("term", terms),
        **dense,
    }


def _widened(matrix: sp.csr_matrix, num_columns: int) -> sp.csr_matrix:
    """Return the same rows with more columns: BM25's vocabulary grows from batch to batch."""
    return sp.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], num_columns))


def _matrix(shard: Mapping[str, NDArray[Any]], num_columns: int) -> sp.csr_matrix:
    parts = (shard["data"], shard["indices"], shard["indptr"])
    return sp.csr_matrix(parts, shape=(len(shard["indptr"]) - 1, num_columns))


def _texts(shard: Mapping[str, NDArray[Any]], prefix: str) -> list[str]:
    offsets = shard[f"{prefix}_offset"]
    table = TextTable(offsets, shard[f"{prefix}_text"], len(offsets) - 1)
    return [table[number] for number in range(len(table))]


def _guarded(write: Callable[[], object], folder: Path) -> None:
    try:
        write()
    except OSError as error:
        msg = f"could not write to '{folder}' ({error.strerror}); what was there before is untouched"
        raise WriteError(msg) from error
