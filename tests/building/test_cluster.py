"""Clusters: planted topics are found, sizes are even, numbers are as asked for, and invalid values are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import clusters_of, purity, random_docs, refused, topic_docs
from segmax.base import memory
from segmax.base.progress import progress_of
from segmax.building import kmeans
from segmax.building.points import DensePoints, normalized, one_thread
from segmax.building.resources import open_resources
from segmax.clustering import Dense, Labels, Sparse
from segmax.errors import ConfigError, InputError

NUM_TOPICS = 25


@pytest.fixture(scope="module")
def collection() -> tuple[sp.csr_matrix, np.ndarray]:
    """Documents of topics of like size."""
    return topic_docs(np.random.default_rng(1), 4_000, NUM_TOPICS)


def dense_for(topics: np.ndarray, dims: int = 32, noise: float = 0.3) -> np.ndarray:
    """Vectors around a random center per topic, of different lengths."""
    rng = np.random.default_rng(2)
    centers = rng.normal(size=(int(topics.max()) + 1, dims))
    vectors = centers[topics] + noise * rng.normal(size=(len(topics), dims))
    return np.asarray(vectors * rng.uniform(0.1, 10, (len(topics), 1)), dtype=np.float32)


def built(docs: sp.csr_matrix, clusters: Any = None, **config: Any) -> segmax.Index:
    """An index in memory."""
    return segmax.build(docs, clustering=clusters, config=segmax.BuildConfig(**config))


# --- topics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_clusters", [NUM_TOPICS, 4 * NUM_TOPICS])
@pytest.mark.parametrize("scale", [1, 0.001])
def test_sparse_vectors_find_topics(
    collection: tuple[sp.csr_matrix, np.ndarray], num_clusters: int, scale: float
) -> None:
    """Documents of one topic are together, whatever the size of their weights."""
    docs, topics = collection
    index = built(docs * scale, num_clusters=num_clusters)
    assert index.num_clusters == num_clusters
    assert purity(clusters_of(index), topics) > (0.9 if num_clusters > NUM_TOPICS else 0.75)


def test_sparse_vectors_find_many_topics_in_two_levels() -> None:
    """Also with k-means in two levels."""
    docs, topics = topic_docs(np.random.default_rng(3), 30_000, 300, words=20)
    index = built(docs, num_clusters=kmeans._FLAT_CLUSTERS + 100)
    assert index.num_clusters == kmeans._FLAT_CLUSTERS + 100
    assert purity(clusters_of(index), topics) > 0.85


def test_a_tiny_cell_may_get_no_cluster() -> None:
    """Three odd documents beside thousands of equal ones, in two levels."""
    same = sp.csr_matrix(np.tile([[1.0, 2.0, 0.0, 3.0]], (8_000, 1)))
    docs = sp.block_diag([same, sp.csr_matrix(np.ones((3, 3)))], format="csr")
    assert segmax.build(docs, num_clusters=600).search(docs[8_000], k=3).rows.tolist() == [8_000, 8_001, 8_002]


def test_one_heavy_term_does_not_decide(collection: tuple[sp.csr_matrix, np.ndarray]) -> None:
    """A term that all documents share, with large weights, is no evidence of a topic."""
    docs, topics = collection
    heavy = np.random.default_rng(0).integers(100, 255, (docs.shape[0], 1))
    index = built(sp.hstack([docs, sp.csr_matrix(heavy)], format="csr"), num_clusters=4 * NUM_TOPICS)
    assert purity(clusters_of(index), topics) > 0.9


@pytest.mark.parametrize(
    "options",
    [{}, {"dimensions": 8}, {"bits": 8}, {"dimensions": 12, "bits": 8}, {"restarts": 3, "iterations": 5}],
    ids=str,
)
def test_dense_vectors_find_topics(
    collection: tuple[sp.csr_matrix, np.ndarray], tmp_path: Path, options: dict[str, int]
) -> None:
    """Whole or reduced, floats or bytes; in memory or mapped from a file, the clusters are the same."""
    docs, topics = collection
    vectors = dense_for(topics)
    np.save(tmp_path / "vectors.npy", vectors)
    found = []
    for given in (vectors, tmp_path / "vectors.npy", str(tmp_path / "vectors.npy"), np.asfortranarray(vectors)):
        index = built(docs, Dense(given, **options), num_clusters=2 * NUM_TOPICS)
        assert index.num_clusters == 2 * NUM_TOPICS
        found.append(clusters_of(index))
        assert (found[-1] == found[0]).all()
    assert purity(found[0], topics) > 0.9


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int16, ">f4"])
def test_dense_vectors_of_any_number_type(collection: tuple[sp.csr_matrix, np.ndarray], dtype: Any) -> None:
    """Half precision, integers, another byte order."""
    docs, topics = collection
    vectors = (dense_for(topics) * 100).astype(dtype)
    index = built(docs, Dense(vectors), num_clusters=2 * NUM_TOPICS)
    assert purity(clusters_of(index), topics) > 0.9


def test_dense_vectors_rule_not_the_sparse_ones(rng: np.random.Generator) -> None:
    """Clusters follow what was asked for, even where the documents say otherwise."""
    docs, topics = topic_docs(rng, 3_000, 10)
    other = rng.integers(0, 10, 3_000)
    index = built(docs, Dense(dense_for(other)), num_clusters=20)
    assert purity(clusters_of(index), other) > 0.9
    assert purity(clusters_of(index), topics) < 0.4


def test_topics_make_search_cheaper(collection: tuple[sp.csr_matrix, np.ndarray]) -> None:
    """The point of it: with clusters by topic fewer are visited than with clusters by chance."""
    docs, _ = collection
    index = built(docs, num_clusters=2 * NUM_TOPICS)
    chance = built(docs, np.random.default_rng(0).permutation(np.arange(docs.shape[0]) % (2 * NUM_TOPICS)))
    visited = [
        sum(each.search(docs[row], params=segmax.paper.ASC()).stats.clusters_visited for row in range(30))
        for each in (index, chance)
    ]
    assert visited[0] < visited[1] / 2


# --- sizes and numbers -----------------------------------------------------------------------------------------------


def skewed(num_topics: int, power: float) -> np.ndarray:
    """Shares of topics that fall as a power of their rank."""
    shares = 1 / np.arange(1, num_topics + 1) ** power
    return np.asarray(shares / shares.sum())


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("num_clusters", [3, 40, 160, 700])
def test_sizes_of_skewed_collections(power: float, num_clusters: int) -> None:
    """The number is what was asked for, and the largest cluster is at most three times the mean."""
    docs, _ = topic_docs(np.random.default_rng(4), 9_000, 50, shares=skewed(50, power))
    sizes = built(docs, num_clusters=num_clusters).cluster_sizes()
    assert len(sizes) == num_clusters
    assert sizes.sum() == 9_000
    assert sizes.max() <= 3 * sizes.mean()
    assert sizes.min() >= 1


@pytest.mark.parametrize("copies", [0.5, 0.95])
def test_sizes_with_many_copies(copies: float) -> None:
    """Copies of one document among others."""
    docs, _ = topic_docs(np.random.default_rng(5), 6_000, 30)
    rows = np.where(np.random.default_rng(6).random(6_000) < copies, 17, np.arange(6_000))
    sizes = built(docs[rows], num_clusters=50).cluster_sizes()
    assert len(sizes) == 50
    assert sizes.max() <= 3 * sizes.mean()


def test_sizes_with_many_documents_without_terms() -> None:
    """Identical documents give even clusters, too."""
    docs, _ = topic_docs(np.random.default_rng(5), 4_000, 30)
    docs = sp.vstack([docs, sp.csr_matrix((4_000, docs.shape[1]))], format="csr")
    sizes = built(docs, num_clusters=40).cluster_sizes()
    assert len(sizes) == 40
    assert sizes.max() <= 3 * sizes.mean()


@pytest.mark.parametrize("seed", range(30))
def test_balance_of_any_sizes(seed: int) -> None:
    """Balancing by itself: any sizes that k-means may leave, empty and giant clusters among them."""
    rng = np.random.default_rng(seed)
    num_clusters = int(rng.integers(2, 60))
    num_docs = int(rng.integers(num_clusters, 3_000))
    found = int(rng.integers(1, num_clusters + 1))
    chances = rng.pareto(rng.uniform(0.2, 3), found) + 1e-9
    labels = rng.choice(found, num_docs, p=chances / chances.sum())
    centroids = rng.normal(size=(found, 6)).astype(np.float32)
    vectors = centroids[labels] + rng.normal(size=(num_docs, 6)).astype(np.float32)
    with one_thread(), progress_of(False) as progress, progress.stage("balance", None, "documents") as stage:
        points = DensePoints(vectors, None, compress=False, seed=0)
        assigner = kmeans.Assigner(centroids)
        balanced, of_clusters = kmeans._balanced(points, labels, assigner, num_clusters, stage)
    assert of_clusters.shape == (num_clusters, 6)
    sizes = np.bincount(balanced, minlength=num_clusters)
    mean = num_docs / num_clusters
    assert len(sizes) == num_clusters, (sizes.tolist(), mean)
    assert sizes.min() >= 1
    assert sizes.max() <= max(3 * mean, 2), (sizes.tolist(), mean)


@pytest.mark.parametrize("num_clusters", [1, 2, 5, 511, 512, 513, 999, 1_000])
def test_the_number_is_what_was_asked_for(num_clusters: int) -> None:
    """On both sides of the two levels, and up to one cluster per document."""
    docs = random_docs(np.random.default_rng(7), 1_000, 200, 6.0)
    index = built(docs, num_clusters=num_clusters)
    assert index.num_clusters == num_clusters
    assert sorted(index._open_arrays["cluster_label"].tolist()) == list(range(num_clusters))


def test_by_default_clusters_are_tiles(collection: tuple[sp.csr_matrix, np.ndarray]) -> None:
    """All but the last have 1,024 documents, those of a topic in few of them, whatever the number of threads."""
    docs, topics = sp.vstack([collection[0]] * 2, format="csr"), np.tile(collection[1], 2)
    clusters = clusters_of(segmax.build(docs, threads=1))
    assert np.bincount(clusters).tolist() == [1_024] * 7 + [832]
    assert np.array_equal(clusters, clusters_of(segmax.build(docs, threads=2)))
    shares = np.array([np.bincount(clusters[topics == topic], minlength=8) for topic in range(NUM_TOPICS)])
    assert np.sort(shares, axis=1)[:, -2:].sum() >= 0.9 * len(topics)
    dense = segmax.build(docs, clustering=Dense(dense_for(topics), dimensions=8), memory_limit="600MiB")
    assert np.bincount(clusters_of(dense)).tolist() == [1_024] * 7 + [832]
    # Another number of clusters is taken as it is: sizes are then as near to even as topics allow.
    assert len(set(np.bincount(clusters_of(built(docs, num_clusters=9))).tolist())) > 2


# --- k-means itself --------------------------------------------------------------------------------------------------


def test_points_go_to_the_nearest_centroid() -> None:
    """Of more points and centroids than are compared at a time; of equal centroids the first."""
    rng = np.random.default_rng(8)
    centroids = rng.normal(size=(kmeans._BLOCK + 50, 4)).astype(np.float32)
    centroids[-1] = centroids[7]
    points = np.concatenate([rng.normal(size=(kmeans._BLOCK + 9, 4)).astype(np.float32), centroids[7:8] * 9])
    with one_thread():
        found = kmeans.Assigner(centroids).nearest(points)
    assert np.array_equal(found, (points.astype(np.float64) @ centroids.T.astype(np.float64)).argmax(axis=1))


def test_cells_find_nearly_the_nearest_centroid() -> None:
    """Only the nearest cells are looked into; the product with what they find is close to the largest one."""
    rng = np.random.default_rng(9)
    centroids = normalized(rng.normal(size=(900, 8)).astype(np.float32))
    points = normalized(rng.normal(size=(5_000, 8)).astype(np.float32))
    with one_thread():
        cells = kmeans.cells_of(centroids, 1)
        assert cells is not None
        found = kmeans.Assigner(centroids, cells).nearest(points)
    products = points @ centroids.T
    kept = np.take_along_axis(products, found[:, None], axis=1)[:, 0]
    assert (kept >= products.max(axis=1) - 1e-6).mean() > 0.8
    assert (kept / products.max(axis=1)).min() > 0.7


def test_points_whose_cells_are_empty_get_a_centroid() -> None:
    """Any one: such cells are possible where centroids were given to cells by others than their own center."""
    centers = np.eye(8, dtype=np.float32)
    cells = kmeans.Cells(centers, np.full(3, 7))
    with one_thread():
        labels = kmeans.Assigner(np.eye(3, 8, dtype=np.float32), cells).nearest(centers[:1] - centers[7:])
    assert labels.tolist() == [0]


def test_an_empty_cluster_takes_half_of_the_largest() -> None:
    """Both halves start near its mean, on opposite sides, so that the next round parts them."""
    points = np.array([[1, 0], [1, 0], [1, 0], [0, 1]], dtype=np.float32)
    means = kmeans._means(points, np.array([0, 0, 0, 2]), 3)
    assert np.allclose(means, [[1, 0], [1, 0], [0, 1]], atol=2e-3)
    assert means[0, 0] != means[1, 0]


# --- seeds and restarts ----------------------------------------------------------------------------------------------


def test_seeds_change_clusters(collection: tuple[sp.csr_matrix, np.ndarray]) -> None:
    """Another seed finds other clusters, by sparse and by dense vectors; the same seed finds the same."""
    docs, topics = collection
    for clusters in (None, Dense(dense_for(topics))):
        found = [clusters_of(built(docs, clusters, num_clusters=40, seed=seed)) for seed in (0, 1, 0, 2**63 - 1)]
        assert (found[0] == found[2]).all()
        assert (found[0] != found[1]).any()
        assert (found[0] != found[3]).any()


def test_restarts_keep_the_best(collection: tuple[sp.csr_matrix, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several starts the one with the largest objective stays, and more starts are never worse."""
    docs, _ = collection
    runs: list[tuple[float, np.ndarray]] = []
    real = kmeans._spherical

    def recorded(*arguments: Any) -> tuple[float, np.ndarray]:
        runs.append(real(*arguments))
        return runs[-1]

    monkeypatch.setattr(kmeans, "_spherical", recorded)
    chosen: list[np.ndarray] = []
    real_balanced = kmeans._balanced

    def balanced(points: Any, labels: np.ndarray, assigner: Any, *rest: Any) -> tuple[np.ndarray, np.ndarray]:
        chosen.append(assigner.centroids)
        return real_balanced(points, labels, assigner, *rest)

    monkeypatch.setattr(kmeans, "_balanced", balanced)
    places = set()
    for seed in range(4):
        objectives = []
        for restarts in (1, 4):
            runs.clear()
            segmax.build(
                docs,
                clustering=Sparse(restarts=restarts, iterations=3),
                config=segmax.BuildConfig(num_clusters=NUM_TOPICS, seed=seed),
                threads=1,
            )
            assert len({objective for objective, _ in runs}) == len(runs) == restarts
            place = max(range(restarts), key=lambda run: runs[run][0])
            assert (chosen[-1] == runs[place][1]).all()
            objectives.append(runs[place][0])
            places.add(place)
        assert objectives[0] <= objectives[1]
    assert len(places) > 1  # it is not always the same start


