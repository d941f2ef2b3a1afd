"""From vectors to an outcome: one call that races engines."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from segmax.base.progress import Progress
from segmax.base.system import without_interrupts
from segmax.bench.engines.catalog import ENGINES, version_of
from segmax.bench.material import Material
from segmax.bench.outcome import Outcome
from segmax.bench.race import Plan, Race, machine
from segmax.bench.task import DOCS, QRELS, QUERIES, TRUTH

#: A file in a folder whose indexes the user wants to keep.
_KEPT = "kept"


def measure(
    material: Material,
    plan: Plan,
    folder: Path,
    *,
    command: str = "",
    keep: bool = False,
    note: Callable[[str], object] = lambda _: None,
    progress: Progress | None = None,
) -> Outcome:
    """Build and search everything in a folder.

    Parameters
    ----------
    material
        Documents and queries; an index alone is measured without other engines.
    plan
        How to race.
    folder
        For vectors and indexes; it is created if necessary.
    command
        What the user typed, for the record.
    keep
        Leave vectors and indexes in the folder. A folder that was kept once stays.
    note
        Receives a line about every engine that is skipped or fails.
    progress
        Receives updates.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / _KEPT
    keep = keep or mark.exists()
    if keep:
        mark.touch()
    _remove_vectors(folder)
    try:
        material.write(folder)
        race = Race(plan, note, progress)
        race.find_truth(folder)
        ready = list(plan.engines) if material.docs is None else race.build_all(folder)
        race.search(folder, ready, documents=material.num_docs)
    finally:
        if not keep:
            with without_interrupts():  # or half of it would stay
                shutil.rmtree(folder, ignore_errors=True)
    packages = {ENGINES[name].package for name in ready}
    return Outcome(
        command=command,
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        machine={**machine(), "packages": {package: version_of(package) for package in sorted(packages)}},
        collection=material.to_dict(),
        settings={"ks": list(plan.ks), "passes": plan.passes, "screen": plan.screen, "core": plan.core},
        records=race.records,
    )


def _remove_vectors(folder: Path) -> None:
    """Remove what an earlier race left besides its indexes: this one may have no judgments."""
    for name in (DOCS, QUERIES, TRUTH, QRELS):
        (folder / name).unlink(missing_ok=True)
