"""Measures, significance and latency: what `evaluate` tells is what the field's own tools tell."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import ir_measures
import numpy as np
import pytest
import pytrec_eval
import scipy.sparse as sp
import scipy.stats

import segmax
from conftest import SHARED, refused, topic_docs
from segmax import ASC, Exhaustive, paper
from segmax.cli.main import main
from segmax.demo import FOLDER
from segmax.errors import ConfigError, InputError, WriteError
from segmax.evaluation import EncodedQueries, corrected, evaluate, paired_t_test, relevance
from segmax.io import read_qrels, read_queries, read_run, untied
from segmax.paper import Anytime, method_name, parse_method
from segmax.search.hooks import with_hooks

METHOD_TEXTS = ["exhaustive", "maxscore", "anytime", "asc", "asc:mu=0.7", "sequential:mu=0.5,eta=0.9"]


@pytest.fixture(scope="module")
def vaswani() -> segmax.Index:
    """The collection that ships with segmax, under BM25."""
    return segmax.from_texts(FOLDER, config=segmax.BuildConfig(num_clusters=64))


@pytest.fixture(scope="module")
def found(vaswani: segmax.Index, tmp_path_factory: pytest.TempPathFactory) -> tuple[segmax.typing.Evaluation, Path]:
    """An evaluation of several methods, and where its runs are."""
    runs = tmp_path_factory.mktemp("runs")
    return segmax.evaluate(vaswani, data=FOLDER, methods=METHOD_TEXTS, k=20, passes=1, runs=runs), runs


# --- measures --------------------------------------------------------------------------------------------------------


def random_judged(
    rng: np.random.Generator, ties: bool
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Grades 0 to 3 and scores, of which some tie, for queries of which some find nothing."""
    qrels, run = {}, {}
    for query in range(30):
        docs = [f"d{d}" for d in rng.permutation(60)]
        qrels[f"q{query}"] = {doc: int(rng.integers(0, 4)) for doc in docs[: rng.integers(1, 30)]}
        if query % 7:
            scores = rng.integers(1, 9, 40) if ties else rng.normal(size=40)
            run[f"q{query}"] = dict(zip(rng.permutation(docs)[:40].tolist(), scores.tolist(), strict=True))
    return qrels, run


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("min_rel", [1, 2, 3])
def test_measures_are_those_of_the_libraries(rng: np.random.Generator, ties: bool, min_rel: int) -> None:
    """Per query and on average, to the last digit, as ir_measures has them; nDCG and recall as pytrec_eval."""
    qrels, run = random_judged(rng, ties)
    values = relevance(qrels, run, list(qrels), k=20, min_rel=min_rel)
    graded = f"(rel={min_rel})" if min_rel > 1 else ""
    names = {"MRR@10": f"RR{graded}@10", "nDCG@10": "nDCG@10", "Recall@20": f"R{graded}@20"}
    for ours, theirs in names.items():
        measure = ir_measures.parse_measure(theirs)
        expected = {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, run)}
        assert values[ours].tolist() == [expected[query] for query in qrels]
        assert values[ours].mean() == pytest.approx(
            ir_measures.calc_aggregate([measure], qrels, run)[measure], abs=1e-15
        )
    floats = {query: {doc: float(score) for doc, score in docs.items()} for query, docs in run.items()}
    judge = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.20"}, relevance_level=min_rel)
    per_query = judge.evaluate(floats)
    for number, query in enumerate(qrels):
        expected_ndcg = per_query.get(query, {}).get("ndcg_cut_10", 0.0)
        assert values["nDCG@10"][number] == expected_ndcg
        assert values["Recall@20"][number] == per_query.get(query, {}).get("recall_20", 0.0)


def test_ties_are_broken_by_rank() -> None:
    """Scores that tie, also as 32-bit numbers, become smaller with the rank; others stay."""
    scores = [5.0, 3.0, 3.0, 3.0 - 1e-12, 1.0]
    fair = untied(scores)
    assert (np.diff(np.asarray(fair, np.float32)) < 0).all()
    assert [fair[0], fair[1], fair[4]] == [5.0, 3.0, 1.0]
    assert fair[3] > 3.0 - 1e-5
    assert untied([]) == []


# --- significance ----------------------------------------------------------------------------------------------------


