"""The Wikipedia vectors beside the project: documents, queries and given clusters."""

from __future__ import annotations

import importlib.util
import lzma
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

#: The word pieces of BERT, which are the columns of all vectors.
VOCABULARY = 30522
DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "wiki"


def load(folder: Path, clusters: int) -> tuple[sp.csr_matrix, sp.csr_matrix, NDArray[np.uint16] | None]:
    """Return documents, queries, and the labels of a supplied clustering (None if there is none of that size)."""
    spec = importlib.util.spec_from_file_location("read", folder / "read.py")
    if spec is None or spec.loader is None:
        msg = f"expected the wiki vectors in '{folder}'; pass their folder with --wiki"
        raise FileNotFoundError(msg)
    read = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(read)
    labels = folder / f"labels-mx-{clusters}.u16.xz"
    given = np.frombuffer(lzma.decompress(labels.read_bytes()), np.uint16) if labels.exists() else None
    return read.documents(folder=folder), read.queries(folder / "queries.npz")[0], given
