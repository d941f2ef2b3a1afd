"""A collection against a dictionary: after any history, exact search is exhaustive search over the living documents."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import segmax
from conftest import examples
from segmax.collection import maintenance as maintenance_module
from segmax.collection.collection import Collection

TERMS = 12
NAMES = [f"d{number}" for number in range(30)]
KINDS = ["x", "y", None]

vectors = st.dictionaries(st.integers(0, TERMS - 1), st.integers(1, 4), max_size=5)
names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True)
patches = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(KINDS),
        "size": st.dictionaries(st.sampled_from("wh"), st.sampled_from([1, 2, None])),
        "tags": st.sampled_from([["x"], ["y", "z"], None]),
    },
)


def matrix(rows: list[dict[int, int]]) -> sp.csr_matrix:
    """Return vectors as a matrix."""
    dense = np.zeros((len(rows), TERMS))
    for row, vector in enumerate(rows):
        for term, weight in vector.items():
            dense[row, term] = weight
    return sp.csr_matrix(dense)


class Known:
    """What the model knows of a document."""

    def __init__(self, number: int, vector: dict[int, int], metadata: dict[str, Any] | None) -> None:
        self.number, self.vector, self.metadata = number, vector, metadata

    @property
    def kind(self) -> str | None:
        """What searches filter by."""
        return None if self.metadata is None else self.metadata.get("kind")


def merged(metadata: Any, patch: Any) -> Any:
    """Return metadata after an update, as RFC 7396 defines it."""
    if not isinstance(patch, dict):
        return patch
    found = dict(metadata) if isinstance(metadata, dict) else {}
    for name, value in patch.items():
        found[name] = merged(found.get(name), value)
        if value is None:
            del found[name]
    return found


def ranking(docs: dict[str, Known], query: dict[int, int], kind: str | None = None) -> list[tuple[str, float]]:
    """Return all documents with a positive score, best first, ties in the order in which they came."""
    scored = []
    for name, doc in docs.items():
        score = sum(weight * doc.vector.get(term, 0) for term, weight in query.items())
        if score > 0 and (kind is None or doc.kind == kind):
            scored.append((-score, doc.number, name))
    return [(name, float(-score)) for score, _, name in sorted(scored)]


class CollectionMachine(RuleBasedStateMachine):
    """Random histories."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.docs: dict[str, Known] = {}
        self.next = 0
        self.snapshots: list[tuple[Any, dict[str, Known]]] = []
        self.collection: Collection

    @initialize(durability=st.sampled_from(["batch", "commit", "none"]))
    def create(self, durability: Any) -> None:
        self.collection = Collection.create(self.folder / "docs", durability=durability, num_segments=2)

    def _given(self, chosen: list[str], data: Any) -> tuple[list[dict[int, int]], list[dict[str, Any] | None]]:
        rows = [data.draw(vectors) for _ in chosen]
        kinds = [data.draw(st.sampled_from(KINDS)) for _ in chosen]
        return rows, [None if kind is None else {"kind": kind} for kind in kinds]

    def _remember(self, chosen: list[str], rows: list[dict[int, int]], metadata: list[dict[str, Any] | None]) -> None:
        for name, row, meta in zip(chosen, rows, metadata, strict=True):
            self.docs.pop(name, None)
            self.docs[name] = Known(self.next, row, meta)
            self.next += 1

    @rule(chosen=names, data=st.data())
    def add(self, chosen: list[str], data: Any) -> None:
        rows, metadata = self._given(chosen, data)
        if any(name in self.docs for name in chosen):
            with pytest.raises(segmax.errors.InputError):
                self.collection.add(matrix(rows), ids=chosen, metadata=metadata)
            return
        self.collection.add(matrix(rows), ids=chosen, metadata=metadata)
        self._remember(chosen, rows, metadata)

    @rule(chosen=names, data=st.data())
    def upsert(self, chosen: list[str], data: Any) -> None:
        rows, metadata = self._given(chosen, data)
        self.collection.upsert(matrix(rows), ids=chosen, metadata=metadata)
        self._remember(chosen, rows, metadata)

    @rule(chosen=names, patch=patches | st.none(), replace=st.booleans())
    def update(self, chosen: list[str], patch: dict[str, Any] | None, replace: bool) -> None:
        updates = [{"id": name, "metadata": patch} for name in chosen]
        if any(name not in self.docs for name in chosen):
            with pytest.raises((segmax.errors.UnknownIdError, segmax.errors.InputError)):
                self.collection.update(updates, replace_metadata=replace)
            return
        self.collection.update(updates, replace_metadata=replace)
        for name in chosen:
            doc = self.docs[name]
            metadata = patch if replace else merged(doc.metadata, patch)
            self.docs[name] = Known(doc.number, doc.vector, metadata)

    @rule(chosen=names)
    def delete(self, chosen: list[str]) -> None:
        assert self.collection.delete(chosen) == sum(name in self.docs for name in chosen)
        for name in chosen:
            self.docs.pop(name, None)

    @rule(kind=st.sampled_from(["x", "y"]))
    def delete_where(self, kind: str) -> None:
        count = self.collection.delete(where={"kind": kind})
        gone = [name for name, doc in self.docs.items() if doc.kind == kind]
        assert count == len(gone)
        for name in gone:
            del self.docs[name]

    @rule()
    def commit(self) -> None:
        self.collection.commit()

    @rule()
    def flush(self) -> None:
        self.collection._open_store.flush({"threads": 1})

    @rule()
    def merge(self) -> None:
        store = self.collection._open_store
        store.merge([view.part.name for view in store.state.views if view.part.name], {"threads": 1})

    @rule()
    def compact(self) -> None:
        self.collection.compact()

    @rule()
    def reopen(self) -> None:
        self.collection.close()
        self.collection = Collection.open(self.folder / "docs")

    @rule()
    def read_elsewhere(self) -> None:
        self.collection.commit()
        with Collection.open(self.folder / "docs", read_only=True) as reader:
            assert list(reader.ids()) == [name for name, _ in sorted(self.docs.items(), key=lambda d: d[1].number)]

    @precondition(lambda self: len(self.snapshots) < 3)
    @rule()
    def snapshot(self) -> None:
        self.snapshots.append((self.collection.snapshot(), dict(self.docs)))

    @rule(query=vectors.filter(bool), k=st.integers(1, 12), kind=st.sampled_from(KINDS))
    def search(self, query: dict[int, int], k: int, kind: str | None) -> None:
        for source, docs in [(self.collection, self.docs), *self.snapshots]:
            where = None if kind is None else {"kind": kind}
            for params in (None, segmax.Exhaustive()):
                hits = source.search(query, k=k, where=where, params=params)
                expected = ranking(docs, query, kind)[:k]
                assert list(zip(hits.ids, hits.scores.tolist(), strict=True)) == expected

    @rule(query=vectors.filter(bool))
    def search_by_fractions(self, query: dict[int, int]) -> None:
        """Weights that are no whole numbers: the order is that of the scores that the collection gives."""
        real = {term: weight * 0.3 for term, weight in query.items()}
        hits = self.collection.search(real, k=30)
        expected = ranking(self.docs, query)
        assert sorted(hits.ids) == sorted(name for name, _ in expected)
        assert np.allclose(hits.scores, [score * 0.3 for _, score in expected], rtol=1e-3)

    @invariant()
    def has_what_it_should(self) -> None:
        if hasattr(self, "collection"):
            assert len(self.collection) == len(self.docs)
            assert [self.collection.metadata(name) for name in self.docs] == [d.metadata for d in self.docs.values()]

    def teardown(self) -> None:
        if hasattr(self, "collection"):
            self.collection.close()
        shutil.rmtree(self.folder)


