"""Table 4: ASC beside MaxScore, Anytime Ranking and Anytime*, without a time budget."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from segmax.drawing.plot import Plot
from segmax.evaluation import TTest
from segmax.experiments import printed, verdicts
from segmax.experiments.catalog import LISTED
from segmax.experiments.collections import Collection
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import (
    CLUSTERS_VISITED,
    PER_QUERY,
    RECALL_OF_EXACT,
    VISITED,
    Row,
    compared,
    faster,
    heading,
    headings,
    is_faster,
    mrr_key,
    ndcg_key,
    quality_keys,
    quality_note,
    recall_key,
    sentences,
    visited,
)
from segmax.experiments.outcome import Cell, Finding, Outcome, Sheet
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
from segmax.experiments.tested import no_degradation, t_tests, tested_sheets
from segmax.experiments.verdicts import counted, every, finding, is_as_good, is_more

#: Names of the TREC deep learning tracks, such as "trec-dl-2019": Table 4 has columns for them beside MS MARCO Dev.
_TRACK = re.compile(r"(?:^|[^a-z]|trec)dl[-_ ']*(?:20)?(19|20)(?!\d)")
_SKIPPED = 0.1  # the paper's ASC visits a smaller share of its 4096 clusters


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
                sheet
                for k in task.ks
                for sheet in tested_sheets(f"t-tests, k = {k}", tests[k], {row.key: row.label for row in rows[k]})
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
            one
            for k in task.ks
            for one in (
                *findings(k, measured.rows[k], _measures(collection, k)),
                no_degradation(f"k = {k}", tests[k]),
            )
        ),
        records=measured.records,
    )


def _measures(collection: Collection, k: int) -> list[str]:
    """Return the figures that measure quality: MRR@10 and recall, or what replaces them without judgments."""
    return [key for key in quality_keys(collection, k) if collection.qrels is None or key != RECALL_OF_EXACT]


def _tests(rows: Sequence[MethodRow], found: Mapping[str, Row]) -> list[TTest]:
    """Test approximate ASC against MaxScore and against Anytime* of the same table."""
    approximate = [row.key for row in rows if row.kind == APPROXIMATE]
    ours = [key for key in approximate if key.startswith("asc")]
    baselines = ["maxscore", *(key for key in approximate if key not in ours)]
    return t_tests(found, list(product(ours, baselines)))


def _sheet(collection: Collection, k: int, rows: Sequence[MethodRow], found: Mapping[str, Row], note: str) -> Sheet:
    track = track_of(collection.name)
    measure = mrr_key(k) if track == "dev" else ndcg_key(k)
    quality = [measure if key == mrr_key(k) else key for key in quality_keys(collection, k)]
    keys = (VISITED, *quality, "mean_ms", "p99_ms")
    known = ("paper C%", f"paper {measure}", f"paper Recall@{k}", "paper MRT ms", "paper P99 ms")
    values = {key: _values(row, track) for key, row in printed.TABLE_4.get(k, {}).items()}
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


def _values(row: printed.Baseline, track: str) -> tuple[Cell, ...]:
    relevance: printed.Relevance = getattr(row, track)
    p99 = row.p99_ms if track == "dev" else None
    shown = printed.three_digits
    return shown(row.visited), relevance.quality, relevance.recall, shown(relevance.ms), shown(p99)


class _Pair(NamedTuple):
    """Two approximate methods that the paper compares: keys of rows, how much faster ASC is, and its gain of relevance.

    `gains` has what ASC gains according to the paper, a value per measure; without gains ASC is "about as good".
    """

    anytime: str
    asc: str
    faster: str
    gains: tuple[str, ...] = ()


_PAIRS: Mapping[int, tuple[_Pair, ...]] = {
    10: (_Pair("0.9", "0.9", "by 25 %", ("3.9 %", "11 %")),),
    1000: (_Pair("0.9", "0.7", "1.2 times"), _Pair("0.7", "0.5", "1.7 times")),
}


def findings(k: int, found: Mapping[str, Row], measures: Sequence[str]) -> tuple[Finding, ...]:
    """Return which of the paper's findings on Table 4 hold.

    Parameters
    ----------
    k
        The depth.
    found
        Figures by key of the row.
    measures
        The figures that measure quality: MRR@10 and recall, or what replaces them without judgments.
    """
    pairs = _PAIRS[paper_depth(k)]
    compared_pairs = (one for pair in pairs for one in _pair(k, pair, found, measures))
    return (*_safe(k, found), *compared_pairs, *_against_maxscore(k, found, f"asc {pairs[-1].asc}", measures))


_SAFE = ("maxscore input order", "maxscore", "anytime", "asc", "anytime fine", "asc fine")


def _safe(k: int, found: Mapping[str, Row]) -> tuple[Finding, ...]:
    least = min(found[key][RECALL_OF_EXACT] for key in _SAFE)
    anytime, asc = found["anytime"], found["asc"]
    fine = found["anytime fine"], found["asc fine"]
    best = tuple(min(pair, key=lambda row: row["mean_ms"]) for pair in ((anytime, fine[0]), (asc, fine[1])))
    return (
        finding(
            "Rank-safe methods return what exhaustive search returns.",
            counted(least == 1.0, "a single missing result refutes it"),
            f"k = {k}: the least recall of exact among them is {least:.4f}.",
        ),
        finding(
            "With μ = η = 1, segments let ASC prune more clusters than Anytime Ranking does by cluster maxima.",
            is_more(compared(anytime, asc, CLUSTERS_VISITED)),
            f"k = {k}: ASC visits {visited(asc):.1f} % of clusters, Anytime Ranking {visited(anytime):.1f} %.",
        ),
        _safe_times(k, "both on few clusters, as in the paper", anytime, asc),
        _safe_times(k, "both on many clusters", *fine),
        _safe_times(k, "each on the clusters that suit it better", *best),
    )


def _safe_times(k: int, where: str, anytime: Row, asc: Row) -> Finding:
    saved = "27 % at k = 10" if paper_depth(k) == 10 else "8.6 % at k = 1000"
    return finding(
        f"With μ = η = 1, ASC is faster than Anytime Ranking ({saved}).",
        is_faster(anytime, asc),
        f"k = {k}, {where}: ASC takes {asc['mean_ms']:.3g} ms, Anytime Ranking {anytime['mean_ms']:.3g}: "
        f"{asc['mean_ms'] / anytime['mean_ms'] - 1:+.0%} for ASC.",
    )


def _pair(k: int, pair: _Pair, found: Mapping[str, Row], measures: Sequence[str]) -> tuple[Finding, ...]:
    """Return whether ASC is faster than Anytime*, and whether each measure is higher, or about as high."""
    anytime, asc = found[f"anytime {pair.anytime}"], found[f"asc {pair.asc}"]
    methods = f"ASC with μ = {pair.asc}", f"Anytime* with μ = {pair.anytime}"
    conclusions = [
        finding(
            f"{methods[0]} is faster than {methods[1]} ({pair.faster}).",
            is_faster(anytime, asc),
            f"k = {k}: ASC takes {asc['mean_ms']:.3g} ms, Anytime* {anytime['mean_ms']:.3g} ms: "
            f"{faster(anytime, asc):.2f} times as fast.",
        )
    ]
    gains = pair.gains[-len(measures) :] if pair.gains else ("",) * len(measures)
    for measure, gain in zip(measures, gains, strict=True):
        both = compared(asc, anytime, measure)
        evidence = f"k = {k}: {both.first:.4f} and {both.second:.4f}."
        if gain:
            claim = f"{methods[0]} has a higher {heading(measure)} than {methods[1]} (by {gain})."
            conclusions.append(finding(claim, is_more(both), evidence))
        else:
            claim = f"{methods[0]} has about as much {heading(measure)} as {methods[1]}."
            conclusions.append(finding(claim, is_as_good(both, measure), evidence))
    return tuple(conclusions)


def _against_maxscore(k: int, found: Mapping[str, Row], ours: str, measures: Sequence[str]) -> tuple[Finding, ...]:
    exact, plain, asc = found["maxscore"], found["maxscore input order"], found[ours]
    losses = {measure: compared(asc, exact, measure) for measure in measures}
    listed = ", ".join(f"{heading(m)} {both.first:.4f} after {both.second:.4f}" for m, both in losses.items())
    skipped = verdicts.compared(_SKIPPED, asc[PER_QUERY][CLUSTERS_VISITED])
    return (
        finding(
            "ASC is faster than MaxScore, up to 3.0 times, for a small loss of relevance.",
            every(is_faster(exact, asc), *(is_as_good(both, measure) for measure, both in losses.items())),
            f"k = {k}: {faster(exact, asc):.2f} times as fast, with {listed}.",
        ),
        finding(
            "On many small clusters ASC skips more than 90 % of them.",
            is_more(skipped),
            f"k = {k}: it visits {visited(asc):.1f} %.",
        ),
        finding(
            "Similar documents as neighbors shorten MaxScore's time, by 10 to 15 %.",
            is_faster(plain, exact),
            f"k = {k}: {exact['mean_ms']:.3g} ms in similarity order, {plain['mean_ms']:.3g} in input order.",
        ),
    )


EXPERIMENT = Experiment(
    **LISTED["baselines"]._asdict(),
    description="""\
Measures every row of Table 4 at each depth k: the rank-safe methods (MaxScore
on documents in input order and in similarity order, Anytime Ranking, ASC with
μ = η = 1), then Anytime* and ASC with μ < 1 and η = 1. Anytime Ranking has
few large clusters, as in the paper, and approximate ASC eight times as many;
both exact methods are measured on these as well. The last rows are segmax's
own methods, which the paper does not have.

Needs a collection. With judgments it reports MRR@10 and Recall@k, without them
the share of the results of exhaustive search that each method finds.""",
    run=run,
)
