"""Ways to cluster sparse vectors, and what follows from the choice: `python -m benchmarks.clustering --help`.

A cluster is visited as a whole, so a clustering is as good as the share of clusters, and of the documents in them,
that an exact search has to visit. Every way labels the same documents; everything after that is the same for all. Other
modes compare what else a build decides: the number of clusters, the order of documents inside them, the segments.

Ways that only change the input of k-means use the k-means of segmax, including its balancing of sizes. Seconds are CPU
time of all threads, from the matrix to the labels. Latencies are measured inside the core on one thread: the fastest of
several passes for every query, each pass going through all indexes in turn, so that a busy machine slows all alike.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import lzma
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from benchmarks.engine import recall
from segmax.building import kmeans as km
from segmax.building.clustering import DIMENSIONS, ClusterJob
from segmax.building.points import DensePoints, Floats, Points, Projector, SparsePoints, normalized, one_thread, rarity
from segmax.building.resources import open_resources
from segmax.building.spool import Spool
from segmax.clustering import Sparse
from segmax.search.methods import SearchParams
from segmax.storage.config import DOCUMENT_ORDERS, SEGMENTATIONS
from segmax.vectors.csr import Csr
from segmax.vectors.pruning import TopTerms, prune_rows
from segmax.vectors.rows import sample_rows

Labels = NDArray[np.int64]
Record = dict[str, Any]

COUNTS = (96, 192, 275, 384, 768, 1536)
MUS = (0.9, 0.7, 0.5)
#: One cluster after the other.
EXACT = segmax.paper.ASC()
SCRATCH = Path(tempfile.gettempdir())  # never written to, because memory suffices here
_ITERATIONS = 10
_SIGNS_PER_TERM = 4
_BATCH = 8192


class Way(NamedTuple):
    """One way to cluster."""

    meaning: str
    labels: Callable[[sp.csr_matrix, int, int], Labels]  # takes documents, number of clusters and seed
    slow: bool = False


# --- ways: documents as segmax sees them -----------------------------------------------------------------------------


def term_rarity(docs: sp.csr_matrix) -> Floats:
    """Return log(documents / document frequency) per term."""
    frequency = np.bincount(docs.indices, minlength=docs.shape[1])
    return rarity(frequency, docs.shape[0]).astype(np.float32)


def as_csr(docs: sp.csr_matrix) -> Csr:
    """Return the documents in segmax's own form."""
    return Csr(docs.indptr.astype(np.int64), docs.indices, docs.data, docs.shape[1])


def projector(docs: sp.csr_matrix, seed: int, *, root: bool = True, rare: bool = True) -> Projector:
    """Return a projection of documents: of √weight × rarity as in a build, or without the root, or without rarity."""
    csr = as_csr(docs)
    if not root:
        csr = csr._replace(values=csr.values.astype(np.uint16) ** 2)  # the core takes the root of its input
    spool = Spool(csr.num_columns, 2**62, SCRATCH)
    spool.append(csr)
    spool.finish()
    factor = term_rarity(docs) if rare else np.ones(csr.num_columns, np.float32)
    return Projector(spool, factor, seed)


def by_sparse(
    docs: sp.csr_matrix,
    num_clusters: int,
    seed: int,
    *,
    dimensions: int = DIMENSIONS,
    root: bool = True,
    rare: bool = True,
) -> Labels:
    """Cluster as `segmax.build` does by default, or with one change."""
    with open_resources(None, {"threads": 1, "scratch": SCRATCH, "progress": False}) as resources:
        job = ClusterJob(
            num_docs=docs.shape[0],
            projector=projector(docs, seed, root=root, rare=rare),
            num_clusters=num_clusters,
            seed=seed,
            pooled=None,
            resources=resources,
        )
        return Sparse(dimensions=dimensions).labels(job)


