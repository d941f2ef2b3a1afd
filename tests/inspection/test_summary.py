"""What `inspect` reports, against direct computation."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console

import segmax
from conftest import random_docs, refused
from segmax.base.display import size_text
from segmax.errors import ConfigError, InputError, SegmaxWarning
from segmax.inspection.inspecting import inspect
from segmax.inspection.summary import STRUCTURES, Bin, histogram, step_text, structure_of
from segmax.storage.components import COMPONENTS
from segmax.vectors.pruning import TopTerms, parse_step

CONFIG = segmax.BuildConfig(num_clusters=9, num_segments=4, pruning=(TopTerms(count=30),))


@pytest.fixture
def docs(rng: np.random.Generator) -> sp.csr_matrix:
    """Documents, some of them long."""
    return random_docs(rng, 400, 80, mean_terms=20)


@pytest.fixture
def index(docs: sp.csr_matrix) -> segmax.Index:
    """An index of them in memory."""
    return segmax.build(docs, config=CONFIG)


def expected_ratio(index: segmax.Index, queries: sp.csr_matrix, name: str) -> float:
    """The mean over queries of the mean of Actual over a bound, straight from the definition."""
    means = []
    for row in range(queries.shape[0]):
        bounds = index.cluster_bounds(queries[row])
        ratios = [
            best / bound for best, bound in zip(bounds.best_score, getattr(bounds, name), strict=True) if best > 0
        ]
        if ratios:
            means.append(sum(ratios) / len(ratios))
    return sum(means) / len(means)


def test_counts_and_sizes(index: segmax.Index) -> None:
    """Counts, options and sizes are those of the index."""
    report = inspect(index)
    for name in ("num_docs", "num_terms", "num_postings", "num_clusters", "num_segments", "bits", "num_bytes"):
        assert getattr(report, name) == getattr(index, name), name
    assert report.quantization_error == index.quantization_error
    assert report.sizes == index.sizes()
    assert sum(report.structure_sizes.values()) == index.num_bytes
    assert list(report.structure_sizes.values()) == sorted(report.structure_sizes.values(), reverse=True)
    for structure, num_bytes in report.structure_sizes.items():
        assert num_bytes == sum(index.sizes().get(name, 0) for name in STRUCTURES[structure]), structure
    # A code of one byte and a place, or a bit of a bitmap or a mask, and offsets.
    assert index.num_postings < report.structure_sizes["postings"] < 3 * index.num_postings
    assert report.per_posting(index.num_bytes) == index.num_bytes / index.num_postings
    assert report.config == CONFIG.to_dict()
    assert report.clustering == {"kind": "sparse", "dimensions": 64, "restarts": 1, "iterations": 10}
    assert (report.cluster_sizes == index.cluster_sizes()).all()
    assert (report.path, report.generation) == (None, None)


def test_an_index_on_disk_has_a_path_and_a_generation(index: segmax.Index, tmp_path: Path) -> None:
    """The generation counts how often the path was written."""
    index.save(tmp_path / "it")
    index.save(tmp_path / "it", overwrite=True)
    with segmax.open(tmp_path / "it") as opened:
        report = inspect(opened)
    assert (report.path, report.generation) == (str(tmp_path / "it"), 2)


@pytest.mark.parametrize("name", ["max_bound", "bound_sum", "avg_bound"])
def test_tightness_of_queries(index: segmax.Index, rng: np.random.Generator, name: str) -> None:
    """Means and quantiles are over queries and clusters with a score; an empty query does not count."""
    queries = random_docs(rng, 12, 80, mean_terms=3)
    queries = sp.csr_matrix(sp.vstack([queries, sp.csr_matrix((1, 80))]))
    tightness = inspect(index, queries).tightness
    assert tightness is not None
    assert tightness.source == "queries"
    assert tightness.num_queries == np.count_nonzero(np.diff(queries.indptr))
    ratios = getattr(tightness, name)
    assert ratios.mean == pytest.approx(expected_ratio(index, queries, name), rel=1e-12)
    assert ratios.to_dict()["median"] == pytest.approx(np.median(ratios.values))
    assert (ratios.values > 0).all()


def test_bounds_are_bounds(index: segmax.Index) -> None:
    """No real score exceeds MaxSBound, and MaxSBound is at least as tight as BoundSum."""
    tightness = inspect(index).tightness
    assert tightness is not None
    assert (tightness.max_bound.values <= 1 + 1e-12).all()
    assert (tightness.bound_sum.values <= tightness.max_bound.values + 1e-12).all()
    assert (tightness.max_bound.values <= tightness.avg_bound.values + 1e-12).all()


def test_documents_stand_in_for_queries(index: segmax.Index) -> None:
    """Without queries these are documents as the index holds them, cut to their 24 largest weights."""
    tightness = inspect(index, sample=10, seed=5).tightness
    assert tightness is not None
    assert (tightness.source, tightness.num_queries) == ("documents", 10)
    rows = np.sort(np.random.default_rng(5).choice(400, 10, replace=False))
    queries = index.vectors(rows).toarray()
    assert (np.count_nonzero(queries, axis=1) > 24).any()
    for query in queries:
        query[np.argsort(-query, kind="stable")[24:]] = 0
    assert tightness.max_bound.mean == pytest.approx(expected_ratio(index, sp.csr_matrix(queries), "max_bound"))


@pytest.mark.parametrize("ids", [[f"d{i}" for i in range(400)], list(range(5000, 5400))])
def test_stand_ins_do_not_depend_on_ids(docs: sp.csr_matrix, index: segmax.Index, ids: list[int | str]) -> None:
    """Documents are chosen by row, whatever they are called."""
    named = inspect(segmax.build(docs, ids=ids, config=CONFIG), sample=10).tightness
    plain = inspect(index, sample=10).tightness
    assert named is not None
    assert plain is not None
    assert named.to_dict() == plain.to_dict()


def test_a_sample_is_drawn_by_seed(index: segmax.Index, rng: np.random.Generator) -> None:
    """The same seed gives the same sample, another one another; more than there are is all."""
    queries = random_docs(rng, 40, 80)
    same = [inspect(index, queries, sample=8, seed=1).to_dict() for _ in range(2)]
    assert same[0] == same[1]
    assert same[0] != inspect(index, queries, sample=8, seed=2).to_dict()
    every = inspect(index, queries, sample=1000, seed=2).tightness
    assert every is not None
    assert every.num_queries == np.count_nonzero(np.diff(queries.indptr))


def test_queries_may_be_an_iterable(index: segmax.Index) -> None:
    """Queries are whatever a search takes."""
    tightness = inspect(index, [{1: 2.0}, ([3, 4], [1.0, 1.0]), sp.csr_matrix([[0, 1, 2]])]).tightness
    assert tightness is not None
    assert tightness.num_queries == 3


def test_no_tightness_without_queries(index: segmax.Index) -> None:
    """Nothing is measured where nothing can be."""
    assert inspect(index, sample=0).tightness is None
    assert inspect(index, []).tightness is None
    assert inspect(index, sp.csr_matrix((3, 80))).tightness is None
    with pytest.warns(SegmaxWarning):
        empty = inspect(segmax.build(sp.csr_matrix((3, 5))))
    assert empty.tightness is None
    assert empty.to_dict()["bytes_per_posting"] == 0


def test_invalid_arguments_are_refused(index: segmax.Index) -> None:
    """Sample, seed and queries are checked."""
    with refused(ConfigError, option="sample", got="-1"):
        inspect(index, sample=-1)
    with refused(ConfigError, option="seed", got="-1"):
        inspect(index, seed=-1)
    for queries in (3, "query", {1: 2.0}):
        with refused(InputError, expected="queries as a sparse matrix"):
            inspect(index, queries)


def test_the_report_is_plain_values(index: segmax.Index) -> None:
    """to_dict survives JSON, and its histogram holds every cluster."""
    values = inspect(index).to_dict()
    assert json.loads(json.dumps(values)) == values
    sizes = values["cluster_sizes"]
    assert sum(bar["num_values"] for bar in sizes["histogram"]) == index.num_clusters
    assert (sizes["min"], sizes["max"]) == (index.cluster_sizes().min(), index.cluster_sizes().max())
    assert sizes["mean"] * index.num_clusters == pytest.approx(index.num_docs)


@pytest.mark.parametrize("num_bins", [1, 2, 5, 12, 100])
def test_histogram(rng: np.random.Generator, num_bins: int) -> None:
    """Bars have one width, follow each other, are at most as many as asked, and count every value."""
    values = rng.integers(3, 90, 200).astype(np.uint32)
    bars = histogram(values, num_bins)
    assert len(bars) <= num_bins
    assert len({bar.most - bar.least for bar in bars}) == 1
    assert all(left.most + 1 == right.least for left, right in itertools.pairwise(bars))
    for bar in bars:
        assert bar.num_values == np.count_nonzero((values >= bar.least) & (values <= bar.most))
    assert sum(bar.num_values for bar in bars) == len(values)
    assert histogram(np.full(4, 7), num_bins) == [Bin(7, 7, 4)]
    assert histogram(np.empty(0, np.uint32), num_bins) == []


def test_every_component_has_a_structure() -> None:
    """A new component needs a place in STRUCTURES; one that has none is still counted."""
    assert {name for names in STRUCTURES.values() for name in names} == set(COMPONENTS)
    assert structure_of("run_bytes") == "postings"
    assert structure_of("something_new") == "other"


@pytest.mark.parametrize("text", ["doc-threshold=0.5", "query-threshold=1e-07", "top-terms=64", "mass-share=0.9"])
def test_steps_as_text(text: str) -> None:
    """step_text is the inverse of parse_step."""
    assert step_text(parse_step(text)) == text


@pytest.mark.parametrize(("num_bytes", "text"), [(17, "17 bytes"), (2048, "2.0 KiB"), (5 * 2**31, "10.0 GiB")])
def test_sizes_as_text(num_bytes: int, text: str) -> None:
    """Sizes have the largest unit that fits."""
    assert size_text(num_bytes) == text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_it_fits_the_terminal(index: segmax.Index, tmp_path: Path, width: int) -> None:
    """No line is wider than the console, and none is cut."""
    index.save(tmp_path / "[red]odd")
    file = io.StringIO()
    with segmax.open(tmp_path / "[red]odd") as opened:
        Console(width=width, file=file).print(inspect(opened))
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "[red]odd" in text.replace("\n", "")
