"""Every result of the paper as an experiment that runs on any collection; `segmax experiment` is their command."""

from collections.abc import Mapping

from segmax.experiments import (
    baselines,
    bounds,
    budgets,
    clustering,
    example,
    models,
    overestimation,
    parameters,
    properties,
    segmentation,
    space,
    static_pruning,
    zero_shot,
)
from segmax.experiments.base import Finding, Outcome, Plot, Series, Sheet
from segmax.experiments.collections import Collection, open_collection
from segmax.experiments.experiment import Experiment
from segmax.experiments.task import Task

#: All experiments by name, in the order of the paper.
EXPERIMENTS: Mapping[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        properties,
        example,
        bounds,
        overestimation,
        clustering,
        segmentation,
        baselines,
        models,
        zero_shot,
        parameters,
        budgets,
        static_pruning,
        space,
    )
}

__all__ = [
    "EXPERIMENTS",
    "Collection",
    "Experiment",
    "Finding",
    "Outcome",
    "Plot",
    "Series",
    "Sheet",
    "Task",
    "open_collection",
]
