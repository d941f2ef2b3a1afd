"""The index that users see: describe, search, tune, explain, save. What it does is in the modules beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.checks import check_listed, checked_path
from segmax.base.display import counted, printable
from segmax.base.errors import IndexClosedError, SegmaxError, UnknownIdError
from segmax.metadata import Metadata, Scalar, Where
from segmax.search.arguments import EXACT, MOST_RESULTS, checked_k, core_params, input_error, num_threads, per_query
from segmax.search.calibration import Calibration, Expectation
from segmax.search.engine import Engine, check_environment
from segmax.search.explain import explain
from segmax.search.inside import InsideView, inside
from segmax.search.methods import ASC, SearchParams
from segmax.search.queries import Filter, FilterCache, FilterParser, Kept, Wanted, best, grouped, matching
from segmax.search.results import BatchHits, ClusterBounds, Explanation, Groups, Hits
from segmax.search.tuning import Targets, measured_on
from segmax.storage.config import BuildConfig
from segmax.storage.meta import META_NAME
from segmax.storage.reading import index_errors
from segmax.storage.tables import TextTable, no_metadata
from segmax.storage.texts import StoredText, TextList, Texts
from segmax.storage.writing import save_index, update_meta
from segmax.vectors.csr import Csr, is_matrix
from segmax.vectors.documents import DocId
from segmax.vectors.pruning import QueryThreshold, prune_queries, prune_query
from segmax.vectors.queries import query_arrays, query_batch, query_list, row_arrays
from segmax.vectors.rows import to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp

    from segmax.encoders.base import Encoder
    from segmax.vectors.types import Queries, Query  # loads what only annotations need
else:
    from segmax.base.optional import scipy_sparse as sp


class Index:
    """A clustered sparse index, in memory or mapped from disk. Threads can share it freely: only `tune` changes it.

    `segmax.build` and `segmax.open` return one. It is a context manager that closes the index on exit.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> with segmax.build(sp.csr_matrix([[3, 0, 2], [1, 4, 0]]), terms=["red", "green", "blue"]) as index:
    ...     index.search({"red": 2, "blue": 1}, k=1).ids
    [0]
    """

    def __init__(
        self, meta: Mapping[str, Any], arrays: dict[str, NDArray[Any]], path: Path | None, *, preload: bool = False
    ) -> None:
        check_environment()
        self._meta = dict(meta)
        self._path = path
        self._preload = preload
        self._encoder: Encoder | None = None
        self._encoder_name: str | None = None
        with index_errors(path):
            self._opened: Engine | None = Engine.from_arrays(meta, arrays, path)
            self._ids, self._terms, self._labels = self._opened.ids, self._opened.terms, self._opened.labels
            self._lookup = None if self._terms is None else self._terms.find
            self._num_postings = int(meta["num_postings"])
            self._quantization_error = float(meta["quantization_error"])
            self.config = BuildConfig.from_dict(meta["config"])
            self._targets = Targets(Calibration.from_list(meta.get("calibration", ())))
            self._prunes_queries = any(isinstance(step, QueryThreshold) for step in self.config.pruning)
        self._filters = FilterParser()
        self._masks: FilterCache[Kept] = FilterCache()

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """Where the index is on disk; None for an index in memory."""
        return self._path

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return self._engine.core.num_docs

    @property
    def num_terms(self) -> int:
        """The number of columns of the vectors."""
        return self._engine.core.num_terms

    @property
    def num_clusters(self) -> int:
        """The number of clusters that have documents."""
        return self._engine.core.num_clusters

    @property
    def num_segments(self) -> int:
        """The number of segments per cluster."""
        return self._engine.core.num_segments

    @property
    def num_postings(self) -> int:
        """The number of stored weights."""
        return self._num_postings

    @property
    def bits(self) -> int:
        """Bits per stored weight."""
        return int(self._meta["code_bytes"]) * 8

    @property
    def quantization_error(self) -> float:
        """What coding the weights lost: the sum of absolute errors over the sum of weights."""
        return self._quantization_error

    @property
    def num_bytes(self) -> int:
        """The size of all components."""
        return sum(self.sizes().values())

    def sizes(self) -> dict[str, int]:
        """Return the size of each component in bytes."""
        return {name: array.nbytes for name, array in self._open_arrays.items()}

    def cluster_sizes(self) -> NDArray[np.uint32]:
        """Return the number of documents in each cluster."""
        return self._engine.core.cluster_sizes()

    def __len__(self) -> int:
        return self.num_docs

    def __repr__(self) -> str:
        if self._opened is None:
            return "Index(closed)"
        where = f"'{printable(self._path)}'" if self._path else "in memory"
        return (
            f"Index({where}: {counted(self.num_docs, 'document')}, {counted(self.num_postings, 'posting')}, "
            f"{counted(self.num_clusters, 'cluster')} x {counted(self.num_segments, 'segment')}, {self.bits} bits)"
        )

    # --- words and texts ---------------------------------------------------------------------------------------------

    @property
    def texts(self) -> Texts | TextList | None:
        """The stored titles and texts by row; None if the index stores none."""
        return self._ids.stored

    @property
    def terms(self) -> TextTable | None:
        """The words of the columns by number; None if the index has no vocabulary."""
        return self._terms

    def text(self, id: DocId) -> StoredText:
        """Return the title and text of a document; raise InputError if the index stores none."""
        return self._ids.text_of(self._ids.row_of(id))

    @property
    def encoder(self) -> Encoder:
        """What turns text into queries: the encoder assigned here or passed to `segmax.open`, otherwise stored BM25.

        Assign anything that `segmax.open` takes as `encoder`. An index never loads a model on its own, because the
        index could come from anybody.
        """
        if self._encoder is None:
            self._encoder = self.encoder_for(None)
        return self._encoder

    @encoder.setter
    def encoder(self, encoder: object) -> None:
        self._encoder = None if encoder is None else self.encoder_for(encoder)
        self._encoder_name = name_anywhere(encoder) if isinstance(encoder, (str, os.PathLike)) else None

    def encoder_for(self, encoder: object) -> Encoder:
        """Return the encoder that a name, a folder or an object stands for, checked against what made the vectors.

        Parameters
        ----------
        encoder
            As for `segmax.open`.
        """
        from segmax.encoders.stored import encoder_for_index  # needs heavy or optional packages

        where = "the index" if self._path is None else f"'{self._path / META_NAME}'"
        return encoder_for_index(encoder, self._meta.get("encoder"), self._terms, where)

    @property
    def encoder_description(self) -> dict[str, Any] | None:
        """What the index records about the encoder that made its vectors; None if it records nothing."""
        found = self._meta.get("encoder")
        return None if found is None else dict(found)

    # --- metadata ----------------------------------------------------------------------------------------------------

    @property
    def fields(self) -> dict[str, tuple[str, ...]]:
        """The fields of the metadata, and the kinds of values in each; empty if the index stores none."""
        metadata = self._engine.metadata
        return {} if metadata is None else metadata.fields

    def metadata(self, id: DocId) -> dict[str, Any] | None:
        """Return the metadata of a document; raise InputError if the index stores none."""
        return self._ids.metadata_of(self._ids.row_of(id))

    def count(self, where: Filter | None = None) -> int:
        """Return how many documents a filter matches; without one, how many there are.

        Examples
        --------
        >>> import segmax
        >>> index = segmax.from_texts(["copper", "diodes"], metadata=[{"year": 2019}, {"year": 2024}])
        >>> index.count({"year": {"$gte": 2020}})
        1
        """
        return self.num_docs if where is None else int(self._kept(self._filters(where)).rows.sum())

    def knows(self, where: Filter) -> bool:
        """Whether it is known already which documents a filter matches; if not, the first search finds out.

        Examples
        --------
        >>> import segmax
        >>> index = segmax.from_texts(["copper", "diodes"], metadata=[{"year": 2019}, {"year": 2024}])
        >>> index.knows({"year": 2024}), index.count({"year": 2024}), index.knows({"year": 2024})
        (False, 1, True)
        """
        return self._masks.has(self._filters(where))

    def facets(self, field: str, where: Filter | None = None, *, limit: int | None = None) -> list[tuple[Scalar, int]]:
        """Count the documents that a filter matches by their value in a field, the most frequent value first.

        A document with a list counts once for each of its distinct elements. Documents with null are counted,
        documents without the field are not.

        Parameters
        ----------
        field
            The field, by its path.
        where
            Which documents to count; None: all.
        limit
            How many values to return; None: all.

        Examples
        --------
        >>> import segmax
        >>> metadata = [{"lang": "en"}, {"lang": "de"}, {"lang": "en"}]
        >>> segmax.from_texts(["copper", "diodes", "noise"], metadata=metadata).facets("lang")
        [('en', 2), ('de', 1)]
        """
        rows = None if where is None else self._kept(self._filters(where)).rows
        return self._needed_metadata.facet(field, rows, limit)

    # --- searching ---------------------------------------------------------------------------------------------------

    @overload
    def search(
        self,
        query: Query,
        k: int = ...,
        params: SearchParams | None = ...,
        *,
        target_recall: float | None = ...,
        trace: bool = ...,
        where: Filter | None = ...,
        offset: int = ...,
        min_score: float | None = ...,
    ) -> Hits: ...

    @overload
    def search(
        self,
        query: Query,
        k: int = ...,
        params: SearchParams | None = ...,
        *,
        target_recall: float | None = ...,
        where: Filter | None = ...,
        offset: int = ...,
        min_score: float | None = ...,
        group_by: str,
        group_size: int = ...,
    ) -> Groups: ...

    def search(
        self,
        query: Query,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        target_recall: float | None = None,
        trace: bool = False,
        where: Filter | None = None,
        offset: int = 0,
        min_score: float | None = None,
        group_by: str | None = None,
        group_size: int = 1,
    ) -> Hits | Groups:
        """Return the k best documents for one query: score descending, then input row ascending.

        Parameters
        ----------
        query
            Text, if the index has an encoder; a CSR row, a torch sparse tensor, a mapping of term (number, or word if
            the index has a vocabulary) to weight, or (indices, values). Weights are real numbers. Repeated terms are
            summed, and so are a word and the number of its column; unknown terms are ignored and counted.
        k
            How many results; documents that share no term with the query are never among them.
        params
            `ASC` (the default, exact), `Exhaustive`, or a method of `segmax.paper`.
        target_recall
            Instead of params: the share of the exact k + offset results to find, on average over queries. `expectation`
            returns what this chooses and why. Where nothing was measured, a search is exact: with a filter, for groups,
            and for fewer or more results than the index is calibrated for.
        trace
            Record decisions about clusters in `hits.trace`, with the bounds and θ that they rest on.
        where
            A filter on the metadata, such as {"year": {"$gte": 2020}}: the results are the k best of the documents that
            it matches.
        offset
            How many of the best results to leave out, for the next page.
        min_score
            The least score of results.
        group_by
            A field: return `Groups`, the best documents of each value. k is then the number of groups. A document with
            a list is in the group of every element, one without a value in none.
        group_size
            How many documents each group has at most.

        Raises
        ------
        InputError
            If the query or the filter is invalid, or there is a filter and the index stores no metadata.
        ConfigError
            If k, the parameters, the target or another option is invalid.

        Examples
        --------
        >>> import segmax
        >>> index = segmax.from_texts({"d1": "a copper waveguide", "d2": "noise in diodes"})
        >>> index.search("copper", k=3, target_recall=0.99).ids
        ['d1']
        """
        terms, weights = self._query(query)
        if type(k) is not int or k < 1:
            k = checked_k(k)
        is_plain = where is None and offset == 0 and min_score is None and group_by is None and group_size == 1
        if is_plain:
            if target_recall is not None:
                params = self._targets.params(k, params, target_recall)
            return self._found(terms, weights, k, core_params(params), trace)
        parsed = None if where is None else self._filters(where)
        wanted = Wanted.checked(parsed, offset, min_score, group_by, group_size)
        if target_recall is not None:
            params = self._targets.params(k, params, target_recall, wanted)

        def search(k: int, where: Where | None, params: SearchParams | None) -> Hits:
            return self._found(terms, weights, k, self._filtered(core_params(params), where), trace)

        if wanted.group_by is not None:
            return grouped(search, self._values, k, wanted, params)
        return best(search, k, wanted, params)

    def _found(
        self,
        terms: NDArray[np.int64],
        weights: NDArray[np.float64],
        k: int,
        params: _core.SearchParams,
        trace: bool,
    ) -> Hits:
        """Search for one query in the core."""
        engine = self._engine
        if trace:
            return engine.trace(terms, weights, k, params, -1)[0]
        core = engine.core
        try:  # not engine.search_one: what it costs to enter a context is seen here
            rows, scores, stats = core.search_one(terms, weights, min(k, core.num_docs), params)
        except ValueError as error:
            raise input_error(error) from error
        return Hits(rows, scores, stats, self._ids)

    def search_batch(
        self,
        queries: Queries,
        k: int | Sequence[int] = 10,
        params: SearchParams | Sequence[SearchParams] | None = None,
        *,
        target_recall: float | None = None,
        threads: int | None = None,
        where: Filter | Sequence[Filter | None] | None = None,
        offset: int = 0,
        min_score: float | None = None,
    ) -> BatchHits:
        """Search many queries: arrays of shape (queries, k), padded with row -1 and score 0.

        The arrays never have more columns than there are documents, however large k is.

        Parameters
        ----------
        queries
            A CSR matrix or torch sparse tensor with a query per row, or an iterable of single queries: a list, a
            generator, an array of texts, a column of a DataFrame. Either all of them are texts or none.
        k, params
            As for `search`, or a sequence with one for each query. The arrays are as wide as the largest k.
        target_recall
            As for `search`; with one k for all queries.
        threads
            How many queries run at the same time; None: one per core. The results do not depend on it.
        where
            As for `search`, or a sequence with one (or None) for each query.
        offset, min_score
            As for `search`, for all queries.

        Examples
        --------
        >>> import segmax
        >>> index = segmax.from_texts({"d1": "a copper waveguide", "d2": "noise in diodes"})
        >>> index.search_batch(["copper", "noise"], k=100).ids
        [['d1'], ['d2']]
        """
        batch = self._batch(queries)
        wanted = Wanted.checked(None, offset, min_score)
        parsed = self._filters
        filters = per_query("where", where, lambda one: None if one is None else parsed(one), batch.num_rows) or [None]
        ks = per_query("k", k, checked_k, batch.num_rows)
        if target_recall is None:
            chosen = per_query("params", params, core_params, batch.num_rows)
        else:
            found = self._targets.of_batch(ks, params, target_recall, wanted.offset, filters)
            chosen = [core_params(one) for one in found]
        if filters != [None]:
            chosen = self._filtered_each(chosen, filters)
        depths = [min(depth + wanted.offset, MOST_RESULTS) for depth in ks]
        hits = self._engine.search_batch(batch, depths, chosen, num_threads(threads))
        return hits if wanted == Wanted() else hits.narrowed(wanted.offset, wanted.min_score)

    # --- approximation -----------------------------------------------------------------------------------------------

    @property
    def calibration(self) -> Calibration:
        """What `build` or `tune` measured about approximate settings; `str()` summarizes it."""
        return self._targets.calibration

    def expectation(self, k: int = 10, target_recall: float = 0.99) -> Expectation:
        """Return what a `target_recall` chooses, the recall and cost to expect from it, and what that is based on."""
        return self.calibration.expectation(checked_k(k), target_recall)

    def params_for(self, k: int = 10, target_recall: float = 0.99) -> ASC:
        """Return the parameters that a `target_recall` chooses."""
        return self.expectation(k, target_recall).params

    def tune(
        self, queries: Queries, k: int = 10, target_recall: float = 0.99, *, threads: int | None = None, seed: int = 0
    ) -> Expectation:
        """Measure approximate settings on your queries, and store the results with the index.

        Searches with this k and any `target_recall` then rely on your queries instead of the synthetic ones that were
        used at build time. For an index on disk the results are written at once; an index in memory keeps them until
        it is saved.

        Parameters
        ----------
        queries
            As for `search_batch`: a few hundred queries like those to come. Of more than 1,000, a sample is used.
        k
            The number of results to measure at.
        target_recall
            The target that the returned expectation is about.
        threads
            None: one per core. The result does not depend on it.
        seed
            The random seed of the sample.

        Raises
        ------
        InputError
            If the queries are invalid, or none of them finds anything.
        WriteError
            If the results could not be written; this process uses them all the same.

        Examples
        --------
        >>> import segmax
        >>> index = segmax.from_texts({"d1": "a copper waveguide", "d2": "noise in diodes"})
        >>> index.tune(["copper", "noise"], k=1, target_recall=0.99).num_queries
        2
        """
        k = checked_k(k)
        self.calibration.expectation(k, target_recall)  # raises if the target is invalid
        search = partial(self._searched, threads=num_threads(threads))
        measured = measured_on(search, self._batch(queries), k, self.num_docs, seed, self.num_clusters)
        self._set_calibration(self.calibration.with_measured(measured))
        if self._path is not None:
            changes = {"calibration": self.calibration.to_list()}
            update_meta(self._path, int(self._meta["generation"]), changes, check_opens)
        return self.calibration.expectation(k, target_recall)

    # --- single documents --------------------------------------------------------------------------------------------

    def explain(
        self,
        query: Query,
        id: DocId,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        where: Filter | None = None,
    ) -> Explanation:
        """Explain why a document is or is not among the k best, and what each term of the query adds to its score.

        Parameters
        ----------
        query, k, params, where
            As for `search`.
        id
            The document. One that the filter does not match is explained, too.

        Raises
        ------
        UnknownIdError
            If no document has the id.

        Examples
        --------
        >>> import scipy.sparse as sp, segmax
        >>> index = segmax.build(sp.csr_matrix([[3], [2]]), metadata=[{"lang": "en"}, {"lang": "de"}])
        >>> index.explain({0: 1}, 1, where={"lang": "de"}).rank
        1
        >>> print(index.explain({0: 1}, 0, where={"lang": "de"}).reason)
        document 0 (score 3, cluster 0) is not returned: the filter does not match it
        """
        row = self._ids.row_of(id)
        terms, weights = self._query(query)
        kept = None if where is None else self._kept(self._filters(where))
        return explain(self._engine, terms, weights, row, checked_k(k), EXACT if params is None else params, kept)

    def row_of(self, id: DocId) -> int:
        """Return the input row of a document; raise UnknownIdError if no document has this id."""
        return self._ids.row_of(id)

    def id_of(self, row: int) -> DocId:
        """Return the id of the document in an input row; raise UnknownIdError if there is no such row."""
        if not 0 <= row < self.num_docs:
            raise UnknownIdError(f"no document is in row {row} of {self.num_docs:,}")
        return self._ids.id_of(row)

    @property
    def id_kind(self) -> type[int | str] | None:
        """What its ids are, `int` or `str`; None if there is no document."""
        return type(self._ids.id_of(0)) if self.num_docs else None

    def score(self, query: Query, ids: Iterable[DocId]) -> NDArray[np.float64]:
        """Return the score of each given document for one query; 0 where they share no term."""
        terms, weights = self._query(query)
        return self._engine.score(terms, weights, self._rows_of(ids))

    def cluster_bounds(self, query: Query) -> ClusterBounds:
        """Return BoundSum, MaxSBound, AvgSBound and the best actual score of every cluster for one query."""
        return self._engine.bounds(*self._query(query))

    def frequencies(self, terms: Iterable[int]) -> NDArray[np.int64]:
        """Return how many documents have each of some terms, which are given by number.

        Examples
        --------
        >>> import scipy.sparse as sp, segmax
        >>> segmax.build(sp.csr_matrix([[3, 0, 2], [1, 4, 0]])).frequencies([0, 1, 7]).tolist()
        [2, 1, 0]
        """
        return self._engine.frequencies(np.array(list(terms), dtype=np.int64))

    def inside(self, query: Query, k: int = 10, params: SearchParams | None = None) -> InsideView:
        """Search, and return what was decided about every cluster, with its bounds and θ.

        Examples
        --------
        >>> import scipy.sparse as sp, segmax
        >>> index = segmax.build(sp.csr_matrix([[3, 0, 2], [1, 4, 0]]))
        >>> view = index.inside({0: 2}, k=1)
        >>> [(cluster.decision, cluster.best_score) for cluster in view.clusters], view.final_threshold
        ([('visited', 6.0)], 6.0)
        """
        return inside(self._engine, *self._query(query), checked_k(k), core_params(params))

    def vector(self, id: DocId) -> sp.csr_matrix:
        """Return a document as the index stores it: a CSR row of weights after coding."""
        return self.vectors([id])

    def vectors(self, ids: Iterable[DocId]) -> sp.csr_matrix:
        """Return many documents as the index stores them, a CSR row each; cheaper than one by one."""
        return to_scipy(self._vector_rows(ids))

    def _vector_rows(self, ids: Iterable[DocId]) -> Csr:
        """Return what `vectors` returns, without scipy."""
        rows: Csr = self._engine.vectors(self._rows_of(ids))
        return rows

    # --- keeping -----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the index to a new directory, or with `overwrite` replace the index there.

        A failure or a crash leaves what was there before.
        """
        save_index(checked_path("path", path), self._open_arrays, self._meta, overwrite=overwrite, check=check_opens)

    def close(self) -> None:
        """Release the memory, once running searches have finished. Closing twice is fine."""
        self._opened = None
        self._masks.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        from segmax.search.opening import open_index  # which imports this module

        if self._path is None:
            hint = "save it, and pickle what segmax.open returns"
            raise SegmaxError("an index in memory cannot be pickled", hint=hint)
        return open_index, (str(self._path), self._preload, False, self._encoder_name)

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    def _engine(self) -> Engine:
        if self._opened is None:
            raise IndexClosedError("the index is closed", hint="open it again with segmax.open")
        return self._opened

    @property
    def _open_arrays(self) -> dict[str, NDArray[Any]]:
        return self._engine.arrays

    def _query(self, query: object) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the terms and weights of a query, pruned as the index was built to."""
        if isinstance(query, str):
            terms, weights = self._text_query(str(query))
        else:
            terms, weights = query_arrays(query, self._lookup, self._engine.core.num_terms)
        return prune_query(self.config.pruning, terms, weights) if self._prunes_queries else (terms, weights)

    def _text_query(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the terms and weights of a text."""
        encoded = self._encoded([text])
        return row_arrays(encoded) if isinstance(encoded, Csr) else query_arrays(encoded, self._lookup, self.num_terms)

    def _encoded(self, texts: list[str]) -> object:
        """Return texts as queries; an encoder of ours needs no scipy for that."""
        from segmax.encoders import Encoder  # loaded with the encoder

        encoder = self.encoder
        return encoder.query_rows(texts) if isinstance(encoder, Encoder) else encoder.encode_queries(texts)

    def _batch(self, queries: object) -> Csr:
        """Return the terms and weights of many queries, pruned as the index was built to."""
        if not isinstance(queries, Csr) and not is_matrix(queries):
            queries = query_list(queries)
            if queries and all(isinstance(query, str) for query in queries):
                queries = self._encoded([str(query) for query in queries])  # numpy's strings, too
        return prune_queries(self.config.pruning, query_batch(queries, self._lookup, self.num_terms))

    @property
    def _needed_metadata(self) -> Metadata:
        metadata = self._engine.metadata
        if metadata is None:
            raise no_metadata()
        return metadata

    def _kept(self, where: Where) -> Kept:
        """Return the documents that a filter matches."""
        engine, metadata = self._engine, self._needed_metadata

        def make() -> Kept:
            rows = matching(where, metadata, lambda base: self._kept(base).rows)
            return Kept(rows, _core.Mask(engine.core, rows))

        return self._masks(where, engine.core.num_docs, make)

    def _values(self, field: str, hits: Hits) -> list[Any]:
        """Return the value of a field in each of some results."""
        return self._needed_metadata.values(field, hits.rows)

    def _filtered(self, params: _core.SearchParams, where: Where | None) -> _core.SearchParams:
        """Return parameters of searches that return only what a filter matches."""
        return params if where is None else self._engine.restricted(params, rows=self._kept(where).mask)

    def _filtered_each(
        self, params: Sequence[_core.SearchParams], filters: Sequence[Where | None]
    ) -> list[_core.SearchParams]:
        """Return the parameters of every query with its filter."""
        made: dict[tuple[int, str], _core.SearchParams] = {}
        found = []
        for number in range(max(len(params), len(filters))):
            where, plain = filters[number % len(filters)], number % len(params)
            if where is None:
                found.append(params[plain])
                continue
            key = plain, where.key
            if key not in made:
                made[key] = self._filtered(params[plain], where)
            found.append(made[key])
        return found

    def _searched(self, batch: Csr, k: int, params: SearchParams | None, threads: int) -> BatchHits:
        return self._engine.search_batch(batch, [k], [core_params(params)], threads)

    def _rows_of(self, ids: Iterable[DocId]) -> NDArray[np.int64]:
        check_listed("several ids", ids)
        return np.array([self._ids.row_of(id) for id in ids], dtype=np.int64)

    def _set_calibration(self, calibration: Calibration) -> None:
        self._targets = Targets(calibration)
        self._meta["calibration"] = calibration.to_list()


def check_opens(meta: Mapping[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raise FormatError if these do not make an index; writers check this before they commit."""
    Index(meta, arrays, None).close()


def name_anywhere(encoder: str | os.PathLike[str]) -> str:
    """Return the name of an encoder, a folder as an absolute path: a pickled index has to find it from anywhere."""
    return str(Path(encoder).absolute()) if Path(encoder).is_dir() else os.fspath(encoder)
