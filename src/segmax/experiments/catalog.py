"""Which experiments there are. The module of an experiment is imported when the experiment is first used."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from segmax.experiments.experiment import Experiment


class Listed(NamedTuple):
    """An experiment as a list shows it: its name, its place in the paper, and a line on what it measures."""

    name: str
    place: str
    title: str

    def load(self) -> Experiment:
        """Import its module, which is named after it, and return the experiment."""
        module = importlib.import_module(f"segmax.experiments.{self.name.replace('-', '_')}")
        loaded: Experiment = module.EXPERIMENT
        return loaded


#: All experiments by name, in the order of the paper.
LISTED: Mapping[str, Listed] = {
    entry.name: entry
    for entry in (
        Listed("properties", "Table 1", "the paper's four propositions, checked on an index of yours"),
        Listed("example", "Figure 4", "which clusters of a worked example Anytime, Anytime* and ASC prune"),
        Listed("bounds", "Figures 2 and 5", "how tight bounds of clusters are, with and without segments"),
        Listed("overestimation", "Figure 3", "recall against time of Anytime*, by μ and number of clusters"),
        Listed("clustering", "Table 2", "what documents are clustered by, with and without segments"),
        Listed("segmentation", "Table 3", "random segments beside segments of similar documents"),
        Listed("baselines", "Table 4", "ASC beside MaxScore, Anytime Ranking and Anytime*, without a time budget"),
        Listed("models", "Table 5", "the methods of Table 4 on the vectors of several models"),
        Listed("zero-shot", "Table 6", "nDCG@10 and time on many collections"),
        Listed("parameters", "Figure 6", "recall against time of ASC, by μ, number of clusters and of segments"),
        Listed("budgets", "Table 7", "Anytime Ranking and ASC under a time budget"),
        Listed("static-pruning", "Section 4.4", "ASC on an index that static pruning has made small"),
        Listed("space", "Section 3.2", "what cluster and segment maxima add to the size of an index"),
    )
}


class _Experiments(Mapping[str, Experiment]):
    """The experiments by name; looking one up imports its module."""

    def __getitem__(self, name: str) -> Experiment:
        return LISTED[name].load()

    def __iter__(self) -> Iterator[str]:
        return iter(LISTED)

    def __len__(self) -> int:
        return len(LISTED)


EXPERIMENTS: Mapping[str, Experiment] = _Experiments()
