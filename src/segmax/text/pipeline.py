"""From texts to an index in one go, read, encode, build; or the last step alone, for vectors that are encoded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_choice
from segmax.base.errors import ConfigError, InputError
from segmax.base.memory import MemoryLimit
from segmax.base.progress import Progress
from segmax.base.scratch import ScratchFile
from segmax.building.builder import BuildKeywords, build, check_keywords, scratch_folder
from segmax.building.clustering import ClusterJob, Dense, Representation
from segmax.encoders import BM25, Encoder, as_encoder, description
from segmax.encoders.base import EncodedBatch
from segmax.encoders.chunks import batched
from segmax.encoders.pooling import POOLINGS
from segmax.io import Document, VectorBatch, VectorReader, open_texts, open_vectors
from segmax.io.frames import frame_records, is_frame, is_series, mapping_records, series_records
from segmax.io.records import check_all_or_none, checked_id, document_of, find_id, is_missing, with_known_names
from segmax.search.index import Index
from segmax.vectors.csr import matrix_to_csr
from segmax.vectors.documents import WrappedVectors

if TYPE_CHECKING:
    from segmax.vectors.types import Texts  # loads what only annotations need

#: What documents can be clustered by while they are encoded.
CLUSTER_BY = ("sparse", "max", "mean", "cls")


def from_texts(
    texts: Texts,
    *,
    encoder: object = "bm25",
    path: str | os.PathLike[str] | None = None,
    keep_texts: bool = True,
    title: bool = True,
    cluster_by: str = "sparse",
    cluster_options: Mapping[str, Any] | None = None,
    **options: Unpack[BuildKeywords],
) -> Index:
    """Encode texts and build an index of them that can be searched with text.

    Parameters
    ----------
    texts
        What `segmax.io.open_texts` reads: the path of a file or folder of texts, or an ir_datasets id. Or texts in
        memory:

        - an iterable of strings, of documents (`segmax.io.Document`), or of mappings with "text" and perhaps "title"
          and "id" (or "_id", "doc_id", ...); without ids documents are numbered from 0;
        - a mapping of id to text, or of id to a mapping with "text" and perhaps "title";
        - a DataFrame with a column "text", and perhaps "title" and "id" (or "_id", "doc_id", "docno", ...); without a
          column of ids, its index has them;
        - a Series of texts, whose index has the ids.

        A missing title is an empty one. A missing text (None, NaN, NA) is an error, unless there is a title.
    encoder
        "bm25", the name or folder of a model, a `SparseEncoder` of sentence-transformers, or an encoder.
    path
        Where to write the index; None keeps it in memory.
    keep_texts
        Store the texts with the index, so that results come back with them.
    title
        Whether documents are encoded with their titles.
    cluster_by
        "sparse", the vectors themselves, or "max", "mean" or "cls": what a model's token embeddings are pooled to, in
        the same pass. An encoder that is given as such has to be made with that `pooling`.
    cluster_options
        Of `Dense`, where clusters are made of pooled embeddings: "dimensions", "bits", "restarts", "iterations".
    options
        Of `segmax.build`, the fields of `BuildConfig` among them: `from_texts(texts, num_clusters=512)`.

    Examples
    --------
    >>> index = from_texts(["a waveguide of copper", "diodes and noise"])
    >>> hits = index.search("copper waveguides")
    >>> hits.ids, hits.texts[0].text
    (['0'], 'a waveguide of copper')
    """
    check_keywords(options, from_texts)
    pooling = _checked_pooling(cluster_by, cluster_options, options)
    folder = scratch_folder(options.get("scratch"), path)
    reader = open_texts(texts, scratch=folder) if isinstance(texts, (str, os.PathLike)) else _documents(texts)
    made = as_encoder(encoder, **pooling)
    vectors = EncodedTexts(reader if title else _Untitled(reader), made, _scratch(options))
    with contextlib.ExitStack() as stack:
        if pooling:
            vectors.pooled = stack.enter_context(_pooled(made, cluster_by, folder, cluster_options or {}))
            options["clusters"] = vectors.pooled
        index = build(vectors, path=path, texts=reader if keep_texts else None, encoder=description(made), **options)
    return with_encoder(index, made)


def from_vectors(
    vectors: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    encoder: Encoder | None = None,
    texts: str | os.PathLike[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    terms: Iterable[str] | None = None,
    **options: Unpack[BuildKeywords],
) -> Index:
    """Build an index of files that `segmax.text.encode_texts` wrote, which can be searched with text, too.

    Parameters
    ----------
    vectors
        A file of vectors, or several.
    encoder
        What made them, to encode queries: a saved `BM25`, or a model. Its vocabulary has to be that of the files.
    texts
        What they were made of, as `segmax.io.open_texts` reads it, to be stored; the same documents in the same order.
    path, terms, options
        As in `segmax.build`.

    Raises
    ------
    InputError
        Vectors, texts and encoder do not belong together.
    """
    check_keywords(options, from_vectors)
    limit, folder = MemoryLimit(options.get("memory_limit")), scratch_folder(options.get("scratch"), path)
    reader = _Recorded(open_vectors(vectors, memory_limit=limit, scratch=folder))
    given: Any = options.get("ids")
    ids = reader.ids if given is None else given

    def words() -> Iterator[str]:  # asked for when all vectors are read: only then some files know them
        yield from _checked_terms(reader.terms if terms is None else terms, encoder)

    index = build(
        reader,
        path=path,
        terms=terms if encoder is None else words(),
        texts=None if texts is None else _Matched(texts, ids),
        encoder=None if encoder is None else description(encoder),
        **options,
    )
    return with_encoder(index, encoder)


def with_encoder(index: Index, encoder: Encoder | None) -> Index:
    """Let an index that was just built use the encoder at hand; of BM25 it has its own, which learns nothing else."""
    if encoder is not None and not isinstance(encoder, BM25):
        index.encoder = encoder
    return index


def _scratch(options: Mapping[str, Any]) -> Path | None:
    """Return the folder for scratch files that was asked for."""
    return None if options.get("scratch") is None else scratch_folder(options["scratch"], None)


# --- texts -----------------------------------------------------------------------------------------------------------


def _documents(texts: object) -> Iterable[Document]:
    """Return texts in memory as documents that can be gone through twice: to be encoded, and to be kept."""
    if is_frame(texts):
        return _Documents(partial(frame_records, texts), len(texts))  # type: ignore[arg-type]
    if is_series(texts):
        return _Documents(partial(series_records, texts), len(texts))  # type: ignore[arg-type]
    if isinstance(texts, Mapping):
        return _Documents(partial(mapping_records, texts), len(texts))
    if isinstance(texts, Iterable) and not isinstance(texts, bytes):
        again = list(texts) if isinstance(texts, Iterator) else texts
        count = len(again) if isinstance(again, Sequence) else getattr(again, "num_docs", None)
        return _Documents(partial(_each, again), count)
    raise InputError(
        expected=("texts as a path, an ir_datasets id, an iterable of texts, a DataFrame or a mapping of id to text"),
        got=type(texts).__name__,
    )


class _Documents:
    """Records as documents; where none has an id, they are called by their rows."""

    def __init__(self, records: Callable[[], Iterator[tuple[object, Any]]], num_docs: int | None) -> None:
        self._records = records
        self.num_docs = num_docs

    def __iter__(self) -> Iterator[Document]:
        numbered: bool | None = None
        for row, (place, given) in enumerate(self._records()):
            is_document = isinstance(given, Document)
            record = given if is_document else with_known_names(given, place)
            name = checked_id(given.id, place) if is_document else find_id(record, place)
            numbered = name is None if numbered is None else numbered
            check_all_or_none(name, place, numbered=numbered)
            yield given if is_document else document_of(record, str(row) if name is None else name, place)


def _each(texts: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the texts of an iterable, each with its place."""
    for row, text in enumerate(texts):
        place = f"document {row}"
        if isinstance(text, str):
            yield place, {"text": text}
        elif isinstance(text, (Document, Mapping)):
            yield place, text
        else:
            got = "null" if is_missing(text) else type(text).__name__
            raise InputError(where=place, expected="a string, a Document or a mapping with 'text'", got=got)


