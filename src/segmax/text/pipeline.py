"""From texts to an index in one go, read, encode, build; or the last step alone, for vectors that are encoded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from numpy.typing import ArrayLike

from segmax.base.checks import checked_choice, checked_path
from segmax.base.errors import ConfigError, InputError
from segmax.base.memory import MemoryLimit
from segmax.building.builder import (
    BuildKeywords,
    BuildRequest,
    as_clustering,
    build,
    build_index,
    check_keywords,
    effective_config,
)
from segmax.building.clustering import Clustering, Pooled, Sparse
from segmax.building.resources import BuildResources, open_resources, scratch_folder
from segmax.encoders import BM25, Encoder, as_encoder, description
from segmax.encoders.chunks import batched
from segmax.io import Document, VectorBatch, VectorReader, open_texts, open_vectors
from segmax.io.frames import frame_records, is_frame, is_series, mapping_records, series_records
from segmax.io.records import check_all_or_none, checked_id, document_of, find_id, is_missing, with_known_names
from segmax.search.index import Index
from segmax.vectors.csr import matrix_to_csr
from segmax.vectors.documents import WrappedVectors

if TYPE_CHECKING:
    from segmax.vectors.types import Texts  # loads what only annotations need

#: What documents can be clustered by while they are encoded.
CLUSTERINGS = ("sparse", "max", "mean", "cls")


def from_texts(
    texts: Texts,
    *,
    encoder: object = "bm25",
    path: str | os.PathLike[str] | None = None,
    keep_texts: bool = True,
    title: bool = True,
    clustering: str | Clustering | ArrayLike | None = None,
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
    clustering
        What documents are clustered by: "sparse" (the default), the vectors themselves; "max", "mean" or "cls", a
        model's token embeddings, pooled in the same pass; or what `segmax.build` takes, `Pooled("max", dimensions=64)`
        for instance. An encoder that you made yourself needs that `pooling`.
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
    kind = _clustering(clustering)
    folder = scratch_folder(options.get("scratch"), path)
    reader = open_texts(texts, scratch=folder) if isinstance(texts, (str, os.PathLike)) else _documents(texts)
    made = as_encoder(encoder) if kind.pooling is None else as_encoder(encoder, pooling=(kind.pooling,))
    if kind.pooling is not None:
        _check_pools(made, kind.pooling)
    request = BuildRequest(
        path=None if path is None else checked_path("path", path),
        overwrite=options.get("overwrite", False),
        ids=options.get("ids"),
        texts=reader if keep_texts else None,
        encoder=description(made),
        clustering=kind,
        segments=options.get("segments"),
        config=effective_config(options.get("config"), options),
    )
    with open_resources(request.path, options) as resources:
        vectors = EncodedTexts(reader if title else _Untitled(reader), made, resources)
        index = build_index(vectors, request, resources)
    return with_encoder(index, made)


def from_vectors(
    vectors: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    encoder: Encoder | None = None,
    texts: str | os.PathLike[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    terms: Iterable[str] | None = None,
    clustering: Clustering | ArrayLike | None = None,
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
    path, terms, clustering, options
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
        clustering=clustering,
        **options,
    )
    return with_encoder(index, encoder)


def with_encoder(index: Index, encoder: Encoder | None) -> Index:
    """Let an index that was just built use the encoder at hand; of BM25 it has its own, which learns nothing else."""
    if encoder is not None and not isinstance(encoder, BM25):
        index.encoder = encoder
    return index


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

    def __init__(self, documents: Iterable[Document], encoder: Encoder, resources: BuildResources) -> None:
        self._documents = documents
        self._encoder = encoder
        self._resources = resources
        self._count: int | None = getattr(documents, "num_docs", None)

    @property
    def terms(self) -> Sequence[str]:
        """The vocabulary so far."""
        return self._encoder.vocabulary

    @property
    def num_docs(self) -> int | None:
        """How many there are, where that is known."""
        return self._count

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once; what has to be learned from all documents is learned in this call."""
        batches = batched(self._documents)
        if isinstance(self._encoder, BM25):
            with self._resources.progress.stage("count", self._count, "documents") as stage:
                encoded = self._encoder.learn_documents(batches, stage.advance, scratch=self._resources.folder)
            self._count = self._encoder.num_docs
        else:
            encoded = self._encoder.encode_documents(batches)
        return (VectorBatch(batch.ids, matrix_to_csr(batch.vectors), batch.dense) for batch in encoded)


def _clustering(clustering: str | Clustering | ArrayLike | None) -> Clustering:
    """Return what documents are clustered by, which may be given as a word."""
    if not isinstance(clustering, str):
        return as_clustering(clustering)
    checked_choice("clustering", clustering, CLUSTERINGS)
    return Sparse() if clustering == "sparse" else Pooled(clustering)


def _check_pools(encoder: Encoder, name: str) -> None:
    """Raise ConfigError if an encoder does not pool its token embeddings this way."""
    if isinstance(encoder, BM25):
        raise ConfigError(
            option="clustering",
            expected="'sparse' or vectors or labels of your own with BM25, which has no token embeddings",
            got=f"{name!r}",
        )
    pooling = getattr(encoder, "pooling", None)
    if pooling is not None and name not in pooling:
        raise ConfigError(
            option="encoder",
            expected=f"one that pools {name!r}, for clustering={name!r}",
            got=f"one that pools {', '.join(pooling) or 'nothing'}",
            hint=f"make it with pooling={name!r}",
        )


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
