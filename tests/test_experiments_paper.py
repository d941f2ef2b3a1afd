"""The experiments on the paper's Tables 2 to 7, Figures 3 and 6 and section 4.4: what they run, print and conclude."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from conftest import topic_docs
from segmax.experiments import (
    baselines,
    budgets,
    clustering,
    models,
    overestimation,
    paper,
    parameters,
    segmentation,
    static_pruning,
    zero_shot,
)
from segmax.experiments.base import Finding, Outcome
from segmax.experiments.collections import Collection
from segmax.experiments.curves import Curve, scaled_clusters, scaling_note
from segmax.experiments.measuring import Plan, Row, about_as_good, finds_more, is_faster, measure, unique_names
from segmax.experiments.rows import budget_rows, plans
from segmax.experiments.task import Task
from segmax.experiments.tested import no_degradation, t_tests
from segmax.questions import Questions

MODULES = {
    module.EXPERIMENT.name: module
    for module in (
        overestimation,
        clustering,
        segmentation,
        baselines,
        models,
        zero_shot,
        parameters,
        budgets,
        static_pruning,
    )
}
NUM_DOCS = 800
NUM_QUERIES = 12
LABELLED = 20


def collection(folder: Path, *, judged: bool, name: str = "tiny", seed: int = 3) -> Collection:
    """Documents of 40 topics, some of them as queries, with a dense vector each and clusters that are known."""
    rng = np.random.default_rng(seed)
    docs, topics = topic_docs(rng, NUM_DOCS)
    rows = rng.choice(NUM_DOCS, NUM_QUERIES, replace=False)
    dense = folder / f"{name}-{seed}.npy"
    np.save(dense, np.eye(40, dtype=np.float32)[topics])
    names = [f"q{row}" for row in range(NUM_QUERIES)]
    qrels = {query: {str(row): 1} for query, row in zip(names, rows.tolist(), strict=True)}
    return Collection(
        name=name,
        documents=docs,
        questions=Questions(names, docs[rows]),
        num_docs=NUM_DOCS,
        qrels=qrels if judged else None,
        drop_self=False,
        dense={"max": dense},
        labels={"cls": {LABELLED: topics % LABELLED}},
        fingerprint=f"{name}-{seed}-{judged}",
    )


def quick(*collections: Collection) -> Task:
    """A task in quick form, timed once."""
    return Task(collections=collections, quick=True, ks=(10, 1000), passes=1)


# --- running ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("judged", [True, False], ids=["judged", "unjudged"])
@pytest.mark.parametrize("name", MODULES)
def test_runs_in_quick_form(name: str, judged: bool, tmp_path: Path) -> None:
    """Every experiment runs on a tiny collection and returns tables, plots, findings with figures, and records."""
    experiment = MODULES[name].EXPERIMENT
    given = [collection(tmp_path, judged=judged)]
    if experiment.many:
        given.append(collection(tmp_path, judged=judged, name="nfcorpus", seed=4))
    outcome = experiment.run(quick(*given))
    assert outcome.sheets
    assert outcome.plots
    assert outcome.findings
    assert outcome.records
    assert all(re.search(r"\d", finding.evidence) for finding in outcome.findings if finding.holds is not None)
    assert Outcome.from_dict(json.loads(json.dumps(outcome.to_dict()))) == outcome
    notes = " ".join(sheet.note for sheet in outcome.sheets)
    if name not in ("clustering", "zero-shot"):
        assert ("no judgements" in notes) != judged
    if name in ("overestimation", "parameters"):
        assert "It prints no values" in notes
    else:
        assert any(column.startswith("paper ") or " paper " in column for column in outcome.sheets[0].columns)


@pytest.mark.parametrize("name", MODULES)
def test_runs_at_a_depth_below_10(name: str, tmp_path: Path) -> None:
    """Of five results there is MRR@5 and nDCG@5, and every experiment shows what it shows of ten."""
    outcome = MODULES[name].EXPERIMENT.run(
        dataclasses.replace(quick(collection(tmp_path, judged=True, name="nfcorpus")), ks=(5,))
    )
    columns = [column for sheet in outcome.sheets for column in sheet.columns]
    assert not any(column.endswith(("MRR@10", "nDCG@10")) for column in columns if "paper" not in column)
    assert outcome.findings


@pytest.mark.parametrize("name", MODULES)
def test_resumes(name: str, tmp_path: Path) -> None:
    """A second run with the same steps computes nothing, builds nothing, and says the same."""
    experiment = MODULES[name].EXPERIMENT
    task = quick(collection(tmp_path, judged=True))
    first = experiment.run(task)
    computed = task.steps.num_computed
    assert computed > 0
    again = dataclasses.replace(task, collections=(dataclasses.replace(task.collection, documents=None),))
    assert experiment.run(again) == first
    assert task.steps.num_computed == computed


@pytest.mark.parametrize("name", MODULES)
def test_describes_itself(name: str) -> None:
    """Names, places and descriptions are fit for the command line: lines of at most 80 characters."""
    experiment = MODULES[name].EXPERIMENT
    assert experiment.place
    assert not experiment.title.endswith(".")
    assert max(map(len, experiment.description.splitlines())) <= 80
    assert experiment.many == (name in ("models", "zero-shot"))


def test_means_over_seeds(tmp_path: Path) -> None:
    """Figures are means over the seeds, whose own figures are in the records."""
    tiny = collection(tmp_path, judged=True)
    task = dataclasses.replace(quick(tiny), seeds=(0, 1, 2))
    found = measure(task, tiny, Plan(num_clusters=20), {10: {"asc": task.asc(0.5)}})
    assert [record["seed"] for record in found.records] == [0, 1, 2]
    shares = [record["clusters_visited"] for record in found.records]
    assert len(set(shares)) > 1
    assert found.rows[10]["asc"]["clusters_visited"] == pytest.approx(np.mean(shares))
    assert found.rows[10]["asc"]["name"] == "asc"


def test_rows_of_table_4(tmp_path: Path) -> None:
    """Table 4 has the paper's rows in its order, MaxScore in both orders, and what segmax does by itself."""
    outcome = baselines.run(quick(collection(tmp_path, judged=False)))
    assert [row[0] for row in outcome.sheets[1].rows] == [
        "MaxScore, input order",
        "MaxScore, similarity order",
        "Anytime-3",
        "ASC-3*16, μ=η=1",
        "Anytime*-3, μ=0.9",
        "ASC-25*8, μ=0.7, η=1",
        "Anytime*-3, μ=0.7",
        "ASC-25*8, μ=0.5, η=1",
        "segmax.ASC(), the default",
        "segmax.BestFirst(eta=0.9)",
    ]
    assert outcome.findings[0].holds is True  # safe methods are safe


