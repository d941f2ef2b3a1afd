"""What users do with a collection: create, add, change, delete, filter, search, keep."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from segmax.base import system
from segmax.collection import store as store_module
from segmax.collection.collection import Collection
from segmax.errors import (
    CollectionLockedError,
    ConfigError,
    IndexExistsError,
    IndexNotFoundError,
    InputError,
    UnknownIdError,
)
from segmax.metadata import Metadata


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a collection goes."""
    return tmp_path / "docs"


def random_rows(count: int, seed: int, *, whole: bool = False, terms: int = 60) -> sp.csr_matrix:
    """Return documents with many equal scores."""
    rng = np.random.default_rng(seed)
    rows = sp.random(count, terms, density=0.15, format="csr", random_state=seed)
    rows.data = rng.integers(1, 9, len(rows.data)).astype(float) if whole else rng.random(len(rows.data)) * 3 + 0.01
    return rows


def brute_force(collection: Any, query: dict[int, float], k: int) -> list[tuple[Any, float]]:
    """Return the ranking of all living documents by the scores that the collection gives each, ties by number."""
    ids = list(collection.ids())
    scores = collection.score(query, ids)
    ranked = sorted(range(len(ids)), key=lambda at: (-scores[at], at))
    return [(ids[at], scores[at]) for at in ranked[:k] if scores[at] > 0]


def found(hits: Any) -> list[tuple[Any, float]]:
    """Return ids and scores."""
    return list(zip(hits.ids, hits.scores.tolist(), strict=True))


