"""Queries as messages, whatever they come as: texts, weights by word, term numbers and weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.vectors.csr import Csr, is_matrix
from segmax.vectors.queries import query_arrays, query_batch, query_list, row_arrays

Message = dict[str, Any]
#: Finds the number of a word.
Find = Callable[[str], int | None]

_MOST_TERM = 2**31 - 1  # that the API has


def single(query: object, find: Find | None, num_terms: int) -> Message:
    """Return the message of one query; `find` is asked for the words of mappings that have numbers, too."""
    if isinstance(query, str):
        return {"text": str(query)}
    if isinstance(query, Csr):
        return _vector(*row_arrays(query))
    if isinstance(query, Mapping) and query and all(isinstance(term, str) for term in query):
        words = list(map(str, query))
        numbers = {word: number for number, word in enumerate(words)}
        terms, weights = query_arrays(query, numbers.get)
        _check(terms, weights, words)
        return {"terms": dict(zip(words, weights.tolist(), strict=True))}
    return _vector(*query_arrays(query, find, num_terms))


def listed(queries: object) -> Csr | list[Any]:
    """Return many queries as rows, or as a list of single ones."""
    if isinstance(queries, Csr) or is_matrix(queries):
        return query_batch(queries)
    return query_list(queries)


def several(queries: Csr | Sequence[Any], find: Find | None, num_terms: int) -> list[Message]:
    """Return the messages of many queries."""
    if not isinstance(queries, Csr):
        return [single(query, find, num_terms) for query in queries]
    terms, weights = queries.indices, queries.values
    _check(terms, weights)
    indptr, numbers, values = queries.indptr.tolist(), _in_range(terms).tolist(), weights.tolist()
    return [
        {"vector": {"indices": numbers[start:stop], "values": values[start:stop]}}
        for start, stop in itertools.pairwise(indptr)
    ]


def words_beside_numbers(queries: Iterable[Any]) -> list[str]:
    """Return the words of mappings that name some terms by word and others by number."""
    found: dict[str, None] = {}
    for query in queries:
        if isinstance(query, Mapping):
            words = [str(term) for term in query if isinstance(term, str)]
            if len(words) < len(query):
                found.update(dict.fromkeys(words))
    return list(found)


def _vector(terms: NDArray[np.int64], weights: NDArray[np.float64]) -> Message:
    _check(terms, weights)
    return {"vector": {"indices": _in_range(terms).tolist(), "values": weights.tolist()}}


def _in_range(terms: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return term numbers that the API has; larger ones are unknown to any index, and stay different ones."""
    is_large = terms > _MOST_TERM
    if not is_large.any():
        return terms
    _, places = np.unique(terms[is_large], return_inverse=True)
    found = terms.copy()
    found[is_large] = _MOST_TERM - places
    return found


def _check(terms: NDArray[np.int64], weights: NDArray[np.float64], words: Sequence[str] | None = None) -> None:
    """Raise the core's errors about terms and weights that the API does not have."""
    if len(terms) and terms.min() < 0:
        at = int(np.argmax(terms < 0))
        raise InputError(expected="term numbers >= 0 in a query", got=f"{terms[at]} at entry {at}")
    wrong = np.flatnonzero(~np.isfinite(weights))
    if len(wrong):
        term = int(terms[wrong[0]])
        raise InputError(
            expected="finite query weights >= 0",
            got=f"{float(weights[wrong[0]])} for term {term if words is None else repr(words[term])}",
            hint="clip negative weights to 0 first if the model produces them",
        )
