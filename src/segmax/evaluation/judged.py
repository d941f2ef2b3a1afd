"""Queries with their judgments: a BEIR folder, or files of each."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from segmax.base.errors import ConfigError, InputError
from segmax.io import read_qrels
from segmax.io.frames import is_frame
from segmax.io.records import checked_id
from segmax.io.trec import by_document, by_query, checked_grade
from segmax.search.protocol import Searchable
from segmax.text.queries import EncodedQueries, encode_queries_for, read_encoded_queries

Qrels = Mapping[str, Mapping[str, int]]
PathLike = str | os.PathLike[str]
#: What the columns of a table of judgments are called.
_QUERY_IDS = ("qid", "query_id", "query-id")
_DOC_IDS = ("docno", "doc_id", "docid", "corpus-id")
_GRADES = ("label", "relevance", "score", "grade")


@dataclasses.dataclass(frozen=True)
class Judged:
    """Queries to run, and the grades of documents by query; `qrels` is None without judgments.

    `num_unasked` counts the judged queries that are not among the queries.

    Examples
    --------
    >>> import segmax
    >>> index = segmax.from_texts({"d1": "a copper waveguide", "d2": "noise in diodes"})
    >>> judged = read_judged(index, {"q1": "copper"}, {"q1": {"d1": 1}})
    >>> judged.queries.ids, judged.qrels
    (['q1'], {'q1': {'d1': 1}})
    """

    queries: EncodedQueries
    qrels: Qrels | None
    num_unasked: int = 0


def read_judged(
    index: Searchable,
    queries: object = None,
    qrels: PathLike | Qrels | None = None,
    *,
    data: PathLike | None = None,
    split: str = "test",
) -> Judged:
    """Read queries and judgments. If there are judgments, queries without one are left out.

    Parameters
    ----------
    index
        What the queries are for; its encoder encodes texts.
    queries
        A path, `segmax.io.Queries`, `EncodedQueries`, a mapping of id to text or vector, a DataFrame with columns "qid"
        and "query", a matrix, or an iterable of single queries or texts, numbered from 0.
    qrels
        A path, or the grade by query and document; None: nothing is judged.
    data
        A BEIR folder, instead of both; `queries` or `qrels` take precedence over those of the folder.
    split
        Which judgments of the folder to use.

    Examples
    --------
    >>> import segmax
    >>> index = segmax.from_texts({"d1": "a copper waveguide", "d2": "noise in diodes"})
    >>> judged = read_judged(index, {"q1": "copper", "q2": "glass"}, {"q1": {"d1": 1}})
    >>> judged.queries.ids  # q2 has no judgment
    ['q1']
    """
    if queries is None and data is None:
        raise ConfigError(expected="queries, or data: a BEIR folder with queries and judgments", got="neither")
    grades = _grades(data if qrels is None else qrels, split)
    source = data if queries is None else queries
    if isinstance(source, (str, os.PathLike)):
        encoded = read_encoded_queries(source, index, only=grades)
    else:
        encoded = encode_queries_for(source, index)
    if grades is None:
        return Judged(encoded, None)
    asked = _judged_only(encoded, grades)
    return Judged(asked, grades, len(grades) - len(asked))


def _grades(qrels: PathLike | Qrels | None, split: str) -> Qrels | None:
    if qrels is None:
        return None
    if isinstance(qrels, (str, os.PathLike)):
        return read_qrels(qrels, split)
    if is_frame(qrels):
        return _of_frame(qrels)
    return {
        str(query): {
            str(doc): checked_grade(grade, doc) for doc, grade in by_document(docs, query, "judgments").items()
        }
        for query, docs in by_query(qrels, "judgments").items()
    }


def _of_frame(qrels: Any) -> Qrels:
    """Return the judgments of a DataFrame with a row each, as PyTerrier has them."""
    names = [str(name) for name in qrels.columns]
    used = [next((name for name in known if name in names), None) for known in (_QUERY_IDS, _DOC_IDS, _GRADES)]
    if None in used:
        raise InputError(
            expected="judgments with the columns qid, docno and label", got=f"{', '.join(names)[:80] or 'none'}"
        )
    found: dict[str, dict[str, int]] = {}
    for query, doc, grade in zip(*(qrels[name] for name in used), strict=True):
        found.setdefault(checked_id(query, "judgments"), {})[checked_id(doc, "judgments")] = checked_grade(grade, doc)
    return found


def _judged_only(encoded: EncodedQueries, qrels: Qrels) -> EncodedQueries:
    rows = [row for row, name in enumerate(encoded.ids) if name in qrels]
    if not rows:
        raise InputError(
            expected="queries that are judged",
            got=(f"none: ids of queries are like {_some(encoded.ids)}, those of judgments like {_some(list(qrels))}"),
        )
    return encoded if len(rows) == len(encoded) else encoded.only(rows)


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) or "none"


def asks_for_itself(query_ids: Sequence[str], known: Sequence[bool]) -> bool:
    """Whether queries are documents themselves, as in ArguAna, so that a query's own document is no answer.

    That is assumed if most queries have the id of a document; ids that are numbers do not count, they often coincide.
    """
    own = sum(found and not name.isdigit() for name, found in zip(query_ids, known, strict=True))
    return own > len(query_ids) / 2
