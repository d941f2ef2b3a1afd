"""Building and searching generated collections of growing size: `python -m benchmarks.scale --help`.

Every size is built in a fresh process that streams documents from `benchmarks.generated`, so that the collection is
never in memory. A thread of that process watches its anonymous memory and the free space of the disk. The result is one
line of JSON per size; `--plot` draws all lines of a file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from benchmarks.generated import Generator
from segmax.base.system import anonymous_memory
from segmax.bench.engines.scatter_add import ScatterAdd
from segmax.drawing.figures import new_figure, save_figure
from segmax.search.opening import open_index
from segmax.storage.reading import load_index

SIZES = (1_000_000, 2_000_000, 4_000_000, 8_800_000)
MEAN_TERMS = 127
PASSES = 3
ADDED_DOCS = 10_000
METHODS = {"exhaustive": segmax.Exhaustive(), "asc": segmax.ASC()}


class Watch:
    """Peak anonymous memory of this process, and peak use of a disk, while the context lasts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._free = self._least_free = self._free_bytes()
        self.peak_memory = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _free_bytes(self) -> int:
        stat = os.statvfs(self._folder)
        return stat.f_bfree * stat.f_frsize

    @property
    def peak_disk(self) -> int:
        """Bytes that were taken at the worst moment."""
        return self._free - self._least_free

    def _run(self) -> None:
        while not self._done.wait(0.05):
            self.peak_memory = max(self.peak_memory, anonymous_memory())
            self._least_free = min(self._least_free, self._free_bytes())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


class StageTimes:
    """Seconds per stage of a build, from its progress callback."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._now: tuple[str, float] | None = None

    def __call__(self, progress: segmax.typing.BuildProgress) -> None:
        """Record the start of a stage."""
        if self._now is None or self._now[0] != progress.stage:
            self.finish()
            self._now = (progress.stage, time.perf_counter())

    def finish(self) -> None:
        """End the current stage."""
        if self._now is not None:
            name, start = self._now
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def keep_fastest(figures: dict[str, Any], name: str, nanoseconds: NDArray[Any]) -> None:
    """Put the mean and the p99 of a pass among the figures, unless an earlier pass was faster."""
    ms = nanoseconds / 1e6
    if f"{name}_ms" not in figures or ms.mean() < figures[f"{name}_ms"]:
        figures |= {f"{name}_ms": float(ms.mean()), f"{name}_p99_ms": float(np.percentile(ms, 99))}


def search_figures(index: segmax.Index, plain: ScatterAdd, queries: sp.csr_matrix) -> dict[str, Any]:
    """Mean and p99 latency of the methods at k = 10, one thread, passes in turn, and the clusters visited."""
    figures: dict[str, Any] = {}
    for _ in range(PASSES):
        keep_fastest(figures, "scatter_add", plain.search(queries, 10)[1])
        for name, params in METHODS.items():
            found = index.search_batch(queries, k=10, params=params, threads=1)
            keep_fastest(figures, name, found.stats.elapsed_ns)
    one_by_one = segmax.paper.ASC()  # as in the paper
    visits = index.search_batch(queries, k=10, params=one_by_one, threads=1).stats.clusters_visited
    return {**figures, "clusters_visited": float(visits.mean()) / index.num_clusters}


def plain_lists(generator: Generator, num_docs: int, path: Path, queries: sp.csr_matrix) -> ScatterAdd:
    """Return the yardstick over the same documents, with the lists of the queries' terms."""
    starts = load_index(path, preload=False, verify=False)[1]["term_first_posting"]
    frequencies = np.asarray(np.diff(starts), dtype=np.int64)
    counts = np.zeros(len(frequencies), dtype=np.int64)
    terms = np.unique(queries.indices)
    counts[terms] = frequencies[terms]
    return ScatterAdd.of_stream(generator.batches(num_docs, MEAN_TERMS), counts)


