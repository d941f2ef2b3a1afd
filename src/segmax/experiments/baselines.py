"""Table 4: ASC beside MaxScore, Anytime Ranking and Anytime*, without a time budget."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from segmax.evaluation import TTest
from segmax.experiments import paper
from segmax.experiments.base import Cell, Finding, Outcome, Plot, Sheet
from segmax.experiments.collections import Collection
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import (
    VISITED,
    Row,
    about_as_good,
    every,
    faster,
    finds_more,
    heading,
    headings,
    is_faster,
    mrr_key,
    ndcg_key,
    quality_keys,
    quality_note,
    recall_key,
    sentences,
    similar_note,
    visited,
)
from segmax.experiments.rows import (
    APPROXIMATE,
    MethodRow,
    baseline_rows,
    clusters_note,
    measure_rows,
    paper_depth,
    plans,
    points,
    table,
)
from segmax.experiments.task import Task
from segmax.experiments.tested import no_degradation, t_tests, tests_sheet

#: What tells the TREC deep learning tracks, whose columns Table 4 has beside those of MS MARCO Dev: "trec-dl-2019".
_TRACK = re.compile(r"(?:^|[^a-z]|trec)dl[-_ ']*(?:20)?(19|20)(?!\d)")
_SKIPPED = 10  # percent: the paper's ASC visits fewer than so many of its 4096 clusters


def run(task: Task) -> Outcome:
    """Measure all rows of Table 4 at every depth."""
    collection = task.collection
    rows = {k: baseline_rows(task, collection, k) for k in task.ks}
    measured = measure_rows(task, collection, rows)
    recalls = {k: recall_key(collection, k) for k in task.ks}
    note = sentences(
        clusters_note(plans(task, collection)),
        "MaxScore in similarity order is the paper's MaxScore; documents inside clusters are found by "
        f"{'MaxScore, as in the paper' if task.documents == 'maxscore' else 'block bounds, our way'}.",
        quality_note(collection),
    )
    tests = {k: _tests(rows[k], measured.rows[k]) for k in task.ks}
    return Outcome(
        sheets=(
            *(_sheet(collection, k, rows[k], measured.rows[k], note if k == task.ks[0] else "") for k in task.ks),
            *(
                tests_sheet(f"t-tests, k = {k}", tests[k], {row.key: row.label for row in rows[k]})
                for k in task.ks
                if tests[k]
            ),
        ),
        plots=tuple(
            Plot(
                title=f"Recall against time, k = {k}",
                x_label="mean time, ms",
                y_label=heading(recalls[k]),
                series=points(rows[k], measured.rows[k], recalls[k]),
                kind="scatter",
            )
            for k in task.ks
        ),
        findings=tuple(
            finding
            for k in task.ks
            for finding in (*findings(k, measured.rows[k], recalls[k]), no_degradation(k, tests[k]))
        ),
        records=measured.records,
    )


def _tests(rows: Sequence[MethodRow], found: Mapping[str, Row]) -> list[TTest]:
    """Test approximate ASC against MaxScore, and against Anytime* of the same table."""
    approximate = [row.key for row in rows if row.kind == APPROXIMATE]
    ours = [key for key in approximate if key.startswith("asc")]
    return t_tests(found, ours, ["maxscore", *(key for key in approximate if key not in ours)])


def _sheet(collection: Collection, k: int, rows: Sequence[MethodRow], found: Mapping[str, Row], note: str) -> Sheet:
    track = track_of(collection.name)
    measure = mrr_key(k) if track == "dev" else ndcg_key(k)
    quality = [measure if key == mrr_key(k) else key for key in quality_keys(collection, k)]
    keys = (VISITED, *quality, "mean_ms", "p99_ms")
    known = ("paper C%", f"paper {measure}", f"paper Recall@{k}", "paper MRT ms", "paper P99 ms")
    values = {key: _values(row, track) for key, row in paper.TABLE_4.get(k, {}).items()}
    return Sheet(
        title=f"Table 4, k = {k}, no time budget",
        columns=("method", *headings(keys), *(known if values else ())),
        rows=table(rows, found, keys, values),
        note=note if values else sentences(note, f"The paper has no values for k = {k}."),
    )


def track_of(name: str) -> str:
    """Return which columns of Table 4 belong to a collection, by its name: "dl19", "dl20" or "dev".

    Examples
    --------
    >>> track_of("msmarco-passage/trec-dl-2019/judged"), track_of("DL20, SPLADE"), track_of("webis-touche2020")
    ('dl19', 'dl20', 'dev')
    """
    found = _TRACK.search(name.lower())
    return f"dl{found[1]}" if found else "dev"


def _values(row: paper.Baseline, track: str) -> tuple[Cell, ...]:
    relevance: paper.Relevance = getattr(row, track)
    p99 = row.p99_ms if track == "dev" else None
    shown = paper.printed
    return shown(row.visited), relevance.quality, relevance.recall, shown(relevance.ms), shown(p99)


def findings(k: int, found: Mapping[str, Row], recall: str) -> tuple[Finding, ...]:
    """Tell what of the paper's findings on Table 4 holds.

    Parameters
    ----------
    k
        The depth.
    found
        Figures by key of the row.
    recall
        The figure that stands for recall.
    """
    if paper_depth(k) == 10:
        ours = "asc 0.9"
        pairs = [
            _pair(
                k,
                "ASC with μ = 0.9 is faster than Anytime* with μ = 0.9 (by 25 %) and finds more (11 % more recall).",
                (found["anytime 0.9"], found["asc 0.9"]),
                recall,
                more=True,
            )
        ]
    else:
        ours = "asc 0.5"
        pairs = [
            _pair(
                k,
                f"ASC with μ = {asc} is faster than Anytime* with μ = {anytime} ({times} times) and about as good.",
                (found[f"anytime {anytime}"], found[f"asc {asc}"]),
                recall,
                more=False,
            )
            for anytime, asc, times in (("0.9", "0.7", "1.2"), ("0.7", "0.5", "1.7"))
        ]
    return (*_safe(k, found), *pairs, *_against_maxscore(k, found, ours, recall))


def _safe(k: int, found: Mapping[str, Row]) -> tuple[Finding, ...]:
    anytime, asc = found["anytime"], found["asc"]
    exact = ("maxscore input order", "maxscore", "anytime", "asc")
    least = min(found[key]["recall_of_exact"] for key in exact)
    saved = "27 % at k = 10" if paper_depth(k) == 10 else "8.6 % at k = 1000"
    return (
        Finding(
            claim="Rank-safe methods return what exhaustive search returns.",
            holds=least == 1.0,
            evidence=f"k = {k}: the least recall of exact among them is {least:.4f}.",
        ),
        Finding(
            claim="With μ = η = 1, segments let ASC prune more clusters than Anytime Ranking does by cluster maxima.",
            holds=asc["clusters_visited"] < anytime["clusters_visited"],
            evidence=f"k = {k}: ASC visits {visited(asc):.1f} % of clusters, Anytime Ranking {visited(anytime):.1f} %.",
        ),
        Finding(
            claim=f"With μ = η = 1, ASC is faster than Anytime Ranking ({saved}).",
            holds=is_faster(anytime, asc),
            evidence=f"k = {k}: ASC takes {asc['mean_ms']:.3g} ms, Anytime Ranking {anytime['mean_ms']:.3g}.",
        ),
    )


def _pair(k: int, claim: str, methods: tuple[Row, Row], recall: str, *, more: bool) -> Finding:
    """Tell whether ASC is faster than Anytime* and finds more, or at least about as much."""
    anytime, asc = methods
    found = asc[recall], anytime[recall]
    enough = finds_more(*found) if more else about_as_good(*found, recall)
    return Finding(
        claim=claim,
        holds=every((is_faster(anytime, asc), enough)),
        evidence=f"k = {k}: ASC takes {asc['mean_ms']:.3g} ms and has {heading(recall)} {asc[recall]:.4f}, "
        f"Anytime* {anytime['mean_ms']:.3g} ms and {anytime[recall]:.4f}: {faster(anytime, asc):.2f} times as fast.",
    )


def _against_maxscore(k: int, found: Mapping[str, Row], ours: str, recall: str) -> tuple[Finding, ...]:
    exact, plain, asc = found["maxscore"], found["maxscore input order"], found[ours]
    return (
        Finding(
            claim="ASC is faster than MaxScore, up to 3.0 times, for a small loss of relevance.",
            holds=every((is_faster(exact, asc), about_as_good(asc[recall], exact[recall], recall))),
            evidence=f"k = {k}: {faster(exact, asc):.2f} times as fast, with {heading(recall)} "
            f"{asc[recall]:.4f} after {exact[recall]:.4f}; {similar_note(recall)}.",
        ),
        Finding(
            claim="On many small clusters ASC skips more than 90 % of them.",
            holds=visited(asc) < _SKIPPED,
            evidence=f"k = {k}: it visits {visited(asc):.1f} %.",
        ),
        Finding(
            claim="Similar documents as neighbours shorten MaxScore's time, by 10 to 15 %.",
            holds=is_faster(plain, exact),
            evidence=f"k = {k}: {exact['mean_ms']:.3g} ms in similarity order, {plain['mean_ms']:.3g} in input order.",
        ),
    )


EXPERIMENT = Experiment(
    name="baselines",
    place="Table 4",
    title="ASC beside MaxScore, Anytime Ranking and Anytime*, without a time budget",
    description="""\
Measures every row of Table 4 at each depth k: the rank-safe methods (MaxScore
on documents in input order and in similarity order, Anytime Ranking, ASC with
μ = η = 1), then Anytime* and ASC with μ < 1 and η = 1. Anytime Ranking has
few large clusters, as in the paper, and approximate ASC eight times as many.
The last rows are what segmax does by itself, past the paper.

Needs a collection; with judgements it tells MRR@10 and Recall@k, without them
the share of the results of exhaustive search that each method finds.""",
    run=run,
)
