"""Encoding a whole collection into a file, in a way that survives interruptions.

`encode_texts` writes shards to a folder beside the file, listed in a journal (`journal.py`). After an interruption the
same call resumes after the last shard. The journal also has the options and a checksum of the texts up to every shard:
a call with other options or other texts is refused.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from segmax.base.checks import shown
from segmax.base.errors import ConfigError, IndexExistsError
from segmax.base.progress import ProgressOption, Stage, progress_of
from segmax.encoders import as_encoder
from segmax.encoders.chunks import batched
from segmax.encoders.pooling import write_dense
from segmax.io import Scale, write_vectors
from segmax.io.scale import parse_scale
from segmax.io.vector_writer import written_format
from segmax.io.writing import check_free
from segmax.text.checksums import CheckedTexts
from segmax.text.documents import num_documents
from segmax.text.jobs import EncodingJob, encoding_job
from segmax.text.journal import Journal
from segmax.text.settling import settled
from segmax.vectors.documents import Document, TextReader, VectorBatch

_SHARD_POSTINGS = 1 << 22  # a shard is read whole
_SHARD_SECONDS = 30.0  # what an interruption may cost
_WHOLE_NUMBERS = ("ciff", "tokens")  # formats that hold nothing else


class Encoding(NamedTuple):
    """What was encoded, and where it is.

    Examples
    --------
    >>> import tempfile
    >>> from segmax.io import Document
    >>> path = Path(tempfile.mkdtemp(), "docs.npz")
    >>> done = encode_texts("bm25", [Document("d1", "", "a copper waveguide")], path)
    >>> done.num_docs, done.path.name, done.encoder.name
    (1, 'docs.npz', 'docs.bm25')
    """

    path: Path
    num_docs: int
    num_postings: int
    num_resumed: int  # documents that an earlier, interrupted run had encoded
    dense: Mapping[str, Path]  # files of dense vectors, by pooling
    encoder: Path | None  # where an encoder that learned from the documents was saved


def encode_texts(
    encoder: object,
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

    If it is interrupted, what is done stays in a folder beside `path`, and the same call resumes there. Memory holds a
    shard, a few batches, and the vocabulary.

    Parameters
    ----------
    encoder
        An encoder, or its name, as `segmax.from_texts` takes it. Token embeddings that it pools are written beside
        `path`, as "NAME.max.npy" for instance; BM25 is saved there as "NAME.bm25", to encode queries with.
    texts
        The documents, in the same order every time.
    path
        The file to write.
    queries
        Whether to encode them as queries rather than as documents.
    title
        Whether documents are encoded with their titles.
    format
        The format of the file, as in `segmax.io.write_vectors`; None: by its name.
    scale
        How to scale weights, as in `segmax.io.open_vectors`. Formats of whole numbers need a scale that rounds.
    overwrite
        Whether to replace `path` and the files beside it.
    progress
        As in `segmax.build`.
    shard_seconds
        How often to write a shard, at least.

    Raises
    ------
    InputError
        The texts are not those of the interrupted run, or the folder of `path` does not exist.
    ConfigError
        The encoder or an option is not that of the interrupted run, or is invalid.
    IndexExistsError
        `path`, or a file to be written beside it, exists.

    Examples
    --------
    >>> import tempfile
    >>> from segmax.io import Document
    >>> path = Path(tempfile.mkdtemp(), "docs.npz")
    >>> encode_texts("bm25", [Document("d1", "", "a copper waveguide")], path).num_docs
    1
    """
    target = Path(path)
    made = as_encoder(encoder)
    source_texts = texts if queries else settled(made, texts, title=title)
    job = encoding_job(made, queries=queries)
    scaled = _check_weights(written_format(target, format), scale, job)
    journal = Journal(target.with_name(f"{target.name}.encoding"), {**job.describe(), "title": title})
    overwrite = overwrite or journal.is_written
    _check_outputs(target, job, overwrite)
    journal.begin()
    num_resumed = journal.num_docs
    with progress_of(progress) as updates:
        with updates.stage("encode", num_documents(source_texts), "documents") as stage:
            source = CheckedTexts(source_texts, title=title)
            source.skip(journal, stage)
            job.resume(journal)
            _encode(job, source, journal, stage, shard_seconds)
        job.finish(journal)
        poolings = journal.dense_names()
        _check_beside(target, [_dense_path(target, name) for name in poolings], overwrite)
        with updates.stage("write", journal.num_docs, "documents") as stage:
            write_vectors(target, _Shards(journal, job, scaled, stage), format, overwrite=overwrite)
        journal.is_written = True
        journal.begin()
        dense = {name: _write_dense(journal, name, target) for name in poolings}
    saved = job.save(target)
    num_docs, num_postings = journal.num_docs, journal.num_postings
    journal.remove()
    return Encoding(target, num_docs, num_postings, num_resumed, dense, saved)