def test_more_rounds_are_better() -> None:
    """The option reaches k-means: one round is worse than ten."""
    docs, topics = topic_docs(np.random.default_rng(1), 4_000, 100)
    one, ten = (purity(clusters_of(built(docs, Sparse(iterations=n), num_clusters=100)), topics) for n in (1, 10))
    assert one < ten


# --- what is recorded ------------------------------------------------------------------------------------------------


def test_meta_records_how_clusters_were_made(tmp_path: Path, rng: np.random.Generator) -> None:
    """The kind and its options, as plain values; numpy numbers are numbers, too."""
    docs, topics = topic_docs(rng, 300, 4)
    vectors = dense_for(topics)
    cases: list[tuple[Any, dict[str, Any]]] = [
        (None, {"kind": "sparse", "dimensions": 64, "restarts": 1, "iterations": 10}),
        (
            Sparse(dimensions=8, restarts=2),
            {"kind": "sparse", "dimensions": 8, "restarts": 2, "iterations": 10},
        ),
        (
            Sparse(dimensions=np.int64(8), restarts=np.int32(1), iterations=np.uint8(4)),  # type: ignore[arg-type]
            {"kind": "sparse", "dimensions": 8, "restarts": 1, "iterations": 4},
        ),
        (
            Dense(vectors, dimensions=np.int64(4), bits=8),  # type: ignore[arg-type]
            {"kind": "dense", "dimensions": 4, "bits": 8, "restarts": 1, "iterations": 10},
        ),
        (
            Dense(vectors),
            {"kind": "dense", "dimensions": None, "bits": None, "restarts": 1, "iterations": 10},
        ),
        (topics, {"kind": "labels"}),
        (Labels(topics.tolist()), {"kind": "labels"}),
    ]
    for number, (clusters, expected) in enumerate(cases):
        path = tmp_path / str(number)
        segmax.build(docs, path=path, clustering=clusters, config=segmax.BuildConfig(num_clusters=4)).close()
        meta = json.loads((path / "meta.json").read_text())
        assert meta["clustering"] == expected
        assert meta["config"]["num_clusters"] == 4


