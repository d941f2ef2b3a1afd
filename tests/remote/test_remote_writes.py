"""Writing over a service: the collection there becomes what the same calls make of one on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from remote_samples import same_hits, serving, texts

import segmax
from segmax.errors import ConfigError, InputError, UnknownIdError

READ, WRITE = "a-key-that-may-read", "a-key-that-may-write"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Empty collections with and without an encoder, an index, keys, and a folder for snapshots."""
    folder = tmp_path_factory.mktemp("writes")
    segmax.Collection.create(folder / "papers", encoder="bm25").close()
    segmax.Collection.create(folder / "vectors").close()
    segmax.Collection.create(folder / "words").close()
    segmax.from_texts(["copper"], path=folder / "docs.segmax")
    (folder / "snapshots").mkdir()
    (folder / "keys").write_text(f"read {READ}\nwrite {WRITE}\n")
    (folder / "keys").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    """A service that may be written to."""
    options = ("--writable", "--snapshots", root / "snapshots", "--api-keys", root / "keys")
    with serving(*(root / name for name in ("papers", "vectors", "words", "docs.segmax")), *options) as address:
        yield address


@pytest.fixture
def papers(url: str) -> Iterator[Any]:
    """The collection of texts at the service, empty."""
    with segmax.connect(url, WRITE, index="papers") as collection:
        collection.delete(where={"$not": {"no such field": 1}})
        yield collection


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[segmax.Collection]:
    """A collection of vectors on this machine, which sees all that the one at the service sees."""
    with segmax.Collection.create(tmp_path_factory.mktemp("twin") / "vectors") as collection:
        yield collection


@pytest.fixture
def vectors(url: str, twin: segmax.Collection) -> Iterator[tuple[Any, segmax.Collection]]:
    """Both collections of vectors, empty."""
    with segmax.connect(url, WRITE, index="vectors") as collection:
        for one in (collection, twin):
            one.delete(where={"$not": {"no such field": 1}})
        yield collection, twin


@pytest.fixture
def papers_by_word(url: str, tmp_path: Path) -> Iterator[tuple[Any, segmax.Collection]]:
    """Collections whose terms are words, at the service and here."""
    with segmax.Collection.create(tmp_path / "own") as own, segmax.connect(url, WRITE, index="words") as collection:
        yield collection, own


@pytest.fixture
def own(tmp_path: Path) -> Iterator[segmax.Collection]:
    """A collection of texts on this machine, empty."""
    with segmax.Collection.create(tmp_path / "own", encoder="bm25") as collection:
        yield collection


def write_lines(folder: Path) -> Path:
    """A file of texts."""
    path = folder / "texts.jsonl"
    path.write_text('{"id": "a", "text": "copper"}\n{"id": "b", "title": "T", "text": "größe"}\n')
    return path


TEXTS: dict[str, Callable[[Path], tuple[Any, dict[str, Any]]]] = {
    "records": lambda _: (texts(), {}),
    "a mapping": lambda _: ({"a": "copper", "b": "noise"}, {}),
    "strings with ids": lambda _: (["copper", "noise"], {"ids": np.array(["a", "b"])}),
    "metadata beside them": lambda _: (
        ["copper"],
        {"ids": ["a"], "metadata": [{"n": np.int64(3), "f": 0.1, "l": (1, 2)}]},
    ),
    "metadata by id": lambda _: ({"a": "copper", "b": "noise"}, {"metadata": {"b": {"year": 1}}}),
    "a stream": lambda _: ((record for record in texts()), {}),
    "files": lambda folder: (write_lines(folder), {}),
    "nothing": lambda _: ([], {}),
    "an empty stream": lambda _: (iter([]), {}),
}


