"""`python -m segmax.demo`: index Vaswani with BM25 weights and compare the methods on it."""

from __future__ import annotations

import argparse
import time

import numpy as np

import segmax
from segmax.demo import vaswani
from segmax.params import SearchParams

#: Far more clusters than the default for so few documents, so that there is something to prune.
CONFIG = segmax.BuildConfig(num_clusters=128)
METHODS: dict[str, SearchParams] = {
    "exhaustive": segmax.Exhaustive(),
    "maxscore": segmax.MaxScore(),
    "anytime": segmax.Anytime(),
    "asc": segmax.ASC(),
    "asc, μ = 0.7": segmax.ASC(mu=0.7),
    "best first, η = 0.9": segmax.BestFirst(eta=0.9),
}


def _ndcg(collection: vaswani.Collection, run: segmax.BatchHits) -> float:
    import ir_measures

    scored = [
        ir_measures.ScoredDoc(query_id, str(doc_id), score)
        for query_id, hits in zip(collection.query_ids, run, strict=True)
        for doc_id, score in hits
    ]
    qrels = [ir_measures.Qrel(q, d, rel) for q, docs in collection.qrels.items() for d, rel in docs.items()]
    measure = ir_measures.parse_measure("nDCG@10")
    return float(ir_measures.calc_aggregate([measure], qrels, scored)[measure])


def main() -> None:
    """Build, search, print a table."""
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(prog="python -m segmax.demo", description=__doc__)
    parser.add_argument("-k", type=int, default=10, help="results per query (default 10)")
    args = parser.parse_args()
    console = Console()
    collection = vaswani.load()
    start = time.perf_counter()
    index = segmax.build(collection.documents, ids=collection.doc_ids, terms=collection.terms, config=CONFIG)
    console.print(f"built in {time.perf_counter() - start:.2f} s: {index}")
    exact = index.search_batch(collection.queries, k=args.k, params=segmax.Exhaustive(), threads=1)
    table = Table(
        title=f"{len(collection.query_ids)} queries, k = {args.k}, one thread",
        caption="exact: queries answered as by exhaustive search; clusters visited; documents scored; mean latency",
    )
    for heading in ("method", "nDCG@10", "exact", "clusters", "documents", "ms"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for name, params in METHODS.items():
        run = min(
            (index.search_batch(collection.queries, k=args.k, params=params, threads=1) for _ in range(5)),
            key=lambda batch: int(batch.stats.elapsed_ns.sum()),
        )
        table.add_row(
            name,
            f"{_ndcg(collection, run):.4f}",
            f"{np.mean((run.rows == exact.rows).all(axis=1)):.0%}",
            f"{run.stats.clusters_visited.mean() / index.num_clusters:.0%}",
            f"{run.stats.docs_scored.mean() / len(index):.1%}",
            f"{run.stats.elapsed_ns.mean() / 1e6:.3f}",
        )
    console.print(table)
    hits = index.search({"microwave": 1.0, "waveguide": 1.0}, k=3)
    console.print("microwave waveguide:", ", ".join(f"{hit.doc_id} ({hit.score:.2f})" for hit in hits))
    console.print(index.explain({"microwave": 1.0, "waveguide": 1.0}, hits.ids[-1], k=2).reason)


if __name__ == "__main__":
    main()
