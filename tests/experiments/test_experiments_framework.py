"""The framework of the experiments: collections, steps that are kept, files that are written, and the command."""

from __future__ import annotations

import io
import json
import lzma
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console

import segmax
from conftest import random_docs, refused
from segmax.base.errors import ConfigError, InputError
from segmax.cli import experiment
from segmax.clustering import Labels
from segmax.demo import FOLDER
from segmax.drawing.plot import Plot, Series
from segmax.experiments import (
    EXPERIMENTS,
    Collection,
    Experiment,
    Finding,
    Outcome,
    Sheet,
    Task,
    open_collection,
)
from segmax.experiments.bounds import _Points, tightness
from segmax.experiments.catalog import LISTED
from segmax.experiments.clusters_of import clusters_of
from segmax.experiments.collections import _name as source_name
from segmax.experiments.properties import _fourth, _Kept, check_bounds, check_decisions, score_ratios
from segmax.experiments.render import column_texts, is_numeric, show
from segmax.experiments.runner import run_experiment
from segmax.experiments.segmentation import bound_ratios
from segmax.experiments.space import counted
from segmax.experiments.steps import Steps, digest_of
from segmax.io import write_vectors
from segmax.paper import Anytime, MaxScore
from segmax.text.queries import EncodedQueries
from segmax.vectors.csr import matrix_to_csr
from segmax.vectors.documents import VectorBatch

NUM_DOCS = 300
NUM_TERMS = 60


def tiny(num_docs: int = NUM_DOCS, num_queries: int = 8, *, judged: bool = False, unknown: bool = False) -> Collection:
    """A collection of random documents and queries; `unknown`: the queries share no term with them."""
    rng = np.random.default_rng(num_docs)
    queries = random_docs(rng, num_queries, NUM_TERMS, 4.0)
    if unknown:
        queries = sp.hstack([sp.csr_matrix((num_queries, NUM_TERMS)), queries]).tocsr()
    ids = [f"q{row}" for row in range(num_queries)]
    return Collection(
        name="tiny",
        documents=random_docs(rng, num_docs, NUM_TERMS),
        queries=EncodedQueries(ids, queries),
        num_docs=num_docs,
        qrels={name: {str(rng.integers(num_docs)): 1} for name in ids} if judged else None,
        fingerprint=f"tiny-{num_docs}-{num_queries}-{judged}-{unknown}",
    )


# --- every experiment -------------------------------------------------------------------------------------------------


def ran(chosen: Experiment, collection: Collection, folder: Path, **options: object) -> Outcome:
    """The outcome of a quick run, with its files written."""
    task = Task(collections=(collection,) if chosen.needs_data else (), quick=True, passes=1, **options)
    return run_experiment(chosen, task, folder, "segmax experiment").outcome


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_quickly_on_a_tiny_judged_collection(name: str, tmp_path: Path) -> None:
    """Every experiment gives tables, plots and findings with evidence, and they survive JSON."""
    outcome = ran(EXPERIMENTS[name], tiny(judged=True), tmp_path)
    assert outcome.sheets
    assert outcome.plots
    assert all(finding.claim and finding.evidence and finding.rule for finding in outcome.findings)
    assert outcome.findings
    assert outcome.records
    assert Outcome.from_dict(json.loads(json.dumps(outcome.to_dict()))) == Outcome.from_dict(outcome.to_dict())


@pytest.mark.parametrize("name", [name for name, each in EXPERIMENTS.items() if each.needs_data])
@pytest.mark.parametrize(
    ("collection", "options"),
    [
        pytest.param(tiny(40, 1), {"num_clusters": 1, "ks": (5,)}, id="one cluster and query", marks=pytest.mark.deep),
        pytest.param(tiny(1, 2), {}, id="one document"),
        pytest.param(tiny(40, 3, unknown=True), {}, id="nothing found", marks=pytest.mark.deep),
    ],
)
def test_no_collection_is_too_small(name: str, collection: Collection, options: dict, tmp_path: Path) -> None:
    """One cluster, one document, one query, or queries that find nothing are no reason to fail."""
    assert ran(EXPERIMENTS[name], collection, tmp_path, **options).sheets


def test_experiments_are_in_the_order_of_the_specification() -> None:
    """The names are those that the documentation has."""
    assert " ".join(EXPERIMENTS) == (
        "properties example bounds overestimation clustering segmentation baselines models zero-shot parameters "
        "budgets static-pruning space"
    )
    assert all(len(line) <= 80 for each in EXPERIMENTS.values() for line in each.description.splitlines())


# --- what they compute ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def index() -> segmax.Index:
    """An index of the tiny collection."""
    collection = tiny()
    return Task(collections=(collection,)).build(collection, num_clusters=12)


