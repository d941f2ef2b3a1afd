"""Plots: nothing in them hides anything else, and a picture is written whole or not at all."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from conftest import refused
from segmax.base.errors import ConfigError, WriteError
from segmax.drawing.draw import draw, svg
from segmax.drawing.figures import check_plot, new_figure, save_figure
from segmax.drawing.plot import Plot, Series

pytest.importorskip("matplotlib")

ROWS = Plot(
    title="t",
    summary="a $line",
    x_label="ms",
    y_label="",
    kind="rows",
    categories=("one", "two", "three"),
    series=(
        Series(label="a", x=(1.0, 4.0), y=(0.0, 2.0), ends=(9.0, 5.0), marks=("a long text of this bar", "short")),
        Series(label="b", x=(2.0,), y=(1.0,), marks=("x",), color="#123456"),
    ),
)
HISTOGRAM = Plot(
    title="t",
    x_label="size",
    y_label="clusters",
    kind="histogram",
    series=(Series(label="clusters", x=(0.5, 2.5), ends=(2.5, 4.5), y=(3.0, 1.0)),),
    center=1.5,
    x_range=(0, 6),
    whole=True,
)


@pytest.mark.parametrize("kind", ["line", "scatter", "bar"])
def test_plots_are_drawn_alike(kind: str) -> None:
    """The same plot gives the same SVG; nan, no points and dollar signs do no harm."""
    series = (
        Series(label="$a_b$", x=(1.0, 2.0, 900.0), y=(1.0, math.nan, 3.0), marks=("μ = 1", "", "$x")),
        Series(label="empty", x=(), y=()),
    )
    plot = Plot(title="t", x_label="x", y_label="y", series=series, kind=kind, categories=("a", "b"))
    assert svg(plot, "name") == svg(plot, "name")
    assert "μ = 1" in svg(plot, "name") or kind == "bar"
    assert "nothing to show" in svg(Plot(title="t", x_label="", y_label="", series=(), kind=kind), "name")


LONG = ("MaxScore, similarity order, whole index", "ASC-128*8, μ=0.5, η=1, whole index")


@pytest.mark.parametrize("names", [LONG * 2, LONG * 5, ("averylongnamewithoutaspace" * 2,) * 4, ("a", "b")])
def test_names_of_bars_do_not_overlap(names: tuple[str, ...]) -> None:
    """However long names are, none is written over another."""
    series = Series(label="s", x=tuple(map(float, range(len(names)))), y=(1.0,) * len(names))
    figure = draw([Plot(title="t", x_label="x", y_label="y", series=(series,), kind="bar", categories=names)])
    figure.draw_without_rendering()
    labels = figure.axes[0].get_xticklabels()
    boxes = [label.get_window_extent() for label in labels]
    if labels[0].get_rotation():  # at a slant, lines are apart if their ends are
        assert all(b.x1 - a.x1 > 10 for a, b in itertools.pairwise(boxes))
    else:
        assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))


@pytest.mark.parametrize("kind", ["scatter", "line"])
def test_points_that_coincide_are_rings_of_different_sizes(kind: str) -> None:
    """Of three methods with the same figures all are seen; one elsewhere has the usual size."""
    places = ((1.0, 1.0), (1.0, 1.0), (1.001, 1.0), (9.0, 0.5))
    series = tuple(Series(label=str(number), x=(x,), y=(y,)) for number, (x, y) in enumerate(places))
    markers = draw([Plot(title="t", x_label="x", y_label="y", series=series, kind=kind)]).axes[0].collections
    sizes = [float(each.get_sizes()[0]) for each in markers]
    assert sizes[0] < sizes[1] < sizes[2]
    assert sizes[3] == sizes[0]
    assert all(len(each.get_facecolor()) == 0 for each in markers)  # hollow: nothing is behind a marker


@pytest.mark.parametrize("others", [(4096.0,), (64.0, 4096.0)])
def test_rings_are_measured_along_a_logarithmic_axis(others: tuple[float, ...]) -> None:
    """Points at 1, 2, 4 … lie apart on that axis, so none gets a ring; those that coincide still do."""
    powers = tuple(2.0**power for power in range(6))
    series = tuple(Series(label=str(x), x=(x, *others), y=(1.0, *(2.0 for _ in others))) for x in powers)
    plot = Plot(title="t", x_label="x", y_label="y", series=series)
    axes = draw([plot]).axes[0]
    assert axes.get_xscale() == "log"
    sizes = np.array([each.get_sizes() for each in axes.collections])
    assert (sizes[:, 0] == sizes[0, 0]).all()
    assert (np.diff(sizes[:, 1:], axis=0) > 0).all()


def crowded(num_series: int, kind: str = "line", label: str = "ASC-4096*8, μ=0.5, η=1") -> Plot:
    """Curves that lie upon one another, with a text at every point."""
    rng = np.random.default_rng(num_series)
    mus = ("0.3", "0.5", "0.7", "0.9", "1")
    series = tuple(
        Series(
            label=f"{label} {number}",
            x=tuple(10 + rng.random(5).cumsum() / 4),
            y=tuple(0.98 + rng.random(5).cumsum() / 900),
            marks=mus,
        )
        for number in range(num_series)
    )
    return Plot(title="t", x_label="x", y_label="y", series=series, kind=kind)


@pytest.mark.parametrize("num_series", [1, 2, 6, 12, pytest.param(24, marks=pytest.mark.deep)])
def test_texts_at_points_overlap_nothing(num_series: int) -> None:
    """However close points lie, every text is there, and none over another, over a marker, or outside of the plot."""
    plot = crowded(num_series)
    figure = draw([plot])
    figure.draw_without_rendering()
    axes = figure.axes[0]
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
    assert len(boxes) == 5 * num_series
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    inside = axes.get_window_extent()
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 for box in boxes)
    assert all(inside.y0 <= box.y0 and box.y1 <= inside.y1 for box in boxes)
    points = [axes.transData.transform(p) for one in plot.series for p in zip(one.x, one.y, strict=True)]
    assert not any(box.contains(*point) for box in boxes for point in points)


@pytest.mark.parametrize("num_points", [40, pytest.param(100, marks=pytest.mark.deep)])
def test_no_text_is_lost(num_points: int) -> None:
    """At one place there is no room for so many: texts move away, with a line to their point, and all are written."""
    marks = tuple(f"μ = {number / 100:.2f}" for number in range(num_points))
    few = Series(label="few", x=(0.0, 10.0), y=(0.0, 10.0))
    many = Series(label="many", x=(5.0,) * num_points, y=(5.0,) * num_points, marks=marks)
    axes = draw([Plot(title="t", x_label="x", y_label="y", series=(few, many), kind="scatter")]).axes[0]
    texts = [text for text in axes.texts if text.get_text()]
    assert [text.get_text() for text in texts] == list(marks)
    far = [text for text in texts if math.hypot(*text.get_position()) >= 14]
    assert len(far) > num_points // 2
    assert sum(not text.get_text() for text in axes.texts) == len(far)  # a line each


@pytest.mark.parametrize("text", ["very long " * 30, "\n".join("line" for _ in range(80))])
def test_a_text_that_fits_nowhere_is_written(text: str) -> None:
    """Beside its point, although it leaves the plot."""
    series = Series(label="s", x=(1.0, 2.0), y=(1.0, 2.0), marks=(text, "short"))
    axes = draw([Plot(title="t", x_label="x", y_label="y", series=(series,))]).axes[0]
    assert [each.get_text() for each in axes.texts if each.get_text()] == [text, "short"]


@pytest.mark.parametrize("kind", ["line", "scatter", "bar"])
@pytest.mark.parametrize("num_series", [2, 5, pytest.param(12, marks=pytest.mark.deep)])
@pytest.mark.parametrize("label", ["a", "MaxScore, similarity order, whole index"])
def test_legends_cover_no_points(kind: str, num_series: int, label: str) -> None:
    """The legend stands outside of the axes, names every series, and is not cut."""
    plot = dataclasses.replace(crowded(num_series, kind, label), categories=tuple("abcde"))
    figure = draw([plot])
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert len(legend.get_texts()) == num_series
    assert not box.overlaps(figure.axes[0].get_window_extent())
    assert box.x1 <= figure.bbox.x1
    assert box.y0 >= 0


def test_levels_are_drawn_and_named() -> None:
    """θ and θ/μ of Figure 4 are lines across the plot, each with its name beside it."""
    series = tuple(Series(label=name, x=(0.0, 1.0, 2.0, 3.0), y=(3.3, 9.8, 13.7, 16.3)) for name in "ab")
    levels = {"θ = 9": 9.0, "θ/μ = 10": 10.0}
    names = ("1", "2", "3", "4")
    plot = Plot(title="t", x_label="", y_label="y", kind="bar", categories=names, series=series, levels=levels)
    figure = draw([plot])
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert [line.get_ydata()[0] for line in axes.get_lines()] == [9.0, 10.0]
    boxes = [text.get_window_extent() for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == ["θ = 9", "θ/μ = 10"]
    assert not boxes[0].overlaps(boxes[1])
    assert all(axes.get_window_extent().x1 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert Plot.from_dict(json.loads(json.dumps(plot.to_dict()))) == plot


def test_texts_of_lying_bars_fit() -> None:
    """The axis is so long that every text ends inside of it, and no text covers a bar or the line behind it."""
    figure = draw([ROWS], width=6, height=3)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    inside = axes.get_window_extent()
    marks = [text for text in axes.texts if text.get_position()[0] > 0]
    assert [text.get_text().strip() for text in marks] == ["a long text of this bar", "short", "x"]
    assert all(text.get_window_extent().x1 <= inside.x1 for text in marks)
    assert [text.get_position()[0] for text in marks] == [9.0, 5.0, 2.0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["b", "a"]
    assert figure.legends == []


def test_histograms_have_bars_that_touch() -> None:
    """Bars reach from x to their end; the mean is a dashed line, and ticks are whole numbers."""
    axes = draw([HISTOGRAM]).axes[0]
    assert [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in axes.patches] == [(0.5, 2, 3), (2.5, 2, 1)]
    assert [line.get_xdata()[0] for line in axes.get_lines()] == [1.5]
    assert axes.get_xlim() == (0, 6)
    assert all(tick == int(tick) for tick in (*axes.get_xticks(), *axes.get_yticks()))


def test_panels_share_a_legend() -> None:
    """Methods are named once, below all panels; the time axis is logarithmic where that is asked for."""
    series = tuple(Series(label=f"m{number}", x=(1.0 + number,), ends=(9.0,), y=(0.5,)) for number in range(3))
    plot = Plot(title="t", x_label="ms", y_label="", kind="scatter", log_x=True, series=series)
    figure = draw([plot, dataclasses.replace(plot, title="u")], title="both", width=9)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["t", "u"]
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "log"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["m0", "m1", "m2"]


@pytest.mark.parametrize("plot", [ROWS, HISTOGRAM, crowded(3)])
def test_plots_survive_json(plot: Plot) -> None:
    """Defaults are left out, and what comes back is equal; null is nan."""
    values = json.loads(json.dumps(plot.to_dict()))
    assert Plot.from_dict(values) == plot
    assert "empty" not in values
    assert math.isnan(Series.from_dict({"label": "s", "x": [1], "y": [None]}).y[0])


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_a_picture_is_written_whole(suffix: str, tmp_path: Path) -> None:
    """It replaces a link rather than follow it, and leaves no other file."""
    path = tmp_path / f"it{suffix}"
    (tmp_path / "precious").write_text("precious")
    path.symlink_to(tmp_path / "precious")
    save_figure(draw([HISTOGRAM]), path)
    assert path.stat().st_size > 1000
    assert not path.is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([path.name, "precious"])


def test_invalid_paths_are_refused(tmp_path: Path) -> None:
    """An unknown suffix, a missing directory, and a directory in place of the file."""
    with refused(ConfigError, expected="end in .png, .svg or .pdf", got="it.txt"):
        check_plot(tmp_path / "it.txt")
    with refused(ConfigError, expected="an existing directory", got="absent", hint="create it first"):
        check_plot(tmp_path / "absent" / "it.png")
    (tmp_path / "it.png").mkdir()
    with refused(WriteError, message="could not write .*it.png.*nothing was changed"):
        save_figure(new_figure(2, 2), tmp_path / "it.png")