def test_given_labels_are_kept(rng: np.random.Generator) -> None:
    """Labels have gaps and any order; the index has as many clusters as there are labels, and names them."""
    docs = random_docs(rng, 200, 30)
    labels = rng.permutation(np.repeat([7, 3, 10**12, 0, 55], 40))
    index = built(docs, labels, num_clusters=99)
    assert index.num_clusters == 5
    assert index._open_arrays["cluster_label"].tolist() == [0, 3, 7, 55, 10**12]
    assert (index._open_arrays["cluster_label"][clusters_of(index)] == labels).all()


# --- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vectors", "parts"),
    [
        (np.zeros((2, 2, 2)), {"expected": r"dense vectors of shape \(documents, dimensions\)", "got": r"\(2, 2, 2\)"}),
        (np.zeros(5), {"expected": r"dense vectors of shape \(documents, dimensions\)", "got": r"\(5,\)"}),
        (np.zeros((5, 0)), {"got": r"\(5, 0\)"}),
        (3, {"expected": "dense vectors of shape"}),
        ([["a", "b"]], {"expected": "dense vectors of a float or integer dtype", "got": "<U1"}),
        (np.array([[None]]), {"expected": "dense vectors of a float or integer dtype", "got": "object"}),
        (np.zeros((2, 2), complex), {"expected": "dense vectors of a float or integer dtype", "got": "complex128"}),
        ([[1.0, 2.0], [3.0]], {"expected": "dense vectors of one length"}),
        ("/no such file.npy", {"expected": "an .npy file of dense vectors", "got": "'/no such file.npy'"}),
        (__file__, {"expected": "an .npy file of dense vectors", "got": r"test_cluster\.py"}),
    ],
)
def test_invalid_dense_vectors_are_refused(vectors: Any, parts: dict[str, str]) -> None:
    """At once, before any work."""
    with refused(InputError, **parts):
        Dense(vectors)


