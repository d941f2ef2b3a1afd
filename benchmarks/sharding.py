"""Which shards queries ask, against what the router keeps: `python -m benchmarks.sharding --help`.

All shards are open in this process: everything here is counted, and nothing but the comparison of work is timed. The
ways to order and to rule out shards were chosen on the even queries; the odd ones are shown.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from segmax.drawing.figures import new_figure, save_figure
from segmax.search.hooks import with_hooks
from segmax.shards.common import common_bytes
from segmax.shards.making.building import build
from segmax.shards.opening import open_local
from segmax.shards.router import RouterPlan, join_maxima, open_router, shard_maxima
from segmax.shards.sharded import ShardedIndex

SEGMENTS = (16, 24, 32, 40, 52, 72, 104, 152)  # documents each
SKETCHES = (4, 8, 16, 24, 32)  # terms of every document
LIMITS = (1, 2, 4, 8)


def with_router(index: ShardedIndex, plan: RouterPlan) -> tuple[ShardedIndex, int, int]:
    """Return the index with another router, and the bytes of its bounds and of its sketch as they are stored."""
    parts = index._parts
    maxima = [shard_maxima(shard._part, plan) for shard in parts.transport._shards]  # type: ignore[attr-defined]
    arrays = join_maxima(maxima)
    sizes = [
        len(common_bytes({name: array for name, array in arrays.items() if name.startswith((what, *also))}))
        for what, also in (("bounds", ("tops",)), ("sketch", ()))
    ]
    router = open_router(arrays, index.shards, index.num_terms, parts.address)
    return ShardedIndex(dataclasses.replace(parts, router=router)), sizes[0], sizes[1]


def recall(exact: NDArray[np.int64], found: NDArray[np.int64]) -> float:
    """Return the share of the exact results that were found, on average over queries."""
    pairs = zip(exact, found, strict=True)
    return float(np.mean([len(np.intersect1d(one[one >= 0], two)) / max(1, (one >= 0).sum()) for one, two in pairs]))


def asked(index: ShardedIndex, queries: Any, params: segmax.ASC, k: int = 10) -> float:
    """Return the share of shards that queries ask."""
    return float(index.search_batch(queries, k=k, params=params).shards_asked.mean() / index.num_shards)


def bounds_rows(index: ShardedIndex, queries: Any) -> list[dict[str, Any]]:
    """Measure how fine bounds rule out how many shards."""
    rows = []
    for docs in SEGMENTS:
        other, size, _ = with_router(index, RouterPlan(docs_per_segment=docs, sketch_terms=1))
        row = {"docs_per_segment": docs, "bytes": size, "share": size / index.num_bytes}
        row |= {"exact": asked(other, queries, segmax.ASC()), "mu=.9": asked(other, queries, segmax.ASC(mu=0.9))}
        rows.append(row)
        print(
            f"{docs:6} documents per segment: {size / 1e6:6.1f} MB, {row['share']:6.1%} of the index; "
            f"asked exact {row['exact']:.1%}, mu=.9 {row['mu=.9']:.1%}",
            flush=True,
        )
    return rows


def sketch_rows(index: ShardedIndex, queries: Any, exact: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Measure the recall of `max_shards` against what the sketch keeps."""
    rows = []
    for terms in SKETCHES:
        other, _, size = with_router(index, RouterPlan(docs_per_segment=512, sketch_terms=terms))
        found = {s: recall(exact, other.search_batch(queries, k=10, max_shards=s).rows) for s in LIMITS}
        rows.append({"terms": terms, "bytes": size, "share": size / index.num_bytes, "recall": found})
        shown = ", ".join(f"{s}: {value:.3f}" for s, value in found.items())
        print(f"{terms:6} terms: {size / 1e6:6.1f} MB, {size / index.num_bytes:6.1%}; recall@10 {shown}", flush=True)
    return rows


def work_rows(index: ShardedIndex, one: segmax.Index, queries: Any) -> dict[str, float]:
    """Compare what all shards do with what one index does, with and without sweeps."""
    found = {}
    for name, params in (("as it is", segmax.ASC()), ("without sweeps", with_hooks(segmax.ASC(), sweep=False))):
        whole = one.search_batch(queries, k=10, params=params, threads=1).stats
        parts = index.search_batch(queries, k=10, params=params).stats
        for field in ("postings_read", "blocks_scored"):
            found[f"{field}, {name}"] = float(getattr(parts, field).sum() / getattr(whole, field).sum())
    return found


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw shards asked against the bytes of bounds."""
    figure = new_figure(6, 4)
    axes = figure.subplots()
    for name in ("exact", "mu=.9"):
        axes.plot([100 * row["share"] for row in rows], [100 * row[name] for row in rows], marker="o", label=name)
    axes.set_xlabel("bounds of the router, % of the index")
    axes.set_ylabel("shards asked per query, %")
    axes.set_xscale("log")
    axes.legend()
    save_figure(figure, path)


def main() -> int:
    """Build the shards, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the vectors")
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--large", type=int, help="use so many documents of wiki and wiki2 instead of wiki")
    parser.add_argument("--index", help="a sharded index of these documents that is there already")
    parser.add_argument("--image", type=Path, help="where to draw the plot")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    args = parser.parse_args()
    name: wiki.Set = "wiki" if args.large is None else "large"
    documents, queries = wiki.load_set(args.wiki, name, args.large)
    queries = queries[1::2]
    with tempfile.TemporaryDirectory() as folder:
        path = args.index or f"{folder}/sharded"
        if args.index is None:
            build(documents, path, shards=args.shards)
        index = open_local(path)
        one = segmax.build(documents)
        exact = one.search_batch(queries, k=10)
        found = index.search_batch(queries, k=10)
        assert np.array_equal(exact.rows, found.rows)
        assert np.array_equal(exact.scores, found.scores)
        print(
            f"{index}\nrouter {index.router.num_bytes / 1e6:.1f} MB in memory; measured by the build: {index.routing}"
        )
        defaults = {s: recall(exact.rows, index.search_batch(queries, k=10, max_shards=s).rows) for s in LIMITS}
        shares = {"exact": asked(index, queries, segmax.ASC()), "mu=.9": asked(index, queries, segmax.ASC(mu=0.9))}
        shares["exact, k=1000"] = asked(index, queries[:200], segmax.ASC(), 1000)
        work = work_rows(index, one, queries)
        print("as it was built: asked", shares, "recall@10 of max_shards", defaults)
        print("work against one index:", {name: round(value, 2) for name, value in work.items()})
        rows = bounds_rows(index, queries)
        sketches = sketch_rows(index, queries, exact.rows)
    if args.json is not None:
        result = {"asked": shares, "recall": defaults, "work": work, "bounds": rows, "sketch": sketches}
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    if args.image is not None:
        draw(rows, args.image)
    return 0


if __name__ == "__main__":
    sys.exit(main())
