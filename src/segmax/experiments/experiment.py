"""What an experiment is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segmax.experiments.outcome import Outcome
    from segmax.experiments.task import Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """One of the paper's results, to be measured on any collection.

    Parameters
    ----------
    name
        Its name on the command line, for example "static-pruning".
    place
        Where the paper has it: "Table 3", "Figures 2 and 5", "Section 4.4".
    title
        A line on what it measures.
    description
        What it does, needs and prints, in lines of at most 80 characters; `--help` shows the text unchanged.
    run
        Runs the experiment.
    many
        Whether it takes several collections.
    needs_data
        Whether it needs a collection at all.
    """

    name: str
    place: str
    title: str
    description: str
    run: Callable[[Task], Outcome]
    many: bool = False
    needs_data: bool = True