def test_the_example_agrees_with_the_paper() -> None:
    """All bounds and decisions are those of Figure 4."""
    outcome = EXPERIMENTS["example"].run(Task())
    assert [finding.verdict for finding in outcome.findings] == ["holds"] * 4


def test_tightness_is_that_of_the_report(index: segmax.Index) -> None:
    """Means of Actual/BoundSum and Actual/MaxSBound are those of `inspect`."""
    queries = tiny().single_queries()
    found = tightness(index, queries)
    summary = segmax.inspect(index, queries).tightness
    assert found["actual_over_bound_sum"] == pytest.approx(summary.bound_sum.mean)
    assert found["actual_over_max_bound"] == pytest.approx(summary.max_bound.mean)
    assert len(found["cluster_avg_over_max"]) == len(found["cluster_actual_over_max"]) <= index.num_clusters


def test_properties_are_counted_and_hold(index: segmax.Index) -> None:
    """Many checks are made, none fails, and the mean ratio of an exact search is 1."""
    queries = tiny().single_queries()
    first = check_bounds(index, queries)
    assert first["checks"] > 100
    assert first["violations"] == 0
    for eta in (0.8, 1.0):
        (decisions,) = check_decisions(index, queries, [segmax.paper.ASC(mu=0.3, eta=eta, estimate_threshold=False)], 5)
        assert decisions["kept_wrong"] == decisions["pruned_wrong"] == 0
        assert decisions["pruned"] > 0
    exact = Anytime(), segmax.ASC(), segmax.ASC()
    ratios = score_ratios(index, queries, {1.0: exact}, 5)
    assert ratios["violations"] == 0
    assert ratios["worst"] == {"1": 1.0}
    assert ratios["asc"]["1"] == [1.0] * len(queries)


def test_gap_and_tightness_are_means_of_one_kind(index: segmax.Index) -> None:
    """Tightness, and the gap of means that is worked out of it, are means over queries of means over clusters."""
    queries = tiny().single_queries()
    found = bound_ratios(index, queries)
    summary = segmax.inspect(index, queries).tightness
    assert found["tightness"] == pytest.approx(summary.max_bound.mean)
    assert found["gap of means"] == pytest.approx(1 / summary.max_bound.mean - 1 / summary.avg_bound.mean)
    per_query = []
    for query in queries:
        bounds = index.cluster_bounds(query)
        scored = bounds.best_score > 0
        per_query.append(((bounds.max_bound - bounds.avg_bound)[scored] / bounds.best_score[scored]).mean())
    assert found["gap"] == pytest.approx(np.mean(per_query))


@pytest.mark.parametrize(
    ("ratios", "expected"), [([1.0] * 50, "holds"), ([1.0] * 49 + [0.999], "fails"), ([], "unknown")]
)
def test_any_loss_refutes_proposition_4_as_printed(ratios: list[float], expected: str) -> None:
    """No ratio exceeds 1, so one query that loses is enough, though the interval of the mean reaches 1."""
    found = {"checks": len(ratios), "violations": 0, "worst": {"0.5": 0.9}, "asc": {"0.5": ratios}}
    assert _fourth([], _Kept([found], (0.5,)))[1].verdict == expected


@pytest.mark.parametrize(
    ("y", "expected"),
    [(range(40), "holds"), (range(40, 0, -1), "fails"), ([1, 2, 0] * 13 + [1], "tie"), ([1] * 40, "unknown")],
)
def test_a_correlation_has_to_be_significant(y: list[int], expected: str) -> None:
    """A correlation that chance explains is a tie; one that is turned round refutes."""
    record = {
        "num_clusters": 40,
        "cluster_avg_over_max": list(range(40)),
        "cluster_actual_over_max": list(y),
        "query_correlation": None,
        "pair_correlation": 0.5,
    }
    assert _Points([record]).finding().verdict == expected


def test_properties_find_a_violation(index: segmax.Index) -> None:
    """Ratios below the promise are counted: 0.5 is not kept where 1 is promised."""
    queries = tiny().single_queries()
    rough = (
        Anytime(mu=0.2, estimate_threshold=False),
        segmax.paper.ASC(mu=0.2, eta=0.2, estimate_threshold=False),
        Anytime(mu=0.2),
    )
    assert score_ratios(index, queries, {1.0: rough}, 5)["violations"] > 0


def test_clusters_of_an_index_build_it_again(index: segmax.Index) -> None:
    """Labels taken from an index give an index with the same clusters."""
    collection = tiny()
    labels = Labels(clusters_of(index))
    again = Task(collections=(collection,)).build(collection, num_clusters=12, clustering=labels, seed=1)
    assert again.cluster_sizes().tolist() == index.cluster_sizes().tolist()


