"""The index: open, search, explain, save."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.checks import check_listed, checked_int, checked_path
from segmax.base.display import counted, printable
from segmax.base.errors import ConfigError, IndexClosedError, InputError, SegmaxError, damaged
from segmax.search.calibration import MOST_QUERIES, Calibration, Expectation, measure
from segmax.search.explain import Fate, explanation, matched_terms
from segmax.search.methods import ASC, BestFirst, SearchParams, TermParams
from segmax.search.results import BatchHits, BatchStats, ClusterBounds, Explanation, Hits, MatchedTerm, TraceEntry
from segmax.storage.components import check_counts, index_errors, load_index, save_index, update_meta
from segmax.storage.config import BuildConfig
from segmax.storage.meta import META_NAME
from segmax.storage.tables import DocIds, TextTable
from segmax.storage.texts import StoredText, Texts
from segmax.vectors.csr import Csr, TermLookup, is_matrix, query_arrays, query_batch, query_list
from segmax.vectors.documents import DocId
from segmax.vectors.pruning import QueryThreshold, prune_queries, prune_query
from segmax.vectors.rows import sample_rows, selected_rows
from segmax.vectors.shortening import heaviest_terms

if TYPE_CHECKING:
    import scipy.sparse as sp

    from segmax.encoders.base import Encoder
    from segmax.vectors.types import Queries, Query  # loads what only annotations need
else:
    from segmax.base.optional import scipy_sparse as sp

_EXACT = ASC()
_MOST_RESULTS = 2**32  # more than an index can hold
_MOST_THREADS = 1024  # far more than help, and few enough for a system to start
_DECISIONS = ("visited", "pruned", "tied", "stopped", "limited")


class Index:
    """A clustered sparse index, in memory or mapped from disk. Share it between threads freely: only `tune` changes it.

    Made by `segmax.build` and `segmax.open`. A context manager: leaving it closes the index.
    """

    def __init__(self, meta: Mapping[str, Any], arrays: dict[str, NDArray[Any]], path: Path | None) -> None:
        _check_environment()
        self._meta = dict(meta)
        self._arrays: dict[str, NDArray[Any]] | None = arrays
        self._path = path
        self._preload = False
        self._targets: dict[tuple[int, float], BestFirst] = {}
        self._encoder: Encoder | None = None
        self._encoder_name: str | None = None
        with index_errors(path):
            check_counts(meta, arrays, path)
            self._handle: _core.Index | None = _core.Index(
                meta["num_docs"],
                meta["num_terms"],
                meta["num_segments"],
                meta["code_bytes"],
                meta["head_ratio"],
                arrays,
            )
            self._num_postings = int(meta["num_postings"])
            self._quantization_error = float(meta["quantization_error"])
            self._labels = arrays["cluster_label"]
            if len(self._labels) != self._handle.num_clusters:
                raise damaged("cluster_label has the wrong length", path)
            self._ids = DocIds.from_arrays(arrays, self._handle.num_docs, path)
            self._terms = (
                TextTable(arrays["term_offset"], arrays["term_text"], self._handle.num_terms, path)
                if "term_text" in arrays
                else None
            )
            self.config = BuildConfig.from_dict(meta["config"])
            self._calibration = Calibration.from_list(meta.get("calibration", ()))
            self._prunes_queries = any(isinstance(step, QueryThreshold) for step in self.config.pruning)

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """Where the index is on disk; None for one in memory."""
        return self._path

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return self._engine.num_docs

    @property
    def num_terms(self) -> int:
        """The number of columns of the vectors."""
        return self._engine.num_terms

    @property
    def num_clusters(self) -> int:
        """The number of clusters; labels that no document has do not count."""
        return self._engine.num_clusters

    @property
    def num_segments(self) -> int:
        """The number of segments per cluster."""
        return self._engine.num_segments

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
        return sum(array.nbytes for array in self._open_arrays.values())

    def sizes(self) -> dict[str, int]:
        """Return the bytes that each component takes."""
        return {name: array.nbytes for name, array in self._open_arrays.items()}

    def cluster_sizes(self) -> NDArray[np.uint32]:
        """Return the number of documents in each cluster."""
        return self._engine.cluster_sizes()

    def __len__(self) -> int:
        return self.num_docs

    def __repr__(self) -> str:
        if self._handle is None:
            return "Index(closed)"
        where = f"'{printable(self._path)}'" if self._path else "in memory"
        return (
            f"Index({where}: {counted(self.num_docs, 'document')}, {counted(self.num_postings, 'posting')}, "
            f"{counted(self.num_clusters, 'cluster')} x {counted(self.num_segments, 'segment')}, {self.bits} bits)"
        )

    # --- texts -------------------------------------------------------------------------------------------------------

    @property
    def texts(self) -> Texts | None:
        """The stored titles and texts by row; None where the index keeps none."""
        return self._ids.stored

    @property
    def terms(self) -> TextTable | None:
        """The words of the columns by number; None where the index has no vocabulary."""
        return self._terms

    def text(self, id: DocId) -> StoredText:
        """Return the title and text of a document; raise InputError if the index keeps none."""
        return self._ids.text_of(self._ids.row_of(id))

    @property
    def encoder(self) -> Encoder:
        """What turns text into queries: what was chosen here or by `segmax.open`, or else BM25 as the index keeps it.

        Assign what `segmax.open` takes as `encoder`. An index never loads a model by itself: it could be anybody's.
        """
        if self._encoder is None:
            self._encoder = resolve_encoder(self, None)
        return self._encoder

    @encoder.setter
    def encoder(self, encoder: object) -> None:
        self._encoder = None if encoder is None else resolve_encoder(self, encoder)
        self._encoder_name = _name_anywhere(encoder) if isinstance(encoder, (str, os.PathLike)) else None

    # --- searching ---------------------------------------------------------------------------------------------------

    def search(
        self,
        query: Query,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        target_recall: float | None = None,
        trace: bool = False,
    ) -> Hits:
        """Return the k best documents for one query: score descending, then input row ascending.

        Parameters
        ----------
        query
            Text, where the index has an encoder; a CSR row, a torch sparse tensor, a mapping of term (number, or word
            where the index has a vocabulary) to weight, or (indices, values). Weights are real numbers. Repeated terms
            are summed, and so are a word and the number of its column; unknown terms are ignored and counted.
        k
            How many results; documents that share no term with the query are never among them.
        params
            `ASC` (the default, exact), `BestFirst`, `Exhaustive`, or a method of `segmax.paper`.
        target_recall
            Instead of params: the share of the exact results to find, on average over queries. `expectation` tells what
            is chosen and why.
        trace
            Record every decision about a cluster in `hits.trace`; empty for methods that visit none.

        Raises
        ------
        InputError
            If the query cannot be used.
        ConfigError
            If k, the parameters or the target cannot be.
        """
        engine = self._engine
        terms, weights = self._query(query)
        if type(k) is not int or k < 1:
            k = _checked_k(k)
        if target_recall is not None:
            params = self._targeted(k, params, target_recall)
        core_params = _core_params(params)
        if trace:
            return self._traced(terms, weights, k, core_params, -1)[0]
        try:
            rows, scores, stats = engine.search_one(terms, weights, min(k, engine.num_docs), core_params)
        except ValueError as error:
            raise _input_error(error) from error
        return Hits(rows, scores, stats, self._ids)

    def search_batch(
        self,
        queries: Queries,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        target_recall: float | None = None,
        threads: int | None = None,
    ) -> BatchHits:
        """Search many queries: arrays of shape (queries, k), padded with row -1 and score 0.

        There are never more columns than documents, however large k is.

        Parameters
        ----------
        queries
            A CSR matrix or torch sparse tensor with a query per row, or an iterable of single queries: a list, a
            generator, an array of texts, a column of a DataFrame. Either all of them are texts or none.
        k, params, target_recall
            As for `search`.
        threads
            How many queries run at the same time; None: one per core. The results do not depend on it.
        """
        batch = self._batch(queries)
        k = _checked_k(k)
        if target_recall is not None:
            params = self._targeted(k, params, target_recall)
        return self._searched(batch, k, params, num_threads(threads))

    # --- approximation ------------------------------------------------------------------------------------------------

    @property
    def calibration(self) -> Calibration:
        """What was measured about approximate settings, when the index was built or by `tune`; `str()` sums it up."""
        return self._calibration

    def expectation(self, k: int = 10, target_recall: float = 0.99) -> Expectation:
        """Tell what `target_recall` chooses, what it is expected to keep and to cost, and on what that rests."""
        return self._calibration.expectation(_checked_k(k), target_recall)

    def params_for(self, k: int = 10, target_recall: float = 0.99) -> BestFirst:
        """Return the parameters that `target_recall` chooses."""
        return self.expectation(k, target_recall).params

    def tune(
        self, queries: Queries, k: int = 10, target_recall: float = 0.99, *, threads: int | None = None, seed: int = 0
    ) -> Expectation:
        """Measure approximate settings on queries of yours, and keep what was found with the index.

        Searches with this k and any `target_recall` then rely on these queries instead of those that the build made of
        documents. For an index on disk the result is written there at once; one in memory keeps it until it is saved.

        Parameters
        ----------
        queries
            As for `search_batch`: such as will be asked later, some hundred of them; of more than 1,000 a sample.
        k
            The number of results to measure at.
        target_recall
            What the returned expectation is about.
        threads
            None: one per core. The result does not depend on it.
        seed
            Of the sample.

        Raises
        ------
        InputError
            If the queries cannot be used, or none of them finds anything.
        WriteError
            If the result could not be written; searches of this process use it all the same.
        """
        k = _checked_k(k)
        self._calibration.expectation(k, target_recall)  # raises where there can be no such target
        batch = _sampled(self._batch(queries), MOST_QUERIES, checked_int("seed", seed, 0))
        count = num_threads(threads)
        measured = measure(
            lambda asked, results, params: self._searched(asked, results, params, count),
            batch,
            k,
            self.num_docs,
            "given queries",
        )
        if measured is None:
            raise InputError(expected="queries that find something", got=f"{batch.num_rows} without a single result")
        self._set_calibration(self._calibration.with_measured(measured))
        if self._path is not None:
            changes = {"calibration": self._calibration.to_list()}
            update_meta(self._path, int(self._meta["generation"]), changes, check_opens)
        return self._calibration.expectation(k, target_recall)

    def explain(self, query: Query, id: DocId, k: int = 10, params: SearchParams | None = None) -> Explanation:
        """Explain why a document is or is not among the k best, and what each term of the query adds to its score."""
        row = self._ids.row_of(id)
        terms, weights = self._query(query)
        k = _checked_k(k)
        used = _EXACT if params is None else params
        score = self._score(terms, weights, np.array([row]))[0]
        matched = self._matched(terms, weights, row)
        hits, fate = self._traced(terms, weights, k, _core_params(used), row)
        if isinstance(used, TermParams) and used.drops_terms:  # bounds have to be those of the terms that are left
            batch = _as_batch(terms, weights)
            short, _ = heaviest_terms(batch, self._ceilings(), mass=used.query_mass, count=used.max_terms)
            terms, weights = short.indices, short.values
            kept = set(terms.tolist())
            matched = tuple(match._replace(searched=match.term in kept) for match in matched)
        cluster = self._engine.cluster_of(row)
        bounds = self._bounds(terms, weights)
        return explanation(
            id=self._ids.id_of(row),
            row=row,
            score=float(score),
            matched=matched,
            cluster=cluster,
            label=int(self._labels[cluster]),
            bounds=bounds,
            hits=hits,
            fate=fate,
            k=k,
            params=used,
        )

    def row_of(self, id: DocId) -> int:
        """Return the input row of a document; raise UnknownIdError if there is none of this id."""
        return self._ids.row_of(id)

    def score(self, query: Query, ids: Iterable[DocId]) -> NDArray[np.float64]:
        """Return the score of each given document for one query, 0 where they share no term."""
        terms, weights = self._query(query)
        return self._score(terms, weights, self._rows_of(ids))

    def cluster_bounds(self, query: Query) -> ClusterBounds:
        """Return BoundSum, MaxSBound, AvgSBound and the best real score of every cluster for one query."""
        return self._bounds(*self._query(query))

    def vector(self, id: DocId) -> sp.csr_matrix:
        """Return a document as the index holds it: a CSR row of weights after coding."""
        return self.vectors([id])

    def vectors(self, ids: Iterable[DocId]) -> sp.csr_matrix:
        """Return many documents as the index holds them, a CSR row each; cheaper than one by one."""
        indptr, terms, codes = self._engine.vectors(self._rows_of(ids))
        weights = codes * self._open_arrays["term_scale"][terms]
        return sp.csr_matrix((weights, terms, indptr), shape=(len(indptr) - 1, self.num_terms))

    # --- keeping -----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the index to a new directory, or replace the index there if `overwrite`.

        A failure or a crash leaves what was there before.
        """
        save_index(checked_path("path", path), self._open_arrays, self._meta, overwrite=overwrite, check=check_opens)

    def close(self) -> None:
        """Let go of the memory; searches that are under way finish first. Closing twice is fine."""
        self._handle = None
        self._arrays = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            msg = "an index in memory cannot be pickled: save it, and pickle what segmax.open returns"
            raise SegmaxError(msg)
        return open_index, (str(self._path), self._preload, False, self._encoder_name)

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    def _engine(self) -> _core.Index:
        if self._handle is None:
            msg = "the index is closed; open it again with segmax.open"
            raise IndexClosedError(msg)
        return self._handle

    @property
    def _open_arrays(self) -> dict[str, NDArray[Any]]:
        _ = self._engine
        assert self._arrays is not None  # closed together with the handle
        return self._arrays

    @property
    def _lookup(self) -> TermLookup:
        return self._terms.find if self._terms is not None else None

    def _query(self, query: object) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the terms and weights of a query, with what the index was built with applied to it."""
        if isinstance(query, str):
            query = self.encoder.encode_queries([str(query)])
        terms, weights = query_arrays(query, self._lookup, self._engine.num_terms)
        return prune_query(self.config.pruning, terms, weights) if self._prunes_queries else (terms, weights)

    def _rows_of(self, ids: Iterable[DocId]) -> NDArray[np.int64]:
        check_listed("several ids", ids)
        return np.array([self._ids.row_of(id) for id in ids], dtype=np.int64)

    def _score(
        self, terms: NDArray[np.int64], weights: NDArray[np.float64], rows: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        with _input_errors():
            return self._engine.score(terms, weights, rows)

    def _matched(self, terms: NDArray[np.int64], weights: NDArray[np.float64], row: int) -> tuple[MatchedTerm, ...]:
        """Return what each term that a query and a document share adds to the score."""
        found, units, codes, scale = self._engine.matched(terms, weights, row)
        term_scale = self._open_arrays["term_scale"][found]
        return matched_terms(
            found,
            [unit * code for unit, code in zip(units.tolist(), codes.tolist(), strict=True)],
            scale,
            units * (scale / term_scale),
            codes * term_scale,
            self._terms,
        )

    def _batch(self, queries: object) -> Csr:
        """Return queries with what the index was built with applied to them."""
        if not is_matrix(queries):
            queries = query_list(queries)
            if queries and all(isinstance(query, str) for query in queries):
                queries = self.encoder.encode_queries([str(query) for query in queries])  # numpy's strings, too
        return prune_queries(self.config.pruning, query_batch(queries, self._lookup, self.num_terms))

    def _searched(self, batch: Csr, k: int, params: SearchParams | None, threads: int) -> BatchHits:
        core_params = _core_params(params)
        with _input_errors():
            rows, scores, counts, stats = self._engine.search_batch(
                batch.indptr,
                batch.indices,
                batch.values,
                min(k, self.num_docs),
                core_params,
                min(threads, max(1, batch.num_rows)),
            )
        return BatchHits(rows, scores, counts, BatchStats(stats), self._ids)

    def _ceilings(self) -> NDArray[np.float64]:
        """Return the largest stored weight of every term."""
        arrays = self._open_arrays
        num_ranks = max(1, len(arrays["term_top_code"]) // max(1, self.num_terms))
        return np.asarray(arrays["term_top_code"][::num_ranks] * arrays["term_scale"], dtype=np.float64)

    def _targeted(self, k: int, params: SearchParams | None, target_recall: float) -> BestFirst:
        """Return the parameters for a target; they are looked up once."""
        if params is not None:
            raise ConfigError(expected="params or target_recall", got=f"both: {params} and {target_recall}")
        try:
            return self._targets[k, target_recall]
        except (KeyError, TypeError):
            chosen = self._calibration.expectation(k, target_recall).params
            self._targets[k, target_recall] = chosen
            return chosen

    def _set_calibration(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._meta["calibration"] = calibration.to_list()
        self._targets = {}

    def _traced(
        self,
        terms: NDArray[np.int64],
        weights: NDArray[np.float64],
        k: int,
        params: _core.SearchParams,
        row: int,
    ) -> tuple[Hits, Fate]:
        """Search with a trace, watching what happens to one row."""
        with _input_errors():
            rows, scores, stats, columns, watched, scale, seed = self._engine.trace(
                terms, weights, min(k, self.num_docs), params, row
            )
        unknown = float("nan")
        entries = [
            TraceEntry(
                int(self._labels[cluster]),
                _DECISIONS[decision],
                bound_sum * scale,
                max_bound * scale if max_bound else unknown,
                segment_sum / self.num_segments * scale if segment_sum else unknown,
                threshold * scale,
            )
            for cluster, decision, bound_sum, max_bound, segment_sum, threshold in zip(
                *(columns[name].tolist() for name in _TRACE_COLUMNS), strict=True
            )
        ]
        hits = Hits(rows, scores, stats.reshape(-1), self._ids, entries)
        kind, bound, threshold, needed = watched
        return hits, Fate(kind, bound * scale, threshold * scale, needed * scale, seed * scale)

    def _bounds(self, terms: NDArray[np.int64], weights: NDArray[np.float64]) -> ClusterBounds:
        with _input_errors():
            bound_sum, max_bound, segment_sum, best, scale = self._engine.cluster_bounds(terms, weights)
        return ClusterBounds(
            bound_sum=bound_sum.astype(np.float64) * scale,
            max_bound=max_bound.astype(np.float64) * scale,
            avg_bound=segment_sum.astype(np.float64) / self.num_segments * scale,
            best_score=best.astype(np.float64) * scale,
        )


_TRACE_COLUMNS = ("cluster", "decision", "bound_sum", "max_bound", "segment_sum", "threshold")


def num_threads(threads: int | None) -> int:
    """Return how many threads to use; None means one per core."""
    cores = os.cpu_count() or 1
    count = cores if threads is None else checked_int("threads", threads, 1)
    if count > max(_MOST_THREADS, cores):
        raise ConfigError(
            expected=f"at most {max(_MOST_THREADS, cores)} threads", got=count, hint="more than cores do not help"
        )
    return count


def _checked_k(k: object) -> int:
    """Return k; however large it is, a search finds no more than all documents."""
    is_whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool)
    return checked_int("k", min(int(k), _MOST_RESULTS) if is_whole else k, 1)  # type: ignore[call-overload]


@contextlib.contextmanager
def _input_errors() -> Iterator[None]:
    """Turn what the core says about a query into InputError."""
    try:
        yield
    except MemoryError as error:
        msg = "the results do not fit into memory; ask for fewer of them (k), or for fewer queries at a time"
        raise InputError(msg) from error
    except ValueError as error:
        raise _input_error(error) from error


def _input_error(error: ValueError) -> Exception:
    return error if isinstance(error, SegmaxError) else InputError(str(error))


def _as_batch(terms: NDArray[np.int64], weights: NDArray[np.float64]) -> Csr:
    return Csr(np.array([0, len(terms)], dtype=np.int64), terms, weights, 0)


def _sampled(queries: Csr, count: int, seed: int) -> Csr:
    """Return at most so many of the queries."""
    return selected_rows(queries, sample_rows(queries.num_rows, count, seed))


def _check_environment() -> None:
    """Raise ConfigError where SEGMAX_SIMD asks for what is not there."""
    try:
        _core.simd_level()
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _core_params(params: SearchParams | None) -> _core.SearchParams:
    if params is None:
        return _EXACT.to_core()
    if isinstance(params, SearchParams):
        return params.to_core()
    raise ConfigError(
        option="params", expected="a method such as ASC, BestFirst or Exhaustive", got=type(params).__name__
    )


def _name_anywhere(encoder: str | os.PathLike[str]) -> str:
    """Return the name of an encoder, or a folder from any working directory: that is how a pickled index finds it."""
    return str(Path(encoder).absolute()) if Path(encoder).is_dir() else os.fspath(encoder)


def resolve_encoder(index: Index, encoder: object) -> Encoder:
    """Return the encoder that `encoder` stands for; see `open_index`."""
    from segmax.encoders import encoder_for_index  # what they need is heavy, or an extra

    where = "the index" if index.path is None else f"'{index.path / META_NAME}'"
    return encoder_for_index(encoder, index._meta.get("encoder"), index.terms, where)


def open_index(
    path: str | os.PathLike[str], preload: bool = False, verify: bool = False, encoder: object = None
) -> Index:
    """Open an index by memory map.

    Parameters
    ----------
    path
        The directory that `build` or `save` wrote.
    preload
        Read everything into memory now instead of mapping the files. A mapped file must not be truncated while the
        index is open: the system then ends the process (SIGBUS). A preloaded index no longer needs its files.
    verify
        Check every byte; otherwise postings and bounds are checked for size only. `segmax.verify` does the same.
    encoder
        What encodes text for searches: the name or folder of a model, a `SparseEncoder` of sentence-transformers, any
        object with `encode_queries`, or "stored" to load the model that the index names. None: BM25 if the index was
        made with it, else text cannot be searched. Models of an index that you did not make are those of a stranger.

    Raises
    ------
    IndexNotFoundError
        If there is nothing at the path.
    FormatError
        If there is no index, a damaged one, or one of a newer version.
    ConfigError, InputError
        If the encoder cannot be loaded, or did not make the index.

    Examples
    --------
    >>> index = open_index("docs.segmax", encoder="naver/splade-v3")  # doctest: +SKIP
    >>> index.search("copper waveguides")  # doctest: +SKIP
    """
    where = checked_path("path", path).absolute()  # pickled by path, it must be found from any working directory
    meta, arrays = load_index(where, preload=preload, verify=verify)
    index = Index(meta, arrays, where)
    index._preload = preload
    if encoder is not None:
        index.encoder = encoder
    return index


def check_opens(meta: Mapping[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raise FormatError if no index can be made of these; what a writer asks before it commits."""
    Index(meta, arrays, None).close()


def verify(path: str | os.PathLike[str]) -> None:
    """Check every byte of an index; raise FormatError at the first that is wrong."""
    open_index(path, verify=True).close()
