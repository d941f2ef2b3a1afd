"""The share of the exact scores that asc keeps at each μ, on the wiki vectors: `python -m benchmarks.guarantee`.

For every query this is the mean score of the k results over that of exhaustive search. The table has the mean over
queries and segment seeds (η = 1), its 95 % confidence interval, the worst query (Proposition 3 promises at least μ),
and recall.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import segmax
from benchmarks import wiki
from benchmarks.engine import recall


def main() -> None:
    """Build one index per seed, search at every μ, print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guarantee", description=__doc__.splitlines()[0])
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--num-clusters", type=int, default=768)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("-k", type=int, default=10)
    args = parser.parse_args()
    docs, queries, labels = wiki.load(args.wiki, args.num_clusters)
    ratios: dict[float, list[np.ndarray]] = {}
    recalls: dict[float, list[float]] = {}
    for seed in range(args.seeds):
        index = segmax.build(
            docs, clustering=labels, config=segmax.BuildConfig(num_clusters=args.num_clusters, seed=seed)
        )
        exact = index.search_batch(queries, k=args.k, params=segmax.Exhaustive())
        for mu in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
            found = index.search_batch(queries, k=args.k, params=segmax.paper.ASC(mu=mu))
            ratios.setdefault(mu, []).append(found.scores.sum(axis=1) / exact.scores.sum(axis=1))
            recalls.setdefault(mu, []).append(recall(found.rows, exact.rows))
    print(f"| μ | mean ratio | 95 % interval | worst query | recall@{args.k} |")
    print("| --- | --- | --- | --- | --- |")
    for mu, parts in ratios.items():
        per_query = np.mean(parts, axis=0)  # queries are independent, seeds of one query are not
        half = 1.96 * per_query.std(ddof=1) / np.sqrt(len(per_query))
        mean = per_query.mean()
        print(
            f"| {mu} | {mean:.5f} | {mean - half:.5f} to {min(1.0, mean + half):.5f} | {np.min(parts):.4f} | "
            f"{np.mean(recalls[mu]):.4f} |"
        )


if __name__ == "__main__":
    main()
