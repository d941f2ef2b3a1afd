"""The oracle on real vectors: 281,250 Wikipedia passages, 3,490 questions (slow, needs the shared data)."""

from __future__ import annotations

import importlib.util
import lzma
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import segmax

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wiki() -> tuple[segmax.Index, sp.csr_matrix]:
    """The collection with its given clusters, and the queries."""
    from conftest import SHARED

    folder = SHARED / "data" / "wiki"
    if not folder.is_dir():
        pytest.skip("needs the wiki vectors beside the project")
    spec = importlib.util.spec_from_file_location("read", folder / "read.py")
    assert spec is not None
    assert spec.loader is not None
    read = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(read)
    labels = np.frombuffer(lzma.decompress((folder / "labels-mx-768.u16.xz").read_bytes()), np.uint16)
    return segmax.build(read.documents(), clusters=labels), read.queries()[0]


@pytest.mark.parametrize("k", [10, 1000])
def test_asc_is_identical_to_exhaustive(wiki: tuple[segmax.Index, sp.csr_matrix], k: int) -> None:
    """μ = η = 1 gives the rows, scores and order of exhaustive search on every query, by either way inside clusters."""
    index, queries = wiki
    exact = index.search_batch(queries, k=k, params=segmax.Exhaustive())
    for params in (
        segmax.ASC(),
        segmax.ASC(sweep=False),
        segmax.ASC(documents="maxscore"),
        segmax.Anytime(sweep=False),
        segmax.MaxScore(),
    ):
        found = index.search_batch(queries, k=k, params=params)
        assert (found.rows == exact.rows).all(), params
        assert (found.scores == exact.scores).all(), params
    # Ties across the last rank are what makes the order matter.
    if k == 1000:
        deeper = index.search_batch(queries, k=k + 1, params=segmax.Exhaustive())
        assert ((deeper.scores[:, k] == deeper.scores[:, k - 1]) & (deeper.counts > k)).sum() > 100


def test_proposition_3_on_real_vectors(wiki: tuple[segmax.Index, sp.csr_matrix]) -> None:
    """The mean top-k' score is at least μ times exact for every k'."""
    index, queries = wiki
    exact = np.cumsum(index.search_batch(queries, k=10, params=segmax.Exhaustive()).scores, axis=1)
    for mu in (0.3, 0.7, 0.9):
        for params in (segmax.ASC(mu=mu), segmax.Anytime(mu=mu)):
            found = np.cumsum(index.search_batch(queries, k=10, params=params).scores, axis=1)
            assert (found >= mu * exact).all()


def test_saved_and_mapped(wiki: tuple[segmax.Index, sp.csr_matrix], tmp_path: Path) -> None:
    """The index on disk answers like the one in memory."""
    index, queries = wiki
    index.save(tmp_path / "wiki")
    with segmax.open(tmp_path / "wiki", verify=True) as mapped:
        assert (mapped.search_batch(queries[:200]).rows == index.search_batch(queries[:200]).rows).all()