def run_one(generator: Generator, num_docs: int, args: argparse.Namespace) -> dict[str, Any]:
    """Build and search one collection."""
    target = args.folder / f"scale-{num_docs}"
    stages = StageTimes()
    start = time.perf_counter()
    with Watch(args.folder) as watch:
        index = segmax.build(
            generator.batches(num_docs, MEAN_TERMS),
            path=target,
            overwrite=True,
            config=segmax.BuildConfig(num_clusters=args.cluster_size and round(num_docs / args.cluster_size)),
            memory_limit=args.memory_limit,
            progress=stages,
        )
        seconds = time.perf_counter() - start
    stages.finish()
    queries = generator.queries[: args.queries]
    index.close()
    # In memory, like the lists of the yardstick.
    with open_index(target, preload=True) as index:
        figures = search_figures(index, plain_lists(generator, num_docs, target, queries), queries)
        record = {
            "docs": num_docs,
            "postings": index.num_postings,
            "clusters": index.num_clusters,
            "seconds": seconds,
            "stages": stages.seconds,
            "peak_memory": watch.peak_memory,
            "peak_disk": watch.peak_disk,
            "index_bytes": index.num_bytes,
            "memory_limit": args.memory_limit,
            **figures,
        }
    shutil.rmtree(target)
    return record


def run_added(generator: Generator, num_docs: int, args: argparse.Namespace) -> dict[str, Any]:
    """Build one collection at once, and the same by adding batch after batch; search both in turn."""
    built, added = args.folder / f"scale-{num_docs}", args.folder / f"added-{num_docs}"
    start = time.perf_counter()
    segmax.build(
        generator.batches(num_docs, MEAN_TERMS), path=built, overwrite=True, memory_limit=args.memory_limit
    ).close()
    record: dict[str, Any] = {"docs": num_docs, "added": True, "build_seconds": time.perf_counter() - start}
    shutil.rmtree(added, ignore_errors=True)
    with Watch(args.folder) as watch, segmax.Collection.create(added) as collection:
        start = time.perf_counter()
        count = 0
        for batch in generator.batches(num_docs, MEAN_TERMS):
            for first in range(0, batch.shape[0], ADDED_DOCS):
                docs = batch[first : first + ADDED_DOCS]
                collection.add(docs, ids=range(count, count + docs.shape[0]))
                count += docs.shape[0]
        record["add_seconds"] = time.perf_counter() - start
        collection.settle()
        record["seconds"] = time.perf_counter() - start
        record |= {"parts": collection.stats().num_parts}
    record |= {"peak_memory": watch.peak_memory, "peak_disk": watch.peak_disk}
    queries = generator.queries[: args.queries]
    with open_index(built, preload=True) as index, segmax.open(added) as collection:
        for _ in range(PASSES):
            for name, searched in (("built", index), ("added", collection)):
                found = searched.search_batch(queries, k=10, threads=1)
                keep_fastest(record, name, found.stats.elapsed_ns)
                record[f"{name}_sum"] = float(found.scores.sum())
    assert record.pop("built_sum") == record.pop("added_sum"), "scores differ"
    for path in (built, added):
        shutil.rmtree(path)
    return record


def added_table(records: list[dict[str, Any]]) -> str:
    """Return the records of collections that were built by adding as a markdown table."""
    lines = [
        "| documents | build s | adding s | settled s | times the build | peak memory GiB | peak disk GB | parts "
        "| built ms (p99) | added ms (p99) | times as long |",
        "|" + " --- |" * 11,
    ]
    for r in records:
        lines.append(
            f"| {r['docs']:,} | {r['build_seconds']:.0f} | {r['add_seconds']:.0f} | {r['seconds']:.0f} "
            f"| {r['seconds'] / r['build_seconds']:.2f} | {r['peak_memory'] / 2**30:.1f} | {r['peak_disk'] / 1e9:.1f} "
            f"| {r['parts']} | {r['built_ms']:.3f} ({r['built_p99_ms']:.2f}) | {r['added_ms']:.3f} "
            f"({r['added_p99_ms']:.2f}) | {r['added_ms'] / r['built_ms']:.2f} |"
        )
    return "\n".join(lines)