def test_sizes_add_up(index: segmax.Index) -> None:
    """The kinds of index grow from plain to whole, and the whole one has all components."""
    sizes = counted(index)
    assert sizes["plain"] < sizes["clusters"] < sizes["segments"] < sizes["whole"]
    assert sizes["whole"] == index.num_bytes
    maxima = index._open_arrays["segment_max"]
    assert sizes["zero_bytes"] == sizes["zero_maxima"] * maxima.nbytes == np.count_nonzero(maxima == 0)
    assert 0 < sizes["zero_maxima"] < 1


@pytest.mark.parametrize(
    ("num_docs", "expected"),
    [(8_840_000, (512, 4096)), (281_250, (64, 512)), (3_200, (12, 100)), (40, (1, 1)), (1, (1, 1))],
)
def test_clusters_scale_with_the_collection(num_docs: int, expected: tuple[int, int]) -> None:
    """The paper's density, 512 clusters at least where they have 32 documents, and one at least."""
    collection = Collection(name="x", documents=None, queries=EncodedQueries([], []), num_docs=num_docs)
    assert Task().clusters(collection) == expected


def test_the_number_of_clusters_can_be_chosen() -> None:
    """The user's choice counts, up to one cluster per document."""
    assert Task(num_clusters=64).clusters(tiny()) == (8, 64)
    assert Task(num_clusters=9999).clusters(tiny()) == (NUM_DOCS // 8, NUM_DOCS)


def test_methods_are_the_papers() -> None:
    """No threshold estimate, MaxScore inside clusters by default, and clusters in their order."""
    task = Task(documents="blocks")
    assert Task().asc(0.9) == segmax.paper.ASC(mu=0.9, documents="maxscore", estimate_threshold=False)
    assert task.anytime(0.7, budget_ms=3.0) == Anytime(mu=0.7, budget_ms=3.0, estimate_threshold=False)
    assert task.maxscore() == MaxScore(estimate_threshold=False)


# --- steps ------------------------------------------------------------------------------------------------------------


def counting(results: list[object]) -> Callable[[], object]:
    """A computation that counts how often it is made."""

    def compute() -> object:
        results.append(None)
        return {"values": np.arange(3), "mean": np.float64(1.5), "none": None}

    return compute


def test_steps_are_kept_between_runs(tmp_path: Path) -> None:
    """A step with the same key comes back as JSON gave it; another key is computed."""
    calls: list[object] = []
    for _ in range(2):
        with Steps(tmp_path / "steps.jsonl").opened(progress=False) as steps:
            assert steps.get({"mu": 0.9}, counting(calls)) == {"values": [0, 1, 2], "mean": 1.5, "none": None}
    assert len(calls) == 1
    assert steps.num_resumed == 1
    with Steps(tmp_path / "steps.jsonl").opened(progress=False) as steps:
        steps.get({"mu": 0.8}, counting(calls))
    assert len(calls) == 2
    with Steps(tmp_path / "steps.jsonl", fresh=True).opened(progress=False) as steps:
        steps.get({"mu": 0.9}, counting(calls))
    assert len(calls) == 3


@pytest.mark.parametrize(
    "damage",
    ['{"key": {"mu": 0.7}, "val', '{"key": {"mu": 0.7}, "value": null}\n', '{"key": 1}\n', "nonsense\n", "\n"],
)
def test_a_damaged_line_costs_only_itself(damage: str, tmp_path: Path) -> None:
    """What a crash left behind is dropped, and what follows is whole."""
    path = tmp_path / "steps.jsonl"
    calls: list[object] = []
    with Steps(path).opened(progress=False) as steps:
        steps.get({"mu": 0.9}, counting(calls))
    with path.open("a") as file:
        file.write(damage)
    for _ in range(2):
        with Steps(path).opened(progress=False) as steps:
            steps.get({"mu": 0.9}, counting(calls))
            steps.get({"mu": 0.7}, counting(calls))
    assert len(calls) == 2


def test_only_steps_of_earlier_runs_are_resumed(tmp_path: Path) -> None:
    """A step that one run takes twice is computed once and not counted as resumed; of an earlier run it counts once."""
    calls: list[object] = []
    for resumed in (0, 1):
        with Steps(tmp_path / "steps.jsonl").opened(progress=False) as steps:
            for _ in range(2):
                steps.get({"mu": 0.9}, counting(calls))
        assert (steps.num_resumed, len(calls)) == (resumed, 1)


def test_steps_of_other_code_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed Python files and an extension of another size make another digest, and another digest other steps."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.py").write_text("1")
    (tmp_path / "core.so").write_bytes(b"1")
    digests = [digest_of(tmp_path, tmp_path / "core.so")]
    assert digest_of(tmp_path, tmp_path / "core.so") == digests[0]
    for name, content in (("inner/a.py", "2"), ("b.py", "1"), ("core.so", "11")):
        (tmp_path / name).write_text(content)
        digests.append(digest_of(tmp_path, tmp_path / "core.so"))
    assert len(set(digests)) == 4
    calls: list[object] = []
    steps = Steps()
    for digest in digests[:2]:
        monkeypatch.setattr("segmax.experiments.task.code_digest", lambda digest=digest: digest)
        Task(collections=(tiny(),), steps=steps).step({"a": 1}, counting(calls))
    assert len(calls) == 2


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    """The second is refused while the first is running."""
    path = tmp_path / "steps.jsonl"
    with (
        Steps(path).opened(progress=False),
        refused(ConfigError, got="one in use", hint="{out}"),
        Steps(path).opened(progress=False),
    ):
        pass


