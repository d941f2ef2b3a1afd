"""Where figures come from: the machine, versions, the commit and the command."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import segmax
from segmax import _core
from segmax.base.system import cpu_name, total_memory
from segmax.experiments.experiment import Experiment
from segmax.experiments.task import Task

_LIBRARIES = ("numpy", "scipy", "ir-measures")


def about(experiment: Experiment, task: Task, command: str, seconds: float) -> dict[str, Any]:
    """Return where the figures of a run come from, as plain values.

    Parameters
    ----------
    experiment
        The experiment.
    task
        What it ran on.
    command
        The command that runs it again.
    seconds
        How long this run took; steps that it resumed took longer.
    """
    return {
        "name": experiment.name,
        "place": experiment.place,
        "title": experiment.title,
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "resumed_steps": task.steps.num_resumed,
        "quick": task.quick,
        "seeds": list(task.seeds),
        "documents": task.documents,
        "passes": task.passes,
        "collections": [collection.to_dict() for collection in task.collections],
        "commit": commit(),
        "versions": versions(),
        "machine": machine(),
    }


def machine() -> dict[str, Any]:
    """Return the machine that this process runs on."""
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count() or 1,
        "memory_bytes": total_memory(),
        "simd": _core.simd_level(),
        "system": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    """Return the versions of segmax, Python and the libraries that compute."""
    found = {"segmax": segmax.__version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """Return the commit of this checkout, with "+" if files differ from it; None for an installed package."""
    folder = Path(segmax.__file__).parent
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:  # another repository's folder
        return None
    found = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return found if not found or not changed else f"{found}+"


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