def test_tracks_have_their_own_columns(tmp_path: Path) -> None:
    """Beside a collection of the TREC tracks stand the paper's values for it, with nDCG@10."""
    sheet = baselines.run(quick(collection(tmp_path, judged=True, name="trec-dl-2019"))).sheets[0]
    shown = dict(zip(sheet.columns, sheet.rows[1], strict=True))
    assert (shown["paper nDCG@10"], shown["paper Recall@10"], shown["paper MRT ms"]) == (0.7398, 0.1764, "26.3")
    assert shown["nDCG@10"] is not None


@pytest.mark.parametrize(
    ("name", "track"),
    [
        ("msmarco-passage/trec-dl-2019/judged", "dl19"),
        ("trec-dl-2020", "dl20"),
        ("DL'19", "dl19"),
        ("trecdl20", "dl20"),
        ("dl_2019, SPLADE-v3", "dl19"),
        ("webis-touche2020", "dev"),
        ("handl2019", "dev"),
        ("news-2019", "dev"),
        ("dl200", "dev"),
    ],
)
def test_tracks_are_told_by_their_names(name: str, track: str) -> None:
    """Only a deep learning track has its columns, not everything of its year."""
    assert baselines.track_of(name) == track


def test_other_depths_have_no_values_of_the_paper(tmp_path: Path) -> None:
    """At a depth that the paper does not have, tables show ours alone and say so."""
    task = dataclasses.replace(quick(collection(tmp_path, judged=True)), ks=(20,))
    for name in ("baselines", "models", "budgets"):
        sheet = MODULES[name].EXPERIMENT.run(task).sheets[0]
        assert not any(column.startswith("paper") for column in sheet.columns), name


# --- what is compared -------------------------------------------------------------------------------------------------