def test_t_tests_are_those_of_scipy(rng: np.random.Generator) -> None:
    """T and p as scipy.stats.ttest_rel; nothing is significant where nothing differs."""
    first, second = rng.normal(size=(2, 50))
    expected = scipy.stats.ttest_rel(first, second)
    assert paired_t_test(first, second) == (expected.statistic, expected.pvalue)
    assert paired_t_test(first, first) == (0.0, 1.0)
    assert paired_t_test(np.zeros(5), np.ones(5)) == (-np.inf, 0.0)
    with refused(InputError, expected="at least 2 queries", got="1 and 1"):
        paired_t_test(np.zeros(1), np.ones(1))


def test_corrections_are_as_defined(rng: np.random.Generator) -> None:
    """Bonferroni multiplies; Holm rejects, step by step, exactly what its procedure rejects at every level."""
    p_values = rng.uniform(0, 0.2, 12).tolist()
    assert corrected(p_values, "bonferroni") == pytest.approx([min(1.0, 12 * p) for p in p_values])
    assert corrected(p_values, "none") == p_values
    fair = corrected(p_values, "holm")
    order = np.argsort(p_values)
    for level in (0.01, 0.05, 0.2, 0.5):
        rejected = set()
        for step, test in enumerate(order):
            if p_values[test] > level / (12 - step):
                break
            rejected.add(int(test))
        assert {number for number, p in enumerate(fair) if p <= level} == rejected
    assert corrected([], "holm") == []
    with refused(ConfigError, option="^correction$", expected="'holm' or 'bonferroni' or 'none'", got="'sidak'"):
        corrected([0.1], "sidak")


@pytest.mark.deep
def test_tests_between_methods(found: tuple[segmax.typing.Evaluation, Path]) -> None:
    """All pairs or against a baseline, on every measure, with the correction over the tests of a measure."""
    evaluation, _ = found
    pairs = evaluation.t_tests()
    assert len(pairs) == 3 * 15
    against = evaluation.t_tests("nDCG@10", baseline="exhaustive", correction="bonferroni")
    assert [test.method for test in against] == METHOD_TEXTS[1:]
    last = against[-1]
    expected = scipy.stats.ttest_rel(
        evaluation["sequential:mu=0.5,eta=0.9"].per_query["nDCG@10"], evaluation["exhaustive"].per_query["nDCG@10"]
    )
    assert (last.t, last.p_value) == (expected.statistic, expected.pvalue)
    assert last.corrected_p == min(1.0, 5 * last.p_value)
    assert against[0].difference == 0
    assert not against[0].is_significant()
    with refused(ConfigError, expected="a measure"):
        evaluation.t_tests("MAP")


# --- evaluating ------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_runs_evaluate_to_the_same_figures(found: tuple[segmax.typing.Evaluation, Path]) -> None:
    """The runs on disk, measured by ir_measures, give the figures of the evaluation, to the last digit."""
    evaluation, runs = found
    qrels = read_qrels(FOLDER / "qrels.tsv")
    for method in evaluation:
        name = method.name.replace(":", "_").replace(",", "_")
        run = read_run(runs / f"{name}.run")
        for ours, theirs in (("MRR@10", "RR@10"), ("nDCG@10", "nDCG@10"), ("Recall@20", "R@20")):
            measure = ir_measures.parse_measure(theirs)
            aggregate = ir_measures.calc_aggregate([measure], qrels, run)[measure]
            assert method.relevance[ours] == aggregate


def test_exact_methods_give_one_run(found: tuple[segmax.typing.Evaluation, Path]) -> None:
    """Runs of exact methods are the same to the last document and digit, their tags apart."""
    evaluation, runs = found
    assert all(evaluation[name].recall_of_exact == 1.0 for name in METHOD_TEXTS[:4])
    exact = {line.rsplit(" ", 1)[0] for line in (runs / "exhaustive.run").read_text().splitlines()}
    for name in METHOD_TEXTS[1:4]:
        assert {line.rsplit(" ", 1)[0] for line in (runs / f"{name}.run").read_text().splitlines()} == exact


