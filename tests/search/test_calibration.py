"""target_recall: what is measured, what is chosen, where it is kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from calibrations import LOSSY, lossy_at, stored_calibration, stored_setting
from conftest import refused, topic_docs, wiki_reader
from segmax.building.points import rarity
from segmax.building.pseudo_queries import pseudo_queries
from segmax.errors import ConfigError, FormatError, InputError, WriteError
from segmax.search.calibration import LEAST_DOCS, Calibration, Measured, Setting, measure, settings_for
from segmax.search.methods import ASC, SearchParams
from segmax.search.results import STATS_FIELDS, BatchHits, BatchStats
from segmax.search.tuning import Targets
from segmax.storage.checked_json import checked_bytes
from segmax.storage.tables import DocIds
from segmax.vectors.csr import Csr, matrix_to_csr

NUM_DOCS = LEAST_DOCS + 500


def collection(num_docs: int = NUM_DOCS) -> sp.csr_matrix:
    """Documents of many topics."""
    return topic_docs(np.random.default_rng(5), num_docs, num_topics=60, mean_terms=14)[0]


def questions(num_queries: int = 60) -> sp.csr_matrix:
    """Queries about the topics, a few terms each."""
    docs = topic_docs(np.random.default_rng(6), num_queries, num_topics=60, mean_terms=4)[0]
    return docs.astype(np.float64)


@pytest.fixture(scope="module")
def index() -> segmax.Index:
    """An index in memory, large enough to be calibrated."""
    return segmax.build(collection())


def recall(found: BatchHits, exact: BatchHits) -> float:
    """The slow twin of what is measured: the mean share of exact results that were found."""
    shares = [len(set(f.rows.tolist()) & set(e.rows.tolist())) / len(e) for f, e in zip(found, exact, strict=True)]
    return float(np.mean(shares))


# --- choosing --------------------------------------------------------------------------------------------------------


def measured(k: int, source: str = "given queries", num_queries: int = 500) -> Measured:
    """Three settings; at larger k less is lost."""
    loss = 0.1 / k
    rows = ((ASC(), 1.0, 1.0), (ASC(eta=0.9), 1 - loss, 0.8), (ASC(eta=0.5), 1 - 4 * loss, 0.6))
    settings = tuple(Setting(params=params, recall=recall, error=0.0, cost=cost) for params, recall, cost in rows)
    return Measured(k=k, source=source, num_queries=num_queries, settings=settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("k", "target", "eta", "note"),
    [
        (10, 0.99, 0.9, ""),
        (10, 0.96, 0.5, ""),
        (10, 0.991, 1.0, ""),
        (100, 0.99, 0.5, ""),
        (50, 0.97, 0.9, "k = 10 and 100"),  # 10 decides, where eta = 0.5 loses too much
        (9, 0.5, 1.0, "below k = 10, so search is exact"),
        (101, 0.5, 1.0, "above k = 100, so search is exact"),
        (10, 1.0, 1.0, ""),
        (101, 1.0, 1.0, ""),
    ],
)
def test_the_cheapest_setting_that_reaches_it(k: int, target: float, eta: float, note: str) -> None:
    """Between values of k the worse one counts; below the smallest and above the largest nothing is guessed."""
    expectation = Calibration((measured(10), measured(100))).expectation(k, target)
    assert expectation.params == ASC(eta=eta)
    assert expectation.expected_recall >= target
    assert note in expectation.note
    assert (note == "") == (expectation.note == "")
    assert (expectation.num_queries == 500) == (eta < 1.0 or (expectation.source == "given queries"))
    assert f"recall@{k} >= {target:g}" in str(expectation)


def test_doubts() -> None:
    """Pseudo-queries and few queries have to show more than given and many ones."""
    pseudo = Calibration((measured(10, "pseudo-queries"),))
    assert pseudo.expectation(10, 0.99).params == ASC()
    assert pseudo.expectation(10, 0.98).params == ASC(eta=0.9)
    assert "500 pseudo-queries" in str(pseudo.expectation(10, 0.98))
    doubtful = measured(10)
    settings = tuple(Setting(params=s.params, recall=s.recall, error=0.002, cost=s.cost) for s in doubtful.settings)
    unsure = Measured(k=10, source="given queries", num_queries=9, settings=settings)
    assert Calibration((unsure,)).expectation(10, 0.99).params == ASC()


def test_without_a_calibration_search_is_exact() -> None:
    """It says so, and what to do."""
    expectation = Calibration().expectation(10, 0.9)
    assert (expectation.params, expectation.num_queries, expectation.source) == (ASC(), 0, "none")
    assert "not calibrated" in str(expectation)
    assert "index.tune(queries, k)" in str(expectation)
    assert str(Calibration()) == "not calibrated"


@pytest.mark.parametrize("target", [0.0, -1.0, 1.01, float("nan"), "0.9", True, None])
def test_invalid_targets_are_refused(index: segmax.Index, target: object) -> None:
    """Every way to give a target checks it."""
    for call in (index.expectation, index.params_for):
        with refused(ConfigError, option="target_recall"):
            call(10, target)  # type: ignore[operator]
    with refused(ConfigError, option="target_recall"):
        index.tune(questions(3), 10, target)  # type: ignore[arg-type]
    if target is not None:
        with refused(ConfigError, option="target_recall"):
            index.search({1: 1.0}, target_recall=target)  # type: ignore[arg-type]


def test_a_target_instead_of_params(index: segmax.Index) -> None:
    """A search with a target is one with what it chooses; both at once cannot be."""
    queries = questions()
    for target in (0.8, 0.95, 1.0):
        chosen = index.params_for(10, target)
        expected = index.search_batch(queries, params=chosen)
        assert (index.search_batch(queries, target_recall=target).rows == expected.rows).all()
        for row in range(5):
            assert index.search(queries[row], target_recall=target).rows.tolist() == expected[row].rows.tolist()
    assert index.params_for(10, 1.0) == ASC()
    for search in (index.search, index.search_batch):
        with refused(ConfigError, expected="params or target_recall", got="both"):
            search(queries[0], params=ASC(), target_recall=0.9)  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["index", "collection"])
def test_what_was_measured_at_a_depth_is_for_searches_of_that_depth(kind: str, tmp_path: Path) -> None:
    """The depth is k + offset; elsewhere, with a filter and for groups a search is exact, in a batch query by query."""
    docs, queries = collection(1500), questions(30)
    metadata = [{"n": row % 7} for row in range(1500)]
    source: segmax.Index | segmax.Collection
    if kind == "index":
        source = segmax.build(docs, metadata=metadata)
        source._set_calibration(lossy_at(20))
    else:
        source = segmax.Collection.create(tmp_path / "docs")
        source.add(docs, ids=range(1500), metadata=metadata)
        source._targets = Targets(lossy_at(20))
    where, some = {"n": {"$lt": 3}}, [None, {"n": 1}] * 15
    lossy = source.search_batch(queries, 20, LOSSY)
    exact = source.search_batch(queries, 20)
    assert recall(lossy, exact) < 0.9
    for k, offset, own, params in (
        (20, 0, None, LOSSY),
        (15, 5, None, LOSSY),
        (1, 19, None, LOSSY),
        (20, 1, None, ASC()),
        (10, 9, None, ASC()),
        (5, 0, None, ASC()),
        (20, 0, where, ASC()),
        (15, 5, some, [LOSSY, ASC()] * 15),
    ):
        how = {"k": k, "offset": offset, "where": own}
        found = source.search_batch(queries, target_recall=0.9, **how)  # type: ignore[arg-type]
        expected = source.search_batch(queries, params=params, **how)  # type: ignore[arg-type]
        assert found.rows.tolist() == expected.rows.tolist(), how
        if own is not some:
            one = source.search(queries[3], target_recall=0.9, **how)  # type: ignore[arg-type]
            assert one.rows.tolist() == expected[3].rows.tolist(), how
    groups = source.search(queries[3], k=2, group_by="n", group_size=10, target_recall=0.9)
    assert [one.hits.ids for one in groups] == [
        one.hits.ids for one in source.search(queries[3], k=2, group_by="n", group_size=10)
    ]
    source.close()


# --- measuring -------------------------------------------------------------------------------------------------------


def test_measured_recall_is_that_of_the_slow_twin(index: segmax.Index) -> None:
    """Recall of every setting as found by sets; exact search is measured as 1 and as the whole work."""
    queries = questions()
    expectation = index.tune(queries, 7, 0.9)
    kept = next(m for m in index.calibration.measured if m.k == 7)
    assert (kept.source, kept.num_queries) == ("given queries", 60)
    assert expectation.num_queries == 60
    exact = index.search_batch(queries, k=7, params=segmax.Exhaustive())
    for setting in kept.settings:
        found = index.search_batch(queries, k=7, params=setting.params)
        assert setting.recall == pytest.approx(recall(found, exact), abs=1e-6)
    assert kept.settings[0] == Setting(params=ASC(), recall=1.0, error=0.0, cost=1.0)
    assert all(setting.cost > 0 for setting in kept.settings)
    assert any(setting.recall < 1.0 for setting in kept.settings)


def test_the_document_of_a_query_does_not_count() -> None:
    """A setting that finds nothing but the query's own document has found nothing."""

    def search(queries: Csr, k: int, params: SearchParams) -> BatchHits:
        exact = np.array([[4, 1, 2], [5, 1, 2]])
        rows = exact if params == ASC() else np.where(exact >= 4, exact, -1)
        stats = np.zeros((2, len(STATS_FIELDS)), dtype=np.uint64)
        return BatchHits(rows, rows * 1.0, (rows >= 0).sum(axis=1), BatchStats(stats), DocIds(rows.size))

    queries = matrix_to_csr(sp.csr_matrix(np.ones((2, 3))))
    settings = (ASC(), ASC(eta=0.9))
    own = measure(search, queries, 3, 6, "pseudo-queries", settings, np.array([4, 5]))
    assert own is not None
    assert [setting.recall for setting in own.settings] == [1.0, 0.0]
    given = measure(search, queries, 3, 6, "given queries", settings)
    assert given is not None
    assert [setting.recall for setting in given.settings] == [1.0, pytest.approx(1 / 3, abs=1e-6)]