def table(records: list[dict[str, Any]]) -> str:
    """Return the records as a markdown table."""
    lines = [
        "| documents | postings | build s | documents/s | peak memory GiB | peak disk GB | index GB | bytes/posting "
        "| scatter-add ms | exhaustive ms (p99) | asc ms (p99) | times scatter-add | clusters visited |",
        "|" + " --- |" * 13,
    ]
    for r in records:
        lines.append(
            f"| {r['docs']:,} | {r['postings']:,} | {r['seconds']:.0f} | {r['docs'] / r['seconds']:,.0f} "
            f"| {r['peak_memory'] / 2**30:.1f} | {r['peak_disk'] / 1e9:.1f} | {r['index_bytes'] / 1e9:.2f} "
            f"| {r['index_bytes'] / r['postings']:.2f} | {r['scatter_add_ms']:.2f} "
            f"| {r['exhaustive_ms']:.2f} ({r['exhaustive_p99_ms']:.2f}) | {r['asc_ms']:.2f} ({r['asc_p99_ms']:.2f}) "
            f"| {r['scatter_add_ms'] / r['asc_ms']:.1f} | {r['clusters_visited']:.1%} |"
        )
    return "\n".join(lines)


def plot(records: list[dict[str, Any]], path: Path) -> None:
    """Draw time, memory, disk and latency against the number of documents."""
    figure = new_figure(12, 7)
    axes = figure.subplots(2, 2)
    millions = [r["docs"] / 1e6 for r in records]
    stages = list(records[0]["stages"])
    heights = [[r["stages"].get(stage, 0.0) for r in records] for stage in stages]
    axes[0, 0].stackplot(millions, *heights, labels=stages, alpha=0.85)
    axes[0, 0].set(title="build time by stage", ylabel="seconds")
    axes[0, 1].plot(millions, [r["peak_memory"] / 2**30 for r in records], "o-", label="peak anonymous memory (GiB)")
    axes[0, 1].axhline(16, color="grey", linestyle="--", label="16 GiB")
    axes[0, 1].set(title="memory", ylabel="GiB")
    axes[1, 0].plot(millions, [r["peak_disk"] / 1e9 for r in records], "o-", label="peak disk while building")
    axes[1, 0].plot(millions, [r["index_bytes"] / 1e9 for r in records], "s-", label="index")
    axes[1, 0].set(title="disk", ylabel="GB")
    for name in ("scatter_add", *METHODS):
        axes[1, 1].plot(millions, [r[f"{name}_ms"] for r in records], "o-", label=f"{name}, mean")
        axes[1, 1].plot(millions, [r[f"{name}_p99_ms"] for r in records], "o:", label=f"{name}, p99")
    axes[1, 1].set(title="query latency, k = 10, one thread, exact", ylabel="ms", yscale="log", ylim=(0.1, 1000))
    for axis in axes.flat:
        axis.set_xlabel("million documents")
        if axis.get_yscale() == "linear":
            axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend()
    axes[1, 1].legend(loc="upper left", ncols=2)  # where no line is
    save_figure(figure, path)


def main() -> None:
    """Parse, run every size in its own process, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=int, nargs="+", default=list(SIZES), help="collection sizes")
    parser.add_argument("--folder", type=Path, default=Path("build/scale"), help="where indexes are written")
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--memory-limit", default="12GiB")
    parser.add_argument("--cluster-size", type=int, help="documents per cluster; default: that of segmax.build")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument(
        "--output", type=Path, default=Path("benchmarks/results/scale.jsonl"), help="JSON lines, appended"
    )
    parser.add_argument(
        "--plot", type=Path, help="draw the records of --output to this PNG and print them; build nothing"
    )
    parser.add_argument("--added", action="store_true", help="compare with a collection to which documents are added")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.plot:
        found = map(json.loads, args.output.read_text().splitlines())
        latest = {r["docs"]: r for r in found if not r.get("added")}
        records = [latest[docs] for docs in sorted(latest)]
        plot(records, args.plot)
        print(table(records))
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    fitted = args.folder / "generator.npz"
    if args.child:
        run = run_added if args.added else run_one
        print(json.dumps(run(Generator.load(fitted), args.docs[0], args)))
        return
    if not fitted.exists():
        docs, queries, _ = wiki.load(args.wiki, 0)
        Generator.fit(docs, queries=queries).save(fitted)
    program = [sys.executable, "-m", "benchmarks.scale", *sys.argv[1:], "--child", "--docs"]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    for num_docs in args.docs:
        output = subprocess.run([*program, str(num_docs)], check=True, stdout=subprocess.PIPE, text=True).stdout
        record = json.loads(output.splitlines()[-1])
        print((added_table if args.added else table)([record]), flush=True)
        with args.output.open("a") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
