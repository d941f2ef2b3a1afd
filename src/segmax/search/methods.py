"""How to search: one small class per method, passed to every call."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from segmax import _core
from segmax.base.checks import checked_choice, checked_int, checked_number
from segmax.base.errors import ConfigError

ClusterOrder = Literal["max_bound", "bound_sum"]
DocumentMethod = Literal["blocks", "maxscore"]
Dropped = Literal["ignored", "bounded"]


def _check_fraction(name: str, value: float) -> None:
    if not 0.0 < checked_number(name, value) <= 1.0:
        raise ConfigError(option=name, expected="greater than 0 and at most 1", got=value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchParams:
    """What all methods share. Use `ASC`, `BestFirst`, `Anytime`, `MaxScore` or `Exhaustive`."""

    budget_ms: float | None = None
    risk: float = 1.0
    max_clusters: int | None = None
    max_terms: int | None = None
    query_mass: float = 1.0
    dropped: Dropped = "ignored"

    method: ClassVar[str]
    _takes: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not hasattr(self, "method"):
            msg = f"{type(self).__name__} is no method; use ASC, BestFirst, Anytime, MaxScore or Exhaustive"
            raise ConfigError(msg)
        for name, default in {**_LIMITS, **_SHORTENING}.items():
            if name not in self._takes and getattr(self, name) != default:
                kind = type(self).__name__
                if name in _LIMITS:
                    msg = f"{name} applies to Anytime and ASC, not to {kind}: it visits no clusters"
                else:
                    msg = f"{name} applies to Anytime, ASC and BestFirst, not to {kind}"
                raise ConfigError(msg)
        if self.budget_ms is not None and not checked_number("budget_ms", self.budget_ms) > 0:
            raise ConfigError(option="budget_ms", expected="greater than 0 or None", got=self.budget_ms)
        if not checked_number("risk", self.risk) >= 0:
            raise ConfigError(option="risk", expected="at least 0", got=self.risk)
        if self.max_clusters is not None:
            checked_int("max_clusters", self.max_clusters, 1)
        if self.max_terms is not None:
            checked_int("max_terms", self.max_terms, 1)
        _check_fraction("query_mass", self.query_mass)
        checked_choice("dropped", self.dropped, ("ignored", "bounded"))
        if self.dropped == "bounded" and self.query_mass < 1.0:
            raise ConfigError(
                option="query_mass", expected="1 with dropped='bounded'", got=self.query_mass, hint="use {max_terms}"
            )

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Return the names of the options that this method takes."""
        shared = {**_LIMITS, **_SHORTENING}
        names = [field.name for field in dataclasses.fields(cls)]
        return tuple(name for name in names if name not in shared or name in cls._takes)

    @property
    def drops_terms(self) -> bool:
        """Whether a search may leave terms of a query out and never make up for it."""
        return self.dropped == "ignored" and (self.max_terms is not None or self.query_mass < 1.0)

    def to_core(self) -> _core.SearchParams:
        """Return the parameters in the core's own form; made once, so do not change it."""
        found: _core.SearchParams | None = self.__dict__.get("_core")
        if found is None:
            found = self._made_core()
            self.__dict__["_core"] = found  # past the frozen dataclass, as functools.cached_property does
        return found

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_core"}  # the core's form stays here

    def _made_core(self) -> _core.SearchParams:
        core = _core.SearchParams()
        core.method = getattr(_core.Method, self.method)
        core.budget_ms = self.budget_ms or 0.0
        core.risk = self.risk
        core.max_clusters = min(self.max_clusters or 0, 2**32 - 1)
        core.max_terms = min(self.max_terms or 0, 2**32 - 1)
        core.query_mass = self.query_mass
        core.bound_dropped = self.dropped == "bounded"
        return core


#: The options that not all methods take, and their defaults: what ends a search early, and what shortens a query.
_LIMITS: dict[str, object] = {"budget_ms": None, "risk": 1.0, "max_clusters": None}
_SHORTENING: dict[str, object] = {"max_terms": None, "query_mass": 1.0, "dropped": "ignored"}


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

    def _made_core(self) -> _core.SearchParams:
        core = super()._made_core()
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
    max_terms
        Search with this many terms of a query only: those whose weight × largest stored weight is largest.
    query_mass
        Search with the fewest such terms that hold this share of the query's mass, which is the sum of weight × largest
        stored weight over all its terms. 1 keeps all of them.
    dropped
        What becomes of the other terms: "ignored" (scores lack them, faster), or "bounded" (what they may add counts in
        every bound and in the scores, so exact stays exact; `max_terms` only).
    documents
        Inside a visited cluster: "blocks" (ours) or "maxscore" (the paper's).
    seed
        Start from a lower bound of the final threshold; off by itself where a limit is set.
    sweep
        Let an exact search be answered exhaustively where that is faster; `stats.swept` tells.
    """

    mu: float = 1.0
    documents: DocumentMethod = "blocks"
    seed: bool = True
    sweep: bool = True

    _takes: ClassVar[frozenset[str]] = frozenset({*_LIMITS, *_SHORTENING})

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fraction("mu", self.mu)
        checked_choice("documents", self.documents, ("blocks", "maxscore"))

    def _made_core(self) -> _core.SearchParams:
        core = super()._made_core()
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
            raise ConfigError(expected="mu <= eta", got=f"mu={self.mu} and eta={self.eta}")

    def _made_core(self) -> _core.SearchParams:
        core = super()._made_core()
        core.eta = self.eta
        core.order = getattr(_core.ClusterOrder, self.order)
        core.lazy = bool(self.lazy)
        return core


@dataclasses.dataclass(frozen=True, kw_only=True)
class BestFirst(SearchParams):
    """Blocks of eight documents, the best bound first, until none can follow; clusters play no part.

    eta = 1 without `max_blocks` is exact, and what an exact `ASC` does inside where nobody asks for a trace. Of the
    approximate ways this is the fastest where collections fit into memory.

    Parameters
    ----------
    eta
        Look at a block only if its bound is above θ/η: bounds are seldom reached, so a little less than 1 loses little.
        A block that is looked at is scored exactly.
    max_blocks
        Look at no more blocks than this, the best ones.
    max_terms, query_mass, dropped
        Search with the heaviest terms of a query only, as `ASC` tells.
    seed
        Start from a lower bound of the final threshold.
    sweep
        Let a search without `max_blocks` be answered exhaustively, and so exactly, where that is faster.

    Examples
    --------
    >>> BestFirst(eta=0.95).max_blocks is None
    True
    """

    eta: float = 1.0
    max_blocks: int | None = None
    seed: bool = True
    sweep: bool = True

    method: ClassVar[str] = "best_first"
    _takes: ClassVar[frozenset[str]] = frozenset(_SHORTENING)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fraction("eta", self.eta)
        if self.max_blocks is not None:
            checked_int("max_blocks", self.max_blocks, 1)

    def _made_core(self) -> _core.SearchParams:
        core = super()._made_core()
        core.eta = self.eta
        core.max_blocks = min(self.max_blocks or 0, 2**32 - 1)
        core.seed = bool(self.seed)
        core.sweep = bool(self.sweep)
        return core