def test_clusters_of_known_labels(tmp_path: Path) -> None:
    """Where clusters are given, all representations are compared at their number; missing ones are named."""
    outcome = clustering.run(quick(collection(tmp_path, judged=False)))
    (sheet,) = outcome.sheets
    assert f"on {LABELLED} clusters" in sheet.title
    assert [row[0] for row in sheet.rows] == ["Sparse-SPLADE", "Dense-SPLADE-CLS", "Dense-SPLADE-Max"]
    assert "segmax encode --dense mean" in sheet.note
    assert "simlm" in sheet.note
    assert {record["num_segments"] for record in outcome.records} == {1, 8}


def test_numbers_of_clusters_are_scaled() -> None:
    """Numbers that leave fewer than 16 documents per cluster are scaled down alike, and that is said."""
    large = _sized(8_800_000)
    assert scaled_clusters(Task(), large, paper.FIGURE_3_CLUSTERS) == {m: m for m in paper.FIGURE_3_CLUSTERS}
    assert scaling_note({256: 256}) == ""
    small = scaled_clusters(Task(), _sized(4096), paper.FIGURE_3_CLUSTERS)
    assert small == {256: 16, 512: 32, 1024: 64, 2048: 128, 4096: 256}
    assert "16 for 256" in scaling_note(small)
    for chosen in (100, 8192):
        assert max(scaled_clusters(Task(num_clusters=chosen), large, paper.FIGURE_3_CLUSTERS).values()) == chosen
    assert max(scaled_clusters(Task(num_clusters=100_000), _sized(3633), paper.FIGURE_3_CLUSTERS).values()) == 3633
    assert scaled_clusters(Task(), _sized(1), paper.FIGURE_3_CLUSTERS) == {4096: 1}


def test_no_table_tells_more_clusters_than_are_built(tmp_path: Path) -> None:
    """Where more clusters are wanted than there are documents, Table 6 tells one per document."""
    task = dataclasses.replace(quick(collection(tmp_path, judged=True)), num_clusters=100_000, ks=(10,))
    assert zero_shot.run(task).sheets[0].rows[0][1] == NUM_DOCS


def test_averages_of_the_paper_are_over_its_collections(tmp_path: Path) -> None:
    """Beside averages of a few collections it is said that the paper's are of 13; a model's name hides none."""
    (sheet,) = zero_shot.run(
        dataclasses.replace(quick(collection(tmp_path, judged=True, name="NFCorpus, SPLADE-v3")), ks=(10,))
    ).sheets
    assert "averages are over its 13 collections" in sheet.note
    assert dict(zip(sheet.columns, sheet.rows[0], strict=True))["paper ASC MRT ms"] == "0.17"


def _sized(num_docs: int) -> Collection:
    return Collection(name="c", documents=None, questions=Questions([], []), num_docs=num_docs)


def test_collections_of_one_name_are_told_apart() -> None:
    """Two collections of the same name get different ones, so that none hides another."""
    assert unique_names([_sized(1), _sized(2), _sized(3)]) == ["c", "c #2", "c #3"]


# --- the paper's values -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tex() -> str:
    """The paper's source; the test is skipped where it is absent."""
    path = Path(__file__).resolve().parents[2] / "shared" / "paper.tex"
    if not path.is_file():
        pytest.skip("needs the paper's source beside the project")
    return path.read_text(encoding="utf-8")


def numbers(tex: str, label: str) -> list[list[float]]:
    """Return the numbers of every line of a table, past its first field."""
    block = tex[tex.index(f"\\label{{{label}}}") :]
    lines = [line.split("&")[1:] for line in block[: block.index("\\end{table")].split("\\\\")]
    filled = [" ".join(fields) for fields in lines if fields]
    values = [line for line in filled if "\\textbf" not in line and "\\multicolumn" not in line and "frac" not in line]
    return [[float(number) for number in re.findall(r"\d*\.?\d+", line)] for line in values]


def flat(values: object) -> list[float]:
    """Return all numbers of nested tuples."""
    if isinstance(values, tuple):
        return [number for value in values for number in flat(value)]
    return [] if values is None else [float(values)]  # type: ignore[arg-type]


