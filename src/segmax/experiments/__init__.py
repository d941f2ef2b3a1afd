"""Every result of the paper as an experiment that runs on any collection; `segmax experiment` is their command.

Importing this package loads no experiment: a name is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

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

#: Where every name is: what the imports above say to type checkers.
_NAMES = {
    "catalog": "EXPERIMENTS",
    "collections": "Collection open_collection",
    "experiment": "Experiment",
    "outcome": "Finding Outcome Sheet",
    "task": "Task",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a name, once."""
    if name not in _MODULE_OF:
        msg = f"module 'segmax.experiments' has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(importlib.import_module(f"segmax.experiments.{_MODULE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
