"""Tables and plots from the records of a race: choices on one half of the queries, figures on the other, and goals."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from segmax.bench.engines.catalog import family
from segmax.bench.picture import draw_race
from segmax.bench.results import Clock, Figures, Record, Run, choose

FLOORS = (0.99, 0.97, 0.95)
GOAL_FLOORS = (0.99, 0.97)
SEISMIC = ("seismic", "seismic-guide")
BMP = ("bmp-32", "bmp-8")
GROWTH = "k=10, exact, growth of latency with documents: exponent ≤ 0.5"
SCALE = Path(__file__).parent / "results" / "scale.jsonl"
#: Settings that every table shows, fast or not, and the reason given there.
ALWAYS_SHOWN = {"alpha=1, beta=1": "alpha=1", **{f"mu={mu:g}": "ASC" for mu in (0.9, 0.7, 0.5)}}
#: The packages that are measured, all from the Python package index.
PACKAGES = {
    "bmp": "BMP (bmp {})",
    "pisa": "PISA (pyterrier-pisa {})",
    "qdrant-edge": "Qdrant Edge (qdrant-edge-py {})",
    "seismic": "Seismic (pyseismic-lsr {})",
    "sindi": "SINDI of VSAG (pyvsag {})",
    "splade-index": "splade-index {} with numba",
}
#: How the documents of a set came to be.
SETS = {
    "wiki": "Documents are Wikipedia passages as vectors of splade-mini",
    "large": "Documents are Wikipedia passages as vectors of splade-mini without weights below 0.12, in random order",
}
_WIDTH = 120  # of lines in documents


# --- goals -----------------------------------------------------------------------------------------------------------


def choose_rival(runs: Sequence[Run], least_recall: float) -> Run | None:
    """Return what `choose` returns, or the run with the most recall if none has enough."""
    return choose(runs, least_recall) or max(runs, key=lambda run: run.chosen_on().recall, default=None)


class Goal(NamedTuple):
    """A line of the table of goals; `reached` is None if the goal could not be measured."""

    text: str
    measured: str
    reached: bool | None


def speed_goals(text: str, times: float, ours: Run | None, theirs: Run | None, clock: Clock = "call") -> list[Goal]:
    """Return whether our mean latency is `times` times smaller and our p99 not larger, on the reported queries."""
    goals = [f"{text}: ≥ {times:g} ×", f"{text}: p99 not worse"]
    if ours is None or theirs is None:
        return [Goal(goal, f"no record of {'ours' if ours is None else 'theirs'}", None) for goal in goals]
    mine, other = ours.reported(clock), theirs.reported(clock)
    notes = f"{_described(ours, mine)} against {_described(theirs, other)}"
    mean = f"{mine.mean:.3f} against {other.mean:.3f} ms: {other.mean / mine.mean:.2f} × ({notes}"
    if clock == "call" and len(ours.core_ms):
        mean += f"; ours in the core: {ours.reported('core').mean:.3f} ms"
    return [
        Goal(goals[0], f"{mean})", other.mean >= times * mine.mean),
        Goal(goals[1], f"{mine.p99:.3f} against {other.p99:.3f} ms", mine.p99 <= other.p99),
    ]


def _described(run: Run, figures: Figures) -> str:
    swept = f", {run.swept:.0%} swept" if run.swept else ""
    return f"{run.name}, recall {figures.recall:.4f}{swept}"


def exponent(sizes: Sequence[float], latencies: Sequence[float]) -> float:
    """Return the slope of latency over size, both as logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(latencies), 1)[0])


