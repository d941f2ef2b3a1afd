"""Finding the cheapest cluster that serves a request."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from segmax.base.display import short_number
from segmax.base.errors import ConfigError
from segmax.planning.asking import Sharding
from segmax.planning.costs import Case, Costs
from segmax.planning.figures import Figures
from segmax.planning.layout import GB, HOURS_PER_MONTH, Layout, layouts
from segmax.planning.modeling import Searching
from segmax.planning.plan import Basis, Plan
from segmax.planning.request import MAX_SHARD_DOCS, Machine, Request

_ENDS: tuple[Case, Case] = ("low", "high")


def plan(
    docs: float,
    terms: float,
    *,
    qps: float,
    p99_ms: float,
    k: int = 10,
    sharding: Sharding | None = None,
    mu: float = 1.0,
    max_shards: int = 0,
    recall: float = 1.0,
    batch: int = 1,
    machine: Machine | None = None,
    headroom: float = 0.3,
    failures: int = 1,
    extra_bytes: float = 0.0,
    max_shard_docs: float = MAX_SHARD_DOCS,
    network_ms: float = 0.0,
    encode_rate: float = 0.0,
    figures: Figures | None = None,
) -> Plan:
    """Plan a cluster: the cheapest that keeps a latency under load, by a model of measured figures.

    Parameters
    ----------
    docs, terms
        How many documents there are, and terms of each, on average.
    qps
        Queries per second at the busiest time.
    p99_ms
        99 of 100 queries take at most so many milliseconds, also while machines are down.
    k
        Results per query.
    sharding
        How documents are divided: by "clusters", so that a query need not ask every shard, or by "rows", so that
        nobody has to choose. None takes what is cheaper.
    mu
        ASC's μ for whole shards: below 1, fewer are asked, and results are no longer exact.
    max_shards
        Ask only so many shards per query; results are approximate. 0 asks as many as exact results need.
    recall
        Ask as few shards per query as this share of the exact results needs. Not together with `max_shards`.
    batch
        Queries per call of `search_batch`; latencies are then those of a batch.
    machine
        Cores, memory, disk and prices of a machine.
    headroom
        The share of cores, memory and disk that stays free at the busiest time.
    failures
        How many machines may be down at once.
    extra_bytes
        Bytes of ids, texts and metadata that are stored per document.
    max_shard_docs
        The most documents of a shard. Few large shards are searched in less time than many small ones.
    network_ms
        The time to another machine and back. It is not in the figures, which were measured on one machine.
    encode_rate
        Documents per second that all encoders together encode; 0 if you have vectors.
    figures
        What the model rests on; None for the figures that come with segmax.

    Returns
    -------
    Plan
        Print it to read it.

    Raises
    ------
    ConfigError
        If an argument is invalid, or no cluster keeps the latency.

    Examples
    --------
    >>> found = plan(1e8, 120, qps=100, p99_ms=50, failures=0)
    >>> found.replicas >= 1
    True
    >>> less = plan(1e7, 120, qps=100, p99_ms=100, failures=0, max_shard_docs=1e6, recall=0.9)
    >>> less.shards_asked < less.shards, less.recall >= 0.9
    (True, True)
    """
    searching = Searching(
        k=k, sharding=sharding or "clusters", mu=mu, max_shards=max_shards, recall=recall, batch=batch
    )
    request = Request(
        docs=docs,
        terms=terms,
        qps=qps,
        p99_ms=p99_ms,
        searching=searching,
        machine=Machine() if machine is None else machine,
        headroom=headroom,
        failures=failures,
        extra_bytes=extra_bytes,
        max_shard_docs=max_shard_docs,
        network_ms=network_ms,
        encode_rate=encode_rate,
    )
    measured = Figures.measured() if figures is None else figures
    costs = Costs(measured)
    request, layout = _chosen(request, costs, either=sharding is None)
    low, high = (_machines(request, measured, case) for case in _ENDS)
    return _plan(request, costs, layout, low, high)


def _chosen(request: Request, costs: Costs, *, either: bool) -> tuple[Request, Layout]:
    """Return what is cheaper, shards by clusters or by rows; only clusters can be asked in part."""
    how = request.searching
    kinds = [request]
    if either and not how.is_limited and how.mu == 1:
        kinds.append(dataclasses.replace(request, searching=dataclasses.replace(how, sharding="rows")))
    found = [(each, layout) for each in kinds if (layout := _cheapest(each, costs)) is not None]
    if not found:
        raise _impossible(request.p99_ms, [layout for each in kinds for layout in layouts(each, costs)])
    return min(found, key=lambda each: each[1].monthly_cost(request.machine))


def _cheapest(request: Request, costs: Costs) -> Layout | None:
    """Return the layout that costs least, of those that keep the p99; None if there is none."""
    for layout in sorted(layouts(request, costs), key=lambda each: each.monthly_cost(request.machine)):
        if _least_ms(layout) <= request.p99_ms and layout.latency_down.p99 <= request.p99_ms:
            return layout
    return None


def _impossible(p99_ms: float, found: Sequence[Layout]) -> ConfigError:
    """Return the error about a p99 that none of some layouts keeps: it says which one the quickest keeps."""
    quickest, kept = None, math.inf
    # Of as many shards, those with most replicas wait least; what the others take need not be found out.
    most = {layout.shards: layout for layout in sorted(found, key=lambda each: each.replicas)}
    for layout in sorted(most.values(), key=_least_ms):
        if _least_ms(layout) >= kept:
            break
        own = max(_least_ms(layout), layout.latency_down.p99)
        if own < kept:
            quickest, kept = layout, own
    if quickest is None:
        return ConfigError(
            "no cluster of such machines serves this",
            hint="pass larger machines, {sharding=rows} for a small router, a larger {batch} or a smaller {headroom}",
        )
    return ConfigError(
        option="p99_ms",
        expected=f"at least {short_number(_rounded_up(kept), 2)}, which {quickest.machines:,} machines with "
        f"{quickest.shards:,} shards keep",
        got=short_number(p99_ms),
        hint="ask fewer shards with {max_shards} or {recall}, or allow larger ones with {max_shard_docs}",
    )


def _rounded_up(value: float) -> float:
    """Return a number of two digits that is no less.

    Examples
    --------
    >>> _rounded_up(12.01), _rounded_up(437.0)
    (13.0, 440.0)
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / step) * step


