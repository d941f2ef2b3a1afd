"""Encoding a whole collection into a file, in a way that survives an interruption.

`encode_texts` keeps what it has encoded in shards beside the file to be written, through `journal.py`. The same call
goes on after the last shard. The journal also has the options, and a checksum of the texts up to every shard,
so that nothing else is mixed in.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from segmax.base.errors import ConfigError, IndexExistsError, InputError
from segmax.base.progress import ProgressOption, Stage, progress_of
from segmax.encoders.base import EncodedBatch, Encoder
from segmax.encoders.bm25 import BM25
from segmax.encoders.chunks import batched
from segmax.encoders.pooling import write_dense
from segmax.io import Scale, write_vectors
from segmax.io.scale import parse_scale
from segmax.io.vector_writer import written_format
from segmax.io.writing import check_free
from segmax.text.journal import Journal, Shard
from segmax.vectors.csr import Csr
from segmax.vectors.documents import Document, TextReader, VectorBatch

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

_SHARD_POSTINGS = 1 << 22  # a shard is read whole
_SHARD_SECONDS = 30.0  # what an interruption may cost
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
    journal = Journal(target.with_name(f"{target.name}.encoding"), {**work.describe(), "title": title})
    overwrite = overwrite or journal.is_written
    _check_outputs(target, work, overwrite)
    journal.begin()
    num_resumed = journal.num_docs
    with progress_of(progress) as told:
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


def _encode(work: _Documents, source: _Source, journal: Journal, stage: Stage, shard_seconds: float) -> None:
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
        raise ConfigError(
            f"{kind} holds whole numbers, and weights are none",
            hint="choose a scale that rounds: {scale='x100'} or {scale='/5x256'}",
        )


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
        raise IndexExistsError(
            f"'{taken}' exists, perhaps of another file than '{target}', which would replace it",
            hint="choose another name, or pass {overwrite=True}",
        )


def _dense_path(target: Path, name: str) -> Path:
    return target.with_name(f"{target.stem}.{name}.npy")


def _write_dense(journal: Journal, name: str, target: Path) -> Path:
    path = _dense_path(target, name)
    write_dense(path, journal.dense(name), journal.num_docs)
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

    def resume(self, journal: Journal) -> None:
        """Learn what the shards know, and check all of them before more work goes into the collection."""
        if self._bm25 is not None:
            self._bm25.reset()
        for shard in journal:
            journal.matrix(shard, self._num_columns(journal, shard))

    def _num_columns(self, journal: Journal, shard: Shard) -> int:
        """Return how many columns there are once a shard is read."""
        if self._bm25 is None:
            return len(self._encoder.vocabulary)
        self._bm25.add_terms(shard.terms)
        self._num_terms += len(shard.terms)
        if len(self._bm25.vocabulary) != self._num_terms:
            raise journal.damaged(shard.name, "it repeats a term")
        if shard.weights.dtype.kind not in "iu":
            raise journal.damaged(shard.name, f"expected counts of words, got {shard.weights.dtype}")
        return self._num_terms

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

    def finish(self, journal: Journal) -> None:
        """Learn from all shards."""
        if self._bm25 is not None:
            for shard in journal:
                self._bm25.learn(journal.matrix(shard, self._num_terms))

    @property
    def vocabulary(self) -> list[str]:
        """The word of every column."""
        return list(self._encoder.vocabulary)

    def vectors(self, journal: Journal, shard: Shard, num_columns: int) -> sp.csr_matrix:
        """Return the vectors of a shard."""
        matrix = journal.matrix(shard, num_columns)
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

    def skip(self, journal: Journal, stage: Stage) -> None:
        """Pass by the documents that are done, and see that they are the same ones."""
        for entry in journal.entries:
            for _ in range(entry["num_docs"]):
                if self._next() is None:
                    raise InputError(
                        expected=f"the texts that '{journal.folder}' was begun with, {journal.num_docs} at least",
                        got=self._number,
                        hint="give the same ones, or remove that folder to begin anew",
                    )
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


class _Shards:
    """All shards as a stream of vectors."""

    def __init__(self, journal: Journal, work: _Documents, scale: Scale, stage: Stage) -> None:
        self._journal = journal
        self._work = work
        self._scale = scale
        self._stage = stage
        self.terms = work.vocabulary
        self.num_docs = journal.num_docs

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        for shard in self._journal:
            matrix = self._work.vectors(self._journal, shard, len(self.terms))
            csr = Csr(matrix.indptr.astype(np.int64), matrix.indices, matrix.data, len(self.terms))
            yield VectorBatch(shard.ids, self._scale.apply(csr))
            self._stage.advance(csr.num_rows)
