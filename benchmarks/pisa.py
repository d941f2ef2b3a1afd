"""PISA's MaxScore through pyterrier-pisa on saved vectors; prints one JSON line. Started by benchmarks.engine."""

from __future__ import annotations

import argparse
import json
import time
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import scipy.sparse as sp
from pyterrier_pisa import PisaIndex

from segmax.bench.engines.engine import named_documents


def main() -> None:
    """Index if necessary, search on one thread, print the mean latency of the fastest of three passes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-k", type=int, required=True)
    parser.add_argument("--queries", type=int, default=500)
    args = parser.parse_args()
    index = PisaIndex(str(args.folder / "index"), stemmer="none", threads=1)
    if not index.built():
        index.toks_indexer(scale=1.0).index(named_documents(sp.csr_matrix(sp.load_npz(args.folder / "docs.npz"))))
    queries = sp.csr_matrix(sp.load_npz(args.folder / "queries.npz"))[: args.queries]
    rows = [dict(zip(map(str, q.indices), map(int, q.data), strict=True)) for q in queries]
    frame = pd.DataFrame({"qid": [str(i) for i in range(len(rows))], "query_toks": rows})
    retriever = index.quantized(num_results=args.k, threads=1, query_algorithm="maxscore", toks_scale=1.0)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        retriever.transform(frame)
        best = min(best, time.perf_counter() - start)
    row = {
        "k": args.k,
        "method": "pisa maxscore",
        "mean_ms": best * 1000 / len(rows),
        "version": version("pyterrier-pisa"),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
