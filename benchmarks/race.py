"""The race: segmax and its rivals on the same vectors and one core: `python -m benchmarks.race --help`.

Every engine builds in a fresh process on all cores. It searches in a fresh process on one core, one query at a time
through its Python API, with queries converted beforehand. A pass is one such process per engine, so that a busy machine
slows all engines alike; a query's latency is its fastest pass. Recall is against exact float search; any of several
equal scores counts.

No setting is tuned on the queries that are reported. First, all settings of an engine run on a sample of the
even-numbered queries. The fastest with recall of at least .95, .96, .97, .98, .99 and .995 advance, and exact ones
always do. These run on all queries. For each recall, the fastest setting is chosen on the even-numbered queries, over
all indexes of an engine; its latency and recall are reported on the odd-numbered ones, for rivals and for segmax alike.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import segmax
from benchmarks import race_tables, wiki
from benchmarks.racers import RACERS, Answer, Racer, Searcher, Setting, installed
from benchmarks.rivals import peak_bytes, stdout_to_stderr
from benchmarks.truth import Truth
from segmax.base.system import cpu_name

WARM_UP = 20
#: The settings that run on all queries are the fastest ones of the sample with at least one of these recalls.
TARGETS = (0.95, 0.96, 0.97, 0.98, 0.99, 0.995)
THREADS = ("RAYON", "OMP", "OPENBLAS", "MKL", "NUMBA")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in THREADS}
GROWTH_K = 10

Record = dict[str, Any]
#: The labels of the settings that run on all queries, by k.
Kept = dict[int, list[str]]


# --- in the fresh processes ------------------------------------------------------------------------------------------


class Pass(NamedTuple):
    """One setting over some queries."""

    call_ns: NDArray[np.int64]
    answers: list[Answer]

    def latency_ns(self, racer: Racer) -> NDArray[np.int64]:
        """Return the latencies of calls, or those inside an engine that times itself."""
        return self.core_ns() if racer.timed_inside else self.call_ns

    def core_ns(self) -> NDArray[np.int64]:
        """Return the latencies by the engine's own clock, empty if it has none."""
        return np.array([answer.core_ns for answer in self.answers if answer.core_ns is not None], dtype=np.int64)


def one_pass(searcher: Searcher, setting: Setting, k: int, numbers: Sequence[int]) -> Pass:
    """Warm up, then search every query once."""
    ask = searcher.prepare(setting, k)
    for number in numbers[:WARM_UP]:
        ask(number)
    call_ns = np.zeros(len(numbers), dtype=np.int64)
    answers = []
    gc.collect()
    gc.disable()
    for i, number in enumerate(numbers):
        start = time.perf_counter_ns()
        raw = ask(number)
        call_ns[i] = time.perf_counter_ns() - start
        answers.append(searcher.answer(raw))
    gc.enable()
    return Pass(call_ns, answers)


def screen(racer: Racer, searcher: Searcher, truth: Truth, k: int, numbers: Sequence[int]) -> list[Record]:
    """Run all settings on a sample, twice; return latency, recall and whether they advance."""
    rows: list[Record] = []
    for setting in racer.grid:
        runs = [one_pass(searcher, setting, k, numbers) for _ in range(2)]
        missed = truth.missed(k, numbers, [answer.rows for answer in runs[0].answers])
        recall = race_tables.mean_recall(missed, truth.wanted(k)[list(numbers)])
        ms = float(np.minimum(*(run.latency_ns(racer) for run in runs)).mean()) / 1e6
        rows.append({"setting": setting.label, "k": k, "queries": len(numbers), "mean_ms": ms, "recall": recall})
    best = race_tables.candidates([(row["mean_ms"], row["recall"]) for row in rows], TARGETS)
    for i, (row, setting) in enumerate(zip(rows, racer.grid, strict=True)):
        row["kept"] = setting.always or i in best
    return rows


def search_records(racer: Racer, searcher: Searcher, truth: Truth, k: int, labels: list[str]) -> list[Record]:
    """Run the settings of these labels on all queries."""
    records: list[Record] = []
    wanted = truth.wanted(k)
    numbers = range(len(wanted))
    for setting in racer.grid:
        if setting.label not in labels:
            continue
        run = one_pass(searcher, setting, k, numbers)
        missed = truth.missed(k, numbers, [answer.rows for answer in run.answers])
        records.append(
            {
                "setting": setting.label,
                "k": k,
                "exact": setting.exact,
                "swept": race_tables.share_of_odd([answer.swept for answer in run.answers]),
                "wanted": k if (wanted == k).all() else wanted.tolist(),
                "missed": missed.tolist(),
                "latency_us": (run.latency_ns(racer) / 1000).round().astype(int).tolist(),
                "core_us": (run.core_ns() / 1000).round().astype(int).tolist(),
            }
        )
    return records