class _Untitled:
    """Documents without their titles."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = documents
        self.num_docs = getattr(documents, "num_docs", None)

    def __iter__(self) -> Iterator[Document]:
        return (document._replace(title="") for document in self._documents)


# --- vectors of texts ------------------------------------------------------------------------------------------------


class EncodedTexts:
    """Documents as a `VectorReader` for `build`; what learns its vocabulary on the way begins with fewer columns."""

    def __init__(self, documents: Iterable[Document], encoder: Encoder, scratch: Path | None = None) -> None:
        self._documents = documents
        self._encoder = encoder
        self._scratch = scratch
        self._encoded: Iterator[EncodedBatch] | None = None
        self._count: int | None = getattr(documents, "num_docs", None)
        self.pooled: _Pooled | None = None  # what else wants what the encoder gives

    @property
    def terms(self) -> Sequence[str]:
        """The vocabulary so far."""
        return self._encoder.vocabulary

    @property
    def num_docs(self) -> int | None:
        """Not known before `prepare`."""
        return None

    def prepare(self, told: Progress) -> int | None:
        """Count the words of all documents, if that has to be done before the first one has a vector."""
        if isinstance(self._encoder, BM25):
            with told.stage("count", self._count, "documents") as stage:
                self._encoded = self._encoder.learn_documents(
                    batched(self._documents), stage.advance, scratch=self._scratch
                )
            return self._encoder.num_docs
        return self._count

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        encoded = self._encoded or self._encoder.encode_documents(batched(self._documents))
        for batch in encoded:
            if self.pooled is not None:
                self.pooled.append(batch)
            yield VectorBatch(batch.ids, matrix_to_csr(batch.vectors))


def _checked_pooling(cluster_by: str, cluster_options: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option that an encoder needs so that documents can be clustered this way."""
    checked_choice("cluster_by", cluster_by, CLUSTER_BY)
    if cluster_by != "sparse":
        if options.get("clusters") is not None:
            raise ConfigError(expected="one of clusters and cluster_by", got=f"both (cluster_by={cluster_by!r})")
        return {"pooling": (cluster_by,)}
    if cluster_options:
        msg = f"cluster_options are for cluster_by={' or '.join(map(repr, POOLINGS))}; pass clusters=Sparse(...)"
        raise ConfigError(msg)
    return {}