class Results:
    """All records of one race."""

    def __init__(self, records: Iterable[Record]) -> None:
        by_type: dict[str, list[Record]] = {}
        for record in records:
            by_type.setdefault(record["type"], []).append(record)
        self.setup = by_type["race"][0]
        documents = self.setup["documents"]
        builds = by_type.get("build", [])
        self.builds = {record["engine"]: record for record in builds if record["documents"] == documents}
        self.opened = {r["engine"]: r for r in by_type.get("open", []) if r["documents"] == documents}
        self.failed = by_type.get("failed", [])
        self.skipped = by_type.get("skipped", [])
        self.screened = by_type.get("screened", [])
        self._all = [Run.of(record) for record in by_type.get("search", [])]
        self.runs = [run for run in self._all if run.documents == documents]

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read JSON lines."""
        return cls(map(json.loads, path.read_text().splitlines()))

    @property
    def set(self) -> str:
        """The name of the set of documents."""
        return str(self.setup.get("set", "wiki"))

    def of(self, k: int, engines: Iterable[str], setting: str | None = None) -> list[Run]:
        """Return the runs of some engines at one k, of one setting if given."""
        return [run for run in self.runs if run.k == k and run.engine in engines and setting in (None, run.setting)]

    def one(self, k: int, engine: str, setting: str) -> Run | None:
        """Return the run of one setting, or None."""
        return next(iter(self.of(k, [engine], setting)), None)

    def growth(self) -> list[Run]:
        """Return exact runs of segmax at k = 10, smallest collection first."""
        exact = [run for run in self._all if (run.engine, run.setting, run.k) == ("segmax", "exact", 10)]
        return sorted(exact, key=lambda run: run.documents)

    # --- goals ---

    def goals(self) -> list[Goal]:
        """Return all goals; those of speed and size were set for the wiki vectors."""
        if self.set != "wiki":
            return [self._goal_of_growth()]
        return [*self._goals_of_speed(), *self._goals_of_size(), self._goal_of_growth(), *generated_goals()]

    def _goals_of_speed(self) -> Iterable[Goal]:
        exact = {k: self.one(k, "segmax", "exact") for k in (10, 100, 1000)}
        for k, times in ((10, 4.0), (100, 2.5), (1000, 1.5)):
            plain = self.one(k, "scatter-add", "")
            yield from speed_goals(f"k={k}, exact, scatter-add", times, exact[k], plain, "core")
        for k, times in ((10, 4.0), (100, 6.0), (1000, 6.0)):
            rival = choose_rival(self.of(k, SEISMIC), 0.99)
            yield from speed_goals(f"k={k}, exact, Seismic with recall ≥ .99", times, exact[k], rival)
        bmp = choose(self.of(10, BMP, "alpha=1, beta=1"), 0.0)
        yield from speed_goals("k=10, exact, BMP at alpha=1", 6.0, exact[10], bmp)
        yield from speed_goals("k=10, exact, PISA MaxScore", 15.0, exact[10], self.one(10, "pisa", "maxscore"))
        for floor in GOAL_FLOORS:
            text = f"k=10, recall ≥ {floor:g}, Seismic with that recall"
            yield from speed_goals(
                text, 5.0, choose(self.of(10, ["segmax"]), floor), choose_rival(self.of(10, SEISMIC), floor)
            )

    def _goals_of_size(self) -> Iterable[Goal]:
        for text, names in (("Seismic", SEISMIC), ("BMP", BMP)):
            yield self._build_goal(
                f"index smaller than that of {text}", names, lambda b: b["size_bytes"] / 1e6, "MB", 1.0
            )
        yield self._build_goal("build, Seismic: ≥ 5 ×", SEISMIC, build_seconds, "s", 5.0)

    def _build_goal(
        self, text: str, names: Iterable[str], cost: Callable[[Record], float], unit: str, times: float
    ) -> Goal:
        ours, theirs = self.builds.get("segmax"), [self.builds[name] for name in names if name in self.builds]
        if ours is None or not theirs:
            return Goal(text, "not built", None)
        mine, least = cost(ours), min(theirs, key=cost)
        other = cost(least)
        measured = f"{mine:,.1f} against {other:,.1f} {unit} ({least['engine']}): {other / mine:.1f} ×"
        return Goal(text, measured, other > mine if times == 1.0 else other >= times * mine)

    def _goal_of_growth(self) -> Goal:
        runs = self.growth()
        sizes = [run.documents for run in runs]
        return growth_goal(f"{GROWTH}, first passages of the set", sizes, [run.reported("core").mean for run in runs])


def generated_goals() -> Iterable[Goal]:
    """Yield the goals for generated collections, from the records of `benchmarks.scale`."""
    records = map(json.loads, SCALE.read_text().splitlines()) if SCALE.exists() else []
    latest = {record["docs"]: record for record in records if not record.get("added")}
    sizes = sorted(latest)
    yield growth_goal(f"{GROWTH}, generated (`benchmarks.scale`)", sizes, [latest[size]["asc_ms"] for size in sizes])
    for size in (4_000_000, 8_800_000):
        yield scale_goal(size, latest.get(size, {}))


def scale_goal(size: int, record: Record) -> Goal:
    """Return whether exact search of a generated collection is eight times as fast as the scatter-add."""
    text = f"k=10, exact, {size:,} generated documents, scatter-add: ≥ 8 × (`benchmarks.scale`)"
    if "scatter_add_ms" not in record:
        return Goal(text, "no record", None)
    mine, other = record["asc_ms"], record["scatter_add_ms"]
    return Goal(text, f"{mine:.3f} against {other:.3f} ms: {other / mine:.1f} ×", other >= 8.0 * mine)


def growth_goal(text: str, sizes: Sequence[int], latencies: Sequence[float]) -> Goal:
    """Return whether latency grows at most like the square root of the size."""
    if len(sizes) < 2:
        return Goal(text, "no record", None)
    slope = exponent(sizes, latencies)
    points = ", ".join(f"{ms:.3f} ms at {size:,}" for size, ms in zip(sizes, latencies, strict=True))
    return Goal(text, f"{slope:.2f} ({points})", slope <= 0.5)


def build_seconds(build: Record) -> float:
    """Return the wall time from vectors in memory to an index on disk."""
    return float(build["convert_seconds"] + build["build_seconds"])


# --- tables ----------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def setup_text(results: Results) -> str:
    """Return a paragraph on what ran where."""
    s = results.setup
    versions = {b["name"]: b["version"] for b in results.builds.values() if b["name"] in PACKAGES}
    rivals = ", ".join(text.format(versions[name]) for name, text in PACKAGES.items() if name in versions)
    text = (
        f"{s['date']}: {s['documents']:,} documents, {s['postings']:,} postings, {s['queries']:,} queries; the "
        f"fastest of {s['passes']} passes per query; {s['cpu']}, {s['cores']} cores of which one searches, "
        f"{s['simd']}; Python {s['python']}; segmax {s['segmax']}; rivals, as packages of the Python package index: "
        f"{rivals or 'none'}. {SETS[results.set]}, queries are SPLADE-v3 vectors of MS MARCO questions. "
        "Settings were chosen on the even-numbered queries; all figures are of the odd-numbered ones."
    )
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)


def goals_table(goals: Iterable[Goal]) -> str:
    """Return the table of goals, what was measured, and whether they were reached."""
    words = {True: "yes", False: "**no**", None: "not measured"}
    return table(["goal", "measured", "reached"], ([g.text, g.measured, words[g.reached]] for g in goals))


def builds_table(results: Results) -> str:
    """Return the table of what building costs, with engines that failed or were skipped."""
    postings = results.setup["postings"]
    head = ["engine", "version", "convert s", "build s", "CPU s", "peak GB, building"]
    head += ["index MB", "bytes/posting", "open s", "peak GB, searching"]
    rows = []
    for engine, b in results.builds.items():
        row = [engine, b["version"], f"{b['convert_seconds']:.1f}", f"{b['build_seconds']:.1f}"]
        row += [f"{b['cpu_seconds']:.0f}", f"{b['peak_bytes'] / 1e9:.2f}", f"{b['size_bytes'] / 1e6:,.0f}"]
        row += [f"{b['size_bytes'] / postings:.2f}"]
        opened = results.opened.get(engine)
        row += [f"{opened['open_seconds']:.1f}", f"{opened['peak_bytes'] / 1e9:.2f}"] if opened else ["", ""]
        rows.append(row)
    notes = [(f["engine"], f"failed to {f['stage']}: {f['reason']}") for f in results.failed]
    notes += [(s["engine"], f"skipped: {s['reason']}") for s in results.skipped]
    return table(head, [*rows, *([*note, *[""] * (len(head) - 2)] for note in notes)])


def build_settings(results: Results) -> str:
    """Return a sentence on the build settings that are not defaults."""
    changed = (
        f"{engine} with {', '.join(f'{name}={value:g}' for name, value in build['settings'].items())}"
        for engine, build in results.builds.items()
        if build["settings"]
    )
    return textwrap.fill(f"Built with other settings than the defaults: {'; '.join(changed) or 'none'}.", _WIDTH)


RUN_HEAD = ["engine", "setting", "recall", "mean ms", "median", "p99", "mean ms in the core", "swept"]


def run_row(run: Run) -> list[str]:
    """Return one line about a run."""
    figures = run.reported()
    core = f"{run.reported('core').mean:.3f}" if len(run.core_ms) else ""
    times = [f"{value:.3f}" for value in (figures.mean, figures.median, figures.p99)]
    swept = f"{run.swept:.0%}" if run.engine == "segmax" and run.setting != "exhaustive" else ""
    return [run.engine, run.setting, f"{figures.recall:.4f}", *times, core, swept]


def chosen_runs(results: Results, k: int) -> list[tuple[str, Run]]:
    """Return the rows for one k: exact runs, and for each recall the choice among all indexes of an engine."""
    families: dict[str, list[str]] = {}
    for engine in results.builds:
        families.setdefault(family(engine), []).append(engine)
    rows: list[tuple[str, Run]] = []
    for engines in families.values():
        runs = results.of(k, engines)
        reasons = {run.name: ["exact"] if run.exact else [ALWAYS_SHOWN[run.setting]] for run in runs if shown(run)}
        for floor in FLOORS if not all(run.exact for run in runs) else ():
            if best := choose(runs, floor):
                reasons.setdefault(best.name, []).append(f"≥ {floor:g}")
        rows += [(", ".join(reasons[run.name]), run) for run in runs if run.name in reasons]
    return rows


def shown(run: Run) -> bool:
    """Return whether the table of choices has this run even if it is chosen for no recall."""
    return run.exact or run.setting in ALWAYS_SHOWN


def swept_text(results: Results, k: int) -> str:
    """Return a sentence on how many queries our exact search finished exhaustively."""
    ours = results.one(k, "segmax", "exact")
    if ours is None:
        return ""
    return f"*Swept*: segmax, exact, finished {ours.swept:.0%} of these queries exhaustively.\n\n"


def latency_tables(results: Results, k: int) -> str:
    """Return the table of choices, then all settings that were measured."""
    chosen = table(["chosen for", *RUN_HEAD], ([why, *run_row(run)] for why, run in chosen_runs(results, k)))
    every = table(RUN_HEAD, map(run_row, results.of(k, results.builds)))
    summary = "<details><summary>All settings that ran on all queries</summary>"
    return f"{chosen}\n\n{swept_text(results, k)}{summary}\n\n{every}\n\n</details>"


def markdown(results: Results) -> str:
    """Return everything between the markers of docs/benchmarks.md."""
    parts = [setup_text(results)]
    for k in results.setup["ks"]:
        image = f"![latency against recall, k = {k}](images/{image_name(results, k)})"
        parts += [f"### k = {k}", image, latency_tables(results, k)]
    parts += ["### Indexes", builds_table(results), build_settings(results)]
    return "\n\n".join([*parts, "### Goals that segmax was built for", goals_table(results.goals())])


def image_name(results: Results, k: int) -> str:
    """Return the name of the plot for one k."""
    return f"race-k{k}.png" if results.set == "wiki" else f"race-{results.set}-k{k}.png"


def between_markers(page: str, text: str, name: str = "wiki") -> str:
    """Return the page with the text between the markers of a set replaced; markers that it lacks go to its end."""
    of_set = "" if name == "wiki" else f" {name}"
    begin, end = f"<!-- begin{of_set} -->", f"<!-- end{of_set} -->"
    if begin not in page:
        heading = "" if name == "wiki" else f"\n## All results, {name} set\n\n"
        page = f"{page}{heading}{begin}\n{end}\n"
    pattern = re.compile(re.escape(begin) + ".*" + re.escape(end), re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{text}\n{end}", page, count=1)


def write(lines: Path, docs: Path) -> None:
    """Read JSON lines; print the tables, and write them and the plots to the folder of documents."""
    results = Results.load(lines)
    (docs / "images").mkdir(parents=True, exist_ok=True)
    for k in results.setup["ks"]:
        draw_race([k], results.runs, results.screened, docs / "images" / image_name(results, k))
    text = markdown(results)
    page = docs / "benchmarks.md"
    page.write_text(between_markers(page.read_text() if page.exists() else "", text, results.set))
    print(text)