def test_tables_are_the_papers(tex: str) -> None:
    """Tables 2 to 7 hold every number that the paper prints, in its order."""
    assert numbers(tex, "tab:clustering") == [flat(row) for row in paper.TABLE_2.values()]
    ratios = [flat(paper.TABLE_3_RATIOS[kind]) for kind in ("random", "kmeans")]
    assert numbers(tex, "tab:segmentrandom") == [flat(row) for row in paper.TABLE_3.values()] + ratios
    table_4 = [
        flat((row.visited, row.dev, row.p99_ms, row.dl19, row.dl20))
        for rows in paper.TABLE_4.values()
        for row in rows.values()
    ]
    assert numbers(tex, "tab:msmarco") == table_4
    assert numbers(tex, "tab:sparsemodel") == [flat(row) for rows in paper.TABLE_5.values() for row in rows.values()]
    averages = [flat(paper.TABLE_6_AVERAGE[k]) for k in (10, 1000)]
    assert numbers(tex, "tab:beir") == [flat(row) for row in paper.TABLE_6.values()] + averages
    assert numbers(tex, "tab:ortho") == [flat(row) for rows in paper.TABLE_7.values() for row in rows.values()]


def test_digits_are_the_papers(tex: str) -> None:
    """Times, shares and ratios are shown as the paper prints them."""
    rows = [flat(row) for row in paper.TABLE_2.values()]
    shown = [paper.printed(ms) for row in rows for ms in row[::2]]
    for rows_4 in paper.TABLE_4.values():
        shown += [
            paper.printed(v) for r in rows_4.values() for v in (r.visited, r.dev.ms, r.p99_ms, r.dl19.ms, r.dl20.ms)
        ]
    shown += [paper.printed(relevance.ms) for row in paper.TABLE_3.values() for relevance in row]
    shown += [paper.printed(point.ms) for row in paper.TABLE_6.values() for point in row]
    shown += [paper.printed(v) for t in paper.TABLE_7.values() for r in t.values() for v in (r.ms, r.p99_ms)]
    shown += [paper.printed(v) for ratios in paper.TABLE_3_RATIOS.values() for v in ratios]
    shown += [paper.printed_roughly(v.ms) for t in paper.TABLE_5.values() for r in t.values() for v in r]
    printed = set(re.findall(r"[0-9.]+", tex))
    assert {text for text in shown if text is not None} <= printed


def test_names_are_the_papers(tex: str) -> None:
    """Representations, models and collections are called as the paper calls them."""
    for name in (*paper.TABLE_2, *paper.TABLE_5_MODELS, *paper.TABLE_6):
        assert name in tex, name


def test_values_in_sentences_are_the_papers(tex: str) -> None:
    """Sections 3.2 and 4.4, budgets and captions say what is copied from them."""
    text = " ".join(tex.split())
    space, pruned = paper.SECTION_3_2, paper.SECTION_4_4
    for phrase in (
        f"about {space.extra_mb:g}MB extra space",
        f"from about {space.maxscore_gb}GB for MaxScore without clustering to {space.asc_gb}GB for ASC",
        f"This {space.overhead_percent:g}\\% space overhead",
        f"{space.weight_bytes} byte for each weight",
        f"HT3 has {pruned.maxscore_mrr} MRR@10",
        f"latency of {pruned.maxscore_ms}ms for retrieval depth $k=1000$",
        f"by {pruned.speedup}x to {pruned.asc_ms}ms",
        f"degrades to {pruned.asc_mrr} MRR@10",
        *(f"time budget {ms:g}ms for $k={k}$" for k, ms in paper.TABLE_7_BUDGET.items()),
        "$\\mu$ varies from 0.3, 0.5, 0.7, 0.9, to 1 for each fixed number of clusters",
        "$\\mu$ increased from left to right as 0.4, 0.5, 0.6, 0.7, and 1",
        "from 256 to 4096",
    ):
        assert phrase in text, phrase


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_tie_is_no_difference() -> None:
    """Times within 4 % of each other tell nothing, whichever is the longer."""
    assert [is_faster(row(ms), row(100.0)) for ms in (90.0, 97.0, 100.0, 103.9, 105.0)] == [
        *(False, None, None, None, True),
    ]


def test_nothing_is_not_as_good_as_nothing() -> None:
    """Where the reference finds nothing, it cannot be told whether something is lost."""
    assert about_as_good(0.0, 0.0, "MRR@10") is None
    assert finds_more(0.0, 0.0) is None
    assert finds_more(0.7, 0.7) is None
    blind = {mu: row(1.0, 0.0) for mu in paper.FIGURE_3_MU}
    assert overestimation.findings([Curve("blind", Plan(num_clusters=2), blind)], "R")[0].holds is None
    same = {kind: {mu: row(1.0, 0.0) for mu in paper.TABLE_3} for kind in ("kmeans", "random")}
    ratios = {kind: {"tightness": 1.0, "gap of means": 0.0} for kind in same}
    assert holds(segmentation.findings(same, ratios, "R"))[:2] == [None, None]


