"""What can be asked of a collection: everything that an `Index` answers, on one state from start to end."""

from __future__ import annotations

import abc
import dataclasses
import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.checks import check_listed, checked_int, is_integer
from segmax.base.errors import ConfigError, InputError, UnknownIdError
from segmax.collection.part import Part
from segmax.collection.state import FoundDocs, Place, State, View, checked_ids
from segmax.collection.words import WordWeights
from segmax.metadata import Metadata, Scalar, Where
from segmax.metadata.facets import Counts
from segmax.metadata.values import MISSING, find
from segmax.metadata.where import checked_field
from segmax.search.arguments import EXACT, MOST_RESULTS, checked_k, core_params, input_errors, num_threads, per_query
from segmax.search.calibration import Calibration, Expectation
from segmax.search.explain import explain, subject_of
from segmax.search.inside import InsideView, inside
from segmax.search.methods import ASC, SearchParams
from segmax.search.queries import Filter, FilterCache, FilterParser, Kept, Matches, Wanted, best, grouped, matching
from segmax.search.results import BatchHits, BatchStats, Explanation, Groups, Hits
from segmax.search.tuning import Targets, measured_on
from segmax.storage.texts import StoredText
from segmax.vectors.csr import Csr, is_matrix
from segmax.vectors.documents import DocId
from segmax.vectors.queries import query_arrays, query_batch, query_list, row_arrays
from segmax.vectors.rows import join_rows, no_rows, selected_rows, to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp

    from segmax.encoders.base import Encoder
    from segmax.vectors.types import Queries, Query
else:
    from segmax.base.optional import scipy_sparse as sp

Masks = list[_core.Mask | None]


class StoredDocument(NamedTuple):
    """A document as a collection has it; None for what it does not have.

    Examples
    --------
    >>> StoredDocument("d1", StoredText("", "copper"), {"year": 1950}).metadata["year"]
    1950
    """

    id: DocId
    text: StoredText | None
    metadata: dict[str, Any] | None


