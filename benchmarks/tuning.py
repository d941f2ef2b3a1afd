"""What each approximate setting keeps and costs, and whether `target_recall` keeps its promise, on the wiki vectors.

`python -m benchmarks.tuning` builds an index, which calibrates itself without a query. It compares the settings that
`target_recall` then chooses with the fastest of many that reach the same recall, on queries of MS MARCO and of Natural
Questions, and writes the tables and the plot of docs/approximation.md. `--fit` prints constants for the cost model.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import nnls

import segmax
from benchmarks import wiki
from benchmarks.engine import recall
from segmax import paper
from segmax.drawing.figures import new_figure, save_figure
from segmax.search.calibration import COST, CostModel, settings_for
from segmax.search.hooks import with_hooks
from segmax.search.methods import ASC, SearchParams

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "approximation.md"
TARGETS = (0.95, 0.99)
MEASURED_KS = (10, 1000)


class Point(NamedTuple):
    """One setting on one set of queries."""

    recall: float
    ms: float
    stats: NDArray[Any]  #: what the cost model counts, a row per query


def reference_settings(k: int, num_clusters: int) -> list[SearchParams]:
    """Return the settings to search for the fastest: a finer grid than that of a build."""
    etas = (1.0, 0.98, 0.96, 0.94, 0.92, 0.9, 0.87)
    masses = (1.0, 0.995, 0.99, 0.98, 0.97, 0.95, 0.93, 0.9)
    grid: list[SearchParams] = [ASC(eta=eta, query_mass=mass) for eta, mass in itertools.product(etas, masses)]
    grid += [ASC(eta=eta, max_terms=terms) for eta in (1.0, 0.95) for terms in (12, 16, 20, 24)]
    return list(dict.fromkeys([*settings_for(k, num_clusters), *grid]))


def curves(exact_ms: float) -> dict[str, list[SearchParams]]:
    """Return the values of every setting, the careful ones first."""
    terms = (32, 24, 20, 16, 12, 8)
    return {
        "eta": [ASC(eta=eta) for eta in (1.0, 0.98, 0.96, 0.94, 0.92, 0.9, 0.85, 0.8)],
        "max_blocks": [ASC(max_blocks=count) for count in (4000, 2000, 1000, 400, 200, 100, 50)],
        "query_mass": [ASC(query_mass=mass) for mass in (1.0, 0.99, 0.98, 0.96, 0.93, 0.9, 0.8)],
        "max_terms": [ASC(max_terms=count) for count in terms],
        "max_terms, bounded": [ASC(max_terms=count, dropped="bounded") for count in terms],
        "mu (paper.ASC)": [paper.ASC(mu=mu) for mu in (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3)],
        "eta (ASC, mu = eta)": [ASC(mu=eta, eta=eta) for eta in (0.98, 0.96, 0.94, 0.9, 0.8)],
        "bound_mass": [ASC(bound_mass=mass) for mass in (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6)],
        "budget_ms (ASC)": [
            ASC(budget_ms=round(share * exact_ms, 3)) for share in (4.0, 3.0, 2.0, 1.5, 1.0, 0.75, 0.5)
        ],
    }


def value_of(knob: str, params: SearchParams) -> float:
    """Return the value of one parameter."""
    return float(getattr(params, knob.split(",")[0].split()[0]))


def measure(
    index: segmax.Index, queries: sp.csr_matrix, k: int, settings: Iterable[SearchParams], passes: int
) -> dict[SearchParams, Point]:
    """Search with all settings in turn, several times; the fastest run of each query counts."""
    exact = index.search_batch(queries, k=k, params=segmax.Exhaustive(), threads=1)
    settings = list(dict.fromkeys(settings))
    fastest: dict[SearchParams, NDArray[Any]] = {}
    found: dict[SearchParams, Any] = {}
    for _, params in itertools.product(range(passes), settings):
        batch = index.search_batch(queries, k=k, params=params, threads=1)
        elapsed = batch.stats.elapsed_ns.astype(np.float64)
        fastest[params] = np.minimum(fastest[params], elapsed) if params in fastest else elapsed
        found[params] = batch
    return {
        params: Point(
            recall(batch.rows, exact.rows),
            float(fastest[params].mean()) / 1e6,
            np.column_stack([CostModel.parts(batch.stats, k, index.num_docs), fastest[params]]),
        )
        for params, batch in found.items()
    }


def text_of(params: SearchParams) -> str:
    """Return a setting as short Python."""
    names = ("mu", "eta", "query_mass", "max_terms", "bound_mass", "max_clusters")
    shown = [f"{name}={getattr(params, name)}" for name in names if getattr(params, name, None) not in (1.0, None)]
    return f"`{type(params).__name__}({', '.join(shown)})`"


def targets_table(index: segmax.Index, points: Mapping[tuple[str, int], Mapping[SearchParams, Point]]) -> list[str]:
    """Compare what a target chooses with the fastest setting that reaches it."""
    lines = [
        "| queries | k | target | chosen | expected | recall | ms | fastest that meets it | recall | ms | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for ((name, k), measured), target in itertools.product(points.items(), TARGETS):
        expected = index.expectation(k, target)
        mine = measured[expected.params]
        meeting = {params: point for params, point in measured.items() if point.recall >= target}
        best = min(meeting, key=lambda params: meeting[params].ms)
        lines.append(
            f"| {name} | {k} | {target} | {text_of(expected.params)} | {expected.expected_recall:.3f} | "
            f"{mine.recall:.4f} | {mine.ms:.3f} | {text_of(best)} | {meeting[best].recall:.4f} | "
            f"{meeting[best].ms:.3f} | {mine.ms / meeting[best].ms:.2f} |"
        )
    return lines


def curves_table(knob: str, lines_of: Mapping[tuple[str, int], list[tuple[float, Point]]]) -> list[str]:
    """Return the table of one setting: recall and latency by value, for every set of queries and k."""
    heads = [f"{name}, k = {k}" for name, k in lines_of]
    lines = ["", f"**{knob}**", "", f"| value | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
    values = sorted({value for rows in lines_of.values() for value, _ in rows}, reverse=True)
    for value in values:
        cells = []
        for rows in lines_of.values():
            point = next((p for v, p in rows if v == value), None)
            cells.append("" if point is None else f"{point.recall:.4f}, {point.ms:.3f} ms")
        lines.append(f"| {value:g} | {' | '.join(cells)} |")
    return lines


def draw(path: Path, drawn: Mapping[str, Mapping[tuple[str, int], list[tuple[float, Point]]]]) -> None:
    """Draw recall against latency: a line per setting, a panel per set of queries and k."""
    panels = list(next(iter(drawn.values())))
    figure = new_figure(4.2 * len(panels), 4.2)
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(all_axes, panels, strict=True):
        for knob, lines_of in drawn.items():
            points = [point for _, point in lines_of[panel]]
            axes.plot([p.ms for p in points], [p.recall for p in points], marker="o", markersize=3, label=knob)
        axes.set(title=f"{panel[0]} queries, k = {panel[1]}", xlabel="mean ms", ylabel="recall", ylim=(0.7, 1.005))
        axes.grid(alpha=0.3)
    all_axes[0].legend(fontsize=8)
    path.parent.mkdir(exist_ok=True)
    save_figure(figure, path)


def fitted(points: Iterable[Point]) -> CostModel:
    """Return the cost model that explains the latencies best; relative errors count."""
    table = np.concatenate([point.stats for point in points])
    counts, elapsed = table[:, :-1], table[:, -1]
    values, _ = nnls(counts / elapsed[:, None], np.ones(len(table)))
    return CostModel(*(round(float(value), 3) for value in values))


def into_document(tables: list[str]) -> None:
    """Put the tables between the markers of docs/approximation.md."""
    text = DOCUMENT.read_text()
    start, end = text.index("<!-- begin -->"), text.index("<!-- end -->")
    DOCUMENT.write_text(text[:start] + "<!-- begin -->\n" + "\n".join(tables) + "\n" + text[end:])


def query_sets(folder: Path, count: int | None) -> dict[str, sp.csr_matrix]:
    """Return the queries by name, thinned evenly to so many."""
    sets = {}
    for name, file in (("wiki", folder / "queries.npz"), ("NQ", folder.parent / "nq" / "queries.npz")):
        parts = np.load(file)
        shape = (len(parts["indptr"]) - 1, 30522)
        queries = sp.csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=shape)
        step = 1 if count is None else max(1, queries.shape[0] // count)
        sets[name] = queries[::step]
    return sets


def main() -> None:
    """Build, measure, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning", description=__doc__.splitlines()[0])
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--queries", type=int, default=500, help="about how many of each set to use, evenly chosen")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--fit", action="store_true", help="print the constants of the cost model, and stop")
    parser.add_argument("--write", action="store_true", help="write docs/approximation.md and its picture")
    args = parser.parse_args()
    docs, _, _ = wiki.load(args.wiki, 0)
    stages: dict[str, float] = {}
    start = time.perf_counter()

    def note(now: segmax.typing.BuildProgress) -> None:
        stages.setdefault(now.stage, time.perf_counter())

    index = segmax.build(docs, progress=note)
    end = time.perf_counter()
    tables = [
        f"{index.num_docs:,} documents, {index.num_clusters} clusters x {index.num_segments} segments; "
        f"calibrating took {end - stages['calibrate']:.1f} s of a build of {end - start:.1f} s.",
        "",
    ]
    sets = query_sets(args.wiki, args.queries)
    if args.fit:
        more = [ASC(max_terms=16), ASC(max_terms=8), with_hooks(ASC(), sweep=False)]
        measured = [
            measure(index, queries, k, [*settings_for(k, index.num_clusters), *more], args.passes)
            for queries, k in itertools.product(sets.values(), MEASURED_KS)
        ]
        print(f"now    {COST}\nfitted {fitted(p for points in measured for p in points.values())}")
        return
    points: dict[tuple[str, int], dict[SearchParams, Point]] = {}
    drawn: dict[str, dict[tuple[str, int], list[tuple[float, Point]]]] = {}
    for (name, queries), k in itertools.product(sets.items(), MEASURED_KS):
        exact = measure(index, queries, k, [ASC()], args.passes)[ASC()]
        knobs = curves(exact.ms)
        reference = reference_settings(k, index.num_clusters)
        settings = [*reference, *(params for values in knobs.values() for params in values)]
        everything = measure(index, queries, k, settings, args.passes)
        points[name, k] = {params: everything[params] for params in reference}
        for knob, values in knobs.items():
            line = [(value_of(knob, params), everything[params]) for params in values]
            drawn.setdefault(knob, {})[name, k] = line
    tables += targets_table(index, points)
    for knob, lines_of in drawn.items():
        tables += curves_table(knob, lines_of)
    print("\n".join(tables))
    if args.write:
        draw(DOCUMENT.parent / "images" / "approximation.png", drawn)
        into_document(tables)


if __name__ == "__main__":
    main()