class TestFilters:
    """What filters keep between searches."""

    def test_a_delete_evaluates_no_filter_again(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Which rows of a part match is kept with the part; only which of them are alive is new."""
        evaluated: list[int] = []
        rows_of = Metadata.rows

        def counted(metadata: Metadata, where: Any) -> Any:
            evaluated.append(len(metadata))
            return rows_of(metadata, where)

        monkeypatch.setattr(Metadata, "rows", counted)
        with Collection.create(path, encoder="bm25") as collection:
            collection.add([{"id": row, "text": "wave", "metadata": {"n": row % 3}} for row in range(300)])
            for dead in range(0, 60, 5):
                assert collection.count({"n": 1}) == sum(row % 3 == 1 for row in collection.ids())
                hits = collection.search("wave", k=300, where={"n": 1})
                assert hits.ids == [row for row in collection.ids() if row % 3 == 1]
                collection.delete([dead])
            with collection.snapshot() as before:
                collection.delete([1])
                assert 1 in before.search("wave", k=300, where={"n": 1}).ids
                assert 1 not in collection.search("wave", k=300, where={"n": 1}).ids
                assert before.count({"n": 1}) == collection.count({"n": 1}) + 1
        assert evaluated == [300]

    def test_a_query_of_a_foreign_encoder_finds_its_own_words_only(self, path: Path) -> None:
        """A word that the collection does not have stands for none of its terms."""

        class Foreign:
            vocabulary = ("copper", "wave")

            def encode_queries(self, batch: Any) -> dict[str, float]:
                return dict.fromkeys(batch[0].split(), 1.0)

        with Collection.create(path) as collection:
            collection.add([{"id": 1, "vector": {"copper": 1.0}}, {"id": 2, "vector": {"wave": 1.0}}])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Collection, "encoder", Foreign())
                assert collection.search("copper diodes").ids == [1]


class TestMaking:
    """Creating, opening, closing."""

    def test_a_taken_path_is_refused(self, path: Path) -> None:
        """Whatever is there stays."""
        Collection.create(path).close()
        with pytest.raises(IndexExistsError):
            Collection.create(path)

    def test_a_collection_is_replaced_if_asked_for(self, path: Path) -> None:
        """Its documents are gone, and so are its files; a folder of something else is never touched."""
        with Collection.create(path) as collection:
            collection.add(sp.csr_matrix(np.ones((9, 2))))
            collection._open_store.flush({"threads": 1})
            collection.add(sp.csr_matrix(np.ones((9, 2))))
            with pytest.raises(CollectionLockedError):
                Collection.create(path, overwrite=True)
        with Collection.create(path, overwrite=True) as collection:
            assert len(collection) == 0
            collection.add(sp.csr_matrix(np.ones((3, 2))), ids=["a", "b", "c"])
        with Collection.open(path) as collection:
            assert collection.search({0: 1}).ids == ["a", "b", "c"]
            assert list(path.glob("part.*")) == []
        other = path.parent / "other"
        other.mkdir()
        (other / "precious.txt").write_text("keep")
        with pytest.raises(IndexExistsError):
            Collection.create(other, overwrite=True)

    def test_nothing_to_open(self, path: Path) -> None:
        """There is no collection."""
        with pytest.raises(IndexNotFoundError):
            Collection.open(path)

    def test_a_second_writer_is_told_who_holds_it(self, path: Path) -> None:
        """The error names the process."""
        with Collection.create(path), pytest.raises(CollectionLockedError):
            Collection.open(path)
        Collection.open(path).close()

    def test_closed(self, path: Path) -> None:
        """A closed collection says so."""
        collection = Collection.create(path)
        collection.close()
        assert repr(collection) == "Collection(closed)"

    def test_an_empty_collection_answers(self, path: Path) -> None:
        """No document, no result."""
        with Collection.create(path) as collection:
            assert collection.search({3: 1.0}).ids == []
            assert collection.search_batch([{3: 1.0}, {4: 1.0}]).ids == [[], []]
            assert (len(collection), list(collection.ids()), collection.delete(["a"])) == (0, [], 0)
            collection.compact()
            collection.commit()

    def test_segmax_open_opens_collections(self, path: Path) -> None:
        """Read-only, so that a writer can go on."""
        with Collection.create(path) as collection:
            collection.add(sp.csr_matrix([[1.0, 2.0]]))
            collection.commit()
            with segmax.open(path) as reader:
                assert reader.search({1: 1}).ids == [0]
                with pytest.raises(ConfigError):
                    reader.add(sp.csr_matrix([[1.0, 2.0]]))  # type: ignore[union-attr]

    def test_options(self, path: Path) -> None:
        """Wrong ones are refused before anything is written."""
        with pytest.raises(ConfigError):
            Collection.create(path, durability="often")  # type: ignore[arg-type]
        with pytest.raises(ConfigError):
            Collection.create(path, num_segment=3)  # type: ignore[call-arg]
        assert not path.exists()


class TestWriting:
    """Adding, replacing, updating, deleting."""

    def test_a_batch_is_added_whole_or_not_at_all(self, path: Path) -> None:
        """One bad document, one id that is taken, one id twice: nothing is added."""
        with Collection.create(path) as collection:
            collection.add(sp.csr_matrix([[1, 2]]), ids=["a"])
            for rows, ids in (
                ([[1, 0], [-1, 0]], ["b", "c"]),
                ([[1, 0], [1, 0]], ["b", "a"]),
                ([[1, 0], [1, 0]], ["b", "b"]),
            ):
                with pytest.raises(InputError):
                    collection.add(sp.csr_matrix(np.array(rows, dtype=float)), ids=ids)
            assert list(collection.ids()) == ["a"]

    def test_kinds_of_ids(self, path: Path) -> None:
        """All strings or all integers."""
        with Collection.create(path) as collection:
            collection.add(sp.csr_matrix([[1.0], [2.0]]))
            assert list(collection.ids()) == [0, 1]
            with pytest.raises(InputError):
                collection.add(sp.csr_matrix([[1.0]]), ids=["a"])
            with pytest.raises(InputError):
                collection.add(sp.csr_matrix([[1.0]]), ids=[2**64])
            with pytest.raises(UnknownIdError):
                collection.get(7)

    @pytest.mark.parametrize("whole", [True, False])
    def test_ties_are_in_the_order_in_which_documents_came(self, path: Path, whole: bool) -> None:
        """Updated documents keep their place, replaced ones come last."""
        weight = 2.0 if whole else 0.7
        with Collection.create(path) as collection:
            collection.add(sp.csr_matrix(np.full((4, 1), weight)), ids=["a", "b", "c", "d"])
            collection.upsert(sp.csr_matrix([[weight]]), ids=["a"])
            collection.update({"id": "c", "metadata": {"x": 1}})
            assert collection.search({0: 1}).ids == ["b", "c", "d", "a"]
            collection.compact()
            assert collection.search({0: 1}).ids == ["b", "c", "d", "a"]

    def test_records(self, path: Path) -> None:
        """Vectors by word, with texts and metadata."""
        with Collection.create(path) as collection:
            collection.add(
                [
                    {"id": "a", "vector": {"red": 2, "blue": 1}, "text": "red and blue", "metadata": {"n": 1}},
                    {"id": "b", "vector": {"green": 3}, "text": "green"},
                ]
            )
            collection.add([{"id": "c", "vector": {"green": 1, "grey": 4}, "text": "grey"}])
            hits = collection.search({"green": 1, "grey": 1})
            assert found(hits) == [("c", 5.0), ("b", 3.0)]
            assert [text.text for text in hits.texts] == ["grey", "green"]
            assert collection.get("a").metadata == {"n": 1}
            assert collection.get(["b"])[0].metadata is None

    def test_files(self, path: Path, tmp_path: Path) -> None:
        """Vectors and texts as `build` and `from_texts` read them."""
        file = tmp_path / "docs.jsonl"
        file.write_text('{"id": "a", "vector": {"cat": 1.5}}\n{"id": "b", "vector": {"dog": 2, "cat": 1}}\n')
        with Collection.create(path) as collection:
            assert collection.add(file) == 2
            assert collection.search({"cat": 1}).ids == ["a", "b"]

    def test_texts_need_an_encoder(self, path: Path) -> None:
        """The error says how to get one."""
        with Collection.create(path) as collection, pytest.raises(InputError):
            collection.add(["some text"])

    def test_unknown_ids_of_updates_change_nothing(self, path: Path) -> None:
        """All or nothing."""
        with Collection.create(path) as collection:
            collection.add(sp.csr_matrix([[1.0]]), ids=["a"])
            with pytest.raises(UnknownIdError):
                collection.update([{"id": "a", "metadata": {"x": 1}}, {"id": "b", "metadata": {"x": 1}}])
            assert collection.get("a").metadata is None

    @pytest.mark.parametrize("flush", [False, True])
    def test_texts_beside_vectors(self, path: Path, flush: bool) -> None:
        """Can be changed alone: the vector stays. A collection that keeps no texts says so."""
        with Collection.create(path) as collection:
            collection.add(random_rows(3, 1), ids=["a", "b", "c"])
            collection.add(random_rows(2, 2), ids=["d", "e"], texts=["four", ("Five", "5")])
            if flush:
                collection._open_store.flush({"threads": 1})
            before = collection.vectors(list("abcde")).toarray()
            assert collection.update([{"id": "a", "text": "one"}, {"id": "e", "text": "five"}]) == 2
            assert (collection.vectors(list("abcde")).toarray() == before).all()
        with Collection.open(path) as collection:
            assert [collection.text(id) for id in "abde"] == [("", "one"), ("", ""), ("", "four"), ("Five", "five")]
        with Collection.create(path, keep_texts=False, overwrite=True) as collection:
            collection.add(random_rows(1, 1), ids=["a"])
            with pytest.raises(InputError, match="neither encodes nor keeps texts"):
                collection.update({"id": "a", "text": "one"})

    def test_deleting_by_ids_and_by_filter(self, path: Path) -> None:
        """Either, and not both."""
        with Collection.create(path) as collection:
            collection.add(sp.csr_matrix(np.ones((5, 1))), metadata=[{"n": n} for n in range(5)])
            assert collection.delete([1, 1, 77]) == 1
            with pytest.raises(ConfigError, match="an empty one"):
                collection.delete(where={})
            assert collection.delete(where={"n": {"$gte": 3}}) == 2
            assert list(collection.ids()) == [0, 2]
            with pytest.raises(ConfigError):
                collection.delete()
            with pytest.raises(ConfigError):
                collection.delete([1], where={"n": 1})

    def test_terms_with_huge_numbers(self, path: Path) -> None:
        """Are refused where their tables would not fit, and nothing changes; as words they take no more than others."""
        with Collection.create(path, memory_limit="1GiB") as collection:
            collection.add([{"id": "a", "vector": {3: 1.5}}])
            with pytest.raises(ConfigError, match="tables of 200,000,001 terms"):
                collection.add([{"id": "b", "vector": {200_000_000: 1.5}}])
            assert (list(collection.ids()), collection.num_terms) == (["a"], 4)
            collection.upsert([{"id": "a", "vector": {4: 1.5}}])
        with Collection.create(path, memory_limit="1GiB", overwrite=True) as collection:
            collection.add([{"id": "b", "vector": {"200000000": 1.5}}])
            assert (collection.search({"200000000": 1}).ids, collection.num_terms) == (["b"], 1)

    @pytest.mark.parametrize(
        "metadata",
        [{"a": "\ud800"}, {"a": float("nan")}, {"a": {"b": 1}, "a.b": 2}, {"a": 1 << 20_000}, {1: 2}, {"a": {1}}, "a"],
    )
    def test_metadata_that_cannot_be_stored_are_refused_at_once(self, path: Path, metadata: Any) -> None:
        """Not only when they go to disk, after they were acknowledged."""
        with Collection.create(path) as collection:
            with pytest.raises(InputError, match="document 1"):
                collection.add(random_rows(2, 1), metadata=[{"a": 1}, metadata])
            assert len(collection) == 0

    def test_given_metadata_stay_the_callers(self, path: Path) -> None:
        """What is changed later, on either side, does not change what is stored."""
        given = {"a": 1}
        with Collection.create(path) as collection:
            collection.add(random_rows(1, 1), ids=["x"], metadata=[given])
            given["a"] = 2
            collection.get("x").metadata["a"] = 3
            assert collection.metadata("x") == {"a": 1}
            assert collection.search(dict.fromkeys(range(60), 1.0), where={"a": 1}).metadata == [{"a": 1}]

    def test_schema(self, path: Path) -> None:
        """Declared types are checked, when documents come and when they change."""
        with Collection.create(path, schema={"year": "int"}) as collection:
            collection.add(sp.csr_matrix([[1.0]]), ids=["a"], metadata=[{"year": 1950}])
            with pytest.raises(InputError):
                collection.add(sp.csr_matrix([[1.0]]), ids=["b"], metadata=[{"year": "1950"}])
            with pytest.raises(InputError):
                collection.update({"id": "a", "metadata": {"year": "x"}})
        with Collection.open(path) as collection, pytest.raises(InputError):
            collection.add(sp.csr_matrix([[1.0]]), ids=["b"], metadata=[{"year": "1950"}])


class TestExact:
    """Search is exhaustive search over the living documents, wherever they lie."""

    @pytest.mark.parametrize("whole", [True, False])
    def test_parts_change_nothing(self, path: Path, whole: bool) -> None:
        """The same scores and order in memory, in several parts and in one; for queries of whole numbers and others."""
        rng = np.random.default_rng(3)
        queries: list[dict[int, float]] = [
            {int(t): float(w) for t, w in zip(rng.choice(60, 6, replace=False), rng.random(6) + 0.1, strict=True)}
            for _ in range(8)
        ]
        queries += [{term: float(round(weight * 5)) + 1 for term, weight in query.items()} for query in queries[:3]]
        with Collection.create(path) as collection:
            before: list[Any] = []
            for step in range(6):
                rows = random_rows(50, step, whole=whole)
                if step == 4:
                    rows = sp.hstack([rows, random_rows(50, 99, whole=whole, terms=5)], format="csr")  # new terms
                collection.add(rows, ids=[f"{step}-{row}" for row in range(50)])
                if step == 2:
                    collection.delete([f"0-{row}" for row in range(0, 50, 3)])
                if step in (1, 3):
                    collection._open_store.flush({"threads": 1})
                for query in queries:
                    assert found(collection.search(query, k=20)) == brute_force(collection, query, 20)
            before = [found(collection.search(query, k=30)) for query in queries]
            batch = collection.search_batch(queries, k=30, threads=2)
            assert [found(hits) for hits in batch] == before
            for params in (segmax.Exhaustive(), segmax.ASC(mu=1, eta=1), segmax.ASC(budget_ms=600_000)):
                assert [found(collection.search(query, k=30, params=params)) for query in queries] == before
            collection.compact()
            assert collection.stats().num_parts == 1
            assert [found(collection.search(query, k=30)) for query in queries] == before

    @pytest.mark.parametrize("flush", [True, False])
    def test_a_weight_that_outgrows_its_scale(self, path: Path, flush: bool) -> None:
        """It counts as what it is, and other documents keep their scores once a part is on disk."""
        with Collection.create(path) as collection:
            collection.add(random_rows(200, 7), ids=range(200))
            if flush:
                collection._open_store.flush({"threads": 1})
            before = found(collection.search({3: 1.0, 9: 0.5}, k=200))
            collection.add(sp.csr_matrix(([90.0], ([0], [3])), shape=(1, 60)), ids=[1000])
            hits = collection.search({3: 1.0, 9: 0.5}, k=201)
            assert hits.ids[0] == 1000
            assert hits.scores[0] == pytest.approx(90, rel=0.01)
            if flush:
                assert hits.scores[1:] == pytest.approx([score for _, score in before], rel=1e-3)
            assert found(hits) == brute_force(collection, {3: 1.0, 9: 0.5}, 201)
            collection.compact()
            assert found(collection.search({3: 1.0, 9: 0.5}, k=201)) == found(hits)

    def test_updates_change_no_weights(self, path: Path) -> None:
        """What is written again with other metadata does not count as one more document that asks for a scale."""
        light, heavy = np.full((20, 6), 0.01), np.full((1, 6), 3.0)
        with Collection.create(path) as collection:
            collection.add(sp.csr_matrix(np.vstack([light, heavy])), ids=range(21))
            before = collection.vectors(range(21)).toarray()
            for year in range(100):
                collection.update({"id": 20, "metadata": {"year": year}})
            assert (collection.vectors(range(21)).toarray() == before).all()

    def test_reading_the_log_gives_the_same_scale(self, path: Path) -> None:
        """Whole numbers that came in many batches and are replayed in one, before fractions decide about a scale."""
        whole = random_rows(300, 1, whole=True)
        whole.data[0] = 60_000  # far more than the others, so that all of them count
        with Collection.create(path) as collection:
            for first in range(0, 300, 7):
                collection.add(whole[first : first + 7])
            collection.add(random_rows(5, 3))
            query = {1: 0.7, 2: 1.3, 5: 0.11}
            expected = found(collection.search(query, k=400))
        with Collection.open(path) as collection:
            assert found(collection.search(query, k=400)) == expected

    def test_fractions_after_whole_numbers(self, path: Path) -> None:
        """While nothing is on disk, a collection of whole numbers takes fractions."""
        with Collection.create(path) as collection:
            collection.add([{"id": "a", "vector": {0: 1.0, 1: 2.0}}])
            collection.add([{"id": "b", "vector": {0: 0.25, 1: 1.5}}])
            hits = collection.search({1: 1.0})
            assert hits.ids == ["a", "b"]
            assert hits.scores == pytest.approx([2.0, 1.5], rel=0.02)

    def test_much_too_large_a_weight_warns(self, path: Path) -> None:
        """It is cut, and says so."""
        with Collection.create(path) as collection:
            collection.add(random_rows(50, 7), ids=range(50))
            collection._open_store.flush({"threads": 1})
            with pytest.warns(segmax.errors.SegmaxWarning):
                collection.add(sp.csr_matrix(([1e9], ([0], [3])), shape=(1, 60)), ids=[1000])
            assert collection.search({3: 1.0}).ids[0] == 1000

    def test_approximate_settings(self, path: Path) -> None:
        """They find what they may, and terms are dropped by the collection's weights, not by a part's."""
        with Collection.create(path) as collection:
            for step in range(4):
                collection.add(random_rows(60, step), ids=range(step * 60, step * 60 + 60))
            query = random_rows(1, 77)
            dropped = segmax.ASC(max_terms=3)
            before = found(collection.search(query, k=30, params=dropped))
            collection.compact()
            assert found(collection.search(query, k=30, params=dropped)) == before
            for params in (segmax.ASC(eta=0.8), segmax.ASC(mu=0.7), segmax.ASC(query_mass=0.9)):
                assert len(collection.search(query, k=10, params=params)) == 10


class TestDurable:
    """What was written is there."""

    @pytest.mark.parametrize("durability", ["batch", "commit", "none"])
    def test_reopening(self, path: Path, durability: Any) -> None:
        """From the log, from parts, and from both."""
        rows = random_rows(90, 1)
        with Collection.create(path, durability=durability) as collection:
            collection.add(rows[:40], ids=range(40), metadata=[{"n": n} for n in range(40)])
            collection.delete([3])
            expected = found(collection.search({1: 1.0, 5: 2.0}, k=50))
        with Collection.open(path) as collection:
            assert found(collection.search({1: 1.0, 5: 2.0}, k=50)) == expected
            collection._open_store.flush({"threads": 1})
            collection.add(rows[40:], ids=range(40, 90))
            collection.delete([5, 77])
            expected = found(collection.search({1: 1.0, 5: 2.0}, k=90, where={"n": {"$exists": False}}))
        with Collection.open(path) as collection:
            assert found(collection.search({1: 1.0, 5: 2.0}, k=90, where={"n": {"$exists": False}})) == expected
            assert len(collection) == 87

    def test_documents_that_come_during_a_flush_take_nothing_from_it(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A small part that is being written is not joined with new documents: the log no longer has its own."""
        collection = Collection.create(path)
        collection.pause_merges()
        collection.add(random_rows(10, 1), ids=list(range(10)))
        write = store_module.write_merged

        def write_and_add(*args: Any, **options: Any) -> None:
            write(*args, **options)
            collection.add(random_rows(10, 2), ids=list(range(10, 20)))

        monkeypatch.setattr(store_module, "write_merged", write_and_add)
        collection._open_store.flush({})
        monkeypatch.undo()
        collection.close()
        with Collection.open(path) as again:
            assert list(again.ids()) == list(range(20))
            assert again.stats().num_deleted == 0

    def test_words_survive(self, path: Path) -> None:
        """Vocabularies that grow, with parts and without."""
        with Collection.create(path, encoder="bm25") as collection:
            collection.add({"a": "copper wire", "b": "silver wire"})
            collection._open_store.flush({"threads": 1})
            collection.add({"c": "golden wire"})
        with Collection.open(path) as collection:
            collection.add({"d": "iron wire"})
            assert collection.search("golden").ids == ["c"]
            assert collection.search("iron").ids == ["d"]
            assert collection.search("copper wire").ids[0] == "a"

    def test_backup_and_restore(self, path: Path, tmp_path: Path) -> None:
        """A backup is a collection."""
        with Collection.create(path) as collection:
            collection.add(random_rows(50, 1), ids=range(50))
            collection._open_store.flush({"threads": 1})
            collection.add(random_rows(50, 2), ids=range(50, 100))
            collection.delete([7])
            collection.backup(tmp_path / "copy")
            collection.delete(range(50))
            with pytest.raises(IndexExistsError):
                collection.backup(tmp_path / "copy")
        with Collection.restore(tmp_path / "copy", tmp_path / "again") as collection:
            assert len(collection) == 99
        with segmax.open(tmp_path / "copy") as reader:
            assert len(reader) == 99

    def test_no_backup_into_the_collection_itself(self, path: Path) -> None:
        """The next backup would have it, too."""
        with Collection.create(path) as collection:
            for inside in (path / "backup", path):
                with pytest.raises(ConfigError, match="outside"):
                    collection.backup(inside)

    @pytest.mark.skipif(system.NAME == "windows", reason="files in use stay until the next write")
    def test_old_files_go_away(self, path: Path) -> None:
        """After merges there is what the manifest names, and a user's own files."""
        with Collection.create(path) as collection:
            (path / "notes.txt").write_text("mine")
            for step in range(4):
                collection.add(random_rows(30, step), ids=range(step * 30, step * 30 + 30))
                collection._open_store.flush({"threads": 1})
            collection.compact()
            names = {file.name.split(".")[0] for file in path.iterdir()}
            assert names == {"manifest", "part", "lattice", "log", "writer", "notes"}
            assert len(list(path.glob("part.*"))) == 1
            assert len(list(path.glob("log.*"))) == 1


class TestReaders:
    """Other views and other processes."""

    @pytest.mark.parametrize("encoder", ["bm25", None])
    def test_a_reader_of_a_collection_that_was_replaced(self, path: Path, encoder: str | None) -> None:
        """Does not mix the words of one with the documents of the other."""
        with Collection.create(path, encoder="bm25") as collection:
            collection.add({"a": "copper", "b": "tin"})
        with Collection.open(path, read_only=True) as reader:
            before = reader.snapshot()
            with Collection.create(path, encoder=encoder, overwrite=True) as collection:
                collection.add({"c": "tin"} if encoder else sp.csr_matrix([[1.0, 2.0]]))
            with pytest.raises(IndexNotFoundError, match="replaced"):
                reader.refresh()
            assert before.search("tin").ids == ["b"]
        with Collection.open(path, read_only=True) as reader:
            assert len(reader) == 1

    def test_readers_see_commits(self, path: Path) -> None:
        """At once on refresh; within a second otherwise."""
        with (
            Collection.create(path, durability="commit") as collection,
            Collection.open(path, read_only=True) as reader,
        ):
            collection.add(random_rows(5, 1), ids=range(5))
            reader.refresh()
            assert len(reader) == 0
            collection.commit()
            reader.refresh()
            assert len(reader) == 5
            collection.delete([1])
            collection._open_store.flush({"threads": 1})
            reader.refresh()
            assert list(reader.ids()) == [0, 2, 3, 4]

    def test_another_process(self, path: Path) -> None:
        """It searches the same documents."""
        with Collection.create(path) as collection:
            collection.add(random_rows(50, 1), ids=range(50))
            expected = found(collection.search({1: 1.0, 2: 0.5}, k=10))
            context = multiprocessing.get_context("spawn")
            with context.Pool(1) as pool:
                assert pool.apply(_searched_elsewhere, (str(path),)) == expected

    @pytest.mark.deep
    def test_threads_search_while_one_writes(self, path: Path) -> None:
        """Every answer is that of some state: results are always alive and in order."""
        with Collection.create(path) as collection:
            collection.add(random_rows(100, 0, whole=True), ids=range(100))
            problems: list[str] = []
            done = threading.Event()

            def search() -> None:
                while not done.is_set():
                    snapshot = collection.snapshot()
                    query = {1: 1.0, 2: 2.0, 5: 1.0}
                    if found(snapshot.search(query, k=15)) != brute_force(snapshot, query, 15):
                        problems.append("another order")

            threads = [threading.Thread(target=search) for _ in range(2)]
            for thread in threads:
                thread.start()
            for step in range(1, 12):
                collection.add(random_rows(40, step, whole=True), ids=range(100 + step * 40, 140 + step * 40))
                collection.delete(range(step * 7, step * 7 + 5))
                if step % 4 == 0:
                    collection._open_store.flush({"threads": 1})
            done.set()
            for thread in threads:
                thread.join()
            assert problems == []


def _searched_elsewhere(path: str) -> Any:
    with segmax.open(path) as reader:
        return found(reader.search({1: 1.0, 2: 0.5}, k=10))


class TestWords:
    """BM25: rarity comes from the documents that are alive."""

    TEXTS: ClassVar = {
        "a": "copper wire and copper plates",
        "b": "silver wire",
        "c": "noise of a microwave tube",
        "d": "copper noise in a long text about wires, plates, tubes and microwaves",
    }

    def test_a_compacted_collection_equals_a_fresh_one(self, path: Path, tmp_path: Path) -> None:
        """Whatever history led there."""
        with Collection.create(path, encoder="bm25") as collection:
            collection.add({"x": "copper copper copper", "a": "something else"})
            collection.add({name: text for name, text in self.TEXTS.items() if name in "bc"})
            collection.upsert({"a": self.TEXTS["a"]})
            collection.add({"d": self.TEXTS["d"]})
            collection.delete("x")
            collection.compact()
            with Collection.create(tmp_path / "fresh", encoder="bm25") as fresh:
                fresh.add({name: self.TEXTS[name] for name in "bcad"})
                for query in ("copper wire", "noise tubes", "microwave"):
                    assert found(collection.search(query)) == found(fresh.search(query))

    def test_deleting_changes_rarity_at_once(self, path: Path) -> None:
        """A word of a deleted document is as rare as if the document had never come."""
        with Collection.create(path, encoder="bm25") as collection:
            collection.add(self.TEXTS)
            before = collection.search("silver copper").scores[0]
            collection.delete("d")
            assert collection.search("silver copper").scores[0] != before
            assert collection.search("long").ids == []

    def test_changed_text_is_encoded_again(self, path: Path) -> None:
        """With new words, too."""
        with Collection.create(path, encoder="bm25") as collection:
            collection.add(self.TEXTS)
            collection.update([{"id": "b", "text": "a zebra"}, {"id": "a", "text": "a yak and a zebra"}])
            assert sorted(collection.search("zebra").ids) == ["a", "b"]
            assert collection.search("silver").ids == []
            assert collection.text("b").text == "a zebra"
            assert list(collection.ids()) == ["a", "b", "c", "d"]

    def test_vectors_are_refused(self, path: Path) -> None:
        """The collection counts words itself."""
        with Collection.create(path, encoder="bm25") as collection, pytest.raises(InputError):
            collection.add(sp.csr_matrix([[1.0]]))


class TestProtocol:
    """A collection answers what an index answers."""

    def test_texts_of_some(self, path: Path) -> None:
        """Documents without a text have an empty one beside others that have one."""
        with Collection.create(path) as collection:
            collection.add(sp.csr_matrix([[2.0]]), ids=["a"], texts=["a text"])
            collection._open_store.flush({"threads": 1})
            collection.add(sp.csr_matrix([[1.0]]), ids=["b"])
            assert [text.text for text in collection.search({0: 1}).texts] == ["a text", ""]
            collection.compact()
            assert [text.text for text in collection.search({0: 1}).texts] == ["a text", ""]

    def test_explanations(self, path: Path) -> None:
        """By the living documents that a filter matches, whatever an id says, and wherever a document lies."""
        rows, ids = random_rows(40, 5), [f"this is {number}" for number in range(40)]
        query, where = {1: 1.0, 2: 0.5, 3: 2.0, 7: 1.0}, {"year": {"$gte": 2}}
        with Collection.create(path, num_clusters=3) as collection:
            for first in (0, 20):
                years = [{"year": number % 4} for number in range(first, first + 20)]
                collection.add(rows[first : first + 20], ids=ids[first : first + 20], metadata=years)
                if not first:
                    collection.compact()
            best = collection.search(query, k=6).ids
            collection.delete(best[:3])
            for filters in (None, where):
                found = collection.search(query, k=4, where=filters).ids
                for number, id in enumerate(ids):
                    if id in best[:3]:
                        with pytest.raises(UnknownIdError, match="deleted"):
                            collection.explain(query, id, k=4, where=filters)
                        continue
                    explained = collection.explain(query, id, k=4, where=filters)
                    assert explained.rank == (found.index(id) + 1 if id in found else None)
                    assert explained.reason.startswith(f"document '{id}' (score ")
                    is_out = filters is not None and number % 4 < 2
                    assert ("the filter does not match it" in explained.reason) == is_out
                    if "it was scored" in explained.reason:
                        assert explained.score <= explained.final_threshold

    def test_tuning(self, path: Path) -> None:
        """What was measured is kept."""
        with Collection.create(path) as collection:
            collection.add(random_rows(200, 1), ids=range(200))
            collection.tune(random_rows(20, 2), k=10)
            assert len(collection.search({1: 1.0}, target_recall=0.95)) == 10
        with Collection.open(path) as collection:
            assert collection.expectation(10, 0.95).num_queries == 20

    def test_from_an_index_that_prunes(self, path: Path) -> None:
        """What it did to queries is not done again, which is said; options for parts are kept, with BM25 as well."""
        pruning = [segmax.pruning.QueryThreshold(threshold=0.3)]
        index = segmax.build(random_rows(30, 1), pruning=pruning, num_segments=3)
        with (
            pytest.warns(segmax.errors.SegmaxWarning, match="prunes queries"),
            Collection.from_index(index, path) as collection,
        ):
            assert collection.config.num_segments == 3
        index = segmax.from_texts({"a": "copper"}, num_segments=3)
        with Collection.from_index(index, path.parent / "texts") as collection:
            assert collection.config.num_segments == 3

    def test_from_an_index(self, path: Path) -> None:
        """Documents, ids and scores stay; it goes on from there."""
        rows = random_rows(100, 4)
        index = segmax.build(rows, ids=[f"d{row}" for row in range(100)], texts=[f"text {row}" for row in range(100)])
        query = {1: 1.0, 3: 0.3}
        with Collection.from_index(index, path) as collection:
            assert collection.search(query, k=20).ids == index.search(query, k=20).ids
            assert collection.text("d7").text == "text 7"
            collection.add(random_rows(10, 5), ids=[f"e{row}" for row in range(10)])
            collection.delete("d3")
            collection.compact()
            assert found(collection.search(query, k=20)) == brute_force(collection, query, 20)
            assert len(collection) == 109


def test_background_merges_settle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small batches become few parts, without being asked to."""
    monkeypatch.setattr("segmax.collection.maintenance.FLUSH_DOCS", 200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Collection.create(path) as collection:
            for step in range(30):
                collection.add(random_rows(40, step), ids=range(step * 40, step * 40 + 40))
            assert collection.settle(timeout=60)
            assert collection.stats().num_parts <= 6
            query = {1: 1.0, 4: 2.0}
            assert found(collection.search(query, k=30)) == brute_force(collection, query, 30)
