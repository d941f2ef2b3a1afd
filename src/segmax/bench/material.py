"""What engines are measured on: documents and queries with weights of 8 bits, and judgments, if there are any."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError, UnknownIdError
from segmax.base.progress import Progress
from segmax.bench.engines.own import use_index
from segmax.bench.generated import Generator
from segmax.bench.task import DOCS, QRELS, QUERIES
from segmax.evaluation.judged import Judged, Qrels, asks_for_itself
from segmax.experiments.collections import Collection
from segmax.io import open_vectors
from segmax.search.protocol import Searchable
from segmax.text.queries import EncodedQueries
from segmax.vectors.csr import Csr, canonical, kept_entries
from segmax.vectors.queries import TermLookup, query_batch
from segmax.vectors.rows import join_rows, to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

#: Half of the queries choose settings, the other half is reported.
FEWEST_QUERIES = 2
_LARGEST = 255
#: The measures of relevance come from this package.
_MEASURES = "ir_measures"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Material:
    """Documents and queries.

    Parameters
    ----------
    name
        What it is called in tables.
    docs
        A row of whole weights per document; None if only an index is there.
    queries
        A row per query, over the same terms.
    num_docs
        How many documents there are.
    grades
        Grades by the number of a query and the row of a document; None without judgments.
    own
        Rows of documents that are queries themselves, by the number of the query: they are no answers.
    generated
        Whether it was drawn at random.
    rounded
        Whether weights were rounded.
    index
        The path of the index, if that is what is measured.
    about
        Where it came from, for the record.
    """

    name: str
    docs: sp.csr_matrix | None
    queries: sp.csr_matrix
    num_docs: int
    grades: Mapping[str, Mapping[str, int]] | None = None
    own: Mapping[str, int] = dataclasses.field(default_factory=dict)
    generated: bool = False
    rounded: bool = False
    index: Path | None = None
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.queries.shape[0] < FEWEST_QUERIES:
            raise InputError(
                expected=f"at least {FEWEST_QUERIES} queries: one half chooses settings, the other is reported",
                got=str(self.queries.shape[0]),
            )
        if self.num_docs < 1:
            raise InputError(expected="at least one document", got="none")

    @property
    def measures_relevance(self) -> bool:
        """Whether there are judgments, and the package that measures by them."""
        return self.grades is not None and importlib.util.find_spec(_MEASURES) is not None

    def folder_name(self) -> str:
        """Return a name for the folder of vectors and indexes, another one for other documents."""
        digest = hashlib.sha256(str(self.index).encode())
        if self.docs is not None:
            for array in (self.docs.indptr.astype(np.int64), self.docs.indices.astype(np.int32), self.docs.data):
                digest.update(np.ascontiguousarray(array).tobytes())
        return f"race-{self.name or 'data'}-{digest.hexdigest()[:12]}"

    def write(self, folder: Path) -> None:
        """Write what fresh processes read."""
        if self.docs is not None:
            sp.save_npz(folder / DOCS, self.docs, compressed=False)
        elif self.index is not None:
            (folder / "segmax").mkdir(exist_ok=True)
            use_index(folder / "segmax", self.index)
        sp.save_npz(folder / QUERIES, self.queries, compressed=False)
        if self.measures_relevance:
            (folder / QRELS).write_text(json.dumps({"grades": self.grades, "own": self.own}), encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Return what a report shows of it."""
        return {
            "name": self.name,
            "documents": self.num_docs,
            "postings": None if self.docs is None else int(self.docs.nnz),
            "terms": int(self.queries.shape[1]),
            "queries": int(self.queries.shape[0]),
            "postings_of_queries": int(self.queries.nnz),
            "judged": self.grades is not None,
            "own_documents_dropped": len(self.own),
            "generated": self.generated,
            "rounded": self.rounded,
            "source": dict(self.about),
        }


# --- three sources ---------------------------------------------------------------------------------------------------


def generated(
    count: int, *, num_queries: int, doc_terms: float, query_terms: float, seed: int, progress: Progress
) -> Material:
    """Draw a collection with about these mean numbers of terms; the same arguments draw the same one."""
    generator = Generator(seed)
    queries = generator.vectors(num_queries, query_terms)
    parts = []
    with progress.stage("generate", count, "documents") as stage:
        for batch in generator.batches(count, doc_terms):
            parts.append(batch)
            stage.advance(batch.shape[0])
    docs, _ = whole_weights(sp.vstack(parts, format="csr"))
    return Material(
        name=f"generated-{count}",
        docs=docs,
        queries=whole_queries(queries)[0],
        num_docs=count,
        generated=True,
        about={"doc_terms": doc_terms, "query_terms": query_terms, "seed": seed},
    )