def by_parts(docs: sp.csr_matrix, num_clusters: int, seed: int, *, flat: bool, balance: bool) -> Labels:
    """Cluster as by default, but in one level, or without balancing sizes."""
    with contextlib.ExitStack() as changes:
        if flat:
            changes.enter_context(mock.patch.object(km, "_FLAT_CLUSTERS", num_clusters))
        if not balance:
            changes.enter_context(mock.patch.object(km, "_balanced", lambda points, labels, *_: labels))
        return by_sparse(docs, num_clusters, seed)


# --- ways: random sketches -------------------------------------------------------------------------------------------


def gaussian_matrix(num_terms: int, num_dims: int, rng: np.random.Generator) -> Floats:
    """Return a random direction per term."""
    return rng.standard_normal((num_terms, num_dims), dtype=np.float32)


def sign_matrix(num_terms: int, num_dims: int, rng: np.random.Generator) -> Floats:
    """Return a few random signs per term, at random dimensions."""
    matrix = np.zeros((num_terms, num_dims), np.float32)
    for _ in range(_SIGNS_PER_TERM):
        signs = rng.choice(np.array([-1, 1], np.float32), size=num_terms)
        matrix[np.arange(num_terms), rng.integers(0, num_dims, num_terms)] += signs
    return matrix


def by_sketch(
    docs: sp.csr_matrix,
    num_clusters: int,
    seed: int,
    *,
    make_matrix: Callable[[int, int, np.random.Generator], Floats],
    num_dims: int,
    root: bool = False,
    rare: bool = True,
) -> Labels:
    """Cluster a random projection of weights or their roots, with or without rarity."""
    matrix = make_matrix(docs.shape[1], num_dims, np.random.default_rng(seed))
    if rare:
        matrix *= term_rarity(docs)[:, None]
    points = np.empty((docs.shape[0], num_dims), np.float32)
    for start in range(0, len(points), _BATCH):
        rows = docs[start : start + _BATCH].astype(np.float32)
        points[start : start + _BATCH] = (rows.sqrt() if root else rows) @ matrix
    return by_points(DensePoints(points, None, False, seed), num_clusters, seed)


def by_points(points: Points, num_clusters: int, seed: int) -> Labels:
    """Run the k-means of segmax."""
    with open_resources(None, {"threads": 1, "scratch": SCRATCH, "progress": False}) as resources, one_thread():
        return km.kmeans(points, num_clusters, km.KMeansOptions(seed, 1, _ITERATIONS), resources)


# --- ways: k-means on sparse vectors ---------------------------------------------------------------------------------


def by_top_terms(docs: sp.csr_matrix, num_clusters: int, seed: int, *, count: int = 32, iterations: int = 6) -> Labels:
    """Cluster by cosine on the heaviest terms of every document, by √weight × rarity; no projection, no balancing."""
    with one_thread():
        rows = unit_rows(docs, count)
        sample = rows[sample_rows(docs.shape[0], num_clusters * km.SAMPLE_PER_CLUSTER, seed)]
        centroids = sample[sample_rows(sample.shape[0], num_clusters, seed + 1)].toarray()
        for _ in range(iterations):
            centroids = moved(sample, nearest(sample, centroids), centroids)
        return nearest(rows, centroids)


def unit_rows(docs: sp.csr_matrix, count: int) -> sp.csr_matrix:
    """Return the heaviest terms of every document, as rows of unit length."""
    weights = np.sqrt(docs.data, dtype=np.float32) * term_rarity(docs)[docs.indices]
    kept = prune_rows((TopTerms(count=count),), as_csr(docs)._replace(values=weights))
    lengths = np.sqrt(np.add.reduceat(np.append(kept.values**2, 0), kept.indptr[:-1]))
    values = kept.values / np.repeat(np.maximum(lengths, 1e-9), np.diff(kept.indptr))
    return sp.csr_matrix((values.astype(np.float32), kept.indices, kept.indptr), shape=docs.shape)


