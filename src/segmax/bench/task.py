"""What runs in a fresh process: finding the exact results, building an index, searching it.

`python -m segmax.bench.task FILE` does the task of a JSON file, beside the vectors, and replaces the file with the
outcome. `segmax.bench.race` starts it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

import segmax
from segmax.base.system import peak_memory, stay_on_core
from segmax.bench.engines.catalog import ENGINES
from segmax.bench.engines.engine import Answer, Engine, Searcher, Setting
from segmax.bench.engines.own import index_path
from segmax.bench.results import Record, candidates, mean_recall, sample_of_even, share_of_odd
from segmax.bench.truth import Truth
from segmax.evaluation.measures import relevance

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

#: The files of a race, in its folder; an engine has a folder of its own name beside them.
DOCS, QUERIES, TRUTH, QRELS = "docs.npz", "queries.npz", "truth.npz", "qrels.json"
_WARM_UP = 20
#: The settings that run on all queries are the fastest ones of the sample with at least one of these recalls.
_TARGETS = (0.95, 0.96, 0.97, 0.98, 0.99, 0.995)

#: The labels of the settings that run on all queries, by k.
Kept = dict[int, list[str]]


class Pass(NamedTuple):
    """One setting over some queries."""

    call_ns: NDArray[np.int64]
    answers: list[Answer]

    def latency_ns(self, engine: Engine) -> NDArray[np.int64]:
        """Return the latencies of calls, or those inside an engine that times itself."""
        return self.core_ns() if engine.timed_inside else self.call_ns

    def core_ns(self) -> NDArray[np.int64]:
        """Return the latencies by the engine's own clock, empty if it has none."""
        return np.array([answer.core_ns for answer in self.answers if answer.core_ns is not None], dtype=np.int64)


def one_pass(searcher: Searcher, setting: Setting, k: int, numbers: Sequence[int]) -> Pass:
    """Warm up, then search every query once."""
    ask = searcher.prepare(setting, k)
    for number in numbers[:_WARM_UP]:
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


def screen(engine: Engine, searcher: Searcher, truth: Truth, k: int, numbers: Sequence[int]) -> list[Record]:
    """Run all settings on a sample, twice; return latency, recall and whether they advance."""
    rows: list[Record] = []
    for setting in engine.grid:
        runs = [one_pass(searcher, setting, k, numbers) for _ in range(2)]
        missed = truth.missed(k, numbers, [answer.rows for answer in runs[0].answers])
        recall = mean_recall(missed, truth.wanted(k)[list(numbers)])
        ms = float(np.minimum(*(run.latency_ns(engine) for run in runs)).mean()) / 1e6
        rows.append({"setting": setting.label, "k": k, "queries": len(numbers), "mean_ms": ms, "recall": recall})
    best = candidates([(row["mean_ms"], row["recall"]) for row in rows], _TARGETS)
    best = best or {max(range(len(rows)), key=lambda i: rows[i]["recall"])}  # an engine is never left out
    for i, (row, setting) in enumerate(zip(rows, engine.grid, strict=True)):
        row["kept"] = setting.always or i in best
    return rows


