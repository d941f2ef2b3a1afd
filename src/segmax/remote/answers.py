"""Answers of a service as segmax's own results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.remote.calls import count_is, doc_id, flag, members, real, record, string, whole
from segmax.search.inside import ClusterView, InsideView
from segmax.search.results import (
    STATS_FIELDS,
    BatchHits,
    BatchStats,
    Explanation,
    FoundDocuments,
    Group,
    Groups,
    Hits,
    MatchedTerm,
)
from segmax.storage.texts import StoredText
from segmax.vectors.csr import Csr
from segmax.vectors.documents import DocId

_FLAGS = frozenset({"budget_hit", "swept"})
#: Statistics that a service of 0.2 does not send.
_NOT_IN_0_2 = {"lines_read": 0, "entries_read": 0}


class Info(NamedTuple):
    """What a service says about an index or a collection."""

    name: str
    is_collection: bool
    version: str
    num_docs: int
    num_terms: int
    num_clusters: int
    num_segments: int
    num_postings: int
    num_bytes: int
    bits: int
    id_kind: str | None
    has_texts: bool
    has_metadata: bool
    has_vocabulary: bool
    fields: dict[str, tuple[str, ...]]
    encoder: str | None
    writable: bool
    num_shards: int | None = None  #: of a sharded index

    def vocabulary(self, version: str) -> str:
        """Return what changes when words get other numbers: those of a collection keep theirs when it is written to."""
        return version.rpartition("-")[0] if self.is_collection else version

    @classmethod
    def from_answer(cls, answer: Any) -> Info:
        """Read an `IndexInfo`."""
        said = record(answer)
        numbers = ("num_docs", "num_terms", "num_clusters", "num_segments", "num_postings", "num_bytes", "bits")
        kind = string(said["kind"])
        if kind not in ("index", "collection"):
            msg = f"expected an index or a collection, got {kind[:80]!r}"
            raise ValueError(msg)
        return cls(
            name=string(said["name"]),
            is_collection=kind == "collection",
            version=string(said["version"]),
            id_kind=None if said["id_kind"] is None else string(said["id_kind"]),
            encoder=None if said["encoder"] is None else string(said["encoder"]),
            fields={name: tuple(map(string, members(kinds))) for name, kinds in record(said["fields"]).items()},
            has_texts=flag(said["has_texts"]),
            has_metadata=flag(said["has_metadata"]),
            has_vocabulary=flag(said["has_vocabulary"]),
            writable=flag(said["writable"]),
            num_shards=None if said.get("num_shards") is None else whole(said["num_shards"]),
            **{name: whole(said[name]) for name in numbers},
        )


class Figures(NamedTuple):
    """Sizes and figures of an index."""

    num_clusters: int
    sizes: dict[str, int]
    cluster_sizes: NDArray[np.uint32]  #: the largest first; of many clusters, a sample
    quantization_error: float | None
    collection: dict[str, Any] | None  #: what a collection consists of

    @classmethod
    def from_answer(cls, answer: Any) -> Figures:
        """Read a `StatsResult`."""
        said = record(answer)
        error, collection = said["quantization_error"], said["collection"]
        return cls(
            whole(record(said["info"])["num_clusters"]),
            {name: whole(size) for name, size in record(said["sizes"]).items()},
            np.array(list(map(whole, members(said["cluster_sizes"]))), dtype=np.uint32),
            None if error is None else real(error),
            None if collection is None else record(collection),
        )


class FoundDocument(NamedTuple):
    """A document of an answer; None for what was not asked for, or is not there."""

    id: DocId
    row: int | None
    text: StoredText | None
    metadata: dict[str, Any] | None
    terms: list[int] | None
    weights: list[float] | None

    @classmethod
    def from_answer(cls, answer: Any) -> FoundDocument:
        """Read a `DocumentResult`."""
        said = record(answer)
        vector = said.get("vector")
        return cls(
            doc_id(said["id"]),
            None if said.get("row") is None else whole(said["row"]),
            stored_text(said),
            stored_metadata(said),
            None if vector is None else list(map(whole, members(vector["indices"]))),
            None if vector is None else list(map(real, members(vector["values"]))),
        )


def documents(answer: Any, count: int) -> list[FoundDocument]:
    """Read a `DocumentsResult` of so many documents."""
    return [FoundDocument.from_answer(one) for one in count_is(members(record(answer)["documents"]), count)]


def stored_text(said: dict[str, Any]) -> StoredText | None:
    """Return the title and the text of a document that has them."""
    title, text = said.get("title"), said.get("text")
    if title is None and text is None:
        return None
    return StoredText("" if title is None else string(title), "" if text is None else string(text))


def stored_metadata(said: dict[str, Any]) -> dict[str, Any] | None:
    """Return the metadata of a document that has any."""
    return None if said.get("metadata") is None else record(said["metadata"])


# --- results of searches ---------------------------------------------------------------------------------------------


class Ranking(NamedTuple):
    """The results of one search, before they know where to look documents up."""

    rows: list[int]
    scores: list[float]
    ids: list[DocId]
    stats: list[int]
    complete: bool | None  #: None where the answer does not say
    hits: list[Any]

    @classmethod
    def from_answer(cls, answer: Any) -> Ranking:
        """Read a `SearchResult` or a `GroupResult`. There may be many results, so their values are checked together."""
        said = record(answer)
        hits = members(said["hits"])
        rows = _of_types([hit["row"] for hit in hits], {int}, "row")
        if rows and not 0 <= min(rows) <= max(rows) < 2**63:
            msg = f"expected numbers of rows, got {min(rows)} and {max(rows)}"
            raise ValueError(msg)
        found = {**_NOT_IN_0_2, **record(said["stats"])}
        stats = [int(flag(found[name])) if name in _FLAGS else _counter(found[name]) for name in STATS_FIELDS]
        complete = None if said.get("complete") is None else flag(said["complete"])
        scores = list(map(float, _of_types([hit["score"] for hit in hits], {float, int}, "score")))
        return cls(rows, scores, _of_types([hit["id"] for hit in hits], {int, str}, "id"), stats, complete, hits)

    def as_hits(self, docs: FoundDocuments) -> Hits:
        """Return the results."""
        stats = np.array(self.stats, dtype=np.uint64)
        return Hits(_rows(self.rows), _scores(self.scores), stats, docs, complete=self.complete)


def _of_types(values: list[Any], types: set[type], name: str) -> list[Any]:
    """Return values that all have one of these types."""
    wrong = set(map(type, values)) - types
    if wrong:
        msg = f"expected another type of {name}, got {wrong.pop().__name__}"
        raise TypeError(msg)
    return values


def _row(value: Any) -> int:
    row = whole(value)
    if not 0 <= row < 2**63:
        msg = f"expected the number of a row, got {row}"
        raise ValueError(msg)
    return row


def _counter(value: Any) -> int:
    number = whole(value)
    if number < 0:
        msg = f"expected a counter, got {number}"
        raise ValueError(msg)
    return number


def _rows(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _scores(values: list[float]) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


#: Makes what results look documents up in, of all that were found.
MakeDocs = Callable[[Sequence[Ranking]], FoundDocuments]


def hits(answer: Any, make_docs: MakeDocs) -> Hits:
    """Read a `SearchResult`."""
    ranking = Ranking.from_answer(answer)
    return ranking.as_hits(make_docs([ranking]))


def groups(answer: Any, make_docs: MakeDocs) -> Groups:
    """Read a `GroupsResult`; documents of all groups are looked up together."""
    said = record(answer)
    each = members(said["groups"])
    rankings = [Ranking.from_answer(group) for group in each]
    docs = make_docs(rankings)
    return Groups(
        [Group(scalar(group["value"]), ranking.as_hits(docs)) for group, ranking in zip(each, rankings, strict=True)],
        complete=flag(said["complete"]),
    )


def rankings(answer: Any, count: int) -> list[Ranking]:
    """Read a `BatchResult` of so many queries."""
    return [Ranking.from_answer(one) for one in count_is(members(record(answer)["results"]), count)]


def batch(found: Sequence[Ranking], width: int, make_docs: MakeDocs) -> BatchHits:
    """Return the results of many queries as arrays that are at least so wide."""
    counts = np.array([len(ranking.rows) for ranking in found], dtype=np.int64)
    width = max(width, int(counts.max(initial=0)))
    rows = np.full((len(found), width), -1, dtype=np.int64)
    scores = np.zeros((len(found), width))
    stats = np.zeros((len(found), len(STATS_FIELDS)), dtype=np.uint64)
    for number, ranking in enumerate(found):
        rows[number, : len(ranking.rows)] = ranking.rows
        scores[number, : len(ranking.rows)] = ranking.scores
        stats[number] = ranking.stats
    complete = np.array([ranking.complete is not False for ranking in found], dtype=np.bool_)
    return BatchHits(rows, scores, counts, BatchStats(stats), make_docs(found), complete=complete)


# --- other answers ---------------------------------------------------------------------------------------------------


def explanation(answer: Any) -> Explanation:
    """Read an `Explanation`."""
    said = record(answer)
    matched = tuple(
        MatchedTerm(
            whole(one["term"]),
            None if one["word"] is None else string(one["word"]),
            real(one["query_weight"]),
            real(one["document_weight"]),
            real(one["contribution"]),
            flag(one["searched"]),
        )
        for one in map(record, members(said["matched"]))
    )
    numbers = ("bound_sum", "max_bound", "avg_bound", "threshold", "final_threshold")
    return Explanation(
        id=doc_id(said["id"]),
        score=real(said["score"]),
        matched=matched,
        rank=None if said["rank"] is None else whole(said["rank"]),
        cluster=whole(said["cluster"]),
        decision=string(said["decision"]),
        reason=string(said["reason"]),
        **{name: _bound(said[name]) for name in numbers},
    )


_CLUSTER_BOUNDS = ("bound_sum", "max_bound", "avg_bound", "best_score")


def inside(answer: Any) -> Callable[[Hits], InsideView]:
    """Read an `InsideResult`, which has no results; return what adds them."""
    said = record(answer)
    clusters = [
        ClusterView(
            cluster=whole(one["cluster"]),
            num_docs=whole(one["num_docs"]),
            decision=string(one["decision"]),
            threshold=None if one["threshold"] is None else real(one["threshold"]),
            num_hits=whole(one["num_hits"]),
            **{name: _bound(one[name]) for name in _CLUSTER_BOUNDS},
        )
        for one in map(record, members(said["clusters"]))
    ]
    final_threshold, num_blocks = _bound(said["final_threshold"]), whole(said["num_blocks"])
    return lambda hits: InsideView(clusters, hits, final_threshold, num_blocks)


def _bound(value: Any) -> float:
    """Return a bound; JSON has no nan, which stands for one that was not needed."""
    return math.nan if value is None else real(value)


def scalar(value: Any) -> Any:
    """Return a value of a field."""
    if value is not None and type(value) not in (str, int, float, bool):
        msg = f"expected a single value, got {type(value).__name__}"
        raise TypeError(msg)
    return value


def facets(answer: Any) -> list[tuple[Any, int]]:
    """Read a `FacetsResult`."""
    return [(scalar(one["value"]), whole(one["count"])) for one in map(record, members(record(answer)["values"]))]


def scores(answer: Any, count: int) -> list[float]:
    """Read a `ScoreResult` of so many documents."""
    return [real(score) for score in count_is(members(record(answer)["scores"]), count)]


def vectors(answer: Any, count: int) -> list[tuple[list[int], list[float]]]:
    """Read an `EncodeResult` of so many texts."""
    found = map(record, count_is(members(record(answer)["vectors"]), count))
    return [(list(map(_row, members(one["indices"]))), list(map(real, members(one["values"])))) for one in found]


def rows_of(found: Sequence[tuple[Sequence[int], Sequence[float]]], num_columns: int) -> Csr:
    """Return vectors as rows; raise ValueError if their parts do not fit together."""
    terms = np.array([term for terms, _ in found for term in terms], dtype=np.int64)
    weights = np.array([weight for _, weights in found for weight in weights], dtype=np.float64)
    if any(len(terms) != len(weights) for terms, weights in found) or (len(terms) and terms.min() < 0):
        msg = "the terms and weights of a vector do not fit together"
        raise ValueError(msg)
    indptr = np.zeros(len(found) + 1, dtype=np.int64)
    np.cumsum([len(terms) for terms, _ in found], out=indptr[1:])
    return Csr(indptr, terms, weights, max(num_columns, int(terms.max(initial=-1)) + 1))


class Words(NamedTuple):
    """Terms that were looked up, by place; None for one that is not there."""

    terms: list[tuple[int, str] | None]
    version: str  #: of the index that they were looked up in; "" from a service that does not say

    @classmethod
    def from_answer(cls, answer: Any, count: int) -> Words:
        """Read a `TermsResult` of so many terms."""
        said = record(answer)
        found = [
            None if one is None else (_row(one["term"]), string(one["word"]))
            for one in count_is(members(said["terms"]), count)
        ]
        return cls(found, string(said.get("version", "")))