def test_files_that_are_no_dense_vectors(tmp_path: Path) -> None:
    """Archives, objects and cut files."""
    np.savez(tmp_path / "a.npz", np.ones((3, 3)))
    np.save(tmp_path / "objects.npy", np.array([[{}]]), allow_pickle=True)
    np.save(tmp_path / "cut.npy", np.ones((300, 3)))
    data = (tmp_path / "cut.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(data[:-100])
    (tmp_path / "empty.npy").write_bytes(b"")
    for name in ("a.npz", "objects.npy", "cut.npy", "empty.npy"):
        with refused(InputError, expected="dense vectors"):
            Dense(tmp_path / name)


@pytest.mark.parametrize("num_vectors", [0, 1, 49, 51])
def test_a_wrong_number_of_dense_vectors(rng: np.random.Generator, num_vectors: int) -> None:
    """One per document."""
    with refused(InputError, expected="50 dense vectors, one per document", got=f"^{num_vectors}$"):
        built(random_docs(rng, 50, 9), Dense(np.ones((num_vectors, 3))))


@pytest.mark.parametrize("row", [0, 16_383, 16_384, 19_999])
@pytest.mark.parametrize("options", [{}, {"dimensions": 2}, {"bits": 8}], ids=str)
def test_dense_vectors_that_are_no_numbers(row: int, options: dict[str, int]) -> None:
    """The row is named, in whichever batch it is."""
    docs = random_docs(np.random.default_rng(0), 20_000, 9, 2.0)
    vectors = np.random.default_rng(1).normal(size=(20_000, 4))
    vectors[row, 2] = np.nan if row % 2 else np.inf
    with refused(InputError, expected="finite dense vectors", got=f"NaN or infinity in row {row}$"):
        built(docs, Dense(vectors, **options), num_clusters=5)


def test_dense_vectors_beyond_32_bits() -> None:
    """A value that becomes infinite as float32 is refused like infinity."""
    vectors = np.ones((50, 4))
    vectors[31, 2] = 1e300
    with refused(InputError, expected="finite dense vectors", got="NaN or infinity in row 31"):
        built(random_docs(np.random.default_rng(0), 50, 9, 2.0), Dense(vectors), num_clusters=5)


@pytest.mark.parametrize("scale", [1e-15, 1e15])
def test_dense_vectors_of_any_length(collection: tuple[sp.csr_matrix, np.ndarray], scale: float) -> None:
    """Only directions count: tiny and huge vectors give the clusters of usual ones."""
    docs, topics = collection
    index = built(docs, Dense(dense_for(topics) * scale), num_clusters=2 * NUM_TOPICS)
    assert index.num_clusters == 2 * NUM_TOPICS
    assert purity(clusters_of(index), topics) > 0.9


def test_dense_vectors_of_zeros(collection: tuple[sp.csr_matrix, np.ndarray]) -> None:
    """They say nothing about documents, which are dealt out evenly; search is exact all the same."""
    docs, topics = collection
    index = built(docs, Dense(dense_for(topics) * 0), num_clusters=2 * NUM_TOPICS)
    sizes = np.bincount(clusters_of(index))
    assert len(sizes) == index.num_clusters == 2 * NUM_TOPICS
    assert sizes.max() - sizes.min() <= 1
    for row in (0, 7):
        found, exact = (index.search(docs[row], params=params) for params in (segmax.ASC(), segmax.Exhaustive()))
        assert list(found) == list(exact)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"dimensions": 0}, {"option": "dimensions", "expected": "from 1 to 65535", "got": "0"}),
        ({"dimensions": 2.5}, {"option": "dimensions", "expected": "from 1 to 65535", "got": r"2\.5"}),
        ({"bits": 4}, {"option": "bits", "expected": "None or 8", "got": "4"}),
        ({"bits": "8"}, {"option": "bits", "expected": "None or 8", "got": "'8'"}),
        ({"bits": 8.0}, {"option": "bits", "expected": "None or 8", "got": r"8\.0"}),
        ({"restarts": 0}, {"option": "restarts", "expected": "from 1 to 65535", "got": "0"}),
        ({"iterations": -1}, {"option": "iterations", "expected": "from 1 to 65535", "got": "-1"}),
        ({"iterations": True}, {"option": "iterations", "expected": "from 1 to 65535", "got": "True"}),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], parts: dict[str, str]) -> None:
    """For both kinds of vectors."""
    with refused(ConfigError, **parts):
        Dense(np.ones((2, 2)), **options)
    if "bits" not in options:
        with refused(ConfigError, **parts):
            Sparse(**options)