def _encode(job: EncodingJob, source: CheckedTexts, journal: Journal, stage: Stage, shard_seconds: float) -> None:
    """Encode the documents that are in no shard yet."""
    waiting: list[VectorBatch] = []
    postings = 0
    since = time.monotonic()

    def keep() -> None:
        if waiting:
            num_docs = sum(len(batch.ids) for batch in waiting)
            # They count as kept only once they are written, so that a failed write can be tried again.
            journal.add(waiting, job.new_terms(), source.checksum(num_docs))
            waiting.clear()
            job.keep_terms()
            source.keep(num_docs)

    try:
        for batch in job.encoded(batched(source)):
            waiting.append(batch)
            postings += len(batch.vectors.indices)
            stage.advance(len(batch.ids))
            if postings >= _SHARD_POSTINGS or time.monotonic() - since >= shard_seconds:
                keep()
                postings, since = 0, time.monotonic()
        keep()
    except BaseException:
        with contextlib.suppress(OSError):  # keep what is done; the first error is the one to raise
            keep()
        raise


# --- what is written -------------------------------------------------------------------------------------------------


def _check_weights(kind: str, scale: str | float | None, job: EncodingJob) -> Scale:
    """Return the scale; raise ConfigError if the format needs whole numbers and weights are none."""
    scaled = parse_scale(scale)
    if kind in _WHOLE_NUMBERS and not (scaled.rounding or scaled.whole or job.counts):
        raise ConfigError(
            option="scale",
            expected=f"one that rounds, because {kind} holds whole numbers",
            got="none" if scale is None else shown(scale),
            hint="choose {scale='x100'} or {scale='/5x256'}",
        )
    return scaled


def _check_outputs(target: Path, job: EncodingJob, overwrite: bool) -> None:
    """Raise if a file to be written exists, or its folder does not."""
    check_free(target, overwrite=overwrite)
    beside = [_dense_path(target, name) for name in job.poolings]
    saved = job.saved_path(target)
    _check_beside(target, beside if saved is None else [*beside, saved], overwrite)


def _check_beside(target: Path, paths: Iterable[Path], overwrite: bool) -> None:
    """Raise if a file beside the target exists: it may belong to another file of the same stem."""
    taken = next((path for path in paths if path.exists()), None)
    if taken is not None and not overwrite:
        raise IndexExistsError(
            where=f"'{target}'",
            expected="no files of its name beside it",
            got=f"'{taken}', which may belong to another file",
            hint="choose another name, or pass {overwrite=True}",
        )


def _dense_path(target: Path, name: str) -> Path:
    return target.with_name(f"{target.stem}.{name}.npy")


def _write_dense(journal: Journal, name: str, target: Path) -> Path:
    path = _dense_path(target, name)
    write_dense(path, journal.dense(name), journal.num_docs)
    return path


class _Shards:
    """All shards as a stream of vectors."""

    def __init__(self, journal: Journal, job: EncodingJob, scale: Scale, stage: Stage) -> None:
        self._journal = journal
        self._job = job
        self._scale = scale
        self._stage = stage
        self.terms = job.vocabulary
        self.num_docs = journal.num_docs

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        for shard in self._journal:
            vectors = self._job.vectors(self._journal, shard, len(self.terms))
            yield VectorBatch(shard.ids, self._scale.apply(vectors))
            self._stage.advance(vectors.num_rows)