class CollectionReader(abc.ABC):
    """A state of a collection that can be searched; `Collection` and `Snapshot` derive from it."""

    def __init__(self) -> None:
        self._targets = Targets(Calibration(()))
        self._filters = Filters()

    @abc.abstractmethod
    def _current(self) -> State:
        """Return the state to answer from."""

    @property
    @abc.abstractmethod
    def path(self) -> Path | None:
        """The folder of the collection."""

    @property
    @abc.abstractmethod
    def terms(self) -> Any:
        """The words of the terms by number; None if terms are numbers only."""

    @property
    @abc.abstractmethod
    def encoder(self) -> Encoder:
        """What turns text into vectors."""

    @abc.abstractmethod
    def encoder_for(self, encoder: object) -> Encoder:
        """Return the encoder that a name, a folder or an object stands for, checked against that of the collection."""

    @property
    @abc.abstractmethod
    def _words(self) -> WordWeights | None: ...

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def num_docs(self) -> int:
        """The number of living documents."""
        return self._current().num_docs

    def __len__(self) -> int:
        return self.num_docs

    @property
    def num_terms(self) -> int:
        """The number of terms so far."""
        return self._current().lattice.num_terms

    @property
    def num_clusters(self) -> int:
        """The number of clusters of all parts."""
        return sum(view.part.engine.core.num_clusters for view in self._current().views)

    @property
    def num_segments(self) -> int:
        """The largest number of segments per cluster in any part."""
        return max((view.part.engine.core.num_segments for view in self._current().views), default=1)

    @property
    def num_postings(self) -> int:
        """The number of stored weights, of dead documents too as long as they are there."""
        return sum(view.part.num_postings for view in self._current().views)

    @property
    def num_bytes(self) -> int:
        """The size of all parts."""
        return sum(view.part.num_bytes for view in self._current().views)

    @property
    def bits(self) -> int:
        """Bits per stored weight, in the part with the widest."""
        return 16 if any(view.part.is_wide for view in self._current().views) else 8

    def sizes(self) -> dict[str, int]:
        """Return the size of each component in bytes, in all parts together."""
        found: dict[str, int] = {}
        for view in self._current().views:
            for name, array in view.part.engine.arrays.items():
                found[name] = found.get(name, 0) + array.nbytes
        return found

    def cluster_sizes(self) -> NDArray[np.uint32]:
        """Return the number of documents in each cluster, part by part, dead ones among them."""
        sizes = [view.part.engine.core.cluster_sizes() for view in self._current().views]
        return np.concatenate([np.zeros(0, np.uint32), *sizes])

    @property
    def fields(self) -> dict[str, tuple[str, ...]]:
        """The fields of the metadata, and the kinds of values in each; empty if no document has any."""
        found: dict[str, dict[str, None]] = {}
        for view in self._current().views:
            for name, kinds in ({} if view.part.metadata is None else view.part.metadata.fields).items():
                found.setdefault(name, {}).update(dict.fromkeys(kinds))
        return {name: tuple(found[name]) for name in sorted(found)}

    @property
    def id_kind(self) -> type[int | str] | None:
        """What its ids are, `int` or `str`; None as long as there is no document."""
        return self._current().id_kind

    @property
    def sequence(self) -> int:
        """The number of the last write that it has; every write has a larger one than those before."""
        return self._current().sequence

    def ids(self) -> Iterator[DocId]:
        """Yield the ids of all documents, in the order in which they came."""
        state = self._current()
        return (state.id_of(place) for place in state.living())

    def __contains__(self, id: object) -> bool:
        state = self._current()
        try:
            return state.find(checked_ids([id], state.id_kind))[0] is not None
        except InputError:  # what cannot be an id of this collection
            return False

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
        """Return the k best documents for one query: score descending, then in the order in which they came.

        Parameters
        ----------
        query, k, params, target_recall, where, offset, min_score, group_by, group_size
            As for `Index.search`.
        trace
            Not for collections: decisions are about the clusters of one index. `explain` tells about one document.

        Examples
        --------
        >>> import segmax, tempfile
        >>> collection = segmax.Collection.create(f"{tempfile.mkdtemp()}/docs", encoder="bm25")
        >>> collection.add([{"id": "a", "text": "copper", "metadata": {"year": 1950}}])
        1
        >>> collection.search("copper", where={"year": {"$gte": 1960}}).ids
        []
        """
        if trace:
            raise ConfigError(option="trace", expected="False for a collection", got="True", hint="use explain")
        state = self._current()
        k = checked_k(k)
        parsed = None if where is None else self._filters.parsed(where)
        wanted = Wanted.checked(parsed, offset, min_score, group_by, group_size)
        if target_recall is not None:
            params = self._targets.params(k, params, target_recall, wanted)
        terms, weights = self._query(state, query)

        def search(k: int, where: Where | None, params: SearchParams | None) -> Hits:
            in_core, masks = core_params(params), None if where is None else self._filters.masks(state, where)
            with input_errors():
                numbers, scores, parts, rows, stats = state.core.search_one(terms, weights, k, in_core, masks)
            return Hits(numbers, scores, stats, FoundDocs(state, numbers, parts, rows))

        if wanted.group_by is not None:
            return grouped(search, _values, k, wanted, params)
        return best(search, k, wanted, params)

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

        All of them see one state of the collection. Parameters are those of `Index.search_batch`.
        """
        state = self._current()
        batch = self._batch(state, queries)
        wanted = Wanted.checked(None, offset, min_score)
        ks = per_query("k", k, checked_k, batch.num_rows)
        parsed = self._filters.parsed
        wheres = per_query("where", where, lambda one: None if one is None else parsed(one), batch.num_rows)
        if target_recall is None:
            chosen = per_query("params", params, core_params, batch.num_rows)
        else:
            found = self._targets.of_batch(ks, params, target_recall, wanted.offset, wheres)
            chosen = [core_params(one) for one in found]
        masks = [None if one is None else self._filters.masks(state, one) for one in wheres]
        depths = [min(depth + wanted.offset, MOST_RESULTS) for depth in ks]
        hits = self._found(state, batch, depths, chosen, num_threads(threads), masks)
        return hits if wanted == Wanted() else hits.narrowed(wanted.offset, wanted.min_score)

    def _found(
        self,
        state: State,
        batch: Csr,
        ks: Sequence[int],
        params: Sequence[_core.SearchParams],
        threads: int,
        masks: Sequence[Masks | None],
    ) -> BatchHits:
        own: Masks = [view.mask for view in state.views]
        each: Any = None if all(one is None for one in masks) else [own if one is None else one for one in masks]
        if each is not None and len(each) == 1:
            each = each[0]
        with input_errors():
            numbers, scores, counts, parts, rows, stats = state.core.search_batch(
                batch.indptr,
                batch.indices,
                batch.values,
                np.minimum(np.array(ks, dtype=np.int64), max(1, state.num_docs)),
                list(params),
                min(threads, max(1, batch.num_rows)),
                each,
            )
        return BatchHits(numbers, scores, counts, BatchStats(stats), FoundDocs(state, numbers, parts, rows))

    # --- approximation -----------------------------------------------------------------------------------------------

    @property
    def calibration(self) -> Calibration:
        """What `tune` measured about approximate settings; without it, `target_recall` searches exactly."""
        return self._targets.calibration

    def expectation(self, k: int = 10, target_recall: float = 0.99) -> Expectation:
        """Return what a `target_recall` chooses, the recall and cost to expect from it, and what that is based on."""
        return self.calibration.expectation(checked_k(k), target_recall)

    def params_for(self, k: int = 10, target_recall: float = 0.99) -> ASC:
        """Return the parameters that a `target_recall` chooses."""
        return self.expectation(k, target_recall).params

    def _measured(self, queries: Queries, k: int, threads: int | None, seed: int) -> Calibration:
        """Return the calibration with what these queries show about approximate settings."""
        state = self._current()
        count = num_threads(threads)

        def search(batch: Csr, k: int, params: SearchParams) -> BatchHits:
            return self._found(state, batch, [k], [core_params(params)], count, [None])

        measured = measured_on(search, self._batch(state, queries), k, state.num_docs, seed)
        return self.calibration.with_measured(measured)

    # --- single documents --------------------------------------------------------------------------------------------

    def get(self, ids: DocId | Iterable[DocId]) -> Any:
        """Return a document, or a list of documents for several ids: id, text and metadata.

        Raises
        ------
        UnknownIdError
            If no document has one of the ids.
        """
        state = self._current()
        if isinstance(ids, (str, int)) or is_integer(ids):
            return _document(state, state.place_of(_plain(ids)))
        check_listed("an id, or several ids", ids)
        return [_document(state, place) for place in state.places_of(list(ids))]

    def count(self, where: Filter | None = None) -> int:
        """Return how many documents there are, or how many match."""
        state = self._current()
        if where is None:
            return state.num_docs
        rows = self._filters.rows(state, self._filters.parsed(where))
        return sum(int(np.count_nonzero(own)) for own in rows)

    def knows(self, where: Filter) -> bool:
        """Whether it is known already which documents a filter matches; if not, the first search finds out."""
        return self._filters.are_known(self._current(), self._filters.parsed(where))

    def facets(self, field: str, where: Filter | None = None, *, limit: int | None = None) -> list[tuple[Scalar, int]]:
        """Return the values of a field and how many of the documents that match have each, the most frequent first."""
        state = self._current()
        field = checked_field(field)
        most = None if limit is None else checked_int("limit", limit, 1)
        parsed = None if where is None else self._filters.parsed(where)
        counts = Counts()
        for view, rows in zip(state.views, self._filters.rows(state, parsed), strict=True):
            if view.part.metadata is not None:
                for value, count in view.part.metadata.facet(field, rows):
                    counts.add(value, count)
        return counts.largest(most)

    def row_of(self, id: DocId) -> int:
        """Return the insertion number of a document; raise UnknownIdError if no document has this id."""
        state = self._current()
        return state.number_of(state.place_of(_plain(id)))

    def id_of(self, row: int) -> DocId:
        """Return the id of the document with an insertion number; raise UnknownIdError if there is none."""
        state = self._current()
        place = state.place_of_number(row) if 0 <= row < state.next_number else None
        if place is None:
            raise UnknownIdError(f"no document has the insertion number {row}", hint="it was deleted, or never added")
        return state.id_of(place)

    def text(self, id: DocId) -> StoredText:
        """Return the title and text of a document; raise InputError if it has none."""
        state = self._current()
        return state.text_of(state.place_of(_plain(id)))

    def metadata(self, id: DocId) -> dict[str, Any] | None:
        """Return the metadata of a document; None if it has none."""
        state = self._current()
        return state.metadata_of(state.place_of(_plain(id)))

    @property
    def texts(self) -> TextsByNumber | None:
        """The stored titles and texts by insertion number; None if none are stored."""
        state = self._current()
        stored = any(view.part.ids.stored is not None for view in state.views)
        return TextsByNumber(state) if stored else None

    def vector(self, id: DocId) -> sp.csr_matrix:
        """Return a document as the collection stores it: a CSR row of weights after coding."""
        return self.vectors([id])

    def vectors(self, ids: Iterable[DocId]) -> sp.csr_matrix:
        """Return many documents as the collection stores them, a CSR row each."""
        return to_scipy(self._vector_rows(ids))

    def _vector_rows(self, ids: Iterable[DocId]) -> Csr:
        """Return what `vectors` returns, without scipy."""
        check_listed("several ids", ids)
        state = self._current()
        places = state.places_of(list(ids))
        width = state.lattice.num_terms
        parts = list(_by_part(state, places))
        if not parts:
            return no_rows(width)
        found = join_rows([part.engine.vectors(rows) for part, rows, _ in parts], width)
        return selected_rows(found, np.argsort(np.concatenate([at for *_, at in parts])))

    def score(self, query: Query, ids: Iterable[DocId]) -> NDArray[np.float64]:
        """Return the score of each given document for one query; 0 where they share no term."""
        check_listed("several ids", ids)
        state = self._current()
        terms, weights = self._query(state, query)
        places = state.places_of(list(ids))
        scores = np.zeros(len(places))
        for part, rows, at in _by_part(state, places):
            core = part.engine.core.with_lattice(state.core_lattice)
            with input_errors():
                scores[at] = core.score(terms, weights, rows)
        return scores

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

        Parameters are those of `Index.explain`. A document that was deleted is not there, so its id is unknown.
        """
        state = self._current()
        place = state.place_of(_plain(id))
        terms, weights = self._query(state, query)
        params = EXACT if params is None else params
        kept = None if where is None else self._filters.kept(state, self._filters.parsed(where))
        found = explained(state, place, terms, weights, checked_k(k), params, kept)
        words = self.terms
        if words is None:
            return found
        named = tuple(match._replace(word=words[match.term]) for match in found.matched)
        return dataclasses.replace(found, matched=named)

    def frequencies(self, terms: Iterable[int]) -> NDArray[np.int64]:
        """Return how many documents have each of some terms, dead ones among them as long as they are there."""
        numbers = np.array(list(terms), dtype=np.int64)
        counts = (view.part.engine.frequencies(numbers) for view in self._current().views)
        return sum(counts, np.zeros(len(numbers), np.int64))

    def inside(self, query: Query, k: int = 10, params: SearchParams | None = None) -> InsideView:
        """Search the largest part alone, and return what was decided about every cluster of it; see `Index.inside`.

        Raises
        ------
        InputError
            If the collection is empty.
        """
        state = self._current()
        if not state.num_docs:
            raise InputError(expected="a collection with documents", got="an empty one")
        view = max(state.views, key=lambda view: view.num_alive)
        engine = dataclasses.replace(view.part.engine, core=view.part.engine.core.with_lattice(state.core_lattice))
        in_core = core_params(params)
        if view.mask is not None:
            in_core = engine.restricted(in_core, rows=view.mask)
        return inside(engine, *self._query(state, query), checked_k(k), in_core)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _query(self, state: State, query: object) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the terms and weights of a query."""
        width = state.lattice.num_terms
        if isinstance(query, str):
            encoded = self._encoded([str(query)])
            found = row_arrays(encoded) if isinstance(encoded, Csr) else query_arrays(encoded, self._lookup, width)
        else:
            found = query_arrays(query, self._lookup, width)
        terms, weights = found
        return terms, weights if self._words is None else weights * self._words.rarity(state, terms)

    def _batch(self, state: State, queries: object) -> Csr:
        """Return the terms and weights of many queries."""
        if not isinstance(queries, Csr) and not is_matrix(queries):
            queries = query_list(queries)
            if queries and all(isinstance(query, str) for query in queries):
                queries = self._encoded([str(query) for query in queries])  # numpy's strings, too
        batch = query_batch(queries, self._lookup, state.lattice.num_terms)
        if self._words is None:
            return batch
        return batch._replace(values=batch.values * self._words.rarity(state, batch.indices))

    @property
    def _lookup(self) -> Any:
        return None if self.terms is None else self.terms.find

    def _encoded(self, texts: list[str]) -> object:
        from segmax.encoders import Encoder

        encoder = self.encoder
        return encoder.query_rows(texts) if isinstance(encoder, Encoder) else encoder.encode_queries(texts)


def _values(field: str, hits: Hits) -> list[Any]:
    """Return the value of a field in each of some results."""
    found = (find(metadata, field) for metadata in hits.metadata)
    return [None if value is MISSING else value for value in found]


class TextsByNumber:
    """Titles and texts of a state by insertion number; iterating goes through those of the living documents."""

    def __init__(self, state: State) -> None:
        self._state = state

    def __len__(self) -> int:
        return self._state.num_docs

    def __getitem__(self, row: int) -> StoredText:
        number = operator.index(row)
        place = self._state.place_of_number(number) if 0 <= number < self._state.next_number else None
        if place is None:
            msg = f"no document has the insertion number {number}"
            raise IndexError(msg)
        return self._text_of(place)

    def __iter__(self) -> Iterator[StoredText]:
        return map(self._text_of, self._state.living())

    def _text_of(self, place: Place) -> StoredText:
        """Return the text of a document; an empty one for a document that was added without."""
        has_texts = self._state.views[place.view].part.ids.stored is not None
        return self._state.text_of(place) if has_texts else StoredText("", "")


class Filters:
    """Which rows match a filter, and the core's masks of them.

    Rows are kept by part, because parts never change: when a document dies, only those that are alive are found anew.
    """

    def __init__(self) -> None:
        self.parsed = FilterParser()
        self._matches: FilterCache[Matches] = FilterCache()
        self._kept: FilterCache[Kept] = FilterCache()

    def masks(self, state: State, where: Where) -> Masks:
        """Return the mask of every view: rows that are alive and match."""
        return [kept.mask for kept in self.kept(state, where)]

    def rows(self, state: State, where: Where | None) -> list[NDArray[np.bool_]]:
        """Return by view which rows are alive and match."""
        if where is None:
            return [np.ones(view.part.num_docs, bool) if view.alive is None else view.alive for view in state.views]
        return [kept.rows for kept in self.kept(state, where)]

    def kept(self, state: State, where: Where) -> list[Kept]:
        """Return by view which rows are alive and match, and the core's mask of them."""
        num_docs = sum(view.part.num_docs for view in state.views)

        def matches(part: Part, where: Where) -> NDArray[np.bool_]:
            return self._matches(where, num_docs, partial(make, part, where), part.serial).rows

        def make(part: Part, where: Where) -> Matches:
            metadata = part.metadata
            if metadata is None:
                metadata = Metadata.from_rows([None] * part.num_docs)
            return Matches(matching(where, metadata, partial(matches, part)))

        def living(view: View) -> Kept:
            found = matches(view.part, where)
            rows = found if view.alive is None else found & view.alive
            return Kept(rows, _core.Mask(view.part.engine.core, rows))

        return [self._kept(where, num_docs, partial(living, view), view.serial) for view in state.views]

    def are_known(self, state: State, where: Where) -> bool:
        """Whether it is known which rows of every part match a filter."""
        return all(self._matches.has(where, view.part.serial) for view in state.views)


