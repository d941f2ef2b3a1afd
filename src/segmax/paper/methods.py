"""The paper's methods, with the options that only its experiments need."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal

from segmax import _core
from segmax.base.checks import checked_choice
from segmax.search import method_names
from segmax.search import methods as ours
from segmax.search.hooks import set_hooks
from segmax.search.methods import BestFirst, ClusterParams, Exhaustive, SearchParams

ClusterOrder = Literal["max_bound", "bound_sum"]
DocumentMethod = Literal["blocks", "maxscore"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaxScore(SearchParams):
    """MaxScore (Turtle and Flood 1995) without clusters, document at a time. Always exact.

    Parameters
    ----------
    estimate_threshold
        Start from a lower bound of the final threshold, taken from the k-th largest weight of each term.

    Examples
    --------
    >>> method_name(MaxScore(estimate_threshold=False))
    'maxscore:estimate_threshold=false'
    """

    estimate_threshold: bool = True

    method: ClassVar[str] = "maxscore"

    def _new_core(self) -> _core.SearchParams:
        core = super()._new_core()
        set_hooks(core, estimate_threshold=self.estimate_threshold)
        return core


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperParams(ClusterParams):
    """What `paper.ASC` and `paper.Anytime` add to `segmax.ASC`; `Anytime` documents it."""

    documents: DocumentMethod = "blocks"
    estimate_threshold: bool = True
    sweep: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_choice("documents", self.documents, ("blocks", "maxscore"))

    def _new_core(self) -> _core.SearchParams:
        core = super()._new_core()
        core.hooks.documents = getattr(_core.DocumentMethod, self.documents)
        set_hooks(core, estimate_threshold=self.estimate_threshold, sweep=self.sweep)
        return core


@dataclasses.dataclass(frozen=True, kw_only=True)
class Anytime(PaperParams):
    """Anytime Ranking (Mackenzie et al. 2022); with mu < 1 the paper's Anytime*.

    Clusters are visited in the order of BoundSum. A cluster or document whose bound is at most θ/μ is pruned. The other
    parameters are those of `segmax.ASC` without `eta`.

    Parameters
    ----------
    documents
        How to find documents inside a visited cluster: "blocks" (segmax) or "maxscore" (the paper).
    estimate_threshold
        Start from a lower bound of the final threshold. Searches with a limit never do.
    sweep
        Let an exact search score all documents where that is faster; `stats.swept` is True then.

    Examples
    --------
    >>> method_name(Anytime(mu=0.7, documents="maxscore"))
    'anytime:mu=0.7,documents=maxscore'
    """

    method: ClassVar[str] = "anytime"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ASC(ours.ASC, PaperParams):
    """`segmax.ASC` with the options of the paper's experiments. The other parameters are those of `segmax.ASC`.

    Parameters
    ----------
    documents, estimate_threshold, sweep
        See `Anytime`.
    cluster_order
        Visit clusters by MaxSBound ("max_bound", as the paper does) or by BoundSum ("bound_sum").

    Examples
    --------
    >>> isinstance(ASC(cluster_order="bound_sum"), ours.ASC)
    True
    """

    cluster_order: ClusterOrder = "max_bound"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_choice("cluster_order", self.cluster_order, ("max_bound", "bound_sum"))

    def _new_core(self) -> _core.SearchParams:
        core = super()._new_core()
        core.hooks.cluster_order = getattr(_core.ClusterOrder, self.cluster_order)
        return core


#: All methods by name, each as the class with the most options.
METHODS: Mapping[str, type[SearchParams]] = {
    kind.method: kind for kind in (ASC, BestFirst, Anytime, MaxScore, Exhaustive)
}


def parse_method(text: str) -> SearchParams:
    """Return the parameters that a text names.

    Parameters
    ----------
    text
        A method, alone or with options: "asc", "asc:mu=0.9,eta=1", "anytime:budget_ms=10". "asc" gives a `segmax.ASC`,
        unless one of its options is an option of `paper.ASC` alone.

    Raises
    ------
    ConfigError
        If there is no such method or option, or its value is invalid.

    Examples
    --------
    >>> parse_method("anytime:mu=0.7").mu
    0.7
    """
    return method_names.parse(text, METHODS)


method_name = method_names.method_name
