"""What surrounds the documents of a collection: creating, encoders, backups, pickles, and the protocol of an index."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from segmax.collection.collection import Collection
from segmax.encoders import BM25, Encoder
from segmax.errors import ConfigError, FormatError, IndexExistsError, InputError, SegmaxError
from segmax.metadata import Schema
from segmax.vectors.csr import matrix_to_csr
from segmax.vectors.documents import VectorBatch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a collection goes."""
    return tmp_path / "docs"


@pytest.fixture
def papers(path: Path) -> Iterator[Collection]:
    """Some documents on disk, and some in memory."""
    with Collection.create(path, encoder="bm25") as collection:
        for first in (0, 5):
            collection.add(
                {"id": f"d{row}", "title": f"T{row}", "text": f"noise w{row % 3}", "metadata": {"row": row}}
                for row in range(first, first + 5)
            )
            if first == 0:
                collection.compact()
        yield collection


class Letters(Encoder):
    """Counts letters."""

    def __init__(self, vocabulary: str = "abc", **options: Any) -> None:
        self._vocabulary = list(vocabulary)
        self.options = options

    @property
    def vocabulary(self) -> list[str]:
        """The letters."""
        return self._vocabulary

    def encode_documents(self, batches: Any) -> Iterator[VectorBatch]:
        """Yield counts."""
        for batch in batches:
            rows = self.encode_queries([document.whole for document in batch])
            yield VectorBatch([document.id for document in batch], matrix_to_csr(rows))

    def encode_queries(self, batch: Any) -> sp.csr_matrix:
        """Return counts."""
        return sp.csr_matrix([[float(text.count(letter)) for letter in self._vocabulary] for text in batch])

    def to_dict(self) -> dict[str, Any]:
        """Return kind and options."""
        return {"encoder": "Letters", **self.options}