def test_steps_depend_on_options_and_collection() -> None:
    """Another collection, quickness or way into documents is another step; -k alone is not."""
    steps = Steps()
    calls: list[object] = []

    def take(**options: object) -> None:
        Task(**{"collections": (tiny(),), "steps": steps, **options}).step({"a": 1}, counting(calls))

    take()
    take(ks=(3,))
    assert len(calls) == 1
    for changed in ({"collections": (tiny(20),)}, {"quick": True}, {"documents": "blocks"}, {"passes": 1}):
        take(**changed)
    assert len(calls) == 5


def test_steps_return_json_values_only() -> None:
    """A step that returns an object fails at once, not when it is resumed."""
    with pytest.raises(TypeError, match="expected a JSON value, got object"):
        Steps().get({}, object)


# --- collections ------------------------------------------------------------------------------------------------------


@pytest.fixture
def described(tmp_path: Path) -> dict[str, object]:
    """The description of a collection of vectors in files."""
    rng = np.random.default_rng(1)
    docs = random_docs(rng, 50, 30)
    terms = [f"w{column}" for column in range(30)]
    for part in range(2):
        rows = docs[part * 25 : (part + 1) * 25]
        batch = VectorBatch([f"d{part}-{row}" for row in range(25)], matrix_to_csr(rows))
        write_vectors(tmp_path / f"docs{part}.jsonl", [batch], terms=terms)
    vectors = {"q1": {"w1": 2, "w2": 1}, "q2": {"w3": 3}, "q3": {"w4": 1.5}}
    lines = [json.dumps({"id": name, "vector": vector}) for name, vector in vectors.items()]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td0-3\t1\nq3\td1-4\t2\n")
    np.save(tmp_path / "docs.max.npy", rng.random((50, 4), dtype=np.float32))
    np.save(tmp_path / "labels.npy", np.arange(50) % 5)
    (tmp_path / "labels.u16.xz").write_bytes(lzma.compress((np.arange(50) % 7).astype("<u2").tobytes()))
    return {
        "name": "vectors",
        "documents": ["docs0.jsonl", "docs1.jsonl"],
        "queries": "queries.jsonl",
        "qrels": "qrels.tsv",
        "drop_self": False,
        "dense": {"max": "docs.max.npy"},
        "labels": {"max": {"5": "labels.npy", "7": "labels.u16.xz"}},
    }


def opened(tmp_path: Path, description: object, **options: object) -> Collection:
    """The collection of a description."""
    (tmp_path / "it.json").write_text(json.dumps(description))
    return open_collection(tmp_path / "it.json", cache=tmp_path / "cache", **options)


def test_a_description_becomes_a_collection(described: dict[str, object], tmp_path: Path) -> None:
    """Files are joined, judged queries stay, labels and dense vectors are there, and it can be searched."""
    collection = opened(tmp_path, described)
    assert (collection.name, collection.num_docs, collection.drop_self) == ("vectors", 50, False)
    assert collection.queries.ids == ["q1", "q3"]
    assert collection.qrels == {"q1": {"d0-3": 1}, "q3": {"d1-4": 2}}
    assert list(collection.dense) == ["max"]
    assert {count: labels.max() for count, labels in collection.labels["max"].items()} == {5: 4, 7: 6}
    index = Task().build(collection, num_clusters=4)
    assert index.search(collection.single_queries()[0]).ids[0].startswith("d")
    rows = Task(passes=1).measured(index, collection, {"asc": segmax.ASC()}, 5)
    assert rows[0]["recall_of_exact"] == 1.0
    assert opened(tmp_path, described, max_queries=1).queries.ids == ["q1"]


