"""Every result of the paper as an experiment that runs on any collection; `segmax experiment` is their command.

Importing this package loads no experiment: a name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from segmax.base.optional import on_demand

if TYPE_CHECKING:
    from segmax.experiments.catalog import EXPERIMENTS
    from segmax.experiments.collections import Collection, open_collection
    from segmax.experiments.experiment import Experiment
    from segmax.experiments.outcome import Finding, Outcome, Sheet
    from segmax.experiments.task import Task

__all__ = [
    "EXPERIMENTS",
    "Collection",
    "Experiment",
    "Finding",
    "Outcome",
    "Sheet",
    "Task",
    "open_collection",
]

__getattr__ = on_demand(
    __name__,
    {
        "catalog": "EXPERIMENTS",
        "collections": "Collection open_collection",
        "experiment": "Experiment",
        "outcome": "Finding Outcome Sheet",
        "task": "Task",
    },
)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