@pytest.mark.parametrize(
    ("labels", "parts"),
    [
        ([0], {"expected": "9 cluster labels, one per document", "got": r"shape \(1,\)"}),
        (np.zeros((9, 2), int), {"expected": "9 cluster labels, one per document", "got": r"shape \(9, 2\)"}),
        (np.zeros(9), {"expected": "integer cluster labels", "got": "float64"}),
        (["a"] * 9, {"expected": "integer cluster labels", "got": "<U1"}),
        (np.zeros(9, bool), {"expected": "integer cluster labels", "got": "bool"}),
        ([0, 1, 2, -3, 4, 5, 6, 7, 8], {"expected": "cluster labels >= 0", "got": "-3 for document 3"}),
        (np.full(9, 2**63, np.uint64), {"expected": "cluster labels that fit 63 bits", "got": "9223372036854775808"}),
    ],
)
def test_invalid_labels_are_refused(labels: Any, parts: dict[str, str]) -> None:
    """Alone and as Labels."""
    docs = sp.csr_matrix(np.eye(9))
    for given in (labels, Labels(labels)):
        with refused(InputError, **parts):
            segmax.build(docs, clustering=given)


def test_repr() -> None:
    """Short, without the vectors."""
    assert repr(Sparse()) == "Sparse(dimensions=64, restarts=1, iterations=10)"
    assert repr(Labels([1, 2])) == "Labels(2 documents)"
    shown = repr(Dense(np.ones((3, 4)), bits=8))
    assert shown == "Dense(3 x 4, dimensions=None, bits=8, restarts=1, iterations=10)"


