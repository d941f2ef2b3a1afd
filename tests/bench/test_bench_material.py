"""What engines are measured on: weights of 8 bits, queries over the same terms, judgments by row. No timing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from segmax.base.errors import InputError
from segmax.base.progress import Progress
from segmax.bench.engines.engine import Answer
from segmax.bench.material import Material, generated, of_collection, whole_queries, whole_weights
from segmax.bench.task import QRELS, Judgments
from segmax.evaluation import EncodedQueries
from segmax.experiments import Collection


def matrix(rows: list[list[float]]) -> sp.csr_matrix:
    """A matrix of scipy."""
    return sp.csr_matrix(np.array(rows))


class TestWeights:
    """Weights that all engines read alike."""

    def test_whole_weights_stay(self) -> None:
        """Whole numbers of 8 bits are not touched, whatever their type."""
        for dtype in (np.uint8, np.int64, np.float32):
            docs = sp.csr_matrix(np.array([[1, 0, 255], [7, 0, 0]], dtype=dtype))
            made, rounded = whole_weights(docs)
            assert (made.toarray() == docs.toarray()).all()
            assert made.dtype == np.uint8
            assert not rounded
            assert not whole_queries(docs)[1]

    def test_others_are_rounded(self) -> None:
        """The largest weight becomes 255; what rounds to 0 is dropped."""
        made, rounded = whole_weights(matrix([[0.5, 1.0], [0.0005, 0.25]]))
        assert made.toarray().tolist() == [[128, 255], [0, 64]]
        assert made.nnz == 3
        assert rounded
        assert whole_weights(matrix([[256, 128]]))[0].toarray().tolist() == [[255, 128]]

    def test_a_query_has_its_own_scale(self) -> None:
        """A query with small weights loses no more than one with large weights; an empty one stays empty."""
        made, rounded = whole_queries(matrix([[0, 0], [1000.5, 500.25], [0.002, 0.001]]))
        assert made.toarray().tolist() == [[0, 0], [255, 128], [255, 128]]
        assert rounded

    def test_nothing_at_all(self) -> None:
        """Documents without terms are documents."""
        assert whole_weights(sp.csr_matrix((3, 2)))[0].shape == (3, 2)
        assert whole_queries(sp.csr_matrix((3, 2)))[0].nnz == 0


class TestGenerated:
    """Collections that are drawn at random."""

    def test_a_seed_decides(self) -> None:
        """The same seed gives the same vectors, another seed others; means are what was asked for."""
        made = [
            generated(400, num_queries=30, doc_terms=40, query_terms=9, seed=seed, progress=Progress())
            for seed in (1, 1, 2)
        ]
        assert all(one.docs is not None for one in made)
        docs: list[Any] = [one.docs for one in made]
        assert (docs[0] != docs[1]).nnz == 0
        assert (made[0].queries != made[1].queries).nnz == 0
        assert (docs[0] != docs[2]).nnz > 0
        assert 36 < docs[0].nnz / 400 < 44
        assert 7 < made[0].queries.nnz / 30 < 11
        assert made[0].generated

    def test_too_few_queries(self) -> None:
        """One query cannot both choose and report."""
        with pytest.raises(InputError, match="expected at least 2 queries"):
            generated(10, num_queries=1, doc_terms=5, query_terms=5, seed=0, progress=Progress())


class TestCollections:
    """Vectors of a collection."""

    @pytest.fixture
    def collection(self, tmp_path: Path) -> Collection:
        """Two documents that name their terms, and queries with a term that no document has."""
        path = tmp_path / "docs.jsonl"
        lines = [{"id": "a", "vector": {"red": 2, "blue": 1}}, {"id": "b", "vector": {"blue": 3}}]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        queries = EncodedQueries(["a", "b"], [{"blue": 1.0, "green": 9.0}, {"red": 2.0}])
        return Collection(
            name="colors",
            documents=path,
            queries=queries,
            num_docs=2,
            qrels={"a": {"b": 2, "elsewhere": 1}, "b": {"a": 1}},
        )

    def test_terms_and_judgments(self, collection: Collection) -> None:
        """Unknown terms are left out; grades are by row, and a document that is not there cannot be found."""
        made = of_collection(collection, {}, Progress())
        assert made.docs is not None
        assert made.docs.toarray().tolist() == [[2, 1], [0, 3]]
        assert made.queries.toarray().tolist() == [[0, 1], [2, 0]]
        assert made.grades == {"0": {"1": 2, "missing-elsewhere": 1}, "1": {"0": 1}}
        assert made.own == {"0": 0, "1": 1}  # both queries have the id of a document

    def test_negative_queries_are_refused(self, collection: Collection) -> None:
        """Rounding would turn them into large weights."""
        object.__setattr__(collection, "queries", EncodedQueries(["a", "b"], [{"blue": -1.0}, {"red": 2.0}]))
        with pytest.raises(InputError, match="queries with finite weights >= 0"):
            of_collection(collection, {}, Progress())

    def test_own_documents_are_no_answers(self, collection: Collection, tmp_path: Path) -> None:
        """The document that is the query itself is left out before relevance is measured."""
        pytest.importorskip("ir_measures")
        of_collection(collection, {}, Progress()).write(tmp_path)
        judged = Judgments.load(tmp_path / QRELS)
        assert judged is not None
        found = judged.relevance([Answer(np.array([0, 1])), Answer(np.array([1, 0]))], 10)
        assert found["MRR@10"] == [1.0, 1.0]
        assert Judgments.load(tmp_path / "nowhere") is None

    def test_other_documents_have_another_folder(self) -> None:
        """Indexes that are kept are never taken for those of other documents; queries do not matter."""

        def named(weight: int, queries: int = 2) -> str:
            docs = sp.csr_matrix(np.array([[1, weight]], dtype=np.uint8))
            return Material(name="x", docs=docs, queries=sp.csr_matrix((queries, 2)), num_docs=1).folder_name()

        assert named(5) == named(5, queries=3) != named(6)

    def test_queries_are_counted(self) -> None:
        """There must be documents and two queries."""
        docs = sp.csr_matrix((0, 2))
        with pytest.raises(InputError, match="at least one document"):
            Material(name="none", docs=docs, queries=sp.csr_matrix((2, 2)), num_docs=0)
