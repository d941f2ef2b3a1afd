"""The Vaswani (NPL) collection: 11,429 abstracts, 93 queries, 2,083 judgements, with BM25 weights."""

from __future__ import annotations

import csv
import gzip
import io
import json
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp


class Collection(NamedTuple):
    """Documents and queries as BM25 vectors over one vocabulary, with judgements."""

    documents: sp.csr_matrix
    doc_ids: list[str]
    queries: sp.csr_matrix
    query_ids: list[str]
    terms: list[str]
    qrels: dict[str, dict[str, int]]


def _read_jsonl(name: str) -> list[dict[str, Any]]:
    data = gzip.decompress((files("segmax.demo") / "data" / name).read_bytes())
    return [json.loads(line) for line in data.decode("utf-8").splitlines()]


def _read_qrels() -> dict[str, dict[str, int]]:
    text = (files("segmax.demo") / "data" / "qrels.tsv").read_text("utf-8")
    qrels: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(io.StringIO(text), delimiter="\t"):
        qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    return qrels


def load() -> Collection:
    """Read the collection and weight it by BM25 (needs the `demo` extra: bm25s)."""
    try:
        import bm25s
    except ImportError as error:
        msg = "the demo weights documents with bm25s: pip install 'segmax[demo]'"
        raise ImportError(msg) from error
    corpus = _read_jsonl("corpus.jsonl.gz")
    topics = _read_jsonl("queries.jsonl.gz")
    tokens = bm25s.tokenize([doc["text"] for doc in corpus], stopwords="en", show_progress=False)
    model = bm25s.BM25()
    model.index(tokens, show_progress=False)
    scores = model.scores
    num_terms = len(scores["indptr"]) - 1
    # bm25s also numbers the empty word, which no document has.
    vocabulary = {term: number for term, number in model.vocab_dict.items() if number < num_terms}
    documents = sp.csc_matrix(
        (scores["data"], scores["indices"], scores["indptr"]), shape=(len(corpus), num_terms)
    ).tocsr()
    return Collection(
        documents,
        [doc["_id"] for doc in corpus],
        _count_terms(bm25s, [topic["text"] for topic in topics], vocabulary),
        [topic["_id"] for topic in topics],
        sorted(vocabulary, key=vocabulary.__getitem__),
        _read_qrels(),
    )


def _count_terms(bm25s: Any, texts: list[str], vocabulary: dict[str, int]) -> sp.csr_matrix:
    """Return queries as counts of their words; words that no document has are left out."""
    words = bm25s.tokenize(texts, stopwords="en", return_ids=False, show_progress=False)
    columns = [[vocabulary[word] for word in query if word in vocabulary] for query in words]
    indptr = np.cumsum([0, *map(len, columns)])
    indices = np.array([term for query in columns for term in query], dtype=np.int64)
    counts = sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=(len(texts), len(vocabulary)))
    counts.sum_duplicates()
    return counts