# --- inside ----------------------------------------------------------------------------------------------------------


def test_the_sample_does_not_follow_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """How much memory is free when k-means begins changes no label."""
    vectors = np.random.default_rng(0).normal(size=(4_000, 16)).astype(np.float32)
    found = []
    for available in (1, 1 << 16, 1 << 30):
        monkeypatch.setattr(memory.MemoryLimit, "available", lambda _, size=available: size)
        with one_thread(), open_resources(None, {"threads": 2, "scratch": tmp_path}) as resources:
            points = DensePoints(vectors, None, compress=False, seed=0)
            found.append(kmeans.kmeans(points, 20, kmeans.KMeansOptions(0, 1, 4), resources))
    assert (found[0] == found[2]).all()
    assert (found[1] == found[2]).all()


def test_labels_of_different_lengths() -> None:
    """A ragged list is refused where it is given."""
    with refused(InputError, expected="cluster labels, one per document", got="rows of different"):
        Labels([[1], [2, 3]])


@pytest.mark.parametrize("clustering", ["cls.npy", Path("cls.npy"), Sparse])
def test_paths_and_classes_are_no_labels(clustering: Any) -> None:
    """A path or a class is not taken for labels."""
    with pytest.raises(ConfigError) as error:
        segmax.build(sp.csr_matrix(np.eye(9)), clustering=clustering)
    assert (error.value.option, error.value.got) == ("clustering", repr(clustering))