def test_measures_match_the_runs(vaswani: segmax.Index, found: tuple[segmax.typing.Evaluation, Path]) -> None:
    """Recall of exact, ratio of scores, clusters and documents are those of the searches; latencies are in order."""
    evaluation, _ = found
    queries = read_queries(FOLDER)
    assert evaluation.num_queries == len(queries.ids) == 93
    vectors = vaswani.encoder.encode_queries(queries.texts or [])
    exact = vaswani.search_batch(vectors, 20, Exhaustive())
    hits = vaswani.search_batch(vectors, 20, paper.ASC(mu=0.5, eta=0.9))
    method = evaluation["sequential:mu=0.5,eta=0.9"]
    kept = [len(set(a.rows) & set(b.rows)) / len(b) for a, b in zip(hits, exact, strict=True)]
    assert method.recall_of_exact == pytest.approx(np.mean(kept))
    assert 0.5 < method.recall_of_exact < 1
    assert method.score_ratio == pytest.approx((hits.scores.sum(axis=1) / exact.scores.sum(axis=1)).mean())
    assert method.clusters_visited == pytest.approx(hits.stats.clusters_visited.mean() / 64)
    assert method.docs_scored == pytest.approx(hits.stats.docs_scored.mean())
    assert evaluation["maxscore"].clusters_visited is None
    for each in evaluation:
        assert 0 < each.p50_ms <= each.p99_ms
        assert each.mean_ms == pytest.approx(each.per_query["milliseconds"].mean())


def test_it_prints_writes_and_draws(found: tuple[segmax.typing.Evaluation, Path], tmp_path: Path) -> None:
    """A table with four decimals, CSV, JSON, and a plot of every measure."""
    pytest.importorskip("matplotlib")
    evaluation, _ = found
    text = str(evaluation)
    for method in evaluation:
        assert f"{method.relevance['nDCG@10']:.4f}" in text
        assert f"{method.p99_ms:.4f}" in text
    assert "93 queries, 11,429 documents, 64 clusters × 8 segments, k = 20, one thread" in text
    evaluation.to_csv(tmp_path / "found.csv")
    rows = list(csv.DictReader((tmp_path / "found.csv").read_text().splitlines()))
    assert [row["name"] for row in rows] == METHOD_TEXTS
    assert float(rows[0]["nDCG@10"]) == evaluation["exhaustive"].relevance["nDCG@10"]
    evaluation.to_json(tmp_path / "found.json")
    written = json.loads((tmp_path / "found.json").read_text())
    assert written["methods"][3]["method"] == "asc"
    assert len(written["t_tests"]) == 45
    figure = evaluation.plot(tmp_path / "found.svg")
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "MRR@10",
        "nDCG@10",
        "Recall@20",
        "Recall of exhaustive search",
    ]
    assert (tmp_path / "found.svg").stat().st_size > 5000


def test_without_judgments_there_is_still_recall_of_exact(rng: np.random.Generator) -> None:
    """A matrix of queries is enough for recall against exhaustive search, work and latency."""
    docs, _ = topic_docs(rng, 400)
    index = segmax.build(docs, config=segmax.BuildConfig(num_clusters=20))
    evaluation = evaluate(index, docs[:30], methods={"safe": ASC(), "wild": paper.ASC(mu=0.2, eta=0.2)}, passes=1)
    assert evaluation.measures == ()
    assert evaluation["safe"].recall_of_exact == 1
    assert evaluation["wild"].recall_of_exact < 1
    assert {test.measure for test in evaluation.t_tests()} == {"recall_of_exact"}
    assert "nDCG" not in str(evaluation)


def test_a_query_may_find_nothing(rng: np.random.Generator) -> None:
    """Queries without a result count as 0 in measures of relevance, and nothing is missing from them."""
    docs, _ = topic_docs(rng, 50)
    index = segmax.build(docs)
    queries = sp.vstack([docs[:1], sp.csr_matrix((1, docs.shape[1]), dtype=docs.dtype)], format="csr")
    evaluation = evaluate(index, queries, {"0": {"0": 1}, "1": {"3": 1}}, methods=["asc"], passes=1)
    assert evaluation["asc"].per_query["Recall@10"].tolist() == [1.0, 0.0]
    assert evaluation["asc"].recall_of_exact == 1.0


def test_only_judged_queries_are_asked(rng: np.random.Generator) -> None:
    """Queries without a judgment are left out; if none is left, the error shows ids of both sides."""
    docs, _ = topic_docs(rng, 50)
    index = segmax.build(docs)
    evaluation = evaluate(index, docs[:5], {"3": {"3": 1}, "9": {"1": 1}}, methods=["asc"], passes=1)
    assert evaluation.num_queries == 1
    with refused(InputError, got="ids of queries are like '0', '1', '2', those of judgments like 'x'"):
        evaluate(index, docs[:5], {"x": {"3": 1}})