def of_collection(collection: Collection, about: Mapping[str, Any], progress: Progress) -> Material:
    """Read the vectors of a collection, and round them."""
    reader = open_vectors(collection.documents)
    ids: list[str] = []
    parts: list[Csr] = []
    with progress.stage("read", collection.num_docs, "documents") as stage:
        for batch in reader.batches():
            parts.append(canonical(batch.vectors, len(ids)))
            ids.extend(map(str, batch.ids))
            stage.advance(len(batch.ids))
    if not parts:
        raise InputError(where=f"'{collection.documents}'", expected="at least one document", got="none")
    floats = to_scipy(join_rows(parts, max(part.num_columns for part in parts)))
    docs, rounded = whole_weights(floats)
    terms = reader.terms
    lookup = None if terms is None else {word: column for column, word in enumerate(terms)}.get
    queries, also = whole_queries(_known_terms(collection.queries, lookup, docs.shape[1]))
    rows = {name: row for row, name in enumerate(ids)}
    return Material(
        name=collection.name,
        docs=docs,
        queries=queries,
        num_docs=docs.shape[0],
        grades=_by_number(collection.queries.ids, collection.qrels, rows),
        own=_own_rows(collection.queries.ids, rows, collection.drop_self),
        rounded=rounded or also,
        about=about,
    )


def of_index(path: Path, index: Searchable, judged: Judged, about: Mapping[str, Any]) -> Material:
    """Take queries for an index that is there; its weights, and those of queries, stay as they are."""
    words = index.terms
    queries = _known_terms(judged.queries, None if words is None else words.find, index.num_terms)
    wanted = {document for grades in (judged.qrels or {}).values() for document in grades}
    rows = {name: row for name in {*wanted, *judged.queries.ids} if (row := _row_of(index, name)) is not None}
    return Material(
        name=path.name,
        docs=None,
        queries=queries,
        num_docs=index.num_docs,
        grades=_by_number(judged.queries.ids, judged.qrels, rows),
        own=_own_rows(judged.queries.ids, rows, None),
        index=path,
        about=about,
    )


# --- weights of 8 bits -----------------------------------------------------------------------------------------------


def whole_weights(docs: sp.csr_matrix) -> tuple[sp.csr_matrix, bool]:
    """Return documents with whole weights from 1 to 255, and whether anything was rounded.

    All engines get the same weights. Most round weights to 8 bits when they build, each in its own way; on weights that
    are whole numbers already, exact search means the same to all. The largest weight becomes 255.
    """
    largest = float(docs.data.max(initial=0))
    if _are_whole(docs.data):
        return _of_bytes(docs, docs.data), False
    return _of_bytes(docs, np.rint(docs.data.astype(np.float64) / largest * _LARGEST)), True


def whole_queries(queries: sp.csr_matrix) -> tuple[sp.csr_matrix, bool]:
    """Return queries with whole weights from 1 to 255, and whether anything was rounded.

    A query has a scale of its own, which changes the scores of all documents alike.
    """
    if _are_whole(queries.data):
        return _of_bytes(queries, queries.data), False
    lengths = np.diff(queries.indptr)
    largest = np.zeros(queries.shape[0])
    filled = lengths > 0
    if filled.any():
        largest[filled] = np.maximum.reduceat(queries.data, queries.indptr[:-1][filled])
    shares = queries.data.astype(np.float64) / np.repeat(np.where(largest > 0, largest, 1), lengths)
    return _of_bytes(queries, np.rint(shares * _LARGEST)), True


def _are_whole(weights: NDArray[Any]) -> bool:
    """Whether all weights are whole numbers that fit 8 bits."""
    return bool((weights <= _LARGEST).all() and (weights == np.floor(weights)).all())


def _of_bytes(matrix: sp.csr_matrix, weights: NDArray[Any]) -> sp.csr_matrix:
    """Return a matrix with these weights, in bytes, without those that are 0."""
    made = sp.csr_matrix((weights.astype(np.uint8), matrix.indices, matrix.indptr), shape=matrix.shape)
    made.eliminate_zeros()
    made.sort_indices()
    return made


# --- queries and judgments -------------------------------------------------------------------------------------------


def _known_terms(queries: EncodedQueries, lookup: TermLookup, num_terms: int) -> sp.csr_matrix:
    """Return queries as a matrix over the terms of the documents; terms that no document has are left out."""
    batch = query_batch(queries.vectors, lookup, num_terms)
    if (batch.values < 0).any() or not np.isfinite(batch.values).all():
        raise InputError(expected="queries with finite weights >= 0", got="others", hint="clip such weights first")
    matrix = to_scipy(kept_entries(batch, batch.indices < num_terms)._replace(num_columns=num_terms))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _by_number(ids: Sequence[str], qrels: Qrels | None, rows: Mapping[str, int]) -> dict[str, dict[str, int]] | None:
    """Return grades by the number of a query and the row of a document; a document that is not there keeps its id.

    It counts as relevant and not found, as it does for others who measure.
    """
    if qrels is None:
        return None
    return {
        str(number): {str(rows.get(document, f"missing-{document}")): grade for document, grade in qrels[name].items()}
        for number, name in enumerate(ids)
        if name in qrels
    }


def _own_rows(ids: Sequence[str], rows: Mapping[str, int], drop_self: bool | None) -> dict[str, int]:
    """Return the rows of documents that have the id of a query, by the query's number, if those are no answers."""
    known = [name in rows for name in ids]
    if not (asks_for_itself(ids, known) if drop_self is None else drop_self):
        return {}
    return {str(number): rows[name] for number, name in enumerate(ids) if name in rows}


def _row_of(index: Searchable, name: str) -> int | None:
    """Return the row of a document; documents may be called by numbers."""
    for known in (name, int(name)) if name.isascii() and name.isdecimal() else (name,):
        with contextlib.suppress(InputError, UnknownIdError):
            return index.row_of(known)
    return None