def test_one_query_is_too_few_for_t_tests() -> None:
    """With one query no finding about significance is told, but why."""
    finding = no_degradation(10, t_tests({"asc": {"per_query": {"MRR@10": [1.0]}}}, ["asc"], ["maxscore"]))
    assert finding.holds is None
    assert "need at least 2 queries" in finding.evidence


# --- findings ---------------------------------------------------------------------------------------------------------


def row(ms: float, recall: float = 1.0, visited: float = 50.0, **more: float) -> Row:
    """Figures of a method."""
    measured = {"mean_ms": ms, "p99_ms": 2 * ms, "recall_of_exact": 1.0, "clusters_visited": visited / 100}
    return {**measured, "R": recall, **more}


def holds(findings: Iterable[Finding]) -> list[bool | None]:
    """What findings say, in their order."""
    return [finding.holds for finding in findings]


def table_4(k: int) -> dict[str, Row]:
    """The paper's own figures."""
    found = {key: row(v.dev.ms, v.dev.recall, v.visited or 0) for key, v in paper.TABLE_4[k].items()}
    return {**found, "maxscore input order": row(1.12 * found["maxscore"]["mean_ms"])}


@pytest.mark.parametrize("k", [10, 1000])
def test_findings_on_table_4(k: int) -> None:
    """With the paper's figures all findings hold; with figures against one, that one does not."""
    found = table_4(k)
    assert all(holds(baselines.findings(k, found, "R")))
    unsafe = {**found, "asc": {**found["asc"], "recall_of_exact": 0.999}}
    assert holds(baselines.findings(k, unsafe, "R"))[0] is False
    loose = {**found, "asc": row(500.0, visited=100)}
    assert holds(baselines.findings(k, loose, "R"))[1:3] == [False, False]
    ours = "asc 0.9" if k == 10 else "asc 0.5"
    for changed in (row(500.0, found[ours]["R"]), row(1.0, 0.1)):  # slow, or bad
        told = baselines.findings(k, {**found, ours: changed}, "R")
        assert False in holds(told)[3:-3]
        assert holds(told)[-3:-1] == [False, False]
    told = baselines.findings(k, {**found, ours: row(1.0, recall_of_exact=0.9)}, "recall_of_exact")
    assert holds(told)[-3] is None  # exact results may be lost without a loss of relevance
    ordered = {**found, "maxscore input order": row(1.0)}
    assert holds(baselines.findings(k, ordered, "R"))[-1] is False


def test_findings_on_table_2() -> None:
    """Safe ASC is judged by clusters visited and time; what the collection lacks cannot be told."""
    names = ("sparse", "cls", "mean", "max", "simlm")
    found = {
        name: clustering.Pair(row(v.flat_ms, visited=v.flat_visited), row(v.ms, visited=v.visited))
        for name, v in zip(names, paper.TABLE_2.values(), strict=True)
    }
    assert all(holds(clustering.findings(found)))
    assert holds(clustering.findings({"sparse": found["sparse"]})) == [True, True, None, None, None, None]
    against = {**found, "max": clustering.Pair(row(90.8, visited=68), row(99.0, visited=70))}
    assert holds(clustering.findings(against)) == [False] * 6


def test_findings_on_table_3() -> None:
    """Random segments are judged against k-means segments by recall, clusters visited and ratios."""
    found = {
        kind: {
            mu: row(getattr(v, kind).ms, getattr(v, kind).recall, getattr(v, kind).ms)
            for mu, v in paper.TABLE_3.items()
        }
        for kind in ("kmeans", "random")
    }
    ratios = {kind: {"tightness": v.tightness, "gap of means": v.gap} for kind, v in paper.TABLE_3_RATIOS.items()}
    assert all(holds(segmentation.findings(found, ratios, "R")))
    turned = {"kmeans": found["random"], "random": found["kmeans"]}
    other = {"kmeans": ratios["random"], "random": ratios["kmeans"]}
    assert holds(segmentation.findings(turned, other, "R")) == [False] * 5
    same = {kind: {mu: row(1.0) for mu in paper.TABLE_3} for kind in found}
    assert holds(segmentation.findings(same, ratios, "R"))[0] is None