def search(task: Record, folder: Path) -> Record:
    """Search everything once on one core; if no settings are chosen yet, choose them."""
    os.sched_setaffinity(0, {task["core"]})
    racer = RACERS[task["engine"]]
    queries = sp.csr_matrix(sp.load_npz(folder / "queries.npz"))
    truth = Truth.load(folder / "truth.npz")
    start = time.perf_counter()
    searcher = racer.open(folder / task["engine"], queries)
    seconds = time.perf_counter() - start
    kept: Kept = {int(k): labels for k, labels in task["kept"].items()}
    screened: list[Record] = []
    records: list[Record] = []
    for k in task["ks"]:
        if k not in kept:
            rows = screen(racer, searcher, truth, k, race_tables.sample_of_even(queries.shape[0], task["screen"]))
            kept[k] = [row["setting"] for row in rows if row["kept"]]
            screened += rows
        records += search_records(racer, searcher, truth, k, kept[k])
    return {"open_seconds": seconds, "peak_bytes": peak_bytes(), "kept": kept, "screened": screened, "runs": records}


def build(task: Record, folder: Path) -> Record:
    """Build an index and return its cost."""
    racer = RACERS[task["engine"]]
    docs = sp.csr_matrix(sp.load_npz(folder / "docs.npz"))
    cost = racer.build(docs, folder / task["engine"])._asdict()
    settings = dict(racer.settings)
    return {**cost, "settings": settings, "documents": docs.shape[0], "postings": int(docs.nnz)}


def find_truth(task: Record, folder: Path) -> Record:
    """Write the exact results."""
    docs = sp.csr_matrix(sp.load_npz(folder / "docs.npz"))
    queries = sp.csr_matrix(sp.load_npz(folder / "queries.npz"))
    Truth.of(docs, queries, task["ks"]).save(folder / "truth.npz")
    return {}


STAGES: dict[str, Callable[[Record, Path], Record]] = {"build": build, "search": search, "truth": find_truth}


def run_child(path: Path) -> None:
    """Do the task of a JSON file, and replace the file with the result."""
    task = json.loads(path.read_text())
    with stdout_to_stderr():
        result = STAGES[task["stage"]](task, path.parent)
    path.write_text(json.dumps(result))


# --- the race --------------------------------------------------------------------------------------------------------


class FailedError(Exception):
    """An engine that could not build or search, with the reason."""


