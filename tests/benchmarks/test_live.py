"""The parts of benchmarks.live that need no clock, and both engines on tiny data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.live import BUCKETS, ENGINES, Checker, Data, at_most, expressions, faster, ingest, window_p99


@pytest.fixture
def data(rng: np.random.Generator) -> Data:
    """1,500 documents with weights of 8 bits, and 6 queries that many of them match."""
    docs = sp.random(1500, 40, density=0.4, format="csr", rng=rng)
    docs.data = rng.integers(3, 192, docs.nnz).astype(np.uint8)
    queries = sp.random(6, 40, density=0.4, format="csr", rng=rng)
    queries.data = rng.integers(1, 181, queries.nnz).astype(np.uint8)
    return Data(sp.csr_matrix(docs), rng.integers(0, BUCKETS, 1500), sp.csr_matrix(queries))


class TestTable:
    """Rows and their verdicts."""

    def test_goals(self) -> None:
        """A row says by how much we are faster, and whether that is enough."""
        assert faster("k = 10", "ms", 0.25, 2.0, 8).reached
        assert not faster("k = 10", "ms", 0.26, 2.0, 8).reached
        assert faster("p99", "ms", 0.26, 2.0).reached is None
        assert at_most("disk", "MB", 4.0, 10.0, 0.4, 0.5, "≤ ½").to_markdown() == (
            "| disk | 4 MB | 10 MB | 0.4 | ≤ ½ | reached |"
        )

    def test_expressions_keep_their_share(self) -> None:
        """All of them are different, and inside the values that there are."""
        for share in (0.5, 0.001):
            found = expressions(share, 5)
            assert len(set(found)) == 5
            assert all(last - first == share * BUCKETS and first >= 0 and last <= BUCKETS for first, last in found)

    def test_a_stall_spoils_one_second_only(self) -> None:
        """The p99 is the median of those of all seconds."""
        took = np.full(5000, 1_000_000)
        took[1000:1100] = 10_000_000
        assert window_p99(took) == 1.0

    def test_batches(self, data: Data) -> None:
        """Ids are rows, or start where they are told to."""
        first, second = data.batches(0, 1500)
        assert (first.ids[0], second.ids[0], second.ids[-1]) == (0, 1000, 1499)
        assert next(data.batches(0, 10, first_id=7)).ids == list(range(7, 17))


@pytest.mark.parametrize("name", ENGINES)
def test_engines(name: str, data: Data, tmp_path: Path) -> None:
    """Both engines find what scipy finds: all documents, those of a filter, those that are left."""
    if name == "qdrant-edge":
        pytest.importorskip("qdrant_edge")
    engine = ENGINES[name](tmp_path / "docs", data.queries, new=True)
    ingest(engine, data.batches(0, 1500))
    checker = Checker(data, range(6))
    assert checker.recall(engine, 10) == 1
    assert checker.recall(engine, 10, (0, 1000)) == 1
    engine.delete(list(range(0, 1500, 2)))
    assert checker.recall(engine, 10, alive=np.arange(1500) % 2 == 1) == 1
    assert engine.num_docs() == 750
    engine.close()
    again = ENGINES[name](tmp_path / "docs", data.queries, new=False)
    assert again.num_docs() == 750
    again.close()