class TestCreating:
    """Whatever fails leaves nothing behind."""

    @pytest.mark.parametrize(
        "options",
        [
            {"terms": ["a", "a"]},
            {"terms": [1, 2]},
            {"terms": ["\ud800"]},
            {"schema": {"year": "integer"}},
            {"schema": 5},
            {"memory_limit": "lots"},
            {"keep_texts": "no"},
            {"bits": 16},
            {"overwrite": "yes"},
            {"encoder": "/nonexistent/model"},
        ],
    )
    def test_wrong_options(self, path: Path, options: Any) -> None:
        """They are refused before anything is written."""
        with pytest.raises((ConfigError, InputError)):
            Collection.create(path, **options)
        assert not path.exists()

    def test_failures_while_writing(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The folder goes, or, if it was there before, what is in it."""

        def fail(*_: object) -> None:
            raise OSError("no space")

        monkeypatch.setattr("segmax.collection.store.write_manifest", fail)
        with pytest.raises(OSError, match="no space"):
            Collection.create(path)
        assert not path.exists()
        path.mkdir()
        with pytest.raises(OSError, match="no space"):
            Collection.create(path)
        assert list(path.iterdir()) == []
        index = segmax.build(sp.csr_matrix([[1, 2]]))
        with pytest.raises(OSError, match="no space"):
            Collection.from_index(index, path)
        assert list(path.iterdir()) == []

    def test_a_collection_that_is_there_stays(self, papers: Collection) -> None:
        """Also where its folder cannot be taken."""
        with pytest.raises(IndexExistsError):
            Collection.create(papers.path)
        with pytest.raises(SegmaxError):
            Collection.create(papers.path, overwrite=True)
        assert papers.search("noise").ids

    def test_schemas(self, path: Path) -> None:
        """As a mapping, or as an object with more to say."""
        with Collection.create(path, schema=Schema({"year": "int"}, required=["year"])) as collection:
            with pytest.raises(InputError):
                collection.add(sp.csr_matrix([[1]]), ids=["a"], metadata=[{}])
            collection.add(sp.csr_matrix([[1]]), ids=["a"], metadata=[{"year": 1}])

    def test_opening(self, papers: Collection) -> None:
        """Options are checked here, too, and a refused one holds no lock."""
        papers.close()
        for options in ({"memory_limit": "lots"}, {"read_only": "yes"}, {"encoder": "/nonexistent/model"}):
            with pytest.raises(ConfigError):
                Collection.open(papers.path, **options)  # type: ignore[arg-type]
        Collection.open(papers.path).close()


class TestEncoders:
    """Only the encoder that made the vectors of a collection can go on."""

    def test_another_bm25(self, papers: Collection) -> None:
        """Options are compared."""
        with pytest.raises(InputError, match="k1"):
            papers.encoder = BM25(k1=5.0)  # type: ignore[assignment]
        with pytest.raises(InputError):
            papers.encoder = Letters()
        papers.close()
        with pytest.raises(InputError, match="k1"):
            Collection.open(papers.path, encoder=BM25(k1=5.0))
        with pytest.raises(InputError):
            segmax.open(papers.path, encoder=Letters())
        for same in ("bm25", "stored", BM25()):
            with Collection.open(papers.path, encoder=same) as collection:
                collection.upsert({"d0": "other noise"})
                assert "d0" in collection.search("noise").ids

    def test_models(self, path: Path) -> None:
        """Kind, name and options are compared; where a model lies is not."""
        made = Letters(model="naver/letters", top_n=4, dtype="float32")
        with Collection.create(path, encoder=made) as collection:
            collection.add({"a": "abba"})
        for other in (
            Letters("abd", model="naver/letters", top_n=4),
            Letters(model="naver/other", top_n=4),
            Letters(model="naver/letters", top_n=5),
            BM25(),
            "bm25",
        ):
            with pytest.raises(InputError):
                Collection.open(path, encoder=other)
        for same in (
            Letters(model="naver/letters", top_n=4, dtype="float16"),
            Letters(model="/models/copy-of-letters", top_n=4),
            Letters(model=None, top_n=4),
        ):
            with Collection.open(path, encoder=same) as collection:
                assert collection.search("b").ids == ["a"]


class TestCopies:
    """Backups, restored ones, pickles and snapshots."""

    def test_restore(self, papers: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A copy that fails leaves nothing behind."""
        papers.backup(tmp_path / "backup")

        def fail(*_: object) -> None:
            raise OSError("no space")

        with monkeypatch.context() as patched:
            patched.setattr("segmax.collection.collection.copy_synced", fail)
            with pytest.raises(SegmaxError):
                Collection.restore(tmp_path / "backup", tmp_path / "restored")
        assert sorted(file.name for file in tmp_path.iterdir()) == ["backup", "docs"]
        with Collection.restore(tmp_path / "backup", tmp_path / "restored") as restored:
            assert list(restored.ids()) == list(papers.ids())
            restored.delete("d0")
        assert sorted(file.name for file in tmp_path.iterdir()) == ["backup", "docs", "restored"]

    def test_pickles(self, papers: Collection) -> None:
        """A reader is opened again elsewhere; tests/contract has what cannot be."""
        papers.commit()
        with segmax.open(papers.path) as reader:
            again = pickle.loads(pickle.dumps(reader))
            assert again.search("noise").ids == papers.search("noise").ids
            again.close()

    def test_closed_snapshots_say_so(self, papers: Collection) -> None:
        """Where they are printed; tests/contract has what else becomes of them."""
        before = papers.snapshot()
        assert repr(before) != "Snapshot(closed)"
        before.close()
        assert repr(before) == "Snapshot(closed)"

    def test_verify(self, papers: Collection) -> None:
        """Every byte of every part, the manifest, and the log but for its last record, which may be torn."""
        papers.add({"last": "noise"})
        segmax.verify(papers.path)
        with segmax.open(papers.path, verify=True) as reader:
            assert len(reader) == 11
        papers.close()
        part = next(papers.path.glob("part.*"))
        components = sorted(file for file in part.iterdir() if file.name != "meta.json" and file.stat().st_size > 200)
        for file in [*components, *papers.path.glob("log.*"), papers.path / "manifest.json"]:
            content = bytearray(file.read_bytes())
            content[min(200, len(content) // 2)] ^= 0x20
            whole = file.read_bytes()
            file.write_bytes(content)
            with pytest.raises(FormatError):
                segmax.verify(papers.path)
            file.write_bytes(whole)
        segmax.verify(papers.path)


class TestProtocol:
    """What an index answers, a collection answers."""

    def test_of_an_index(self, papers: Collection) -> None:
        """All but what is about one index."""
        missing = {name for name in dir(segmax.Index) if not name.startswith("_") and not hasattr(Collection, name)}
        assert missing == {"cluster_bounds", "quantization_error", "save"}
        assert papers.fields == {"row": ("int",)}
        assert papers.bits == 8
        assert sum(papers.sizes().values()) == papers.num_bytes
        assert papers.cluster_sizes().sum() == 10
        assert len(papers.cluster_sizes()) == papers.num_clusters
        assert papers.search_batch(["w1", "w2"], k=1).metadata == [[{"row": 1}], [{"row": 2}]]

    def test_texts(self, papers: Collection) -> None:
        """Those of living documents, whatever died between them."""
        papers.delete(["d3", "d7"])
        assert papers.texts is not None
        titles = [text.title for text in papers.texts]
        assert titles == ["T0", "T1", "T2", "T4", "T5", "T6", "T8", "T9"]
        assert (len(papers.texts), papers.texts[4].title) == (8, "T4")
        for wrong in (3, -1, 10, 10**30):
            with pytest.raises(IndexError):
                papers.texts[wrong]

    def test_explanations_name_words(self, papers: Collection) -> None:
        """As those of an index do."""
        matched = papers.explain("noise w1", "d1").matched
        assert {match.word for match in matched} == {"nois", "w1"}
        assert "w1" in str(papers.explain("noise w1", "d1"))

    def test_facets(self, papers: Collection) -> None:
        """Of a field, which is a string."""
        for wrong in (5, None):
            with pytest.raises(InputError):
                papers.facets(wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigError):
            papers.facets("row", limit=0)
        assert len(papers.facets("row", limit=3)) == 3

    def test_documents_without_texts_between_others(self, path: Path) -> None:
        """They have empty ones."""
        with Collection.create(path) as collection:
            collection.add(sp.csr_matrix([[1.0]]), ids=["a"], texts=["copper"])
            collection._open_store.flush({"threads": 1})
            collection.add(sp.csr_matrix([[1.0]]), ids=["b"])
            assert collection.texts is not None
            assert [text.text for text in collection.texts] == ["copper", ""]
            assert np.array_equal(collection.search({0: 1}).ids, ["a", "b"])