TestCollection = CollectionMachine.TestCase
TestCollection.settings = settings(
    max_examples=examples(6), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)


class FloatMachine(RuleBasedStateMachine):
    """Weights that are rounded: whatever the history, the order is that of the scores that each document has."""

    weights = st.dictionaries(
        st.integers(0, TERMS - 1),
        st.floats(0.01, 40.0, allow_nan=False).map(lambda x: round(x, 3) + 0.0001),
        max_size=5,
    )

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.docs: dict[str, int] = {}  # insertion numbers
        self.next = 0
        self.collection = Collection.create(self.folder / "docs", num_segments=2)

    @rule(chosen=names, data=st.data())
    def upsert(self, chosen: list[str], data: Any) -> None:
        rows = matrix([data.draw(self.weights) for _ in chosen])
        self.collection.upsert(rows, ids=chosen)
        for name in chosen:
            self.docs[name], self.next = self.next, self.next + 1
        step = self.collection._open_store.state.lattice.step
        stored = self.collection.vectors(chosen)
        assert np.abs(stored - rows).max() <= max(step, 1e-12)  # at least one code
        self._scores_are_those_of_vectors(chosen)

    @rule(chosen=names, kind=st.sampled_from(KINDS))
    def update(self, chosen: list[str], kind: str | None) -> None:
        there = [name for name in chosen if name in self.docs]
        before = self.collection.vectors(there).toarray()
        self.collection.update([{"id": name, "metadata": {"kind": kind}} for name in there])
        assert np.array_equal(self.collection.vectors(there).toarray(), before)

    @rule(chosen=names)
    def delete(self, chosen: list[str]) -> None:
        self.collection.delete(chosen)
        for name in chosen:
            self.docs.pop(name, None)

    @rule(how=st.sampled_from(["flush", "rough flush", "compact", "reopen"]))
    def keep(self, how: str) -> None:
        before = self.collection.vectors(list(self.docs)).toarray()
        if how.endswith("flush"):
            self.collection._open_store.flush({"threads": 1}, rough=how == "rough flush")
        elif how == "compact":
            self.collection.compact()
        else:
            self.collection.close()
            self.collection = Collection.open(self.folder / "docs")
        assert np.array_equal(self.collection.vectors(list(self.docs)).toarray(), before)

    @rule(query=weights.filter(bool), k=st.integers(1, 12))
    def search(self, query: dict[int, float], k: int) -> None:
        ids = sorted(self.docs, key=self.docs.__getitem__)
        scores = dict(zip(ids, self.collection.score(query, ids).tolist(), strict=True))
        expected = sorted((name for name in ids if scores[name] > 0), key=lambda name: -scores[name])[:k]
        for params in (None, segmax.Exhaustive()):
            hits = self.collection.search(query, k=k, params=params)
            assert (hits.ids, hits.scores.tolist()) == (expected, [scores[name] for name in expected])

    def _scores_are_those_of_vectors(self, chosen: list[str]) -> None:
        query = dict.fromkeys(range(TERMS), 1.0)
        totals = np.asarray(self.collection.vectors(chosen).sum(axis=1)).reshape(-1)
        assert np.allclose(self.collection.score(query, chosen), totals, rtol=1e-3)

    @invariant()
    def has_what_it_should(self) -> None:
        assert list(self.collection.ids()) == sorted(self.docs, key=self.docs.__getitem__)

    def teardown(self) -> None:
        self.collection.close()
        shutil.rmtree(self.folder)


