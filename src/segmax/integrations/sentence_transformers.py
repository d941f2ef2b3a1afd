"""sentence-transformers: a search function beside those that the package has for other engines.

Its embeddings are torch sparse tensors, which segmax takes as they are; nothing here imports torch or the package.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp

from segmax.base.errors import InputError
from segmax.base.vocabulary import GrowingVocabulary
from segmax.building.builder import build
from segmax.integrations.sources import opened
from segmax.search.index import Index
from segmax.search.protocol import Searchable
from segmax.vectors.csr import Csr, is_matrix, matrix_to_csr
from segmax.vectors.rows import join_rows

#: One list per query, best first: [{"corpus_id": 7, "score": 1.5}, ...].
Results = list[list[dict[str, int | float]]]

#: What `SparseEncoder.decode` makes of one embedding.
Decoded = Sequence[tuple[str, float]]


@overload
def semantic_search_segmax(
    query_embeddings: object = ...,
    corpus_embeddings: object = ...,
    corpus_index: Searchable | str | os.PathLike[str] | None = ...,
    top_k: int = ...,
    output_index: Literal[False] = ...,
    index_kwargs: Mapping[str, Any] | None = ...,
    search_kwargs: Mapping[str, Any] | None = ...,
    *,
    query_embeddings_decoded: object = ...,
    corpus_embeddings_decoded: object = ...,
) -> tuple[Results, float]: ...


@overload
def semantic_search_segmax(
    query_embeddings: object = ...,
    corpus_embeddings: object = ...,
    corpus_index: Searchable | str | os.PathLike[str] | None = ...,
    top_k: int = ...,
    *,
    output_index: Literal[True],
    index_kwargs: Mapping[str, Any] | None = ...,
    search_kwargs: Mapping[str, Any] | None = ...,
    query_embeddings_decoded: object = ...,
    corpus_embeddings_decoded: object = ...,
) -> tuple[Results, float, Searchable]: ...


@overload
def semantic_search_segmax(
    query_embeddings: object = ...,
    corpus_embeddings: object = ...,
    corpus_index: Searchable | str | os.PathLike[str] | None = ...,
    top_k: int = ...,
    output_index: bool = ...,
    index_kwargs: Mapping[str, Any] | None = ...,
    search_kwargs: Mapping[str, Any] | None = ...,
    *,
    query_embeddings_decoded: object = ...,
    corpus_embeddings_decoded: object = ...,
) -> tuple[Results, float] | tuple[Results, float, Searchable]: ...


def semantic_search_segmax(
    query_embeddings: object = None,
    corpus_embeddings: object = None,
    corpus_index: Searchable | str | os.PathLike[str] | None = None,
    top_k: int = 10,
    output_index: bool = False,
    index_kwargs: Mapping[str, Any] | None = None,
    search_kwargs: Mapping[str, Any] | None = None,
    *,
    query_embeddings_decoded: object = None,
    corpus_embeddings_decoded: object = None,
) -> tuple[Results, float] | tuple[Results, float, Searchable]:
    """Search sparse embeddings, by the contract of `semantic_search_seismic` and its like in sentence-transformers.

    Parameters
    ----------
    query_embeddings
        What `SparseEncoder.encode` returns: a sparse tensor (COO or CSR, on any device, half precision or not), a list
        of them, or a single embedding; scipy matrices do as well. Or what `SparseEncoder.decode` makes of these: lists
        of (token, weight).
    corpus_embeddings
        The documents, in the same form as the queries; not looked at if there is a `corpus_index`.
    corpus_index
        An index from an earlier call, or any other, also at a service (`segmax.connect`), or its path or address.
    top_k
        How many documents per query; those that share no token with it are never among them.
    output_index
        Return the index as well, for the next call.
    index_kwargs
        Options of `segmax.build`, such as `path`.
    search_kwargs
        Options of `Index.search_batch`, such as `params`, `target_recall` or `threads`; by default the search is exact.
    query_embeddings_decoded, corpus_embeddings_decoded
        Other names for the first two, as the functions for Seismic, Elasticsearch and OpenSearch have them.

    Returns
    -------
    results
        A list per query, best first, of {"corpus_id": row of the corpus, "score": its dot product with the query}.
    seconds
        How long searching took, without building.
    index
        Only if `output_index`.

    Raises
    ------
    InputError
        If there are no queries, neither a corpus nor an index, something twice, or what does not fit together.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> corpus = sp.csr_matrix([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]])
    >>> results, seconds = semantic_search_segmax(sp.csr_matrix([[0.0, 0.0, 1.0]]), corpus, top_k=1)
    >>> results
    [[{'corpus_id': 0, 'score': 2.0}]]
    """
    queries = _either("query_embeddings", query_embeddings, query_embeddings_decoded)
    corpus = _either("corpus_embeddings", corpus_embeddings, corpus_embeddings_decoded)
    if queries is None:
        raise InputError(expected="query_embeddings", got="none")
    index: Searchable
    if corpus_index is not None:
        index = opened(corpus_index)
    elif corpus is not None:
        index = _built(corpus, dict(index_kwargs or {}))
    else:
        raise InputError(expected="corpus_embeddings or corpus_index", got="neither")
    start = time.perf_counter()
    found = index.search_batch(_queries(queries, index), top_k, **dict(search_kwargs or {}))
    results: Results = [
        [
            {"corpus_id": row, "score": score}
            for row, score in zip(hits.rows.tolist(), hits.scores.tolist(), strict=True)
        ]
        for hits in found
    ]
    seconds = time.perf_counter() - start
    return (results, seconds, index) if output_index else (results, seconds)


def _either(name: str, value: object, decoded: object) -> object:
    """Return what was given under one of its two names."""
    if value is not None and decoded is not None:
        raise InputError(expected=f"{name} or {name}_decoded", got="both")
    return decoded if value is None else value


def _built(corpus: object, options: dict[str, Any]) -> Index:
    if is_matrix(corpus):
        return build(corpus, **options)
    items = _items(corpus, "corpus_embeddings")
    if _are_decoded(items):
        words = GrowingVocabulary()
        vectors = _numbered(_rows(items), words)
        return build(vectors, **{"terms": words.terms, **options})
    return build(_stacked(items, "corpus_embeddings"), **options)


def _queries(queries: object, index: Searchable) -> Any:
    """Return queries as `Index.search_batch` takes them, made sure to speak of the columns of the index."""
    if not is_matrix(queries):
        items = _items(queries, "query_embeddings")
        if _are_decoded(items):
            return [_summed(row) for row in _pairs(_rows(items))]
        queries = _stacked(items, "query_embeddings")
    csr = matrix_to_csr(queries)
    if csr.num_columns != index.num_terms:
        raise InputError(
            expected=f"queries of {index.num_terms} columns, as the index has",
            got=csr.num_columns,
            hint="embed both sides with one model, and give both as tensors or both decoded",
        )
    return _as_scipy(csr)


def _items(embeddings: object, name: str) -> Sequence[Any]:
    if isinstance(embeddings, Sequence) and not isinstance(embeddings, (str, bytes)):
        return embeddings
    raise InputError(
        expected=f"{name} as a sparse tensor, a list of them, or lists of (token, weight)",
        got=type(embeddings).__name__,
    )


def _are_decoded(items: Sequence[Any]) -> bool:
    return not any(is_matrix(item) for item in items)


def _rows(items: Sequence[Any]) -> Sequence[Decoded]:
    """Return decoded embeddings as a list of lists; `decode` makes a plain list of a single one."""
    is_single = len(items) > 0 and isinstance(items[0], tuple) and len(items[0]) == 2 and isinstance(items[0][0], str)
    return [items] if is_single else items


def _pairs(rows: Sequence[Decoded]) -> Iterator[Decoded]:
    """Yield rows that are checked to be lists of (token, weight)."""
    for number, row in enumerate(rows):
        wrong = next((p for p in row if not (isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str))), None)
        if wrong is not None:
            raise InputError(expected="(token, weight) in a decoded embedding", got=f"{wrong!r} in row {number}")
        yield row


def _numbered(rows: Sequence[Decoded], words: GrowingVocabulary) -> sp.csr_matrix:
    """Return decoded embeddings as a matrix; words are numbered as they come."""
    terms, weights, ends = array("q"), array("d"), array("q", [0])
    for row in _pairs(rows):
        terms.extend(words.number(token) for token, _ in row)
        weights.extend(weight for _, weight in row)
        ends.append(len(terms))
    shape = (len(ends) - 1, len(words))
    return sp.csr_matrix((np.array(weights), np.array(terms), np.array(ends)), shape=shape)


def _summed(row: Decoded) -> dict[str, float]:
    """Return a decoded query as a mapping; a token that occurs twice counts twice."""
    query: dict[str, float] = {}
    for token, weight in row:
        query[token] = query.get(token, 0.0) + weight
    return query


def _stacked(items: Sequence[Any], name: str) -> sp.csr_matrix:
    """Return single embeddings as the rows of one matrix."""
    parts = [matrix_to_csr(item) for item in items]
    widths = {part.num_columns for part in parts}
    if len(widths) > 1:
        raise InputError(expected=f"{name} of one width", got=sorted(widths))
    return _as_scipy(join_rows(parts, widths.pop()))


def _as_scipy(csr: Csr) -> sp.csr_matrix:
    return sp.csr_matrix((csr.values, csr.indices, csr.indptr), shape=(csr.num_rows, csr.num_columns))
