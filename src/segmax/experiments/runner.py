"""Running an experiment and writing what came out: NAME.json, NAME.md and NAME.svg, each whole or not at all."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

from segmax.base.errors import ConfigError, MissingPackageError
from segmax.drawing.draw import svg
from segmax.experiments.about import about
from segmax.experiments.experiment import Experiment
from segmax.experiments.outcome import Outcome
from segmax.experiments.outcome_files import write_outcome, write_text
from segmax.experiments.render import markdown
from segmax.experiments.task import Task


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
    """
    check_number(experiment, len(task.collections))
    start = time.perf_counter()
    outcome = experiment.run(task)
    told = about(experiment, task, command, time.perf_counter() - start)
    pictures, missing = _draw(experiment.name, outcome, folder)
    page = markdown(outcome, told, [picture.name for picture in pictures])
    files = [folder / f"{experiment.name}.json", folder / f"{experiment.name}.md"]
    write_outcome(files[0], told, outcome)
    write_text(files[1], page)
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
        write_text(picture, text)
    for stale in (folder / f"{name}.svg", *folder.glob(f"{name}-[0-9]*.svg")):  # of a run that had more plots
        if stale not in pictures:
            stale.unlink(missing_ok=True)
    return pictures, missing