def _least_ms(layout: Layout) -> float:
    """Return what a query takes at least: what its router does, and its searches."""
    scenario = layout.down
    calls = scenario.num_asked * (scenario.send_ms + scenario.receive_ms)
    return scenario.router_ms + calls + scenario.actor_ms + scenario.search_ms * scenario.batch


def _machines(request: Request, figures: Figures, case: Case) -> int | None:
    """Return how many machines are needed if all figures are at an end of their spread; None: nothing is enough."""
    found = _cheapest(request, Costs(figures, case))
    return None if found is None else found.machines


def _plan(request: Request, costs: Costs, layout: Layout, low: int | None, high: int | None) -> Plan:
    machine = request.machine
    index_gb = layout.shards * layout.shard_bytes / GB
    hours = _build_hours(request, costs, layout)
    disk_gb = layout.disk_gb
    return Plan(
        request=request,
        machines=layout.machines,
        machines_low=min(low or layout.machines, layout.machines),
        machines_high=None if high is None else max(high, layout.machines),
        shards=layout.shards,
        replicas=layout.replicas,
        routers=layout.routers,
        shard_bytes=layout.shard_bytes,
        memory_gb=layout.memory_gb,
        disk_gb=disk_gb,
        scratch_gb=index_gb * costs.scratch_share,
        shards_asked=layout.scenario.num_asked,
        recall=layout.asked.recall,
        mean_ms=layout.latency.mean,
        p99_ms=layout.latency.p99,
        p99_down_ms=layout.latency_down.p99,
        busy=layout.load_down.cores,
        build_hours=hours,
        encode_hours=request.docs / request.encode_rate / 3600 if request.encode_rate else None,
        machines_cost=layout.machines * machine.price_per_hour * HOURS_PER_MONTH,
        disk_cost=disk_gb * machine.price_per_gb_month,
        build_cost=hours * layout.machines * machine.price_per_hour,
        basis=_basis(request, costs, layout),
        notes=_notes(request, costs, layout),
        scenario=layout.scenario,
    )


def _build_hours(request: Request, costs: Costs, layout: Layout) -> float:
    """Return the hours of a build on all machines: a task per shard, with as many threads as there are cores for it."""
    seconds = layout.shards * costs.build_seconds(request.docs / layout.shards, request.terms) * costs.build_overhead
    cores = layout.machines * request.machine.cores
    threads = max(1, min(request.machine.cores, cores // layout.shards))
    return seconds / (min(cores, layout.shards * threads) * costs.build_efficiency) / 3600


def _basis(request: Request, costs: Costs, layout: Layout) -> tuple[Basis, ...]:
    docs = request.docs / layout.shards
    per_doc = costs.bytes_per_doc(request.terms)
    return (
        Basis(name="bytes per document", estimate=per_doc, unit="bytes"),
        Basis(
            name="search of one shard, one thread",
            estimate=costs.search_estimate(docs, request.terms, request.searching.k),
            unit="ms",
        ),
        Basis(name="call of a Ray actor, both sides", estimate=costs.call_estimate(request.searching.k), unit="ms"),
        Basis(
            name="building a document, one core",
            estimate=costs.build_estimate(docs, request.terms).times(1e3 / docs),
            unit="ms",
        ),
    )


def _notes(request: Request, costs: Costs, layout: Layout) -> tuple[str, ...]:
    about = costs.figures.about
    docs = request.docs / layout.shards
    notes = [
        f"measured on {about['cpu']}, {about['cores']} cores, with {about['collection']}; "
        f"your machines and documents differ: python -m benchmarks.planning measures again"
    ]
    if docs > costs.largest_measured:
        notes.append(
            f"shards of {docs / 1e6:,.1f} M documents are extrapolated: the largest real one that was measured has "
            f"{costs.largest_measured:,.0f}"
        )
    if request.searching.k > costs.largest_k:
        notes.append(
            f"searches for more than {costs.largest_k:,} results were not measured: k = {request.searching.k:,} takes "
            f"longer than this plan says"
        )
    if request.searching.sharding == "clusters" and layout.shards != layout.asked.shards:
        notes.append(f"shards asked are those of {layout.asked.shards} shards, the nearest that was measured")
    if not request.network_ms:
        notes.append("the network between machines is left out; add its round trip with --network-ms (network_ms)")
    return tuple(notes)
