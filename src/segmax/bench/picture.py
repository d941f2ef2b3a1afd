"""Plots of latency against recall: every engine in a color of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from segmax.bench.engines.catalog import family
from segmax.bench.results import Record, Run
from segmax.drawing.figures import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICKS = (0.8, 0.9, 0.95, 0.97, 0.99, 0.995, 0.999, 1.0)
_STYLES = {
    "scatter-add": ("black", "X"),
    "segmax": ("tab:red", "o"),
    "seismic": ("tab:blue", "s"),
    "seismic-guide": ("tab:cyan", "D"),
    "bmp-32": ("tab:green", "^"),
    "bmp-8": ("tab:olive", "v"),
    "pisa": ("tab:purple", "P"),
    "sindi": ("tab:orange", "h"),
    "splade-index": ("tab:brown", "p"),
    "qdrant-edge": ("tab:pink", "d"),
}
_WIDTH, _HEIGHT = 9, 6


def _drawn_as(engine: str) -> str:
    """Return the engine of `_STYLES` whose curve this is: all indexes of SINDI share one."""
    return engine if engine in _STYLES else family(engine)


def front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points (recall, latency) that no other point beats in both, by recall.

    Examples
    --------
    >>> front([(0.9, 1.0), (0.95, 3.0), (0.94, 4.0), (1.0, 5.0)])
    [(0.9, 1.0), (0.95, 3.0), (1.0, 5.0)]
    """
    kept: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (-point[0], point[1])):
        if not kept or y < kept[-1][1]:
            kept.append((x, y))
    return kept[::-1]


def spread(recall: float) -> float:
    """Return where a recall is drawn: .9, .99 and .999 equally far apart, 1 at the end."""
    return float(-np.log10(1 - recall + 3e-4))


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Return ascending places, moved up so that neighbors keep a distance.

    Examples
    --------
    >>> apart([0.0, 0.5, 3.0], 1.0)
    [0.0, 1.0, 3.0]
    """
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap) if moved else place)
    return moved


def draw_race(ks: Sequence[int], runs: Sequence[Run], screened: Sequence[Record], path: Path) -> None:
    """Draw mean latency against recall, a panel per k, and write the picture."""
    figure = new_figure(_WIDTH, _HEIGHT * len(ks))
    panels = figure.subplots(len(ks), squeeze=False)
    for k, axes in zip(ks, panels.ravel(), strict=True):
        _draw(axes, k, [run for run in runs if run.k == k], [row for row in screened if row["k"] == k])
    save_figure(figure, path)


def _draw(axes: Axes, k: int, runs: Sequence[Run], screened: Sequence[Record]) -> None:
    """Draw one panel: exact settings as named stars, those of the sample alone small and pale."""
    axes.set_yscale("log")
    left = [row for row in screened if not row["kept"] and row["recall"] >= _TICKS[0]]
    runs = [run for run in runs if run.exact or run.reported().recall >= _TICKS[0]]
    for engine, (color, marker) in _STYLES.items():
        pale = [(spread(row["recall"]), row["mean_ms"]) for row in left if _drawn_as(row["engine"]) == engine]
        axes.plot(*np.reshape(pale, (-1, 2)).T, marker, color=color, markersize=4, alpha=0.25)
        here = [run for run in runs if _drawn_as(run.engine) == engine]
        if not here:
            continue
        places = [(spread(run.reported().recall), run.reported().mean) for run in here]
        every = [place for place, run in zip(places, here, strict=True) if not run.exact]
        axes.plot(*np.reshape(every, (-1, 2)).T, marker, color=color, markersize=6)
        curve = front(every)
        axes.plot(*np.reshape(curve, (-1, 2)).T, marker=marker, color=color, markersize=6, linewidth=1, label=engine)
        stars = [place for place, run in zip(places, here, strict=True) if run.exact]
        axes.plot(*np.reshape(stars, (-1, 2)).T, "*", color=color, markersize=13, markeredgecolor="black")
    exact = sorted((run for run in runs if run.exact), key=lambda run: run.reported().mean)
    low, high = np.log10(axes.get_ylim())
    names = apart([float(np.log10(run.reported().mean)) for run in exact], 0.035 * (high - low))
    for run, height in zip(exact, names, strict=True):
        place = (spread(run.reported().recall), run.reported().mean)
        axes.annotate(run.name, place, (place[0] - 0.06, 10**height), ha="right", va="center", fontsize=7)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else "")
    axes.set_xticks([spread(tick) for tick in _TICKS], [f"{tick:g}" for tick in _TICKS])
    axes.set(xlabel="recall", ylabel="mean ms per query", title=f"k = {k}, one core (stars: exact; pale: sample only)")
    axes.grid(alpha=0.3, which="both")
    axes.legend(loc="upper left")
