"""The client returns what the library returns, bit for bit: over a real service, next to the same data on disk.

What all that can be searched have in common is in tests/contract.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from remote_samples import same_batch, same_hits, serving, texts, write_collection

import segmax
from segmax.search.protocol import Searchable, is_searchable


class Pair(NamedTuple):
    """The same data at a service and on this machine."""

    there: Any
    here: Any


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of texts, one of vectors alone, and a collection."""
    root = tmp_path_factory.mktemp("remote")
    records = texts()
    described = [record.pop("metadata") for record in records]
    segmax.from_texts(records, path=root / "docs.segmax", metadata=described)
    draw = np.random.default_rng(3)
    segmax.build(sp.random(400, 60, 0.1, "csr", rng=draw), path=root / "vectors.segmax")
    write_collection(root / "papers")
    return root


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A service of all three."""
    with serving(folder / "docs.segmax", folder / "vectors.segmax", folder / "papers") as address:
        yield address


@pytest.fixture(scope="module", params=["docs", "papers"])
def pair(request: pytest.FixtureRequest, url: str, folder: Path) -> Iterator[Pair]:
    """The index of texts, and the collection."""
    name = request.param
    path = folder / (f"{name}.segmax" if name == "docs" else name)
    with segmax.connect(url, index=name) as there, segmax.open(path) as here:
        yield Pair(there, here)


@pytest.fixture(scope="module")
def vectors(url: str, folder: Path) -> Iterator[Pair]:
    """The index of vectors, whose ids are row numbers."""
    with segmax.connect(f"{url}/v1/indexes/vectors") as there, segmax.open(folder / "vectors.segmax") as here:
        yield Pair(there, here)


@pytest.mark.deep
def test_torch_tensors(vectors: Pair) -> None:
    """Sparse tensors are queries."""
    torch = pytest.importorskip("torch")
    query = torch.rand(3, 60, generator=torch.Generator().manual_seed(1)).to_sparse()
    same_batch(vectors.there.search_batch(query), vectors.here.search_batch(query))
    same_hits(vectors.there.search(query[0]), vectors.here.search(query[0]))


def test_matrices_of_many_queries(vectors: Pair) -> None:
    """A matrix is cut into requests that the service accepts, and its results are joined."""
    queries = sp.random(2500, 60, 0.2, "csr", rng=np.random.default_rng(5), dtype=np.float32)
    same_batch(vectors.there.search_batch(queries, k=20), vectors.here.search_batch(queries, k=20))


def test_filters_of_numpy(pair: Pair) -> None:
    """Arrays mean their values, as on this machine."""
    there, here = pair
    years = [year for year, _ in there.facets("year") if isinstance(year, int)]
    for kept in (years[:2], years[:1], years[1:3]):
        for kind in (np.int16, np.int64):  # arrays of other types with the same bytes, or with the same values
            where = {"year": {"$in": np.array(kept, kind), "$gte": kind(min(kept))}}
            assert there.count(where) == here.count(where) == there.count({"year": {"$in": kept}}) > 0
            assert there.search("copper", where=where).ids == here.search("copper", where={"year": {"$in": kept}}).ids


def test_words(pair: Pair) -> None:
    """The vocabulary and the encoder are used as if they were here."""
    there, here = pair
    assert list(there.terms) == list(here.terms)
    encoded, expected = (one.encoder.encode_queries(["copper noise", ""]) for one in pair)
    assert encoded.shape == expected.shape
    assert (encoded != expected).nnz == 0
    assert list(there.encoder.vocabulary) == list(here.terms)


def test_texts_can_be_iterated_where_rows_have_no_gaps(url: str, folder: Path) -> None:
    """Those of an index; those of a collection are looked up one by one."""
    with segmax.connect(url, index="docs") as there, segmax.open(folder / "docs.segmax") as here:
        assert list(there.texts) == list(here.texts)
    with segmax.connect(url, index="papers") as there, pytest.raises(segmax.errors.InputError, match="a collection"):
        list(there.texts)


def test_sizes(pair: Pair) -> None:
    """What it says about itself is what the index says."""
    names = ["num_docs", "num_terms", "num_clusters", "num_segments", "num_postings", "num_bytes", "bits"]
    assert [getattr(pair.there, name) for name in names] == [getattr(pair.here, name) for name in names]
    assert len(pair.there) == len(pair.here)
    assert pair.there.id_kind is pair.here.id_kind is str
    assert pair.there.path is None
    assert pair.there.sizes() == pair.here.sizes()
    found, expected = pair.there.cluster_sizes(), pair.here.cluster_sizes()
    assert found.dtype == expected.dtype
    assert found.tolist() == sorted(expected.tolist(), reverse=True)


def test_quantization_error(pair: Pair) -> None:
    """An index knows it; a collection does not."""
    if pair.there.info.is_collection:
        with pytest.raises(segmax.errors.InputError, match=r"expected an index, .* got a collection"):
            _ = pair.there.quantization_error
    else:
        assert pair.there.quantization_error == pair.here.quantization_error


def test_inside(vectors: Pair) -> None:
    """What a search decided about clusters, and its results, are those of the index."""
    query = dict.fromkeys(range(0, 60, 7), 1.0)
    for options in ({}, {"k": 3}, {"k": 10**6}, {"params": segmax.paper.ASC(mu=0.7)}):
        found, expected = vectors.there.inside(query, **options), vectors.here.inside(query, **options)
        assert found.clusters == expected.clusters
        assert (found.final_threshold, found.num_blocks) == (expected.final_threshold, expected.num_blocks)
        same_hits(found.hits, expected.hits)


def test_inside_texts(pair: Pair) -> None:
    """Texts are encoded by the service; of a collection, the clusters are those of the largest part."""
    found, expected = pair.there.inside("copper noise", k=4), pair.here.inside("copper noise", k=4)
    assert found.clusters == expected.clusters
    same_hits(found.hits, pair.here.search("copper noise", k=4))


def test_it_is_searchable(pair: Pair) -> None:
    """It has all that the protocol asks for."""
    assert is_searchable(pair.there)
    members = [name for name in vars(Searchable) if not name.startswith("_")]
    assert [name for name in members if not hasattr(type(pair.there), name)] == []


def test_pickles_connect_again(pair: Pair) -> None:
    """A copy in another process searches the same service, an index as a collection."""
    with pickle.loads(pickle.dumps(pair.there)) as copy:
        assert type(copy) is type(pair.there)
        same_hits(copy.search("copper"), pair.here.search("copper"))


def test_pickled_results_take_their_documents_along(pair: Pair) -> None:
    """Those of a search that did not ask for them, too."""
    hits = pickle.loads(pickle.dumps(pair.there.search("copper")))
    assert hits.texts == pair.here.search("copper").texts


def test_an_index_without_texts_says_so(vectors: Pair) -> None:
    """The errors are those of an index on this machine."""
    hits = vectors.there.search({0: 1.0})
    assert vectors.there.texts is None
    assert vectors.there.terms is None
    assert vectors.there.fields == {}
    for use in (lambda: hits.metadata, lambda: vectors.there.metadata(0)):
        with pytest.raises(segmax.errors.InputError, match="keeps no"):
            use()
    with pytest.raises(segmax.errors.InputError):
        _ = vectors.there.encoder


def test_an_encoder_of_ones_own(vectors: Pair) -> None:
    """Texts are encoded on this machine where an encoder is assigned; the service needs none."""

    class Numbers:
        """Takes a text for the number of a term."""

        vocabulary = tuple(map(str, range(60)))

        def encode_documents(self, batches: Any) -> Any:
            raise NotImplementedError

        def encode_queries(self, batch: Any) -> sp.csr_matrix:
            return sp.csr_matrix([[float(str(number) == text) for number in range(60)] for text in batch])

    copy = pickle.loads(pickle.dumps(vectors.there))
    copy.encoder = Numbers()
    same_hits(copy.search("7"), vectors.here.search({7: 1.0}))
    same_batch(copy.search_batch(["7", "9"]), vectors.here.search_batch([{7: 1.0}, {9: 1.0}]))
    copy.close()


def test_errors_have_the_words_of_the_library(pair: Pair) -> None:
    """Those of what the service refuses, and of what the client does; tests/contract has which these are."""
    calls: list[Any] = [
        lambda source: source.search("copper", where={"year": {"$about": 1}}),
        lambda source: source.explain("copper", "no such id"),
        lambda source: source.search("copper", k=0),
        lambda source: source.search_batch(["copper"], threads=0),
    ]
    for call in calls:
        errors = []
        for source in pair:
            with pytest.raises(segmax.SegmaxError) as caught:
                call(source)
            errors.append(caught.value)
        assert type(errors[0]) is type(errors[1])
        assert str(errors[0]) == str(errors[1])