def test_restarts_apply_to_both_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many clusters every cell is clustered as often as asked for."""
    runs: list[int] = []
    real = kmeans._spherical
    monkeypatch.setattr(kmeans, "_FLAT_CLUSTERS", 8)
    monkeypatch.setattr(kmeans, "_spherical", lambda *args: runs.append(1) or real(*args))
    docs, _ = topic_docs(np.random.default_rng(0), 1_000, 10)
    for restarts in (1, 3):
        runs.clear()
        segmax.build(docs, clustering=Sparse(restarts=restarts), config=segmax.BuildConfig(num_clusters=25))
        assert len(runs) == 6 * restarts  # five cells, and the cells themselves


def test_compressed_points_are_kept_as_bytes() -> None:
    """With 8 bits the sample that k-means is trained on takes a quarter."""
    vectors = np.random.default_rng(0).normal(size=(500, 24)).astype(np.float32)
    for compress, dtype in ((False, np.float32), (True, np.uint8)):
        points = DensePoints(vectors, None, compress=compress, seed=0)
        kept = points.encode(points.take(np.arange(500)))
        assert kept.dtype == dtype
        assert kept.nbytes == 500 * 24 * np.dtype(dtype).itemsize
        assert np.abs(points.decode(kept) - points.take(np.arange(500))).max() < 0.01
