"""Simulations of large collections, and what docs/scale.md shows: plots, and tables between its markers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.race_tables import between_markers
from segmax.base.errors import ConfigError
from segmax.drawing.draw import draw
from segmax.drawing.figures import save_figure
from segmax.drawing.plot import Plot, Series
from segmax.planning import Figures, Machine, Plan, Simulated, plan, simulate
from segmax.planning.costs import Costs

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
IMAGES = PAGE.parent / "images"
TERMS = 120
QPS = 500
DOCS = (1e8, 3e8, 1e9, 1e10)
ZIPF = (0.0, 0.7, 1.0, 1.3)
#: What is simulated: its name, and arguments of `plan`.
KINDS: dict[str, dict[str, Any]] = {
    "exact, by rows": {"sharding": "rows"},
    "exact, by clusters": {"sharding": "clusters"},
    "recall .9, by clusters": {"recall": 0.9},
}
CALLS = 30_000  # that a simulation makes, about
LIMIT_MS = 1e5  # no plan fails for its latency


class Case(NamedTuple):
    """A plan, and what happens when queries come."""

    kind: str
    docs: float
    plan: Plan
    even: Simulated  #: topics are equally popular
    zipf: Simulated  #: they follow Zipf's law with exponent 1
    failing: Simulated  #: and a machine fails every ten minutes


def write(figures: Figures, validated: Sequence[dict[str, Any]]) -> None:
    """Simulate, draw, and write the tables."""
    found = (_case(figures, kind, docs) for kind in KINDS for docs in DOCS)
    cases = [case for case in found if case is not None]
    _draw_growth(figures)
    _draw_asked(figures)
    _draw_cases(cases)
    balance = _balance(figures)
    _draw_balance(balance)
    text = PAGE.read_text()
    for name, table in {
        "growth": growth_table(figures),
        "calls": calls_table(figures),
        "asked": asked_table(figures),
        "validated": validated_table(validated),
        "simulated": simulated_table(cases),
    }.items():
        text = between_markers(text, table, name)
    PAGE.write_text(text)


# --- simulations -----------------------------------------------------------------------------------------------------


def _case(figures: Figures, kind: str, docs: float) -> Case | None:
    try:
        found = plan(docs, TERMS, qps=QPS, p99_ms=LIMIT_MS, figures=figures, machine=Machine(), **KINDS[kind])
    except ConfigError as error:  # a router does not fit a machine
        print(kind, f"{docs:g}", error, flush=True)
        return None
    queries = max(300, min(4000, int(CALLS / found.scenario.calls)))
    even = simulate(found.scenario, queries=queries)
    zipf = simulate(dataclasses.replace(found.scenario, zipf=1.0), queries=queries)
    # As many failures as a long run would have, in a short one.
    seconds = queries / QPS
    failing = dataclasses.replace(found.scenario, zipf=1.0, mtbf_s=found.machines * seconds / 3, restart_s=seconds / 4)
    case = Case(kind, docs, found, even, zipf, simulate(failing, queries=queries))
    print(kind, f"{docs:g}", found.shards, found.machines, zipf, flush=True)
    return case


def _balance(figures: Figures) -> dict[str, list[Simulated]]:
    """Simulate 300 million documents under queries of more and less popular topics."""
    found = {}
    for name, arguments in KINDS.items():
        scenario = plan(3e8, TERMS, qps=QPS, p99_ms=LIMIT_MS, figures=figures, **arguments).scenario
        queries = max(300, min(4000, int(CALLS / scenario.calls)))
        found[name] = [simulate(dataclasses.replace(scenario, zipf=zipf), queries=queries) for zipf in ZIPF]
    return found


# --- plots -----------------------------------------------------------------------------------------------------------


def _draw_growth(figures: Figures) -> None:
    """Draw measured search times of one shard, the law through them, and its spread."""
    costs, series = Costs(figures), []
    sizes = [2.0**power * 41_000 for power in range(11)]
    for k in (10, 1000):
        measured = [each for each in figures.growth if each["set"] == "large"]
        times = tuple(each["search"][str(k)]["mean_ms"] for each in measured)
        series.append(Series(label=f"k = {k:,}, measured", x=tuple(float(each["docs"]) for each in measured), y=times))
        for end in ("value", "low", "high"):
            law = [getattr(costs.search_estimate(size, costs.mean_terms, k), end) for size in sizes]
            label = {"value": "model", "low": "lower end of its spread", "high": "upper end"}[end]
            series.append(Series(label=f"k = {k:,}, {label}", x=tuple(sizes), y=tuple(law)))
    small = Plot(
        title="One search of one shard",
        x_label="documents of the shard",
        y_label="ms, one thread",
        series=tuple(series),
        log_x=True,
    )
    _save([small], "scale-growth")


def _draw_asked(figures: Figures) -> None:
    """Draw the measured share of shards asked, and the recall of the best shards."""
    most = max(row["docs"] for row in figures.asked)
    shares = [
        Series(
            label=f"k = {k:,}, mu = {mu:g}",
            x=tuple(float(row["shards"]) for row in rows),
            y=tuple(row["share"] for row in rows),
        )
        for k in (10, 100)
        for mu in (1.0, 0.9)
        if (rows := [row for row in figures.asked if (row["docs"], row["k"], row["mu"]) == (most, k, mu)])
    ]
    numbers = sorted({row["shards"] for row in figures.max_shards if row["docs"] == most and row["shards"] >= 4})
    recalls = []
    for shards in numbers:
        rows = [row for row in figures.max_shards if (row["docs"], row["shards"]) == (most, shards)]
        x = (*(row["asked"] / shards for row in rows), 1.0)
        recalls.append(Series(label=f"{shards} shards", x=x, y=(*(row["recall"] for row in rows), 1.0)))
    plots = [
        Plot(title="Shards that exact search asks", x_label="shards", y_label="share asked", series=tuple(shares)),
        Plot(
            title="Recall@10 of the best shards",
            x_label="share of the shards",
            y_label="recall@10",
            series=tuple(recalls),
            log_x=False,
        ),
    ]
    for plot, name in zip(plots, ("scale-asked", "scale-recall"), strict=True):
        _save([plot], name)


def _draw_cases(cases: Sequence[Case]) -> None:
    """Draw latencies and machines against documents."""
    latency = []
    for kind in KINDS:
        own = [case for case in cases if case.kind == kind]
        docs = tuple(case.docs for case in own)
        latency.append(Series(label=f"{kind}, mean", x=docs, y=tuple(case.zipf.mean_ms for case in own)))
        p99 = tuple(case.zipf.quantile_ms(0.99) for case in own)
        latency.append(Series(label=f"{kind}, p99", x=docs, y=p99))
    plot = Plot(
        title=f"Simulated latency, {QPS} queries/s",
        x_label="documents",
        y_label="ms",
        series=tuple(latency),
        log_x=True,
    )
    _save([plot], "scale-latency")


def _draw_balance(balance: dict[str, list[Simulated]]) -> None:
    series = [Series(label=name, x=ZIPF, y=tuple(each.hottest for each in found)) for name, found in balance.items()]
    plot = Plot(
        title="The hottest shard of 300 million documents",
        x_label="exponent of Zipf's law for topics",
        y_label="calls, relative to the mean shard",
        series=tuple(series),
    )
    _save([plot], "scale-balance")


def _save(plots: Sequence[Plot], name: str) -> None:
    save_figure(draw(plots), IMAGES / f"{name}.png")


# --- tables ----------------------------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def growth_table(figures: Figures) -> str:
    """Return what one shard takes, by its documents."""
    return _table(
        ["documents", "terms", "bytes/posting", "build µs/document", "k = 10: ms (p99)", "k = 100", "k = 1000",
         "θ known, k = 10"],
        (
            [
                f"{each['docs']:,} {'' if each['set'] == 'large' else each['set']}".strip(),
                f"{each['postings'] / each['docs']:.0f}",
                f"{each['bytes'] / each['postings']:.2f}",
                f"{min(each['build_seconds']) / each['docs'] * 1e6:.1f}",
                *(f"{found['mean_ms']:.3f} ({found['p99_ms']:.2f})" for found in each["search"].values()),
                f"{each['search']['10'].get('floored_ms', float('nan')):.3f}".replace("nan", ""),
            ]
            for each in figures.growth
        ),
    )  # fmt: skip


def calls_table(figures: Figures) -> str:
    """Return what calls take."""
    rows = [
        [
            f"{int(k):,} results, {fan} at once",
            *(f"{found[name]:.2f}" for name in ("mean_ms", "p50_ms", "p99_ms", "caller_ms", "actor_ms")),
        ]
        for k, by_fan in figures.calls["answer"].items()
        for fan, found in by_fan.items()
    ]
    empty = figures.calls["empty"]
    first = [
        "an empty call of a plain actor",
        *(f"{empty[name]:.2f}" for name in ("mean_ms", "p50_ms", "p99_ms", "caller_ms")),
    ]
    head = ["calls", "ms", "median", "p99", "caller's processor, per call", "actor's processor, per call"]
    return _table(head, [[*first, ""], *rows])


def asked_table(figures: Figures) -> str:
    """Return which share of the shards is asked, and what the best few find."""
    rows = []
    for key in dict.fromkeys((row["set"], row["docs"], row["shards"]) for row in figures.asked):
        shares = {(row["k"], row["mu"]): row["share"] for row in figures.asked if _key(row) == key}
        few = {row["asked"]: row for row in figures.max_shards if _key(row) == key}
        router = next(row for row in figures.rounds["router"] if _key(row) == key)
        found = [few.get(key[2] // part) for part in (8, 4, 2)]
        rows.append([
            f"{key[0]}, {key[1]:,}", f"{key[2]}",
            *(f"{shares[each]:.0%}" for each in ((10, 1.0), (10, 0.9), (100, 1.0), (1000, 1.0))),
            *("" if each is None else f"{each['recall']:.3f} ({each['hottest']:.1f})" for each in found),
            f"{router['ms']:.2f}, {router['batch_ms']:.3f}", f"{router['bytes'] / 1e6:.0f}",
        ])  # fmt: skip
    head = ["set, documents", "shards", "asked, k = 10", "mu = .9", "k = 100", "k = 1000",
            "recall@10 of 1/8 of them (hottest)", "1/4", "1/2", "router: ms, in a batch", "MB"]  # fmt: skip
    return _table(head, rows)


def _key(row: Any) -> tuple[str, int, int]:
    return row["set"], row["docs"], row["shards"]


def validated_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return predictions beside measurements."""
    return _table(
        [
            "shards",
            "search",
            "one query: ms measured",
            "predicted",
            "off by",
            "batch of 1,000: queries/s",
            "predicted",
            "off by",
        ],
        (
            [
                f"{row['shards']}",
                row["kind"],
                f"{row['ms']:.2f}",
                f"{row['predicted_ms']:.2f}",
                f"{row['single_off']:+.0%}",
                f"{row['per_second']:,.0f}",
                f"{row['predicted_per_second']:,.0f}",
                f"{row['batch_off']:+.0%}",
            ]
            for row in rows
        ),
    )


def simulated_table(cases: Sequence[Case]) -> str:
    """Return what was simulated."""
    head = ["search", "documents", "shards", "replicas", "machines", "shards asked", "router ms", "mean ms", "p99",
            "p99, Zipf", "p99, failures", "hottest shard", "busiest machine"]  # fmt: skip
    return _table(
        head,
        (
            [
                case.kind,
                f"{case.docs:,.0f}",
                f"{case.plan.shards:,}",
                f"{case.plan.replicas}",
                f"{case.plan.machines:,}",
                f"{case.even.shards_asked:,.1f}",
                f"{case.plan.scenario.router_ms:,.1f}",
                f"{case.even.mean_ms:,.1f}",
                f"{case.even.quantile_ms(0.99):,.1f}",
                f"{case.zipf.quantile_ms(0.99):,.1f}",
                f"{case.failing.quantile_ms(0.99):,.1f}",
                f"{case.zipf.hottest:.2f}",
                f"{case.zipf.utilization.max():.0%}",
            ]
            for case in cases
        ),
    )
