"""Making a table of query weights for a document encoder: from idf alone, or learned from queries."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_int, checked_path, parsed_int
from segmax.base.errors import ConfigError, InputError, UnknownIdError
from segmax.base.progress import Progress, ProgressOption, progress_of
from segmax.building.resources import scratch_folder
from segmax.encoders import Encoder, QueryTable, as_encoder
from segmax.encoders.chunks import batched
from segmax.encoders.model_tokenizer import ModelTokenizer, model_tokenizer
from segmax.encoders.table_writing import check_target
from segmax.io import Queries, read_qrels, read_queries
from segmax.search.index import Index
from segmax.text.documents import read_documents
from segmax.text.pipeline import from_texts
from segmax.text.table_learning import Floats, Lists, idf, learned, likeness, make_lists, ndcg, taught

if TYPE_CHECKING:
    import scipy.sparse as sp

    from segmax.vectors.types import Texts  # loads what only annotations need
else:
    from segmax.base.optional import scipy_sparse as sp

#: How many queries a token has to occur in for its weight to change much; the best on a part of the queries is taken.
_STRENGTHS = (3.0, 10.0, 30.0, 100.0)
_FIRST_STRENGTH = 10.0
_FEWEST_QUERIES = 20
_HELD_OUT = 0.2  # of the queries decide whether the learned table is kept, and as many choose the strength
_NEGATIVES = 32  # the first results of a query
_MOST_RELEVANT = 64
_MAX_LENGTH = 512  # tokens of a query


@dataclasses.dataclass(frozen=True)
class TableReport:
    """What `make_query_table` made.

    Examples
    --------
    >>> report = TableReport(path=Path("table"), method="judged", num_texts=9, num_terms=30522,
    ...                      num_queries=323, num_held_out=64, measure="nDCG@10", idf=0.31, learned=0.33)
    >>> report.kept
    'judged'
    """

    path: Path  #: the folder that was written
    method: str  #: "idf"; "teacher": learned from the model's own queries; "judged": from judgments
    num_texts: int  #: the texts that tokens were counted in
    num_terms: int  #: the tokens that have a column
    num_queries: int = 0  #: the queries that were learned from, those held out included
    num_held_out: int = 0  #: the queries that both tables were measured on, of which nothing was learned
    measure: str = ""  #: how: "nDCG@10", or "cosine" to the model's own weights
    idf: float | None = None  #: the measure of the idf table
    learned: float | None = None  #: the measure of the learned table

    @property
    def kept(self) -> str:
        """The table that was written: the learned one unless it is worse than idf."""
        is_worse = self.idf is not None and self.learned is not None and self.learned < self.idf
        return "idf" if is_worse else self.method


def make_query_table(
    model: Any,
    path: str | os.PathLike[str],
    *,
    texts: Texts,
    queries: str | os.PathLike[str] | Queries | Mapping[str, str] | None = None,
    qrels: str | os.PathLike[str] | Mapping[str, Mapping[str, float]] | None = None,
    index: Index | None = None,
    max_length: int = _MAX_LENGTH,
    seed: int = 0,
    overwrite: bool = False,
    progress: ProgressOption = None,
) -> TableReport:
    """Make a table with which the documents of a model are searched without running the model.

    The weight of a token is its idf in the texts. With queries, weights are learned: from judged documents, by softmax
    cross-entropy against the documents that the table finds first; without judgments, from the weights that the model
    itself gives to the tokens of queries. A fifth of the queries is held out, and if the learned table is worse than
    idf on those, the idf table is written.

    Parameters
    ----------
    model
        The encoder of documents: a folder, a name on the hub, or loaded.
    path
        The folder to write; see `QueryTable.save`.
    texts
        Texts to count tokens in, usually those of the index; as for `segmax.from_texts`.
    queries
        What `segmax.io.read_queries` reads, or a mapping of id to text.
    qrels
        What `segmax.io.read_qrels` reads, or grades by query and document. Clicks will do: a grade per clicked
        document.
    index
        An index of documents that the model encoded, with the ids that judgments name. None: the texts are encoded,
        which takes the model and its time.
    max_length
        Cut queries after so many tokens.
    seed
        Of the choice of queries that are held out.
    overwrite
        Replace a table that is at the path.
    progress
        True shows a bar; a function receives updates.

    Raises
    ------
    ConfigError
        Options contradict each other, or there are too few queries to learn from.
    InputError
        A file cannot be read, or the index was made by another model.
    IndexExistsError
        Something is at the path.

    Examples
    --------
    >>> report = make_query_table("naver/splade-v3", "my-table", texts="corpus.jsonl")  # doctest: +SKIP
    >>> index = segmax.open("my.segmax", encoder="my-table")  # doctest: +SKIP
    """
    target = checked_path("path", path)
    _check_together(queries, qrels)
    length = checked_int("max_length", max_length, 1, 1 << 20)
    check_target(target.absolute(), overwrite=overwrite)
    asked = None if queries is None else _texts_of(queries)
    grades = None if qrels is None else _grades_of(qrels)
    tokens = model_tokenizer(model)
    with progress_of(progress) as bars:
        frequencies, num_texts = _count(read_documents(texts, scratch_folder(None, target)), tokens, bars)
    start = idf(frequencies, num_texts)
    start[sorted(number for number in tokens.special if number < len(start))] = 0
    report = TableReport(path=target, method="idf", num_texts=num_texts, num_terms=len(start))
    maker = _Maker(tokens, start, length, np.random.default_rng(checked_int("seed", seed, 0)))
    weights = start
    if asked is not None and grades is None:
        weights, measured = maker.teach(_encoder(model), asked)
        report = dataclasses.replace(report, method="teacher", **measured)
    elif asked is not None and grades is not None:
        found = from_texts(texts, encoder=_encoder(model), keep_texts=False) if index is None else index
        weights, measured = maker.judge(found, asked, grades)
        report = dataclasses.replace(report, method="judged", **measured)
    about = {"made_for": _described(model), "made_from": report.kept, "num_texts": num_texts}
    maker.table(start if report.kept == "idf" else weights).save(target, about=about, overwrite=overwrite)
    return report


def _check_together(queries: object, qrels: object) -> None:
    if qrels is not None and queries is None:
        raise ConfigError(option="queries", expected="given, because judgments are", got="nothing")


def _encoder(model: Any) -> Encoder:
    encoder = as_encoder(model)
    if encoder.queries_only:
        raise ConfigError(expected="a model that encodes documents", got=repr(encoder))
    return encoder


def _described(model: Any) -> str:
    return str(model) if isinstance(model, (str, os.PathLike)) else repr(model)


def _texts_of(queries: str | os.PathLike[str] | Queries | Mapping[str, str]) -> dict[str, str]:
    read = read_queries(queries) if isinstance(queries, (str, os.PathLike)) else queries
    if isinstance(read, Mapping):
        return {str(name): str(text) for name, text in read.items()}
    if read.texts is None:
        raise InputError(expected="queries with texts", got="vectors")
    return dict(zip(read.ids, read.texts, strict=True))


def _grades_of(
    qrels: str | os.PathLike[str] | Mapping[str, Mapping[str, float]],
) -> Mapping[str, Mapping[str, float]]:
    return read_qrels(qrels) if isinstance(qrels, (str, os.PathLike)) else qrels


def _count(texts: Any, tokens: ModelTokenizer, bars: Progress) -> tuple[NDArray[np.int64], int]:
    """Return in how many texts every token occurs, and how many texts there are."""
    frequencies = np.zeros(len(tokens.vocabulary), dtype=np.int64)
    num_texts = 0
    with bars.stage("count", texts.num_docs, "documents") as stage:
        for batch in batched(texts):
            for encoding in tokens.tokenizer.encode_batch_fast([doc.whole for doc in batch], add_special_tokens=False):
                there = np.unique(np.array(encoding.ids, dtype=np.int64))
                frequencies[there[there < len(frequencies)]] += 1
            num_texts += len(batch)
            stage.advance(len(batch))
    if num_texts == 0:
        raise InputError(expected="texts to count tokens in", got="none")
    return frequencies, num_texts


class _Maker:
    """Learns weights from queries, and measures them on those that are held out."""

    def __init__(self, tokens: ModelTokenizer, start: Floats, max_length: int, rng: np.random.Generator) -> None:
        self._tokens = tokens
        self._start = start
        self._max_length = max_length
        self._rng = rng
        self._ones = self.table((start > 0).astype(np.float64))

    def table(self, weights: Floats) -> QueryTable:
        """Return a table with these weights."""
        return QueryTable(self._tokens.tokenizer, weights, max_length=self._max_length)

    def teach(self, encoder: Encoder, queries: Mapping[str, str]) -> tuple[Floats, dict[str, Any]]:
        """Learn from the vectors that a model gives to queries."""
        names = sorted(queries)
        held, rest = self._split(names)
        own, theirs = self._marks(queries, rest), encoder.encode_queries([queries[name] for name in rest])
        weights = taught(self._start, own, theirs)
        own, theirs = self._marks(queries, held), encoder.encode_queries([queries[name] for name in held])
        measured = {"idf": likeness(self._start, own, theirs), "learned": likeness(weights, own, theirs)}
        return weights, {"measure": "cosine", "num_queries": len(names), "num_held_out": len(held), **measured}

    def judge(
        self, index: Index, queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, float]]
    ) -> tuple[Floats, dict[str, Any]]:
        """Learn from judged documents."""
        if index.terms is not None:
            self._ones.for_terms(list(index.terms))
        judged = _Judged(index, {name: qrels[name] for name in sorted(queries) if name in qrels})
        has_tokens = np.diff(self._marks(queries, judged.names).indptr) > 0
        names = [name for name, has_some in zip(judged.names, has_tokens, strict=True) if has_some]
        held, rest = self._split(names)
        chosen, train = self._split(rest)
        marks = self._marks(queries, train)
        lists = judged.lists(train, marks, [self._rows(self._start, marks)])
        first = learned(self._start, lists, _FIRST_STRENGTH)
        lists = judged.lists(train, marks, [self._rows(self._start, marks), self._rows(first, marks)])
        choices = [learned(self._start, lists, strength) for strength in _STRENGTHS]
        on_chosen = self._marks(queries, chosen)
        weights = max(choices, key=lambda weights: judged.measure(chosen, self._rows(weights, on_chosen)))
        on_held = self._marks(queries, held)
        measured = {
            "idf": judged.measure(held, self._rows(self._start, on_held)),
            "learned": judged.measure(held, self._rows(weights, on_held)),
        }
        return weights, {"measure": "nDCG@10", "num_queries": len(names), "num_held_out": len(held), **measured}

    def _split(self, names: list[str]) -> tuple[list[str], list[str]]:
        """Return the queries to measure on, and the others."""
        if len(names) < _FEWEST_QUERIES:
            raise ConfigError(
                option="queries", expected=f"at least {_FEWEST_QUERIES} queries to learn from", got=f"{len(names)}"
            )
        mixed = [names[at] for at in self._rng.permutation(len(names))]
        count = max(int(len(names) * _HELD_OUT), 4)
        return mixed[:count], mixed[count:]

    def _marks(self, queries: Mapping[str, str], names: Sequence[str]) -> sp.csr_matrix:
        """Return a row per query, 1 for each of its tokens that can have a weight."""
        return self._ones.encode_queries([queries[name] for name in names]).astype(np.float64)

    @staticmethod
    def _rows(weights: Floats, marks: sp.csr_matrix) -> sp.csr_matrix:
        return sp.csr_matrix((weights[marks.indices], marks.indices, marks.indptr), shape=marks.shape)


class _Judged:
    """An index with judgments: which documents its searches find, and how good these are."""

    def __init__(self, index: Index, qrels: Mapping[str, Mapping[str, float]]) -> None:
        self._index = index
        self._grades = {name: dict(_grades_by_row(index, grades)) for name, grades in qrels.items()}
        self.names = [name for name, grades in self._grades.items() if grades]

    def measure(self, names: Sequence[str], rows: sp.csr_matrix) -> float:
        """Return the mean nDCG@10 of queries."""
        found = self._index.search_batch(rows, k=10)
        each = zip(names, found, strict=True)
        return float(np.mean([ndcg(hits.rows.tolist(), self._grades[name]) for name, hits in each]))

    def lists(self, names: Sequence[str], marks: sp.csr_matrix, tables: Sequence[sp.csr_matrix]) -> Lists:
        """Return the judged documents of queries, and the first results of tables."""
        candidates = list(self._candidates(names, tables))
        grades = [
            self._grades[name].get(row, 0.0) for name, rows in zip(names, candidates, strict=True) for row in rows
        ]
        parts = [self._parts(rows, marks[number]) for number, rows in enumerate(candidates)]
        return make_lists(sp.csr_matrix(sp.vstack(parts)), [len(rows) for rows in candidates], grades)

    def _candidates(self, names: Sequence[str], tables: Sequence[sp.csr_matrix]) -> Iterator[list[int]]:
        results = [self._index.search_batch(rows, k=_NEGATIVES) for rows in tables]
        for number, name in enumerate(names):
            grades = self._grades[name]
            best = sorted(grades, key=lambda row: (-grades[row], row))[:_MOST_RELEVANT]
            found = [row for hits in results for row in hits[number].rows.tolist()]
            yield list(dict.fromkeys([*best, *found]))

    def _parts(self, rows: list[int], marks: sp.csr_matrix) -> sp.csr_matrix:
        """Return the weights that documents have for the tokens of a query."""
        ids = [self._index.id_of(row) for row in rows]
        one = np.ones(1)  # the score for a token of weight 1 is the document's weight; whole documents take far longer
        terms = marks.indices.astype(np.int64)
        weights = np.stack([self._index.score((terms[at : at + 1], one), ids) for at in range(len(terms))], axis=1)
        starts = np.arange(len(rows) + 1) * len(terms)
        return sp.csr_matrix(
            (weights.reshape(-1), np.tile(terms, len(rows)), starts), shape=(len(rows), marks.shape[1])
        )


def _grades_by_row(index: Index, grades: Mapping[str, float]) -> Iterator[tuple[int, float]]:
    """Yield the documents of an index that are judged relevant; there may be judgments about others."""
    for name, grade in grades.items():
        number = parsed_int(str(name)) if index.id_kind is int else None
        with contextlib.suppress(UnknownIdError):
            if grade > 0:
                yield index.row_of(str(name) if number is None else number), float(grade)
