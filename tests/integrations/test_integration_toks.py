"""Documents as dictionaries of tokens: numbered as they come, batch by batch, the same in the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conftest import refused
from segmax.base.errors import InputError
from segmax.integrations.toks import TokVectors


def sampled(rng: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Documents of a few tokens each, some of none."""
    words = [rng.integers(0, 50, rng.integers(0, 9)) for _ in range(count)]
    return [
        {"docno": f"d{i}", "toks": {f"wörd{word}": int(rng.integers(1, 100)) for word in of_doc}}
        for i, of_doc in enumerate(words)
    ]


@pytest.mark.parametrize("batch_docs", [1, 7, 40, 1000])
def test_what_comes_out_is_what_went_in(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, batch_docs: int
) -> None:
    """However large batches are, ids, tokens and weights are those of the dictionaries, and batches only widen."""
    monkeypatch.setattr("segmax.integrations.toks._BATCH_DOCS", batch_docs)
    docs = sampled(rng, 40)
    reader = TokVectors(iter(docs), "toks")
    assert (reader.terms, reader.num_docs) == ([], None)
    read: list[dict[str, Any]] = []
    width = 0
    for ids, vectors, _ in reader.batches():
        assert vectors.num_columns == len(reader.terms) >= width
        width = vectors.num_columns
        for row, doc_id in enumerate(ids):
            span = slice(vectors.indptr[row], vectors.indptr[row + 1])
            pairs = zip(vectors.indices[span], vectors.values[span], strict=True)
            read.append({"docno": doc_id, "toks": {reader.terms[term]: int(weight) for term, weight in pairs}})
    assert read == docs
    assert reader.terms == list(dict.fromkeys(token for doc in docs for token in doc["toks"]))


@pytest.mark.parametrize(
    ("doc", "expected", "got"),
    [
        ({"docno": "x"}, "^documents with toks$", r"\['docno'\] for document 1"),
        ({}, "^documents with docno and toks$", r"\[\] for document 1"),
        ({"docno": 7, "toks": {}}, "a string", "7 for document 1"),
        ({"docno": "x", "toks": ["a"]}, "^a mapping of token to weight$", "list in document 'x'"),
        ({"docno": "x", "toks": {5: 1.0}}, "", r"in document 'x' \(a token must be a string, not 5\)"),
        ({"docno": "x", "toks": {"a": "1.0"}}, "", r"in document 'x' \(must be real number, not str\)"),
    ],
)
def test_wrong_documents_are_named(doc: dict[str, Any], expected: str, got: str) -> None:
    """What lacks a column, or has no id, mapping, token or weight there, raises InputError that says where."""
    with refused(InputError, expected=expected, got=got):
        list(TokVectors([{"docno": "fine", "toks": {"a": 1}}, doc], "toks").batches())