def own_documents(rng: np.random.Generator, names: list[str]) -> tuple[segmax.Index, EncodedQueries]:
    """An index, and its documents as queries."""
    docs, _ = topic_docs(rng, len(names))
    return segmax.build(docs, ids=names), EncodedQueries(names, docs)


def test_own_documents_are_dropped_where_queries_are_documents(rng: np.random.Generator) -> None:
    """As for ArguAna: by themselves where ids are names, not where they are numbers, and as the caller says."""
    index, queries = own_documents(rng, [f"argument-{n}" for n in range(40)])
    qrels = {name: {queries.ids[row - 1]: 1} for row, name in enumerate(queries.ids)}
    dropped = evaluate(index, queries, qrels, methods=["exhaustive", "asc"], k=5, passes=1)
    kept = evaluate(index, queries, qrels, methods=["asc"], k=5, passes=1, drop_self=False)
    assert dropped.dropped_self
    assert not kept.dropped_self
    assert dropped["asc"].recall_of_exact == 1
    hits = index.search_batch(queries.vectors, 6, Exhaustive())
    for number, name in enumerate(queries.ids):
        fair = [doc for doc in hits[number].ids if doc != name][:5]
        expected = next((1 / rank for rank, doc in enumerate(fair, start=1) if doc in qrels[name]), 0.0)
        assert dropped["asc"].per_query["MRR@5"][number] == expected
    assert dropped["asc"].relevance["MRR@5"] > kept["asc"].relevance["MRR@5"]
    index, queries = own_documents(rng, [str(n) for n in range(40)])
    assert not evaluate(index, queries, methods=["asc"], passes=1).dropped_self
    assert evaluate(index, queries, methods=["asc"], passes=1, drop_self=True).dropped_self


def test_own_documents_may_be_called_by_numbers(rng: np.random.Generator) -> None:
    """Documents without ids are called by their rows; dropping nothing where that was asked for is an error."""
    docs, _ = topic_docs(rng, 40)
    index = segmax.build(docs)
    found = evaluate(index, docs[:10], {str(n): {str(n): 1} for n in range(10)}, passes=1, drop_self=True)
    assert found.dropped_self
    assert found["asc"].relevance["MRR@10"] == 0
    with refused(InputError, expected="queries that have the id of a document", got="none"):
        evaluate(index, EncodedQueries(["a"], docs[:1]), drop_self=True)


def test_measures_stand_at_the_depth_that_there_is(rng: np.random.Generator) -> None:
    """Of five results there is an MRR@5, and no MRR@10."""
    docs, _ = topic_docs(rng, 40)
    found = evaluate(segmax.build(docs), docs[:4], {"1": {"1": 1}}, methods=["asc"], k=5, passes=1)
    assert found.measures == ("MRR@5", "nDCG@5", "Recall@5")


def test_judged_queries_without_a_query_are_counted(rng: np.random.Generator) -> None:
    """Their number is in the result and below the table."""
    docs, _ = topic_docs(rng, 40)
    found = evaluate(segmax.build(docs), docs[:2], {"0": {"1": 1}, "x": {"1": 1}, "y": {}}, methods=["asc"], passes=1)
    assert (found.num_queries, found.num_unasked) == (1, 2)
    assert "2 judged queries were not among the queries" in " ".join(str(found).split())
    assert found.to_dict()["num_unasked"] == 2


def test_queries_have_one_id_each(rng: np.random.Generator) -> None:
    """Ids that repeat, and too few of them, are refused."""
    docs, _ = topic_docs(rng, 4)
    with refused(InputError, expected="every query once", got="the id 'a' again"):
        EncodedQueries(["a", "a"], docs[:2])
    with refused(InputError, expected="an id per query", got="1 ids and 2 queries"):
        EncodedQueries(["a"], docs[:2])


def test_given_judgments_may_have_numbers(rng: np.random.Generator) -> None:
    """Numbers as ids and whole floats as grades are taken; other grades are refused."""
    docs, _ = topic_docs(rng, 40)
    index = segmax.build(docs)
    plain = evaluate(index, docs[:2], {"0": {"0": 2}, "1": {"1": 1}}, methods=["asc"], passes=1)
    odd = evaluate(index, docs[:2], {0: {0: 2.0}, 1: {1: np.int64(1)}}, methods=["asc"], passes=1)  # type: ignore[dict-item]
    assert plain["asc"].relevance == odd["asc"].relevance
    with refused(InputError, expected="whole numbers as grades", got="'good' for document '1'"):
        evaluate(index, docs[:2], {"0": {"1": "good"}})  # type: ignore[dict-item]