def nearest(rows: sp.csr_matrix, centroids: Floats) -> Labels:
    """Return the centroid with the largest product for every row."""
    columns = np.ascontiguousarray(centroids.T)
    labels = np.empty(rows.shape[0], np.int64)
    for start in range(0, len(labels), _BATCH):
        labels[start : start + _BATCH] = np.argmax(rows[start : start + _BATCH] @ columns, axis=1)
    return labels


def moved(rows: sp.csr_matrix, labels: Labels, centroids: Floats) -> Floats:
    """Return the normalized sum of the rows of every label; the old centroid if there are none."""
    ones = np.ones(len(labels), np.float32)
    members = sp.csr_matrix((ones, labels, np.arange(len(labels) + 1)), shape=(len(labels), len(centroids)))
    sums: Floats = (members.T @ rows).toarray()
    empty = np.bincount(labels, minlength=len(centroids)) == 0
    sums[empty] = centroids[empty]
    return normalized(sums)


# --- ways: cutting in halves -----------------------------------------------------------------------------------------


def by_bisection(docs: sp.csr_matrix, num_clusters: int, seed: int) -> Labels:
    """Cut the largest cluster in two, near the middle between two means, until there are enough clusters."""
    source = SparsePoints(projector(docs, seed), DIMENSIONS)
    with one_thread():
        points = np.concatenate([source.batch(number) for number in range(source.num_batches)])
        rng = np.random.default_rng(seed)
        parts = [np.arange(len(points))]
        largest = [(-len(points), 0)]
        while len(parts) < num_clusters:
            _, cut = heapq.heappop(largest)
            upper = in_upper_half(points[parts[cut]], rng)
            parts.append(parts[cut][upper])
            parts[cut] = parts[cut][~upper]
            for part in (cut, len(parts) - 1):
                heapq.heappush(largest, (-len(parts[part]), part))
    labels = np.empty(len(points), np.int64)
    for number, rows in enumerate(parts):
        labels[rows] = number
    return labels


