"""Search methods: one small class each, passed to every call. `segmax.paper` has more of them."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from segmax import _core
from segmax.base.checks import checked_choice, checked_int, checked_number
from segmax.base.errors import ConfigError

Dropped = Literal["ignored", "bounded"]

#: What the core's limits hold: more than there are clusters, blocks or terms.
MOST = 2**32 - 1


def check_fraction(name: str, value: float) -> None:
    """Raise ConfigError unless a value is above 0 and at most 1."""
    if not 0.0 < checked_number(name, value) <= 1.0:
        raise ConfigError(option=name, expected="greater than 0 and at most 1", got=value)


def check_limit(name: str, value: int | None) -> None:
    """Raise ConfigError unless a limit is None or at least 1."""
    if value is not None:
        checked_int(name, value, 1)


def check_budget(budget_ms: float | None) -> None:
    """Raise ConfigError unless a budget is None or greater than 0."""
    if budget_ms is not None and not checked_number("budget_ms", budget_ms) > 0:
        raise ConfigError(option="budget_ms", expected="greater than 0 or None", got=budget_ms)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchParams:
    """The base class of all methods: use `ASC`, `Exhaustive` or a method of `segmax.paper`."""

    method: ClassVar[str]

    def __post_init__(self) -> None:
        if not hasattr(self, "method"):
            raise ConfigError(expected="a method, ASC or Exhaustive", got=type(self).__name__)

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Return the names of the options that this method takes.

        Examples
        --------
        >>> Exhaustive.options()
        ()
        """
        return tuple(field.name for field in dataclasses.fields(cls))

    @property
    def drops_terms(self) -> bool:
        """Whether scores may lack terms of a query that the search leaves out."""
        return False

    def to_core(self) -> _core.SearchParams:
        """Return the parameters in the core's form. They are converted once, so do not modify the result."""
        found: _core.SearchParams | None = self.__dict__.get("_core")
        if found is None:
            found = self._new_core()
            self.__dict__["_core"] = found  # past the frozen dataclass, as functools.cached_property does
        return found

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_core"}  # which cannot be pickled

    def _new_core(self) -> _core.SearchParams:
        core = _core.SearchParams()
        core.method = getattr(_core.Method, self.method)
        return core


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exhaustive(SearchParams):
    """Score every document that shares a term with the query. Always exact; what other methods are measured against.

    Examples
    --------
    >>> import segmax
    >>> index = segmax.from_texts({"d1": "a copper waveguide", "d2": "noise in diodes"})
    >>> index.search("copper", params=segmax.Exhaustive()).ids
    ['d1']
    """

    method: ClassVar[str] = "exhaustive"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TermParams(SearchParams):
    """Options of methods that can search with the heaviest terms of a query only; `ASC` documents them."""

    max_terms: int | None = None
    query_mass: float = 1.0
    dropped: Dropped = "ignored"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limit("max_terms", self.max_terms)
        check_fraction("query_mass", self.query_mass)
        checked_choice("dropped", self.dropped, ("ignored", "bounded"))
        if self.dropped == "bounded" and self.query_mass < 1.0:
            raise ConfigError(
                option="query_mass", expected="1 with dropped='bounded'", got=self.query_mass, hint="use {max_terms}"
            )

    @property
    def drops_terms(self) -> bool:
        """Whether scores may lack terms of a query that the search leaves out."""
        return self.dropped == "ignored" and (self.max_terms is not None or self.query_mass < 1.0)

    def _new_core(self) -> _core.SearchParams:
        core = super()._new_core()
        core.max_terms = min(self.max_terms or 0, MOST)
        core.query_mass = self.query_mass
        core.bound_dropped = self.dropped == "bounded"
        return core


@dataclasses.dataclass(frozen=True, kw_only=True)
class ASC(TermParams):
    """ASC: leave out a cluster when MaxSBound <= θ/μ and AvgSBound <= θ/η, a block of documents when its bound <= θ/η.

    θ is the score of the k-th best document so far. mu = eta = 1 is exact. eta = 1 with mu < 1 is what the paper calls
    probabilistically safe. Blocks of the whole collection are scored, the best bound first, until none can follow.
    mu is a permission, and a limit of clusters is where it is used: `max_clusters` visits the clusters with the best
    MaxSBound, of which the rule leaves out what it may. Without that limit mu alone changes nothing. Where a search
    would score nearly everything, it scores all documents instead, which is faster; `stats.swept` is True then.

    Parameters
    ----------
    mu
        How far the rule for clusters over-estimates the threshold: MaxSBound is compared with θ/μ. 1 is exact.
    max_clusters
        Visit at most this many clusters, those with the best MaxSBound; in a collection, of all its parts together.
        With a filter, clusters without a document that matches do not count. More are visited only where these have
        fewer than k results. `hits.complete` is False where a cluster that was left out might hold a result.
    eta
        Over-estimation for blocks and for the average segment bound. 1 is exact; bounds are seldom reached, so a little
        less than 1 loses little.
    budget_ms
        Stop between two batches of blocks after this time and return the best that was seen. Where making all bounds
        would take too long, they are made of the heaviest terms only; in collections of more than two million
        documents, of the blocks of as many of the best clusters as fit. `hits.complete` tells whether anything was
        left out. A budget that is not reached changes nothing.
    max_blocks
        Score at most this many blocks, those with the best bounds.
    bound_mass
        Make bounds of the fewest heaviest terms that hold this share of the query's mass, and only expect something of
        the others. Scores have all terms. No guarantee holds below 1.
    max_terms
        Search with at most this many terms of a query: those whose weight × largest stored weight is largest.
    query_mass
        Search with the fewest heaviest terms that hold this share of the query's mass, which is the sum of weight ×
        largest stored weight over all its terms. 1 keeps all of them.
    dropped
        What happens to the other terms: "ignored" leaves them out of the scores, which is faster; "bounded" lets them
        count in every bound and score, so an exact search stays exact (with `max_terms` only).

    Examples
    --------
    >>> ASC(mu=0.9).eta
    1.0
    """

    mu: float = 1.0
    max_clusters: int | None = None
    eta: float = 1.0
    budget_ms: float | None = None
    max_blocks: int | None = None
    bound_mass: float = 1.0

    method: ClassVar[str] = "asc"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("mu", self.mu)
        check_fraction("eta", self.eta)
        check_budget(self.budget_ms)
        check_limit("max_clusters", self.max_clusters)
        check_limit("max_blocks", self.max_blocks)
        check_fraction("bound_mass", self.bound_mass)

    def _new_core(self) -> _core.SearchParams:
        core = super()._new_core()
        core.mu = self.mu
        core.eta = self.eta
        core.budget_ms = self.budget_ms or 0.0
        core.max_clusters = min(self.max_clusters or 0, MOST)
        core.max_blocks = min(self.max_blocks or 0, MOST)
        core.bound_mass = self.bound_mass
        return core