def test_infinite_t_is_null_in_json(tmp_path: Path, rng: np.random.Generator) -> None:
    """JSON has no infinity: a t without bound is null there, with p = 0."""
    docs = sp.identity(30, format="csr")
    methods = {"exact": Exhaustive(), "blind": paper.ASC(max_clusters=1)}
    index = segmax.build(docs, clustering=np.arange(30), config=segmax.BuildConfig(num_clusters=30))
    queries = sp.vstack([docs[n] + 0.5 * docs[n + 10] for n in range(5)], format="csr")
    found = evaluate(index, queries, {str(n): {str(n + 10): 1} for n in range(5)}, methods=methods, passes=1)
    found.to_json(tmp_path / "x.json")
    tests = json.loads((tmp_path / "x.json").read_text(), parse_constant=pytest.fail)["t_tests"]
    assert {"Recall@10": None}.items() <= {test["measure"]: test["t"] for test in tests}.items()


def test_names_of_methods_are_shown_escaped(rng: np.random.Generator, tmp_path: Path) -> None:
    """They are the caller's: what a terminal would obey is shown."""
    docs, _ = topic_docs(rng, 40)
    hostile = "a\x1b]0;title\x07\u202eb"
    found = evaluate(segmax.build(docs), docs[:4], methods={hostile: segmax.ASC()}, passes=1)
    texts = [repr(found), repr(found.methods[0]), str(found)]
    with pytest.raises(ConfigError) as error:
        found["other"]
    for text in (*texts, str(error.value)):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert r"a\x1b]0;title\x07\u202eb" in repr(found)
    for write in (found.to_json, found.to_csv, found.plot):
        with refused(ConfigError, option="^path$", expected="a path"):
            write(5)  # type: ignore[arg-type]


def test_what_was_swept_is_said(rng: np.random.Generator) -> None:
    """Where μ and η change nothing, because small collections are searched exhaustively, a line says of which rows."""
    docs, _ = topic_docs(rng, 40)
    methods = {
        "exhaustive": segmax.Exhaustive(),
        "asc:eta=0.9": segmax.ASC(eta=0.9),
        "asc:mu=0.7": segmax.ASC(mu=0.7),
        "never": with_hooks(segmax.ASC(), sweep=False),
    }
    index = segmax.build(docs)
    found = evaluate(index, docs[:8], methods=methods, passes=1)
    assert index.search_batch(docs[:8], 1000, methods["asc:mu=0.7"]).stats.swept.tolist() == [1] * 8
    assert [method.swept for method in found] == [0.0, 1.0, 1.0, 0.0]
    assert [method["swept"] for method in found.to_dict()["methods"]] == [0.0, 1.0, 1.0, 0.0]
    said = "swept: 100% of the queries of asc:eta=0.9, asc:mu=0.7 were answered exhaustively"
    assert said in " ".join(str(found).split())
    assert "mu and eta change nothing" in " ".join(str(found).split())
    plain = evaluate(index, docs[:8], methods={"never": methods["never"]}, passes=1)
    assert "swept" not in str(plain)


def test_no_share_of_documents_is_above_all(rng: np.random.Generator, tmp_path: Path) -> None:
    """A search scores deleted documents of a collection too, as long as these are there."""
    docs, _ = topic_docs(rng, 40)
    with segmax.Collection.create(tmp_path / "docs") as collection:
        collection.add(docs, ids=list(range(docs.shape[0])))
        collection.delete(list(range(0, docs.shape[0], 3)))
        found = evaluate(collection, docs[:8], methods=["exhaustive", "asc"], passes=1)
        assert found["exhaustive"].docs_scored > collection.num_docs
        assert [method.docs_scored_share for method in found] == [1.0, 1.0]


def test_empty_places_of_blocks_are_no_documents(rng: np.random.Generator) -> None:
    """A cluster whose last block is not full counts with its documents, whatever the core scored beside them."""
    docs = sp.csr_matrix(rng.integers(1, 255, (45, 12)))
    index = segmax.build(docs, num_clusters=7)
    raw = index.search_batch(docs[:4], k=45, params=segmax.ASC(max_blocks=1000)).stats.docs_scored
    assert raw.max() > 45
    found = evaluate(index, docs[:4], methods=["asc:max_blocks=1000"], k=45, passes=1).methods[0]
    assert found.docs_scored == np.minimum(raw, 45).mean()
    assert found.docs_scored_share <= 1


