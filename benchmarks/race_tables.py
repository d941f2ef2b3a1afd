"""Tables and plots from the records of a race: choices on one half of the queries, figures on the other, and goals."""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.drawing.figures import new_figure, save_figure

Record = dict[str, Any]
Clock = Literal["call", "core"]

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


# --- halves, recall, choice ------------------------------------------------------------------------------------------


def sample_of_even(num_queries: int, count: int) -> list[int]:
    """Return `count` even numbers of queries, evenly spaced; all even ones if there are fewer."""
    even = range(0, num_queries, 2)
    if len(even) <= count:
        return list(even)
    return [even[place] for place in np.linspace(0, len(even) - 1, count).round().astype(int)]


def share_of_odd(flags: Sequence[bool]) -> float:
    """Return for which share of the odd-numbered queries something is true; 0 if there are none."""
    return float(np.mean(flags[1::2])) if len(flags) > 1 else 0.0


def mean_recall(missed: NDArray[Any], wanted: NDArray[Any] | int) -> float:
    """Return the mean share of the right results that were found; 1 for a query without any."""
    return float(np.mean(1.0 - missed / np.maximum(wanted, 1))) if len(missed) else 1.0


def candidates(points: Sequence[tuple[float, float]], targets: Iterable[float]) -> set[int]:
    """Return, for each recall, the number of the fastest of these (latency, recall) that reaches it."""
    enough = [[i for i, (_, recall) in enumerate(points) if recall >= target] for target in targets]
    return {min(numbers, key=lambda i: points[i]) for numbers in enough if numbers}


class Figures(NamedTuple):
    """A setting on some queries, in milliseconds."""

    mean: float
    median: float
    p99: float
    recall: float


@dataclasses.dataclass(frozen=True)
class Run:
    """One setting of one engine at one k, on all queries."""

    engine: str
    setting: str
    k: int
    documents: int
    exact: bool
    swept: float
    latency_ms: NDArray[np.float64]
    core_ms: NDArray[np.float64]  # empty if the engine has no clock of its own
    missed: NDArray[np.int64]
    wanted: NDArray[np.int64]

    @classmethod
    def of(cls, record: Record) -> Run:
        """Read a record of type "search"."""
        missed = np.array(record["missed"])
        return cls(
            **{field: record[field] for field in ("engine", "setting", "k", "documents", "exact", "swept")},
            latency_ms=np.array(record["latency_us"]) / 1000,
            core_ms=np.array(record["core_us"]) / 1000,
            missed=missed,
            wanted=np.broadcast_to(np.array(record["wanted"]), missed.shape),
        )

    def on(self, first: int, clock: Clock = "call") -> Figures:
        """Return the figures on every second query from `first`: 0 to choose settings, 1 to report them."""
        ms = (self.latency_ms if clock == "call" else self.core_ms)[first::2]
        if not len(ms):
            return Figures(np.nan, np.nan, np.nan, 1.0)
        recall = mean_recall(self.missed[first::2], self.wanted[first::2])
        return Figures(float(ms.mean()), float(np.median(ms)), float(np.percentile(ms, 99)), recall)

    def chosen_on(self, clock: Clock = "call") -> Figures:
        """Return the figures on the even-numbered queries, for choices."""
        return self.on(0, clock)

    def reported(self, clock: Clock = "call") -> Figures:
        """Return the figures on the odd-numbered queries, for tables, plots and goals."""
        return self.on(1, clock)

    @property
    def name(self) -> str:
        """Engine and setting."""
        return f"{self.engine}, {self.setting}" if self.setting else self.engine


def choose(runs: Iterable[Run], least_recall: float) -> Run | None:
    """Return the fastest run with at least this recall, both on the even-numbered queries."""
    enough = [run for run in runs if run.chosen_on().recall >= least_recall]
    return min(enough, key=lambda run: run.chosen_on().mean, default=None)


def choose_rival(runs: Sequence[Run], least_recall: float) -> Run | None:
    """Return what `choose` returns, or the run with the most recall if none has enough."""
    return choose(runs, least_recall) or max(runs, key=lambda run: run.chosen_on().recall, default=None)


# --- goals -----------------------------------------------------------------------------------------------------------


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


def family(engine: str) -> str:
    """Return the engine without what tells its indexes apart: "sindi" for "sindi-prune-0.2"."""
    return engine if engine in PACKAGES else engine.split("-")[0]


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


# --- plots -----------------------------------------------------------------------------------------------------------

TICKS = (0.8, 0.9, 0.95, 0.97, 0.99, 0.995, 0.999, 1.0)
STYLES = {
    "scatter-add": ("black", "X"),
    "segmax": ("tab:red", "o"),
    "seismic": ("tab:blue", "s"),
    "seismic-guide": ("tab:cyan", "D"),
    "bmp-32": ("tab:green", "^"),
    "bmp-8": ("tab:olive", "v"),
    "pisa": ("tab:purple", "P"),
    "sindi": ("tab:orange", "h"),
    "splade-index": ("tab:brown", "p"),
}


def drawn_as(engine: str) -> str:
    """Return the engine of `STYLES` whose curve this is: all indexes of SINDI share one."""
    return engine if engine in STYLES else family(engine)


def front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points (recall, latency) that no other point beats in both, by recall."""
    kept: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (-point[0], point[1])):
        if not kept or y < kept[-1][1]:
            kept.append((x, y))
    return kept[::-1]


def spread(recall: float) -> float:
    """Return where a recall is drawn: .9, .99 and .999 equally far apart, 1 at the end."""
    return float(-np.log10(1 - recall + 3e-4))


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Return ascending places, moved up so that neighbors keep a distance."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap) if moved else place)
    return moved


def plot(results: Results, k: int, path: Path) -> None:
    """Draw mean latency against recall: exact settings as named stars, those of the sample alone small and pale."""
    figure = new_figure(9, 6)
    axes = figure.subplots()
    axes.set_yscale("log")
    left = [r for r in results.screened if r["k"] == k and not r["kept"] and r["recall"] >= TICKS[0]]
    runs = [run for run in results.runs if run.k == k and (run.exact or run.reported().recall >= TICKS[0])]
    for engine, (color, marker) in STYLES.items():
        pale = [(spread(r["recall"]), r["mean_ms"]) for r in left if drawn_as(r["engine"]) == engine]
        axes.plot(*np.reshape(pale, (-1, 2)).T, marker, color=color, markersize=4, alpha=0.25)
        here = [run for run in runs if drawn_as(run.engine) == engine]
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
    axes.set_xticks([spread(tick) for tick in TICKS], [f"{tick:g}" for tick in TICKS])
    axes.set(xlabel="recall", ylabel="mean ms per query", title=f"k = {k}, one core (stars: exact; pale: sample only)")
    axes.grid(alpha=0.3, which="both")
    axes.legend(loc="upper left")
    save_figure(figure, path)


def write(lines: Path, docs: Path) -> None:
    """Read JSON lines; print the tables, and write them and the plots to the folder of documents."""
    results = Results.load(lines)
    (docs / "images").mkdir(parents=True, exist_ok=True)
    for k in results.setup["ks"]:
        plot(results, k, docs / "images" / image_name(results, k))
    text = markdown(results)
    page = docs / "benchmarks.md"
    page.write_text(between_markers(page.read_text() if page.exists() else "", text, results.set))
    print(text)