class Judgments(NamedTuple):
    """Grades of rows by the number of a query, and the row of the query's own document, which is no answer."""

    grades: Mapping[str, Mapping[str, int]]
    own: Mapping[str, int]

    @classmethod
    def load(cls, path: Path) -> Judgments | None:
        """Read what the race wrote; None if nothing is judged."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def relevance(self, answers: Sequence[Answer], k: int) -> dict[str, list[float]]:
        """Return the measures of every query, in their order."""
        names = [str(number) for number in range(len(answers))]
        run = {name: self._scores(name, answer) for name, answer in zip(names, answers, strict=True)}
        found = relevance(self.grades, run, names, k=k)
        return {measure: values.round(6).tolist() for measure, values in found.items()}

    def _scores(self, name: str, answer: Answer) -> dict[str, float]:
        """Return scores that rank the rows as they came."""
        rows = [row for row in answer.rows.tolist() if row != self.own.get(name)]
        return {str(row): float(len(rows) - rank) for rank, row in enumerate(rows)}


def search_records(
    engine: Engine, searcher: Searcher, truth: Truth, judged: Judgments | None, k: int, labels: Sequence[str]
) -> list[Record]:
    """Run the settings of these labels on all queries."""
    records: list[Record] = []
    wanted = truth.wanted(k)
    numbers = range(len(wanted))
    for setting in engine.grid:
        if setting.label not in labels:
            continue
        run = one_pass(searcher, setting, k, numbers)
        missed = truth.missed(k, numbers, [answer.rows for answer in run.answers])
        records.append(
            {
                "setting": setting.label,
                "k": k,
                "exact": setting.exact,
                "swept": share_of_odd([answer.swept for answer in run.answers]),
                "wanted": k if (wanted == k).all() else wanted.tolist(),
                "missed": missed.tolist(),
                "latency_us": (run.latency_ns(engine) / 1000).round(1).tolist(),
                "core_us": (run.core_ns() / 1000).round(1).tolist(),
                **({} if judged is None else {"relevance": judged.relevance(run.answers, k)}),
            }
        )
    return records


def search(task: Record, folder: Path) -> Record:
    """Search everything once on one core; if no settings are chosen yet, choose them."""
    if task["core"] is not None:
        stay_on_core(task["core"])
    engine = ENGINES[task["engine"]]
    queries = sp.csr_matrix(sp.load_npz(folder / QUERIES))
    truth = Truth.load(folder / TRUTH)
    judged = Judgments.load(folder / QRELS)
    start = time.perf_counter()
    searcher = engine.open(folder / task["engine"], queries)
    seconds = time.perf_counter() - start
    kept: Kept = {int(k): labels for k, labels in task["kept"].items()}
    screened: list[Record] = []
    records: list[Record] = []
    for k in task["ks"]:
        if k not in kept:
            rows = screen(engine, searcher, truth, k, sample_of_even(queries.shape[0], task["screen"]))
            kept[k] = [row["setting"] for row in rows if row["kept"]]
            screened += rows
        records += search_records(engine, searcher, truth, judged, k, kept[k])
    return {"open_seconds": seconds, "peak_bytes": peak_memory(), "kept": kept, "screened": screened, "runs": records}


def build(task: Record, folder: Path) -> Record:
    """Build an index and return its cost."""
    engine = ENGINES[task["engine"]]
    docs = sp.csr_matrix(sp.load_npz(folder / DOCS))
    cost = engine.build(docs, folder / task["engine"])._asdict()
    return {**cost, "settings": dict(engine.settings), "documents": docs.shape[0], "postings": int(docs.nnz)}


def find_truth(task: Record, folder: Path) -> Record:
    """Write the exact results: of the vectors, or of an index that was there before."""
    queries = sp.csr_matrix(sp.load_npz(folder / QUERIES))
    if (folder / DOCS).exists():
        truth = Truth.of(sp.csr_matrix(sp.load_npz(folder / DOCS)), queries, task["ks"])
    else:
        with segmax.open(index_path(folder / "segmax"), preload=True) as index:
            truth = Truth.of_index(index, queries, task["ks"])
    truth.save(folder / TRUTH)
    return {}


_STAGES: dict[str, Callable[[Record, Path], Record]] = {"build": build, "search": search, "truth": find_truth}


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Redirect what compiled code prints."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def outcome_of(task: Record, folder: Path) -> Record:
    """Do a task beside the vectors of a folder."""
    return _STAGES[task["stage"]](task, folder)


def main() -> None:
    """Do the task of a file."""
    path = Path(sys.argv[1])
    task = json.loads(path.read_text(encoding="utf-8"))
    with stdout_to_stderr():
        outcome = outcome_of(task, path.parent)
    path.write_text(json.dumps(outcome), encoding="utf-8")


if __name__ == "__main__":
    main()