def test_fingerprints_of_collections_differ(described: dict[str, object], tmp_path: Path) -> None:
    """It changes with judgments, queries and documents, and with nothing else."""
    first = opened(tmp_path, described).fingerprint
    assert opened(tmp_path, {**described, "name": "other"}).fingerprint == first
    without = {key: value for key, value in described.items() if key != "qrels"}
    others = [
        opened(tmp_path, without).fingerprint,
        opened(tmp_path, described, max_queries=1).fingerprint,
        opened(
            tmp_path, {**described, "documents": "docs0.jsonl", "qrels": None, "dense": {}, "labels": {}}
        ).fingerprint,
    ]
    assert len({first, *others}) == 4


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"document": "x"}, {"where": "it.json", "expected": "one of the keys name, documents", "got": "'document'"}),
        ({"documents": "absent.npz"}, {"message": r"absent\.npz"}),
        ({"documents": 3}, {"where": "it.json", "expected": "documents to be ", "got": "3"}),
        ({"qrels": "absent.tsv"}, {"message": r"absent\.tsv"}),
        ({"drop_self": "yes"}, {"expected": "drop_self to be true or false", "got": "'yes'"}),
        ({"name": ""}, {"expected": "name to be ", "got": "''"}),
        ({"dense": ["a"]}, {"expected": "dense to be an object"}),
        ({"dense": {"max": "labels.npy"}}, {"where": "labels.npy", "expected": "50 documents", "got": "shape"}),
        ({"dense": {"max": "qrels.tsv"}}, {"where": "qrels.tsv", "expected": "an array of numpy.save"}),
        ({"labels": {"max": {"few": "labels.npy"}}}, {"expected": "labels to be ", "got": "'few'"}),
        ({"labels": {"max": {"5": "docs.max.npy"}}}, {"where": r"docs\.max\.npy", "expected": "50 cluster labels"}),
        ({"labels": {"max": {"5": "qrels.tsv"}}}, {"where": "qrels.tsv", "expected": "50 labels", "got": "bytes"}),
        ({"qrels": "other.tsv"}, {"expected": "judged queries", "got": "none; ids of judgments are like 'q9'"}),
        ({"queries": "texts.tsv"}, {"where": "texts.tsv", "expected": "queries as vectors", "got": "texts"}),
    ],
)
def test_an_invalid_description_is_refused(
    described: dict[str, object], change: dict[str, object], parts: dict[str, str], tmp_path: Path
) -> None:
    """The error names the file, the key and what was expected."""
    (tmp_path / "other.tsv").write_text("q9\td0-3\t1\n")
    (tmp_path / "texts.tsv").write_text("q1\tsome words\nq2\tof a question\n")
    with refused(InputError, **parts):
        opened(tmp_path, {**described, **change})


@pytest.mark.parametrize("content", ["", "[1]", '{"queries": "queries.tsv"}'])
def test_other_files_are_no_descriptions(content: str, tmp_path: Path) -> None:
    """A file of something else, or without documents, is refused."""
    (tmp_path / "it.json").write_text(content)
    with refused(InputError, where="it.json"):
        open_collection(tmp_path / "it.json", cache=tmp_path)


def test_texts_are_encoded_once(tmp_path: Path) -> None:
    """A BEIR folder becomes vectors in the cache, which the next run finds; ids and judgments fit."""
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    texts = ["copper waveguides", "noise of diodes", "waves and noise", "tubes"]
    lines = [json.dumps({"_id": f"d{row}", "title": "", "text": text}) for row, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    (folder / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "diodes"}\n{"_id": "q2", "text": "copper"}\n{"_id": "q3", "text": "tubes"}\n'
    )
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq3\td3\t1\n")
    collection = open_collection(folder, cache=tmp_path / "cache")
    assert (collection.name, collection.num_docs, collection.queries.ids) == ("beir", 4, ["q1", "q3"])
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.npz")}
    again = open_collection(folder, cache=tmp_path / "cache")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.npz")} == before
    assert again.fingerprint == collection.fingerprint
    index = Task().build(collection, num_clusters=2)
    assert [index.search(query).ids[:1] for query in collection.single_queries()] == [["d1"], ["d3"]]


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """No folder, and a folder without a corpus."""
    with refused(InputError, message="absent"):
        open_collection(tmp_path / "absent", cache=tmp_path)
    (tmp_path / "empty").mkdir()
    with refused(InputError, expected="a folder with"):
        open_collection(tmp_path / "empty", cache=tmp_path)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("beir/nfcorpus/test", "nfcorpus"),
        ("irds:msmarco-passage/trec-dl-2019/judged", "trec-dl-2019"),
        ("msmarco-passage/dev/small", "msmarco-passage"),
        ("vaswani", "vaswani"),
        ("beir/quora/dev", "quora"),
    ],
)
def test_sets_are_named_without_their_split(source: str, name: str) -> None:
    """An id of ir_datasets is called by what holds the documents, not by "test"."""
    assert source_name(source) == name


def test_a_folder_keeps_its_name(tmp_path: Path) -> None:
    """A folder that is called "test" is called so."""
    (tmp_path / "dev" / "test").mkdir(parents=True)
    assert source_name(str(tmp_path / "dev" / "test")) == "test"