def in_upper_half(points: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Cut points in two by 2-means on a sample; the cut moves only a little to make the halves even."""
    sample = points[rng.permutation(len(points))[:2048]]
    low, high = sample[rng.permutation(len(sample))[:2]]
    for _ in range(6):
        is_high = sample @ (high - low) > 0
        if is_high.all() or not is_high.any():
            break
        low, high = normalized(np.stack([sample[~is_high].mean(axis=0), sample[is_high].mean(axis=0)]))
    place = points @ (high - low)
    upper: NDArray[np.bool_] = place > np.clip(np.median(place), -0.05, 0.05)
    return upper


# --- ways: all of them -----------------------------------------------------------------------------------------------

SUPPLIED = {
    "mx": "supplied labels: k-means on max-pooled dense token vectors",
    "cls": "supplied labels: k-means on dense CLS vectors",
    "mean": "supplied labels: k-means on mean-pooled dense token vectors",
}
WAYS: dict[str, Way] = {
    "default": Way(f"Sparse(): {DIMENSIONS} main directions of √weight × rarity, k-means, balanced sizes", by_sparse),
    "32 dimensions": Way("the default with 32 directions", partial(by_sparse, dimensions=32)),
    "128 dimensions": Way("the default with 128 directions", partial(by_sparse, dimensions=128)),
    "no root": Way("the default with weights instead of their roots", partial(by_sparse, root=False)),
    "no rarity": Way("the default without rarity", partial(by_sparse, rare=False)),
    "no root, no rarity": Way("the default with plain weights alone", partial(by_sparse, root=False, rare=False)),
    "no balancing": Way("the default without balanced sizes", partial(by_parts, flat=False, balance=False)),
    "one level": Way(
        "the default with k-means in one level, as it is up to 512 clusters anyway",
        partial(by_parts, flat=True, balance=True),
    ),
    "one level, no balancing": Way("both changes", partial(by_parts, flat=True, balance=False)),
    "bisection": Way("the default's directions, the largest cluster cut in two again and again", by_bisection),
    "signs 128": Way(
        f"random sketch: {_SIGNS_PER_TERM} random signs per term in 128 dimensions, of weights",
        partial(by_sketch, make_matrix=sign_matrix, num_dims=128, rare=False),
    ),
    "signs 128, rarity": Way("the same of weight × rarity", partial(by_sketch, make_matrix=sign_matrix, num_dims=128)),
    "gauss 128": Way(
        "random sketch: 128 Gaussian numbers per term, of weights",
        partial(by_sketch, make_matrix=gaussian_matrix, num_dims=128, rare=False),
    ),
    "gauss 128, root": Way(
        "the same of √weight", partial(by_sketch, make_matrix=gaussian_matrix, num_dims=128, root=True, rare=False)
    ),
    "gauss 128, rarity": Way(
        "the same of weight × rarity", partial(by_sketch, make_matrix=gaussian_matrix, num_dims=128)
    ),
    "gauss 512, rarity": Way(
        "the same with 512", partial(by_sketch, make_matrix=gaussian_matrix, num_dims=512), slow=True
    ),
    "top 32 terms": Way(
        "k-means on sparse vectors of the 32 heaviest terms, without balanced sizes", by_top_terms, slow=True
    ),
}


def supplied(docs: sp.csr_matrix, num_clusters: int, seed: int, *, folder: Path, kind: str) -> Labels:
    """Read supplied labels; the seed then only affects segments."""
    file = folder / f"labels-{kind}-{num_clusters}.u16.xz"
    if not file.exists():
        msg = f"there are no labels '{kind}' of {num_clusters} clusters in '{folder}'; leave it out of --ways"
        raise FileNotFoundError(msg)
    return np.frombuffer(lzma.decompress(file.read_bytes()), np.uint16)[: docs.shape[0]].astype(np.int64)


def all_ways(folder: Path) -> dict[str, Way]:
    """Return all ways, with the supplied labels of a folder."""
    given = {kind: Way(meaning, partial(supplied, folder=folder, kind=kind)) for kind, meaning in SUPPLIED.items()}
    return given | WAYS


# --- measuring -------------------------------------------------------------------------------------------------------


def shares_visited(index: segmax.Index, queries: sp.csr_matrix, k: int, params: SearchParams) -> tuple[float, float]:
    """Return the share of clusters visited and the share of documents in them, means over queries."""
    sizes = dict(zip(index._labels.tolist(), index.cluster_sizes().tolist(), strict=True))
    clusters = np.empty(queries.shape[0])
    docs = np.empty(queries.shape[0])
    for i in range(queries.shape[0]):
        trace = index.search(queries[i], k, params, trace=True).trace or []
        seen = [sizes[entry.cluster] for entry in trace if entry.decision == "visited"]
        clusters[i], docs[i] = len(seen), sum(seen)
    counted = index.search_batch(queries, k, params, threads=1).stats.clusters_visited
    np.testing.assert_array_equal(clusters, counted, "traces and statistics disagree about visits")
    return float(clusters.mean()) / index.num_clusters, float(docs.mean()) / index.num_docs


def latencies(
    indexes: dict[str, segmax.Index], queries: sp.csr_matrix, runs: dict[str, tuple[int, SearchParams]], passes: int
) -> dict[tuple[str, str], float]:
    """Return mean milliseconds by index and run: the mean over queries of the fastest of several passes."""
    best: dict[tuple[str, str], NDArray[Any]] = {}
    for _ in range(passes):
        for run, (k, params) in runs.items():
            for name, index in indexes.items():
                elapsed = index.search_batch(queries, k, params, threads=1).stats.elapsed_ns
                best[name, run] = np.minimum(best.get((name, run), elapsed), elapsed)
    return {key: float(elapsed.mean()) / 1e6 for key, elapsed in best.items()}


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a markdown table."""
    names = list(columns)
    lines = [names, ["---"] * len(names), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def means(records: list[Record]) -> Record:
    """Return the means of all numbers of some records, and other values of the first record."""
    first = records[0]
    return {
        name: float(np.mean([record[name] for record in records])) if isinstance(value, float) else value
        for name, value in first.items()
    }


# --- modes -----------------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """What all modes share."""

    docs: sp.csr_matrix
    queries: sp.csr_matrix
    seeds: list[int]
    threads: int
    passes: int

    def build(self, labels: Labels | None, **options: Any) -> segmax.Index:
        """Build an index in memory; without labels, segmax clusters."""
        config = segmax.BuildConfig(**options)
        return segmax.build(self.docs, clustering=labels, config=config, threads=self.threads, progress=False)


def measure_way(task: Task, name: str, way: Way, num_clusters: int, seed: int) -> Record:
    """Cluster in one way, build and search."""
    start = time.process_time()
    labels = way.labels(task.docs, num_clusters, seed)
    seconds = time.process_time() - start
    with task.build(
        labels, document_order="row", seed=seed
    ) as index:  # the order does not change which clusters are visited
        clusters, docs = shares_visited(index, task.queries, 10, EXACT)
        sizes = index.cluster_sizes()
    return {
        "way": name,
        "num_clusters": num_clusters,
        "seed": seed,
        "made": float(len(sizes)),
        "clusters": clusters,
        "docs": docs,
        "largest": float(sizes.max() / sizes.mean()),
        "seconds": seconds,
    }


def compare_ways(task: Task, ways: dict[str, Way], num_clusters: int, all_seeds: bool) -> list[Record]:
    """Measure all ways at one number of clusters and print the table."""
    records: list[Record] = []
    for name, way in ways.items():
        if name in SUPPLIED:
            try:
                way.labels(task.docs, num_clusters, 0)
            except FileNotFoundError as error:
                print(f"left out: {error}", flush=True)
                continue
        for seed in task.seeds if all_seeds or not way.slow else task.seeds[:1]:
            records.append(measure_way(task, name, way, num_clusters, seed))
            print(json.dumps(records[-1]), flush=True)
    print(f"\n### {num_clusters} clusters x 8 segments, exact, k = 10\n")
    print(ways_table(records))
    return records


def ways_table(records: list[Record]) -> str:
    """Return a row per way: means over seeds."""
    by_way: dict[str, list[Record]] = {}
    for record in records:
        by_way.setdefault(record["way"], []).append(record)
    base = means(by_way["mx"]) if "mx" in by_way else None
    rows = []
    for name, group in by_way.items():
        mean = means(group)
        relative = [f"{mean[what] / base[what]:.2f}" if base else "" for what in ("clusters", "docs")]
        seconds = "" if name in SUPPLIED else f"{mean['seconds']:.1f}"
        shares = f"{mean['clusters']:.1%}", f"{mean['docs']:.1%}"
        rows.append((name, *shares, *relative, f"{mean['largest']:.2f}", f"{mean['made']:.0f}", seconds, len(group)))
    columns = (
        "way",
        "clusters visited",
        "documents in them",
        "clusters relative to the supplied labels (mx)",
        "documents relative to the supplied labels (mx)",
        "largest/mean size",
        "clusters made",
        "CPU s",
        "seeds",
    )
    return table(columns, rows)


def compare_counts(task: Task, counts: list[int]) -> list[Record]:
    """Measure the default way at several numbers of clusters, for the choice of the default number."""
    indexes = {str(count): task.build(None, num_clusters=count, seed=task.seeds[0]) for count in counts}
    runs: dict[str, tuple[int, SearchParams]] = {
        "ASC() k=10": (10, segmax.ASC()),
        "ASC() k=1000": (1000, segmax.ASC()),
        "paper.ASC(mu=.9) k=10": (10, segmax.paper.ASC(mu=0.9)),
    }
    times = latencies(indexes, task.queries, runs, task.passes)
    records = []
    for name, index in indexes.items():
        clusters, docs = shares_visited(index, task.queries, 10, EXACT)
        figures: Record = {"num_clusters": int(name), "clusters": clusters, "docs": docs}
        figures["bytes_per_posting"] = index.num_bytes / index.num_postings
        records.append(figures | {run: times[name, run] for run in runs})
    print("\n### The number of clusters\n")
    columns = (
        "clusters",
        "documents each",
        "visited",
        "documents in them",
        *(f"{r}, ms" for r in runs),
        "bytes/posting",
    )
    rows = (
        (
            r["num_clusters"],
            f"{task.docs.shape[0] / r['num_clusters']:,.0f}",
            f"{r['clusters']:.1%}",
            f"{r['docs']:.1%}",
            *(f"{r[run]:.3f}" for run in runs),
            f"{r['bytes_per_posting']:.2f}",
        )
        for r in records
    )
    print(table(columns, rows))
    return records


def default_labels(task: Task, seed: int) -> Labels:
    """Cluster as a build does by default."""
    return by_sparse(task.docs, segmax.BuildConfig().clusters_for(task.docs.shape[0]), seed)


def compare_orders(task: Task) -> list[Record]:
    """Measure the order inside clusters: by similarity, by row, by row of a shuffled collection."""
    seed = task.seeds[0]
    labels = default_labels(task, seed)
    indexes = {f"by {order}": task.build(labels, document_order=order, seed=seed) for order in DOCUMENT_ORDERS}
    shuffled = np.random.default_rng(seed).permutation(task.docs.shape[0])
    task = task._replace(docs=task.docs[shuffled])
    indexes["by row, shuffled before"] = task.build(labels[shuffled], document_order="row", seed=seed)
    records = []
    for k in (10, 1000):
        runs: dict[str, tuple[int, SearchParams]] = {"ms": (k, segmax.ASC()), "ms_never_swept": (k, EXACT)}
        times = latencies(indexes, task.queries, runs, task.passes)
        for name, index in indexes.items():
            stats = index.search_batch(task.queries, k, EXACT, threads=1).stats
            figures: Record = {"k": k, "order": name, "bytes_per_posting": index.num_bytes / index.num_postings}
            for what in ("blocks_scored", "docs_scored", "postings_read"):
                figures[what] = float(getattr(stats, what).mean())
            records.append(figures | {run: times[name, run] for run in runs})
    print(f"\n### The order inside {len(np.unique(labels))} clusters\n")
    columns = (
        "k",
        "order",
        "blocks scored",
        "documents scored",
        "postings read",
        "ASC() ms",
        "cluster by cluster, ms",
        "bytes/posting",
    )
    rows = (
        (
            r["k"],
            r["order"],
            *(f"{r[what]:,.0f}" for what in ("blocks_scored", "docs_scored", "postings_read")),
            *(f"{r[run]:.3f}" for run in ("ms", "ms_never_swept")),
            f"{r['bytes_per_posting']:.2f}",
        )
        for r in records
    )
    print(table(columns, rows))
    return records


def measure_segmentation(task: Task, labels: Labels, segmentation: str, seed: int) -> list[Record]:
    """Search one segmentation exactly and with every μ."""
    records: list[Record] = []
    with task.build(labels, document_order="row", segmentation=segmentation, seed=seed) as index:
        for k in (10, 1000):
            exact = index.search_batch(task.queries, k, segmax.Exhaustive(), threads=task.threads).rows
            for mu in (1.0, *MUS):
                batch = index.search_batch(task.queries, k, segmax.paper.ASC(mu=mu), threads=task.threads)
                figures = {"k": k, "segmentation": segmentation, "seed": seed, "mu": str(mu)}
                visited = float(batch.stats.clusters_visited.mean()) / index.num_clusters
                records.append(figures | {"clusters": visited, "recall": recall(batch.rows, exact)})
    return records


def compare_segmentations(task: Task) -> list[Record]:
    """Measure ways to divide clusters into segments: visits and recall."""
    records: list[Record] = []
    for seed in task.seeds:
        labels = default_labels(task, seed)
        for segmentation in SEGMENTATIONS:
            records += measure_segmentation(task, labels, segmentation, seed)
    mus = [str(mu) for mu in (1.0, *MUS)]
    rows = []
    for k in (10, 1000):
        for segmentation in SEGMENTATIONS:
            cells = []
            for mu in mus:
                wanted = [r for r in records if (r["k"], r["segmentation"], r["mu"]) == (k, segmentation, mu)]
                mean = means(wanted)
                cells.append(f"{mean['clusters']:.1%} / {mean['recall']:.4f}")
            rows.append((k, segmentation, *cells))
    print(f"\n### Segments: clusters visited / recall, η = 1, {len(task.seeds)} seeds\n")
    print(table(("k", "segmentation", *(f"μ = {mu}" for mu in mus)), rows))
    return records


# --- command line ----------------------------------------------------------------------------------------------------


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    meanings = {**SUPPLIED, **{name: way.meaning for name, way in WAYS.items()}}
    lines = [f"  {name:24} {meaning}" for name, meaning in meanings.items()]
    slow = ", ".join(f"'{name}'" for name, way in WAYS.items() if way.slow)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.clustering",
        description="Compare ways to cluster by the share of clusters, and of documents in them, that an exact search "
        "visits. With --counts, --orders or --segmentations, compare what else a build decides.",
        epilog="\n".join(["ways:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--counts",
        type=int,
        nargs="*",
        metavar="COUNT",
        help=f"compare numbers of clusters by visits, latency and size (without numbers: {' '.join(map(str, COUNTS))})",
    )
    modes.add_argument(
        "--orders", action="store_true", help="compare orders inside clusters by blocks scored and latency"
    )
    modes.add_argument(
        "--segmentations", action="store_true", help="compare segmentations by clusters visited and recall for mu < 1"
    )
    parser.add_argument("--ways", nargs="+", choices=list(meanings), metavar="WAY", help="only these ways (see below)")
    parser.add_argument("--num-clusters", type=int, nargs="+", default=[192, 768], help="for ways (default: 192 768)")
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        default=[0, 1, 2],
        help="tables show means over these (default: 0 1 2); --counts and --orders take the first",
    )
    parser.add_argument("--all-seeds", action="store_true", help=f"use all seeds for slow ways, too: {slow}")
    parser.add_argument("--queries", type=int, default=400, help="use only the first N (default: 400)")
    parser.add_argument("--passes", type=int, default=5, help="for latencies (default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="for building; latencies are of one (default: 1)")
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--output", type=Path, help="append results as JSON lines")
    return parser.parse_args()


def mode_and_records(args: argparse.Namespace, task: Task) -> tuple[str, list[Record]]:
    """Run the chosen mode; return its name and what it measured."""
    if args.counts is not None:
        return "counts", compare_counts(task, args.counts or list(COUNTS))
    if args.orders:
        return "orders", compare_orders(task)
    if args.segmentations:
        return "segmentations", compare_segmentations(task)
    known = all_ways(args.wiki)
    ways = {name: known[name] for name in args.ways or known}
    return "ways", [r for count in args.num_clusters for r in compare_ways(task, ways, count, args.all_seeds)]


def load_text() -> str:
    """Return a line on the machine and its load."""
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    return f"{os.cpu_count()} cores, {segmax._core.simd_level()}, load {load}"


def main() -> None:
    """Parse, measure, print."""
    args = parsed()
    docs, queries, _ = wiki.load(args.wiki, 0)
    task = Task(docs, queries[: args.queries], args.seeds, args.threads, args.passes)
    print(f"{docs.shape[0]:,} documents, {docs.nnz:,} postings, {task.queries.shape[0]} queries; {load_text()}")
    mode, records = mode_and_records(args, task)
    print(f"at the end: {load_text()}")
    if args.output:
        with args.output.open("a") as file:
            for record in records:
                file.write(json.dumps({"mode": mode, **record, "date": time.strftime("%Y-%m-%d")}) + "\n")


if __name__ == "__main__":
    main()