TestFloats = FloatMachine.TestCase
TestFloats.settings = settings(
    max_examples=examples(5), stateful_step_count=30, suppress_health_check=list(HealthCheck)
)

WORDS = ["copper", "wire", "silver", "spoon", "tubes", "lasers"]
documents = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


class WordsMachine(RuleBasedStateMachine):
    """BM25: the order is that of the scores, and once it is compacted, a collection is as if it were new."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.docs: dict[str, tuple[int, str]] = {}  # insertion numbers and texts
        self.next = 0
        self.collection: Collection

    @initialize(method=st.sampled_from(["lucene", "robertson", "atire", "bm25l", "bm25+"]))
    def create(self, method: str) -> None:
        self.made = segmax.encoders.BM25(method=method)
        self.collection = Collection.create(self.folder / "docs", encoder=self.made, num_segments=2)

    @rule(chosen=names, data=st.data())
    def upsert(self, chosen: list[str], data: Any) -> None:
        texts = [data.draw(documents) for _ in chosen]
        self.collection.upsert(dict(zip(chosen, texts, strict=True)))
        for name, text in zip(chosen, texts, strict=True):
            self.docs[name], self.next = (self.next, text), self.next + 1

    @rule(chosen=names, text=documents)
    def update(self, chosen: list[str], text: str) -> None:
        there = [name for name in chosen if name in self.docs]
        self.collection.update([{"id": name, "text": text} for name in there])
        for name in there:
            self.docs[name] = (self.docs[name][0], text)

    @rule(chosen=names, kind=st.sampled_from(KINDS))
    def describe(self, chosen: list[str], kind: str | None) -> None:
        before = [self.collection.score(word, list(self.docs)).tolist() for word in WORDS]
        self.collection.update([{"id": name, "metadata": {"kind": kind}} for name in chosen if name in self.docs])
        assert [self.collection.score(word, list(self.docs)).tolist() for word in WORDS] == before

    @rule(chosen=names)
    def delete(self, chosen: list[str]) -> None:
        self.collection.delete(chosen)
        for name in chosen:
            self.docs.pop(name, None)

    @rule(how=st.sampled_from(["flush", "rough flush", "compact", "reopen"]))
    def keep(self, how: str) -> None:
        if how.endswith("flush"):
            self.collection._open_store.flush({"threads": 1}, rough=how == "rough flush")
        elif how == "compact":
            self.collection.compact()
        else:
            self.collection.close()
            self.collection = Collection.open(self.folder / "docs")

    @rule(query=documents, k=st.integers(1, 12))
    def search(self, query: str, k: int) -> None:
        ids = sorted(self.docs, key=self.docs.__getitem__)
        scores = dict(zip(ids, self.collection.score(query, ids).tolist(), strict=True))
        expected = sorted((name for name in ids if scores[name] > 0), key=lambda name: -scores[name])[:k]
        for params in (None, segmax.Exhaustive()):
            hits = self.collection.search(query, k=k, params=params)
            assert (hits.ids, hits.scores.tolist()) == (expected, [scores[name] for name in expected])

    @invariant()
    def has_what_it_should(self) -> None:
        if hasattr(self, "collection"):
            assert [self.collection.text(name).text for name in self.docs] == [text for _, text in self.docs.values()]

    def teardown(self) -> None:
        if not hasattr(self, "collection"):
            return
        self.collection.compact()
        ids = sorted(self.docs, key=self.docs.__getitem__)
        with Collection.create(self.folder / "new", encoder=self.made) as new:
            new.add({name: self.docs[name][1] for name in ids})
            for query in (*WORDS, "copper silver wire"):
                assert self.collection.score(query, ids).tolist() == new.score(query, ids).tolist()
                assert self.collection.search(query, k=40).ids == new.search(query, k=40).ids
        self.collection.close()
        shutil.rmtree(self.folder)


TestWords = WordsMachine.TestCase
TestWords.settings = settings(max_examples=examples(3), stateful_step_count=30, suppress_health_check=list(HealthCheck))


@pytest.mark.deep
@pytest.mark.hypothesis
@pytest.mark.parametrize("machine", [CollectionMachine, FloatMachine, WordsMachine])
def test_more_histories(machine: type[RuleBasedStateMachine]) -> None:
    """More of the same."""
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples(20), stateful_step_count=40, suppress_health_check=list(HealthCheck)),
    )


@pytest.mark.slow
@pytest.mark.hypothesis
def test_thousands_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer histories, with merges in the background that come after every few documents."""
    monkeypatch.setattr(maintenance_module, "FLUSH_DOCS", 16)
    run_state_machine_as_test(
        CollectionMachine,
        settings=settings(max_examples=examples(60), stateful_step_count=100, suppress_health_check=list(HealthCheck)),
    )