# --- rendering --------------------------------------------------------------------------------------------------------


def test_fields_and_columns() -> None:
    """Numbers have their decimals, empty fields none, and columns of numbers are known."""
    sheet = Sheet(title="t", columns=("a", "b", "c"), rows=(("x", 1, "+9 %"), ("y", None, "")))
    assert [is_numeric(sheet, column) for column in range(3)] == [False, True, True]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.5, 0.39663, 1.0), ["0.5000", "0.3966", "1.0000"]),
        ((9.9477, 10.49, 116.0), ["9.95", "10.49", "116.00"]),
        ((0.0918, 13.79), ["0.092", "13.790"]),
        ((1234.5, 100.0), ["1,234", "100"]),
        ((-0.00001, 0.2), ["0.0000", "0.2000"]),
        ((3, 7.5), ["3", "7.50"]),
        ((math.nan, 2.0, None, "x", "6.0"), ["–", "2.00", "", "x", "6.0"]),
        ((0.0, 0.0), ["0.0000", "0.0000"]),
        ((), []),
    ],
)
def test_a_column_has_one_number_of_digits(values: tuple[object, ...], expected: list[str]) -> None:
    """All floats of a column have as many decimals, enough for the smallest; texts stay as they are."""
    sheet = Sheet(title="t", columns=("a",), rows=tuple((value,) for value in values))
    assert column_texts(sheet, 0) == expected


@pytest.mark.parametrize("width", [30, 80, 400])
def test_no_figure_is_cut(width: int) -> None:
    """However narrow the console, a table fits it, and no figure is cut: sentences are wrapped, columns stacked."""
    columns = ("method", *(f"k-means paper Recall@{number}" for number in range(14)), "here")
    figures = tuple(0.1234 + number for number in range(14))
    row = ("ASC-4096*8, μ=0.5, η=1", *figures, "holds: Actual/bound 0.512 and 0.734, for all of the clusters")
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    sheet = Sheet(title="t", columns=columns, rows=(row,))
    show(Outcome(sheets=(sheet,)), console)
    text = out.getvalue()
    words = text.split()
    assert all(column_texts(sheet, number + 1)[0] in words for number in range(len(figures)))
    assert "…" not in text
    assert all(word in words for cell in (row[0], row[-1], *columns) for word in cell.split())
    assert max(map(len, text.splitlines())) <= width


def test_markdown_shows_signs_as_they_are(tmp_path: Path) -> None:
    """Titles, notes, claims and evidence show their signs instead of being formatted by them."""
    outcome = Outcome(
        sheets=(Sheet(title="Anytime*-512*16", columns=("a",), rows=(("x",),), note="mean_ms <b> | p99_ms"),),
        findings=(Finding(claim="a*b <= c", verdict="holds", evidence="d_e* | f", rule="p_1 < 2"),),
    )
    chosen = Experiment(
        name="signs", place="T*", title="x_y_z", description="", run=lambda _: outcome, needs_data=False
    )
    run_experiment(chosen, Task(), tmp_path, "command")
    lines = (tmp_path / "signs.md").read_text().splitlines()
    for expected in (
        r"# T\*: x\_y\_z",
        r"## Anytime\*-512\*16",
        r"mean\_ms \<b> \| p99\_ms",
        r"- ✓ a\*b \<= c *d\_e\* \| f \[p\_1 \< 2\]*",
    ):
        assert expected in lines, expected


def test_outcomes_survive_json() -> None:
    """All parts come back equal, nan as nan."""
    outcome = Outcome(
        sheets=(Sheet(title="t", columns=("a",), rows=((1,), (None,)), note="n"),),
        plots=(Plot(title="p", x_label="x", y_label="y", series=(Series(label="s", x=(1.0,), y=(2.0,)),)),),
        findings=(Finding(claim="c", verdict="tie", evidence="e", rule="r"),),
        records=[{"a": 1}],
    )
    assert Outcome.from_dict(json.loads(json.dumps(outcome.to_dict()))) == outcome
    assert math.isnan(Series.from_dict({"label": "s", "x": [1], "y": [None], "marks": []}).y[0])


# --- files ------------------------------------------------------------------------------------------------------------


def wordy(num_plots: int) -> Experiment:
    """An experiment that needs nothing and gives so many plots."""
    plot = Plot(title="p", x_label="x", y_label="y", series=(Series(label="s", x=(1.0,), y=(math.nan,)),))
    sheet = Sheet(title="a|b", columns=("x*",), rows=(("p|q",),))
    outcome = Outcome(sheets=(sheet,), plots=(plot,) * num_plots, records=[{"value": math.inf}])
    return Experiment(name="wordy", place="", title="", description="", run=lambda _: outcome, needs_data=False)


