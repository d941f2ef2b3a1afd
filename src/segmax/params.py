"""How to search: one small class per method, passed to every call."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from segmax import _core
from segmax.checks import checked_choice, checked_int, checked_number
from segmax.errors import ConfigError

ClusterOrder = Literal["max_bound", "bound_sum"]
DocumentMethod = Literal["blocks", "maxscore"]


def _check_fraction(name: str, value: float) -> None:
    if not 0.0 < checked_number(name, value) <= 1.0:
        msg = f"expected 0 < {name} <= 1, got {value}"
        raise ConfigError(msg)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchParams:
    """What all methods share. Use `Exhaustive`, `MaxScore`, `Anytime` or `ASC`."""

    budget_ms: float | None = None
    risk: float = 1.0
    max_clusters: int | None = None

    method: ClassVar[str]
    _visits_clusters: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self._visits_clusters:
            self._reject_limits()
        if self.budget_ms is not None and not checked_number("budget_ms", self.budget_ms) > 0:
            msg = f"expected budget_ms > 0 or None, got {self.budget_ms}"
            raise ConfigError(msg)
        if not checked_number("risk", self.risk) >= 0:
            msg = f"expected risk >= 0, got {self.risk}"
            raise ConfigError(msg)
        if self.max_clusters is not None:
            checked_int("max_clusters", self.max_clusters, 1)

    def _reject_limits(self) -> None:
        for name, default in (("budget_ms", None), ("risk", 1.0), ("max_clusters", None)):
            if getattr(self, name) != default:
                msg = f"{name} applies to Anytime and ASC, not to {type(self).__name__}: it visits no clusters"
                raise ConfigError(msg)

    def to_core(self) -> _core.SearchParams:
        """Return the parameters in the core's own form."""
        core = _core.SearchParams()
        core.method = getattr(_core.Method, self.method)
        core.budget_ms = self.budget_ms or 0.0
        core.risk = self.risk
        core.max_clusters = min(self.max_clusters or 0, 2**32 - 1)
        return core


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exhaustive(SearchParams):
    """Score every document that shares a term with the query: the yardstick, always exact."""

    method: ClassVar[str] = "exhaustive"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaxScore(SearchParams):
    """MaxScore (Turtle and Flood 1995) without clusters, document at a time; always exact.

    Parameters
    ----------
    seed
        Start from a lower bound of the final threshold, found from the k-th largest weight of each term.
    """

    seed: bool = True

    method: ClassVar[str] = "maxscore"

    def to_core(self) -> _core.SearchParams:
        """Return the parameters in the core's own form."""
        core = super().to_core()
        core.seed = bool(self.seed)
        return core


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterParams(SearchParams):
    """What `Anytime` and `ASC` share.

    Parameters
    ----------
    mu
        How far pruning may over-estimate the threshold: clusters are compared with θ/μ. 1 is exact.
    budget_ms
        Stop when the time spent plus `risk` times the mean time per visited cluster would pass this.
    max_clusters
        Visit at most this many clusters.
    documents
        Inside a visited cluster: "blocks" (ours) or "maxscore" (the paper's).
    seed
        Start from a lower bound of the final threshold; off by itself where a limit is set.
    sweep
        Let an exact search finish exhaustively where that is faster; `stats.swept` tells.
    """

    mu: float = 1.0
    documents: DocumentMethod = "blocks"
    seed: bool = True
    sweep: bool = True

    _visits_clusters: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fraction("mu", self.mu)
        checked_choice("documents", self.documents, ("blocks", "maxscore"))

    def to_core(self) -> _core.SearchParams:
        """Return the parameters in the core's own form."""
        core = super().to_core()
        core.mu = self.mu
        core.documents = getattr(_core.DocumentMethod, self.documents)
        core.seed = bool(self.seed)
        core.sweep = bool(self.sweep)
        return core


@dataclasses.dataclass(frozen=True, kw_only=True)
class Anytime(ClusterParams):
    """Anytime Ranking (Mackenzie et al. 2022); with mu < 1 the paper's Anytime*.

    Clusters come in the order of BoundSum; a cluster or document whose bound is at most θ/μ is pruned.
    The parameters are those of `ASC` without `eta`.
    """

    method: ClassVar[str] = "anytime"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ASC(ClusterParams):
    """ASC: a cluster is pruned when MaxSBound <= θ/μ and AvgSBound <= θ/η, a document when its bound <= θ/η.

    mu = eta = 1 is exact. eta = 1 with mu < 1 is what the paper calls probabilistically safe.

    Parameters
    ----------
    eta
        Over-estimation at document level and for the average segment bound; mu <= eta <= 1.
    order
        Visit clusters by MaxSBound ("max_bound", the paper's) or by BoundSum ("bound_sum").
    lazy
        Read segment maxima only of clusters that come to the top. The decisions are the same.

    Examples
    --------
    >>> ASC(mu=0.9).eta
    1.0
    """

    eta: float = 1.0
    order: ClusterOrder = "max_bound"
    lazy: bool = True

    method: ClassVar[str] = "asc"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fraction("eta", self.eta)
        checked_choice("order", self.order, ("max_bound", "bound_sum"))
        if self.mu > self.eta:
            msg = f"expected mu <= eta, got mu={self.mu} and eta={self.eta}"
            raise ConfigError(msg)

    def to_core(self) -> _core.SearchParams:
        """Return the parameters in the core's own form."""
        core = super().to_core()
        core.eta = self.eta
        core.order = getattr(_core.ClusterOrder, self.order)
        core.lazy = bool(self.lazy)
        return core
