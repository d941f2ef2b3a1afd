"""From texts to an index in one go (read, encode, build), or from vectors that are encoded already."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from segmax.building.given_texts import MatchedTexts
from segmax.building.resources import open_resources, scratch_folder
from segmax.encoders import Encoder, LearningEncoder, as_encoder
from segmax.io import open_texts, open_vectors
from segmax.io.frames import is_frame
from segmax.search.index import Index
from segmax.text.documents import KeptTexts, read_documents
from segmax.text.encoded import EncodedTexts
from segmax.text.fields import chosen_fields
from segmax.text.settling import settled

if TYPE_CHECKING:
    from segmax.vectors.types import Frame, Texts  # loads what only annotations need

#: What documents can be clustered by while they are encoded.
CLUSTERINGS = ("sparse", "max", "mean", "cls")


def from_texts(
    texts: Texts,
    *,
    encoder: object = "bm25",
    path: str | os.PathLike[str] | None = None,
    keep_texts: bool = True,
    metadata: str | Iterable[object] | Mapping[Any, object] | Frame | None = None,
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
        "bm25", the name or folder of a model, a `SparseEncoder` of sentence-transformers, or an encoder. On a CPU, a
        model whose `dtype` is left open computes in 8 bits where that is near enough to float32 on the first texts
        (docs/encoders.md).
    path
        Where to write the index; None keeps it in memory.
    keep_texts
        Store the texts with the index, so that results come back with them.
    metadata
        What documents are described by, to filter searches by it: as for `segmax.build`, or which other members of
        records, or columns, to keep: "all", or a list of names. "year:int" also says the type of what a file of columns
        has as a string: int, float, bool or string.
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
    >>> index = from_texts([{"text": "copper", "year": 2019}, {"text": "copper", "year": 2024}], metadata=["year"])
    >>> index.search("copper", where={"year": {"$gte": 2020}}).metadata
    [{'year': 2024}]
    """
    check_keywords(options, from_texts)
    kind = _clustering(clustering)
    target = None if path is None else checked_path("path", path)
    documents = read_documents(texts, scratch_folder(options.get("scratch"), target))
    fields = chosen_fields(metadata)
    if fields is not None and is_frame(texts):
        metadata, fields = fields.of_frame(texts), None
    made = _made(encoder, kind.pooling)
    source = settled(made, documents, title=title)
    with open_resources(target, options) as resources, contextlib.ExitStack() as stack:
        kept = None
        if keep_texts or fields is not None:
            kept = stack.enter_context(KeptTexts(source, resources.folder, texts=keep_texts, fields=fields))
        request = BuildRequest(
            path=target,
            overwrite=options.get("overwrite", False),
            ids=options.get("ids"),
            texts=kept.texts() if kept is not None and keep_texts else None,
            metadata=kept.metadata() if kept is not None and fields is not None else metadata,
            encoder=made.to_dict(),
            clustering=kind,
            segments=options.get("segments"),
            config=effective_config(options.get("config"), options),
        )
        vectors = EncodedTexts(source if kept is None else kept, made, resources, title=title)
        index = build_index(vectors, request, resources)
    return with_encoder(index, made)


def from_vectors(
    vectors: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    encoder: Encoder | None = None,
    texts: str | os.PathLike[str] | None = None,
    metadata: Iterable[object] | Mapping[Any, object] | Frame | None = None,
    path: str | os.PathLike[str] | None = None,
    terms: Iterable[str] | None = None,
    clustering: Clustering | ArrayLike | None = None,
    **options: Unpack[BuildKeywords],
) -> Index:
    """Build an index from files that `segmax.text.encode_texts` wrote; with an encoder it can be searched with text.

    Parameters
    ----------
    vectors
        A file of vectors, or several.
    encoder
        The encoder that made them, to encode queries: a saved `BM25`, or a model. Its vocabulary has to be that of the
        files.
    texts
        The texts to store, as `segmax.io.open_texts` reads them: the same documents in the same order.
    metadata, path, terms, clustering, options
        As in `segmax.build`.

    Raises
    ------
    InputError
        Vectors, texts and encoder do not belong together.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from segmax.encoders import BM25
    >>> from segmax.io import Document
    >>> from segmax.text import encode_texts
    >>> done = encode_texts("bm25", [Document("d1", "", "a copper waveguide")], Path(tempfile.mkdtemp(), "docs.npz"))
    >>> index = from_vectors(done.path, encoder=BM25.load(done.encoder))
    >>> index.search("copper").ids
    ['d1']
    """
    check_keywords(options, from_vectors)
    limit, folder = MemoryLimit(options.get("memory_limit")), scratch_folder(options.get("scratch"), path)
    reader = open_vectors(vectors, memory_limit=limit, scratch=folder)

    def words() -> Iterator[str]:  # read after all vectors: some files know their terms only then
        yield from _checked_terms(reader.terms if terms is None else terms, encoder)

    index = build(
        reader,
        path=path,
        terms=terms if encoder is None else words(),
        texts=None if texts is None else MatchedTexts(open_texts(texts), os.fspath(texts)),
        metadata=metadata,
        encoder=None if encoder is None else encoder.to_dict(),
        clustering=clustering,
        **options,
    )
    return with_encoder(index, encoder)


def with_encoder(index: Index, encoder: Encoder | None) -> Index:
    """Let an index that was just built use the encoder at hand.

    An encoder that learns may learn other documents later, so the index makes one of its own.
    """
    if encoder is not None and not isinstance(encoder, LearningEncoder):
        index.encoder = encoder
    return index


def _clustering(clustering: str | Clustering | ArrayLike | None) -> Clustering:
    """Return what documents are clustered by, which may be given as a word."""
    if not isinstance(clustering, str):
        return as_clustering(clustering)
    checked_choice("clustering", clustering, CLUSTERINGS)
    return Sparse() if clustering == "sparse" else Pooled(clustering)


def _made(encoder: object, pooling: str | None) -> Encoder:
    """Return the encoder; raise ConfigError if it does not pool token embeddings the way that is asked for."""
    if pooling is None:
        return as_encoder(encoder)
    made = as_encoder(encoder, pooling=(pooling,))
    if pooling not in made.pooling:
        raise ConfigError(
            option="encoder",
            expected=f"one that pools token embeddings by {pooling!r}, for clustering={pooling!r}",
            got=f"{made!r}, which pools {', '.join(made.pooling) or 'none'}",
            hint=f"make a model with pooling={pooling!r}",
        )
    return made


def _checked_terms(terms: Iterable[str] | None, encoder: Encoder | None) -> list[str]:
    """Return the terms of the vectors; raise InputError if the encoder did not make them."""
    if terms is None:
        raise InputError(
            expected="vectors that name their terms by word, because there is an encoder",
            got="terms that are numbers",
            hint="segmax encode writes such vectors",
        )
    found, known = list(terms), list(encoder.vocabulary if encoder is not None else ())
    if isinstance(encoder, LearningEncoder):  # an index counts the words of queries by its own vocabulary
        words = set(known)
        other = next((term for term in found if term not in words), None)
    else:
        other = next((one for one, two in zip(found, known, strict=False) if one != two), None)
        if other is None and len(found) != len(known):
            other = f"{len(found)} terms"
    if other is not None:
        raise InputError(
            expected=f"vectors that the encoder made, with its {len(known)} terms in their order",
            got=f"{other!r} instead of one of them",
            hint="give the encoder that made the vectors, and these as .npz, which keeps terms in order",
        )
    return found