def test_no_figure_is_cut(rng: np.random.Generator) -> None:
    """However long the names of methods, they are wrapped and no figure is."""
    docs, _ = topic_docs(rng, 40)
    long = "sequential:mu=0.5,eta=0.9,max_clusters=1000,documents=maxscore,max_terms=64,estimate_threshold=false"
    found = evaluate(segmax.build(docs), docs[:4], methods=["exhaustive", long], passes=1)
    folded = "".join(line.split(" ")[0] for line in str(found).splitlines())
    assert method_name(parse_method(long)) in folded
    assert "…" not in str(found)
    assert found[long] is found.methods[1]
    assert repr(found).startswith("Evaluation(exhaustive, sequential:max_terms=64,mu=0.5")
    assert repr(found["exhaustive"]).startswith("MethodResult(exhaustive: recall_of_exact 1.0000")


def test_runs_need_a_folder_and_names(tmp_path: Path, rng: np.random.Generator) -> None:
    """A file in the place of the folder, and names that give one file, are refused before anything is searched."""
    docs, _ = topic_docs(rng, 40)
    index = segmax.build(docs)
    (tmp_path / "file").write_text("")
    with refused(WriteError, where="file'$", message="could not make the folder"):
        evaluate(index, docs[:2], runs=tmp_path / "file")
    with refused(ConfigError, got="'a b' and 'a/b', which give one"):
        evaluate(index, docs[:2], methods={"a b": ASC(), "a/b": Exhaustive()}, runs=tmp_path / "runs")


def test_budgets_give_results_and_times_of_one_pass(rng: np.random.Generator) -> None:
    """A budget that nothing fits into is kept, and seen in the results."""
    docs, _ = topic_docs(rng, 3000)
    index = segmax.build(docs, config=segmax.BuildConfig(num_clusters=100))
    tiny = Anytime(budget_ms=1e-6)
    evaluation = evaluate(index, docs[:20], methods={"exact": Anytime(), "tiny": tiny}, k=200, passes=2)
    assert evaluation["exact"].recall_of_exact == 1
    assert evaluation["tiny"].recall_of_exact < 1
    assert evaluation["tiny"].clusters_visited < evaluation["exact"].clusters_visited