def test_the_grid_names_careful_settings_first() -> None:
    """Skipping relies on it: no setting comes before one that is more careful in every way."""
    values = [(p.query_mass, p.bound_mass, p.eta, p.max_clusters or np.inf) for p in settings_for(10, 8_594)]
    assert len(set(values)) == len(values)
    for i, later in enumerate(values):
        assert not any(all(a >= b for a, b in zip(later, earlier, strict=True)) for earlier in values[:i])


def test_limits_of_clusters_that_may_pay() -> None:
    """Up to a fourth of the clusters, with the number of them; none for many results, or where clusters may grow."""
    for num_clusters, limits in ((8_594, [1_320, 924, 660, 561, 462, 396]), (80, [20]), (20, []), (0, [])):
        found = [p.max_clusters for p in settings_for(100, num_clusters) if p.max_clusters]
        assert list(dict.fromkeys(found))[:6] == limits
        assert not any(p.max_clusters or p.bound_mass < 1 for p in settings_for(101, num_clusters))


def test_settings_that_0_2_does_not_know_are_stored_apart() -> None:
    """It reads the others, and would take these for settings with the same η that bound all terms."""
    settings = [
        Setting(params=params, recall=0.5, error=0.1, cost=0.3)
        for params in (ASC(eta=0.9), ASC(eta=0.9, bound_mass=0.8), ASC(bound_mass=0.7), ASC(max_clusters=9))
    ]
    measured = Measured(k=3, source="given queries", num_queries=2, settings=tuple(settings))
    assert measured.to_dict()["settings"] == [settings[0].to_dict()]
    assert set(settings[0].to_dict()) == {"eta", "query_mass", "recall", "error", "cost"}
    assert Measured.from_dict(json.loads(json.dumps(measured.to_dict()))) == measured


