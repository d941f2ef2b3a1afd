"""The paper's methods, with the options that only its experiments need."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal

from segmax import _core
from segmax.base.checks import checked_choice, checked_number
from segmax.base.errors import ConfigError
from segmax.search import method_names
from segmax.search import methods as ours
from segmax.search.hooks import set_hooks
from segmax.search.methods import (
    MOST,
    Exhaustive,
    SearchParams,
    TermParams,
    check_budget,
    check_fraction,
    check_limit,
)

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
class ClusterParams(TermParams):
    """Options of methods that visit clusters one by one; `Anytime` documents them."""

    mu: float = 1.0
    budget_ms: float | None = None
    risk: float = 1.0
    max_clusters: int | None = None
    documents: DocumentMethod = "blocks"
    estimate_threshold: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("mu", self.mu)
        check_budget(self.budget_ms)
        if not checked_number("risk", self.risk) >= 0:
            raise ConfigError(option="risk", expected="at least 0", got=self.risk)
        check_limit("max_clusters", self.max_clusters)
        checked_choice("documents", self.documents, ("blocks", "maxscore"))

    def _new_core(self) -> _core.SearchParams:
        core = super()._new_core()
        core.mu = self.mu
        core.budget_ms = self.budget_ms or 0.0
        core.risk = self.risk
        core.max_clusters = min(self.max_clusters or 0, MOST)
        core.hooks.documents = getattr(_core.DocumentMethod, self.documents)
        set_hooks(core, estimate_threshold=self.estimate_threshold)
        return core


@dataclasses.dataclass(frozen=True, kw_only=True)
class Anytime(ClusterParams):
    """Anytime Ranking (Mackenzie et al. 2022); with mu < 1 the paper's Anytime*.

    Clusters are visited one by one in the order of BoundSum. Clusters and documents with a bound of at most
    θ/μ are pruned.

    Parameters
    ----------
    mu
        How far pruning over-estimates the threshold. 1 is exact.
    budget_ms
        Stop when the time spent plus `risk` times the mean time per visited cluster would exceed this.
    risk
        How cautiously `budget_ms` is kept: 0 stops after the budget is spent, larger values stop earlier.
    max_clusters
        Visit at most this many clusters.
    documents
        How to find documents inside a visited cluster: "blocks" (segmax) or "maxscore" (the paper).
    estimate_threshold
        Start from a lower bound of the final threshold. Searches with a limit never do.
    max_terms, query_mass, dropped
        Search with the heaviest terms of a query only; see `segmax.ASC`.

    Examples
    --------
    >>> method_name(Anytime(mu=0.7, documents="maxscore"))
    'anytime:mu=0.7,documents=maxscore'
    """

    method: ClassVar[str] = "anytime"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ASC(ClusterParams):
    """ASC step by step, as the paper has it: clusters one by one in the order of MaxSBound.

    `segmax.ASC` follows the same rules with another order, and is faster. The other parameters are those of `Anytime`.

    Parameters
    ----------
    eta
        Over-estimation for documents and for the average segment bound; mu <= eta <= 1.
    cluster_order
        Visit clusters by MaxSBound ("max_bound", as the paper does) or by BoundSum ("bound_sum").

    Examples
    --------
    >>> method_name(ASC(mu=0.9, cluster_order="bound_sum"))
    'sequential:mu=0.9,cluster_order=bound_sum'
    """

    eta: float = 1.0
    cluster_order: ClusterOrder = "max_bound"

    method: ClassVar[str] = "sequential"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("eta", self.eta)
        if self.mu > self.eta:
            raise ConfigError(expected="mu <= eta", got=f"mu={self.mu} and eta={self.eta}")
        checked_choice("cluster_order", self.cluster_order, ("max_bound", "bound_sum"))

    def _new_core(self) -> _core.SearchParams:
        core = super()._new_core()
        core.eta = self.eta
        core.hooks.cluster_order = getattr(_core.ClusterOrder, self.cluster_order)
        return core


#: All methods by name.
METHODS: Mapping[str, type[SearchParams]] = {
    kind.method: kind for kind in (ours.ASC, ASC, Anytime, MaxScore, Exhaustive)
}


def parse_method(text: str) -> SearchParams:
    """Return the parameters that a text names.

    Parameters
    ----------
    text
        A method, alone or with options: "asc", "asc:mu=0.9,eta=1", "sequential:mu=0.9" (the paper's ASC, step by step),
        "anytime:budget_ms=10".

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