def test_many_queries_are_asked_in_parts(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many queries are held at the same time changes nothing."""
    docs, topics = topic_docs(rng, 200)
    index = segmax.build(docs)
    qrels = {str(row): {str(other): 1 for other in np.flatnonzero(topics == topics[row])} for row in range(60)}
    whole = evaluate(index, docs[:60], qrels, methods=["asc", "asc:mu=0.3"], passes=1)
    monkeypatch.setattr("segmax.evaluation.run._CHUNK", 7)
    parts = evaluate(index, docs[:60], qrels, methods=["asc", "asc:mu=0.3"], passes=1)
    for one, other in zip(whole, parts, strict=True):
        for measure in whole.measures:
            assert one.per_query[measure].tolist() == other.per_query[measure].tolist()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"queries": None}, {"expected": "queries, or data", "got": "neither"}),
        ({"methods": []}, {"expected": "at least one method", "got": "none"}),
        ({"methods": ["asc", "asc:mu=1.0"]}, {"expected": "every method once", "got": "asc again"}),
        ({"methods": {"mine": 3}}, {"expected": "methods such as"}),
        ({"k": 0}, {"option": "^k$", "expected": "at least 1", "got": "0"}),
        ({"passes": 0}, {"option": "^passes$", "expected": "at least 1"}),
        ({"min_rel": 0}, {"option": "^min_rel$", "expected": "at least 1"}),
        ({"queries": sp.csr_matrix((0, 30))}, {"expected": "queries", "got": "none"}),
        ({"queries": 7}, {"expected": "queries as a path, a matrix or an iterable", "got": "int"}),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, object], parts: dict[str, str]) -> None:
    """What cannot be evaluated is refused before anything is searched."""
    docs = sp.random(20, 30, 0.3, format="csr", random_state=1)
    given: dict[str, object] = {"queries": docs[:3], **arguments}
    with refused(segmax.SegmaxError, **parts):
        evaluate(segmax.build(docs), **given)  # type: ignore[arg-type]


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_command_evaluates_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`segmax evaluate --data`: tables for people, all files that are asked for, JSON with everything."""
    pytest.importorskip("matplotlib")
    index = str(tmp_path / "index")
    assert main(["index", str(FOLDER), index, "--no-progress"]) == 0
    capsys.readouterr()
    methods = ["--methods", "exhaustive", "asc", "anytime:mu=0.5"]
    files = ["--csv", str(tmp_path / "x.csv"), "--runs", str(tmp_path / "runs"), "--plot", str(tmp_path / "x.png")]
    assert main(["evaluate", index, "--data", str(FOLDER), *methods, *files, "--passes", "1"]) == 0
    printed = capsys.readouterr().out
    assert "paired t-tests against exhaustive, correction: holm" in printed
    assert {file.name for file in (tmp_path / "runs").iterdir()} == {
        "exhaustive.run",
        "asc.run",
        "anytime_mu=0.5.run",
    }
    joined = ["--methods", "exhaustive,asc:mu=0.5,eta=0.9,asc"]
    assert main(["evaluate", index, "--data", str(FOLDER), *joined, "--json", "--min-rel", "1", "-k", "1000"]) == 0
    printed_json = json.loads(capsys.readouterr().out)
    assert f"{read_row(tmp_path / 'x.csv')['nDCG@10']:.4f}" in printed
    assert printed_json["methods"][0]["nDCG@10"] == read_row(tmp_path / "x.csv")["nDCG@10"]
    assert [method["name"] for method in printed_json["methods"]] == ["exhaustive", "asc:mu=0.5,eta=0.9", "asc"]
    assert set(printed_json["methods"][1]) > {"MRR@10", "Recall@1000", "recall_of_exact", "p99_ms", "clusters_visited"}


def read_row(path: Path) -> dict[str, float]:
    """The numbers of the first method in a CSV file."""
    with path.open() as file:
        row = next(csv.DictReader(file))
    return {name: float(value) for name, value in row.items() if name not in ("name", "method") and value}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "expected --data DATA, or --queries FILE with or without --qrels FILE, got neither"),
        (["--data", "x", "--queries", "y"], "got both"),
        (["--queries", "none.tsv"], "there is no file 'none.tsv'"),
        (["--data", ".", "--methods", "magic"], "expected a method"),
        (["--data", ".", "-k", "many"], "-k: expected a whole number, got 'many'"),
        (["--data", ".", "--plot", "x.gif"], "expected a plot to end in .png"),
        (["--data", ".", "--csv", "nowhere/x.csv"], "--csv: expected an existing directory, got 'nowhere'"),
        (["--data", ".", "--correction", "fdr"], "argument --correction: invalid choice: 'fdr'"),
    ],
)
def test_command_reports_mistakes(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line on standard error, exit code 2, nothing written."""
    monkeypatch.chdir(tmp_path)
    segmax.build(sp.random(20, 30, 0.3, format="csr", random_state=1), path="index")
    assert main(["evaluate", "index", *arguments]) == 2
    printed = capsys.readouterr()
    assert complaint in printed.err
    assert printed.out == ""
    assert {file.name for file in tmp_path.iterdir()} == {"index"}


# --- a published figure ----------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_nfcorpus_gives_the_published_figure(tmp_path: Path) -> None:
    """Exhaustive search of NFCorpus by SPLADE-v3 gives nDCG@10 .363, exact asc the same run, μ = .9 within .002."""
    folder = SHARED / "data" / "nfcorpus"
    if not folder.is_dir():
        pytest.skip("needs NFCorpus beside the project")
    docs = folder / "splade-v3" / "docs.jsonl.gz"
    with segmax.build(docs, config=segmax.BuildConfig(num_clusters=64)) as index:
        evaluation = evaluate(
            index,
            folder / "splade-v3" / "queries.tsv.gz",
            folder / "qrels" / "test.tsv",
            methods={"exhaustive": Exhaustive(), "asc": ASC(), "wild": ASC(mu=0.9, eta=1)},
            passes=1,
            runs=tmp_path,
        )
    exact = evaluation["exhaustive"].relevance["nDCG@10"]
    assert round(exact, 3) == 0.363
    assert evaluation["wild"].relevance["nDCG@10"] == pytest.approx(exact, abs=0.002)
    assert read_run(tmp_path / "asc.run") == read_run(tmp_path / "exhaustive.run")