def test_files_are_whole_and_old_ones_go(tmp_path: Path) -> None:
    """JSON that every reader takes, Markdown whose cells are escaped, a picture per plot, and none of a run before."""
    pytest.importorskip("matplotlib")
    done = run_experiment(wordy(3), Task(), tmp_path, "command")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in done.files)
    assert "wordy-3.svg" in {path.name for path in done.files}
    written = json.loads((tmp_path / "wordy.json").read_text(), parse_constant=pytest.fail)
    assert written["records"] == [{"value": None}]
    assert written["about"]["command"] == "command"
    assert written["about"]["machine"]["cores"] >= 1
    assert r"| p\|q |" in (tmp_path / "wordy.md").read_text()
    run_experiment(wordy(1), Task(), tmp_path, "command")
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".md", ".svg"]


def test_without_matplotlib_there_are_no_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are still written, and the reason names what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run_experiment(wordy(2), Task(), tmp_path, "command")
    assert "pip install 'segmax[plot]'" in done.missing
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".md"]


# --- the command ------------------------------------------------------------------------------------------------------


def command(*arguments: object) -> None:
    """Run `segmax experiment`."""
    experiment.run(experiment.parser().parse_intermixed_args([str(argument) for argument in arguments]))


@pytest.mark.parametrize("arguments", [(), ("list",)])
@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_list_of_all(
    arguments: tuple[str, ...], width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a name, or with "list", all experiments are listed with their place in the paper, as wide as fits."""
    monkeypatch.setenv("COLUMNS", str(width))
    command(*arguments)
    out = capsys.readouterr().out
    assert all(len(line) <= width for line in out.splitlines())
    assert all(any(line.split()[:1] == [name] for line in out.splitlines()) for name in EXPERIMENTS)
    assert all(word in out for each in EXPERIMENTS.values() for word in (each.place, *each.title.split()))


@pytest.mark.parametrize(
    "arguments", [["experiment"], ["experiment", "list"], ["experiment", "--help"], ["report", "-h"]]
)
def test_listing_and_help_load_no_experiment(arguments: list[str]) -> None:
    """Only the catalog is loaded: no experiment, and nothing that an experiment computes with."""
    loaded = loaded_by(arguments)
    assert {name for name in loaded if name.startswith("segmax.experiments.")} == {
        "segmax.experiments.catalog",
        "segmax.experiments.experiment",
    }
    assert loaded.isdisjoint({"numpy", "scipy", "segmax.building", "segmax.encoders", "segmax.evaluation"})


@pytest.mark.parametrize("arguments", [["experiment", "space", "--help"], ["experiment", "space"]])
def test_a_command_loads_one_experiment(arguments: list[str]) -> None:
    """An experiment is loaded alone, also where the command ends with an error."""
    modules = {f"segmax.experiments.{name.replace('-', '_')}" for name in EXPERIMENTS}
    assert loaded_by(arguments) & modules == {"segmax.experiments.space"}


@pytest.mark.deep
def test_a_report_loads_no_experiment(tmp_path: Path) -> None:
    """Old outcomes are all that a page needs."""
    pytest.importorskip("matplotlib")
    ran(EXPERIMENTS["example"], tiny(), tmp_path)
    loaded = loaded_by(["report", str(tmp_path)])
    assert loaded.isdisjoint(f"segmax.experiments.{name.replace('-', '_')}" for name in EXPERIMENTS)
    assert "segmax.experiments.task" not in loaded


def loaded_by(arguments: list[str]) -> set[str]:
    """The modules that a process of its own has loaded after a command."""
    code = (
        "import json, sys\nfrom segmax.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_every_module_is_named_after_its_experiment() -> None:
    """The catalog and the module agree."""
    for name, listed in LISTED.items():
        chosen = EXPERIMENTS[name]
        assert (chosen.name, chosen.place, chosen.title) == listed
    with pytest.raises(KeyError):
        EXPERIMENTS["nope"]
    with pytest.raises(AttributeError, match="no attribute 'odd'"):
        _ = segmax.experiments.odd  # type: ignore[attr-defined]
    assert set(segmax.experiments.__all__) <= set(dir(segmax.experiments))


def test_help_without_a_name_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    """The help lists all experiments and shows how to begin."""
    with pytest.raises(SystemExit, match="0"):
        command("--help")
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in EXPERIMENTS)
    assert "segmax experiment example" in out
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_help_teaches_about_one(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of an experiment explains what it does and what data it takes, with an example."""
    with pytest.raises(SystemExit, match="0"):
        command(name, "--help")
    out = capsys.readouterr().out
    assert EXPERIMENTS[name].description.strip() in out
    assert f"  segmax experiment {name}" in out
    assert ("JSON file" in out) == EXPERIMENTS[name].needs_data
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("nope",), {"expected": "an experiment", "got": "'nope'"}),
        (("bounds",), {"where": "^bounds$", "expected": "a collection", "hint": "give a BEIR folder.*{data}"}),
        (("zero-shot",), {"where": "^zero-shot$", "expected": "one or more collections", "got": "none"}),
        (("example", "--data", "x"), {"expected": "no collection", "got": "1", "hint": "leave {data} out"}),
        (("bounds", "--data", "x", "--data", "y"), {"where": "^bounds$", "expected": "one collection", "got": "2"}),
        (
            ("bounds", "--data", "x", "--encoder", "bm25", "--encoder", "y"),
            {"where": "^bounds$", "expected": "one collection", "got": "2"},
        ),
        (("zero-shot", "--data", "x", "--data", "x"), {"expected": "every collection once"}),
        (
            ("models", "--data", "x", "--encoder", "a", "--encoder", "a"),
            {"expected": "every --encoder once", "got": "a a"},
        ),
        (("example", "--seeds", "0"), {"message": "--seeds: expected at least 1, got 0"}),
        (("example", "--seeds", "few"), {"message": "--seeds: expected a whole number, got 'few'"}),
        (("example", "-k", "0"), {"message": "-k: expected at least 1, got 0"}),
        (("example", "--documents", "best"), {"message": "--documents: invalid choice: 'best'"}),
        (("example", "--num-clusters", "0"), {"message": "--num-clusters: expected at least 1"}),
        (
            ("example", "--unknown"),
            {"message": "unrecognized arguments: --unknown", "hint": "see segmax experiment --help"},
        ),
    ],
)
def test_invalid_arguments_are_refused(arguments: tuple[str, ...], parts: dict[str, str]) -> None:
    """The error states what was expected; nothing is written."""
    with refused(ConfigError, **parts):
        command(*arguments)