# --- at build time ---------------------------------------------------------------------------------------------------


def test_a_build_calibrates() -> None:
    """At k = 10, 100 and 1000, on pseudo-queries, unless a build is asked not to or the collection is small."""
    built = segmax.build(collection(), config=segmax.BuildConfig(seed=3))
    assert [(m.k, m.source) for m in built.calibration.measured] == [(k, "pseudo-queries") for k in (10, 100, 1000)]
    assert "pseudo-queries" in str(built.calibration)
    bounds = [any(s.params.bound_mass < 1 for s in m.settings) for m in built.calibration.measured]
    assert bounds == [True, True, False]
    assert segmax.build(collection(), config=segmax.BuildConfig(calibrate=False)).calibration == Calibration()
    assert segmax.build(collection(300)).calibration == Calibration()
    with refused(ConfigError, option="calibrate", expected="True or False"):
        segmax.BuildConfig(calibrate="yes")  # type: ignore[arg-type]


def test_the_same_calibration_on_any_number_of_threads(tmp_path: Path) -> None:
    """Every byte of the index is the same, meta.json included."""
    docs = collection()
    for threads in (1, 3):
        segmax.build(docs, path=tmp_path / str(threads), threads=threads).close()
    names = sorted(file.name for file in (tmp_path / "1").iterdir())
    assert names == sorted(file.name for file in (tmp_path / "3").iterdir())
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "3" / name).read_bytes(), name


