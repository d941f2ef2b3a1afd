"""What to draw, as data: plots and their series. Nothing here needs matplotlib."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, Self

#: "line" joins the points of a series; "scatter" does not. "bar" has upright bars at places of `categories`, "rows"
#: lying ones, and "histogram" bars that touch.
PlotKind = Literal["line", "scatter", "bar", "rows", "histogram"]


class _Plain:
    """Values that can be kept as JSON: what has its default is left out."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without those that are defaults."""
        found = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            default = field.default_factory() if callable(field.default_factory) else field.default
            if value != default:
                found[field.name] = _plain(value)
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value.to_dict() if isinstance(value, _Plain) else value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Series(_Plain):
    """Points of a plot that belong together.

    Parameters
    ----------
    label
        Its name in the legend.
    x, y
        Where the points are. In "rows", `y` are the places of categories and `x` the lengths of the bars; in a
        "histogram", `x` is where each bar begins and `y` its height.
    ends
        Where a thin line to the right of each point ends, such as a 99th percentile; in a "histogram", where each bar
        ends.
    marks
        A text at each point.
    color
        By default each series has its own.

    Examples
    --------
    >>> series = Series(label="asc", x=(1.0, 2.0), y=(0.9, 1.0), marks=("μ = 0.9", "μ = 1"))
    >>> Series.from_dict(series.to_dict()) == series
    True
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    ends: tuple[float, ...] = ()
    marks: tuple[str, ...] = ()
    color: str = ""

    def __post_init__(self) -> None:
        assert len(self.x) == len(self.y), f"{self.label}: {len(self.x)} x, but {len(self.y)} y"
        assert len(self.ends) in (0, len(self.x)), f"{self.label}: expected an end per point"
        assert len(self.marks) in (0, len(self.x)), f"{self.label}: expected a mark per point"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a series of what `to_dict` returned; null is what JSON has for nan."""
        numbers = {
            name: tuple(math.nan if value is None else value for value in values[name])
            for name in ("x", "y", "ends")
            if name in values
        }
        return cls(**{**values, **numbers, "marks": tuple(values.get("marks", ()))})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plot(_Plain):
    """A plot.

    Parameters
    ----------
    title
        The line above it.
    x_label, y_label
        What the axes show.
    series
        The points.
    kind
        See `PlotKind`.
    categories
        Names of bars; a bar of category i is at place i.
    levels
        Dashed lines across the plot, such as a threshold, by their label.
    summary
        A line below the title.
    center
        Where an upright dashed line shows a mean.
    log_x
        Whether the x axis is logarithmic; None: for lines, where values are far apart.
    x_range
        The ends of the x axis; by default whatever shows all points.
    whole
        Whether axes count things, and show whole numbers only.
    empty
        The text of a plot without points.

    Examples
    --------
    >>> plot = Plot(title="Recall", x_label="ms", y_label="recall", series=(Series(label="asc", x=(1.0,), y=(0.9,)),))
    >>> Plot.from_dict(plot.to_dict()) == plot
    True
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: PlotKind = "line"
    categories: tuple[str, ...] = ()
    levels: Mapping[str, float] = dataclasses.field(default_factory=dict)
    summary: str = ""
    center: float | None = None
    log_x: bool | None = None
    x_range: tuple[float, float] | None = None
    whole: bool = False
    empty: str = "nothing to show"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a plot of what `to_dict` returned."""
        tuples = {name: tuple(values[name]) for name in ("categories", "x_range") if name in values}
        series = tuple(Series.from_dict(each) for each in values["series"])
        return cls(**{**values, **tuples, "series": series})
