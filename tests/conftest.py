"""Fixtures and generators shared by the tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

SHARED = Path(__file__).resolve().parents[2] / "shared"


def random_docs(
    rng: np.random.Generator, num_docs: int, num_terms: int, mean_terms: float = 6.0, largest: int = 255
) -> sp.csr_matrix:
    """Documents of a few random terms, some without any, with weights that often tie."""
    counts = np.minimum(rng.poisson(mean_terms, num_docs), num_terms)
    rows = np.repeat(np.arange(num_docs), counts)
    columns = np.concatenate([rng.permutation(num_terms)[:c] for c in counts]) if num_docs else np.empty(0, int)
    weights = rng.integers(1, largest + 1, len(rows))
    return sp.csr_matrix((weights, (rows, columns)), shape=(num_docs, num_terms))


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(7)


@pytest.fixture
def shared() -> Path:
    """The folder of real vectors beside the project; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("needs the shared data beside the project")
    return SHARED