def test_promises_are_kept_on_queries_that_were_never_seen() -> None:
    """On topics, too, the recall that a target asks for is reached."""
    built = segmax.build(collection(), config=segmax.BuildConfig(num_clusters=100))
    queries = questions(300)
    for k in (10, 1000):
        exact = built.search_batch(queries, k=k, params=segmax.Exhaustive())
        for target in (0.9, 0.95, 0.99):
            assert recall(built.search_batch(queries, k=k, target_recall=target), exact) >= target - 0.005, (k, target)


# --- pseudo-queries --------------------------------------------------------------------------------------------------


def test_pseudo_queries_are_parts_of_documents() -> None:
    """Far fewer terms than the document, all of them its own, with weights no larger than the collection's."""
    docs = collection(2000).astype(np.float64)
    csr = matrix_to_csr(docs)
    rare = rarity(np.bincount(docs.indices, minlength=docs.shape[1]), docs.shape[0])
    made = pseudo_queries(csr, rare, 100, seed=1)
    assert made.queries.num_rows == 100
    assert len(set(made.source.tolist())) == 100
    for row, source in enumerate(made.source):
        here = slice(int(made.queries.indptr[row]), int(made.queries.indptr[row + 1]))
        assert set(made.queries.indices[here]) <= set(docs[source].indices)
        assert (made.queries.values[here] > 0).all()
    assert 1 <= np.diff(made.queries.indptr).mean() < 0.7 * np.diff(docs.indptr).mean()
    again = pseudo_queries(csr, rare, 100, seed=1)
    assert (again.queries.indices == made.queries.indices).all()
    assert (again.queries.values == made.queries.values).all()
    assert (pseudo_queries(csr, rare, 100, seed=2).source != made.source).any()


def test_pseudo_queries_of_odd_collections() -> None:
    """Empty documents are passed over; terms in every document, and documents alone with their terms, do no harm."""
    docs = sp.csr_matrix([[0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 0, 3]]).astype(np.float64)
    made = pseudo_queries(matrix_to_csr(docs), np.array([0.0, 1.0, 1.0]), 10, seed=0)
    assert sorted(made.source.tolist()) == [1, 2, 3]
    assert (np.diff(made.queries.indptr) >= 1).all()
    nothing = sp.csr_matrix((3, 3), dtype=np.float64)
    assert pseudo_queries(matrix_to_csr(nothing), np.zeros(3), 10, seed=0).queries.num_rows == 0


@pytest.mark.slow
def test_pseudo_queries_look_like_real_ones() -> None:
    """Lengths and rarities of those made of wiki documents are close to those of the questions people asked."""
    read = wiki_reader()
    docs, queries = read.documents(parts=1), read.queries()[0]
    rare = rarity(np.bincount(docs.indices, minlength=docs.shape[1]), docs.shape[0])
    sample = matrix_to_csr(docs[::4].astype(np.float64))
    made = pseudo_queries(sample, rare, 300, seed=0).queries
    assert np.diff(made.indptr).mean() == pytest.approx(np.diff(queries.indptr).mean(), rel=0.15)
    assert rare[made.indices].mean() == pytest.approx(rare[queries.indices].mean(), rel=0.15)
    assert rare[made.indices].mean() == pytest.approx(rare[docs.indices].mean(), rel=0.3)


# --- keeping ---------------------------------------------------------------------------------------------------------


def test_tuning_is_stored_with_an_index_on_disk(tmp_path: Path) -> None:
    """Whoever opens the index next has it; nothing else in it changes, and every byte still checks."""
    path = tmp_path / "index"
    with segmax.build(collection(800), path=path, clustering=np.arange(800) % 20) as built:
        before = {file.name: file.read_bytes() for file in path.iterdir() if file.name != "meta.json"}
        expectation = built.tune(questions(), 5, 0.9)
        assert expectation.source == "given queries"
    segmax.verify(path)
    assert {file.name: file.read_bytes() for file in path.iterdir() if file.name != "meta.json"} == before
    with segmax.open(path) as opened:
        assert opened.expectation(5, 0.9) == expectation
        again = opened.tune(questions(30), 5, 0.9)
        opened.tune(questions(30), 20)
        assert again.num_queries == 30
        assert [m.k for m in opened.calibration.measured] == [5, 20]
        opened.save(tmp_path / "copy")
        assert segmax.open(tmp_path / "copy").calibration == opened.calibration == segmax.open(path).calibration