@pytest.mark.parametrize("given", TEXTS.values(), ids=TEXTS)
def test_texts_of_any_kind(given: Any, papers: Any, own: segmax.Collection, tmp_path: Path) -> None:
    """Whatever `Collection.add` takes is added alike; searches find it at once, with the same scores."""
    for collection in (papers, own):
        documents, columns = given(tmp_path)
        count = collection.add(documents, **columns)
        assert count == len(collection)
    for query in ("copper noise", "größe"):
        found, expected = papers.search(query, k=200), own.search(query, k=200)
        assert found.ids == expected.ids
        assert found.scores.tobytes() == expected.scores.tobytes()
        assert [*found.texts, *found.metadata] == [*expected.texts, *expected.metadata]
    assert papers.get([*own.ids()]) == own.get([*own.ids()])


VECTORS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "a matrix": lambda: (sp.random(300, 40, 0.1, "csr", rng=np.random.default_rng(1), dtype=np.float32), {}),
    "a stream of matrices": lambda: ((sp.csr_matrix([[row, 0.1]]) for row in range(1, 4)), {}),
    "records": lambda: ([{"id": 7, "vector": {0: 0.5, 3: 1.5}}, {"id": 9, "vector": ([1, 3], [0.1, 2.0])}], {}),
    "with texts": lambda: (sp.csr_matrix([[1.0, 2.0]]), {"ids": [3], "texts": [("Title", "text")]}),
}


@pytest.mark.parametrize("given", VECTORS.values(), ids=VECTORS)
def test_vectors_of_any_kind(given: Any, vectors: tuple[Any, segmax.Collection]) -> None:
    """Matrices and records, also without ids."""
    there, here = vectors
    for collection in vectors:
        documents, columns = given()
        collection.upsert(documents, **columns)
    for query in ({0: 1.0, 1: 0.3, 3: 0.25}, {7: 1.0, 20: 0.1}):
        same_hits(there.search(query, k=500), here.search(query, k=500))
    assert [document.text for document in there.get([*here.ids()])] == [d.text for d in here.get([*here.ids()])]


def test_words_as_terms(papers_by_word: tuple[Any, segmax.Collection]) -> None:
    """Weights by word make a vocabulary, which grows."""
    there, here = papers_by_word
    for collection in papers_by_word:
        collection.add([{"id": "a", "vector": {"copper": 1.5, "noise": 2.0}}, {"id": "b", "vector": {"copper": 1.0}}])
        collection.upsert(iter([{"id": "c", "vector": {"tube": 0.1, "copper": 3.0}}]))
    same_hits(
        there.search({"copper": 2.0, "tube": 1.0, "unheard": 1.0}), here.search({"copper": 2, "tube": 1, "no": 1})
    )
    assert list(there.terms) == list(here.terms) == ["copper", "noise", "tube"]


def test_upserts_updates_and_deletions(papers: Any, own: segmax.Collection) -> None:
    """Counts, contents and errors are those of a collection on this machine."""
    steps: list[Callable[[Any], Any]] = [
        lambda c: c.add(texts(10)),
        lambda c: c.upsert([{"id": "d1", "text": "crystal"}, {"id": "e1", "text": "crystal"}]),
        lambda c: c.upsert({"id": f"s{n}", "text": f"streamed {n}"} for n in range(2000)),
        lambda c: c.update({"id": "d2", "metadata": {"year": 3}}),
        lambda c: c.update([{"id": "d3", "text": "antenna"}, {"id": "d4", "title": "New", "metadata": None}]),
        lambda c: c.update({"id": "d3", "metadata": {"size.w": 1, "size": {"h": 2}, "year": None}}),
        lambda c: c.update({"id": "d7", "metadata": {"size.w": None}}, replace_metadata=True),
        lambda c: c.update([]),
        lambda c: c.delete("d5"),
        lambda c: c.delete(["d6", "no such id"]),
        lambda c: c.delete(where={"year": {"$gte": 1957}}),
        lambda c: c.delete([f"s{n}" for n in range(1500)]),
        lambda c: (len(c), "d1" in c, "d5" in c, 3 in c, c.get("d4"), c.get(["d2", "d3", "d7"])),
    ]
    for step in steps:
        assert step(papers) == step(own)
    assert papers.search("crystal antenna streamed", k=600).ids == own.search("crystal antenna streamed", k=600).ids


