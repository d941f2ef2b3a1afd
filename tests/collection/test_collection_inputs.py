"""What can be added to a collection, and what is refused before anything is written."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from segmax.collection.collection import Collection
from segmax.collection.making import MOST_DOCS
from segmax.errors import ConfigError, InputError
from segmax.metadata import Schema

ROWS = sp.csr_matrix([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])


@pytest.fixture
def vectors(tmp_path: Path) -> Iterator[Collection]:
    """An empty collection for vectors."""
    with Collection.create(tmp_path / "vectors") as collection:
        yield collection


@pytest.fixture
def texts(tmp_path: Path) -> Iterator[Collection]:
    """An empty collection for texts."""
    with Collection.create(tmp_path / "texts", encoder="bm25") as collection:
        yield collection


def described(collection: Collection) -> dict[Any, Any]:
    """Return the metadata of all documents."""
    return {name: collection.metadata(name) for name in collection.ids()}


class TestBatches:
    """One batch is added whole or not at all."""

    @pytest.mark.parametrize("name", ["ids", "texts", "metadata"])
    @pytest.mark.parametrize("count", [1, 3])
    @pytest.mark.parametrize("documents", [ROWS, [ROWS[0], ROWS[1]], [{"vector": {0: 1}}, {"vector": {1: 1}}]])
    def test_of_everything_one_per_document(self, vectors: Collection, name: str, count: int, documents: Any) -> None:
        """Too few and too many are refused, and nothing is added."""
        values = {"ids": ["a", "b", "c"], "texts": ["x", "y", "z"], "metadata": [{}, {}, {}]}[name][:count]
        with pytest.raises(InputError):
            vectors.add(documents, **{name: values})  # type: ignore[arg-type]
        assert len(vectors) == 0

    def test_too_many_ids_of_texts(self, texts: Collection) -> None:
        """Lists of strings are a batch, too."""
        with pytest.raises(InputError):
            texts.add(["copper", "diodes"], ids=["a", "b", "c"])
        assert len(texts) == 0

    def test_a_list_of_matrices_is_one_batch(self, vectors: Collection) -> None:
        """They may have different widths."""
        assert vectors.add([ROWS, sp.csr_matrix([[0.0, 1.0]])], ids=["a", "b", "c"]) == 3
        assert vectors.search({1: 1}).ids == ["b", "c"]
        with pytest.raises(InputError):
            vectors.add([ROWS, "text"], ids=["d", "e"])

    def test_giant_batches_are_cut(self, vectors: Collection) -> None:
        """The core makes a part of so many documents at most."""
        count = MOST_DOCS + 1
        rows = sp.csr_matrix((np.ones(count), (np.arange(count), np.arange(count) % 7)), shape=(count, 7))
        assert vectors.add(rows, metadata=({"row": row} for row in range(count))) == count
        assert vectors.get(MOST_DOCS).metadata == {"row": MOST_DOCS}
        with pytest.raises(InputError, match="32,768"):
            vectors.update([{"id": row, "metadata": None} for row in range(count)])

    def test_nothing(self, vectors: Collection, texts: Collection) -> None:
        """No documents are no mistake; None is."""
        assert (vectors.add([]), texts.add({}), texts.add([]), vectors.add(iter([]))) == (0, 0, 0, 0)
        with pytest.raises(InputError):
            texts.add([None])
        with pytest.raises(InputError):
            vectors.add([], ids=["a"])


class TestIds:
    """Given ids and numbers."""

    def test_numbers_that_are_taken(self, vectors: Collection) -> None:
        """Neither add nor upsert replaces a document whose id happens to be the next number."""
        vectors.add(sp.csr_matrix([[1, 2]] * 3), ids=[3, 4, 5])
        for put in (vectors.add, vectors.upsert):
            with pytest.raises(InputError, match="numbered"):
                put(sp.csr_matrix([[7, 7]]))
        assert list(vectors.ids()) == [3, 4, 5]
        assert vectors.search({0: 1}).scores.tolist() == [1, 1, 1]

    def test_in(self, vectors: Collection) -> None:
        """Whatever is asked for, the answer is yes or no."""
        vectors.add(ROWS, ids=[1, 2])
        assert 1 in vectors
        assert np.int64(1) in vectors
        for other in (True, np.True_, 3, 10**30, -(10**30), "1", 1.0, None, b"1", [1]):
            assert other not in vectors


class TestTerms:
    """Columns and words."""

    def test_a_matrix_wider_than_the_words(self, tmp_path: Path) -> None:
        """A column without a word would become the next word that comes."""
        with Collection.create(tmp_path / "words", terms=["x", "y"]) as collection:
            with pytest.raises(InputError, match="2 columns"):
                collection.add(sp.csr_matrix([[0, 0, 7]]), ids=["a"])
            collection.add(sp.csr_matrix([[0, 7]]), ids=["a"])
            collection.add([{"id": "b", "vector": {"z": 1}}])
            assert collection.search({"z": 1}).ids == ["b"]
            with pytest.raises(InputError):
                collection.add([{"id": "c", "vector": {3: 1}}])

    @pytest.mark.parametrize("vector", [{"z": 5, 1: 2}, {1: 2, "z": 5}])
    def test_words_and_numbers(self, vectors: Collection, vector: Any) -> None:
        """In one vector, and in one batch."""
        with pytest.raises(InputError, match="document 0"):
            vectors.add([{"id": "a", "vector": vector}])
        with pytest.raises(InputError, match="document 1"):
            vectors.add([{"id": "a", "vector": {"z": 5}}, {"id": "b", "vector": {1: 2}}])


class TestMetadata:
    """Metadata are found wherever they are."""

    def test_in_records_and_mappings(self, texts: Collection) -> None:
        """Lists, streams and mappings of id to record."""
        record = {"id": "a", "text": "copper", "metadata": {"year": 1}}
        texts.add([record])
        texts.add({**one, "id": name} for one, name in [(record, "b")])
        texts.add({"c": {"text": "copper", "metadata": {"year": 3}}})
        assert described(texts) == {"a": {"year": 1}, "b": {"year": 1}, "c": {"year": 3}}

    def test_in_files(self, texts: Collection, vectors: Collection, tmp_path: Path) -> None:
        """Lines of JSON, of texts and of vectors, compressed or not, and columns of CSV."""
        lines = [{"id": "a", "metadata": {"year": 1}}, {"id": "b", "metadata": None}, {"id": "c"}]
        for name, more in (("texts", {"text": "copper"}), ("vectors", {"vector": {"x": 1.5}})):
            file = tmp_path / f"{name}.jsonl"
            file.write_text("\n\n".join(json.dumps({**line, **more}) for line in lines))
            collection = texts if name == "texts" else vectors
            collection.add(file)
            assert described(collection) == {"a": {"year": 1}, "b": None, "c": None}
        table = tmp_path / "table.csv"
        table.write_text('id,text,metadata\nd,diodes,"{""year"": 4}"\ne,noise,\n')
        texts.add(table)
        assert described(texts)["d"] == {"year": 4}
        assert described(texts)["e"] is None

    def test_in_tables(self, texts: Collection, vectors: Collection) -> None:
        """A column of a DataFrame, with texts and with vectors."""
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"id": ["a", "b"], "text": ["copper", "diodes"], "metadata": [{"y": 1}, None]})
        texts.add(frame)
        assert described(texts) == {"a": {"y": 1}, "b": None}
        vectors.add(pd.DataFrame({"id": ["a", "b"], "vector": [{1: 2}, {2: 3}], "metadata": [{"y": 1}, None]}))
        assert described(vectors) == {"a": {"y": 1}, "b": None}
        assert vectors.search({2: 1}).ids == ["b"]

    def test_other_members(self, texts: Collection, vectors: Collection, tmp_path: Path) -> None:
        """Which are asked for by name, as for from_texts; they join the metadata that are there."""
        pd = pytest.importorskip("pandas")
        record = {"text": "copper", "year": 1950, "lang": "en", "metadata": {"tag": "x"}}
        texts.add([{"id": "a", **record}], metadata=["year"])
        texts.add([{"id": "b", **record}], metadata="all")
        texts.add({"c": record}, metadata=["year:int", "missing"])
        texts.add(pd.DataFrame([{"id": "d", **record}]), metadata="all")
        file = tmp_path / "texts.csv"
        file.write_text("id,text,year\ne,copper,1951\n")
        texts.add(file, metadata=["year:int"])
        everything = {"tag": "x", "year": 1950, "lang": "en"}
        some = {"tag": "x", "year": 1950}
        assert described(texts) == {"a": some, "b": everything, "c": some, "d": everything, "e": {"year": 1951}}
        lines = tmp_path / "vectors.jsonl"
        lines.write_text(json.dumps({"id": "a", "vector": {"x": 1}, "year": 1950}))
        vectors.add(lines, metadata="all")
        assert described(vectors) == {"a": {"year": 1950}}
        with pytest.raises(ConfigError):
            texts.add(["copper"], metadata="year")

    def test_by_id(self, vectors: Collection) -> None:
        """A mapping of id to metadata, or a table, for documents in memory."""
        pd = pytest.importorskip("pandas")
        vectors.add(ROWS, ids=["a", "b"], metadata={"b": {"y": 2}})
        vectors.add(ROWS, ids=["c", "d"], metadata=pd.DataFrame({"id": ["d", "c"], "y": [4, 3]}))
        assert described(vectors) == {"a": None, "b": {"y": 2}, "c": {"y": 3}, "d": {"y": 4}}
        with pytest.raises(InputError):
            vectors.add(ROWS, ids=["e", "f"], metadata={"g": {}})
        with pytest.raises(InputError):
            vectors.add(iter([ROWS]), ids=["e", "f"], metadata={"e": {}})
        assert len(vectors) == 4

    def test_what_is_no_metadata(self, texts: Collection, tmp_path: Path) -> None:
        """Refused, and not dropped."""
        for wrong in ("a note", 5, [1]):
            with pytest.raises(InputError, match="metadata"):
                texts.add([{"id": "a", "text": "copper", "metadata": wrong}])
        assert len(texts) == 0
        texts.add([{"id": "a", "text": "copper", "metadata": "a note"}], metadata=["metadata"])
        assert described(texts) == {"a": {"metadata": "a note"}}


class TestWeights:
    """The lattice and what it is chosen from."""

    def test_documents_without_terms_choose_nothing(self, vectors: Collection) -> None:
        """A part on disk with nothing but empty documents leaves all weights possible."""
        vectors.add(sp.csr_matrix((2, 5)), ids=["a", "b"])
        vectors.compact()
        given = [[0.1, 0.2, 0.33, 0.9, 2.2]]
        vectors.add(sp.csr_matrix(given), ids=["c"])
        assert np.allclose(vectors.vector("c").toarray(), given, atol=0.006)
        vectors.compact()
        assert np.allclose(vectors.vector("c").toarray(), given, atol=0.006)
        assert np.allclose(vectors.search({3: 1.0}).scores, [0.9], atol=0.006)

    def test_large_whole_numbers(self, vectors: Collection) -> None:
        """They are refused before others lose precision for them."""
        vectors.add(sp.csr_matrix([[3, 65_535]]), ids=["a"])
        with pytest.raises(InputError, match="65,535"):
            vectors.add(sp.csr_matrix([[70_000, 0]]), ids=["b"])
        assert vectors.vector("a").toarray().tolist() == [[3, 65_535]]
        vectors.compact()
        with pytest.raises(InputError, match="65,535"):
            vectors.add(sp.csr_matrix([[70_000, 0]]), ids=["b"])
        assert list(vectors.ids()) == ["a"]


class TestUpdates:
    """What an update changes, and what it leaves alone."""

    def test_title_and_text(self, texts: Collection) -> None:
        """One of them alone keeps the other, in the text and in the vector."""
        texts.add([{"id": "a", "title": "Tubes", "text": "microwave noise"}])
        texts.update({"id": "a", "text": "copper"})
        assert texts.text("a") == ("Tubes", "copper")
        texts.update({"id": "a", "title": "Diodes"})
        assert texts.text("a") == ("Diodes", "copper")
        assert [texts.search(word).ids for word in ("copper", "diodes", "tubes", "noise")] == [["a"], ["a"], [], []]

    def test_without_stored_texts(self, tmp_path: Path) -> None:
        """What is not known cannot be kept, so both are needed."""
        with Collection.create(tmp_path / "docs", encoder="bm25", keep_texts=False) as collection:
            collection.add([{"id": "a", "title": "Tubes", "text": "noise"}])
            with pytest.raises(InputError, match="both"):
                collection.update({"id": "a", "text": "copper"})
            collection.update({"id": "a", "title": "", "text": "copper"})
            collection.update({"id": "a", "metadata": {"y": 1}})
            assert (collection.search("copper").ids, collection.search("noise").ids) == (["a"], [])

    @pytest.mark.parametrize("compacted", [False, True])
    def test_metadata_alone_change_no_score(self, texts: Collection, compacted: bool) -> None:
        """BM25 weighs a document by the mean length when it came; an update of its metadata is no coming."""
        texts.add([{"id": "a", "text": "copper wire"}])
        texts.add([{"id": "b", "text": "copper " + "long words are here " * 20}])
        if compacted:
            texts._open_store.flush({"threads": 1})
        before = texts.search("copper").scores.tolist()
        for year in range(3):
            texts.update([{"id": name, "metadata": {"year": year}} for name in ("a", "b")])
            assert texts.search("copper").scores.tolist() == before
        path = texts.path
        texts.close()
        with Collection.open(path) as again:  # from the log
            assert again.search("copper").scores.tolist() == before

    def test_mean_length_counts_a_document_once(self, texts: Collection) -> None:
        """An upsert of the same document, again and again, leaves its weight as it is."""
        texts.add([{"id": "a", "text": "copper wire"}, {"id": "b", "text": "copper " * 40}])
        before = texts.search("copper").scores.tolist()
        for _ in range(3):
            texts.upsert([{"id": "b", "text": "copper " * 40}])
            texts.update({"id": "a", "text": "copper wire"})
        assert sorted(texts.search("copper").scores.tolist()) == sorted(before)

    def test_weights_as_they_came(self, tmp_path: Path) -> None:
        """While codes may be made anew, an update keeps the weights, not the codes."""
        rng = np.random.default_rng(1)
        rows = sp.csr_matrix(rng.random((50, 20)) * (rng.random((50, 20)) < 0.3))
        stored = []
        for updated in (False, True):
            with Collection.create(tmp_path / f"{updated}") as collection:
                collection.add(rows, ids=range(50))
                if updated:
                    collection.update([{"id": row, "metadata": {"a": 1}} for row in range(50)])
                collection.add(sp.csr_matrix(np.full((1, 20), 3.7)), ids=[99])
                stored.append(collection.vectors(range(50)).toarray())
        assert np.array_equal(*stored)

    @pytest.mark.parametrize("wrong", [5, None, "a", ["a"], {"id": "a", "vector": {}}, {"metadata": {}}])
    def test_what_is_no_update(self, texts: Collection, wrong: Any) -> None:
        """An error that says what an update is."""
        with pytest.raises(InputError):
            texts.update(wrong)

    def test_texts_and_metadata_in_one_update(self, texts: Collection) -> None:
        """Some documents keep their weights, others are encoded again; new words are shared."""
        texts.add([{"id": name, "text": "copper wire"} for name in "abc"])
        before = texts.score("wire", ["b"])[0]
        texts.update(
            [
                {"id": "c", "text": "silver spoon"},
                {"id": "b", "metadata": {"y": 1}},
                {"id": "a", "text": "spoon gold", "metadata": {"y": 2}},
            ]
        )
        assert texts.search("spoon").ids == ["a", "c"]
        assert (texts.search("gold").ids, texts.search("copper").ids) == (["a"], ["b"])
        assert texts.score("wire", ["b"])[0] != before  # the word has become rarer
        assert segmax.open(texts.path).search("silver").ids == ["c"]

    def test_metadata_are_merged(self, texts: Collection) -> None:
        """What an update does not name stays, objects are merged, null removes, lists are replaced."""
        stored = {"brand": "acme", "price": 2, "tags": ["a", "b"], "size": {"w": 1, "h": 2}, "old": None}
        texts.add([{"id": "a", "text": "copper", "metadata": stored}, {"id": "b", "text": "wire"}])
        texts.update([{"id": "a", "metadata": {"price": 1}}])
        assert texts.metadata("a") == {**stored, "price": 1}
        texts.update({"id": "a", "metadata": {"tags": ["c"], "size": {"h": None, "d": 3}, "brand": None, "size.w": 9}})
        assert texts.metadata("a") == {"price": 1, "tags": ["c"], "size": {"w": 9, "d": 3}, "old": None}
        texts.update([{"id": "a", "text": "silver"}, {"id": "b", "metadata": {"price": 4}}])
        assert texts.metadata("a") == {"price": 1, "tags": ["c"], "size": {"w": 9, "d": 3}, "old": None}
        assert [texts.count(where) for where in ({"price": 4}, {"size.d": 3}, {"brand": "acme"})] == [1, 1, 0]
        texts.update({"id": "b", "metadata": {}})
        assert texts.metadata("b") == {"price": 4}

    def test_metadata_are_replaced(self, texts: Collection) -> None:
        """If that is asked for: as they are, with null, and names with dots as names."""
        texts.add([{"id": "a", "text": "copper", "metadata": {"price": 2, "size": {"w": 1}}}])
        texts.update({"id": "a", "metadata": {"size.w": None}}, replace_metadata=True)
        assert texts.metadata("a") == {"size.w": None}
        texts.update({"id": "a", "text": "silver"}, replace_metadata=True)
        assert (texts.metadata("a"), texts.search("silver").ids) == ({"size.w": None}, ["a"])
        with pytest.raises(ConfigError):
            texts.update({"id": "a", "metadata": {}}, replace_metadata=1)  # type: ignore[arg-type]
        texts.update({"id": "a", "metadata": {}}, replace_metadata=True)
        assert texts.metadata("a") == {}

    @pytest.mark.parametrize("replace", [False, True])
    def test_null_removes_all_metadata(self, texts: Collection, replace: bool) -> None:
        """It is what the record has in place of metadata."""
        texts.add([{"id": "a", "text": "copper", "metadata": {"price": 2}}])
        texts.update({"id": "a", "metadata": None}, replace_metadata=replace)
        assert (texts.metadata("a"), texts.count({"price": 2})) == (None, 0)

    def test_merged_metadata_are_replayed(self, texts: Collection) -> None:
        """A log, a part, and a part with a log behind it give the same documents."""
        texts.add([{"id": name, "text": "copper", "metadata": {"n": 1, "x.y": {"z": 1}}} for name in "abc"])
        texts.update([{"id": "a", "metadata": {"x": {"y.z": 2}}}, {"id": "b", "metadata": {"n": None}}])
        texts.update({"id": "a", "metadata": {"m": 3}})
        expected = [{"n": 1, "x.y": {"z": 2}, "m": 3}, {"x.y": {"z": 1}}, {"n": 1, "x.y": {"z": 1}}]
        assert [texts.metadata(name) for name in "abc"] == expected
        path = texts.path
        texts.close()
        with Collection.open(path) as again:
            assert [again.metadata(name) for name in "abc"] == expected
            again.compact()
            again.update({"id": "c", "metadata": {"n": 5}})
        with Collection.open(path) as again:
            assert [again.metadata(name) for name in "abc"] == [*expected[:2], {"n": 5, "x.y": {"z": 1}}]

    @pytest.mark.parametrize(
        ("stored", "patch"),
        [
            ({"a": "x" * 9_000_000}, {"b": "x" * 9_000_000}),  # both fit, together they do not
            ({}, {"year": "x"}),
            ({"required": 1}, {"required": None}),
            ({}, {"a.b": 1, "a": {"b": 2}}),
            ({}, {"a": {".".join("a" * 64): 1}}),
            ({}, {"a": {1, 2}}),
        ],
        ids=["size", "type", "required", "twice", "depth", "no JSON"],
    )
    def test_what_a_merge_would_break(self, tmp_path: Path, stored: dict[str, Any], patch: Any) -> None:
        """It is refused like a document that is added, whole: nothing is changed, in the log neither."""
        schema = Schema({"year": "int", "required": "int"}, required=["required"])
        with Collection.create(tmp_path / "docs", schema=schema) as collection:
            metadata: list[Any] = [{"required": 1, **stored}, {"required": 2}]
            collection.add(ROWS[:1], ids=["a"], metadata=metadata[:1])
            collection.add(ROWS[:1], ids=["b"], metadata=metadata[1:])
            with pytest.raises(InputError, match="metadata of document 1"):
                collection.update([{"id": "b", "metadata": {"year": 1}}, {"id": "a", "metadata": patch}])
            assert [collection.metadata(name) for name in "ab"] == metadata
        with Collection.open(tmp_path / "docs") as again:
            assert [again.metadata(name) for name in "ab"] == metadata

    def test_a_merge_is_one_step(self, vectors: Collection) -> None:
        """Threads that change fields of the same documents lose none."""
        vectors.add(ROWS[:1], ids=["a"], metadata=[{"list": []}])

        def change(field: int) -> None:
            for value in range(20):
                vectors.update({"id": "a", "metadata": {f"f{field}": value, "common": {f"g{field}": value}}})

        threads = [threading.Thread(target=change, args=(field,)) for field in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = {f"f{n}": 19 for n in range(4)} | {"list": [], "common": {f"g{n}": 19 for n in range(4)}}
        assert vectors.metadata("a") == expected

    def test_an_id_twice(self, vectors: Collection) -> None:
        """It is refused, because the order of updates in one change says nothing."""
        vectors.add(ROWS[:1], ids=["a"], metadata=[{"x": 1}])
        with pytest.raises(InputError, match="every id once"):
            vectors.update([{"id": "a", "metadata": {"x": 2}}, {"id": "a", "metadata": {"y": 2}}])
        assert vectors.metadata("a") == {"x": 1}
