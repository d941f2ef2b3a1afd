"""Queries without inference, beside a model's own: `python -m benchmarks.queries --model MODEL`.

Speed: microseconds per query for the first 31,250 Wikipedia passages, with MS MARCO's questions: the table alone, a
search by words from end to end, and sentence-transformers' `encode_query` for the same table and for the model, where
it is installed. The fastest of several rounds counts, because other programs can only add time.

Quality: nDCG@10 by the model's own queries, by an idf table, and by a learned one, on queries that no table was learned
from: every fifth of the questions, five times (`--folds`). NQ's gold passages are put among the same passages. NFCorpus
takes documents and queries that MODEL encoded (`segmax encode`, `--nfcorpus DOCS QUERIES`).
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import lzma
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import segmax
from benchmarks import wiki
from segmax.encoders import QueryTable
from segmax.encoders.model_tokenizer import model_tokenizer
from segmax.io import open_texts, open_vectors, read_qrels, read_queries
from segmax.text import make_query_table
from segmax.text.table_learning import ndcg

ROUNDS = 7
QUESTIONS = 200


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queries", description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=wiki.DEFAULT_FOLDER.parents[1] / "models" / "splade-mini")
    parser.add_argument("--data", type=Path, default=wiki.DEFAULT_FOLDER.parent, help="the folder of the collections")
    parser.add_argument("--nfcorpus", type=Path, nargs=2, metavar=("DOCS", "QUERIES"), help="NFCorpus as vectors")
    parser.add_argument("--folds", type=int, default=5, help="how many fifths of the questions to measure on")
    args = parser.parse_args()
    read = wiki._reader(args.data / "wiki")
    docs, texts = read.documents(1, args.data / "wiki"), wiki_texts(args.data / "wiki")
    terms = model_tokenizer(args.model).vocabulary
    with tempfile.TemporaryDirectory() as folder:
        speed(args.model, docs, texts, terms, read.queries(args.data / "wiki" / "queries.npz")[1], Path(folder))
        print("\n| nDCG@10 | queries | the model's own | idf table | learned table |\n| --- | --- | --- | --- | --- |")
        nq(args, read, docs, texts, terms)
        if args.nfcorpus is not None:
            nfcorpus(args)


def wiki_texts(folder: Path) -> list[str]:
    """Return the texts of the first passages."""
    with lzma.open(folder / "text-00.tsv.xz", "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n").split("\t")[2] for line in file]


# --- speed -----------------------------------------------------------------------------------------------------------


def speed(
    model: Path, docs: sp.csr_matrix, texts: list[str], terms: list[str], questions: Sequence[str], folder: Path
) -> None:
    """Print microseconds per query."""
    some = list(questions[:QUESTIONS])
    make_query_table(model, folder / "table", texts=texts)
    table = QueryTable.load(folder / "table")
    index = segmax.build(docs, terms=terms)
    index.encoder = table
    rows = [table.query_rows([text]) for text in some]
    pairs = {text: (row.indices, row.values.astype(np.float64)) for text, row in zip(some, rows, strict=True)}
    print(
        f"{index.num_docs:,} passages, {QUESTIONS} questions of {np.mean([len(r.indices) for r in rows]):.1f} tokens\n"
    )
    print("| | µs per query |\n| --- | --- |")
    show("tokenizer and lookup", lambda text: table.query_rows([text]), some)
    show("`index.search(arrays)`, k = 10", lambda text: index.search(pairs[text]), some)
    show("`index.search('words')`, k = 10, from end to end", index.search, some)
    if importlib.util.find_spec("sentence_transformers") is not None:
        library_speed(model, folder / "table", index, some)


def library_speed(model: Path, table: Path, index: segmax.Index, questions: list[str]) -> None:
    """Print what sentence-transformers takes on one core, and a model whose queries are remembered."""
    import sentence_transformers
    import torch

    torch.set_num_threads(1)
    for name, path in (("the same table", table), ("the model", model)):
        encode = sentence_transformers.SparseEncoder(str(path), device="cpu").encode_query
        show(f"sentence-transformers' `encode_query`, {name}", encode, questions[:20])
    index.encoder = model
    for text in questions[:20]:
        index.search(text)
    show("`index.search('words')` with the model, words that were asked before", index.search, questions[:20])


def show(name: str, call: Callable[[str], object], questions: list[str]) -> None:
    """Print the mean time of a call in the fastest round."""
    fastest = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for text in questions:
            call(text)
        fastest = min(fastest, (time.perf_counter() - start) / len(questions))
    print(f"| {name} | {fastest * 1e6:,.1f} |", flush=True)


# --- quality ---------------------------------------------------------------------------------------------------------


def nq(args: argparse.Namespace, read: Any, docs: sp.csr_matrix, texts: list[str], terms: list[str]) -> None:
    """Measure Natural Questions among the passages."""
    folder = args.data / "nq"
    own, questions = read.queries(folder / "queries.npz")
    with np.load(folder / "gold-documents.npz") as gold:
        shape = len(gold["indptr"]) - 1, docs.shape[1]
        golden = sp.csr_matrix((gold["data"], gold["indices"], gold["indptr"]), shape=shape)
    with gzip.open(folder / "gold-text.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
        more = [line.rstrip("\n").split("\t")[1] for line in file]
    index = segmax.build(sp.csr_matrix(sp.vstack([docs, golden])), terms=terms)
    lines = [line.split("\t") for line in (folder / "qrels.tsv").read_text().splitlines()[1:]]
    qrels = {query: {str(int(doc) + docs.shape[0]): 1} for query, doc, _ in lines}
    named = {str(row): text for row, text in enumerate(questions)}
    compare(args, "NQ among 31,250 passages", index, [*texts, *more], named, own, qrels)


def nfcorpus(args: argparse.Namespace) -> None:
    """Measure NFCorpus, as the model has encoded it."""
    folder = args.data / "nfcorpus"
    index = segmax.text.from_vectors(args.nfcorpus[0], encoder=None)
    queries = read_queries(folder)
    named = dict(zip(queries.ids, queries.texts or [], strict=True))
    reader = open_vectors(args.nfcorpus[1])
    own = sp.vstack([batch.matrix() for batch in reader.batches()], format="csr")
    texts = [text.whole for text in open_texts(folder)]
    compare(args, "NFCorpus", index, texts, named, own, read_qrels(folder))


def compare(
    args: argparse.Namespace,
    name: str,
    index: segmax.Index,
    texts: list[str],
    queries: Mapping[str, str],
    own: sp.csr_matrix,
    qrels: Mapping[str, Mapping[str, float]],
) -> None:
    """Print nDCG@10 on every fifth of the queries, by tables that were learned from the others."""
    names = [query for query in queries if query in qrels]
    row_of = {query: row for row, query in enumerate(queries)}
    fold_of = np.random.default_rng(0).permutation(len(names)) % 5
    found: dict[str, list[float]] = {"own": [], "idf": [], "judged": []}
    for fold in range(args.folds):
        held = [query for query, number in zip(names, fold_of, strict=True) if number == fold]
        rest = {query: queries[query] for query, number in zip(names, fold_of, strict=True) if number != fold}
        found["own"] += measured(index, held, own[[row_of[query] for query in held]], qrels)
        for kind, learn in (("idf", {}), ("judged", {"queries": rest, "qrels": qrels, "index": index})):
            with tempfile.TemporaryDirectory() as folder:
                make_query_table(args.model, Path(folder, "table"), texts=texts, **learn)  # type: ignore[arg-type]
                rows = QueryTable.load(Path(folder, "table")).encode_queries([queries[query] for query in held])
            found[kind] += measured(index, held, rows, qrels)
    means = " | ".join(f"{np.mean(values):.4f}" for values in found.values())
    print(f"| {name} | {len(found['own']):,} | {means} |", flush=True)


def measured(
    index: segmax.Index, names: Sequence[str], rows: sp.csr_matrix, qrels: Mapping[str, Mapping[str, float]]
) -> list[float]:
    """Return the nDCG@10 of every query."""
    found = index.search_batch(rows.astype(np.float64), k=10)
    return [ndcg([str(doc) for doc in hits.ids], qrels[name]) for name, hits in zip(names, found, strict=True)]


if __name__ == "__main__":
    main()