def test_tuning_in_memory_is_kept_by_save(tmp_path: Path, index: segmax.Index) -> None:
    """The calibration of a build and that of `tune` are both written."""
    index.tune(questions(), 10)
    index.save(tmp_path / "index")
    opened = segmax.open(tmp_path / "index")
    assert opened.calibration == index.calibration
    assert {m.source for m in opened.calibration.measured} == {"pseudo-queries", "given queries"}


def test_tuning_does_not_depend_on_threads() -> None:
    """The same queries give the same measurements."""
    index = segmax.build(collection(800), clustering=np.arange(800) % 20)
    index.tune(questions(), 5, threads=1)
    alone = index.calibration
    index.tune(questions(), 5, threads=3)
    assert index.calibration == alone


def test_tuning_of_an_index_that_was_replaced(tmp_path: Path) -> None:
    """What was measured on one index is not written to another."""
    path = tmp_path / "index"
    opened = segmax.build(collection(300), path=path)
    segmax.build(collection(200), path=path, overwrite=True).close()
    before = (path / "meta.json").read_bytes()
    with refused(FormatError, message="replaced after it was opened", hint="open it again"):
        opened.tune(questions(), 5)
    assert (path / "meta.json").read_bytes() == before


def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk while tuning leaves the index as it was."""
    path = tmp_path / "index"
    with segmax.build(collection(300), path=path) as index:
        before = (path / "meta.json").read_bytes()

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("segmax.base.files.os.fsync", full)
            with refused(WriteError, message="could not write .*No space left on device"):
                index.tune(questions(), 5)
        assert (path / "meta.json").read_bytes() == before
        segmax.verify(path)
        assert index.expectation(5, 0.9).num_queries == 60  # this process goes on with what it knows


def test_queries_that_find_nothing() -> None:
    """They cannot tell anything."""
    index = segmax.build(sp.csr_matrix([[1, 0, 0], [0, 2, 0]]))
    with refused(InputError, expected=r"queries that find something", got=r"2"):
        index.tune([{2: 1.0}, {}], 5)
    with refused(InputError, got="0"):
        index.tune(sp.csr_matrix((0, 3)), 5)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("nonsense", "expected calibration to be a list, got 'nonsense'"),
        ([{}], "a calibration has no source"),
        ([[]], "a calibration has no source"),
        ([stored_calibration(source="nobody")], "a calibration has an impossible source: 'nobody'"),
        ([stored_calibration(source=[])], r"a calibration has an impossible source: \[\]"),
        ([stored_calibration(settings=[{"mu": 3.0}])], "a calibration has no recall"),
        ([stored_calibration(settings=None)], "expected settings of a calibration to be a list, got NoneType"),
        ([stored_calibration(k=1.5)], "expected k of a calibration to be at least 1, got 1.5"),
        ([stored_calibration(num_queries="9")], "expected num_queries of a calibration to be at least 0, got '9'"),
        ([stored_calibration(), stored_calibration()], "a calibration has values of k that do not ascend"),
        ([stored_calibration(settings=[stored_setting(recall=1.5)])], "a calibration has an impossible recall: 1.5"),
        ([stored_calibration(settings=[stored_setting(cost=-1)])], r"a calibration has an impossible cost: -1\.0"),
        ([stored_calibration(settings=[stored_setting(eta="x")])], "expected eta to be a number, got 'x'"),
        (
            [stored_calibration(settings=[stored_setting(error=10**400)])],
            r"expected error to be a number, got 10+\.\.\.",
        ),
    ],
)
def test_a_damaged_calibration(tmp_path: Path, damage: object, message: str) -> None:
    """It is a FormatError that says what is wrong and where, not a strange search."""
    path = tmp_path / "index"
    segmax.build(collection(300), path=path).close()
    meta = json.loads((path / "meta.json").read_text())
    (path / "meta.json").write_bytes(checked_bytes({**meta, "calibration": damage}))
    with refused(FormatError, message=f"the index '{path}' is damaged: meta.json: {message}", hint="rebuild it"):
        segmax.open(path)


@pytest.mark.deep
def test_the_largest_weights_are_calibrated_as_others() -> None:
    """Queries made of documents with weights near the end of doubles have scores that fit one."""
    docs = sp.random(NUM_DOCS, 200, 0.05, format="csr", random_state=0)
    huge = docs.copy()
    huge.data *= 2.0**1000
    assert segmax.build(huge).calibration == segmax.build(docs).calibration