def explained(
    state: State,
    place: Place,
    terms: NDArray[np.int64],
    weights: NDArray[np.float64],
    k: int,
    params: SearchParams,
    kept: Sequence[Kept] | None = None,
) -> Explanation:
    """Explain a document: by a search of its part, with the rank that it has among all parts.

    `kept` are the rows of each part that a filter matches; None: all that are alive.
    """
    view = state.views[place.view]
    engine = dataclasses.replace(view.part.engine, core=view.part.engine.core.with_lattice(state.core_lattice))
    living = None if view.alive is None or view.mask is None else Kept(view.alive, view.mask)
    found = explain(engine, terms, weights, place.row, k, params, living if kept is None else kept[place.view])
    masks: Masks | None = None if kept is None else [one.mask for one in kept]
    with input_errors():
        numbers, scores, *_ = state.core.search_one(terms, weights, k, core_params(params), masks)
    number = state.number_of(place)
    rank = next((rank for rank, one in enumerate(numbers.tolist(), start=1) if one == number), None)
    final = float(scores[-1]) if len(scores) == k else 0.0
    reason = found.reason
    if found.rank is not None and rank is None:
        reason = f"{subject_of(found)} is not returned: the k-th result, of another part, has {final:g}"
    elif rank is not None:
        reason = f"{subject_of(found)} is returned at rank {rank}"
    return dataclasses.replace(found, rank=rank, final_threshold=final, reason=reason)


def _plain(id: object) -> Any:
    return checked_ids([id], None)[0]


def _by_part(state: State, places: Sequence[Place]) -> Iterator[tuple[Part, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the parts that have some documents, the rows of these there, and their places in the list."""
    views = np.array([place.view for place in places], dtype=np.int64)
    rows = np.array([place.row for place in places], dtype=np.int64)
    for number in np.unique(views).tolist():
        at = np.flatnonzero(views == number)
        yield state.views[number].part, rows[at], at


def _document(state: State, place: Place) -> StoredDocument:
    stored = state.views[place.view].part.ids.stored
    text = None if stored is None else state.text_of(place)
    return StoredDocument(state.id_of(place), text, state.metadata_of(place))
