"""The outcome of a benchmark: tables for a terminal, everything as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmax.base.display import counted
from segmax.base.text_table import Column, tables
from segmax.bench.engines.catalog import family
from segmax.bench.results import Record, Run, Shown, shown_runs
from segmax.io.writing import write_whole

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

_DASH = "–"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was measured.

    Parameters
    ----------
    command, date
        What ran when.
    machine
        What it ran on, and with which versions.
    collection
        What `Material.to_dict` says.
    settings
        Numbers of results, passes and so on.
    records
        Everything that the race recorded.
    """

    command: str
    date: str
    machine: Record
    collection: Record
    settings: Record
    records: Sequence[Record]

    def _of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record["type"] == kind]

    @cached_property
    def runs(self) -> list[Run]:
        """The settings that ran on all queries."""
        return [Run.of(record) for record in self._of("search")]

    @cached_property
    def builds(self) -> list[Record]:
        """The indexes that were built."""
        return self._of("build")

    @property
    def screened(self) -> list[Record]:
        """The settings that ran on the sample."""
        return self._of("screened")

    def shown(self, k: int) -> list[Shown]:
        """Return what the table for this number of results shows."""
        return shown_runs([run for run in self.runs if run.k == k])

    # --- JSON --------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values: the tables as `rows`, and all that they rest on as `records`."""
        return {
            "command": self.command,
            "date": self.date,
            "machine": self.machine,
            "collection": self.collection,
            "settings": self.settings,
            "rows": [_row(k, shown) for k in self.settings["ks"] for shown in self.shown(k)],
            "records": list(self.records),
        }

    def to_json(self, path: Path) -> None:
        """Write `to_dict` to a file; one that is there is replaced."""
        with write_whole(path, overwrite=True) as file:
            file.write((json.dumps(self.to_dict(), ensure_ascii=False) + "\n").encode("utf-8"))

    # --- tables ------------------------------------------------------------------------------------------------------

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        yield Text(self._heading(), style="bold")
        for k in self.settings["ks"]:
            shown = self.shown(k)
            if shown:
                yield Text(f"\nk = {k}", style="bold")
                styles = ["bold" if row.run.name == "segmax, exact" else "" for row in shown]
                yield from tables([*_latency_columns(shown)], options.max_width, styles)
        if self.builds:
            yield Text("\nindexes", style="bold")
            yield from tables([_build_columns(self.builds, self.collection["postings"])], options.max_width)
        yield Text()
        for note in self.notes():
            yield Text(note, style="dim")

    def _heading(self) -> str:
        about = self.collection
        parts = [about["name"], counted(about["documents"], "document")]
        if about["postings"] is not None:
            parts.append(f"{about['postings'] / max(about['documents'], 1):.0f} terms each")
        parts.append(counted(about["queries"], "query", "queries"))
        return ", ".join(parts)

    def notes(self) -> Iterator[str]:
        """Yield sentences about how to read the tables."""
        about = self.collection
        passes = counted(self.settings["passes"], "pass", "passes")
        yield (
            f"{self.machine['cpu']}, {self.machine['simd']}; one core, one query at a time, through the Python API of "
            f"each engine; the fastest of {passes}. Settings were chosen on the even-numbered queries, and all figures "
            f"are of the {about['queries'] // 2} odd-numbered ones. × is the mean relative to segmax, exact."
        )
        if any(run.engine == "scatter-add" for run in self.runs):
            yield "scatter-add is timed inside of C++, without a call from Python."
        if about["rounded"]:
            yield "Weights were rounded to 8 bits first, so that all engines search the same vectors."
        swept = [run for run in self.runs if (run.engine, run.setting) == ("segmax", "exact") and run.swept]
        if swept:
            shares = ", ".join(f"{run.swept:.0%} at k = {run.k}" for run in swept)
            yield f"segmax finished some queries exhaustively, because it expected that to be faster: {shares}."
        if about["generated"]:
            yield (
                "Generated collections flatter pruning, because their topics are tidier than those of real texts. "
                "Measure on real ones before you rely on these figures."
            )
        if skipped := self._of("skipped"):
            names = ", ".join(record["engine"] for record in skipped)
            reasons = ", ".join(dict.fromkeys(record["reason"] for record in skipped))
            yield f"Skipped: {names} ({reasons}). Most other engines come with: pip install 'segmax[rivals]'"
        for record in self._of("failed"):
            yield f"{record['engine']}: failed to {record['stage']}: {record['reason']}"


def _row(k: int, shown: Shown) -> Record:
    """Return a row of a table as plain values."""
    run, figures = shown.run, shown.run.reported()
    return {
        "k": k,
        "engine": run.engine,
        "setting": run.setting,
        "chosen_for": shown.reason,
        "exact": run.exact,
        "recall": figures.recall,
        "mean_ms": figures.mean,
        "median_ms": figures.median,
        "p99_ms": figures.p99,
        "mean_ms_in_core": run.reported("core").mean if len(run.core_ms) else None,
        "swept": run.swept,
        **run.reported_relevance(),
    }


def _latency_columns(shown: Sequence[Shown]) -> Iterator[list[Column]]:
    figures = [row.run.reported() for row in shown]
    base = next((f.mean for f, row in zip(figures, shown, strict=True) if row.run.name == "segmax, exact"), None)
    times = [_DASH if base is None else f"{figure.mean / base:.2f}" for figure in figures]
    yield [
        Column(heading="engine", cells=[_engine_cell(row.run) for row in shown], words=True),
        Column(heading="chosen for", cells=[row.reason for row in shown], words=True),
        Column(heading="recall", cells=[f"{figure.recall:.4f}" for figure in figures]),
        Column(heading="mean ms", cells=[f"{figure.mean:.3f}" for figure in figures]),
        Column(heading="p99 ms", cells=[f"{figure.p99:.3f}" for figure in figures]),
        Column(heading="×", cells=times),
    ]
    relevance = [row.run.reported_relevance() for row in shown]
    measures = [name for name in relevance[0] if not name.startswith("Recall")]
    if measures:
        yield [Column(heading=name, cells=[f"{values[name]:.4f}" for values in relevance]) for name in measures]


def _engine_cell(run: Run) -> str:
    """Return the engine and its setting, in as few words as tell what ran."""
    if run.engine == "segmax" or (run.exact and family(run.engine) == run.engine):
        return run.name
    return f"{run.engine}: {run.setting}" if run.setting else run.engine


def _build_columns(builds: Sequence[Record], postings: int | None) -> list[Column]:
    return [
        Column(heading="index", cells=[build["engine"] for build in builds], words=True),
        Column(heading="version", cells=[build["version"] for build in builds]),
        Column(heading="build s", cells=[f"{build['build_seconds']:.1f}" for build in builds]),
        Column(heading="convert s", cells=[f"{build['convert_seconds']:.1f}" for build in builds]),
        Column(heading="MB", cells=[f"{build['size_bytes'] / 1e6:,.1f}" for build in builds]),
        Column(heading="bytes/posting", cells=[f"{b['size_bytes'] / max(postings or 0, 1):.2f}" for b in builds]),
        Column(heading="peak GB", cells=[f"{build['peak_bytes'] / 1e9:.2f}" for build in builds]),
    ]
