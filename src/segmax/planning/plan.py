"""A plan: what comes out of `plan`, and how it reads."""

from __future__ import annotations

import dataclasses
from typing import Any

from segmax.base.display import counted, short_number
from segmax.planning.fitting import Estimate
from segmax.planning.request import Request
from segmax.planning.scenario import Scenario

_LABEL = 12  # columns of the names of lines
_WIDTH = 80


@dataclasses.dataclass(frozen=True, kw_only=True)
class Basis:
    """A measured figure that a plan rests on, with its spread."""

    name: str
    estimate: Estimate
    unit: str

    def __str__(self) -> str:
        """Return one line."""
        value, low, high = (short_number(each, 3) for each in self.estimate)
        return f"{self.name}: {value} {self.unit} ({low} to {high})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What a collection needs: machines, memory, disk, build hours and money.

    `str(plan)` is a page of at most 80 columns, `to_dict` plain values.

    Examples
    --------
    >>> from segmax.planning import plan
    >>> found = plan(1e8, 120, qps=200, p99_ms=50)
    >>> found.machines >= 2, found.p99_ms <= 50
    (True, True)
    >>> print(found)  # doctest: +ELLIPSIS
    100,000,000 documents of 120 terms, 200 queries/s, k = 10, exact
    ...
    """

    request: Request
    machines: int
    machines_low: int  #: if every figure is at the better end of its spread
    machines_high: int | None  #: if every figure is at the worse end; None: then nothing keeps the p99
    shards: int
    replicas: int
    routers: int  #: processes that take queries, on the same machines
    shard_bytes: float
    memory_gb: float  #: of all machines together
    disk_gb: float  #: of all machines together, and of the shared folder
    scratch_gb: float  #: of the shared folder while the index is built
    shards_asked: float  #: per query
    recall: float  #: of the exact results; 1 unless `max_shards` leaves some out
    mean_ms: float
    p99_ms: float
    p99_down_ms: float  #: with as many machines down as the request allows
    busy: float  #: share of the cores, with machines down
    build_hours: float
    encode_hours: float | None
    machines_cost: float  #: per month
    disk_cost: float  #: per month
    build_cost: float  #: once
    basis: tuple[Basis, ...]
    notes: tuple[str, ...]
    scenario: Scenario  #: to simulate the plan with `segmax.planning.simulate`

    @property
    def monthly_cost(self) -> float:
        """What machines and disks cost per month."""
        return self.machines_cost + self.disk_cost

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        values = dataclasses.asdict(self)
        values["basis"] = {
            each.name: {
                "value": each.estimate.value,
                "low": each.estimate.low,
                "high": each.estimate.high,
                "unit": each.unit,
            }
            for each in self.basis
        }
        return {**values, "notes": list(self.notes), "monthly_cost": self.monthly_cost}

    def __str__(self) -> str:
        """Return a page."""
        return "\n".join([*self._asked_for(), "", *self._needed(), "", *self._rests_on()])

    def _asked_for(self) -> list[str]:
        request = self.request
        down = counted(request.failures, "machine") + " down" if request.failures else "nothing down"
        batches = f" in batches of {request.searching.batch:,}" if request.searching.batch > 1 else ""
        return [
            f"{request.docs:,.0f} documents of {request.terms:g} terms, {request.qps:,g} queries/s{batches}, "
            f"k = {request.searching.k:,}, {request.kind_of_search}",
            f"p99 of at most {request.p99_ms:g} ms, with {down} and {request.headroom:.0%} of every machine free",
        ]

    def _needed(self) -> list[str]:
        request, machine = self.request, self.request.machine
        high = "none is enough" if self.machines_high is None else f"{self.machines_high:,}"
        share = self.shards_asked / self.shards
        rows = [
            (
                "machines",
                f"{self.machines:,} of {machine.cores} cores, {machine.memory_gb:g} GB; "
                f"by the spread of figures {self.machines_low:,} to {high}",
            ),
            (
                "index",
                f"{counted(self.shards, 'shard')} by {request.searching.sharding} of "
                f"{_docs(request.docs / self.shards)}, {self.shard_bytes / 1e9:,.1f} GB each; "
                f"{counted(self.replicas, 'replica')} of every shard",
            ),
            ("memory", f"{self.memory_gb:,.0f} GB"),
            ("disk", f"{self.disk_gb:,.0f} GB with the shared folder, and {self.scratch_gb:,.0f} GB while building"),
            (
                "searching",
                f"{self.shards_asked:,.1f} of {self.shards:,} shards asked ({share:.0%}), "
                f"recall {self.recall:.3g}, {counted(self.routers, 'router')}",
            ),
            (
                "latency",
                f"{self.mean_ms:,.1f} ms on average, p99 {self.p99_ms:,.1f} ms; "
                f"with machines down p99 {self.p99_down_ms:,.1f} ms, cores {self.busy:.0%} busy",
            ),
            ("building", f"{short_number(self.build_hours, 2)} hours on these machines{self._encoding()}"),
            (
                "money",
                f"{self.monthly_cost:,.0f} per month: {self.machines_cost:,.0f} for machines "
                f"({machine.price_per_hour:g} an hour), {self.disk_cost:,.0f} for disk "
                f"({machine.price_per_gb_month:g} per GB); {self.build_cost:,.0f} per build",
            ),
        ]
        return [line for name, text in rows for line in _wrapped(name, text)]

    def _encoding(self) -> str:
        return (
            "" if self.encode_hours is None else f", and {short_number(self.encode_hours, 2)} hours of encoding before"
        )

    def _rests_on(self) -> list[str]:
        lines = ["This rests on:"]
        for text in (*map(str, self.basis), *self.notes):
            lines += _wrapped("-", text, indent=2)
        return lines


def _docs(docs: float) -> str:
    return f"{docs / 1e6:,.1f} M documents" if docs >= 1e6 else f"{docs:,.0f} documents"


def _wrapped(name: str, text: str, indent: int = _LABEL) -> list[str]:
    import textwrap

    return textwrap.wrap(text, _WIDTH, initial_indent=f"{name:<{indent}}", subsequent_indent=" " * indent)
