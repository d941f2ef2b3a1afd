"""Documents as dictionaries of tokens, as PyTerrier hands them on: read once, tokens numbered as they come."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from segmax.base.errors import InputError
from segmax.base.vocabulary import GrowingVocabulary
from segmax.vectors.csr import Csr
from segmax.vectors.documents import VectorBatch

_BATCH_DOCS = 4096


class TokVectors:
    """A `VectorReader` over documents with a `docno` and a mapping of token to weight.

    Parameters
    ----------
    docs
        The documents.
    field
        The name of the mapping.
    """

    def __init__(self, docs: Iterable[Mapping[str, Any]], field: str) -> None:
        self._docs = docs
        self._field = field
        self._vocabulary = GrowingVocabulary()

    @property
    def terms(self) -> list[str]:
        """The tokens so far; all of them after the last batch."""
        return self._vocabulary.terms

    @property
    def num_docs(self) -> int | None:
        """Unknown before the end."""
        return None

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        ids: list[str] = []
        ends, terms, weights = array("q", [0]), array("I"), array("d")
        for number, doc in enumerate(self._docs):
            doc_id, toks = self._checked(doc, number)
            try:
                terms.extend([self._number(token) for token in toks])
                weights.extend(toks.values())
            except TypeError as error:
                raise InputError(
                    expected="a mapping of token to weight", got=f"another in document {doc_id!r} ({error})"
                ) from error
            ids.append(doc_id)
            ends.append(len(terms))
            if len(ids) == _BATCH_DOCS:
                yield self._batch(ids, ends, terms, weights)
                ids, ends, terms, weights = [], array("q", [0]), array("I"), array("d")
        if ids:
            yield self._batch(ids, ends, terms, weights)

    def _checked(self, doc: Mapping[str, Any], number: int) -> tuple[str, Mapping[str, Any]]:
        """Return the id and the tokens of a document."""
        missing = [column for column in ("docno", self._field) if column not in doc]
        if missing:
            raise InputError(
                expected=f"documents with {' and '.join(missing)}", got=f"{sorted(doc)} for document {number}"
            )
        doc_id, toks = doc["docno"], doc[self._field]
        if not isinstance(doc_id, str):
            raise InputError(expected="docno to be a string", got=f"{doc_id!r} for document {number}")
        if not isinstance(toks, Mapping):
            raise InputError(
                expected="a mapping of token to weight", got=f"{type(toks).__name__} in document {doc_id!r}"
            )
        return doc_id, toks

    def _number(self, token: object) -> int:
        if not isinstance(token, str):
            msg = f"a token must be a string, not {token!r}"
            raise TypeError(msg)
        return self._vocabulary.number(token)

    def _batch(self, ids: list[str], ends: array[int], terms: array[int], weights: array[float]) -> VectorBatch:
        vectors = Csr(np.array(ends), np.array(terms, dtype=np.uint32), np.array(weights), len(self._vocabulary))
        return VectorBatch(ids, vectors)