def line(label: str, clusters: int, points: dict[float, tuple[float, float]]) -> Curve:
    """A curve of (time, recall) by μ."""
    return Curve(label, Plan(num_clusters=clusters), {mu: row(ms, recall) for mu, (ms, recall) in points.items()})


def test_findings_on_figure_3() -> None:
    """Recall kept and lost, and the fastest number of clusters, decide; a single curve tells nothing of clusters."""
    few = line("few", 512, {0.3: (10, 0.5), 0.9: (40, 0.979), 1.0: (50, 0.98)})
    many = line("many", 4096, {0.3: (9, 0.5), 0.9: (60, 0.979), 1.0: (70, 0.98)})
    assert holds(overestimation.findings([few, many], "R")) == [True, True]
    flat_curve = line("flat", 8192, {0.3: (1, 0.98), 0.9: (1, 0.98), 1.0: (1, 0.98)})
    assert holds(overestimation.findings([flat_curve], "R")) == [False, None]
    assert holds(overestimation.findings([few, flat_curve], "R"))[1] is False


def test_findings_on_figure_6() -> None:
    """Spans, the ends of curves and losses of recall decide."""
    few = line("few", 512, {0.4: (40, 0.975), 1.0: (46, 0.98)})
    many = line("many", 4096, {0.4: (21, 0.972), 1.0: (67, 0.98)})
    anytime = line("anytime", 512, {0.4: (10, 0.6), 1.0: (50, 0.98)})
    assert holds(parameters.findings([few, many], anytime, "R")) == [True] * 4
    slow = line("slow", 8192, {0.4: (45, 0.5), 1.0: (40, 0.98)})
    assert holds(parameters.findings([few, slow], anytime, "R")) == [False] * 4
    lossless = line("lossless", 512, {0.4: (40, 1.0), 1.0: (46, 1.0)})
    assert holds(parameters.findings([lossless], lossless, "R")) == [None] * 4


@pytest.mark.parametrize("model", range(3))
@pytest.mark.parametrize("k", [10, 1000])
def test_findings_on_table_5(k: int, model: int) -> None:
    """With the paper's figures all findings hold for each model; with a slow ASC none does."""
    found = {key: row(values[model].ms, values[model].recall) for key, values in paper.TABLE_5[k].items()}
    assert all(holds(models.findings("m", k, found, "R")))
    slow = {key: row(1000.0, value["R"]) if key.startswith("asc") else value for key, value in found.items()}
    assert holds(models.findings("m", k, slow, "R")) == [False] * 3


def test_averages_and_findings_on_table_6() -> None:
    """Our way to average gives the averages that the paper prints, and findings follow from them."""
    found = {
        name: {method: row(point.ms, **{"nDCG@10": point.ndcg}) for method, point in value._asdict().items()}
        for name, value in paper.TABLE_6.items()
    }
    quality = dict.fromkeys(found, "nDCG@10")
    known = paper.TABLE_6_AVERAGE[10]
    assert zero_shot.average(found, quality, "asc") == pytest.approx((known.asc_ndcg, known.asc_speedup), abs=0.005)
    assert zero_shot.average(found, quality, "maxscore") == pytest.approx((known.maxscore_ndcg, 1.0), abs=0.0001)
    anytime = zero_shot.average(found, quality, "anytime")
    assert anytime == pytest.approx((known.anytime_ndcg, known.anytime_speedup), abs=0.005)
    assert all(holds(zero_shot.findings(10, found, quality)))
    same = {name: {**methods, "asc": methods["maxscore"]} for name, methods in found.items()}
    assert holds(zero_shot.findings(10, same, quality)) == [None, False]
    mixed = {**quality, "FEVER": "recall_of_exact"}
    assert zero_shot.average(found, mixed, "asc")[0] < 1  # measures of different kinds are not averaged