def _pooled(encoder: Encoder, name: str, folder: Path, options: Mapping[str, Any]) -> _Pooled:
    if isinstance(encoder, BM25):
        msg = f"BM25 has no token embeddings to cluster by (cluster_by={name!r}): choose a model, or 'sparse'"
        raise ConfigError(msg)
    pooling = getattr(encoder, "pooling", None)
    if pooling is not None and name not in pooling:
        msg = f"expected an encoder that pools {name!r} for cluster_by={name!r}; make it with pooling={name!r}"
        raise ConfigError(msg)
    return _Pooled(name, folder, options)


class _Pooled(Representation):
    """Cluster by pooled embeddings, which wait in a scratch file while documents are encoded."""

    def __init__(self, name: str, folder: Path, options: Mapping[str, Any]) -> None:
        self._name = name
        self._options = dict(options)
        self._folder = folder
        self._file: ScratchFile | None = None
        self._shape = (0, 0)
        self._dense = Dense(np.zeros((1, 1)), **self._options)  # checks the options now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.__exit__()

    def append(self, batch: EncodedBatch) -> None:
        """Keep the embeddings of some documents."""
        if self._name not in batch.dense:
            raise ConfigError(
                expected=f"the encoder to pool {self._name!r}", got=f"{', '.join(batch.dense) or 'nothing'} of it"
            )
        part: NDArray[np.float32] = np.asarray(batch.dense[self._name], dtype=np.float32)
        if self._file is None:
            self._file = ScratchFile(self._folder)
        self._file.write(part)
        self._shape = (self._shape[0] + len(part), part.shape[1])

    def check(self, num_docs: int) -> None:
        """Take the embeddings of all documents, now that there are so many."""
        assert self._file is not None  # a collection without documents raises before
        (values,) = self._file.mapped([(np.float32, self._shape[0] * self._shape[1])])
        self._dense = Dense(values.reshape(self._shape), **self._options)
        self._dense.check(num_docs)

    def labels(self, job: ClusterJob) -> NDArray[np.int64]:
        """Return a cluster label per row."""
        return self._dense.labels(job)

    def to_dict(self) -> dict[str, Any]:
        """Return what the index records about it, as plain values."""
        return {**self._dense.to_dict(), "pooling": self._name}


# --- vectors that are encoded already --------------------------------------------------------------------------------


class _Recorded(WrappedVectors):
    """A reader of vectors that remembers their ids."""

    def __init__(self, reader: VectorReader) -> None:
        super().__init__(reader)
        self.ids: list[str] | None = [] if self.has_ids else None

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        for batch in self._reader.batches():
            if self.ids is not None:
                self.ids += batch.ids
            yield batch


class _Matched:
    """Texts that have to be those of the documents, one after the other."""

    def __init__(self, texts: str | os.PathLike[str], ids: Sequence[Any] | None) -> None:
        self._name = os.fspath(texts)
        self._texts = open_texts(texts)
        self._ids = ids

    def __iter__(self) -> Iterator[Document]:
        for row, document in enumerate(self._texts):
            if self._ids is not None and row < len(self._ids) and document.id != str(self._ids[row]):
                raise InputError(
                    where=f"'{self._name}'",
                    expected=f"the text of document {str(self._ids[row])!r} in place {row}",
                    got=f"{document.id!r}",
                    hint="give the texts that the vectors were made of, in the same order",
                )
            yield document


def _checked_terms(terms: Iterable[str] | None, encoder: Encoder | None) -> list[str]:
    """Return the terms of the vectors, if the encoder can have made them."""
    if terms is None:
        msg = "expected vectors that name their terms by word, as segmax encode writes them, for the encoder; got none"
        raise InputError(msg)
    found, known = list(terms), list(encoder.vocabulary if encoder is not None else ())
    if isinstance(encoder, BM25):  # an index counts the words of queries by its own vocabulary
        words = set(known)
        other = next((term for term in found if term not in words), None)
    else:
        other = next((one for one, two in zip(found, known, strict=False) if one != two), None)
        if other is None and len(found) != len(known):
            other = f"{len(found)} terms"
    if other is not None:
        msg = (
            f"the encoder did not make these vectors: they have {other!r}, where it has another term of its "
            f"{len(known)}; give the one that did, and its vectors as .npz, which keeps all terms in order"
        )
        raise InputError(msg)
    return found
