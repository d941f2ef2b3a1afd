"""What an evaluation found: typed, printed as a table, written as JSON or CSV, drawn as a plot."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_path
from segmax.base.display import counted, printable
from segmax.base.errors import ConfigError
from segmax.base.text_table import Column, tables
from segmax.drawing.figures import check_plot, save_figure
from segmax.evaluation.plot import Point, plot_points
from segmax.evaluation.significance import TTest, t_tests
from segmax.io.writing import write_whole
from segmax.paper import method_name, parse_method
from segmax.search.methods import SearchParams

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderableType

_LEVEL = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MethodResult:
    """What one method gave and what it took, on average over queries.

    `per_query` has an array per measure, in the order of the queries: `recall_of_exact` and `milliseconds` among them
    and, for methods with clusters, `clusters_visited`.

    Examples
    --------
    >>> import segmax
    >>> index = segmax.from_texts(["a copper waveguide", "noise in diodes"])
    >>> result = segmax.evaluate(index, ["copper noise"], methods=["asc"], k=2)["asc"]
    >>> result.name, result.recall_of_exact
    ('asc', 1.0)
    """

    name: str
    params: SearchParams
    relevance: Mapping[str, float]  #: MRR@10, nDCG@10 and Recall@k; empty where nothing is judged
    recall_of_exact: float  #: the share of the results of exhaustive search that came back
    score_ratio: float  #: the sum of scores over that of exhaustive search
    mean_ms: float
    p50_ms: float
    p99_ms: float
    clusters_visited: float | None  #: the share of clusters; None for methods without clusters
    docs_scored: float  #: the number of documents that were scored
    docs_scored_share: float  #: the same as a share of all, of those deleted and not yet removed too
    swept: float  #: the share of queries that were swept: answered exhaustively, because that was faster
    per_query: Mapping[str, NDArray[np.float64]]

    def __repr__(self) -> str:
        figures = {**self.relevance, "recall_of_exact": self.recall_of_exact, "mean_ms": self.mean_ms}
        shown = ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
        return f"MethodResult({printable(self.name)}: {shown})"

    def to_dict(self) -> dict[str, Any]:
        """Return the averages as plain values."""
        return {
            "name": self.name,
            "method": method_name(self.params),
            **self.relevance,
            "recall_of_exact": self.recall_of_exact,
            "score_ratio": self.score_ratio,
            "mean_ms": self.mean_ms,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "clusters_visited": self.clusters_visited,
            "docs_scored": self.docs_scored,
            "docs_scored_share": self.docs_scored_share,
            "swept": self.swept,
        }


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """What `evaluate` found, a result per method; `evaluation["asc"]` is that of one. Prints as a table.

    Examples
    --------
    >>> import segmax
    >>> index = segmax.from_texts(["a copper waveguide", "noise in diodes"])
    >>> found = segmax.evaluate(index, ["copper noise"], methods=["exhaustive", "asc"], k=2)
    >>> found["asc"].recall_of_exact
    1.0
    """

    methods: tuple[MethodResult, ...]
    k: int
    min_rel: int
    num_queries: int
    num_docs: int
    num_clusters: int
    num_segments: int
    passes: int
    judged: bool  #: whether there are measures of relevance
    dropped_self: bool  #: whether the query's own document was left out
    num_unasked: int = 0  #: judged queries that were not among the queries, and so count nowhere

    def __getitem__(self, name: str) -> MethodResult:
        for method in self.methods:
            if name in (method.name, method_name(method.params)):
                return method
        with contextlib.suppress(ConfigError, StopIteration):  # the same method in another spelling
            params = parse_method(name)
            return next(method for method in self.methods if method.params == params)
        raise ConfigError(expected=f"one of the methods {self._names()}", got=f"{name!r}")

    def __repr__(self) -> str:
        return f"Evaluation({self._names()}; {self._heading()})"

    def _names(self) -> str:
        return ", ".join(printable(method.name) for method in self.methods)

    def __len__(self) -> int:
        return len(self.methods)

    def __iter__(self) -> Iterator[MethodResult]:
        return iter(self.methods)

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures of relevance."""
        return tuple(self.methods[0].relevance)

    # --- significance ------------------------------------------------------------------------------------------------

    def t_tests(
        self, measure: str | None = None, *, baseline: str | None = None, correction: str = "holm"
    ) -> list[TTest]:
        """Return paired t-tests between methods.

        Parameters
        ----------
        measure
            Which measure; None: all measures of relevance, or the recall of exhaustive search where nothing is judged.
        baseline
            Compare every other method with this one; None: all pairs.
        correction
            For the tests of one measure: "holm", "bonferroni" or "none".
        """
        pairs = self._pairs(baseline)
        found: list[TTest] = []
        for name in (measure,) if measure is not None else self.measures or ("recall_of_exact",):
            found += t_tests(
                name, {method.name: self._values(method, name) for method in self.methods}, pairs, correction
            )
        return found

    def _pairs(self, baseline: str | None) -> list[tuple[str, str]]:
        """Return the names of methods to compare, each with that of its baseline."""
        if baseline is None:
            return [(later.name, first.name) for first, later in itertools.combinations(self.methods, 2)]
        base = self[baseline].name
        return [(method.name, base) for method in self.methods if method.name != base]

    def _values(self, method: MethodResult, measure: str) -> NDArray[np.float64]:
        if measure not in method.per_query:
            raise ConfigError(expected=f"a measure, {', '.join(method.per_query)}", got=f"{measure!r}")
        return method.per_query[measure]

    # --- out ---------------------------------------------------------------------------------------------------------

    def to_dict(self, correction: str = "holm") -> dict[str, Any]:
        """Return everything but the values of single queries, as plain values, with the t-tests of all pairs."""
        about = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "methods"}
        tests = self.t_tests(correction=correction) if self.num_queries > 1 else []
        return {
            **about,
            "methods": [method.to_dict() for method in self.methods],
            "t_tests": [{**dataclasses.asdict(test), "t": _finite(test.t)} for test in tests],
        }

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` to a file; one that is there is replaced."""
        _write(path, json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n")

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return a line per method under a heading, as CSV; written to a file too if there is a path."""
        rows = [{"k": self.k, "num_queries": self.num_queries, **method.to_dict()} for method in self.methods]
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        if path is not None:
            _write(path, text.getvalue())
        return text.getvalue()

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw what every method keeps against what it costs; needs matplotlib, the extra `plot`.

        Parameters
        ----------
        path
            Where to write the picture, as .png, .svg or .pdf; None: only return it.
        """
        if path is not None:
            check_plot(checked_path("path", path))
        panels = []
        for measure in (*self.measures, "recall_of_exact"):
            points = [Point(m.name, m.mean_ms, m.p99_ms, float(m.per_query[measure].mean())) for m in self.methods]
            panels.append(("Recall of exhaustive search" if measure == "recall_of_exact" else measure, points))
        figure = plot_points(panels, f"{counted(self.num_queries, 'query', 'queries')}, k = {self.k}")
        if path is not None:
            save_figure(figure, path)
        return figure

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        marked = self._significant()
        yield Text(self._heading(), style="bold")
        yield from tables([*self._columns(marked)], options.max_width)
        yield Text(self._caption(significant=bool(marked)), style="dim")

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(highlight=False, color_system=None)
        with console.capture() as captured:
            console.print(self)
        return captured.get()

    def differs(self, method: str, other: str, measure: str) -> bool:
        """Whether two methods have different values of a measure for any query."""
        return not np.array_equal(self._values(self[method], measure), self._values(self[other], measure))

    def _columns(self, marked: Mapping[tuple[str, str], str]) -> Iterator[list[Column]]:
        """Yield the columns of the table: what came back, and what it cost."""
        methods = self.methods
        yield [
            Column(heading="method", cells=[method.name for method in methods], words=True),
            *(
                Column(
                    heading=name,
                    cells=[f"{m.relevance[name]:.4f}{marked.get((m.name, name), '')}" for m in methods],
                )
                for name in self.measures
            ),
            Column(heading="of exact", cells=[f"{method.recall_of_exact:.4f}" for method in methods]),
        ]
        visited = ["–" if m.clusters_visited is None else f"{m.clusters_visited:.2%}" for m in methods]
        yield [
            Column(heading="mean ms", cells=[f"{method.mean_ms:.4f}" for method in methods]),
            Column(heading="p50 ms", cells=[f"{method.p50_ms:.4f}" for method in methods]),
            Column(heading="p99 ms", cells=[f"{method.p99_ms:.4f}" for method in methods]),
            Column(heading="clusters", cells=visited),
            Column(heading="documents", cells=[f"{method.docs_scored_share:.2%}" for method in methods]),
        ]

    def _heading(self) -> str:
        parts = (
            counted(self.num_queries, "query", "queries"),
            counted(self.num_docs, "document"),
            f"{counted(self.num_clusters, 'cluster')} × {counted(self.num_segments, 'segment')}",
            f"k = {self.k}",
            "one thread",
        )
        return ", ".join(parts)

    def _caption(self, *, significant: bool) -> str:
        parts = ["of exact: share of exhaustive search's results; clusters visited; documents scored"]
        if swept := [method for method in self.methods if method.swept]:
            least, most = (f"{share(method.swept for method in swept):.0%}" for share in (min, max))
            shares = least if least == most else f"{least} to {most}"
            names = ", ".join(printable(method.name) for method in swept)
            parts.append(
                f"swept: {shares} of the queries of {names} were answered exhaustively, which is faster there: "
                "mu and eta change nothing for them"
            )
        if self.min_rel != 1:
            parts.append(f"grades from {self.min_rel} on are relevant for MRR and Recall")
        if self.num_unasked:
            were = "was" if self.num_unasked == 1 else "were"
            unasked = counted(self.num_unasked, "judged query", "judged queries")
            parts.append(f"{unasked} {were} not among the queries, and count nowhere")
        if self.dropped_self:
            parts.append("the query's own document is left out")
        if significant:
            parts.append(f"† differs from {printable(self.methods[0].name)} (paired t-test, Holm, p < {_LEVEL})")
        return "; ".join(parts)

    def _significant(self) -> dict[tuple[str, str], str]:
        """Return the mark of every method and measure that differs significantly from the first method."""
        if self.num_queries < 2 or not self.judged:
            return {}
        tests = self.t_tests(baseline=self.methods[0].name)
        return {(test.method, test.measure): "†" for test in tests if test.is_significant(_LEVEL)}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None  # JSON has no infinity


def _write(path: str | os.PathLike[str], text: str) -> None:
    with write_whole(checked_path("path", path), overwrite=True) as file:
        file.write(text.encode("utf-8"))
