"""Running an experiment and writing NAME.json, NAME.md and NAME.svg, each whole or not at all."""

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
    """What an experiment found, where its figures come from, and the files that were written."""

    outcome: Outcome
    about: dict[str, Any]
    files: list[Path]
    missing: str  #: why there are no pictures; empty if there are some


def run_experiment(experiment: Experiment, task: Task, folder: Path, command: str) -> Ran:
    """Run an experiment and write its files.

    Parameters
    ----------
    experiment
        The experiment to run.
    task
        What to run it on, with its steps opened.
    folder
        An existing folder to write to.
    command
        The command that runs it again, for the files.

    Raises
    ------
    ConfigError
        If the experiment does not take this number of collections.
    """
    check_number(experiment, len(task.collections))
    start = time.perf_counter()
    outcome = experiment.run(task)
    facts = about(experiment, task, command, time.perf_counter() - start)
    pictures, missing = _draw(experiment.name, outcome, folder)
    page = markdown(outcome, facts, [picture.name for picture in pictures])
    files = [folder / f"{experiment.name}.json", folder / f"{experiment.name}.md"]
    write_outcome(files[0], facts, outcome)
    write_text(files[1], page)
    return Ran(outcome, facts, [*files, *pictures], missing)


def check_number(experiment: Experiment, count: int) -> None:
    """Raise ConfigError if an experiment does not take this number of collections."""
    if count and not experiment.needs_data:
        raise ConfigError(where=experiment.name, expected="no collection", got=count, hint="leave {data} out")
    if experiment.needs_data and not count:
        raise ConfigError(
            where=experiment.name,
            expected="one or more collections" if experiment.many else "a collection",
            got="none",
            hint="give a BEIR folder, an ir_datasets id or a JSON file with {data}",
        )
    if count > 1 and not experiment.many:
        raise ConfigError(
            where=experiment.name,
            expected="one collection",
            got=count,
            hint="run it once for each, with another {out}",
        )


def _draw(name: str, outcome: Outcome, folder: Path) -> tuple[list[Path], str]:
    """Write the plots; return their files, or the reason why there are none."""
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
    for stale in (folder / f"{name}.svg", *folder.glob(f"{name}-[0-9]*.svg")):  # from a run with more plots
        if stale not in pictures:
            stale.unlink(missing_ok=True)
    return pictures, missing
