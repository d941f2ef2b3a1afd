"""The race: every engine builds and searches in fresh processes, and what they measure becomes records.

Every engine builds in a fresh process on all cores. It searches in a fresh process on one core, one query at a time
through its Python API, with queries converted beforehand. A pass is one such process per engine, so that a busy machine
slows all engines alike; a query's latency is its fastest pass. Recall is against exact search of the same vectors; any
of several equal scores counts.

No setting is tuned on the queries that are reported. First, all settings of an engine run on a sample of the
even-numbered queries. The fastest with recall of at least .95, .96, .97, .98, .99 and .995 advance, and exact ones
always do. These run on all queries. `segmax.bench.results` chooses among them on the even-numbered queries, and reports
the odd-numbered ones.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import segmax
from segmax.base.progress import Progress
from segmax.base.system import cpu_name, last_core, num_cores, total_memory
from segmax.bench.engines.catalog import ENGINES, version_of, what_is_missing
from segmax.bench.results import Record
from segmax.bench.task import Kept

_THREADS = ("RAYON", "OMP", "OPENBLAS", "MKL", "NUMBA")
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in _THREADS}
_LONGEST_REASON = 300


class FailedError(Exception):
    """An engine that could not build or search, with the reason."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How to race.

    Parameters
    ----------
    engines
        Names of engines; those that are not installed are skipped.
    ks
        Numbers of results.
    passes
        Processes per engine; the fastest pass of a query counts.
    screen
        How many of the even-numbered queries all settings run on first.
    core
        The core that searches; None: wherever the system likes.
    reuse
        Use indexes of other engines that an earlier race left in the folder.
    """

    engines: Sequence[str]
    ks: Sequence[int] = (10, 100, 1000)
    passes: int = 3
    screen: int = 40
    core: int | None = dataclasses.field(default_factory=last_core)
    reuse: bool = False


def in_fresh_process(folder: Path, stage: str, **task: Any) -> Record:
    """Run a stage of `segmax.bench.task` in a fresh process and return its outcome.

    Raises
    ------
    FailedError
        With the last line that the process wrote.
    """
    path = folder / f"task-{os.getpid()}.json"
    path.write_text(json.dumps({"stage": stage, **task}), encoding="utf-8")
    # What an interrupted process leaves goes with the folder.
    environment = {**os.environ, "TMPDIR": str(folder.absolute()), **(_ONE_THREAD if stage == "search" else {})}
    program = [sys.executable, "-m", "segmax.bench.task", str(path)]
    try:
        done = subprocess.run(
            program, env=environment, stderr=subprocess.PIPE, text=True, errors="replace", check=False
        )
        outcome: Record = json.loads(path.read_text(encoding="utf-8"))
    finally:
        path.unlink(missing_ok=True)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise FailedError(lines[-1][:_LONGEST_REASON] if lines else f"ended with code {done.returncode}")
    return outcome


def _built_version(record: Path) -> str | None:
    """Return which version built an index, as its record says; None if there is no whole record."""
    try:
        return str(json.loads(record.read_text(encoding="utf-8"))["version"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


class Race:
    """One race.

    Parameters
    ----------
    plan
        How to race.
    note
        Receives a line about every engine that is skipped or fails.
    progress
        Receives updates.
    """

    def __init__(self, plan: Plan, note: Callable[[str], object], progress: Progress | None = None) -> None:
        self._plan = plan
        self._note = note
        self._progress = Progress() if progress is None else progress
        self.records: list[Record] = []

    def _fail(self, engine: str, stage: str, reason: str) -> None:
        self._note(f"{stage} {engine}: failed: {reason}")
        self.records.append({"type": "failed", "engine": engine, "stage": stage, "reason": reason})

    def _skip(self, engine: str, reason: str) -> None:
        self._note(f"{engine}: skipped: {reason}")
        self.records.append({"type": "skipped", "engine": engine, "reason": reason})

    def find_truth(self, folder: Path) -> None:
        """Write the exact results to the folder of vectors."""
        with self._progress.stage("exact results", 1, "step") as stage:
            in_fresh_process(folder, "truth", ks=list(self._plan.ks))
            stage.advance(1)

    def build(self, folder: Path, name: str) -> bool:
        """Build one index unless it is there; return whether that worked."""
        record = folder / name / "build.json"
        engine = ENGINES[name]
        if reason := what_is_missing(engine):
            self._skip(name, reason)
            return False
        reuse = self._plan.reuse and name != "segmax" and _built_version(record) == version_of(engine.package)
        try:
            if not reuse:
                record.parent.mkdir(exist_ok=True)
                record.unlink(missing_ok=True)
                cost = in_fresh_process(folder, "build", engine=name)
                record.write_text(json.dumps({**cost, "date": time.strftime("%Y-%m-%d")}))
        except FailedError as error:
            self._fail(name, "build", str(error))
            return False
        self.records.append({"type": "build", "engine": name, **json.loads(record.read_text())})
        return True

    def build_all(self, folder: Path) -> list[str]:
        """Build all engines, and those whose index one of them needs; return the engines that are ready."""
        names = self._plan.engines
        also = {ENGINES[name].built_after for name in names}
        needed = [name for name in ENGINES if name in names or name in also]
        ready = []
        with self._progress.stage("build", len(needed), "indexes") as stage:
            for name in needed:
                if self.build(folder, name) and name in names:
                    ready.append(name)
                stage.advance(1)
        return ready

    def search(self, folder: Path, names: Sequence[str], kept: Kept | None = None, *, documents: int) -> None:
        """Search in passes, all engines in every pass; keep the fastest latency of every query."""
        results: dict[str, list[Record]] = {name: [] for name in names}
        failed: set[str] = set()
        with self._progress.stage("search", self._plan.passes * len(names), "passes") as stage:
            for _ in range(self._plan.passes):
                for name in names:
                    if name not in failed:
                        self._one_search(folder, name, results[name], kept, failed)
                    stage.advance(1)
        for name in names:
            if name not in failed:
                self._keep(name, documents, results[name])

    def _one_search(self, folder: Path, name: str, results: list[Record], kept: Kept | None, failed: set[str]) -> None:
        plan = self._plan
        known: Mapping[Any, list[str]] = results[0]["kept"] if results else kept or {}
        task = {"engine": name, "ks": list(plan.ks), "kept": known, "screen": plan.screen, "core": plan.core}
        try:
            results.append(in_fresh_process(folder, "search", **task))
        except FailedError as error:
            failed.add(name)
            self._fail(name, "search", str(error))

    def _keep(self, engine: str, documents: int, passes: list[Record]) -> None:
        common = {"engine": engine, "documents": documents}
        opened = {name: max(p[name] for p in passes) for name in ("open_seconds", "peak_bytes")}
        self.records.append({"type": "open", **common, **opened})
        self.records += [{"type": "screened", **common, **row} for row in passes[0]["screened"]]
        for runs in zip(*(p["runs"] for p in passes), strict=True):
            means = [float(np.mean(run["latency_us"])) for run in runs]
            fastest = {name: np.min([run[name] for run in runs], axis=0).tolist() for name in ("latency_us", "core_us")}
            self.records.append({"type": "search", **common, **runs[0], **fastest, "pass_mean_us": means})


def machine() -> Record:
    """Return what a race ran on."""
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "usable_cores": num_cores(),
        "memory_bytes": total_memory(),
        "simd": segmax._core.simd_level(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "segmax": segmax.__version__,
    }