@pytest.mark.parametrize("k", [10, 1000])
def test_findings_on_table_7(k: int, tmp_path: Path) -> None:
    """ASC has to have more of each measure where the budget binds, and searches to end in time, sooner than without."""
    tiny = collection(tmp_path, judged=True)
    rows = budget_rows(quick(tiny), tiny, k, None)
    assert [one.key for one in rows] == list(paper.TABLE_7[k])
    found = {key: row(v.ms, v.recall, p99_ms=v.p99_ms, MRR=v.mrr) for key, v in paper.TABLE_7[k].items()}
    unbounded = {key: row(100.0) for key in found}
    budget = budgets.Budget(paper.TABLE_7_BUDGET[k], "the paper's", rows, found)

    def told(under: dict[str, Row], without: dict[str, Row]) -> list[bool | None]:
        return holds(budgets.findings(k, [budget._replace(found=under)], without, ("MRR", "R")))

    assert told(found, unbounded) == [True] * 5
    one_measure = {key: {**value, "MRR": 0.1 if key.startswith("asc") else 0.2} for key, value in found.items()}
    assert told(one_measure, unbounded) == [False, True, False, True, True]
    late = {key: row(100.0, 1.0 if key.startswith("anytime") else 0.5, MRR=0.0) for key in found}
    assert told(late, unbounded) == [None, False, None, False, False]
    fast = {key: row(0.1, MRR=0.5) for key in found}
    assert told(fast, fast) == [None] * 5
    hardly = {key: row(1.0, p99_ms=1.02 * paper.TABLE_7_BUDGET[k]) for key in found}
    assert told(found, hardly)[-1] is None


def test_findings_on_section_4_4() -> None:
    """ASC on the pruned index has to be faster and about as good as MaxScore there."""
    known = paper.SECTION_4_4
    found = {
        "whole maxscore": row(65.8, 0.3966),
        "whole asc": row(21.8, 0.3962),
        "pruned maxscore": row(known.maxscore_ms, known.maxscore_mrr),
        "pruned asc": row(known.asc_ms, known.asc_mrr),
    }
    assert all(holds(static_pruning.findings(found, "R")))
    bad = {**found, "pruned asc": row(80.0, 0.2), "pruned maxscore": row(75.0, 0.3942)}
    assert holds(static_pruning.findings(bad, "R")) == [False] * 3
    collapsed = {**found, "pruned asc": row(1.0, 0.01), "pruned maxscore": row(2.0, 0.01)}
    told = static_pruning.findings(collapsed, "R")
    assert holds(told) == [None, None, False]
    assert "keeps only 2.5% of R" in told[0].evidence


def test_queries_of_equal_weights_are_not_pruned(tmp_path: Path) -> None:
    """Queries as BM25 has them, every word once, stay whole, and that is said; relevance does not collapse."""
    tiny = collection(tmp_path, judged=True)
    vectors = tiny.questions.vectors.copy()
    vectors.data[:] = 1.0
    equal = dataclasses.replace(tiny, questions=Questions(tiny.questions.ids, vectors), fingerprint="equal")
    outcome = static_pruning.run(quick(equal))
    assert "queries stay as they are" in outcome.sheets[0].note
    shown = [dict(zip(outcome.sheets[0].columns, one, strict=True)) for one in outcome.sheets[0].rows]
    assert shown[2]["MRR@10"] > 0.9 * shown[0]["MRR@10"] > 0


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1.0] * 10, 0.0),
        ([1.0] * 9 + [2.0], 0.0),
        ([0.5] + [1.0] * 9, 0.5),
        ([0.1, 0.2] + [1.0] * 8, 0.2),
        (list(range(1, 101)), 25.0),
        ([], 0.0),
    ],
)
def test_at_most_a_quarter_of_query_weights_goes(weights: list[float], expected: float) -> None:
    """The threshold lies below a weight that many share, and is 0 where weights do not spread."""
    assert static_pruning.query_threshold(np.array(weights)) == expected


def test_static_pruning_prunes(tmp_path: Path) -> None:
    """About half of the postings go, which costs some of the exact results of the whole index."""
    outcome = static_pruning.run(quick(collection(tmp_path, judged=False)))
    sizes = {record["pruning"] != []: record["postings"] for record in outcome.records if "postings" in record}
    assert 0.3 < sizes[True] / sizes[False] < 0.7
    kept = [
        dict(zip(outcome.sheets[0].columns, line, strict=True))["recall of whole"] for line in outcome.sheets[0].rows
    ]
    assert kept[0] == 1.0
    assert kept[2] < 1.0


def test_plans_are_the_papers_for_its_collection() -> None:
    """For as many documents as MS MARCO has, clusters and segments are the paper's."""
    made = plans(Task(), _sized(8_841_823))
    assert (made.coarse.shape, made.fine.shape) == ("512*16", "4096*8")