def in_fresh_process(folder: Path, stage: str, **task: Any) -> Record:
    """Run a stage in a fresh process and return its result."""
    path = folder / f"task-{os.getpid()}.json"
    path.write_text(json.dumps({"stage": stage, **task}))
    environment = {**os.environ, **(ONE_THREAD if stage == "search" else {})}
    program = [sys.executable, "-m", "benchmarks.race", "--child", str(path)]
    start = time.perf_counter()
    done = subprocess.run(program, env=environment, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    result: Record = json.loads(path.read_text())
    path.unlink()
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise FailedError(lines[-1].strip() if lines else f"ended with code {done.returncode}")
    print(f"{stage} {task.get('engine', '')}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return result


class Race:
    """One race: its folder of vectors and indexes, and the records so far."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._engines: list[str] = [name for name in RACERS if name in args.engines]
        self.records: list[Record] = []

    def _fail(self, engine: str, stage: str, reason: str) -> None:
        print(f"{stage} {engine}: failed: {reason}", file=sys.stderr, flush=True)
        self.records.append({"type": "failed", "engine": engine, "stage": stage, "reason": reason})

    def _skip(self, engine: str, reason: str) -> None:
        print(f"build {engine}: skipped: {reason} (`make race` installs all rivals)", file=sys.stderr, flush=True)
        self.records.append({"type": "skipped", "engine": engine, "reason": reason})

    def prepare(self, documents: sp.csr_matrix, queries: sp.csr_matrix, ks: Sequence[int]) -> Path:
        """Write vectors and exact results to a folder for this number of documents; return it."""
        root: Path = self._args.folder
        folder = (root if self._args.set == "wiki" else root / self._args.set) / str(documents.shape[0])
        folder.mkdir(parents=True, exist_ok=True)
        sp.save_npz(folder / "docs.npz", documents, compressed=False)
        sp.save_npz(folder / "queries.npz", queries, compressed=False)
        if not self._args.build_only:
            in_fresh_process(folder, "truth", ks=list(ks))
        return folder

    def build(self, folder: Path, engine: str) -> bool:
        """Build one index unless it is there; return whether that worked."""
        record = folder / engine / "build.json"
        try:
            version = installed(RACERS[engine])
            reuse = self._args.reuse and RACERS[engine].package != "segmax" and record.exists()
            if not (reuse and json.loads(record.read_text())["version"] == version):
                record.parent.mkdir(exist_ok=True)
                record.unlink(missing_ok=True)
                cost = in_fresh_process(folder, "build", engine=engine)
                record.write_text(json.dumps({**cost, "date": time.strftime("%Y-%m-%d")}))
        except PackageNotFoundError as error:
            self._skip(engine, f"{error.name} is not installed")
            return False
        except FailedError as error:
            self._fail(engine, "build", str(error))
            return False
        self.records.append({"type": "build", "engine": engine, **json.loads(record.read_text())})
        return True

    def build_all(self, folder: Path) -> list[str]:
        """Build all engines, and segmax if BMP needs its order of documents; return the engines that are ready."""
        needed = [*self._engines]
        if "segmax" not in needed and any(name.startswith("bmp") for name in needed):
            needed.insert(0, "segmax")
        return [name for name in needed if self.build(folder, name) and name in self._engines]

    def search(self, folder: Path, engines: Sequence[str], ks: Sequence[int], kept: Kept | None = None) -> None:
        """Search in passes, all engines in every pass; keep the fastest latency of every query."""
        results: dict[str, list[Record]] = {name: [] for name in engines}
        failed: set[str] = set()
        for _ in range(self._args.passes):
            for name in engines:
                if name in failed:
                    continue
                known = results[name][0]["kept"] if results[name] else kept or {}
                task = {"engine": name, "ks": list(ks), "kept": known, "screen": self._args.screen}
                try:
                    results[name].append(in_fresh_process(folder, "search", core=self._args.core, **task))
                except FailedError as error:
                    failed.add(name)
                    self._fail(name, "search", str(error))
        documents = int(folder.name)
        for name in engines:
            if name not in failed:
                self._keep(name, documents, results[name])

    def _keep(self, engine: str, documents: int, passes: list[Record]) -> None:
        common = {"engine": engine, "documents": documents}
        opened = {name: max(p[name] for p in passes) for name in ("open_seconds", "peak_bytes")}
        self.records.append({"type": "open", **common, **opened})
        self.records += [{"type": "screened", **common, **row} for row in passes[0]["screened"]]
        for runs in zip(*(p["runs"] for p in passes), strict=True):
            means = [float(np.mean(run["latency_us"])) for run in runs]
            fastest = {name: np.min([run[name] for run in runs], axis=0).tolist() for name in ("latency_us", "core_us")}
            self.records.append({"type": "search", **common, **runs[0], **fastest, "pass_mean_us": means})

    def run(self) -> None:
        """Build and search everything."""
        args = self._args
        docs, queries = wiki.load_set(args.wiki, args.set, args.documents)
        queries = queries[: args.queries]
        self.records.append(setup(docs, queries, args))
        folder = self.prepare(docs, queries, args.k)
        ready = self.build_all(folder)
        if not args.build_only:
            self.search(folder, ready, args.k)
        if "segmax" in ready and GROWTH_K in args.k:
            for part in (4, 2):
                self.grow(docs[: docs.shape[0] // part], queries)

    def grow(self, docs: sp.csr_matrix, queries: sp.csr_matrix) -> None:
        """Build and search a part of the collection with segmax alone, exactly."""
        folder = self.prepare(docs, queries, [GROWTH_K])
        exact = [setting.label for setting in RACERS["segmax"].grid if setting.exact]
        if self.build(folder, "segmax") and not self._args.build_only:
            self.search(folder, ["segmax"], [GROWTH_K], {GROWTH_K: exact})


def setup(docs: sp.csr_matrix, queries: sp.csr_matrix, args: argparse.Namespace) -> Record:
    """Return the record of what ran where."""
    return {
        "type": "race",
        "date": time.strftime("%Y-%m-%d"),
        "set": args.set,
        "documents": docs.shape[0],
        "postings": int(docs.nnz),
        "queries": queries.shape[0],
        "ks": args.k,
        "engines": args.engines,
        "passes": args.passes,
        "screen": args.screen,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "simd": segmax._core.simd_level(),
        "system": platform.system(),
        "python": platform.python_version(),
        "segmax": segmax.__version__,
    }


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.race", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--engines", nargs="+", default=list(RACERS), choices=RACERS, metavar="NAME", help=", ".join(RACERS)
    )
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument(
        "--set", choices=get_args(wiki.Set), default="wiki", help="281,250 documents (wiki) or 656,250 (large)"
    )
    parser.add_argument("--queries", type=int, metavar="N", help="use only the first N")
    parser.add_argument("--documents", type=int, metavar="N", help="use only the first N of the set")
    parser.add_argument("--passes", type=int, default=2, help="processes per engine; a query's fastest counts")
    parser.add_argument("--screen", type=int, default=100, help="even-numbered queries that all settings run on first")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core that searches")
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--folder", type=Path, default=Path("build/race"), help="where vectors and indexes are kept")
    parser.add_argument(
        "--reuse", action="store_true", help="reuse the rivals' indexes in --folder; segmax is built again"
    )
    parser.add_argument("--build-only", action="store_true", help="build indexes for --reuse, without searching")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(),
        help="the root of benchmarks/results/race.jsonl (or race-large.jsonl), docs/images and docs/benchmarks.md",
    )
    parser.add_argument(
        "--tables-only", action="store_true", help="only make tables and plots again, from the JSON lines"
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run the race, write the JSON lines, tables and plots."""
    args = arguments()
    if args.child:
        run_child(args.child)
        return
    lines = args.output / "benchmarks" / "results" / ("race.jsonl" if args.set == "wiki" else f"race-{args.set}.jsonl")
    if not args.tables_only:
        race = Race(args)
        race.run()
        if args.build_only:
            return
        lines.parent.mkdir(parents=True, exist_ok=True)
        lines.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in race.records))
    race_tables.write(lines, args.output / "docs")


if __name__ == "__main__":
    main()
