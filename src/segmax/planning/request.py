"""What a plan is asked for: documents, queries, machines and their prices."""

from __future__ import annotations

import dataclasses
import math

from segmax.base.checks import checked_choice, checked_int, checked_number
from segmax.base.errors import ConfigError
from segmax.planning.modeling import Searching

#: Documents per shard unless the caller wants more or fewer.
MAX_SHARD_DOCS = 50_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """A kind of machine and its price. The defaults are an example, not an offer.

    Examples
    --------
    >>> Machine(cores=32, memory_gb=256).price_per_hour
    1.0
    """

    cores: int = 16
    memory_gb: float = 128.0
    disk_gb: float = 1000.0
    price_per_hour: float = 1.0  #: of one machine, with its memory
    price_per_gb_month: float = 0.1  #: of its disk, and of the folder that all machines share

    def __post_init__(self) -> None:
        checked_int("cores", self.cores, 1)
        for name in ("memory_gb", "disk_gb"):
            _positive(name, getattr(self, name))
        for name in ("price_per_hour", "price_per_gb_month"):
            _at_least_0(name, getattr(self, name))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of `plan`, checked."""

    docs: float
    terms: float
    qps: float
    p99_ms: float
    searching: Searching
    machine: Machine
    headroom: float
    failures: int
    extra_bytes: float
    max_shard_docs: float
    network_ms: float
    encode_rate: float

    def __post_init__(self) -> None:
        for name in ("docs", "terms", "qps", "p99_ms", "max_shard_docs"):
            _positive(name, getattr(self, name))
        for name in ("extra_bytes", "network_ms", "encode_rate"):
            _at_least_0(name, getattr(self, name))
        checked_int("failures", self.failures, 0)
        if not 0 <= checked_number("headroom", self.headroom) < 1:
            raise ConfigError(option="headroom", expected="at least 0 and less than 1", got=self.headroom)
        _check_searching(self.searching)

    @property
    def requests_per_second(self) -> float:
        """Calls of `search`, or of `search_batch`."""
        return self.qps / self.searching.batch

    @property
    def kind_of_search(self) -> str:
        """How shards are chosen, in words."""
        how = self.searching
        if how.max_shards:
            return f"the {how.max_shards} best shards"
        if how.recall < 1:
            return f"recall {how.recall:g}"
        return "exact" if how.mu == 1 else f"mu = {how.mu:g}"


def _check_searching(how: Searching) -> None:
    checked_choice("sharding", how.sharding, ("clusters", "rows"))
    checked_int("k", how.k, 1)
    checked_int("batch", how.batch, 1)
    checked_int("max_shards", how.max_shards, 0)
    for name in ("mu", "recall"):
        if not 0 < checked_number(name, getattr(how, name)) <= 1:
            raise ConfigError(option=name, expected="more than 0 and at most 1", got=getattr(how, name))
    if how.recall < 1 and how.max_shards:
        raise ConfigError(option="recall", expected="left out if max_shards is given", got=how.recall)
    if how.mu < 1 and how.sharding == "rows":
        raise ConfigError(option="mu", expected="1 for shards by rows, which are all asked", got=how.mu)


def _positive(name: str, value: object) -> None:
    number = checked_number(name, value)
    if not (math.isfinite(number) and number > 0):
        raise ConfigError(option=name, expected="more than 0", got=value)


def _at_least_0(name: str, value: object) -> None:
    number = checked_number(name, value)
    if not (math.isfinite(number) and number >= 0):
        raise ConfigError(option=name, expected="at least 0", got=value)