@pytest.mark.deep
def test_the_command_writes_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run prints its tables, files and command; running it again computes nothing, except with --fresh."""
    arguments = ("space", "--data", FOLDER, "--quick", "--num-clusters", 8, "--out", tmp_path, "--max-queries", 3)
    command(*arguments)
    shown = capsys.readouterr()
    assert "Bytes by structure" in shown.out
    assert str(tmp_path / "space.json") in shown.err
    about = json.loads((tmp_path / "space.json").read_text())["about"]
    assert about["command"].startswith(
        f"segmax experiment space --data {FOLDER} --max-queries 3 --quick --num-clusters 8"
    )
    assert about["collections"][0]["num_queries"] == 3
    assert not any(path in json.dumps({**about, "command": ""}) for path in (str(FOLDER), str(tmp_path), sys.prefix))
    assert about["resumed_steps"] == 0
    command(*arguments)
    assert "1 step of an earlier run" in capsys.readouterr().err
    command(*arguments, "--fresh")
    assert "earlier run" not in capsys.readouterr().err


def test_an_interrupted_experiment_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after some steps leaves them; the next run computes the others only, and the outcome is the same."""
    collection = tiny()

    def run(folder: Path, stop_after: int | None) -> Steps:
        steps = Steps(folder / "bounds.steps.jsonl")
        build = Task.build
        calls = 0

        def counted_build(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if stop_after is not None and calls > stop_after:
                raise KeyboardInterrupt
            return build(*arguments, **options)  # type: ignore[arg-type]

        folder.mkdir(exist_ok=True)
        monkeypatch.setattr(Task, "build", counted_build)
        try:
            with steps.opened(progress=False):
                task = Task(collections=(collection,), steps=steps, quick=True, passes=1)
                run_experiment(EXPERIMENTS["bounds"], task, folder, "command")
        finally:
            monkeypatch.undo()
        return steps

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "a", 1)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["bounds.steps.jsonl"]
    steps = run(tmp_path / "a", None)
    assert (steps.num_resumed, len(steps._done)) == (1, 3)
    run(tmp_path / "b", None)
    first, second = (json.loads((tmp_path / name / "bounds.json").read_text()) for name in "ab")
    del first["about"], second["about"]
    assert first == second


@pytest.mark.slow
def test_a_real_interruption_keeps_steps(tmp_path: Path) -> None:
    """SIGINT in the middle of a run ends it with a word on what is kept, and the steps are there."""
    code = (
        "import sys; from segmax.cli import experiment; "
        "experiment.run(experiment.parser().parse_intermixed_args(sys.argv[1:]))"
    )
    arguments = ["bounds", "--data", str(FOLDER), "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True, env=os.environ
    )
    steps = tmp_path / "bounds.steps.jsonl"
    while process.poll() is None and not (steps.exists() and steps.stat().st_size):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "run the same command again to resume" in errors
    assert steps.read_text().endswith("\n")
    assert not (tmp_path / "bounds.json").exists()
