"""Running an experiment and writing what came out: NAME.json, NAME.md and NAME.svg, each whole or not at all."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

from segmax.base.errors import ConfigError, InputError, MissingPackageError
from segmax.experiments.about import about
from segmax.experiments.base import Outcome
from segmax.experiments.drawing import svg
from segmax.experiments.experiment import Experiment
from segmax.experiments.render import markdown
from segmax.experiments.task import Task
from segmax.io.streams import write_whole

FORMAT = "segmax-experiment"
_VERSION = 2
#: What a report shows about a run.
_ABOUT = (
    *("name", "place", "title", "command", "date", "seconds", "resumed_steps", "quick", "collections", "commit"),
    *("versions", "machine.cpu", "machine.cores", "machine.memory_bytes", "machine.simd", "machine.system"),
)


class Ran(NamedTuple):
    """What an experiment found, what is known about the run, and the files that were written."""

    outcome: Outcome
    about: dict[str, Any]
    files: list[Path]
    missing: str  #: why there are no plots; empty where there are


def run_experiment(experiment: Experiment, task: Task, folder: Path, command: str) -> Ran:
    """Run an experiment and write its files.

    Parameters
    ----------
    experiment
        What to run.
    task
        What to run it on; its steps are to be open.
    folder
        Where to write; it exists.
    command
        The command that runs it again, to be told in the files.

    Raises
    ------
    ConfigError
        If the experiment cannot be run on so many collections.
    InputError
        If a collection lacks what it needs.
    """
    check_collections(experiment, task)
    start = time.perf_counter()
    outcome = experiment.run(task)
    told = about(experiment, task, command, time.perf_counter() - start)
    pictures, missing = _draw(experiment.name, outcome, folder)
    page = markdown(outcome, told, [picture.name for picture in pictures])
    content = {"format": FORMAT, "version": _VERSION, "about": told, **outcome.to_dict()}
    files = [folder / f"{experiment.name}.json", folder / f"{experiment.name}.md"]
    _write(files[0], json.dumps(_finite(content), indent=1, ensure_ascii=False) + "\n")
    _write(files[1], page)
    return Ran(outcome, told, [*files, *pictures], missing)


def check_number(experiment: Experiment, count: int) -> None:
    """Raise ConfigError where an experiment does not take so many collections, and tell what it takes."""
    if count and not experiment.needs_data:
        msg = f"{experiment.name} needs no collection: leave --data out"
        raise ConfigError(msg)
    if experiment.needs_data and not count:
        what = "one or more collections" if experiment.many else "a collection"
        msg = f"{experiment.name} needs {what}: give a BEIR folder, an ir_datasets id or a JSON file with --data"
        raise ConfigError(msg)
    if count > 1 and not experiment.many:
        msg = f"{experiment.name} takes one collection, got {count}; run it once for each, with an --out of its own"
        raise ConfigError(msg)


def check_collections(experiment: Experiment, task: Task) -> None:
    """Raise where an experiment cannot be run on the collections of a task, and tell what it needs."""
    check_number(experiment, len(task.collections))
    for collection in task.collections:
        if experiment.needs_qrels and collection.qrels is None:
            msg = f"{experiment.name} needs judgments, and {collection.name} has none: give it qrels"
            raise InputError(msg)


def read_outcome(path: Path) -> tuple[dict[str, Any], Outcome] | None:
    """Return what NAME.json tells about a run, and its outcome; None where the file is something else.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            return None
        return _checked_about(content["about"]), Outcome.from_dict(content)
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise InputError(
            where=f"'{path}'",
            expected="the outcome of an experiment",
            got=f"what cannot be read ({error})",
            hint="run it again",
        ) from error


def _checked_about(told: dict[str, Any]) -> dict[str, Any]:
    """Return what is told about a run; ValueError where something is missing that a report shows."""
    found = {**told, **{f"machine.{key}": value for key, value in dict(told.get("machine", {})).items()}}
    missing = [key for key in _ABOUT if key not in found]
    if missing:
        msg = f"it lacks about.{missing[0]}"
        raise ValueError(msg)
    return dict(told)


def _draw(name: str, outcome: Outcome, folder: Path) -> tuple[list[Path], str]:
    """Write the plots; without matplotlib none, and why."""
    wanted = [folder / f"{name}.svg", *(folder / f"{name}-{number}.svg" for number in range(2, len(outcome.plots) + 1))]
    pictures = wanted[: len(outcome.plots)]
    try:
        drawn = [svg(plot, picture.stem) for plot, picture in zip(outcome.plots, pictures, strict=True)]
    except MissingPackageError as error:
        drawn, pictures, missing = [], [], str(error)
    else:
        missing = ""
    for picture, text in zip(pictures, drawn, strict=True):
        _write(picture, text)
    for stale in (folder / f"{name}.svg", *folder.glob(f"{name}-[0-9]*.svg")):  # of a run that had more plots
        if stale not in pictures:
            stale.unlink(missing_ok=True)
    return pictures, missing


def _write(path: Path, text: str) -> None:
    with write_whole(path, overwrite=True) as file:
        file.write(text.encode("utf-8"))


def _finite(value: Any) -> Any:
    """Return plain values that every reader of JSON takes: what is no finite number is null."""
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