def test_what_is_refused(papers: Any, own: segmax.Collection) -> None:
    """A list is added whole or not at all, and the errors are those of a collection on this machine."""
    steps: list[tuple[type[Exception], Callable[[Any], Any]]] = [
        (InputError, lambda c: c.add([{"id": "x", "text": "new"}, {"id": "a", "text": "twice"}])),
        (InputError, lambda c: c.add([{"id": "x", "text": "new"}, {"id": "x", "text": "twice"}])),
        (InputError, lambda c: c.add([{"id": "x"}])),
        (InputError, lambda c: c.add(["\ud800"], ids=["x"])),
        (InputError, lambda c: c.add(["text"], ids=["x"], metadata=[{"when": object()}])),
        (InputError, lambda c: c.add(["text"], ids=["x", "y"])),
        (UnknownIdError, lambda c: c.update({"id": "x", "text": "not there"})),
        (InputError, lambda c: c.update({"id": "a", "vector": [1]})),
        (InputError, lambda c: c.update({"id": "a", "metadata": {"x.y": 1, "x": 2}})),
        (ConfigError, lambda c: c.update({"id": "a", "metadata": {}}, replace_metadata="yes")),
        (UnknownIdError, lambda c: c.get("x")),
        (ConfigError, lambda c: c.delete()),
        (ConfigError, lambda c: c.delete(where={})),
        (InputError, lambda c: c.delete(where={"year": {"$about": 3}})),
        (InputError, lambda c: c.delete({"a": 1})),
        (InputError, lambda c: c.delete(b"a")),
    ]
    for collection in (papers, own):
        collection.add([{"id": "a", "text": "copper"}])
    for kind, step in steps:
        for collection in (papers, own):
            with pytest.raises(kind):
                step(collection)
            assert len(collection) == 1


def test_a_refused_line_of_a_stream_is_named(papers: Any) -> None:
    """By the number of the document, counted through the whole stream, and with the service's reason."""
    records = [{"id": f"s{n % 3000}", "text": "copper"} for n in range(3500)]
    with pytest.raises(InputError, match=r"document 3000: expected ids that are not in the collection yet, got 's0'"):
        papers.add(iter(records))
    assert len(papers) == 3000


def test_many_documents_are_cut_into_requests(papers: Any) -> None:
    """A list that is larger than a request may be arrives whole."""
    records = [{"id": str(number), "text": "copper " * 12_000} for number in range(250)]
    assert papers.add(records) == 250
    assert len(papers) == 250


def test_progress(papers: Any) -> None:
    """It is reported as documents are sent."""
    seen: list[int] = []
    papers.add((record for record in texts(1500)), progress=lambda state: seen.append(state.done))
    assert seen[-1] == 1500


def test_keeping(papers: Any, root: Path) -> None:
    """Commits, compactions and snapshots happen at the service; a snapshot is a collection of its own."""
    papers.add(texts(30))
    papers.commit()
    steps: list[tuple[str, int]] = []
    papers.compact(progress=lambda state: steps.append((state.stage, state.done)))
    assert steps[0] == ("compact", 0)
    assert steps[-1] == ("compact", 1)
    papers.compact(None)
    stats = papers.stats()
    assert (stats.num_docs, stats.num_deleted, stats.num_parts, stats.num_in_memory) == (30, 0, 1, 0)
    name = papers.snapshot()
    with segmax.open(root / "snapshots" / name) as copy:
        same_hits(papers.search("copper"), copy.search("copper"))


def test_who_may_write(url: str, papers: Any) -> None:
    """A key that may only read, no key, and an index, which cannot change."""
    papers.add(texts(2))
    with segmax.connect(url, READ, index="papers") as reader:
        assert reader.count() == 2
        with pytest.raises(ConfigError, match="refuses this"):
            reader.add(["copper"], ids=["x"])
    with pytest.raises(ConfigError, match="expected api_key to be a valid key, got none"):
        segmax.connect(url, index="papers")
    with pytest.raises(ConfigError, match="got one that the service does not know"):
        segmax.connect(url, "another-key-than-those", index="papers")
    with segmax.connect(url, WRITE, index="docs") as index:
        assert not hasattr(index, "add")
