"""Table 6: many collections that a model was not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from segmax.experiments import paper
from segmax.experiments.base import Cell, Finding, Outcome, Plot, Series, Sheet
from segmax.experiments.collections import Collection
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import (
    Plan,
    Row,
    about_as_good,
    clearly_more,
    every,
    faster,
    ndcg_key,
    similar_note,
    unique_names,
)
from segmax.experiments.rows import measure_rows, zero_shot_rows
from segmax.experiments.task import Task

_DOCS_PER_CLUSTER = 2000
#: What tells how good results are where nothing is judged.
_UNJUDGED = "recall_of_exact"
_METHODS = {"maxscore": "MaxScore", "anytime": "Anytime*", "asc": "ASC"}
#: What collections are called elsewhere, by letters and digits only, and the paper's names of them.
_OTHER_NAMES = {
    "dbpediaentity": "DBPedia",
    "treccovid": "T-COVID",
    "webistouche2020": "Touche-2020",
    "climatefever": "C-FEVER",
}

#: Figures by collection and method, one of `_METHODS`.
Found = Mapping[str, Mapping[str, Row]]


def run(task: Task) -> Outcome:
    """Measure the three methods on every collection."""
    found: dict[int, dict[str, dict[str, Row]]] = {k: {} for k in task.ks}
    records: list[Row] = []
    names = unique_names(task.collections)
    for name, collection in zip(names, task.collections, strict=True):
        plan = _plan(task, collection)
        rows = {k: zero_shot_rows(task, plan, k) for k in task.ks}
        measured = measure_rows(task, collection, rows)
        records += measured.records
        for k in task.ks:
            found[k][name] = {row.key.partition(" ")[0]: measured.rows[k][row.key] for row in rows[k]}
    judged = {name: one.qrels is not None for name, one in zip(names, task.collections, strict=True)}
    quality = {k: {name: ndcg_key(k) if known else _UNJUDGED for name, known in judged.items()} for k in task.ks}
    return Outcome(
        sheets=tuple(_sheet(task, k, found[k], quality[k]) for k in task.ks),
        plots=tuple(_plot(k, found[k]) for k in task.ks),
        findings=tuple(finding for k in task.ks for finding in findings(k, found[k], quality[k])),
        records=records,
    )


def _plan(task: Task, collection: Collection) -> Plan:
    number = task.num_clusters or max(1, round(collection.num_docs / _DOCS_PER_CLUSTER))
    return Plan(num_clusters=min(number, collection.num_docs), num_segments=paper.NUM_SEGMENTS)


def paper_name(name: str) -> str | None:
    """Return what the paper calls a collection; None where it has no such. A comma parts the name from the model's.

    Examples
    --------
    >>> paper_name("trec-covid"), paper_name("nfcorpus, bm25"), paper_name("wiki")
    ('T-COVID', 'NFCorpus', None)
    """
    plain = "".join(filter(str.isalnum, name.partition(",")[0].lower()))
    known = {"".join(filter(str.isalnum, one.lower())): one for one in paper.TABLE_6}
    return _OTHER_NAMES.get(plain, known.get(plain))


def average(found: Found, quality: Mapping[str, str], method: str) -> tuple[float, float]:
    """Return mean quality over the judged collections, or over all if none is, and the mean speed-up over all.

    A speed-up is MaxScore's mean time over the method's.
    """
    judged = [name for name, key in quality.items() if key != _UNJUDGED] or list(quality)
    values = [found[name][method][quality[name]] for name in judged]
    speedups = [faster(rows["maxscore"], rows[method]) for rows in found.values()]
    return sum(values) / len(values), sum(speedups) / len(speedups)


def _sheet(task: Task, k: int, found: Found, quality: Mapping[str, str]) -> Sheet:
    columns = [f"{method} {what}" for method in _METHODS.values() for what in (ndcg_key(k), "MRT ms")]
    lines: list[tuple[Cell, ...]] = []
    for name, collection in zip(found, task.collections, strict=True):
        line: list[Cell] = [name, _plan(task, collection).num_clusters]
        for method in _METHODS:
            line += [found[name][method][quality[name]], found[name][method]["mean_ms"]]
        lines.append((*line, *_paper_cells(collection.name, k)))
    lines.append(_average_line(k, found, quality))
    unjudged = [name for name, key in quality.items() if key == _UNJUDGED]
    dense = "" if task.num_clusters else f"About {_DOCS_PER_CLUSTER:,} documents per cluster. "
    note = f"{dense}8 segments; ASC with η = 1 and μ = {'0.9' if k <= 100 else '0.5'}."
    if unjudged:
        note += (
            f" Without judgements, recall of exact stands in the place of {ndcg_key(k)}: {', '.join(unjudged)}. "
            f"Average {ndcg_key(k)} is that of judged collections, if there are some."
        )
    if k in paper.TABLE_6_AVERAGE:
        note += f" The paper's averages are over its {len(paper.TABLE_6)} collections."
    if k != 10:
        note += " Of other depths than 10 the paper prints averages only."
    return Sheet(
        title=f"Table 6, k = {k}",
        columns=("collection", "clusters", *columns, *(f"paper {column}" for column in columns)),
        rows=tuple(lines),
        note=note,
    )


def _paper_cells(name: str, k: int) -> tuple[Cell, ...]:
    known = paper.TABLE_6.get(paper_name(name) or "")
    if known is None or k != 10:
        return (None,) * 6
    return tuple(value for point in known for value in (point.ndcg, paper.printed(point.ms)))


def _average_line(k: int, found: Found, quality: Mapping[str, str]) -> tuple[Cell, ...]:
    ours: list[Cell] = []
    for method in _METHODS:
        mean, speedup = average(found, quality, method)
        ours += [mean, None if method == "maxscore" else f"{speedup:.2f}x"]
    known = paper.TABLE_6_AVERAGE.get(k)
    theirs: tuple[Cell, ...] = (None,) * 6
    if known is not None:
        anytime, asc = f"{known.anytime_speedup}x", f"{known.asc_speedup}x"
        theirs = (known.maxscore_ndcg, None, known.anytime_ndcg, anytime, known.asc_ndcg, asc)
    return ("average, speed-up", None, *ours, *theirs)


def _plot(k: int, found: Found) -> Plot:
    names = tuple(found)
    return Plot(
        title=f"Times as fast as MaxScore, k = {k}",
        x_label="collection",
        y_label="MaxScore's mean time over the method's",
        kind="bar",
        categories=names,
        series=tuple(
            Series(
                label=_METHODS[method],
                x=tuple(float(place) for place in range(len(names))),
                y=tuple(faster(found[name]["maxscore"], found[name][method]) for name in names),
            )
            for method in ("anytime", "asc")
        ),
    )


def findings(k: int, found: Found, quality: Mapping[str, str]) -> Sequence[Finding]:
    """Tell what of the paper's findings on Table 6 holds.

    Parameters
    ----------
    k
        The depth.
    found
        Figures by collection and method.
    quality
        The figure that tells how good results are, by collection.
    """
    exact, _ = average(found, quality, "maxscore")
    anytime, anytime_speedup = average(found, quality, "anytime")
    asc, asc_speedup = average(found, quality, "asc")
    key = next((key for key in quality.values() if key != _UNJUDGED), _UNJUDGED)
    where = f"k = {k}, {', '.join(found)}"
    return (
        Finding(
            claim="ASC is about as good as MaxScore and faster: 1.54 times at k = 10, 3.12 times at k = 1000.",
            holds=every((clearly_more(asc_speedup, 1.0), about_as_good(asc, exact, key))),
            evidence=f"{where}: {asc:.4f} after {exact:.4f} on average, {asc_speedup:.2f} times as fast; "
            f"{similar_note(key)}.",
        ),
        Finding(
            claim="ASC is at least about as good as Anytime* (2.2 % better at k = 10) and faster.",
            holds=every((clearly_more(asc_speedup, anytime_speedup), about_as_good(asc, anytime, key))),
            evidence=f"{where}: {asc:.4f} and {anytime:.4f} on average, {asc_speedup:.2f} and {anytime_speedup:.2f} "
            "times as fast as MaxScore.",
        ),
    )


EXPERIMENT = Experiment(
    name="zero-shot",
    place="Table 6",
    title="nDCG@10 and time on many collections",
    description="""\
Searches many collections, BEIR folders for instance, given as several --data,
with MaxScore, with Anytime* (μ = 0.9) and with ASC (η = 1; μ = 0.9 up to
k = 100, 0.5 above). Clusters hold about 2,000 documents each, in 8 segments,
unless --clusters says how many there are. The last line has the mean nDCG@10
and, over collections, the mean of MaxScore's time over the method's.

Collections without judgements have recall of exact results in its place.""",
    run=run,
    many=True,
)
